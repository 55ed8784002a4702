"""TLS over real gRPC: who gets in, under which name, and certificates that are renewed."""

from __future__ import annotations

import dataclasses
import logging
import os
import re
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import grpc
import pytest

from streamlink.clock import running_time
from streamlink.config import LinkConfig
from streamlink.errors import (
    AbortCode,
    AuthenticationFailed,
    ConnectFailed,
    SecurityError,
    StreamAborted,
    StreamlinkError,
)
from streamlink.link.client import ClientLink
from streamlink.link.oneshot import receive, send
from streamlink.link.pull import fetch, serve
from streamlink.link.server import Server
from streamlink.model.digest import digest_of
from streamlink.protocol import frames as f
from streamlink.protocol.frames import Attempt
from streamlink.stores.memory import MemoryStore
from streamlink.transport.connect import dial
from streamlink.transport.wire import SessionWire, TransferWire, Wire
from tests.link.test_pull import Server as ModelServer
from tests.support.certificates import Authority, secured
from tests.support.dialing import Dialing
from tests.support.models import content, float_spec, pattern_model
from tests.support.peers import SMALL, WAIT, Federation, echo, exchange_models

SPEC = float_spec(5_001, 0, 3)


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("other"))


@pytest.fixture
def federation(authority: Authority) -> Iterator[Federation]:
    with Federation(authority.server()) as federation:
        yield federation


def swap(federation: Federation, name: str) -> None:
    """Move a model to a client and back over its session."""
    store = MemoryStore()
    exchange = federation.peer(name).request("task", SPEC, attempt=Attempt("job", 0, 1))
    exchange_models(exchange, pattern_model(SPEC), store)
    exchange.close()
    assert content(store.open()) == content(pattern_model(SPEC))


def refused(join: Callable[[], Any], kind: type[StreamlinkError] = AuthenticationFailed) -> str:
    with pytest.raises(kind) as error:
        join()
    return str(error.value)


# --- who gets in --------------------------------------------------------------


def test_models_move_both_ways_where_certificate_and_token_are_right(
    federation: Federation, authority: Authority
) -> None:
    for name in ("site-1", "site-2"):
        federation.link(name, config=authority.site(name))
        swap(federation, name)


def test_one_model_moves_where_only_the_server_is_known_and_a_token_is_right(
    authority: Authority,
) -> None:
    store = MemoryStore()
    port: list[int] = []
    serving = authority.server(ca=None)
    visiting = authority.site(certificate=None, key=None, server_name="server.test")
    with ThreadPoolExecutor(1) as pool:
        heard = pool.submit(receive, store, config=serving, on_listening=port.append, timeout=WAIT)
        while not port and not heard.done():
            pass
        address = f"127.0.0.1:{port[0]}"
        impostor = refused(
            lambda: send(pattern_model(SPEC), address, name="site-2", config=visiting)
        )
        assert "the token is not that of 'site-2'" in impostor
        send(pattern_model(SPEC), address, name="site-1", config=visiting)
        heard.result(WAIT)
    assert content(store.open()) == content(pattern_model(SPEC))


@pytest.mark.parametrize("is_mutual", [False, True], ids=["server", "mutual"])
def test_a_served_model_is_fetched_by_those_alone_who_prove_who_they_are(
    authority: Authority, other: Authority, is_mutual: bool
) -> None:
    without: dict[str, Any] = {"certificate": None, "key": None, "server_name": "server.test"}
    bare = {} if is_mutual else without
    serving = authority.server() if is_mutual else authority.server(ca=None)
    server = ModelServer(pattern_model(SPEC), config=serving, count=1)
    store, right = MemoryStore(), authority.site(**bare)
    mine = partial(fetch, server.address, store, retry=0.0)
    why = refused(lambda: mine(name="site-2", config=right))
    assert "is that of site-1" in why if is_mutual else "not that of 'site-2'" in why
    assert "brought none" in refused(lambda: mine(name="site-1", config=authority.site(token=None)))
    wrong = other.site(**bare)
    assert "certificate" in refused(lambda: mine(name="site-1", config=wrong))
    assert mine(name="site-1", config=right).digest == digest_of(pattern_model(SPEC))
    assert server.done.result(WAIT) == 1
    assert content(store.open()) == content(pattern_model(SPEC))


def test_a_client_is_told_why_it_is_not_believed(
    federation: Federation, authority: Authority, caplog: pytest.LogCaptureFixture
) -> None:
    told = refused(lambda: federation.link("site-2", config=authority.site("site-1")))
    assert "the certificate is that of site-1, not of 'site-2'" in told
    mixed = authority.site(token=authority.folder / "site-2" / "token")
    assert "the token is not that of 'site-1'" in refused(
        lambda: federation.link("site-1", config=mixed)
    )
    bare = authority.site(token=None)
    assert "'site-1' brought none" in refused(lambda: federation.link("site-1", config=bare))
    assert federation.server.peers() == []
    assert "refused 'site-2' at ipv4:127.0.0.1:" in caplog.text


def unreachable(authority: Authority, other: Authority) -> dict[str, tuple[LinkConfig, str]]:
    """Return clients that cannot come through TLS, and what each is told."""
    soon: dict[str, Any] = {"connect_timeout": 1.5}
    there = authority.folder / "site-1"
    return {
        "other CA": (
            authority.site(**soon, ca=other.folder / "server/ca.pem"),
            "not accepted here: .*issuer",
        ),
        "public CAs": (
            secured(**soon, server_name="server.test"),
            "not accepted here: .* public CA",
        ),
        "wrong name": (authority.site(**soon, server_name="else.test"), "Hostname mismatch"),
        "no certificate": (secured(**soon, ca=there / "ca.pem"), "asks for a certificate"),
        "plain text": (secured(**soon), "it takes TLS only"),
        "other's certificate": (
            other.site(**soon, ca=there / "ca.pem"),
            "it does not accept .*certificate.pem",
        ),
    }


def test_who_cannot_come_through_tls_is_told_what_to_look_at(
    federation: Federation, authority: Authority, other: Authority
) -> None:
    def told(config: LinkConfig, why: str) -> None:
        with pytest.raises((AuthenticationFailed, ConnectFailed), match=why):
            ClientLink(federation.address, name="site-1", serve=echo, config=config).start()

    cases = unreachable(authority, other)
    with ThreadPoolExecutor(len(cases)) as pool:
        for case in [pool.submit(told, *each) for each in cases.values()]:
            case.result(WAIT)
    assert federation.server.peers() == []


def test_who_speaks_tls_to_a_server_of_plain_text_is_told_so(authority: Authority) -> None:
    with Federation(SMALL) as federation:
        told = refused(
            lambda: federation.link("site-1", config=authority.site(connect_timeout=1.5)),
            ConnectFailed,
        )
    assert "something listens there, but does not speak TLS (wrong version number)" in told


@pytest.mark.parametrize("case", ["plain text", "other's certificate", "wrong name"])
def test_a_handshake_that_fails_leaves_a_line_with_the_address_at_the_server(
    case: str, authority: Authority, other: Authority, caplog: pytest.LogCaptureFixture
) -> None:
    config, _ = unreachable(authority, other)[case]
    with Federation(authority.server()) as federation:
        here = federation.link("site-1", config=authority.site())
        with pytest.raises((AuthenticationFailed, ConnectFailed)):
            federation.link("site-2", config=config)
        wait_line(caplog, "127.0.0.1 port [0-9]+ was not let in: its TLS handshake failed")
        swap(federation, "site-1")
        assert here.error is None


def test_who_comes_through_tls_and_leaves_is_not_reported_as_a_failed_handshake(
    authority: Authority, caplog: pytest.LogCaptureFixture
) -> None:
    with Federation(authority.server()) as federation:
        federation.link("site-1", config=authority.site())
        swap(federation, "site-1")
    assert "was not let in" not in caplog.text


def wait_line(caplog: pytest.LogCaptureFixture, pattern: str) -> None:
    """Wait until the log has a line; the server looks once a second."""
    until = time.monotonic() + WAIT
    while not re.search(pattern, caplog.text):
        assert time.monotonic() < until, caplog.text
        threading.Event().wait(0.05)


def test_a_site_cannot_pass_for_the_server(authority: Authority) -> None:
    own = authority.folder / "site-2"
    posing = secured(certificate=own / "certificate.pem", key=own / "key.pem")
    trusting = authority.site(connect_timeout=1.5, server_name="site-2")
    with Federation(posing) as federation:
        told = refused(lambda: federation.link("site-1", config=trusting))
    assert re.search("its certificate is not accepted here: .* certificate purpose", told)


# --- calls beside the session ---------------------------------------------------


def answer(authority: Authority, site: str, address: str, first: f.Hello | f.Attach) -> f.Abort:
    """Open one call with the certificate of ``site`` and return how the server ends it."""
    folder = authority.folder / site
    pem = [(folder / name).read_bytes() for name in ("ca.pem", "key.pem", "certificate.pem")]
    is_session = isinstance(first, f.Hello)
    wires: list[Wire] = [SessionWire() if is_session else TransferWire(7) for _ in range(2)]
    method = "/streamlink.v1.Streamlink/" + ("Session" if is_session else "Transfer")
    with grpc.secure_channel(address, grpc.ssl_channel_credentials(*pem)) as channel:
        call = channel.stream_stream(method, None, None)
        (raw,) = call(iter([wires[0].encode(first)]), timeout=WAIT)
        frame = wires[1].decode(raw)
    assert isinstance(frame, f.Abort)
    return frame


def test_a_transfer_must_come_from_the_identity_of_its_session(
    federation: Federation, authority: Authority
) -> None:
    dialing = Dialing()
    federation.link("site-1", config=authority.site(), dial=dialing)
    attach = f.Attach(dialing.sessions[0].session_id, 7)
    stolen = answer(authority, "site-2", federation.address, attach)
    assert stolen.code is AbortCode.UNAUTHENTICATED
    assert "the certificate is that of site-2" in stolen.reason
    own = answer(authority, "site-1", federation.address, attach)
    assert own.code is AbortCode.UNKNOWN_STREAM  # it got as far as the stream
    swap(federation, "site-1")


@pytest.mark.parametrize(
    ("site", "changes"),
    [("site-2", {}), ("site-1", {"token": "0123456789abcdef"}), ("site-1", {"token": ""})],
)
def test_a_session_goes_on_for_its_own_identity_only(
    federation: Federation, authority: Authority, site: str, changes: dict[str, Any]
) -> None:
    dialing = Dialing()
    federation.link("site-1", config=authority.site(), dial=dialing)
    resume = dialing.sessions[0].session_id
    hello = dataclasses.replace(dialing.dialer.hello(), resume=resume, **changes)
    told = answer(authority, site, federation.address, hello)
    assert told.code is AbortCode.UNAUTHENTICATED
    swap(federation, "site-1")  # and the session is none the worse for it


def test_a_session_goes_on_over_new_connections_with_its_identity(
    federation: Federation, authority: Authority
) -> None:
    dialing = Dialing()
    link = federation.link("site-1", config=authority.site(), dial=dialing)
    dialing.dialer.renew()
    swap(federation, "site-1")
    assert link.error is None


# --- renewal ----------------------------------------------------------------------


def put(source: Path, target: Path) -> None:
    beside = target.with_name("beside")
    beside.write_bytes(source.read_bytes())
    os.replace(beside, target)


@pytest.fixture
def live(tmp_path: Path) -> Authority:
    """An authority of this test alone, whose files it may replace."""
    return Authority(tmp_path)


def test_certificates_are_renewed_under_a_running_server(
    live: Authority, other: Authority, caplog: pytest.LogCaptureFixture
) -> None:
    # Streams beside the session: over a data port each has a connection of its own, which is
    # checked anew, so that both ends have to trust each other's files at every moment.
    settings = live.server()
    beside = settings.stream.model_copy(update={"data_listen": ("none",)})
    with Federation(settings.model_copy(update={"stream": beside})) as federation:
        old = federation.link("site-1", config=live.site())
        swap(federation, "site-1")
        serving, new = live.folder / "server", other.folder / "server"
        put(new / "certificate.pem", serving / "certificate.pem")  # and not the key, so far
        federation.link("site-2", config=live.site("site-2")).close()
        federation.wait_left("site-2")
        assert "the server's certificate stays as it was" in caplog.text
        for name in ("key.pem", "ca.pem", "tokens.yaml"):
            put(new / name, serving / name)
        federation.link("site-2", config=other.site("site-2"))  # trusts the new CA only
        assert "the server's certificate was renewed" in caplog.text
        swap(federation, "site-2")
        swap(federation, "site-1")
        assert old.error is None


def test_a_client_reads_its_files_anew_for_new_connections(
    live: Authority, other: Authority, caplog: pytest.LogCaptureFixture
) -> None:
    with Federation(live.server(tokens=None)) as federation:
        dialing = Dialing()
        federation.link("site-1", config=live.site(), dial=dialing)
        for folder in ("server", "site-1"):
            for name in ("certificate.pem", "key.pem", "ca.pem"):
                put(other.folder / folder / name, live.folder / folder / name)
        dialing.dialer.renew()
        swap(federation, "site-1")
        assert "this end's certificate was renewed" in caplog.text


# --- plain text ---------------------------------------------------------------------


def test_plain_text_stays_on_this_machine_unless_it_is_asked_for_by_name(
    caplog: pytest.LogCaptureFixture,
) -> None:
    away = "server.test:8517"
    for attempt in (
        Server("0.0.0.0:0", SMALL).listen,
        lambda: receive(MemoryStore(), "0.0.0.0:0"),
        ClientLink(away, name="site-1", serve=echo).start,
        lambda: send(pattern_model(SPEC), away),  # and it is not tried again for a minute
        lambda: serve(pattern_model(SPEC), "0.0.0.0:0"),
        lambda: fetch(away, MemoryStore()),
    ):
        assert "nothing here is encrypted" in refused(attempt, SecurityError)
    with Server("0.0.0.0:0", secured(insecure=True)) as server:
        port = server.port
        ClientLink(server.address, name="site-1", serve=echo).start().close()
    warned = [each.message for each in caplog.records if each.levelno == logging.WARNING]
    assert [each.partition(",")[0] for each in warned] == [f"plain text at 0.0.0.0:{port}"]


def test_tokens_are_asked_for_on_the_loopback_too(authority: Authority) -> None:
    tokens = authority.folder / "server" / "tokens.yaml"
    with Federation(secured(tokens=tokens)) as federation:
        federation.link("site-1", config=secured(token=authority.folder / "site-1" / "token"))
        assert "brought none" in refused(lambda: federation.link("site-2", config=SMALL))


def _listen(config: LinkConfig) -> None:
    Server("127.0.0.1:0", config).listen()


def test_files_that_do_not_fit_are_refused_before_anything_listens(authority: Authority) -> None:
    keys = authority.folder / "site-1" / "key.pem"
    lonely = authority.folder / "server" / "ca.pem"
    for config, why in (
        (authority.server(key=keys), "do not belong together"),
        (authority.server(certificate=keys), "do not belong together or are no PEM files"),
        (authority.server(ca=keys), "holds no certificates"),
        (authority.server(tokens=keys), "tokens"),
        (authority.server(key=authority.folder / "none"), "No such file"),
        (secured(ca=lonely), "takes one of the server's own"),
    ):
        told = refused(partial(_listen, config), SecurityError)
        assert why in told
        assert keys.read_text() not in told


def test_an_abort_for_identity_reaches_programs_as_such(
    federation: Federation, authority: Authority
) -> None:
    client = dial(federation.address, authority.site("site-2"), name="site-1", clock=running_time)
    with pytest.raises(AuthenticationFailed) as refused:
        client.connect(lambda session, request: None)
    assert refused.value.code is AbortCode.UNAUTHENTICATED
    assert not isinstance(refused.value, StreamAborted)
    client.close()

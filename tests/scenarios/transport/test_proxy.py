"""A client process behind an HTTP proxy: gRPC's own environment variables, with TLS and without."""

from __future__ import annotations

from pathlib import Path

import pytest

from streamlink.copying import copy_model, digest_of
from tests.support.certificates import Authority
from tests.support.commands import Command, environment, streamlink
from tests.support.models import float_spec, pattern_model
from tests.support.proxy import Proxy

pytestmark = pytest.mark.processes

MODEL = pattern_model(float_spec(50_001, 3))


def send_through(proxy: Proxy, folder: Path, serving: list[object], sending: list[object]) -> str:
    """Send a model from a process with ``proxy`` in its environment; returns where to."""
    copy_model(MODEL, folder / "model")
    env = {**environment(), "grpc_proxy": f"http://127.0.0.1:{proxy.port}"}
    for name in ("no_proxy", "no_grpc_proxy", "https_proxy", "http_proxy"):
        env.pop(name, None)
    receive = streamlink("receive", folder / "copy", "--listen", "127.0.0.1:0", *serving)
    with Command(receive, folder) as receiver:
        address = receiver.until(r"listening on (127.0.0.1:\d+)")[1]
        words = streamlink("send", folder / "model", address, "--name", "site-1", *sending)
        with Command([*words, "--retry", "0"], folder, env) as sender:
            assert sender.end() == 0, sender.log
        assert receiver.end() == 0, receiver.log
    assert digest_of(folder / "copy") == digest_of(MODEL)
    return address


def pair(folder: Path) -> list[object]:
    files = {"--certificate": "certificate.pem", "--key": "key.pem", "--ca": "ca.pem"}
    return [word for flag, name in files.items() for word in (flag, folder / name)]


def test_a_client_with_tls_goes_through_a_proxy(tmp_path: Path) -> None:
    made = Authority(tmp_path / "certs").folder
    serving = [*pair(made / "server"), "--tokens", made / "server" / "tokens.yaml"]
    sending = [*pair(made / "site-1"), "--token", made / "site-1" / "token"]
    with Proxy() as proxy:
        address = send_through(proxy, tmp_path, serving, sending)
        assert set(proxy.asked) == {address}
        assert proxy.carried[0] > MODEL.spec.nbytes


@pytest.mark.parametrize(("sending", "is_through"), [(["--insecure"], True), ([], False)])
def test_plain_text_goes_through_a_proxy_only_where_it_may_leave_this_machine(
    tmp_path: Path, sending: list[object], is_through: bool
) -> None:
    with Proxy() as proxy:
        send_through(proxy, tmp_path, [], sending)
        assert bool(proxy.asked) is is_through
        assert (proxy.carried[0] > MODEL.spec.nbytes) is is_through

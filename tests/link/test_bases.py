"""Kept versions as the bases of one stream: who keeps what comes, and whose word counts."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from streamlink.clock import running_time
from streamlink.errors import AbortCode, ChecksumError, StreamAborted
from streamlink.link.bases import Base, Bases
from streamlink.link.receive_model import receive_model
from streamlink.link.receive_transfer import ReceiveTransfer
from streamlink.link.send_model import send_model
from streamlink.link.send_transfer import SendTransfer
from streamlink.link.server import Server
from streamlink.model.digest import digest_of
from streamlink.model.interfaces import ModelSource
from streamlink.protocol.frames import Attempt, Request
from streamlink.stores.memory import MemoryStore
from streamlink.stores.versions import Versions
from streamlink.transport.connect import dial
from streamlink.transport.session import Session
from tests.support.disk import flip_unnoticed
from tests.support.joined_pumps import Transfer, failure
from tests.support.models import content, float_spec, pattern_model
from tests.support.peers import WAIT, Federation, config, exchange_models, until

SPEC = float_spec(15_000, 10)
MODEL = pattern_model(SPEC)
DIGEST = digest_of(MODEL)
DELTA = config(stream={"encodings": ("delta",)})


@pytest.fixture
def ends(tmp_path: Path) -> Iterator[tuple[Bases, Bases]]:
    """What two ends have kept: nothing yet."""
    with (
        Versions(tmp_path, "server", "sender", most=2, most_bytes=1 << 24) as sender,
        Versions(tmp_path, "kept-client", "receiver", most=2, most_bytes=1 << 24) as receiver,
    ):
        yield Bases(sender, "job"), Bases(receiver, "job")


def keep(bases: Bases, model: ModelSource = MODEL, *, digest: str = DIGEST) -> None:
    writer = bases.begin(model.spec.digest, model.spec.nbytes)
    assert writer is not None
    writer.add(memoryview(content(model)))
    writer.commit(digest)


@pytest.mark.parametrize("keeps", [True, False])
def test_a_model_is_kept_only_where_its_receiver_keeps_it_too(
    ends: tuple[Bases, Bases], keeps: bool
) -> None:
    """A server keeps no update: else its clients would decide what is on its disk."""
    with Transfer(SPEC, DELTA, bases=(None, ends[1]), keeps=keeps) as transfer:
        transfer.run(MODEL, MemoryStore().begin(SPEC))
    assert ends[1].digests(SPEC.digest) == ((DIGEST,) if keeps else ())


def test_what_is_not_kept_pushes_out_nothing(tmp_path: Path) -> None:
    other = pattern_model(float_spec(20_000, 1))
    with Versions(tmp_path, "kept-client", "it", most=2, most_bytes=other.spec.nbytes) as versions:
        bases = Bases(versions, "job")
        keep(bases, other)
        with Transfer(SPEC, DELTA, bases=(None, bases)) as transfer:
            transfer.run(MODEL, MemoryStore().begin(SPEC))
        assert bases.digests(other.spec.digest) == (DIGEST,)


@pytest.mark.parametrize("is_shared", [True, False])
def test_a_base_that_gave_another_digest_is_used_no_more_with_that_peer(
    ends: tuple[Bases, Bases], is_shared: bool
) -> None:
    """Where it is shared with other peers, they go on with it: this one may be lying."""
    for end in ends:
        keep(end, MODEL if end is ends[0] else pattern_model(SPEC, seed=1))  # with one digest
    used = [Bases(end.versions, end.owner, doubted=set() if is_shared else None) for end in ends]
    with Transfer(SPEC, DELTA, bases=(used[0], used[1])) as transfer:
        sent, received = transfer.start(MODEL, MemoryStore().begin(SPEC))
        assert isinstance(failure(received), ChecksumError)
        error = failure(sent)
    assert isinstance(error, StreamAborted)
    assert error.code is AbortCode.DIGEST_MISMATCH
    for mine, of_all in zip(used, ends, strict=True):
        assert mine.digests(SPEC.digest) == ()
        assert mine.get(DIGEST, SPEC.digest) is None
        assert of_all.digests(SPEC.digest) == ((DIGEST,) if is_shared else ())


@pytest.mark.parametrize("has_changed", [True, False])
def test_a_shared_base_is_hashed_again_when_it_seems_wrong(
    ends: tuple[Bases, Bases], has_changed: bool
) -> None:
    of_all, _ = ends
    keep(of_all)
    mine = replace(of_all, doubted=set())
    base = mine.get(DIGEST, SPEC.digest)
    assert base is not None
    if has_changed:
        flip_unnoticed(base.version.path, 5000, 64)
    mine.doubt(base, "the test says so")
    until(lambda: not any(each.name == "prove" for each in threading.enumerate()))
    assert of_all.digests(SPEC.digest) == (() if has_changed else (DIGEST,))


def test_a_server_keeps_no_update_whatever_its_client_says(ends: tuple[Bases, Bases]) -> None:
    keep(ends[0])
    with Server(config=DELTA) as server, closing(_Liar(server.address)):
        (peer,) = server.wait_for_peers(1, WAIT)
        exchange = peer.request("train", SPEC, attempt=Attempt("job", 1, 1), bases=ends[0])
        other = pattern_model(SPEC, seed=1)
        sent, received = exchange_models(exchange, other, MemoryStore())
        assert sent.digest == digest_of(other)
        assert received.digest == digest_of(pattern_model(SPEC, seed=2))
    assert ends[0].digests(SPEC.digest) == (DIGEST,)


def test_a_client_names_and_accepts_what_it_has_from_this_server_and_of_this_job_alone(
    tmp_path: Path,
) -> None:
    """It has one directory for all of them; a server is told from others by its address."""
    kept = {"encodings": ("delta",), "kept": tmp_path, "kept_versions": 7}
    with (
        Versions(tmp_path, "server", "all", most=7, most_bytes=1 << 24) as versions,
        Federation(DELTA) as one,
        Federation(DELTA) as another,
    ):
        heard: list[set[str]] = []
        bases = _recording(heard)(versions, "job")
        models = [pattern_model(SPEC, seed=seed) for seed in range(5)]
        told = [digest_of(model) for model in models]
        for model, server, job in zip(
            models,
            (one, another, one, one, another),
            ("job", "job", "other", "job", "other"),
            strict=True,
        ):
            heard.append(set())
            client = server.link("site-1", config=config(stream=kept))
            exchange = server.peer("site-1").request(
                "train", SPEC, attempt=Attempt(job, 1, 1), bases=bases
            )
            exchange_models(exchange, model, MemoryStore())
            client.close()
            server.wait_left("site-1")
            keep(bases, model, digest=digest_of(model))  # so the next one is offered all of them
    assert heard == [{told[0]}, {told[1]}, {told[2]}, {told[0], told[3]}, {told[4]}]


def _recording(heard: list[set[str]]) -> type[Bases]:
    """Return the kept versions of a server that writes down which digests a client says."""

    class Recording(Bases):
        def first_of(self, digests: Sequence[str], spec_digest: bytes) -> Base | None:
            heard[-1].update(digests)
            return super().first_of(digests, spec_digest)

        def get(self, digest: str, spec_digest: bytes) -> Base | None:
            heard[-1].add(digest)
            return super().get(digest, spec_digest)

    return Recording


class _Liar:
    """A client that announces its update as one that both ends keep."""

    def __init__(self, address: str) -> None:
        self._dialer = dial(address, DELTA, clock=running_time, name="site-1")
        self._dialer.connect(
            lambda *asked: threading.Thread(target=self._answer, args=asked, daemon=True).start()
        )

    def _answer(self, session: Session, request: Request) -> None:
        model = ReceiveTransfer(
            DELTA, clock=running_time, stream_id=request.sends, peer_name="server", name="model"
        )
        model.hand_to(partial(self._dialer.open_transfer, session))
        receive_model(model, lambda model: MemoryStore().begin(model.spec))
        update = SendTransfer(
            DELTA,
            SPEC,
            clock=running_time,
            stream_id=request.returns,
            peer_name="server",
            name="update",
            attempt=request.attempt,
            is_kept=True,
        )
        update.hand_to(partial(self._dialer.open_transfer, session))
        send_model(update, pattern_model(SPEC, seed=2))
        session.reply(request)

    def close(self) -> None:
        self._dialer.close()

"""What becomes of each transfer: facts for who embeds the library, a line in the log."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from streamlink import TransferFacts, digest_of, receive, send
from streamlink.clock import running_time
from streamlink.config import RoundConfig
from streamlink.errors import AbortCode, StreamAborted, StreamlinkError
from streamlink.executors.client import Client
from streamlink.executors.streaming import StreamingExecutor
from streamlink.extent import Extent
from streamlink.link.assignment import Assignment
from streamlink.link.send_model import send_model
from streamlink.link.transfer_facts import TransferNotice
from streamlink.model.computed import GeneratedModel
from streamlink.model.spec import ModelSpec, TensorSpec
from streamlink.protocol.frames import Attempt
from streamlink.protocol.stats import StreamStats
from streamlink.rounds.controller import ScatterAndGather
from streamlink.stores.memory import MemoryStore
from tests.support.peers import ODD, SMALL, WAIT, Array, Federation, executor, initial

ONE = RoundConfig(min_clients=1, num_rounds=1)
MOVED = StreamStats(
    total_bytes=1000, sent_bytes=1000, received_bytes=1000, consumed_bytes=1000,
    chunks=4, repairs=1, resent_bytes=0,
    resumes=2, window_bytes=0, chunk_bytes=0, rate=0.0,
    moving_seconds=0.25, moving_bytes=500_000, carrier="tcp",
)  # fmt: skip

FACTS = (
    "round=3 attempt=2 bytes=1000 seconds=0.25 chunks=4 repairs=1 resumes=2 carrier=tcp rate=2MB/s"
)


class Told:
    """Keeps what it is told, and says when so much has come."""

    def __init__(self) -> None:
        self._facts: list[TransferFacts] = []
        self._changed = threading.Condition()

    def __call__(self, facts: TransferFacts) -> None:
        with self._changed:
            self._facts.append(facts)
            self._changed.notify_all()

    def wait(self, count: int) -> dict[str, TransferFacts]:
        with self._changed:
            assert self._changed.wait_for(lambda: len(self._facts) >= count, WAIT)
            assert len(self._facts) == count
            return {each.direction: each for each in self._facts}


@pytest.fixture
def server_told() -> Told:
    return Told()


@pytest.fixture
def federation(server_told: Told) -> Iterator[Federation]:
    with Federation(on_transfer=server_told) as federation:
        yield federation


def test_both_ends_of_a_round_are_told_each_of_its_transfers(
    federation: Federation, server_told: Told
) -> None:
    client_told = Told()
    work = executor(1)
    with Client(federation.address, "site-1", work, SMALL, on_transfer=client_told):
        ScatterAndGather(federation.server, MemoryStore(initial()), ONE, job="j").run()
        there, here = client_told.wait(2), server_told.wait(2)
    for facts, peer in ((there, "server"), (here, "site-1")):
        assert {each.peer_name for each in facts.values()} == {peer}
        assert {each.attempt for each in facts.values()} == {Attempt("j", 0, 1)}
        assert {each.outcome for each in facts.values()} == {"done"}
        assert {(each.bytes, each.total_bytes) for each in facts.values()} == {(ODD.nbytes,) * 2}
        assert all(0 <= each.seconds <= each.lasted_seconds for each in facts.values())
    assert here["sent"].digest == there["received"].digest == digest_of(initial())
    assert here["received"].digest == there["sent"].digest != here["sent"].digest


def test_a_transfer_that_fails_on_its_way_is_told_with_its_error(
    federation: Federation, server_told: Told
) -> None:
    def work(tensor: TensorSpec, start: int, values: Array) -> Array:
        if tensor.name == "bf16":
            raise ValueError("no such luck")
        return values

    client_told = Told()
    broken = StreamingExecutor(work)
    with Client(federation.address, "site-1", broken, SMALL, on_transfer=client_told):
        with pytest.raises(StreamlinkError):
            ScatterAndGather(federation.server, MemoryStore(initial()), ONE).run()
        here, there = server_told.wait(2), client_told.wait(2)
    for facts in (*here.values(), *there.values()):
        assert (facts.outcome, facts.digest) == ("failed", "")
    assert here["received"].bytes < here["received"].total_bytes
    assert "no such luck" in str(there["sent"].error)


def test_a_transfer_given_up_with_its_exchange_has_failed(server_told: Told) -> None:
    spec = ModelSpec((TensorSpec("w", "F32", (1 << 18,)),))  # more than a window
    source = GeneratedModel(spec, lambda tensor, start, out: out.fill(0))
    never_read = threading.Event()

    def serve(assignment: Assignment) -> None:
        model = assignment.incoming()
        model.open()
        answer = assignment.outgoing(model.spec)
        with pytest.raises(StreamAborted, match="closed the exchange"):
            send_model(answer, source)
        never_read.set()

    with Federation(on_transfer=server_told) as federation:
        federation.link("site-1", serve)
        exchange = federation.peer("site-1").request("train", spec, attempt=Attempt("job", 1, 1))
        room = exchange.outgoing.wait_room()
        assert room is not None
        exchange.outgoing.write(0, source.read(0, room[1]))
        assert exchange.incoming.open(WAIT)
        assert exchange.incoming.read(WAIT) is not None
        exchange.close()
        facts = server_told.wait(2)
        assert {each.outcome for each in facts.values()} == {"failed"}
        assert "closed the exchange" in str(facts["received"].error)
        assert never_read.wait(WAIT)


def test_what_a_listener_raises_is_logged_and_changes_nothing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def broken(facts: TransferFacts) -> None:
        raise ValueError("not today")

    store = MemoryStore(initial())
    with Federation(on_transfer=broken) as federation:
        federation.client("site-1", executor(1))
        federation.peer("site-1")
        (report,) = ScatterAndGather(federation.server, store, ONE).run()
    assert set(report.weights) == {"site-1"}
    assert caplog.text.count("on_transfer raised for a transfer with site-1") == 2


def test_one_model_between_two_ends_is_told_at_both() -> None:
    model = {"w": np.arange(100_000, dtype=np.float32)}
    received, sent, port = Told(), Told(), threading.Event()
    found: list[int] = []

    def listens(number: int) -> None:
        found.append(number)
        port.set()

    def take() -> None:
        receive({"w": np.zeros(100_000, np.float32)}, on_listening=listens, on_transfer=received)

    threading.Thread(target=take, daemon=True).start()
    assert port.wait(WAIT)
    address = f"127.0.0.1:{found[0]}"
    send(model, address, name="site-7", on_transfer=sent)
    here, there = sent.wait(1)["sent"], received.wait(1)["received"]
    assert (here.peer_name, there.peer_name) == (address, "site-7")
    assert (here.attempt, there.attempt) == (None, None)
    assert here.bytes == there.bytes == 400_000
    assert here.digest == there.digest == digest_of(model)


# --- from snapshots ---------------------------------------------------------------------


def facts_of(stats: StreamStats, *, error: StreamlinkError | None = None) -> Any:
    told: list[TransferFacts] = []
    notice = TransferNotice(
        "site-1", "received", Attempt("job", 3, 2), told.append, clock=running_time
    )
    for _ in range(2):  # whoever notices the end says so, and the second is not heard
        if error is None:
            notice.done(stats, "d1")
        else:
            notice.failed(stats, error)
    assert len(told) <= 1
    return told[0] if told else None


def test_the_rate_is_that_of_the_time_in_which_bytes_moved() -> None:
    facts = facts_of(MOVED)
    assert (facts.seconds, facts.rate, facts.digest) == (0.25, 2e6, "d1")
    assert (facts.chunks, facts.repairs, facts.resumes) == (4, 1, 2)


def test_bytes_that_were_there_before_are_not_counted() -> None:
    assert facts_of(replace(MOVED, extent=Extent(600, 1000))).bytes == 400


def test_what_fails_before_its_first_chunk_is_no_transfer() -> None:
    error = StreamAborted(AbortCode.CANCELLED, "no", by_peer=False)
    assert facts_of(replace(MOVED, chunks=0), error=error) is None
    assert facts_of(MOVED, error=error).error is error


def test_the_log_says_from_the_readers_side_who_and_how_fast(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG, "streamlink.transfer")
    facts_of(MOVED)
    TransferNotice("site-2", "sent", clock=running_time).done(
        replace(MOVED, moving_seconds=0.0), "d2"
    )
    error = StreamAborted(AbortCode.CANCELLED, "no", by_peer=False)
    facts_of(MOVED, error=error)
    assert caplog.messages == [
        f"transfer done ← site-1 {FACTS}",
        "transfer done → site-2 bytes=1000 seconds=0 chunks=4 repairs=1 resumes=2 carrier=tcp",
        f"transfer failed ← site-1 {FACTS}: {error}",
    ]


def test_a_log_made_of_json_has_the_facts_by_name(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "streamlink.transfer")
    facts_of(MOVED)
    (record,) = caplog.records
    assert record.__dict__["event"] == "transfer done"
    facts = dict(record.__dict__["facts"])
    assert facts.pop("lasted_seconds") >= 0
    assert facts == {
        "peer": "site-1", "direction": "received", "round": 3, "attempt": 2, "bytes": 1000,
        "seconds": 0.25, "rate_bytes_per_second": 2_000_000, "chunks": 4, "repairs": 1,
        "resumes": 2, "carrier": "tcp", "digest": "d1",
    }  # fmt: skip

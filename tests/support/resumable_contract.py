"""What every store that resumes interrupted transfers must do."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from streamlink.model.interfaces import Preparing, ResumableSink, ResumableStore
from tests.support.models import content, float_spec, pattern_model, save

MiB = 1 << 20


class ResumableContract:
    """A subclass gives ``stores``: a function that opens the same store anew, empty at first."""

    spec = float_spec(5, 3 * MiB // 4, 0, 3 * MiB // 2, 3)
    stop = 5 * MiB + 7
    """Where the transfers of these tests are interrupted."""

    @pytest.fixture
    def stores(self) -> Callable[[], ResumableStore]:
        raise NotImplementedError

    @pytest.fixture
    def data(self) -> bytes:
        return content(pattern_model(self.spec))

    def test_it_is_a_resumable_store(self, stores: Callable[[], ResumableStore]) -> None:
        assert isinstance(stores(), ResumableStore)

    def test_a_resumed_transfer_has_what_was_durable_and_can_be_completed(
        self, stores: Callable[[], ResumableStore], data: bytes
    ) -> None:
        durable = self.interrupted(stores, data)
        assert 0 < durable <= self.stop
        sink = self.resumed(stores)
        assert sink.durable == durable
        assert b"".join(map(bytes, sink.saved())) == data[:durable]
        write(sink, data, durable, len(data))
        sink.commit()
        self.check(stores, data)

    def test_a_resumed_transfer_can_be_prepared(
        self, stores: Callable[[], ResumableStore], data: bytes
    ) -> None:
        old = save(stores(), pattern_model(self.spec, seed=4))
        durable = self.interrupted(stores, data)
        sink = self.resumed(stores)
        write(sink, data, durable, len(data))
        assert isinstance(sink, Preparing)
        sink.prepare()
        self.check(stores, old)
        sink.commit()
        self.check(stores, data)

    def test_the_old_model_stays_while_a_transfer_is_suspended(
        self, stores: Callable[[], ResumableStore], data: bytes
    ) -> None:
        old = save(stores(), pattern_model(self.spec, seed=4))
        self.interrupted(stores, data)
        self.check(stores, old)

    def test_a_transfer_is_found_by_its_identity_and_its_spec(
        self, stores: Callable[[], ResumableStore], data: bytes
    ) -> None:
        self.interrupted(stores, data)
        assert stores().resume(self.spec.digest, "another") is None
        assert stores().resume(float_spec(7).digest, "one") is None
        assert stores().resume(self.spec.digest, "") is None
        self.resumed(stores).suspend()

    def test_a_transfer_without_an_identity_is_not_kept(
        self, stores: Callable[[], ResumableStore], data: bytes
    ) -> None:
        sink = stores().begin(self.spec)
        write(sink, data, 0, self.stop)
        sink.suspend()
        assert stores().resume(self.spec.digest, "") is None

    @pytest.mark.parametrize("is_committed", [False, True])
    def test_a_transfer_that_has_ended_is_not_resumed(
        self, stores: Callable[[], ResumableStore], data: bytes, is_committed: bool
    ) -> None:
        durable = self.interrupted(stores, data)
        sink = self.resumed(stores)
        if is_committed:
            write(sink, data, durable, len(data))
            sink.commit()
        else:
            sink.discard()
        assert stores().resume(self.spec.digest, "one") is None

    def interrupted(self, stores: Callable[[], ResumableStore], data: bytes) -> int:
        """Suspend a transfer at ``stop``; return how much of it is durable."""
        sink = stores().begin(self.spec, "one")
        write(sink, data, 0, self.stop)
        sink.suspend()
        return sink.durable

    def resumed(self, stores: Callable[[], ResumableStore]) -> ResumableSink:
        sink = stores().resume(self.spec.digest, "one")
        assert sink is not None
        return sink

    def check(self, stores: Callable[[], ResumableStore], data: bytes) -> None:
        """Compare the store's model with ``data``."""
        source = stores().open()
        assert content(source) == data
        source.close()


def write(sink: ResumableSink, data: bytes, start: int, stop: int, piece: int = 300_000) -> None:
    for at in range(start, stop, piece):
        sink.write(at, memoryview(data)[at : min(at + piece, stop)])

"""A model that is written to while it is sent: told at both ends, nothing of it is kept."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import safetensors.numpy

import streamlink
from streamlink.errors import AbortCode, SourceChanged, StreamAborted, code_of
from streamlink.link.oneshot import send
from streamlink.link.throttle import ThrottledCheck
from streamlink.model.digest import digest_of
from streamlink.model.interfaces import Check, ModelSource, watch
from streamlink.model.spec import ModelSpec
from streamlink.protocol import frames as f
from streamlink.stores import ArrayModel, CompressedStore, MemoryStore, SafetensorsStore, open_model
from tests.link.test_oneshot import FAST, Receiver
from tests.support.joined_pumps import Transfer, failure
from tests.support.models import arrays_of, float_spec, pattern_model, random_bytes, save
from tests.support.peers import WAIT
from tests.support.virtual_clock import VirtualClock

MiB = 1 << 20
SPEC = float_spec(5, MiB // 2, MiB // 2)
"""4 MiB in three tensors."""
MIDDLE = 2 * MiB
LITTLE = float_spec(300)
TINY = float_spec(5_000)


def rewritten(path: Path) -> None:
    """Change a byte near the end, in place."""
    with path.open("r+b") as file:
        file.seek(path.stat().st_size - 300)
        file.write(b"\xa5\x5a")


def cut(path: Path) -> None:
    os.truncate(path, path.stat().st_size - 4096)


def grown(path: Path) -> None:
    with path.open("ab") as file:
        file.write(b"more")


def replaced(path: Path) -> None:
    aside = path.with_name("aside")
    aside.write_bytes(path.read_bytes())
    aside.replace(path)


def foreign(path: Path, spec: ModelSpec = SPEC) -> Path:
    """Write a model as other tools do: one file without digests, some time ago."""
    arrays = arrays_of(spec, random_bytes(spec.nbytes))
    file = path / "weights.safetensors"
    safetensors.numpy.save_file(arrays, file)
    os.utime(file, (1e9, 1e9))
    return file


def stored(path: Path, spec: ModelSpec = SPEC) -> Path:
    save(SafetensorsStore(path / "own"), pattern_model(spec))
    (shard,) = (path / "own").glob("*.safetensors")
    os.utime(shard, (1e9, 1e9))
    return shard


def packed(path: Path, spec: ModelSpec = SPEC) -> Path:
    file = path / "own.slz"
    store = CompressedStore(file, reserve_bytes=0)
    save(store, ArrayModel(arrays_of(spec, random_bytes(spec.nbytes))))
    os.utime(file, (1e9, 1e9))
    return file


def at_middle(act: Callable[[], object]) -> Callable[..., None]:
    """Return a progress function that acts once half of the model was asked for."""
    acts = [act]

    def told(peer: str, phase: str, done: int, total: int) -> None:
        if phase == "sending" and done >= MIDDLE and acts:
            acts.pop()()

    return told


@pytest.fixture
def receiver(tmp_path: Path) -> Receiver:
    return Receiver(SafetensorsStore(tmp_path / "into"))


def require_refused(
    model: Any, receiver: Receiver, act: Callable[[], object], **options: Any
) -> SourceChanged:
    with pytest.raises(SourceChanged) as caught:
        streamlink.send(
            model, receiver.address, config=FAST, retry=0, progress=at_middle(act), **options
        )
    return caught.value


def require_nothing_kept(
    receiver: Receiver, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The receiver was told why, and the next model finds nothing of the one before."""
    fresh = pattern_model(SPEC, 3)
    send(fresh, receiver.address, config=FAST)
    receipt = receiver.done.result(WAIT)
    assert (receipt.digest, receipt.resumed_at) == (digest_of(fresh), 0)
    (why,) = (each.getMessage() for each in caplog.records if "next sender" in each.getMessage())
    assert "(source_changed): " in why
    assert not list((tmp_path / "into").glob("*.part*"))
    assert not any("another transfer" in each.getMessage() for each in caplog.records)


@pytest.mark.product
@pytest.mark.parametrize(
    ("make", "change"),
    [
        *((foreign, change) for change in (rewritten, cut, grown, replaced)),
        *((stored, change) for change in (rewritten, cut)),
        *((packed, change) for change in (rewritten, cut)),
    ],
)
def test_a_file_that_changes_under_its_transfer_is_told_at_both_ends(
    receiver: Receiver,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    make: Callable[[Path], Path],
    change: Callable[[Path], None],
) -> None:
    file = make(tmp_path)
    source = open_model(file.parent if make is stored else file)
    error = require_refused(source, receiver, lambda: change(file))
    assert error.path == str(file)
    assert code_of(error) is AbortCode.SOURCE_CHANGED
    require_nothing_kept(receiver, tmp_path, caplog)
    source.close()


class ChangedLate:
    """A model of one chunk that changes once it was looked at after that was read."""

    def __init__(self, model: ModelSource, change: Callable[[], object]) -> None:
        self.spec, self._model, self._changes = model.spec, model, [change]

    def watch(self) -> Check:
        check = watch(self._model)

        def look() -> None:
            check()
            while self._changes:
                self._changes.pop()()

        return look

    def read(self, offset: int, length: int) -> Any:
        return self._model.read(offset, length)

    def close(self) -> None:
        pass


@pytest.mark.parametrize("make", [foreign, stored, packed])
def test_a_file_that_changes_after_its_last_byte_was_read_is_told_before_the_finish(
    receiver: Receiver,
    tmp_path: Path,
    make: Callable[[Path, ModelSpec], Path],
) -> None:
    file = make(tmp_path, LITTLE)
    source = open_model(file.parent if make is stored else file)
    late = ChangedLate(source, lambda: grown(file))
    with pytest.raises(SourceChanged, match=r"changed from .* to .* bytes"):
        send(late, receiver.address, config=FAST, retry=0)
    assert not receiver.done.done()
    source.close()


@pytest.mark.parametrize("make", [stored, packed])
def test_a_store_whose_model_is_replaced_meanwhile_sends_the_whole_old_one(
    receiver: Receiver, tmp_path: Path, make: Callable[[Path], Path]
) -> None:
    file = make(tmp_path)
    store = SafetensorsStore(file.parent) if make is stored else CompressedStore(file)
    source = store.open()
    new = pattern_model(SPEC, 8)
    receipt = streamlink.send(
        source, receiver.address, config=FAST, progress=at_middle(lambda: save(store, new))
    )
    assert receipt.digest == source.digest() != digest_of(new)
    source.close()


@pytest.mark.parametrize("change", [rewritten, cut])
def test_a_model_that_changes_under_a_copy_or_a_digest_is_told(
    tmp_path: Path, change: Callable[[Path], None]
) -> None:
    file, into = foreign(tmp_path), tmp_path / "into"
    calls: list[int] = []

    def progress(done: int) -> None:
        if not calls:
            change(file)
        calls.append(done)

    with pytest.raises(SourceChanged):
        streamlink.copy_model(file, into, progress=progress)
    assert not into.exists()
    calls.clear()
    file = foreign(tmp_path)
    with pytest.raises(SourceChanged):
        streamlink.digest_of(file, progress=progress)


# --- tensors and arrays -------------------------------------------------------------------------


@pytest.mark.slow
def test_an_optimizers_step_under_a_transfer_is_told_with_the_tensor(
    receiver: Receiver, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    torch = pytest.importorskip("torch")
    frozen = torch.nn.Parameter(torch.zeros(MiB // 2), requires_grad=False)
    module = torch.nn.ParameterDict({"a": frozen, "b": torch.nn.Parameter(torch.ones(MiB // 2))})
    optimizer = torch.optim.SGD(module.parameters(), lr=0.5)
    module["b"].grad = torch.ones(MiB // 2)
    error = require_refused(module, receiver, optimizer.step)
    assert error.tensor == "b"
    require_nothing_kept(receiver, tmp_path, caplog)


def test_an_array_that_changes_under_a_guarded_transfer_is_told_with_tensor_and_byte(
    receiver: Receiver, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    arrays = arrays_of(SPEC, random_bytes(SPEC.nbytes))

    def act() -> None:
        arrays["t2"][-1] = 3

    error = require_refused(arrays, receiver, act, guard=True)
    assert (error.tensor, error.inside) == ("t2", 2 * MiB - 20)
    require_nothing_kept(receiver, tmp_path, caplog)


def test_a_guarded_transfer_sends_the_arrays_as_they_were(receiver: Receiver) -> None:
    arrays = arrays_of(SPEC, random_bytes(SPEC.nbytes))
    digest, phases = digest_of(ArrayModel(arrays)), set[str]()

    def told(peer: str, phase: str, done: int, total: int) -> None:
        phases.add(phase)
        if phase == "sending" and done >= MIDDLE:
            arrays["t0"][:] = 3  # it was sent

    receipt = streamlink.send(arrays, receiver.address, config=FAST, progress=told, guard=True)
    assert receipt.digest == digest
    assert phases == {"noting", "sending"}


# --- small parts --------------------------------------------------------------------------------


class ChangedBy:
    """A model that has changed once ``event`` is set."""

    def __init__(self, event: threading.Event) -> None:
        self.spec, self._model, self._event = TINY, pattern_model(TINY), event

    def watch(self) -> Callable[[], None]:
        def check() -> None:
            if self._event.is_set():
                raise SourceChanged("it was written to", tensor="w")

        return check

    def read(self, offset: int, length: int) -> Any:
        return self._model.read(offset, length)

    def close(self) -> None:
        pass


@pytest.mark.parametrize(
    ("code", "kind"),
    [(AbortCode.DIGEST_MISMATCH, SourceChanged), (AbortCode.CANCELLED, StreamAborted)],
)
def test_a_digest_that_the_receiver_refuses_is_explained_by_a_source_that_changed(
    code: AbortCode, kind: type[Exception]
) -> None:
    refused = threading.Event()

    def refuse(frame: f.Frame) -> bool:
        if isinstance(frame, f.Finish):
            refused.set()
            transfer.incoming.abort(code, "its digest is another one")
        return not isinstance(frame, f.Finish)

    with Transfer(TINY) as transfer:
        transfer.carrier.watch = refuse
        sent, _ = transfer.start(ChangedBy(refused), MemoryStore().begin(TINY))
        error = failure(sent)
    assert type(error) is kind
    if kind is SourceChanged:
        assert isinstance(error.__context__, StreamAborted)


def test_looking_takes_a_hundredth_of_the_time_at_most() -> None:
    clock, looks = VirtualClock(0.0), list[float]()

    def check() -> None:
        looks.append(clock.now)
        clock.now += 0.01

    throttled = ThrottledCheck(check, clock)
    for _ in range(1000):
        throttled.check_if_due()
        clock.now += 0.01
    assert len(looks) == pytest.approx(clock.now, abs=2)  # each 0.01 s long, and 1 s from the next
    assert looks[0] == 0


class Once:
    """A model that is another one from the second attempt on; both attempts fail."""

    def __init__(self, model: ModelSource) -> None:
        self.spec, self._model, self._writes = model.spec, model, 0

    def watch(self) -> Callable[[], None]:
        noted = self._writes

        def check() -> None:
            if self._writes != noted:
                raise SourceChanged("it was written to")

        return check

    def read(self, offset: int, length: int) -> Any:
        if offset >= MIDDLE and not self._writes:
            self._writes = 1
            raise StreamAborted(AbortCode.SESSION_LOST, "the cable is out", by_peer=True)
        return self._model.read(offset, length)

    def close(self) -> None:
        pass


def test_a_change_between_two_attempts_is_told(receiver: Receiver) -> None:
    with pytest.raises(SourceChanged):
        send(Once(pattern_model(SPEC)), receiver.address, config=FAST, retry=30)
    assert not receiver.done.done()

"""Lockstep gathering: the new model is computed as far as the slowest client has come.

Range by range, in one pass, no spool. What has arrived and cannot be used yet stays in its stream,
within the window that stream was granted; a client that is ahead is told that it is held, and for
whom. So the server's memory grows with the number of clients by their windows and not at all with
the model.
"""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

import numpy as np
import numpy.typing as npt

from streamlink.errors import ModelError, QuorumNotReached, RoundError, StreamlinkError
from streamlink.link.incoming import IncomingModel
from streamlink.model.digest import BLOCK_BYTES
from streamlink.model.interfaces import ModelSink
from streamlink.model.spec import ModelSpec, require_same
from streamlink.rounds.aggregate import WeightedMean

__all__ = ["Contributor", "ContributorFailed", "LockstepGather", "OutOfTime"]

PIECE_BYTES = BLOCK_BYTES
"""The new model is computed in pieces of at most this much (bytes): a block of the digest tree."""


_LARGEST_ELEMENT_BYTES = 16
_CHECK_SECONDS = 1.0  # a client that is lost while another is waited for is noticed this soon


class ContributorFailed(RoundError):
    """One client's update cannot be had; ``peer`` is its name, ``__cause__`` says why."""

    def __init__(self, peer: str, error: StreamlinkError) -> None:
        self.peer = peer
        super().__init__(f"the update of {peer} failed", {peer: error})


class OutOfTime(RoundError):
    """``train_timeout`` passed while ``peer`` was being waited for."""

    def __init__(self, peer: str, seconds: float, done: int, total: int) -> None:
        self.peer = peer
        super().__init__(
            f"train_timeout of {seconds:g} s passed while waiting for {peer}, with {done} of "
            f"{total} bytes gathered; raise train_timeout if that is normal for this model"
        )


class Contributor:
    """One client's update: its stream, and the bytes of it that have come and are not used yet."""

    def __init__(
        self,
        peer: str,
        model: IncomingModel,
        *,
        on_begin: Callable[[], None] = lambda: None,
        failure: Callable[[], StreamlinkError | None] = lambda: None,
    ) -> None:
        self.peer = peer
        self.model = model
        self.end = 0
        self._begin = on_begin
        self._has_begun = False
        self._failure = failure
        self._views: deque[memoryview] = deque()

    def open(self, seconds: float) -> bool:
        """Wait until the update is announced; False: not within ``seconds``."""
        is_open = bool(self._guarded(lambda: self.model.open(seconds)))
        self.notice()
        return is_open

    def fetch(self, seconds: float) -> bool:
        """Wait for more bytes; False: none within ``seconds``, or the update is complete."""
        piece = self._guarded(lambda: self.model.read(seconds))
        if piece is None:
            return False
        self._views.extend(piece[1])
        self.end += sum(view.nbytes for view in piece[1])
        return True

    def notice(self) -> None:
        """Note the beginning of the answer, once: the client's *processing* is over."""
        if not self._has_begun and self.model.pump.stream.opened is not None:
            self._has_begun = True
            self._begin()

    def check(self) -> None:
        """Raise ``ContributorFailed`` where it is known already that this update cannot be had."""
        error = self._failure() or self.model.error
        if error is not None and not self.model.is_complete:
            raise ContributorFailed(self.peer, error) from error

    def take(self, nbytes: int) -> memoryview:
        """Return the next ``nbytes``, all of which have come: a view where one view holds them."""
        views: list[memoryview] = []
        while nbytes:
            view = self._views.popleft()
            if view.nbytes > nbytes:
                self._views.appendleft(view[nbytes:])
                view = view[:nbytes]
            views.append(view)
            nbytes -= view.nbytes
        return views[0] if len(views) == 1 else memoryview(b"".join(views))

    def release(self, nbytes: int) -> None:
        """Give back the credit of bytes that are used."""
        try:
            self.model.release(nbytes)
        except StreamlinkError as error:
            raise ContributorFailed(self.peer, error) from error

    def tell(self, say: Callable[[], object]) -> None:
        """Say something about an update that is here and counts, even if its sender has left."""
        with suppress(StreamlinkError):
            say()

    def _guarded(self, act: Callable[[], Any]) -> Any:
        failure = self._failure()
        if failure is not None:
            raise ContributorFailed(self.peer, failure) from failure
        try:
            return act()
        except StreamlinkError as error:
            raise ContributorFailed(self.peer, error) from error


class LockstepGather:
    """Averages the updates of ``contributors`` into ``sink``, in their fixed order.

    Args:
        spec: the model every update must have.
        contributors: in the order of accumulation, so that the result is the same bits each time.
        sink: takes the new model; committed at the very end, discarded by the caller otherwise.
        held_interval: how often those ahead are told that they are held (seconds).
        deadline: monotonic seconds after which ``OutOfTime`` is raised; None: never.
        train_timeout: the setting behind the deadline, for the error's sentence.
    """

    def __init__(
        self,
        spec: ModelSpec,
        contributors: Sequence[Contributor],
        sink: ModelSink,
        *,
        held_interval: float,
        deadline: float | None = None,
        train_timeout: float = 0.0,
    ) -> None:
        self._spec = spec
        self._contributors = list(contributors)
        self._sink = sink
        self._held_interval = held_interval
        self._deadline = deadline
        self._train_timeout = train_timeout
        self._out = np.empty(PIECE_BYTES + _LARGEST_ELEMENT_BYTES, np.uint8)
        self.position = 0
        """Bytes of the new model that are computed."""

    def run(self) -> None:
        """Gather, and commit the new model.

        Raises:
            ContributorFailed: an update cannot be had; nothing of the new model counts.
            OutOfTime: ``train_timeout`` passed.
            StoreError: the new model cannot be stored.
        """
        for contributor in self._contributors:
            self._wait(contributor, contributor.open)
            self._check_announced(contributor)
        if not any(each.model.update.weight for each in self._contributors):
            raise QuorumNotReached("every update has weight 0, so there is no mean of them")
        mean = WeightedMean([each.model.update.weight for each in self._contributors])
        while self.position < self._spec.nbytes:
            usable = self._usable()
            if usable == self.position:
                slowest = min(self._contributors, key=lambda each: each.end)
                self._wait(slowest, slowest.fetch)
            else:
                self._combine(mean, usable)
        for contributor in self._contributors:
            self._wait(contributor, self._completed(contributor))
        self._commit()

    @property
    def weights(self) -> dict[str, float]:
        """Each contributor's weight, by name."""
        return {each.peer: each.model.update.weight for each in self._contributors}

    @property
    def metrics(self) -> dict[str, float]:
        """The contributors' metrics, averaged with the same weights as the model."""
        return weighted_metrics(
            [(each.model.update.weight, each.model.metrics) for each in self._contributors]
        )

    # --- waiting ------------------------------------------------------------------------

    def _wait(self, contributor: Contributor, step: Callable[[float], bool]) -> None:
        """Repeat ``step`` until it is done; meanwhile the others are told whom they wait for."""
        while not step(self._patience(contributor)):
            for other in self._contributors:
                if other is contributor:
                    continue
                other.check()
                other.notice()
                if other.model.pump.stream.opened is not None:
                    other.model.hold("lockstep", contributor.peer)

    def _patience(self, contributor: Contributor) -> float:
        patience = min(self._held_interval, _CHECK_SECONDS)
        if self._deadline is None:
            return patience
        left = self._deadline - time.monotonic()
        if left <= 0:
            raise OutOfTime(contributor.peer, self._train_timeout, self.position, self._spec.nbytes)
        return min(patience, left)

    @staticmethod
    def _completed(contributor: Contributor) -> Callable[[float], bool]:
        def step(seconds: float) -> bool:
            if not contributor.model.is_complete:
                contributor.fetch(seconds)
            return contributor.model.is_complete

        return step

    def _check_announced(self, contributor: Contributor) -> None:
        try:
            require_same(self._spec, contributor.model.spec, contributor.peer)
            weight = contributor.model.update.weight
            if not math.isfinite(weight) or weight < 0:
                raise ModelError(f"{contributor.peer} gave its update the weight {weight}")
        except ModelError as error:
            raise ContributorFailed(contributor.peer, error) from error

    # --- computing ----------------------------------------------------------------------

    def _usable(self) -> int:
        """Return how far every update has come, in whole elements and within one piece."""
        reach = min(each.end for each in self._contributors)
        limit = (self.position // PIECE_BYTES + 1) * PIECE_BYTES
        if reach > limit:
            # The element that a piece's limit cuts belongs to the piece.
            before, itemsize = self._cut_at(limit)
            reach = min(reach, limit + (itemsize - before if before else 0))
        return reach - self._cut_at(reach)[0]

    def _cut_at(self, offset: int) -> tuple[int, int]:
        """Return how many bytes of an element lie before ``offset``, and that element's size."""
        if offset >= self._spec.nbytes:
            return 0, 1
        index, inside = self._spec.locate(offset)
        itemsize = self._spec.tensors[index].itemsize
        return inside % itemsize, itemsize

    def _combine(self, mean: WeightedMean, usable: int) -> None:
        nbytes = usable - self.position
        inputs = [each.take(nbytes) for each in self._contributors]
        done = 0
        for dtype, length in self._runs(nbytes):
            views = [_elements(view[done : done + length], dtype) for view in inputs]
            mean.combine(dtype, views, self._out[done : done + length].view(dtype))
            done += length
        self._sink.write(self.position, self._out.data[:nbytes])
        self.position = usable
        for contributor in self._contributors:
            contributor.release(nbytes)

    def _runs(self, nbytes: int) -> list[tuple[np.dtype[Any], int]]:
        """Return (dtype, bytes) of what lies ahead; neighbours of one dtype are one run."""
        runs: list[tuple[np.dtype[Any], int]] = []
        for segment in self._spec.segments(self.position, nbytes):
            dtype, length = segment.tensor.numpy_dtype, segment.stop - segment.start
            if runs and runs[-1][0] == dtype:
                length += runs.pop()[1]
            runs.append((dtype, length))
        return runs

    def _commit(self) -> None:
        def moved(_: int) -> None:
            for contributor in self._contributors:
                contributor.tell(contributor.model.committing)

        self._sink.commit(moved)
        for contributor in self._contributors:
            contributor.tell(contributor.model.commit)


def weighted_metrics(reports: Sequence[tuple[float, Mapping[str, float]]]) -> dict[str, float]:
    """Return the weighted mean of each metric over those who reported it."""
    sums: dict[str, tuple[float, float]] = {}
    for weight, metrics in reports:
        for name, value in metrics.items():
            total, weights = sums.get(name, (0.0, 0.0))
            sums[name] = total + weight * value, weights + weight
    return {name: total / weights for name, (total, weights) in sums.items() if weights}


def _elements(view: memoryview, dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    return np.frombuffer(view, dtype=dtype)

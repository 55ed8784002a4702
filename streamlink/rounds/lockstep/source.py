"""One client's update in lockstep: its stream, and the bytes that have arrived and are not used.

    announced ──▶ arriving ──▶ complete
        ▲             │
        └── away ◀────┘  its session is lost: its client may come back and resume the update

While its client is away, this is the ``PartialUpdate`` of lockstep: the bytes that were used are in
the new model and cannot be taken back, so the update resumes behind them, or at the beginning of
the block of elements in which they end: those come again, and are dropped. An update that is not
pure can resume only while nothing of it is used: then it starts again at its beginning.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace

from streamlink.errors import StreamlinkError
from streamlink.link import Update, UpdateKind
from streamlink.link.receive_transfer import ReceiveTransfer
from streamlink.model.computed import RangeFunction
from streamlink.model.spec import ModelSpec
from streamlink.rounds.aggregate.combiner import ContributorFailed
from streamlink.rounds.aggregate.validate import check_announced, check_norm
from streamlink.rounds.lockstep.resume import Resume
from streamlink.rounds.resume import Answer, require_same_update

__all__ = ["LiveSource"]

logger = logging.getLogger("streamlink.rounds")

_LATE_SECONDS = 0.1  # credit is returned this soon, though the rest of a chunk is not used yet


class LiveSource:
    """One client's update: its stream, and the bytes that have arrived and are not used yet.

    Args:
        peer_name: the client's name.
        answer: its stream.
        filters: returns, for the announced update, the functions that are applied to its elements,
            in this order, before they are combined.
        weigh: returns the weight that counts, for the one that the client announced.
        resume: how the client gets back when it is lost; None: it cannot.
    """

    def __init__(
        self,
        peer_name: str,
        answer: Answer,
        *,
        require: Callable[[Update], None] = lambda update: None,
        filters: Callable[[Update], Sequence[RangeFunction]] = lambda update: (),
        weigh: Callable[[float], float] = lambda weight: weight,
        resume: Resume | None = None,
    ) -> None:
        self.peer_name = peer_name
        self.used = 0
        """Bytes of the update that were taken: they are in the new model."""
        self.end = 0
        """How far the update has arrived (byte), including what was taken."""
        self._answer = answer
        self._require, self._choose = require, filters
        self._filters: Sequence[RangeFunction] | None = None
        self._weigh = weigh
        self._resume = resume
        self._announced: tuple[Update, ModelSpec] | None = None
        self._is_open = self._has_begun = False
        self._views: deque[memoryview] = deque()
        self._begun = 0  # bytes of the first view's chunk that were taken already
        self._unreleased = 0  # bytes whose credit was not returned yet
        self._returned_at = 0.0
        self._again = 0  # bytes that come again after a resume, and are used already
        self._lost: StreamlinkError | None = None  # why its client is away
        self._until = 0.0  # until when the client is waited for

    @property
    def model(self) -> ReceiveTransfer:
        """Its stream; another one after the update was resumed."""
        return self._answer.model

    @property
    def update(self) -> Update:
        """As its client announced it; known after ``open``."""
        assert self._announced is not None, "open() comes first"
        return self._announced[0]

    @property
    def filters(self) -> Sequence[RangeFunction]:
        """Applied to its elements; known after ``open``."""
        if self._filters is None:
            self._filters = tuple(self._choose(self.update))
        return self._filters

    @property
    def weight(self) -> float:
        """The weight that counts; known after ``open``."""
        return self._weigh(self.update.weight)

    @property
    def kind(self) -> UpdateKind:
        """Values or differences; known after ``open``."""
        return self.update.kind

    @property
    def metrics(self) -> Mapping[str, float]:
        """What its client measured; known after ``finish``."""
        return self.model.metrics

    def check_announced(self, part: ModelSpec, whole: ModelSpec) -> None:
        """Check what its client announced, before a byte of it counts.

        Raises:
            ModelError: it has other tensors than ``part``, a weight that is not allowed, or lacks
                what this round needs.
        """
        check_announced(self.peer_name, self.model.spec, self.update, part, whole)
        self._require(self.update)

    # --- waiting ----------------------------------------------------------------------------

    def open(self, seconds: float) -> bool:
        """Wait until the update is announced; False: not within ``seconds``."""
        return self._step(self._open, seconds)

    def fetch(self, seconds: float) -> bool:
        """Wait for more bytes; False: none within ``seconds``, or the update is complete."""
        return self._step(self._fetch, seconds)

    def finish(self, seconds: float) -> bool:
        """Wait for what follows the last byte; False: it is not here within ``seconds``."""
        if not self.model.is_complete:
            self.fetch(seconds)
        return self.model.is_complete

    def poll(self) -> None:
        """Check the update while the loop waits for another one; never blocks.

        A client that is back is asked at once, not only when it is its turn: clients that were lost
        together then work at the same time.

        Raises:
            ContributorFailed: it is known already that the update failed.
        """
        self._check()
        self._notice()

    # --- while its client is away (``PartialUpdate``) -----------------------------------------

    @property
    def resume_offset(self) -> int:
        """The beginning of the block of elements in which what is used ends.

        What is used is in the new model, and cannot be taken back; but its client may round a block
        of elements together, and needs all of it for that.
        """
        return self._announced[1].block_start(self.used) if self._announced is not None else 0

    def resume(self, answer: Answer) -> None:
        """Continue with ``answer``, which brings the bytes from ``resume_offset`` on."""
        self._again = self.used - self.resume_offset
        self._answer, self._lost = answer, None
        self._is_open = self._has_begun = False
        self._views.clear()  # what of the lost stream was not used is sent again
        self._begun = self._unreleased = 0
        self.end = self.used

    # --- its bytes --------------------------------------------------------------------------

    def take(self, nbytes: int) -> memoryview:
        """Return the next ``nbytes``, all of which are here; not copied where one view has them."""
        self.used += nbytes
        views: list[memoryview] = []
        while nbytes:
            view = self._views.popleft()
            if view.nbytes > nbytes:
                self._begun += nbytes
                self._views.appendleft(view[nbytes:])
                view = view[:nbytes]
            else:
                self._begun = 0
            views.append(view)
            nbytes -= view.nbytes
        return views[0] if len(views) == 1 else memoryview(b"".join(views))

    def release(self, nbytes: int) -> None:
        """Return the credit of bytes that are used."""
        self._unreleased += nbytes
        # Once for each chunk: pieces are often smaller, and each return takes the stream's lock.
        # But where a chunk is used slowly, its client must not take silence for a dead line.
        now = self.model.clock()
        is_late = now - self._returned_at >= _LATE_SECONDS
        returned = self._unreleased - (0 if is_late else self._begun)
        if returned > 0:
            self._returned_at = now
            self._return_credit(returned)

    def _return_credit(self, nbytes: int) -> None:
        self._unreleased -= nbytes
        if self._lost is not None:  # the stream is closed; the next one has a window of its own
            return
        try:
            self.model.release(nbytes)
        except StreamlinkError as error:
            self._lose(error)

    def close(self) -> None:
        """Do nothing: the exchange owns the stream."""

    # --- notices to its client --------------------------------------------------------------

    def wait_for(self, name: str) -> None:
        """Note whom the loop waits for now; empty: for this client."""
        self.model.wait_for(name)

    def hold(self, reason: str, waiting_for: str) -> None:
        """Notify it that it is held, and for whom, once it has begun to answer."""
        if self.model.is_announced:
            self.model.hold(reason, waiting_for)

    def committing(self) -> None:
        """Notify it that the new model is being committed; harmless if it has left."""
        with suppress(StreamlinkError):
            self.model.committing()

    def commit(self) -> None:
        """Notify it that its update is in the new model; harmless if it has left."""
        with suppress(StreamlinkError):
            self.model.commit()

    # --- small parts ------------------------------------------------------------------------

    def _check(self) -> None:
        if self._lost is not None:
            self._is_back(0.0)
            return
        error = self._answer.failure() or self.model.error
        # An update that has arrived counts, even if its client is lost before the commit.
        if error is not None and not self.model.is_complete:
            self._lose(error)

    def _notice(self) -> None:
        """Note the beginning of the answer, once: the client has finished its work."""
        if not self._has_begun and self.model.is_announced:
            self._has_begun = True
            self._answer.on_begin()

    def _open(self, seconds: float) -> bool:
        is_open = self.model.open(seconds)
        self._notice()
        if is_open:
            update, spec = self.model.update, self.model.spec
            if self._announced is not None:
                self._check_again(update, spec)
            self._announced = update, spec
            self._is_open = True
        return is_open

    def _check_again(self, update: Update, spec: ModelSpec) -> None:
        assert self._announced is not None
        begun, known = self._announced
        if not self.used:
            # Nothing of it is in the new model. Work that is not pure has another norm each time,
            # and what was made for the first one, to clip it, is made anew.
            check_norm(self.peer_name, update.norm)
            begun, self._filters = replace(begun, norm=update.norm), None
        require_same_update(self.peer_name, (begun, known), (update, spec))
        self._require(update)

    def _fetch(self, seconds: float) -> bool:
        if not self._is_open and not self._open(seconds):
            return False
        # Its client may be waiting for this credit.
        returned, self._unreleased = self._unreleased, 0
        if returned:
            self.model.release(returned)
        piece = self.model.read(seconds)
        if piece is None:
            return False
        # Views of what the stream holds: they count against its window until ``release``.
        self._views.extend(piece[1])
        self.end += sum(view.nbytes for view in piece[1])
        self._drop_known()
        return True

    def _drop_known(self) -> None:
        """Drop what came again after a resume, and was used before it."""
        while self._again and self._views:
            view = self._views.popleft()
            dropped = min(self._again, view.nbytes)
            if dropped < view.nbytes:
                self._views.appendleft(view[dropped:])
            self._again -= dropped
            self.end -= dropped
            self.model.release(dropped)

    def _step(self, act: Callable[[float], bool], seconds: float) -> bool:
        if self._lost is not None and not self._is_back(seconds):
            return False
        # First what the exchange knows, such as a task that raised: the stream may not know it.
        failure = self._answer.failure()
        try:
            if failure is None:
                return act(seconds)
        except StreamlinkError as error:
            failure = error
        self._lose(failure)
        return False

    def _lose(self, error: StreamlinkError) -> None:
        """Wait for its client from now on, or raise ``ContributorFailed`` if it cannot resume."""
        is_pure = self._announced is not None and self.update.is_pure
        resume = self._resume
        # Where nothing is used yet, any update can begin again; used bytes cannot be subtracted.
        if resume is None or not resume.is_possible(error) or (self.used and not is_pure):
            raise ContributorFailed(self.peer_name, error) from error
        self._lost, self._until = error, self.model.clock() + resume.grace_seconds
        logger.warning(
            "%s is lost (%s); its update resumes at byte %d if it is back within %g s",
            self.peer_name, error, self.resume_offset, resume.grace_seconds,
        )  # fmt: skip

    def _is_back(self, seconds: float) -> bool:
        """Wait for the client; return whether its update has resumed."""
        assert self._lost is not None
        assert self._resume is not None
        left = max(0.0, self._until - self.model.clock())
        try:
            is_back = self._resume.try_resume(self, min(seconds, left))
        except ContributorFailed as failed:
            cause = failed.__cause__
            self._lose(cause if isinstance(cause, StreamlinkError) else failed)
            return False
        # Tried once more after the deadline: a client that is back by then still counts.
        if not is_back and not left:
            raise ContributorFailed(self.peer_name, self._lost, was_awaited=True) from self._lost
        return is_back

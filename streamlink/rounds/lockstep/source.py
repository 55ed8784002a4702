"""One client's update in lockstep: its stream, the bytes of it that wait to be used, its way back.

    announced ──▶ arriving ──▶ complete
        ▲             │
        └── away ◀────┘  its session is lost: another process of its name may go on at the mark

The mark is how much of the update is used: whole elements, all before it are in the new model for
good. Going on there needs a function that gives the same bits for the same range, so only an update
that says of itself that it is *pure* can; at mark 0 nothing is used, and anybody may begin again.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Protocol

from streamlink.clock import running_time
from streamlink.errors import ModelError, StreamlinkError
from streamlink.link import Update, UpdateKind
from streamlink.link.receive_transfer import ReceiveTransfer
from streamlink.model.computed import RangeFunction
from streamlink.model.spec import ModelSpec
from streamlink.rounds.aggregate.combiner import ContributorFailed
from streamlink.rounds.aggregate.validate import check_announced

__all__ = ["Answer", "LiveSource", "ResumeRequest"]

logger = logging.getLogger("streamlink.rounds")


@dataclass(frozen=True, slots=True)
class Answer:
    """The stream that a client answers a request on, and what is known of it from elsewhere."""

    model: ReceiveTransfer

    on_begin: Callable[[], None] = lambda: None
    """Called once, when the answer has begun."""

    failure: Callable[[], StreamlinkError | None] = lambda: None
    """Tells why the answer cannot be had, where the stream itself does not know."""


class ResumeRequest(Protocol):
    """How a client that was lost is asked again, in the attempt it was lost from."""

    @property
    def seconds(self) -> float:
        """How long it is waited for."""

    def is_open(self, error: StreamlinkError) -> bool:
        """Whether the client is lost, and did not only fail; and has not come back too often."""

    def ask(self, mark: int, seconds: float) -> Answer | None:
        """Wait up to ``seconds`` for the client, and ask it for its update from byte ``mark`` on.

        Returns:
            None: it is not back yet.

        Raises:
            ContributorFailed: it came, and is lost again.
        """


class LiveSource:
    """One client's update: its stream, and the bytes of it that have come and are not used yet.

    Args:
        peer: the client's name.
        answer: its stream.
        filters: gives, for what its client says of it, the functions that are applied to its
            elements, one after the other, before they are combined.
        weigh: gives the weight that counts for the one the client announced.
        way_back: where the client may come back when it is lost; None: it may not.
    """

    def __init__(
        self,
        peer: str,
        answer: Answer,
        *,
        filters: Callable[[Update], Sequence[RangeFunction]] = lambda update: (),
        weigh: Callable[[float], float] = lambda weight: weight,
        way_back: ResumeRequest | None = None,
    ) -> None:
        self.peer = peer
        self.used = 0
        """Bytes of the update that were taken."""
        self.end = 0
        """Bytes of the update that are here or were taken."""
        self._answer = answer
        self._choose = filters
        self._filters: Sequence[RangeFunction] | None = None
        self._weigh = weigh
        self._way_back = way_back
        self._announced: tuple[Update, ModelSpec] | None = None
        self._is_open = self._has_begun = False
        self._views: deque[memoryview] = deque()
        self._lost: StreamlinkError | None = None  # why it is away
        self._until = 0.0  # so long it is waited for

    @property
    def model(self) -> ReceiveTransfer:
        """Its stream; another one after it came back."""
        return self._answer.model

    @property
    def update(self) -> Update:
        """What its client says of it; known once it is announced."""
        assert self._announced is not None, "open() comes first"
        return self._announced[0]

    @property
    def filters(self) -> Sequence[RangeFunction]:
        """Applied to its elements; known once the update is announced."""
        if self._filters is None:
            self._filters = tuple(self._choose(self.update))
        return self._filters

    @property
    def weight(self) -> float:
        """The weight that counts; known once the update is announced."""
        return self._weigh(self.update.weight)

    @property
    def kind(self) -> UpdateKind:
        """What the update is; known once it is announced."""
        return self.update.kind

    @property
    def metrics(self) -> Mapping[str, float]:
        """What its client measured; known once it is finished."""
        return self.model.metrics

    def check_announced(self, part: ModelSpec, whole: ModelSpec) -> None:
        """Check what its client says of it, before a byte of it counts.

        Raises:
            ModelError: it has other tensors than ``part``, or no weight.
        """
        check_announced(self.peer, self.model.spec, self.update, part, whole)

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

    def look_after(self) -> None:
        """Look after an update that nobody waits for just now; never blocks.

        Its client may be lost meanwhile, or may be back: then it is asked at once, so that clients
        that were lost together work side by side.

        Raises:
            ContributorFailed: it is known already that this update cannot be had.
        """
        self._check()
        self._notice()

    # --- its bytes --------------------------------------------------------------------------

    def take(self, nbytes: int) -> memoryview:
        """Return the next ``nbytes``, all of which have come: a view where one view holds them."""
        self.used += nbytes
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
        if self._lost is not None:
            return
        try:
            self.model.release(nbytes)
        except StreamlinkError as error:
            self._lose(error)

    def close(self) -> None:
        """Nothing is held here that its exchange does not hold."""

    # --- what its client hears --------------------------------------------------------------

    def wait_for(self, name: str) -> None:
        """Note whom everybody waits for now; empty: it is this client."""
        self.model.wait_for(name)

    def hold(self, reason: str, waiting_for: str) -> None:
        """Tell it that it is held, and for whom, once it has begun to answer."""
        if self.model.is_announced:
            self.model.hold(reason, waiting_for)

    def committing(self) -> None:
        """Tell it that the new model is being committed, even if it has left."""
        with suppress(StreamlinkError):
            self.model.committing()

    def commit(self) -> None:
        """Tell it that its update is in the new model, even if it has left."""
        with suppress(StreamlinkError):
            self.model.commit()

    # --- small parts ------------------------------------------------------------------------

    def _check(self) -> None:
        if self._lost is not None:
            self._is_back(0.0)
            return
        error = self._answer.failure() or self.model.error
        if error is not None and not self.model.is_complete:
            self._lose(error)

    def _notice(self) -> None:
        """Note the beginning of the answer, once: the client's *processing* is over."""
        if not self._has_begun and self.model.is_announced:
            self._has_begun = True
            self._answer.on_begin()

    def _open(self, seconds: float) -> bool:
        is_open = self.model.open(seconds)
        self._notice()
        if is_open:
            said = self.model.update, self.model.spec
            if self._announced is not None and said != self._announced:
                raise ModelError(f"{self.peer} came back with another update than it had begun")
            self._announced = said
            self._is_open = True
        return is_open

    def _fetch(self, seconds: float) -> bool:
        if not self._is_open and not self._open(seconds):
            return False
        piece = self.model.read(seconds)
        if piece is None:
            return False
        self._views.extend(piece[1])
        self.end += sum(view.nbytes for view in piece[1])
        return True

    def _step(self, act: Callable[[float], bool], seconds: float) -> bool:
        if self._lost is not None and not self._is_back(seconds):
            return False
        failure = self._answer.failure()
        try:
            if failure is None:
                return act(seconds)
        except StreamlinkError as error:
            failure = error
        self._lose(failure)
        return False

    def _lose(self, error: StreamlinkError) -> None:
        """Wait for its client from now on; raises ``ContributorFailed`` where that is no use."""
        is_pure = self._announced is not None and self.update.is_pure
        way_back = self._way_back
        if way_back is None or not way_back.is_open(error) or (self.used and not is_pure):
            raise ContributorFailed(self.peer, error) from error
        self._lost, self._until = error, running_time() + way_back.seconds
        logger.warning(
            "%s is lost (%s); its update goes on at byte %d if it is back within %g s",
            self.peer, error, self.used, way_back.seconds,
        )  # fmt: skip

    def _is_back(self, seconds: float) -> bool:
        """Wait for the client's return; whether its update goes on."""
        assert self._lost is not None
        assert self._way_back is not None
        left = max(0.0, self._until - running_time())
        try:
            answer = self._way_back.ask(self.used, min(seconds, left))
        except ContributorFailed as failed:
            cause = failed.__cause__
            self._lose(cause if isinstance(cause, StreamlinkError) else failed)
            return False
        if answer is not None:
            self._go_on(answer)
        elif not left:
            raise ContributorFailed(self.peer, self._lost, was_awaited=True) from self._lost
        return answer is not None

    def _go_on(self, answer: Answer) -> None:
        """Let the update come from ``answer``, from the mark on."""
        self._answer, self._lost = answer, None
        self._is_open = self._has_begun = False
        self._views.clear()  # what of the lost stream was not used comes again
        self.end = self.used

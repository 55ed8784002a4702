"""What a session keeps of its requests, so that none is lost, or done twice, when a call breaks.

``OpenRequests`` is kept by the side that asks, ``ServedRequests`` by the side that answers. Frames
that were in flight when a call broke may be lost, and nobody can know which. So both sides repeat
on the next call what still matters: the asking side its open requests and its cancels, the
answering side its progress. The request's number is an idempotency key: a request that arrived
before is not done again, but answered again from the replies that are kept. So is a cancel of what
was answered: the reply tells the asking side that its place is free.
"""

from __future__ import annotations

from collections.abc import Iterator

from streamlink.protocol.frames import Cancel, Frame, Reply, Request, TaskProgress

MAX_KEPT = 64
"""Replies, and cancels, kept to be repeated (count each); the oldest make room."""


_MAX_UNANSWERED = 4096  # requests without a reply that are counted; the oldest make room


class OpenRequests:
    """Requests of ours: what is not answered yet, and what the peer has reported of it."""

    def __init__(self) -> None:
        self.processing: set[int] = set()
        """Requests that are complete at the peer and whose reply has not begun."""
        self._last = 0
        self._open: dict[int, Request] = {}
        self._counters: dict[int, int] = {}
        self._begun: set[int] = set()
        self._cancelled: dict[int, Cancel] = {}
        self._unanswered: dict[int, None] = {}

    @property
    def unanswered(self) -> int:
        """How many places of the peer's ``max_open_requests`` are taken, as far as is known.

        One that was called off, or timed out here, keeps its place at the peer until its reply.
        """
        return len(self._unanswered)

    def next_number(self) -> int:
        """Return the number of the next request."""
        self._last += 1
        return self._last

    def add(self, request: Request) -> None:
        """Note a request that is sent now."""
        self._open[request.request_id] = request
        self._counters[request.request_id] = 0
        self._unanswered[request.request_id] = None
        if len(self._unanswered) > _MAX_UNANSWERED:
            del self._unanswered[next(iter(self._unanswered))]

    def complete(self, number: int) -> bool:
        """Note that the whole request is at the peer; returns whether its processing begins now."""
        # The reply may have begun first: a peer may answer while it still receives the request.
        is_processing = number in self._open and number not in self._begun
        if is_processing:
            self.processing.add(number)
        return is_processing

    def begin_reply(self, number: int) -> None:
        """Note the first byte of the reply: processing has ended."""
        if number in self._open:
            self._begun.add(number)
        self.processing.discard(number)

    def is_progress(self, report: TaskProgress) -> bool:
        """Process a progress report; returns whether its counter has grown."""
        number = report.request_id
        if report.counter <= self._counters.get(number, report.counter):
            return False
        self._counters[number] = report.counter
        return True

    def cancel(self, number: int, reason: str) -> Cancel | None:
        """Cancel a request; returns what to send to the peer, if it was open."""
        if number not in self._open:
            return None
        self.forget(number)
        self._cancelled[number] = cancel = Cancel(number, reason)
        _keep_latest(self._cancelled)
        return cancel

    def answer(self, number: int) -> bool:
        """Process a reply; returns whether its request was open."""
        was_open = number in self._open
        self._unanswered.pop(number, None)
        self.forget(number)
        self._cancelled.pop(number, None)  # it need not be repeated
        return was_open

    def forget(self, number: int) -> None:
        """Forget a request that is answered, cancelled, or timed out."""
        self._open.pop(number, None)
        self._counters.pop(number, None)
        self._begun.discard(number)
        self.processing.discard(number)

    def to_repeat(self) -> Iterator[Frame]:
        """Yield what a new call begins with.

        Requests in the order of their numbers: the peer takes only a number above the last for a
        new request.
        """
        # Of what was called off, or timed out here, the reply may be lost with the old call: the
        # peer repeats it for a cancel.
        for number in self._unanswered:
            if number not in self._open:
                yield self._cancelled.get(number) or Cancel(number, "nobody waits for the answer")
        yield from self._open.values()

    def clear(self) -> None:
        """Forget everything."""
        for table in (self._open, self._counters, self._cancelled, self._unanswered):
            table.clear()
        self._begun.clear()
        self.processing.clear()


class ServedRequests:
    """Requests of the peer: which are in work, their progress, and the latest replies."""

    def __init__(self) -> None:
        self._last = 0
        self._serving: dict[int, int] = {}  # number to counter
        self._unreported: dict[int, int] = {}
        self._replies: dict[int, Reply] = {}

    def __len__(self) -> int:
        """How many are not answered (count)."""
        return len(self._serving)

    def is_new(self, request: Request) -> bool:
        """Whether the request arrives for the first time; it is served from now on."""
        if request.request_id <= self._last:
            return False
        self._last = request.request_id
        self._serving[request.request_id] = 0
        return True

    def answer_to(self, number: int) -> Reply | None:
        """Return the reply to a request that is repeated; None: it is still in work."""
        if number in self._serving:
            return None
        lost = Reply(
            number,
            error="it was answered, but the reply was lost with its connection and is not kept "
            f"(the last {MAX_KEPT} are)",
        )
        return self._replies.get(number, lost)

    def report(self, number: int, counter: int) -> None:
        """Note that the work has reached ``counter``; only the latest counter is ever sent."""
        # A counter of an unknown number is dropped: its default is equal, never less.
        if counter > self._serving.get(number, counter):
            self._serving[number] = self._unreported[number] = counter

    def reply(self, reply: Reply) -> None:
        """Note an answer, and keep it for a while."""
        self._serving.pop(reply.request_id, None)
        self._unreported.pop(reply.request_id, None)
        self._replies[reply.request_id] = reply
        _keep_latest(self._replies)

    @property
    def has_progress(self) -> bool:
        """Whether ``take_progress`` would return something."""
        return bool(self._unreported)

    def take_progress(self) -> list[TaskProgress]:
        """Return the latest progress of each request that has any since the last call."""
        reports = [TaskProgress(number, counter) for number, counter in self._unreported.items()]
        self._unreported.clear()
        return reports

    def repeat(self) -> None:
        """Report all progress once more: the last reports may be lost."""
        self._unreported = {number: counter for number, counter in self._serving.items() if counter}

    def clear(self) -> None:
        """Forget everything."""
        for table in (self._serving, self._unreported, self._replies):
            table.clear()


def _keep_latest(kept: dict[int, Reply] | dict[int, Cancel]) -> None:
    while len(kept) > MAX_KEPT:
        del kept[next(iter(kept))]

"""What a session keeps of its requests, so that none is lost, or done twice, when a call breaks.

``OpenRequests`` is the asking side's book, ``ServedRequests`` the answering side's. Frames that
were on their way when a call broke may be lost, and nobody can know which. So both sides repeat on
the next call what still matters: the asking side its open requests and its cancels, the answering
side how far its work has come. A request is known by its number: what was asked before is not done
again, but answered again from the replies that are kept.
"""

from __future__ import annotations

from collections.abc import Iterator

from streamlink.protocol.frames import Cancel, Frame, Reply, Request, TaskProgress

MOST_KEPT = 64
"""Replies, and cancels, kept to be said again (count each); the oldest make room."""


class OpenRequests:
    """Requests of ours: what was asked and not answered, and what the peer has said of it."""

    def __init__(self) -> None:
        self.processing: set[int] = set()
        """Requests that are complete at the peer and whose reply has not begun."""
        self._last = 0
        self._open: dict[int, Request] = {}
        self._counters: dict[int, int] = {}
        self._begun: set[int] = set()
        self._cancelled: dict[int, Cancel] = {}

    def next_number(self) -> int:
        """Return the number of the next request."""
        self._last += 1
        return self._last

    def add(self, request: Request) -> None:
        """Note a request that is asked now."""
        self._open[request.request_id] = request
        self._counters[request.request_id] = 0

    def complete(self, number: int) -> bool:
        """The whole request is at the peer; returns whether its processing begins now."""
        is_processing = number in self._open and number not in self._begun
        if is_processing:
            self.processing.add(number)
        return is_processing

    def begin_reply(self, number: int) -> None:
        """The first byte of the reply is here: processing is over."""
        if number in self._open:
            self._begun.add(number)
        self.processing.discard(number)

    def has_moved(self, progress: TaskProgress) -> bool:
        """Take what the peer says of its work; returns whether it has come further."""
        number = progress.request_id
        if progress.counter <= self._counters.get(number, progress.counter):
            return False
        self._counters[number] = progress.counter
        return True

    def cancel(self, number: int, reason: str) -> Cancel | None:
        """Give a request up; returns what to tell the peer, if it was open."""
        if number not in self._open:
            return None
        self.forget(number)
        self._cancelled[number] = cancel = Cancel(number, reason)
        _keep_latest(self._cancelled)
        return cancel

    def answer(self, number: int) -> bool:
        """Take a reply; returns whether it was waited for."""
        was_open = number in self._open
        self.forget(number)
        self._cancelled.pop(number, None)  # it was heard, since it is answered
        return was_open

    def forget(self, number: int) -> None:
        """Let go of a request that is answered, given up, or too late."""
        self._open.pop(number, None)
        self._counters.pop(number, None)
        self._begun.discard(number)
        self.processing.discard(number)

    def to_repeat(self) -> Iterator[Frame]:
        """Yield what a new call begins with, in the order it was first said."""
        yield from self._cancelled.values()
        yield from self._open.values()

    def clear(self) -> None:
        """Let go of all of it."""
        for book in (self._open, self._counters, self._cancelled):
            book.clear()
        self._begun.clear()
        self.processing.clear()


class ServedRequests:
    """Requests of the peer's: those we work on, how far, and what was answered lately."""

    def __init__(self) -> None:
        self._last = 0
        self._serving: dict[int, int] = {}  # number to counter
        self._due: dict[int, int] = {}
        self._replies: dict[int, Reply] = {}

    def __len__(self) -> int:
        """How many are not answered (count)."""
        return len(self._serving)

    def is_new(self, request: Request) -> bool:
        """Whether the request was never asked before; it is served from now on."""
        if request.request_id <= self._last:
            return False
        self._last = request.request_id
        self._serving[request.request_id] = 0
        return True

    def answer_to(self, number: int) -> Reply | None:
        """Return what to say to a request that is asked again; None: the work on it goes on."""
        if number in self._serving:
            return None
        lost = Reply(number, error="it was answered, but the answer was lost and is not kept")
        return self._replies.get(number, lost)

    def report(self, number: int, counter: int) -> None:
        """Note that the work has come as far as ``counter``; only the latest is ever told."""
        if counter > self._serving.get(number, counter):
            self._serving[number] = self._due[number] = counter

    def reply(self, reply: Reply) -> None:
        """Note an answer, and keep it for a while."""
        self._serving.pop(reply.request_id, None)
        self._due.pop(reply.request_id, None)
        self._replies[reply.request_id] = reply
        _keep_latest(self._replies)

    @property
    def has_news(self) -> bool:
        """Whether ``take_news`` would return something."""
        return bool(self._due)

    def take_news(self) -> list[TaskProgress]:
        """Return the latest word on each request whose work has moved since it was last told."""
        news = [TaskProgress(number, counter) for number, counter in self._due.items()]
        self._due.clear()
        return news

    def repeat(self) -> None:
        """Tell of everything once more: what was told last may be lost."""
        self._due = {number: counter for number, counter in self._serving.items() if counter}

    def clear(self) -> None:
        """Let go of all of it."""
        for book in (self._serving, self._due, self._replies):
            book.clear()


def _keep_latest(kept: dict[int, Reply] | dict[int, Cancel]) -> None:
    while len(kept) > MOST_KEPT:
        del kept[next(iter(kept))]

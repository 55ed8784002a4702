"""What a server answers when a client asks: handlers by topic, in a bounded number of threads."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Literal, NamedTuple, get_args

from streamlink.clock import Clock
from streamlink.config import LinkConfig
from streamlink.errors import StreamlinkError
from streamlink.link.client_request import ClientRequest
from streamlink.link.crew import Crew, LineFull
from streamlink.link.facts import BUSY, UNSERVED
from streamlink.protocol.frames import Request
from streamlink.transport.session import Session

__all__ = ["Answers", "Handler", "Registration", "Serving"]

logger = logging.getLogger("streamlink.server")

Handler = Callable[[ClientRequest], None]
"""Answers one request of a client, in a thread of its own; what it raises is reported to it."""

Answers = Literal["send", "receive", "reply"]
"""How a handler answers, by the method of ``ClientRequest``."""


_Key = tuple[str, int]  # of a request: its session and its number


class _Registered(NamedTuple):
    handler: Handler
    answers: Answers


class Registration:
    """A topic that a server answers, as ``Server.serve`` returns it; ``close`` withdraws it."""

    def __init__(self, withdraw: Callable[[str], object]) -> None:
        self._withdraw = withdraw

    def close(self, reason: str = "its handler was withdrawn") -> None:
        """Answer the topic no more; ``reason`` is what clients get. Harmless when called twice.

        Requests that wait for a thread are refused. A handler that runs is let go on: end what it
        does, where that is not wanted. The topic may have another handler from now on.
        """
        self._withdraw(reason)


@dataclass(frozen=True, slots=True, eq=False)
class _Taken:
    """A request that was not refused, and who does the work on it."""

    topic: _Registered
    asked: ClientRequest
    crew: Crew
    work: Callable[[], object]


class Serving:
    """The topics that a server answers, and the requests that it works on.

    Each way of answering has threads of its own. So a client that reads slowly keeps no short
    request waiting, and what a client sends may depend on what it receives meanwhile.

    Args:
        config: how many handlers run at the same time, in all and for one client, and how many
            requests wait for one.
        clock: of waits.
    """

    def __init__(self, config: LinkConfig, clock: Clock) -> None:
        self._interval = config.timeouts.held_interval
        self._handlers: dict[str, _Registered] = {}
        self._withdrawn: dict[str, str] = {}  # topics that were answered once, and why not now
        self._changed = clock.condition()
        self._open: dict[_Key, _Taken] = {}
        self._waiting: set[ClientRequest] = set()
        self._is_reporting = False
        self._no_room = (
            f"{config.limits.max_waiting_requests} requests of clients wait for a handler, the "
            "most that may (max_waiting_requests); ask again later, or raise that or max_handlers "
            "at the server"
        )
        self._crews = {answers: _crew(answers, config) for answers in get_args(Answers)}

    def add(self, topic: str, handler: Handler, answers: Answers) -> Registration:
        """Answer ``topic`` with ``handler`` from now on.

        Raises:
            ValueError: it is answered already.
        """
        with self._changed:
            if topic in self._handlers:
                raise ValueError(f"topic {topic!r} has a handler already")
            self._handlers[topic] = registered = _Registered(handler, answers)
        return Registration(partial(self._withdraw, topic, registered))

    def _withdraw(self, topic: str, registered: _Registered, reason: str) -> None:
        with self._changed:
            if self._handlers.get(topic) is not registered:
                return
            del self._handlers[topic]
            self._withdrawn[topic] = reason
        for taken in self._take_back(lambda key, each: each.topic is registered):
            _refuse(taken.asked, reason)

    def take(self, session: Session, request: Request, make: Callable[[], ClientRequest]) -> None:
        """Answer a request, or refuse it; called in the session's thread, returns at once."""
        with self._changed:
            found, error = self._handlers.get(request.topic), self._why_not(request.topic)
        if found is None:
            session.reply(request, error=error, metadata={UNSERVED: "1"})
            return
        asked, key = make(), (session.session_id, request.request_id)
        crew = self._crews[found.answers]
        taken = _Taken(found, asked, crew, lambda: self._handle(key, asked, found))
        with self._changed:
            # Before the crew has it, whose thread forgets it; and a cancel that follows at once
            # must find it.
            self._open[key] = taken
        try:
            has_begun = crew.give(session.peer_name, taken.work)
        except LineFull:
            self._forget(key)
            asked.reply(error=self._no_room, metadata={BUSY: "1"})
        except Exception:  # the system has no room for another thread
            logger.exception("%s asked for %r: there is no thread", session.peer_name, asked.topic)
            self._forget(key)
            error = "the server has no thread for it at the moment; ask again later"
            asked.reply(error=error, metadata={BUSY: "1"})
        else:
            if not has_begun:
                self._wait_in_line(key, asked)

    def call_off(self, session: Session, number: int, reason: str) -> None:
        """Note that a client has called a request off."""
        with self._changed:
            taken = self._open.get(called_off := (session.session_id, number))
        if taken is None:
            return
        taken.asked.call_off(reason)
        for waited in self._take_back(lambda key, _: key == called_off):
            waited.asked.reply(error=reason or "called off")

    def left(self, session: Session) -> None:
        """Forget what a client that has gone has asked, as far as it waits for a thread."""
        self._take_back(lambda key, _: key[0] == session.session_id)

    def _take_back(self, is_meant: Callable[[_Key, _Taken], bool]) -> list[_Taken]:
        """Take requests out of the line, and return them; those that handlers have are not."""
        with self._changed:
            meant = [(key, each) for key, each in self._open.items() if is_meant(key, each)]
            back = [(key, each) for key, each in meant if each.crew.take_back(each.work)]
            for key, taken in back:
                del self._open[key]
                self._waiting.discard(taken.asked)
            self._changed.notify_all()
        return [taken for _, taken in back]

    def _why_not(self, topic: str) -> str:
        """Return why a topic is not answered; the lock is held."""
        text = f"this server does not answer requests of topic {topic!r}"
        if (reason := self._withdrawn.get(topic)) is not None:
            return f"{text} any more: {reason}"
        return f"{text}; it answers {', '.join(sorted(self._handlers))}" if self._handlers else text

    def _handle(self, key: _Key, asked: ClientRequest, topic: _Registered) -> None:
        with self._changed:
            # A withdrawal finds no request that is on its way here: it has left the line, or was
            # not in it yet.
            is_served = self._handlers.get(asked.topic) is topic
            reason = self._withdrawn.get(asked.topic, "")
            asked.has_begun = True
            self._waiting.discard(asked)
            self._changed.notify_all()
        try:
            # It may have been called off while it waited for a thread.
            asked.check()
            if is_served:
                topic.handler(asked)
            else:
                _refuse(asked, reason)
        except BaseException as error:  # a handler may call ``sys.exit``: its client hears of it
            level = logging.WARNING if isinstance(error, StreamlinkError) else logging.ERROR
            text, trace = "%s asked for %r: %s", level == logging.ERROR
            logger.log(level, text, asked.peer_name, asked.topic, error, exc_info=trace)
            asked.fail(error)
        finally:
            self._forget(key)
            asked.close()

    def _forget(self, key: _Key) -> None:
        with self._changed:
            del self._open[key]

    # --- what waits for a thread ------------------------------------------------------------

    def _wait_in_line(self, key: _Key, asked: ClientRequest) -> None:
        with self._changed:
            # Since the crew said that no thread was free, one may have taken it, or its client may
            # have gone.
            if asked.has_begun or key not in self._open:
                return
            self._waiting.add(asked)
            is_first, self._is_reporting = not self._is_reporting, True
        if is_first:
            thread = threading.Thread(target=self._report, name="serve-waits", daemon=True)
            try:
                thread.start()
            except RuntimeError:  # no room for a thread: the next that waits tries again
                logger.exception("nobody who waits for a handler can be told so")
                with self._changed:
                    self._is_reporting = False

    def _report(self) -> None:
        """Report every few seconds that what waits for a thread will be handled."""
        while True:
            with self._changed:
                self._changed.wait_for(lambda: not self._waiting, self._interval)
                if not self._waiting:
                    # Under the lock: whoever adds a request after this starts another thread.
                    self._is_reporting = False
                    return
                waiting = list(self._waiting)
            for asked in waiting:
                asked.report_waiting()


def _refuse(asked: ClientRequest, reason: str) -> None:
    asked.reply(error=f"topic {asked.topic!r}: {reason}", metadata={UNSERVED: "1"})


def _crew(answers: Answers, config: LinkConfig) -> Crew:
    limits = config.limits
    return Crew(
        f"serve-{answers}",
        most=limits.max_handlers,
        most_each=max(1, limits.max_streams // 4),
        spare=config.grpc.max_clients,
        most_waiting=limits.max_waiting_requests,
    )

"""The client's half of ``posts``: its messages, each in a call of its own, a few at a time."""

from __future__ import annotations

import logging
from collections import deque
from typing import Any

import grpc

from streamlink.transport.grpc.posts import KEY, MOST_AHEAD, NUMBER, SAYS, SERVICE

__all__ = ["Posting"]

logger = logging.getLogger("streamlink.client")


class Posting:
    """Posts the messages of one session call; those under way are cancelled when it ends.

    Args:
        channel: the connection of that call.
        key: which call it is.
    """

    def __init__(self, channel: grpc.Channel, key: str) -> None:
        self._say: Any = channel.unary_unary(f"/{SERVICE}/Say", None, None)
        self._key = key
        self._under_way: deque[Any] = deque()
        self._rpc: Any = None
        self._is_over = False
        self.has_failed = False
        """Whether a message did not arrive: the session's call was cut for that."""

    def belong_to(self, rpc: Any) -> None:
        """Post for this call: a message that did not arrive ends it, and its end ends all posts."""
        self._rpc = rpc
        if not rpc.add_callback(self._end):
            self._end()

    def is_taken(self) -> bool:
        """Tell whether the server takes posts; waits for its answer, or the end of the call."""
        return SAYS in dict(self._rpc.initial_metadata() or ())

    def post(self, number: int, raw: bytes) -> None:
        """Send message ``number``, as soon as few enough others are on the way.

        One thread alone posts.
        """
        if len(self._under_way) == MOST_AHEAD:
            self._under_way[0].code()  # waits for its end, or for that of the call
            self._under_way.popleft()
        metadata = ((KEY, self._key), (NUMBER, str(number)))
        try:
            post = self._say.future(raw, metadata=metadata)
        except ValueError as error:  # the channel was closed meanwhile
            logger.debug("a message of a session was not sent: %s", error)
            self._fail()
            return
        self._under_way.append(post)
        post.add_done_callback(self._done)
        if self._is_over:  # looked at after it is noted: ``_end`` has it, or this has
            post.cancel()

    def _done(self, post: Any) -> None:
        if post.code() is not grpc.StatusCode.OK:
            logger.debug("a message of a session did not arrive: %s", post.details())
            self._fail()

    def _fail(self) -> None:
        self.has_failed = self.has_failed or not self._is_over
        self._rpc.cancel()

    def _end(self) -> None:
        self._is_over = True
        for post in list(self._under_way):
            post.cancel()

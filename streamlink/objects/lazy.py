"""``LazySource``: an object at the server, of which the client fetches what it reads, when it does.

A read that goes on where the last one stopped takes the next bytes of the same stream, which the
server fills ahead as far as its window allows. A read elsewhere opens another stream from there.
What is in memory is the window of one stream, and a little of what was read last.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial

from streamlink.cancel import CancelToken
from streamlink.errors import AbortCode, Cancelled, ChecksumError
from streamlink.extent import Extent
from streamlink.link import Answer, Chunk
from streamlink.model.digest import DigestBuilder
from streamlink.model.interfaces import Payload
from streamlink.model.spec import ModelSpec
from streamlink.objects.attempts import Attempts
from streamlink.objects.line import Line
from streamlink.objects.lines import Lines
from streamlink.objects.reference import Reference
from streamlink.objects.window import Kept, extent_for

__all__ = ["Ask", "LazySource"]

Ask = Callable[[Extent, Attempts], Answer]
"""Asks the server for a range of the object."""

_SKIP_BYTES = 256 << 10
"""A read that jumps ahead by less takes the bytes in between: cheaper than another stream."""


class LazySource:
    """A source whose bytes are at the server. Several threads may read; they take turns.

    Args:
        reference: to the object.
        ask: asks for a range.
        attempts: makes what one read tries, as often as it makes sense.
        lines: bounds the open streams of the client.
        kept_bytes: how much of what was read last is kept (bytes).

    Raises:
        ObjectError: the server refuses.
        SpecMismatch: the server sends another model than the reference states.
    """

    def __init__(
        self,
        reference: Reference,
        ask: Ask,
        attempts: Callable[[], Attempts],
        lines: Lines,
        kept_bytes: int,
    ) -> None:
        self._reference, self._ask, self._attempts, self._lines = reference, ask, attempts, lines
        self._lock = threading.Lock()
        self._kept = Kept(kept_bytes)
        self._line: Line | None = None
        self._next = 0  # where the last read stopped: from here on the reader is sequential
        self._closing = CancelToken()  # ends the read that waits when this is closed
        tries = attempts()
        self._spec = tries.make(lambda: self._described(tries))
        self._digest = DigestBuilder(self._spec)

    @property
    def spec(self) -> ModelSpec:
        """The tensors, in logical order."""
        return self._spec

    def read(self, offset: int, length: int) -> Payload:
        """Return that range, once it has arrived.

        Raises:
            ValueError: the range is not inside the model, or this was closed, also meanwhile.
            ObjectError: the object is gone.
            ChecksumError: it is not what was put.
            StreamlinkError: the server was lost for too long.
        """
        self._spec.check_range(offset, length)
        with self._lock:
            self._require_open()
            tries = self._attempts()
            try:
                with self._closing.calling(tries.cancel.cancel):
                    views = self._views(offset, offset + length, tries)
            except Cancelled:
                self._require_open()
                raise
        self._lines.touch(self)  # without the lock: another reader may want the stream
        return views

    def close(self) -> None:
        """Drop the stream and what is kept, and end a read. Harmless when called twice."""
        self._closing.cancel("this object was closed")
        with self._lock:
            self._drop()
            self._kept.clear()

    def yield_line(self) -> bool:
        """See ``LineOwner``."""
        if not self._lock.acquire(blocking=False):
            return False
        try:
            self._drop()
        finally:
            self._lock.release()
        return True

    # --- with the lock ------------------------------------------------------------------------

    def _require_open(self) -> None:
        if self._closing.is_cancelled:
            raise ValueError("this object was closed; open it again")

    def _views(self, offset: int, stop: int, tries: Attempts) -> Payload:
        views: list[memoryview] = []
        while offset < stop:
            view = self._kept.find(offset, stop)
            if view is None:
                view = tries.make(partial(self._fetch, offset, stop, tries))
            views.append(view)
            offset += view.nbytes
        self._next = stop
        return tuple(views)

    def _described(self, tries: Attempts) -> ModelSpec:
        nothing = Extent(0, 0)
        line = Line(self._ask(nothing, tries), nothing, self._reference, tries.cancel)
        line.close()
        return line.spec

    def _fetch(self, at: int, stop: int, tries: Attempts) -> memoryview:
        """Return bytes from ``at`` on, at most up to ``stop``, from this stream or another."""
        try:
            line = self._line_to(at, stop, tries)
            while (view := self._kept.find(at, stop)) is None:
                self._take(line.next(tries.cancel))
        except BaseException:
            self._drop()
            raise
        if line.position == line.stop:
            self._drop()
        return view

    def _line_to(self, at: int, stop: int, tries: Attempts) -> Line:
        line = self._line
        if line is not None and line.position <= at < min(line.stop, line.position + _SKIP_BYTES):
            return line
        self._drop()
        extent = extent_for(self._spec, at, stop, is_sequential=at == self._next)
        self._lines.take(self, tries.cancel)
        self._line = Line(self._ask(extent, tries), extent, self._reference, tries.cancel)
        return self._line

    def _take(self, chunk: Chunk) -> None:
        offset = chunk.offset
        for view in chunk.payload:
            self._add_to_digest(offset, view)
            self._kept.add(offset, view)
            offset += view.nbytes

    def _add_to_digest(self, offset: int, view: memoryview) -> None:
        """Check the whole object against its reference, where it is read from its beginning on."""
        known = self._digest.offset - offset
        if not 0 <= known < view.nbytes:
            return
        self._digest.update(view[known:])
        wanted = self._reference.digest
        is_whole = self._digest.offset == self._spec.nbytes
        if wanted and is_whole and self._digest.hexdigest() != wanted:
            raise ChecksumError(
                f"object {self._reference.id[:8]} has digest {self._digest.hexdigest()}, and "
                f"{wanted} was put: it was changed since",
                code=AbortCode.DIGEST_MISMATCH,
            )

    def _drop(self) -> None:
        line, self._line = self._line, None
        if line is not None:
            line.close()
        self._lines.give_back(self)

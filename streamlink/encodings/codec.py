"""What an encoding has to do: ``Codec``, and ``Place``, which says what a codec may know."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import ClassVar, Protocol

from streamlink.model.interfaces import Payload
from streamlink.model.spec import ModelSpec, Segment

__all__ = ["Codec", "Place"]


@dataclass(frozen=True, slots=True)
class Place:
    """Which range of which model is encoded, and what else both ends know of it.

    None of this travels with the range. What a later codec needs to know beside it becomes a field
    here.
    """

    spec: ModelSpec
    offset: int
    """First byte of the range."""
    nbytes: int
    """Its length, plain (bytes). It may begin and end inside an element."""
    base: Callable[[int, int], Payload] | None = None
    """Reads (offset, nbytes) of the version of the model that both ends hold, which has the same
    spec; None: they hold none."""

    def segments(self) -> Iterator[Segment]:
        """Yield the pieces of tensors in this range, in order, with their dtypes."""
        return self.spec.segments(self.offset, self.nbytes)


class Codec(Protocol):
    """A pure function of a range, and its inverse. ``CodecContract`` in the tests holds it to this.

    One codec serves one stream and is called by one thread at a time, so it may keep buffers; what
    it gives must not depend on earlier calls, since ranges are sent again, and in any order.
    """

    name: ClassVar[str]
    """Names the encoding between the two ends, for good: another format needs another name."""

    def encode(self, payload: Payload, place: Place) -> memoryview | None:
        """Return the bytes that travel for the range, or None: encoding it is not worth it.

        The payload does not change, and must not be changed. What is returned is kept until the
        receiver has it. A result that is not shorter than the range is not sent.
        """

    def decode(self, payload: Payload, place: Place) -> memoryview:
        """Return the ``place.nbytes`` plain bytes of the range.

        The payload comes from a peer that may be hostile. Its length is bounded (it is shorter than
        the range), its content is not: memory must be bounded by ``place.nbytes`` *before* it is
        decoded, whatever the payload claims to hold.

        Raises:
            RemoteProtocolError: it is no encoding of so many bytes; says why.
        """

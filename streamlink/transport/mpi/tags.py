"""What a message of the MPI carrier is, in the number that MPI carries beside it, its tag.

So a message holds nothing of ours: a payload can be received straight into its place.
"""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

__all__ = ["ENDS", "OPENS", "Kind", "Tag", "numbers_within"]

# MPI guarantees tags up to 32,767 only. That leaves 1,024 numbers for calls between two processes.
_KIND_BITS, _WAY_BITS = 4, 1


class Kind(IntEnum):
    """What a message is."""

    OPEN_SESSION = 0
    """A client opens a call for a session; empty, as are all but the three that say otherwise."""
    OPEN_STREAM = 1
    """It opens one for a stream."""
    KNOCK = 2
    """It asks whether a server listens; answered with ``END``, or else ``LOST``."""
    FRAME = 3
    """A whole frame that is no chunk."""
    HEAD = 4
    """The length of a chunk's payload, and the chunk's header."""
    BODY = 5
    """That payload; follows the ``HEAD``, unless it is empty."""
    END = 6
    """Nothing more comes, and what the call carried has ended."""
    BREAK = 7
    """Nothing more comes, but the client is to open another call."""
    CUT = 8
    """The call was cut: what has come before may be dropped, too."""
    LOST = 9
    """As ``CUT``, where nobody is there for the call, or not any more."""


OPENS = frozenset({Kind.OPEN_SESSION, Kind.OPEN_STREAM, Kind.KNOCK})

ENDS = frozenset({Kind.END, Kind.BREAK, Kind.CUT, Kind.LOST})
"""The last message of a call in its direction. Each end sends one, and forgets the call's number
when it has had that of the other: messages arrive in order, so none of this call can follow."""


class Tag(NamedTuple):
    """A call, and a message of it."""

    number: int
    """The call's, at the client that has opened it."""
    is_up: bool
    """Whether it goes to the server. A process may be both ends of a call."""
    kind: Kind

    def packed(self) -> int:
        """Return the number that MPI carries."""
        return (self.number << _WAY_BITS | self.is_up) << _KIND_BITS | self.kind

    @classmethod
    def unpacked(cls, tag: int) -> Tag:
        """Return what ``packed`` has made a number of.

        Raises:
            ValueError: it was none of ours.
        """
        call, kind = divmod(tag, 1 << _KIND_BITS)
        number, is_up = divmod(call, 1 << _WAY_BITS)
        return cls(number, bool(is_up), Kind(kind))


def numbers_within(most_tag: int) -> int:
    """Return how many calls may be open at once between two processes, if tags end at that one."""
    return (most_tag + 1) >> (_KIND_BITS + _WAY_BITS)

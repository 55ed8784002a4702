"""A hook to stop a process at a given point of the protocol; tests set it, and nothing else does.

``Machine.observer = observer`` lets ``observer`` hear of every frame that a machine of this process
has taken or is about to send, and of every event, with the lock of its owner held: it may look at
the machine's state and end the process, and must do no more. The points to stop at are named after
the states of the machines; ``tests/support/kill_points.py`` has the list. Unset, it costs one
comparison for each.
"""

from __future__ import annotations

from typing import Any, Protocol

from streamlink.protocol.frames import Frame


class Observer(Protocol):
    """Hears how the machines of a process move."""

    def taken(self, machine: Any, frame: Frame) -> None:
        """A machine has taken ``frame``, and moved as its table says."""

    def sends(self, machine: Any) -> None:
        """A machine's frames are about to leave; whatever they say, the peer does not know yet."""

    def tells(self, machine: Any) -> None:
        """A machine's owner is about to hear an event: it has done nothing about it yet."""

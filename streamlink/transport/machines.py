"""What a pump needs of the machine it drives: the five verbs of ``protocol/machine.py``, typed."""

from __future__ import annotations

from typing import Protocol

from streamlink.config import LinkConfig
from streamlink.errors import AbortCode, StreamlinkError
from streamlink.protocol.events import Event
from streamlink.protocol.frames import Frame


class Machine(Protocol):
    """What a pump needs of a machine (``protocol``)."""

    config: LinkConfig
    peer_name: str
    name: str
    error: StreamlinkError | None
    damaged: int
    carrier: str

    @property
    def is_attached(self) -> bool:
        """Whether a call carries it."""

    @property
    def is_closed(self) -> bool:
        """Whether it is in a final state."""

    @property
    def has_events(self) -> bool:
        """Whether its owner has something to learn."""

    def has_frames(self, channel: int = 0) -> bool:
        """Whether it has something to send on that channel."""

    def attach(self, *, now: float, channel: int = 0) -> None:
        """A call carries it from now on."""

    def detach(self, *, now: float, channel: int = 0) -> None:
        """A call is lost."""

    def carries(self, channel: int) -> bool:
        """Whether that call still carries it."""

    def receive(self, frame: Frame, *, now: float, channel: int = 0) -> None:
        """Take a frame."""

    def handle_timer(self, *, now: float) -> None:
        """Look at the clocks."""

    def frames_to_send(self, *, now: float, channel: int = 0) -> list[Frame]:
        """Give what has to go out on that channel."""

    def next_event(self) -> Event | None:
        """Give the next event."""

    def next_deadline(self) -> float | None:
        """Say when to look at the clocks."""

    def is_lost(self, *, now: float) -> bool:
        """Whether it has waited too long for another call."""

    def is_waiting(self, *, now: float) -> bool:
        """Whether its owner should know that it waits for another call."""

    def is_overdue(self, *, now: float) -> bool:
        """Whether it has ended, and its calls have had their time to say so."""

    def report_damage(self, *, now: float, channel: int = 0) -> None:
        """Count a frame that arrived damaged, and give up its call; too many end the machine."""

    def abort(self, code: AbortCode, reason: str) -> None:
        """End it for a reason of ours."""

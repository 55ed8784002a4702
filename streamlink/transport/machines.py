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
    peer: str
    name: str
    error: StreamlinkError | None
    is_attached: bool
    damaged: int

    @property
    def is_closed(self) -> bool:
        """Whether it is in a final state."""

    @property
    def has_frames(self) -> bool:
        """Whether it has something to send."""

    @property
    def has_events(self) -> bool:
        """Whether its owner has something to learn."""

    def attach(self, *, now: float) -> None:
        """A call carries it from now on."""

    def detach(self, *, now: float) -> None:
        """The call is lost."""

    def receive(self, frame: Frame, *, now: float) -> None:
        """Take a frame."""

    def handle_timer(self, *, now: float) -> None:
        """Look at the clocks."""

    def frames_to_send(self, *, now: float) -> list[Frame]:
        """Give what has to go out."""

    def next_event(self) -> Event | None:
        """Give the next event."""

    def next_deadline(self) -> float | None:
        """Say when to look at the clocks."""

    def take_damage(self, *, is_last: bool) -> None:
        """Count a frame that arrived damaged; the last that is borne ends it."""

    def abort(self, code: AbortCode, reason: str) -> None:
        """End it for a reason of ours."""

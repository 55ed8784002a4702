"""Two places and the line between them: processes are started there, and its bytes are counted.

- *loopback*: a network namespace of its own, whose loopback device counts the packets of this run
  alone. Without root it is the machine's, and nothing is counted.
- *relay*: a process in user space that runs anywhere. TCP ends at both sides of it; it counts what
  TCP carries, without headers.
- *emulated*: TCP from end to end through two namespaces (``benchmarks.longline``), with losses,
  and all else that a relay has. Needs root; IP packets are counted, those that are lost too.
- *shaped*: two namespaces whose rate the kernel limits (``shaped``), without delay or losses. Needs
  root; Ethernet frames are counted.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from types import TracebackType
from typing import Any, Protocol, Self

from benchmarks.closing import Closing
from benchmarks.links.lines import Kind, Line, Passed
from benchmarks.links.loopback import Loopback, why_no_loopback
from benchmarks.links.shaped import ShapedPlace, why_not_shaped
from benchmarks.longline import roads
from benchmarks.longline.namespace import why_not
from benchmarks.processes import Worker

__all__ = ["COUNTED", "Place", "opened"]

COUNTED: dict[Kind, str] = {
    "loopback": "IP packets and their headers",
    "relay": "what TCP carries, without headers",
    "emulated": "IP packets and their headers, lost ones too",
    "shaped": "Ethernet frames and their headers",
}


class Place(Protocol):
    """A line that stands; leaving the ``with`` block ends it.

    Attributes:
        host: the address at which the far end listens.
    """

    host: str

    def near(self) -> AbstractContextManager[None]:
        """Start the process that dials inside this block."""

    def far(self) -> AbstractContextManager[None]:
        """Start the process that listens inside this block."""

    def reach(self, number: int, *, has_data_port: bool = False) -> tuple[str, int]:
        """Return host and port by which the near end reaches a port of the far end."""

    def passed(self) -> Passed | None:
        """Return what has entered the line so far; None: nothing is counted here."""

    def finish(self) -> dict[str, Any]:
        """Return what the line says of itself, as JSON: losses, drops, what it is made of."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...


def opened(line: Line) -> Place:
    """Return the place for a line, not entered yet.

    Raises:
        OSError: the line needs root, or what else this machine has not; the text says so.
    """
    if line.kind == "relay":
        return RelayedPlace(line)
    if line.kind == "loopback":
        return BarePlace() if why_no_loopback() else Loopback()
    if line.kind == "shaped":
        if why := why_not_shaped():
            raise OSError(f"the line {line}: {why}")
        return ShapedPlace(line)
    if why := why_not():
        raise OSError(f"the line {line} has losses: {why}")
    return EmulatedPlace(line)


class BarePlace(Closing):
    """The machine's own loopback, where others are, too."""

    host = "127.0.0.1"

    def near(self) -> AbstractContextManager[None]:
        return nullcontext()

    def far(self) -> AbstractContextManager[None]:
        return nullcontext()

    def reach(self, number: int, *, has_data_port: bool = False) -> tuple[str, int]:
        return self.host, number

    def passed(self) -> Passed | None:
        return None

    def finish(self) -> dict[str, Any]:
        return {}

    def close(self) -> None:
        """Nothing is held."""


class RelayedPlace(BarePlace):
    """A relay in a process of its own, for each port that is reached."""

    def __init__(self, line: Line) -> None:
        self._line = line
        self._relays: list[Worker] = []

    def reach(self, number: int, *, has_data_port: bool = False) -> tuple[str, int]:
        facts = {"line": self._line.as_json(), "number": number, "with_data_port": has_data_port}
        relay = Worker("benchmarks.links.relaying:relay", facts, name="relay")
        self._relays.append(relay)
        return self.host, int(relay.expect("listening")["number"])

    def passed(self) -> Passed:
        counts = [self._ask(relay) for relay in self._relays]
        up, down = (sum(each[way] for each in counts) for way in ("up_bytes", "down_bytes"))
        return Passed(up + down, up, down)

    def finish(self) -> dict[str, Any]:
        return {"relays": [self._ask(relay) for relay in self._relays]}

    def close(self) -> None:
        for relay in self._relays:
            relay.close()

    def _ask(self, relay: Worker) -> dict[str, int]:
        relay.tell("count")
        return relay.expect("counted")


class EmulatedPlace(roads.EmulatedRoad):
    """Two namespaces and the packets between them."""

    def reach(  # type: ignore[override]
        self, number: int, *, has_data_port: bool = False
    ) -> tuple[str, int]:
        return self.host, number

    def passed(self) -> Passed:
        counts = self.counts()
        up, down = (counts[way]["nbytes"] for way in ("up", "down"))
        return Passed(up + down, up, down)

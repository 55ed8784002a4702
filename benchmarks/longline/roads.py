"""What lies between two ends that are measured: an emulated long line, or a relay.

A program starts the far end under ``road.far()`` and the near end under ``road.near()``; for the
rest it need not know which one it is. Each run has a road of its own: the kernel remembers how a
destination was reached before.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, ExitStack, nullcontext
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol, Self

from benchmarks.closing import Closing
from benchmarks.lines import Line as RelayLine
from benchmarks.lines import opened
from benchmarks.links import lines
from benchmarks.longline.bottleneck import Line, Long
from benchmarks.longline.forwarder import FAR
from benchmarks.longline.namespace import inside
from benchmarks.processes import Usage, Worker

__all__ = ["EmulatedRoad", "RelayedRoad", "Road", "congestion_controls", "kernel_settings"]

SYSCTL = Path("/proc/sys/net/ipv4")


class Road(Protocol):
    """Two places and what is between them; leaving the ``with`` block ends it.

    Attributes:
        host: where the far end listens.
    """

    host: str

    def near(self) -> AbstractContextManager[None]:
        """Start processes at the near end inside this block."""

    def far(self) -> AbstractContextManager[None]:
        """Start processes at the far end inside this block."""

    def reach(self, port: int) -> str:
        """Return the address by which the near end reaches a port of the far end."""

    def finish(self) -> dict[str, Any]:
        """End the line; returns what it tells of itself, as JSON."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...


class EmulatedRoad(Closing):
    """Two namespaces and the packets between them: real TCP from end to end.

    Needs root; see ``namespace.why_not``.
    """

    host = FAR

    def __init__(self, line: Long) -> None:
        both = lines.Line(str(line), *line.ways, seed=line.seed, mtu=line.mtu)
        facts = {"line": both.as_json()}
        self._forwarder = Worker("benchmarks.longline.forwarder:forward", facts, name="forwarder")

    def near(self) -> AbstractContextManager[None]:
        return inside(self._near)

    def far(self) -> AbstractContextManager[None]:
        return inside(self._far)

    def reach(self, port: int) -> str:
        return f"{self.host}:{port}"

    def counts(self) -> dict[str, dict[str, int]]:
        """Return what each direction has carried and dropped so far, by ``up`` and ``down``."""
        self._forwarder.tell("count")
        return self._forwarder.expect("counted")

    def finish(self) -> dict[str, Any]:
        counts = self.counts()
        with self.near():
            kernel = kernel_settings()
        self._forwarder.tell("end")
        used: Usage = self._forwarder.finish()
        return {**counts, "forwarder_cpu_seconds": used.cpu_seconds, "kernel": kernel}

    def __enter__(self) -> Self:
        self._forwarder.__enter__()
        try:
            held = self._forwarder.expect("standing")
        except BaseException:
            self._forwarder.close()
            raise
        of_forwarder = Path(f"/proc/{self._forwarder.pid}/fd")
        self._near, self._far = (of_forwarder / str(held[end]) for end in ("near", "far"))
        return self

    def close(self) -> None:
        """End the forwarder, and with it both namespaces."""
        self._forwarder.close()


class RelayedRoad(Closing):
    """A relay on the loopback: rate and delay, and TCP that ends at the relay. It loses nothing."""

    host = "127.0.0.1"

    def __init__(self, line: Line) -> None:
        if line.loss:
            raise ValueError(f"a relay loses nothing: {line}")
        self._shape = RelayLine(line.bytes_per_second, line.round_trip / 2)
        self._workers = ExitStack()

    def near(self) -> AbstractContextManager[None]:
        return nullcontext()

    def far(self) -> AbstractContextManager[None]:
        return nullcontext()

    def reach(self, port: int) -> str:
        return opened(self._shape, f"{self.host}:{port}", self._workers)

    def finish(self) -> dict[str, Any]:
        return {"kernel": kernel_settings()}

    def close(self) -> None:
        """End the relays."""
        self._workers.close()


def congestion_controls() -> tuple[str, ...]:
    """Return the names of those that the kernel has now; it may have more as modules."""
    return tuple(sorted((SYSCTL / "tcp_available_congestion_control").read_text("ascii").split()))


def kernel_settings() -> dict[str, str]:
    """Return what bounds a connection in the namespace that this thread is in."""
    names = ("tcp_congestion_control", "tcp_rmem", "tcp_wmem", "tcp_notsent_lowat")
    return {name: " ".join((SYSCTL / name).read_text("ascii").split()) for name in names}

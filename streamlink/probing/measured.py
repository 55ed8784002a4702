"""``Measured``: everything that a probe has found out about a line."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from streamlink.probing.speed import Speed

__all__ = ["Measured", "RoundTrips", "gain_of"]


@dataclass(frozen=True, slots=True)
class RoundTrips:
    """Round trips of a small message through both sessions (seconds)."""

    lowest: float
    median: float
    highest: float
    count: int

    @classmethod
    def of(cls, seconds: Sequence[float]) -> RoundTrips:
        """Return them for measurements.

        Raises:
            ValueError: there is none.
        """
        if not seconds:
            raise ValueError("no round trip was measured")
        return cls(min(seconds), median(seconds), max(seconds), len(seconds))


@dataclass(frozen=True, slots=True)
class Measured:
    """One line between two ends. *Down* is from the server to the end that probes."""

    address: str
    carrier: str
    """What carried the models, such as ``tcp``."""
    is_encrypted: bool
    idle: RoundTrips
    loaded: RoundTrips
    """Round trips while models moved, in one direction or in both."""
    down: Speed
    """Alone, over one connection."""
    up: Speed
    down_both: Speed
    """While a model moved the other way, too."""
    up_both: Speed
    several: int
    """How many connections were tried at once (count)."""
    down_several: Speed
    """Over that many connections together."""
    up_several: Speed
    down_both_several: Speed | None
    """Over that many connections in each direction, both directions at once. None: not measured,
    because several connections are hardly faster than one, or the server does not move that many
    models at a time."""
    up_both_several: Speed | None
    lost_connections: int
    """Connections that broke and were replaced, of models and of the session (count)."""
    seconds: float
    """How long the probe took."""
    nbytes: int
    """How much it moved (bytes of models)."""

    @property
    def slowest(self) -> float:
        """The lowest rate of all measurements over one connection (bytes per second)."""
        return min(each.rate for each in (self.down, self.up, self.down_both, self.up_both))

    @property
    def fastest(self) -> float:
        """The highest rate of all measurements in one direction (bytes per second)."""
        every = (self.down, self.up, self.down_several, self.up_several)
        return max(each.rate for each in every)

    @property
    def gain_of_several(self) -> float:
        """See ``gain_of``."""
        return gain_of((self.down, self.down_several), (self.up, self.up_several))


def gain_of(*ways: tuple[Speed, Speed]) -> float:
    """Return what several connections carry of one, in the direction where they gain more.

    Args:
        ways: for each direction the speed over one connection, and over several.
    """
    return max(several.rate / one.rate for one, several in ways)

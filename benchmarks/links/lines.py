"""A line between two sites: how each direction behaves, and what may be written for it."""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

__all__ = ["LOOPBACK", "Kind", "Line", "Passed", "Stalls", "Way", "parse_line"]

Kind = Literal["loopback", "relay", "emulated", "shaped"]
EXAMPLE = (
    "100Mbit,50ms or up=20Mbit,down=100Mbit,up-loss=0.1% or 200KiB,jitter=5ms,down-stall=1s/10s "
    "or 1Gbit,tbf"
)

_RATES = {
    "bit": 1.0,
    "kbit": 1e3,
    "mbit": 1e6,
    "gbit": 1e9,
    "kib": 8 * 1024.0,
    "mib": 8 * 1024.0**2,
}
_SPANS = {"ms": 1e-3, "s": 1.0}


@dataclass(frozen=True, slots=True)
class Stalls:
    """The line stands still for ``seconds``, again and again, ``every`` seconds from the start."""

    seconds: float
    every: float

    def __post_init__(self) -> None:
        if not 0 < self.seconds < self.every:
            raise ValueError(f"a stall ends before the next one begins: {self!r}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """One direction of a line.

    Attributes:
        rate: bits per second; None: as fast as this machine goes.
        delay: seconds, one way.
        jitter: up to so many seconds more, at random; the order is kept.
        loss: share of the packets that are lost at random (0 to 1).
        stalls: when nothing passes at all; None: never.
    """

    rate: float | None = None
    delay: float = 0.0
    jitter: float = 0.0
    loss: float = 0.0
    stalls: Stalls | None = None

    def __post_init__(self) -> None:
        if (self.rate is not None and self.rate <= 0) or not 0 <= self.loss < 1:
            raise ValueError(
                f"nothing would ever pass at {self.rate} bit/s with a loss of {self.loss:.0%}"
            )
        if min(self.delay, self.jitter) < 0:
            raise ValueError(f"delay and jitter must not be negative: {self.delay}, {self.jitter}")

    @classmethod
    def from_json(cls, facts: dict[str, Any]) -> Way:
        """Return the direction that ``as_json`` of a line wrote."""
        stalls = Stalls(**facts["stalls"]) if facts["stalls"] else None
        return cls(**{**facts, "stalls": stalls})


@dataclass(frozen=True, slots=True)
class Line:
    """A line with a name, as tables call it; up is from the end that dials to the other one."""

    name: str
    up: Way = field(default_factory=Way)
    down: Way = field(default_factory=Way)
    seed: int = 0
    """Of losses and jitter."""
    is_shaped: bool = False
    """The kernel limits it, with tbf."""
    mtu: int = 1500
    """The largest IP packet of an emulated line (bytes)."""

    def __post_init__(self) -> None:
        have_rates = all(way.rate is not None for way in self.ways)
        if self.is_shaped and not (have_rates and all(_has_rate_only(way) for way in self.ways)):
            raise ValueError("tbf gives a rate in each direction and no more")
        if self.kind == "emulated" and not have_rates:
            raise ValueError("one that has losses needs a rate in each direction, for its queue")

    @property
    def ways(self) -> tuple[Way, Way]:
        """Both directions."""
        return self.up, self.down

    @property
    def kind(self) -> Kind:
        """What it is made of; see ``places``."""
        if self.is_shaped:
            return "shaped"
        if any(way.loss for way in self.ways):
            return "emulated"
        return "loopback" if self.ways == (Way(), Way()) else "relay"

    @property
    def round_trip(self) -> float:
        """Seconds there and back through empty queues, without jitter."""
        return self.up.delay + self.down.delay

    @property
    def rate(self) -> float | None:
        """Bits per second of the slower direction; None: neither is limited."""
        rates = [way.rate for way in self.ways if way.rate is not None]
        return min(rates) if rates else None

    def seconds(self, nbytes: int) -> float:
        """Return how long so many bytes take in the slower direction at least."""
        return nbytes * 8 / self.rate if self.rate else 0.0

    def as_json(self) -> dict[str, Any]:
        """Return the fields as a JSON object."""
        return asdict(self)

    @classmethod
    def from_json(cls, facts: dict[str, Any]) -> Line:
        """Return the line that ``as_json`` wrote."""
        ways = {name: Way.from_json(facts[name]) for name in ("up", "down")}
        return cls(**{**facts, **ways})

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class Passed:
    """Bytes that entered the line, by direction; a line that cannot tell has them together.

    Attributes:
        up: from the end that dials. down: to it. both: their sum.
    """

    both: int
    up: int | None = None
    down: int | None = None


LOOPBACK = Line("loopback")


def parse_line(text: str) -> Line:
    """Return the line that a person wrote; its name is the text.

    Words are separated by commas: a rate (``100Mbit``: bits per second, ``200KiB``: bytes), or one
    for each direction (``up=20Mbit,down=100Mbit``; up is from the end that dials); the round trip
    (``50ms``), ``loss=0.1%``, ``jitter=5ms``, ``stall=1s/10s`` (one second in ten). Each of these
    may be written for one direction, which then has it instead: ``up-delay=40ms`` (one way),
    ``up-loss=0.1%``, ``down-jitter=5ms``, ``down-stall=1s/10s``. ``tbf``: the kernel limits the
    rate, and not a process.

    Raises:
        ValueError: a word is none of these, or no line can be what they make together.
    """
    if text == LOOPBACK.name:
        return LOOPBACK
    found: dict[str, Any] = {}
    for word in text.split(","):
        name, value = _word(word.strip(), text)
        if name in found:
            raise ValueError(f"the line {text!r} has two of {name!r}; an example: {EXAMPLE}")
        found[name] = value
    is_shaped = found.pop("tbf", False)
    both = {name: value for name, value in found.items() if "-" not in name}
    try:
        up, down = (Way(**both | _of_way(name, found)) for name in ("up", "down"))
        return Line(text, up, down, is_shaped=is_shaped)
    except ValueError as error:
        raise ValueError(f"the line {text!r}: {error}; an example: {EXAMPLE}") from None


def _has_rate_only(way: Way) -> bool:
    return way == Way(rate=way.rate)


def _of_way(way: str, found: dict[str, Any]) -> dict[str, Any]:
    """Return what was written for one direction alone."""
    prefix = f"{way}-"
    return {name.removeprefix(prefix): value for name, value in found.items()
            if name.startswith(prefix)}  # fmt: skip


def _word(word: str, text: str) -> tuple[str, Any]:
    """Return the name of what a word sets, and its value; ``up-`` or ``down-``: of one way."""
    name, has_name, value = word.partition("=")
    way, has_way, rest = name.partition("-")
    try:
        if word == "tbf":
            return "tbf", True
        if not has_name:
            if (span := _quantity(word, _SPANS)) is not None:
                return "delay", span / 2
            if (rate := _quantity(word.removesuffix("/s"), _RATES)) is not None:
                return "rate", rate
        elif name in ("up", "down") and (rate := _quantity(value, _RATES)) is not None:
            return f"{name}-rate", rate
        elif has_way and way in ("up", "down") and (found := _named(rest, value)) is not None:
            return f"{way}-{found[0]}", found[1]
        elif name != "delay" and (found := _named(name, value)) is not None:
            return found
    except ValueError as error:
        raise ValueError(f"{word!r} in the line {text!r}: {error}; an example: {EXAMPLE}") from None
    raise ValueError(f"{word!r} in the line {text!r} is no part of a line; an example: {EXAMPLE}")


def _named(name: str, value: str) -> tuple[str, Any] | None:
    """Return the attribute of ``Way`` that a name stands for, and its value; None: it is none."""
    if name == "loss" and value.endswith("%"):
        return "loss", float(value[:-1]) / 100
    if name in ("delay", "jitter") and (span := _quantity(value, _SPANS)) is not None:
        return name, span
    if name == "stall":
        seconds, every = (_quantity(each, _SPANS) for each in value.split("/"))
        if seconds is not None and every is not None:
            return "stalls", Stalls(seconds, every)
    return None


def _quantity(text: str, units: dict[str, float]) -> float | None:
    # Without a bound of the digits a float of them may be infinite.
    match = re.fullmatch(r"(\d{1,15}(?:\.\d{1,15})?)\s*([A-Za-z]+)", text)
    if match is None or match[2].lower() not in units:
        return None
    return float(match[1]) * units[match[2].lower()]

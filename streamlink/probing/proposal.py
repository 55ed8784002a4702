"""Settings for a line that was measured, each with its reason. Arithmetic only.

The three timeouts are limits of *idleness*: every byte that moves restarts them. So they follow
from the longest silence that the line itself can cause, and not from the time that a whole model
takes. Whoever sets them to that time waits as long for a peer that is dead.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

from streamlink.config import StreamConfig, TimeoutConfig
from streamlink.config.values import KiB, MiB
from streamlink.probing.lanes import CARRIER, connections_text, lanes_for
from streamlink.probing.measured import Measured
from streamlink.protocol.flow_control import LONG_MARGIN
from streamlink.protocol.liveness import Liveness, extra_grace_seconds

__all__ = ["Choice", "longest_silence", "propose", "size_text"]

_LEAST_CHUNK = 64 * KiB
_CHUNK_SECONDS = 1.0
_MOST_WINDOW = 256 * MiB
_SAFETY = 10.0


@dataclass(frozen=True, slots=True)
class Choice:
    """One setting, its value, and why."""

    name: str
    """``section.key``."""
    value: int | float
    text: str
    """The value, as it is written in a file of settings."""
    reason: str
    is_set: bool = True
    """False: leave it out. The default fits, and unlike a value that is set, it can grow."""


def propose(measured: Measured) -> tuple[Choice, ...]:
    """Return the settings for a line."""
    chunk = _chunk(measured)
    lanes = _lanes(measured)
    window = _window(measured, int(chunk.value))
    return (chunk, window, lanes, *_timeouts(measured, int(chunk.value)))


def longest_silence(measured: Measured, chunk_bytes: int) -> float:
    """Return the longest time between two acknowledgements that the line can cause (seconds).

    Every second chunk is acknowledged, and the acknowledgement takes a round trip of the loaded
    line.
    """
    computed = 2 * chunk_bytes / measured.slowest + measured.loaded.highest
    every = (measured.down, measured.up, measured.down_both, measured.up_both)
    return max(computed, *(each.longest_gap for each in every))


def size_text(nbytes: int) -> str:
    """Return a size as settings take it, in the largest unit that divides it."""
    for unit, factor in (("MiB", MiB), ("KiB", KiB)):
        if nbytes % factor == 0:
            return f"{nbytes // factor}{unit}"
    return str(nbytes)


def _chunk(measured: Measured) -> Choice:
    size = most = StreamConfig().chunk_bytes
    while size > _LEAST_CHUNK and size / measured.slowest > _CHUNK_SECONDS:
        size //= 2
    takes = f"one takes {size / measured.slowest:.2g} s at the slowest rate that was measured"
    why = (
        f"the default; {takes}"
        if size == most
        else f"{takes}; acknowledgements and repairs come in steps of a chunk, so it should not "
        f"take more than {_CHUNK_SECONDS:g} s"
    )
    return Choice("stream.chunk_bytes", size, size_text(size), why)


def _window(measured: Measured, chunk: int) -> Choice:
    default = StreamConfig()
    held = measured.fastest * measured.idle.median
    needed = LONG_MARGIN * held + 4 * chunk
    holds = (
        f"the line holds {held / 1e6:.3g} MB on the way ({measured.fastest / 1e6:.4g} MB/s x "
        f"{measured.idle.median * 1e3:.3g} ms)"
    )
    if LONG_MARGIN * held <= default.longest_window_bytes:
        size = default.window_bytes
        why = (
            f"the default, which grows to up to {size_text(default.longest_window_bytes)} where a "
            f"line needs it, and would not if it were set; {holds}. It grows out of "
            f"stream.long_bytes ({size_text(default.long_bytes)} for all streams of a process)"
        )
        return Choice("stream.window_bytes", size, size_text(size), why, is_set=False)
    size = default.window_bytes
    while size < min(needed, _MOST_WINDOW):
        size *= 2
    why = f"{holds}; twice that and four chunks are {needed / 1e6:.3g} MB"
    if needed > _MOST_WINDOW:
        why += f"; not more than {size_text(_MOST_WINDOW)}, which is memory at each end"
    else:
        why += "; a smaller window would leave the line empty between acknowledgements"
    return Choice("stream.window_bytes", size, size_text(size), why)


def _lanes(measured: Measured) -> Choice:
    lanes, tried = lanes_for(measured), measured.several
    carried = f"{tried} connections together carried {measured.gain_of_several:.2f} x what one did"
    forecast = f"the forecast of a round is over {connections_text(lanes)}"
    if measured.carrier != CARRIER:
        why = f"only {CARRIER} carries a stream over several, not {measured.carrier}"
    elif lanes == 1:
        why = f"{carried}, so one fills the line"
    else:
        why = f"{carried}; streamlink opens one more while that makes a stream faster"
    return Choice("stream.max_lanes", lanes, str(lanes), f"{why}; {forecast}")


def _timeouts(measured: Measured, chunk: int) -> tuple[Choice, ...]:
    defaults = TimeoutConfig()
    noticed, replaced = _loss_seconds(defaults)
    silence = longest_silence(measured, chunk)
    least = _in_tens(noticed + replaced)
    seconds = max(least, _in_tens(_SAFETY * silence))
    line = f"the line itself can be silent for {silence:.2g} s between two acknowledgements"
    times = f"{_SAFETY:g} times that" if seconds > least else f"{seconds:g} s at least"
    resumes = (
        "so that a connection which dies silently can be replaced first: that is noticed after "
        f"{defaults.call_timeout:g} s (call_timeout), or {noticed:g} s before the first bytes of a "
        f"stream, and may take {replaced:g} s (reconnect_timeout, and a third of it)"
    )
    whole = "it need not cover the whole model: every byte that moves restarts it"
    reasons = {
        "streaming_read_timeout": f"in a round that streams both ways the reader takes the next "
        f"chunk once the other direction has room: {line}; {times}, {resumes}. A slow disk or slow "
        "work between two chunks needs more",
        "streaming_ack_wait": f"{line}; {times}, {resumes}; {whole}",
        "communication_timeout": f"{line}; {times}, {resumes}; {whole}. Training counts as "
        "progress while its process lives. Only an executor that reports progress itself "
        "(reports_progress=True), or that answers range by range, needs more where it takes longer "
        "from one report or range to the next",
    }
    return tuple(
        Choice(f"timeouts.{key}", seconds, f"{seconds:g}", why) for key, why in reasons.items()
    )


def _loss_seconds(timeouts: TimeoutConfig) -> tuple[float, float]:
    """Return how long a dead connection may go unnoticed, and may then take to be replaced."""
    liveness = Liveness(timeouts.call_timeout, open_timeout=timeouts.open_timeout)
    grace = extra_grace_seconds(timeouts, timeouts.session_timeout)
    return liveness.timeout(is_handshake=False), timeouts.reconnect_timeout + grace


def _in_tens(seconds: float) -> float:
    return float(ceil(seconds / 10.0) * 10)

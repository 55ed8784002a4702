"""Writes a probe: as text for people, as YAML for ``--config``, and as JSON."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from itertools import groupby
from textwrap import wrap
from typing import Any

from streamlink.encodings.registry import AUTO, lossless_encodings, offered
from streamlink.probing.forecast import PLAIN, STREAMING, EncodingCost, Round
from streamlink.probing.lanes import SECONDS_TO_OPEN, connections_text
from streamlink.probing.measured import Measured, RoundTrips
from streamlink.probing.proposal import Choice
from streamlink.probing.speed import Speed

__all__ = ["as_json", "as_text", "as_yaml", "forecast_text", "partial_text", "settings_text"]

_WIDTH = 100
_SHORT_SECONDS = 0.5
_AT_SERVER = (
    "Of chunk, window and lanes the smaller value of both ends counts. So set at the server those "
    "that are larger than its own; for several lines, the largest"
)


def as_text(measured: Measured) -> str:
    """Return what was measured."""
    m, count = measured, measured.several
    every = (
        ("down, alone", m.down),
        ("up, alone", m.up),
        ("down, beside up", m.down_both),
        ("up, beside down", m.up_both),
        (f"down, {count} at once", m.down_several),
        (f"up, {count} at once", m.up_several),
        (f"down, {count} beside {count}", m.down_both_several),
        (f"up, {count} beside {count}", m.up_both_several),
    )
    lost = f"{m.lost_connections} lost" if m.lost_connections else "none lost"
    way = "TLS" if m.is_encrypted else "plain text"
    head = (
        f"{m.address}: {way}, models over {m.carrier}; {m.nbytes / 1e6:.1f} MB in {m.seconds:.1f} s"
    )
    lines = [
        f"{head}; connections: {lost}",
        f"  round trip, idle      {_trips(m.idle)}",
        f"  round trip, loaded    {_trips(m.loaded)}",
        *(f"  {name:<22}{_speed(speed)}" for name, speed in every if speed is not None),
    ]
    if min(m.down.seconds, m.up.seconds) < _SHORT_SECONDS:
        lines.append(
            "  the line is fast: all that a probe may move took so little time that rates are rough"
        )
    return "\n".join(lines)


def partial_text(found: Sequence[tuple[str, RoundTrips | Speed]]) -> str:
    """Return what was measured before a probe was ended; see ``measure.Note``."""
    lines = [
        f"  {name:<22}{_trips(each) if isinstance(each, RoundTrips) else _speed(each)}"
        for name, each in found
    ]
    head = "the probe was ended early; measured until then, and too little to propose settings:"
    return "\n".join([head, *lines])


def settings_text(choices: Sequence[Choice]) -> str:
    """Return the proposed settings with their reasons."""
    lines = wrap(f"settings for this line, at the client. {_AT_SERVER}.", _WIDTH)
    for each in choices:
        value = f"= {each.text}" if each.is_set else f"is not set (default: {each.text})"
        lines.append(f"  {each.name} {value}")
        lines += wrap(each.reason, _WIDTH, initial_indent="      ", subsequent_indent="      ")
    return "\n".join(lines)


def forecast_text(
    nbytes: int, rounds: Sequence[Round], costs: Sequence[EncodingCost], what: str, base: str = ""
) -> str:
    """Return the forecast of one round with a model of ``nbytes``.

    Args:
        nbytes: of the model.
        rounds: the forecast.
        costs: of the encodings in it.
        what: the encodings were tried with it.
        base: the older version that differences were taken from; empty: there are none.
    """
    lanes = max(each.connections for each in rounds)
    lines = [
        f"one round with a model of {nbytes} bytes over {connections_text(lanes)}, the line alone",
        "(without training, disks and other clients):",
        f"  {'executor':<11}{'encoding':<13}{'down':>12}{'up':>12}{'round':>12}",
    ]
    lines += [
        f"  {each.executor:<11}{_named(each.encoding, each.is_lossy):<13}"
        f"{_duration(each.down_seconds):>12}{_duration(each.up_seconds):>12}"
        f"{_duration(each.seconds):>12}"
        for each in rounds
    ]
    for cost in costs:
        lines += _note(_cost(cost, what, base))
    if any(each.encoding == AUTO for each in rounds):
        lines += _note(
            f"{AUTO}: computed, the fastest of {PLAIN.name}, {', '.join(_automatic(costs))} for "
            "the whole model; a transfer chooses for each range"
        )
    if lanes > 1:
        is_both = any(each.executor == STREAMING and each.connections > 1 for each in rounds)
        both = ", also both ways at once, which is how streaming uses the line" if is_both else ""
        lines += _note(
            f"connections: a stream begins with one and opens the next after {SECONDS_TO_OPEN:g} s "
            f"each. The rates of 1 and of {lanes} were measured{both}; in between the rate is "
            "assumed to grow evenly"
        )
    return "\n".join(lines)


def _cost(cost: EncodingCost, what: str, base: str) -> str:
    leaves = f"{_named(cost.name, cost.is_lossy)}: leaves {100 * cost.share:.3g} % of the bytes"
    speeds = f"encodes at {cost.encode / 1e6:.0f} MB/s"
    if cost.share < 1:  # else all travels plain, and nothing was decoded
        speeds += f", decodes at {cost.decode / 1e6:.0f} MB/s"
    speeds += " here"
    if cost.is_lossy:
        return (
            f"{leaves}, computed from the dtypes, where all values fit the format; rounds and "
            f"{speeds}, measured with {what}"
        )
    since = "" if cost.name in lossless_encodings() else f", as differences from {base}"
    return f"{leaves}; {speeds}, tried with {what}{since}"


def _named(encoding: str, is_lossy: bool) -> str:
    return f"{encoding}, lossy" if is_lossy else encoding


def _automatic(costs: Sequence[EncodingCost]) -> list[str]:
    return [each.name for each in costs if each.name in offered((AUTO,))]


def _note(text: str) -> list[str]:
    # Paths stay whole, to be copied.
    return wrap(
        text,
        _WIDTH,
        initial_indent="  ",
        subsequent_indent="      ",
        break_long_words=False,
        break_on_hyphens=False,
    )


def as_yaml(measured: Measured, choices: Sequence[Choice]) -> str:
    """Return the proposed settings as a file for ``--config``, with the reasons as comments.

    What is not to be set is a comment, too.
    """
    return "\n".join([*_yaml_lines(measured, choices), ""])


def _yaml_lines(measured: Measured, choices: Sequence[Choice]) -> Iterator[str]:
    yield "# Settings for one line: for --config at the client."
    yield from _comment(f"{_AT_SERVER}.", "")
    yield from _comment(
        f"{measured.address}: round trip {measured.idle.median * 1e3:.3g} ms, down "
        f"{measured.down.rate / 1e6:.4g} MB/s, up {measured.up.rate / 1e6:.4g} MB/s",
        "",
    )
    for section, every in groupby(choices, key=lambda each: each.name.partition(".")[0]):
        yield f"{section}:"
        for each in every:
            yield from _comment(each.reason, "  ")
            yield f"  {'' if each.is_set else '# '}{each.name.partition('.')[2]}: {each.text}"


def _comment(text: str, indent: str) -> list[str]:
    # The address is the user's text: a line break in it must not end the comment.
    words = " ".join(text.split())
    return wrap(words, _WIDTH, initial_indent=f"{indent}# ", subsequent_indent=f"{indent}# ")


def as_json(
    measured: Measured,
    choices: Sequence[Choice],
    rounds: Sequence[Round],
    costs: Sequence[EncodingCost],
) -> dict[str, Any]:
    """Return everything; bytes, seconds and bytes per second.

    A setting without value: the default. An encoding without speed of decoding: nothing shrank.
    """
    settings = {
        each.name: {"value": each.value if each.is_set else None, "reason": each.reason}
        for each in choices
    }
    return {
        "measured": asdict(measured),
        "settings": settings,
        "encodings": [asdict(each) | _without_decoding(each) for each in costs],
        "rounds": [asdict(each) for each in rounds],
    }


def _trips(trips: RoundTrips) -> str:
    lowest, middle, highest = (f"{each * 1e3:.3g}" for each in _of(trips))
    return f"{middle:>8} ms     lowest {lowest}, highest {highest} ms, {trips.count} tries"


def _of(trips: RoundTrips) -> tuple[float, float, float]:
    return trips.lowest, trips.median, trips.highest


def _speed(speed: Speed) -> str:
    stable = f"from {speed.lowest / 1e6:.4g} to {speed.highest / 1e6:.4g} over"
    return (
        f"{speed.rate / 1e6:>10.4g} MB/s   {speed.rate * 8e-6:.4g} Mbit/s; {stable} "
        f"{speed.seconds:.2g} s"
    )


def _duration(seconds: float) -> str:
    if seconds < 100:
        return f"{seconds:.3g} s"
    if seconds < 6000:
        return f"{seconds / 60:.1f} min"
    return f"{seconds / 3600:.1f} h"


def _without_decoding(cost: EncodingCost) -> dict[str, None]:
    return {} if cost.share < 1 else {"decode": None}

"""Our own facts among the metadata of a request or a reply, told apart by a prefix."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from streamlink.errors import RemoteProtocolError

__all__ = [
    "BUSY",
    "OMITS",
    "RETURNS",
    "SENDS",
    "UNSERVED",
    "own",
    "parse_metrics",
    "parse_stream_number",
    "to_metadata",
]

# One prefix for all: so an end also recognises those of ours that it does not know yet.
_OURS = "streamlink."
SENDS, RETURNS = f"{_OURS}sends", f"{_OURS}returns"
"""The number of the stream on which the server sends, or receives, a model."""
OMITS = f"{_OURS}omits"
"""Which streams of the request the answering end has not opened: ``sends``, ``returns``, both."""
BUSY = f"{_OURS}busy"
"""Present if a request was refused only because there is no room for it just now."""
UNSERVED = f"{_OURS}unserved"
"""Present if the server answers no requests of that topic."""
_METRIC = f"{_OURS}metric."


def to_metadata(metadata: Mapping[str, str], metrics: Mapping[str, float]) -> dict[str, str]:
    """Return ``metadata`` with ``metrics`` among it.

    Raises:
        ValueError: a name of the metadata begins as ours do, or a metric is not a finite number.
    """
    for name in metadata:
        if str(name).startswith(_OURS):
            raise ValueError(f"metadata {name!r}: names that begin with {_OURS!r} are taken")
    numbers = {name: float(value) for name, value in metrics.items()}
    for name, number in numbers.items():
        if not math.isfinite(number):
            raise ValueError(f"metric {name!r} is {number}; a metric is a finite number")
    # ``repr`` of a float is the shortest text that reads back as the same number.
    return {**metadata, **{f"{_METRIC}{name}": repr(each) for name, each in numbers.items()}}


def own(metadata: Mapping[str, str]) -> dict[str, str]:
    """Return the facts that are the user's."""
    return {name: value for name, value in metadata.items() if not name.startswith(_OURS)}


def parse_metrics(metadata: Mapping[str, str]) -> dict[str, float]:
    """Return the metrics among the facts; what a peer sent that is no number is left out."""
    return dict(_numbers(metadata.items()))


def parse_stream_number(text: str, where: str) -> int:
    """Return the number of a stream, as the end at ``where`` has answered it.

    Raises:
        RemoteProtocolError: it is no number.
    """
    if not (text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS):
        raise RemoteProtocolError(
            f"{where} answered with the stream number {text[:40]!r}, which is not a number"
        )
    return int(text)


_MOST_DIGITS = 19  # every number of 19 digits fits into 64 bits


def _numbers(facts: Iterable[tuple[str, str]]) -> Iterable[tuple[str, float]]:
    for name, value in facts:
        if name.startswith(_METRIC) and len(value) <= _LONGEST:
            try:
                yield name.removeprefix(_METRIC), float(value)
            except ValueError:
                continue


_LONGEST = 64  # letters of a number; float() of a longer text is work for nothing

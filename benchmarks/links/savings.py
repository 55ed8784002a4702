"""What each encoding saved: bytes on the wire of those of the model, and the time beside plain."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median

from benchmarks.links.lines import LOOPBACK
from benchmarks.links.plans import OURS
from benchmarks.links.tables import Row

__all__ = ["SAVED_COLUMNS", "saved_rows", "saved_shares"]

SAVED_COLUMNS = (
    "model", "line", "encoding", "runs", "wire ÷ model", "saved", "seconds", "÷ plain",
    "CPU s, sender", "CPU s, receiver",
)  # fmt: skip


def saved_rows(rows: Sequence[Row]) -> list[tuple[str, ...]]:
    """Return a row of text for each encoding and model of weights; none where none was run."""
    found: list[tuple[str, ...]] = []
    for row in _of_weights(rows):
        share, seconds = _share(row), _seconds(row)
        plain = next((each for each in _of_weights(rows) if _is_plain_of(each, row)), None)
        found.append(
            (
                str(row.case.payload),
                row.case.line.name,
                _encoding(row),
                str(len(row.good)),
                "not counted" if share is None else f"{share:.3f}",
                "" if share is None else f"{1 - share:.1%}",
                f"{seconds:.2f}",
                f"{seconds / _seconds(plain):.3f}" if plain else "",
                *(f"{median(run.sides[role].cpu_seconds for run in row.good):.2f}"
                  for role in ("send", "receive")),
            )
        )  # fmt: skip
    return found


def saved_shares(rows: Sequence[Row]) -> Mapping[str, Mapping[str, float | None]]:
    """Return for each kind of weights, by encoding, the share of the model's bytes on the wire.

    Loopback, which earlier plans had, is left out: there ``auto`` encodes nothing.
    """
    found: dict[str, dict[str, float | None]] = {}
    for row in _of_weights(rows):
        if row.case.line != LOOPBACK:
            found.setdefault(row.case.payload.kind, {})[_encoding(row)] = _share(row)
    return found


def _of_weights(rows: Sequence[Row]) -> list[Row]:
    return [row for row in rows if row.case.payload.kind.startswith("weights") and row.good]


def _is_plain_of(plain: Row, row: Row) -> bool:
    one, other = plain.case, row.case
    return one.peer == OURS and (one.line, one.payload) == (other.line, other.payload)


def _encoding(row: Row) -> str:
    return row.case.peer.removeprefix(OURS).removeprefix(", ") or "plain"


def _share(row: Row) -> float | None:
    """Return the median of bytes on the wire over bytes of the model; None: not counted."""
    wire = [run.wire_bytes for run in row.good if run.wire_bytes is not None]
    return median(wire) / row.case.payload.size_bytes if wire else None


def _seconds(row: Row) -> float:
    return median(run.seconds for run in row.good)

"""The tables of the two-site job, beside the figures of FLARE's notes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from benchmarks.links.failures import standing
from benchmarks.links.sites import flare
from benchmarks.links.sites.cases import CLIENTS, FAR, NEAR, SERVER, SiteCase, SiteRun
from benchmarks.links.tables import FOUND_COLUMNS, found_row

__all__ = ["JOB_COLUMNS", "LINE_COLUMNS", "ROUND_COLUMNS", "SETTING_COLUMNS", "TIME_COLUMNS",
           "SiteRow", "failures", "job_rows", "line_rows", "round_rows", "rows_of",
           "setting_rows", "time_rows", "way_seconds"]  # fmt: skip

MIB, GB = 1 << 20, 10**9
WAYS = tuple((client, direction) for client in CLIENTS for direction in ("down", "up"))
JOB_COLUMNS = (
    "gathered", "encoding", "runs", "job, s", "round, s", "wire ÷ payload",
    "server over base, MiB", "of its limit", "server ÷ model", "near ÷ model", "far ÷ model",
    "CPU s: server", "near", "far",
)  # fmt: skip
TIME_COLUMNS = (
    "gathered", "encoding", "model, GB", *(f"{client} {way}, s" for client, way in WAYS),
    "far ÷ near: down", "up",
)  # fmt: skip
ROUND_COLUMNS = (
    "gathered", "encoding", "round", "round, s", *(f"{client} {way}, s" for client, way in WAYS),
    "wire, MB",
)  # fmt: skip
LINE_COLUMNS = ("client", *FOUND_COLUMNS)
SETTING_COLUMNS = ("setting", "near", "far", "server", flare.NAME)


@dataclass(frozen=True)
class SiteRow:
    """All runs of one case."""

    case: SiteCase
    runs: tuple[SiteRun, ...]

    @property
    def good(self) -> list[SiteRun]:
        """Those that ended with the model that the closed form gives."""
        return [run for run in self.runs if not run.error]

    @property
    def head(self) -> tuple[str, str]:
        """How its rows begin."""
        return self.case.variant.name, self.case.variant.encoding


def rows_of(runs: Sequence[SiteRun]) -> list[SiteRow]:
    """Return a row for each case, in the order of their first runs.

    A failure that a later run has made good is in none of them; see ``failures``.
    """
    found: dict[SiteCase, list[SiteRun]] = {}
    for run in standing(runs):
        found.setdefault(run.case, []).append(run)
    return [SiteRow(case, tuple(each)) for case, each in found.items()]


def failures(rows: Sequence[SiteRow]) -> list[str]:
    """Return why cases failed."""
    return [f"{row.case}: {run.error}" for row in rows for run in row.runs if run.error]


def job_rows(rows: Sequence[SiteRow]) -> list[tuple[str, ...]]:
    """Return what each case took and used; the memory of FLARE's notes comes first."""
    return [_flare_job(), *(_job_row(row) for row in rows)]


def time_rows(rows: Sequence[SiteRow]) -> list[tuple[str, ...]]:
    """Return the time of each way of each client.

    Those of FLARE's notes come first, also as of our size.
    """
    found = [_times(flare.NAME, "plain", flare.MODEL_BYTES, dict(flare.SECONDS))]
    for nbytes in dict.fromkeys(row.case.nbytes for row in rows):
        share = nbytes / flare.MODEL_BYTES
        scaled = {way: seconds * share for way, seconds in flare.SECONDS.items()}
        found.append(_times(f"{flare.NAME} ÷ {1 / share:.4g}", "plain", nbytes, scaled))
    for row in rows:
        times = {way: way_seconds(row, *way) for way in WAYS}
        found.append(_times(*row.head, row.case.nbytes, times))
    return found


def round_rows(rows: Sequence[SiteRow]) -> list[tuple[str, ...]]:
    """Return each round of each case by itself."""
    return [
        (*row.head, str(number + 1), *_round_cells(row, number))
        for row in rows if row.good for number in range(row.case.rounds)
    ]  # fmt: skip


def line_rows(runs: Sequence[SiteRun]) -> list[tuple[str, ...]]:
    """Return what each client's line was found to be, the last time that it was measured."""
    if not runs:
        return []
    case, accuracy = runs[-1].case, runs[-1].accuracy
    return [(name, *found_row(case.line(name), accuracy.get(name))) for name in CLIENTS]


def setting_rows(runs: Sequence[SiteRun]) -> list[tuple[str, ...]]:
    """Return what the probe proposed the last time, and the timeouts of FLARE's notes."""
    probed = runs[-1].probed if runs else {}
    if not probed:
        return []
    found: list[tuple[str, ...]] = []
    for name in probed[NEAR].reasons:
        values = [probed[client].settings.get(name) for client in CLIENTS]
        key = name.partition(".")[2]
        theirs = str(flare.TIMEOUTS.get(key, "–"))
        unit = ", s" if name.startswith("timeouts.") else ""
        most = max((each for each in values if each is not None), default=None)
        cells = ("default" if each is None else _setting(key, each) for each in (*values, most))
        found.append((f"{key}{unit}", *cells, theirs))
    rates = [f"{each.down * 8e-6:.4g} / {each.up * 8e-6:.4g}" for each in probed.values()]
    trips = [f"{each.round_trip * 1e3:.1f}" for each in probed.values()]
    their_rates = [" / ".join(f"{flare.MODEL_BYTES * 8e-6 / flare.SECONDS[client, way]:.0f}"
                              for way in ("down", "up")) for client in CLIENTS]  # fmt: skip
    return [
        ("rate down / up, Mbit/s", *rates, "", "; ".join(their_rates)),
        ("round trip, ms", *trips, "", "–"),
        *found,
    ]


def way_seconds(row: SiteRow, client: str, direction: str, number: int | None = None) -> float:
    """Return the median time of a model on that way (seconds); 0: there was none.

    Args:
        row: the runs. client: whose. direction: ``down`` or ``up``.
        number: of the round; None: all rounds.
    """
    found = [way.seconds for run in row.good for way in run.ways
             if (way.client, way.direction) == (client, direction)
             and number in (None, way.round)]  # fmt: skip
    return median(found) if found else 0.0


def _flare_job() -> tuple[str, ...]:
    server, client = (
        f"{low / flare.MODEL_BYTES:.2g} to {high / flare.MODEL_BYTES:.2g}"
        for low, high in (flare.MEMORY_BYTES[SERVER], flare.MEMORY_BYTES["client"])
    )
    blank = [""] * 6
    return (flare.NAME, "plain", *blank, server, client, client, *[""] * 3)


def _job_row(row: SiteRow) -> tuple[str, ...]:
    good = row.good
    if not good:
        return (*row.head, "failed", *[""] * (len(JOB_COLUMNS) - 3))
    over = {name: max(run.used[name].over_base_bytes for run in good)
            for name in (SERVER, *CLIENTS)}  # fmt: skip
    plain = 2 * len(CLIENTS) * row.case.rounds * row.case.nbytes
    return (
        *row.head,
        str(len(good)),
        f"{median(run.seconds for run in good):.1f}",
        f"{median(each for run in good for each in run.round_seconds):.1f}",
        f"{median(sum(run.wire_bytes.values()) for run in good) / plain:.3f}",
        f"{over[SERVER] / MIB:.0f}",
        f"{over[SERVER] / max(run.peak_bytes for run in good):.2f}",
        *(f"{over[name] / row.case.nbytes:.2f}" for name in (SERVER, *CLIENTS)),
        *(f"{median(run.used[name].cpu_seconds for run in good):.1f}"
          for name in (SERVER, *CLIENTS)),
    )  # fmt: skip


def _times(
    name: str, encoding: str, nbytes: int, seconds: dict[tuple[str, str], float]
) -> tuple[str, ...]:
    ratios = [seconds[FAR, way] / seconds[NEAR, way] if seconds[NEAR, way] else 0.0
              for way in ("down", "up")]  # fmt: skip
    times = [f"{each:.0f}" if (each := seconds[way]) >= 1000 else f"{each:.3g}" for way in WAYS]
    return (name, encoding, f"{nbytes / GB:.3g}", *times, *(f"{each:.1f}" for each in ratios))


def _round_cells(row: SiteRow, number: int) -> tuple[str, ...]:
    wire = [sum(way.wire_bytes for way in run.ways if way.round == number) for run in row.good]
    return (
        f"{median(run.round_seconds[number] for run in row.good):.2f}",
        *(f"{way_seconds(row, *way, number):.2f}" for way in WAYS),
        f"{median(wire) / 1e6:.1f}",
    )


def _setting(key: str, value: float) -> str:
    return f"{value / MIB:g} MiB" if key.endswith("_bytes") else f"{value:g}"

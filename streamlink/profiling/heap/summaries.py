"""What memray's file of one process says, as a text and as a table of who held the peak."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from streamlink.profiling.folder import write_text
from streamlink.profiling.heap.allocations import Allocations, Site
from streamlink.profiling.heap.findings import Findings, amount
from streamlink.profiling.heap.observation import Observation
from streamlink.profiling.heap.spreadsheets import write_sites
from streamlink.profiling.page import Page, Table

__all__ = ["Link", "write_summaries"]

Link = tuple[str, list[tuple[str, str]]]
"""What a row of links is about; text and path of each link, relative to the page."""

_MOST_ROWS = 200
_MOST_LETTERS = 200


def write_summaries(findings: Findings, output: Path) -> list[Link]:
    """Write a summary and two tables for each profile that could be read; return links to them."""
    return [
        _write(each, each.allocations, each.profile.stem, output)
        for each in findings.run.observations
        if each.allocations is not None and each.profile is not None
    ]


def _write(each: Observation, allocations: Allocations, stem: str, output: Path) -> Link:
    summary, table = f"summaries/{stem}.txt", f"tables/{stem}.html"
    sheet = f"tables/{stem}.csv"
    write_text(output / summary, "\n".join(_lines(each, allocations)) + "\n", overwrite=True)
    write_sites(output / sheet, allocations.at_peak)
    write_text(output / table, _page(each, allocations).html(), overwrite=True)
    about = f"{each.subject.label}, {each.version}" + (
        f", {each.repeat}" if each.repeat > 1 else ""
    )
    return about, [
        ("flame graph", f"flamegraphs/{stem}.html"),
        ("summary", summary),
        ("table", table),
        ("CSV", sheet),
    ]


def _lines(each: Observation, allocations: Allocations) -> Iterator[str]:
    yield f"{each.subject.label}, {each.version}, repeat {each.repeat}"
    yield f"command: {allocations.command[:_MOST_LETTERS]}"
    if allocations.fault:
        yield f"INCOMPLETE: {allocations.fault}"
    seconds = (allocations.ended - allocations.started).total_seconds()
    yield f"profiled for {seconds:.1f} s, from {allocations.started:%Y-%m-%d %H:%M:%S} UTC"
    yield f"peak: {allocations.peak_bytes} bytes"
    if allocations.allocated_bytes is not None:
        total, times = allocations.allocated_bytes, allocations.allocations
        yield f"allocated in all: {total} bytes, {times} times"
    if each.record is not None:
        record = each.record
        yield (
            f"resident, with memray's own memory: base {record.base_bytes}, peak "
            f"{record.peak_bytes}, over the base {record.over_base_bytes} bytes"
        )
    yield from _list("who held the peak", allocations.at_peak)
    yield from _list("who asked for most in all, released or not", allocations.largest)
    if allocations.allocators:
        yield "\ncalls by allocator:"
        for name, count in sorted(allocations.allocators.items(), key=lambda item: -item[1]):
            yield f"  {count:>12}  {name}"


def _list(title: str, sites: Sequence[Site]) -> Iterator[str]:
    if not sites:
        return
    yield f"\n{title}:"
    for site in sites[:20]:
        within = f"  <- {site.within}" if site.within else ""
        yield f"  {site.nbytes:>14} bytes  {site.allocations:>9} times  {site.text}{within}"


def _page(each: Observation, allocations: Allocations) -> Page:
    rows = [
        [
            site.text,
            site.within,
            amount(site.nbytes),
            f"{100 * site.nbytes / allocations.peak_bytes:.1f}" if allocations.peak_bytes else "",
            str(site.allocations),
        ]
        for site in allocations.at_peak[:_MOST_ROWS]
    ]
    columns = ("line", "called from, in streamlink", "held", "% of the peak", "allocations")
    return Page(
        f"Who held the peak: {each.subject.label}, {each.version}, repeat {each.repeat}",
        f"{amount(allocations.peak_bytes)} at the peak; the CSV beside it has all "
        f"{len(allocations.at_peak)} lines, in bytes",
        [f"incomplete: {allocations.fault}"] if allocations.fault else [],
        (Table("Lines", columns, rows, text_columns=2),),
    )

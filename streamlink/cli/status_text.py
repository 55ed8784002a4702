"""The status of a server, a client, a transfer or a served model as lines of text.

``lines_of`` returns all lines. ``fitting`` returns what fits on a screen: first the head, then
clients with a problem; the other clients are summed up in one line.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from rich.cells import chop_cells

from streamlink.logs import escape
from streamlink.rounds.job_state import round_of

__all__ = ["fitting", "lines_of"]

_LEAST_INDENTED = 20
_METRICS = 8  # of them in a line
_SHOWN = 5  # rounds and problems on a terminal; --json has all that are kept

Facts = Mapping[str, Any]

# How far a transfer is, of how much, and how fast it is: the names of the facts.
_WAYS = {
    "receive": ("received_bytes", "receive_total_bytes", "receiving_rate"),
    "send": ("sent_bytes", "send_total_bytes", "sending_rate"),
}


def lines_of(facts: Facts) -> list[str]:
    """Return the complete status."""
    lines = [*_head(facts), *map(_client, facts.get("clients", ())), *_past(facts)]
    return [escape(line) for line in lines]


def fitting(facts: Facts, *, width: int, height: int) -> list[str]:
    """Return the lines that fit a screen of ``width`` columns and ``height`` rows, wrapped.

    If there are too many, it first drops the past rounds, then sums up the clients that need the
    least attention.
    """
    head = _folded(map(escape, _head(facts)), width)
    past = [_folded([escape(line)], width) for line in _past(facts)]
    clients = [_folded([escape(_client(each))], width) for each in facts.get("clients", ())]
    room = height - len(head)
    # The oldest first: what happens now matters more than what is done.
    while past and _rows(past) + _rows(clients) > room:
        past.pop(0)
    shown = clients if _rows(clients) <= room else _picked(facts["clients"], clients, room, width)
    return [*head, *(line for block in (*shown, *past) for line in block)]


def _picked(
    clients: Sequence[Facts], blocks: list[list[str]], room: int, width: int
) -> list[list[str]]:
    """Return the lines of the clients that need attention, and one line for the others."""
    room -= len(_folded([_sum(clients)], width))
    kept: list[int] = []
    for at in sorted(range(len(clients)), key=lambda at: _interest(clients[at])):
        room -= len(blocks[at])
        if room < 0:
            break
        kept.append(at)
    rest = [each for at, each in enumerate(clients) if at not in kept]
    return [*(blocks[at] for at in sorted(kept)), _folded([_sum(rest)], width)]


def _rows(blocks: Sequence[Sequence[str]]) -> int:
    return sum(map(len, blocks))


def _folded(lines: Iterable[str], width: int) -> list[str]:
    folded = []
    for line in lines:
        indent = "  " if width > _LEAST_INDENTED else ""
        pieces = textwrap.wrap(line, width, subsequent_indent=indent)
        # East Asian characters are two cells wide.
        folded += [cut for piece in pieces for cut in chop_cells(piece, width)]
    return folded


def _interest(client: Facts) -> int:
    """Return the rank for attention: not connected, working, transferring, held for another."""
    if client["presence"] != "here" or client["excluded"]:
        return 0
    if client["held_for"]:
        return 3
    return 1 if client["is_working"] else 2


def _sum(clients: Sequence[Facts]) -> str:
    """Return one line for many clients."""
    here = sum(each["presence"] == "here" and not each["excluded"] for each in clients)
    held = sum(bool(each["held_for"]) for each in clients)
    both = {
        name: sum(each[name] for each in clients)
        for name in ("sent_bytes", "send_total_bytes", "received_bytes", "receive_total_bytes",
                     "sending_rate", "receiving_rate")
    }  # fmt: skip
    parts = [f"{here} here", *_far(both, "have", "sent", "send_total", "sending")]
    parts += [*_far(both, "sent back", "received", "receive_total", "receiving")]
    return f"and {len(clients)} more: {', '.join([*parts, *([f'{held} held'] if held else [])])}"


# --- the parts --------------------------------------------------------------------------------


def _head(facts: Facts) -> Iterator[str]:
    heads = {"server": _of_a_job, "serve": _of_serving, "client": _of_a_client}
    yield from heads.get(facts.get("program", ""), _of_a_transfer)(facts)
    if facts.get("no_answer"):  # the lines above are from its last answer
        yield facts["no_answer"]


def _of_a_job(facts: Facts) -> Iterator[str]:
    number = round_of(facts["round"], facts.get("first_round", 0), facts.get("rounds", 0))
    attempt = f", attempt {facts['attempt']}" if facts["attempt"] > 1 else ""
    since = _span(facts["now"] - facts["since"])
    yield f"job {facts['job']!r}: {number}{attempt}, {facts['phase']} for {since}"
    yield f"listens on {facts['listens']}, process {facts['pid']}; {_memory(facts['memory'])}"
    yield from _bandwidth(facts)


def _of_serving(facts: Facts) -> Iterator[str]:
    of = f" of {facts['count']}" if facts["count"] else ""
    since = _span(facts["now"] - facts["began"])
    yield f"serving for {since}: {facts['served']}{of} fetches done, {len(facts['clients'])} now"
    where = f"listens on {facts['listens']}, " if facts.get("listens") else ""
    yield f"{where}process {facts['pid']}; {_memory(facts['memory'])}"
    yield from _bandwidth(facts)


def _of_a_client(facts: Facts) -> Iterator[str]:
    since = _span(facts["now"] - facts["began"])
    parts = [facts["doing"], *_far(facts, "has", "received", "receive_total", "receiving")]
    parts += [*_far(facts, "sent back", "sent", "send_total", "sending")]
    if facts["phase"] not in ("", "streaming"):
        parts.append(facts["phase"])
    if facts["held_for"]:
        parts.append(f"held for {facts['held_for']}")
    elif facts["stalled_by"]:
        parts.append(f"limited by {facts['stalled_by']}")
    yield ", ".join(parts)
    done = f"{facts['tasks_done']} tasks done in {since}"
    yield f"server {facts['server']}; {done}; process {facts['pid']}; {_memory(facts['memory'])}"
    yield from _bandwidth(facts)


def _of_a_transfer(facts: Facts) -> Iterator[str]:
    has, of, rate = _WAYS.get(facts["program"], _WAYS["receive"])  # fetch has the names of receive
    since, total = _span(facts["now"] - facts["since"]), facts[of]
    far = f": {_size(facts[has])} of {_size(total)}" if total else ""
    speed = f", {_rate(facts[rate])}" if total else ""
    is_towards = facts["program"] == "send" or facts["phase"].startswith("connecting")
    who = f" {'to' if is_towards else 'from'} {facts['peer_name']}" if facts["peer_name"] else ""
    yield f"{facts['phase']}{who} for {since}{far}{speed}"
    again = ", ".join(f"{facts[name]} {name}" for name in ("resumes", "repairs", "damaged"))
    where = f"listens on {facts['listens']}; " if facts.get("listens") else ""
    yield f"{where}{again}; process {facts['pid']}; {_memory(facts['memory'])}"
    yield from _bandwidth(facts)


def _bandwidth(facts: Facts) -> Iterator[str]:
    found = facts.get("bandwidth")  # of an older process: absent
    if not found or not found["bwlimit"]:
        return
    parts = []
    for name, does in (("up", "sends"), ("down", "receives")):
        most, rate = found[f"{name}_limit"], found[f"{name}_rate"]
        limit = "without a limit" if most is None else f"at most {_rate(most)}"
        parts.append(f"{does} {limit}, now {_rate(rate)}")
    yield f"bandwidth limit {found['bwlimit']}: {'; '.join(parts)}"


def _memory(memory: Facts) -> str:
    over = f"{_size(memory['over_base_bytes'])} above its start"
    most = f", of {_size(memory['peak_bytes'])} allowed" if memory["peak_bytes"] else ""
    return f"memory {_size(memory['resident_bytes'])}, {over}{most}"


def _client(each: Facts) -> str:
    presence = "excluded" if each["excluded"] else each["presence"]
    parts = [presence, *_far(each, "has", "sent", "send_total", "sending")]
    parts += [*_far(each, "sent back", "received", "receive_total", "receiving"), *_waits(each)]
    parts += [f"{each[name]} {name}" for name in ("resumes", "repairs", "damaged") if each[name]]
    return f"{each['name']}: {', '.join(parts)}"


def _far(each: Facts, what: str, done: str, of: str, rate: str) -> Iterator[str]:
    so_far, total, speed = each[f"{done}_bytes"], each[f"{of}_bytes"], each[f"{rate}_rate"]
    if total and (so_far or speed):
        moving = f" at {_rate(speed)}" if speed and so_far < total else ""
        yield f"{what} {100 * so_far // total}% of {_size(total)}{moving}"


def _waits(each: Facts) -> Iterator[str]:
    if each["held_for"]:
        yield f"held for {each['held_for']}"
    elif each["is_working"]:
        yield "at work"
    elif each["stalled_by"]:
        yield f"limited by {each['stalled_by']}"


def _past(facts: Facts) -> Iterator[str]:
    # The last to be left out of a full screen, behind the rounds and troubles.
    yield from _rounds(facts)
    yield from _metrics(facts)


def _metrics(facts: Facts) -> Iterator[str]:
    for what, doing in (("trained", "training"), ("evaluated", "evaluation")):
        if found := facts.get(what):
            shown = [f"{name} {value:.6g}" for name, value in found["metrics"].items()]
            more = f" and {len(shown) - _METRICS} more" if len(shown) > _METRICS else ""
            yield f"{doing} of round {found['round']}: {', '.join(shown[:_METRICS])}{more}"
    if facts.get("best"):
        yield f"the best model has {facts['best']}"


def _rounds(facts: Facts) -> Iterator[str]:
    for each in facts.get("last_rounds", ())[-_SHOWN:]:
        who = ", ".join(each["contributors"])
        yield f"round {each['round']} done in {each['seconds']:.1f} s: {who}"
    for each in facts.get("troubles", ())[-_SHOWN:]:
        ago = _span(facts["now"] - each["at"])
        yield f"{ago} ago, round {each['round']}: {each['peer_name'] or 'failed'}: {each['reason']}"


def _size(nbytes: float) -> str:
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(nbytes) < 1024:
            return f"{nbytes:.0f} {unit}" if unit == "B" else f"{nbytes:.1f} {unit}"
        nbytes /= 1024
    return f"{nbytes:.1f} TiB"


def _rate(speed: float) -> str:
    # Decimal, as in logs and progress bars, since lines are sold so.
    if speed >= 1e9:
        return f"{speed / 1e9:.4g} GB/s"
    return f"{speed / 1e6:.4g} MB/s" if speed >= 1e3 or not speed else f"{speed:.0f} B/s"


def _span(seconds: float) -> str:
    whole = max(0, round(seconds))
    if whole < 120:
        return f"{whole} s"
    return f"{whole // 60} min" if whole < 7200 else f"{whole / 3600:.1f} h"

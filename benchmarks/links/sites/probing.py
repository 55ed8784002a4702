"""Probes each client's line to a running server, and makes settings of what the probe proposes."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from typing import Any

from benchmarks.links.lines import Line
from benchmarks.links.places import opened
from benchmarks.links.sites.cases import Encoding, Probed
from benchmarks.processes import Worker

__all__ = ["probe_lines", "settings_of"]

WAIT_SECONDS = 300.0
MOST_BYTES = 256 << 20  # what a server lets a probe move


def probe_lines(lines: Mapping[str, Line], seconds: float) -> dict[str, Probed]:
    """Probe a server over each line in turn: it admits one probe at a time.

    Args:
        lines: by client.
        seconds: of each of the probe's measurements.

    Raises:
        OSError: a line cannot be had on this machine.
        WorkerFailed: a process failed.
    """
    with ExitStack() as stack:
        server = stack.enter_context(
            Worker("benchmarks.links.sites.bodies:answer", {}, name="server")
        )
        number = int(server.expect("listening")["number"])
        return {name: _probe(line, number, seconds, name) for name, line in lines.items()}


def _probe(line: Line, number: int, seconds: float, name: str) -> Probed:
    with opened(line) as place:
        host, reached = place.reach(number, has_data_port=True)
        facts = {"address": f"{host}:{reached}", "seconds": seconds, "most": MOST_BYTES}
        body = "benchmarks.links.sites.bodies:probe"
        with Worker(body, facts, name=f"probe of {name}") as probe:
            return Probed(**probe.expect("probed", timeout_seconds=WAIT_SECONDS))


def settings_of(
    probed: Mapping[str, Probed], client: str | None, encoding: Encoding
) -> dict[str, dict[str, Any]]:
    """Return the settings of one end, by section.

    Args:
        probed: by client.
        client: whose end it is: it takes what was proposed for its own line. None: the server, to
            which every client comes: it takes the largest value of each setting. Chunks, windows
            and lanes are negotiated, and the smaller value of both ends counts.
        encoding: how models travel.
    """
    chosen = list(probed.values()) if client is None else [probed[client]]
    found: dict[str, dict[str, Any]] = {"stream": {}}
    for name in dict.fromkeys(name for each in chosen for name in each.settings):
        section, _, key = name.partition(".")
        values = [each.settings[name] for each in chosen if name in each.settings]
        found.setdefault(section, {})[key] = max(values)
    if encoding == "auto":
        found["stream"]["encodings"] = ["auto"]
    elif encoding == "bf16":
        found["stream"]["lossy_down" if client is None else "lossy_up"] = ["*=bf16"]
    return found

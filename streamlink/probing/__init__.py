"""Measures a line to a server, proposes settings for it, and forecasts a round over it.

In the order of use: ``ProbeLine`` opens a session that only probes, ``measure`` runs all
measurements over it, ``propose`` and ``forecast`` are computed from the result alone, and ``text``
writes them for ``streamlink probe``. ``serve_probe`` is the other end where there is no server yet.

    with ProbeLine("server.example:8517") as line:
        measured = measure(line, address="server.example:8517", seconds=5.0)
    for choice in propose(measured):
        print(choice.name, choice.text, choice.reason)
"""

from streamlink.link.probe_line import Flow, Moved, ProbeLine, Way
from streamlink.link.probe_server import serve_probe
from streamlink.probing.encoded import costs_of
from streamlink.probing.forecast import EncodingCost, Round, forecast
from streamlink.probing.measure import Note, measure
from streamlink.probing.measured import Measured, RoundTrips
from streamlink.probing.proposal import Choice, propose
from streamlink.probing.speed import Speed

__all__ = [
    "Choice",
    "EncodingCost",
    "Flow",
    "Measured",
    "Moved",
    "Note",
    "ProbeLine",
    "Round",
    "RoundTrips",
    "Speed",
    "Way",
    "costs_of",
    "forecast",
    "measure",
    "propose",
    "serve_probe",
]

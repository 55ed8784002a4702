"""Metrics for Prometheus: served over HTTP, or collected by a registry of your own.

``serve_metrics`` is all that a program needs; ``MetricsCollector`` is for one that has a
prometheus-client registry already. Both need the extra ``metrics``. The counts themselves need
nothing: ``Server.traffic`` and ``Client.traffic``. ``EventLines`` writes what happens in the rounds
as lines of JSON, and needs nothing either.
"""

from streamlink.link import AckTimes, HasTraffic, Totals, Traffic
from streamlink.operate.event_lines import EventLines
from streamlink.operate.metrics import (
    MetricsCollector,
    MetricsError,
    MetricsServer,
    serve_metrics,
)

__all__ = [
    "AckTimes",
    "EventLines",
    "HasTraffic",
    "MetricsCollector",
    "MetricsError",
    "MetricsServer",
    "Totals",
    "Traffic",
    "serve_metrics",
]

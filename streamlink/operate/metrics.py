"""Metrics for Prometheus: counters and gauges of the streams of one end, and of its rounds.

It needs the extra ``metrics`` (``pip install 'streamlink-fl[metrics]'``). The labels are peer,
direction and cause, so the cardinality is bounded: remembered peers × 2 × 4. A scrape measures
nothing; it reads what the streams count anyway.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Self

from streamlink.closing import Closing
from streamlink.errors import AddressInUse, StreamlinkError
from streamlink.link import BOUNDS, AckTimes, HasTraffic, Totals
from streamlink.link.server import Server
from streamlink.operate.http import HttpServer
from streamlink.rounds.controller import ScatterAndGather

if TYPE_CHECKING:
    from prometheus_client.core import Metric

__all__ = ["MetricsCollector", "MetricsServer", "require_metrics", "serve_metrics"]

logger = logging.getLogger("streamlink.operate")

_COUNTERS: tuple[tuple[str, str, Callable[[Totals], float]], ...] = (
    ("streamlink_bytes", "Bytes of models received whole and in order", lambda t: t.bytes),
    ("streamlink_chunks", "Chunks sent or received", lambda t: t.chunks),
    ("streamlink_resumes", "Streams resumed over a new call", lambda t: t.resumes),
    ("streamlink_repairs", "Damaged chunks that were sent again", lambda t: t.repairs),
    ("streamlink_damaged_frames", "Damaged frames that ended their call", lambda t: t.damaged),
    ("streamlink_resent_bytes", "Bytes sent more than once", lambda t: t.resent_bytes),
)
_GAUGES: tuple[tuple[str, str, Callable[[Totals], float]], ...] = (
    ("streamlink_streams", "Open streams", lambda t: t.streams),
    (
        "streamlink_in_flight_bytes",
        "Sent and not acknowledged, or received and not consumed",
        lambda t: t.in_flight_bytes,
    ),
    ("streamlink_window_bytes", "The most bytes that may be in flight", lambda t: t.window_bytes),
)
_LABELS = ("peer", "direction")


class MetricsError(StreamlinkError):
    """Metrics are not available: prometheus-client is not installed."""


class MetricsCollector:
    """A collector for a registry of prometheus-client: the metrics of a server or client.

    Args:
        of: the ``Server`` or ``Client`` whose traffic is measured.
        job: the rounds that run there; None: none.

    Raises:
        MetricsError: prometheus-client is not installed; says how to get it.
    """

    def __init__(self, of: HasTraffic, job: ScatterAndGather | None = None) -> None:
        _prometheus()
        self._of = of
        self._job = job

    def describe(self) -> list[Metric]:
        """Return nothing: the label sets are known only after the first stream."""
        return []

    def collect(self) -> Iterator[Metric]:
        """Yield every metric as it is now."""
        core = _prometheus().core
        totals = self._of.traffic.totals()
        for name, text, value in _COUNTERS:
            yield _filled(core.CounterMetricFamily(name, text, labels=_LABELS), totals, value)
        for name, text, value in _GAUGES:
            yield _filled(core.GaugeMetricFamily(name, text, labels=_LABELS), totals, value)
        yield self._latencies(core, totals)
        yield self._stalls(core, totals)
        if isinstance(self._of, Server):
            clients = core.GaugeMetricFamily("streamlink_clients", "Connected clients")
            clients.add_metric((), len(self._of.peers()))
            yield clients
        if self._job is not None:
            yield from self._rounds(core, self._job)

    @staticmethod
    def _latencies(core: Any, totals: Mapping[tuple[str, str], Totals]) -> Metric:
        family = core.HistogramMetricFamily(
            "streamlink_ack_latency_seconds",
            "From sending a chunk to receiving its acknowledgement",
            labels=("peer",),
        )
        for (name, direction), total in totals.items():
            if direction == "sent":
                family.add_metric((name,), _buckets(total.ack_times), total.ack_times.seconds)
        return family  # type: ignore[no-any-return]

    @staticmethod
    def _stalls(core: Any, totals: Mapping[tuple[str, str], Totals]) -> Metric:
        family = core.CounterMetricFamily(
            "streamlink_stall_seconds",
            "Time of streams by what limited them: network, credit, reader, held",
            labels=(*_LABELS, "cause"),
        )
        for key, total in totals.items():
            for cause, seconds in total.stall_seconds.items():
                family.add_metric((*key, cause), seconds)
        return family  # type: ignore[no-any-return]

    @staticmethod
    def _rounds(core: Any, job: ScatterAndGather) -> Iterator[Metric]:
        state = job.state()
        gauges = (
            ("streamlink_round", "Number of the current round", state.round),
            ("streamlink_round_attempt", "Attempt of the current round", state.attempt),
            (
                "streamlink_round_duration_seconds",
                "Duration of the last completed round",
                state.last_rounds[-1].seconds if state.last_rounds else None,
            ),
        )
        for name, text, value in gauges:
            family = core.GaugeMetricFamily(name, text)
            if value is not None:
                family.add_metric((), value)
            yield family
        for name, text, value in (
            ("streamlink_rounds_done", "Rounds that produced a new model", state.rounds_done),
            ("streamlink_updates", "Updates that were aggregated", state.updates),
        ):
            family = core.CounterMetricFamily(name, text)
            family.add_metric((), value)
            yield family


class MetricsServer(Closing):
    """Answers Prometheus over HTTP at ``http://address/metrics``; ``listen`` opens it, or ``with``.

    The number and duration of connections is limited: see ``http``.

    Args:
        address: ``host:port``; port 0 takes a free one.
        collector: what it serves.

    Raises:
        MetricsError: prometheus-client is not installed; says how to get it.
    """

    def __init__(self, address: str, collector: MetricsCollector) -> None:
        prometheus = _prometheus()
        # Its own, not the global one: a process may run several servers, whose metrics would clash,
        # and the program's own metrics are none of ours to publish.
        registry = prometheus.CollectorRegistry()
        registry.register(collector)
        self._address = address
        self._page = prometheus.make_wsgi_app(registry)
        self._server: HttpServer | None = None

    def listen(self) -> Self:
        """Begin to answer, and return this server.

        Raises:
            AddressInUse: the address is taken.
        """
        host, _, port = self._address.rpartition(":")
        try:
            self._server = HttpServer(host.strip("[]"), int(port), self._page)
        except OSError as error:
            raise AddressInUse(
                f"cannot serve metrics on {self._address}: {error.strerror or error}"
            ) from error
        logger.info("metrics at http://%s:%d/metrics", host, self.port)
        return self

    @property
    def port(self) -> int:
        """The port it listens on; 0: it does not listen."""
        return 0 if self._server is None else self._server.server_port

    def close(self) -> None:
        """Stop listening."""
        if self._server is not None:
            self._server.close()
            self._server = None

    def __enter__(self) -> Self:
        return self if self._server is not None else self.listen()


def serve_metrics(
    address: str, of: HasTraffic, job: ScatterAndGather | None = None
) -> MetricsServer:
    """Serve the metrics of a server or client to Prometheus until the result is closed.

    Args:
        address: ``host:port``; port 0 takes a free one. There is no authentication: give an address
            that only the monitoring can reach.
        of: the ``Server`` or ``Client`` whose traffic is measured.
        job: the rounds that run there; None: none.

    Raises:
        MetricsError: prometheus-client is not installed; says how to get it.
        AddressInUse: the address is taken.
    """
    return MetricsServer(address, MetricsCollector(of, job)).listen()


def require_metrics() -> None:
    """Check that metrics are available.

    Raises:
        MetricsError: prometheus-client is not installed; says how to get it.
    """
    _prometheus()


def _filled(
    family: Any, totals: Mapping[tuple[str, str], Totals], value: Callable[[Totals], float]
) -> Metric:
    for key, total in totals.items():
        family.add_metric(key, value(total))
    return family  # type: ignore[no-any-return]


def _buckets(times: AckTimes) -> list[tuple[str, float]]:
    bounds = [f"{bound:g}" if bound % 1 else f"{bound:.1f}" for bound in BOUNDS]
    # Buckets of Prometheus are cumulative: each counts what is at most its bound.
    so_far, buckets = 0, []
    for bound, count in zip((*bounds, "+Inf"), times.counts, strict=True):
        so_far += count
        buckets.append((bound, float(so_far)))
    return buckets


def _prometheus() -> Any:
    try:
        import prometheus_client
        import prometheus_client.core
    except ModuleNotFoundError as error:
        raise MetricsError(
            "metrics need prometheus-client: pip install 'streamlink-fl[metrics]'"
        ) from error
    return prometheus_client

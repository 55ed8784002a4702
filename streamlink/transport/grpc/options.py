"""Channel arguments, in one place, so that both ends of a connection agree."""

from __future__ import annotations

import math

from streamlink.config import MIN_KEEPALIVE_SECONDS, GrpcConfig, LinkConfig, StreamConfig
from streamlink.transport.framing import largest_received

_FASTEST_PING_MS = int(MIN_KEEPALIVE_SECONDS * 1000 / 2)  # half: clocks and timers are not exact

# A connection that was lost is tried again by gRPC itself, at its own pace; it has to keep up with
# ours, or calls would be refused while the server has long been back.
_FIRST_RECONNECT_MS, _SLOWEST_RECONNECT_MS = 100, 1000
_CONNECT_MS = 5000  # "min_reconnect_backoff" is how long one attempt may take, at the least

_WAIT_FOR_SERVER_SECONDS = 30  # gRPC's own; never less: a loaded machine may have short timeouts

Options = list[tuple[str, int]]


def channel_options(config: GrpcConfig, stream: StreamConfig) -> Options:
    """Return gRPC's arguments for either end."""
    ping = int(config.keepalive_seconds * 1000)
    return [
        ("grpc.max_send_message_length", config.max_message_bytes),
        ("grpc.max_receive_message_length", largest_received(config, stream)),
        ("grpc.keepalive_time_ms", ping),
        ("grpc.keepalive_timeout_ms", int(config.keepalive_timeout_seconds * 1000)),
        ("grpc.keepalive_permit_without_calls", 1),
        # A server closes connections that ping faster than it allows ("too many pings"). Whatever
        # pace each end is set to, none can be faster than the least the settings admit.
        ("grpc.http2.min_ping_interval_without_data_ms", _FASTEST_PING_MS),
        ("grpc.http2.min_recv_ping_interval_without_data_ms", _FASTEST_PING_MS),
        ("grpc.http2.max_pings_without_data", 0),
        ("grpc.http2.lookahead_bytes", config.lookahead_bytes),
    ]


def server_options(config: LinkConfig, connections: int) -> Options:
    """Return gRPC's arguments for the server's end.

    Args:
        config: of the link.
        connections: how many it may have at once; gRPC closes one more as soon as it is accepted.
    """
    timeouts = config.timeouts
    wait = max(_WAIT_FOR_SERVER_SECONDS, timeouts.open_timeout, timeouts.session_timeout)
    return [
        *channel_options(config.grpc, config.stream),
        ("grpc.so_reuseport", 0),  # else a second server would share the port
        ("grpc.max_allowed_incoming_connections", connections),
        # Until TLS and the first frame of HTTP/2 are through.
        ("grpc.server_handshake_timeout_ms", int(timeouts.open_timeout * 1000)),
        # Calls that wait for a busy interpreter. gRPC would cancel them after 30 seconds, and so
        # end sessions that ``session_timeout`` gives longer.
        ("grpc.server_max_unrequested_time_in_server", math.ceil(wait)),
    ]


def client_options(config: GrpcConfig, stream: StreamConfig) -> Options:
    """Return gRPC's arguments for the client's end."""
    return [
        *channel_options(config, stream),
        # Equal channels would share one connection, and heartbeats queue behind megabytes.
        ("grpc.use_local_subchannel_pool", 1),
        ("grpc.enable_retries", 0),
        ("grpc.initial_reconnect_backoff_ms", _FIRST_RECONNECT_MS),
        ("grpc.min_reconnect_backoff_ms", _CONNECT_MS),
        ("grpc.max_reconnect_backoff_ms", _SLOWEST_RECONNECT_MS),
    ]

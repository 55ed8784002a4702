"""Channel arguments, in one place, so that both ends of a connection agree."""

from __future__ import annotations

from streamlink.config import MIN_KEEPALIVE_SECONDS, GrpcConfig

_FASTEST_PING_MS = int(MIN_KEEPALIVE_SECONDS * 1000 / 2)  # half: clocks and timers are not exact

Options = list[tuple[str, int]]


def channel_options(config: GrpcConfig) -> Options:
    """Return gRPC's arguments for either end."""
    ping = int(config.keepalive_seconds * 1000)
    return [
        ("grpc.max_send_message_length", config.max_message_bytes),
        ("grpc.max_receive_message_length", config.max_message_bytes),
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

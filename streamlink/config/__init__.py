"""Settings: frozen, validated when built, and passed down as arguments. There are no globals.

Sizes take ``"4MiB"`` (1024²) or ``"2GB"`` (1000³) as well as plain integers. Seconds are floats.
Names users bring from the field (``streaming_read_timeout``, ``streaming_ack_wait``,
``communication_timeout``, ``train_timeout``, ``min_clients``) are kept as they are. Each setting
that costs memory states its price, and ``peak_bytes`` adds the prices up.
"""

from streamlink.config.bandwidth import BandwidthLimit
from streamlink.config.job import JobConfig, RoundConfig
from streamlink.config.link import (
    MAX_CLIENTS,
    MIN_KEEPALIVE_SECONDS,
    GrpcConfig,
    LimitsConfig,
    LinkConfig,
    StreamConfig,
    TimeoutConfig,
    check_bwlimit,
)
from streamlink.config.objects import ObjectLimits
from streamlink.config.security import SecurityConfig
from streamlink.config.values import Bwlimit, Names, Patterns, Rules, Seconds, Size, parse_size

__all__ = [
    "MAX_CLIENTS",
    "MIN_KEEPALIVE_SECONDS",
    "BandwidthLimit",
    "Bwlimit",
    "GrpcConfig",
    "JobConfig",
    "LimitsConfig",
    "LinkConfig",
    "Names",
    "ObjectLimits",
    "Patterns",
    "RoundConfig",
    "Rules",
    "Seconds",
    "SecurityConfig",
    "Size",
    "StreamConfig",
    "TimeoutConfig",
    "check_bwlimit",
    "parse_size",
]

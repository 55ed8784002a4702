"""One model over one stream, and the peers at the two ends.

Only this package knows both sides: the model never meets a frame and the protocol never meets a
tensor. Here a stream's next room becomes a read of a source, and a delivered chunk a write to a
sink. ``outgoing`` and ``incoming`` are the two directions, ``server`` and ``client`` the two ends.
"""

from streamlink.protocol.frames import Attempt, Update, UpdateKind
from streamlink.protocol.latency import BOUNDS, AckTimes
from streamlink.transport.traffic import HasTraffic, Totals, Traffic

__all__ = [
    "BOUNDS",
    "AckTimes",
    "Attempt",
    "HasTraffic",
    "Totals",
    "Traffic",
    "Update",
    "UpdateKind",
]

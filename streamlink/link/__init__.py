"""One model over one stream, and the peers at the two ends.

Only this package knows both sides: the model never meets a frame and the protocol never meets a
tensor. Here a stream's next room becomes a read of a source, and a delivered chunk a write to a
sink. ``send_transfer`` and ``receive_transfer`` are the two directions, each with a function that
moves a whole model (``send_model``, ``receive_model``); ``server`` and ``client`` are the two ends.
"""

from streamlink.protocol.frames import Attempt, Update, UpdateKind
from streamlink.protocol.stats import BOUNDS, AckTimes
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

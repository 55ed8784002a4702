"""One model over one stream, and the peers at the two ends.

Only this package knows both sides: the model never meets a frame and the protocol never meets a
tensor. Here a stream's next room becomes a read of a source, and a delivered chunk a write to a
sink. ``send_transfer`` and ``receive_transfer`` are the two directions, each with a function that
moves a whole model (``send_model``, ``receive_model``); ``server`` and ``client`` are the two ends.
"""

from streamlink.link.asking import Answer
from streamlink.link.assignment import Assignment, TurnLock
from streamlink.link.awaiting import run_async
from streamlink.link.bases import Base, Bases
from streamlink.link.client import ClientLink
from streamlink.link.client_request import ClientRequest
from streamlink.link.exchange import Exchange, ExchangeProgress, ExchangeResult, Phase
from streamlink.link.peer import Peer
from streamlink.link.peer_request import PeerRequest
from streamlink.link.presence import Presence
from streamlink.link.receive_model import Resume, SinkFor, receive_model
from streamlink.link.receive_transfer import ReceiveTransfer
from streamlink.link.send_model import send_model
from streamlink.link.send_transfer import SendTransfer
from streamlink.link.server import Server
from streamlink.link.serving import Answers, Handler, Registration
from streamlink.link.transfer import OnPhase, Pulse, Receipt, TransferProgress
from streamlink.link.transfer_facts import OnTransfer, TransferFacts
from streamlink.protocol.frames import Attempt, Chunk, Reply, Update, UpdateKind
from streamlink.protocol.stats import BOUNDS, AckTimes, StreamStats
from streamlink.transport.bandwidth import BandwidthFacts, bandwidth_facts, change_bandwidth
from streamlink.transport.send_pump import Supply
from streamlink.transport.traffic import HasTraffic, Totals, Traffic

__all__ = [
    "BOUNDS",
    "AckTimes",
    "Answer",
    "Answers",
    "Assignment",
    "Attempt",
    "BandwidthFacts",
    "Base",
    "Bases",
    "Chunk",
    "ClientLink",
    "ClientRequest",
    "Exchange",
    "ExchangeProgress",
    "ExchangeResult",
    "Handler",
    "HasTraffic",
    "OnPhase",
    "OnTransfer",
    "Peer",
    "PeerRequest",
    "Phase",
    "Presence",
    "Pulse",
    "Receipt",
    "ReceiveTransfer",
    "Registration",
    "Reply",
    "Resume",
    "SendTransfer",
    "Server",
    "SinkFor",
    "StreamStats",
    "Supply",
    "Totals",
    "Traffic",
    "TransferFacts",
    "TransferProgress",
    "TurnLock",
    "Update",
    "UpdateKind",
    "bandwidth_facts",
    "change_bandwidth",
    "receive_model",
    "run_async",
    "send_model",
]

"""Every exception streamlink raises, in one tree.

    StreamlinkError
    ├─ ProtocolError (code, stream_id)
    │  ├─ LocalProtocolError         we used the library wrongly
    │  └─ RemoteProtocolError        the peer broke the protocol
    │     ├─ FlowControlError        it sent more than it was granted
    │     ├─ ChecksumError           a chunk stayed wrong after every repair
    │     └─ FrameTooLarge           a frame above the negotiated size
    ├─ StreamAborted (code, reason, by_peer)
    │  └─ RequestRefused (metadata)  the peer does not do what it was asked for
    │     ├─ ServerBusy              it has no room for another request just now
    │     └─ TopicNotServed          it has no handler for that
    ├─ PeerBusy (who, unanswered)    it has as many requests unanswered as it may
    ├─ ExchangeFailed (peer_name, topic, cause, timeout)   of ``Peer.ask``
    ├─ StreamTimeout, also a TimeoutError
    │  ├─ OpenTimeout                the peer never opened or accepted the stream
    │  ├─ AckTimeout                 ``streaming_ack_wait``: the peer does not acknowledge
    │  ├─ ReadTimeout                ``streaming_read_timeout``: the reader stalled
    │  └─ CommunicationTimeout       ``communication_timeout`` (stage)
    ├─ TransportError, also a ConnectionError
    │  ├─ ConnectFailed · TransportClosed · AuthenticationFailed · AddressInUse
    │  └─ TooFewDescriptors · MpiUnavailable
    ├─ SecurityError, also a ValueError
    ├─ ModelError, also a ValueError
    │  ├─ SpecMismatch · UnsupportedDtype · UnknownCodec · TornModel · TooManySideFiles
    │  ├─ SourceChanged (path, tensor, inside)
    │  └─ NonFiniteUpdate (peer_name, tensor, index, setting)
    ├─ StoreError, also an OSError
    │  └─ CorruptStore (path, tensor, inside, offset) · StoreFull
    ├─ ObjectError
    │  ├─ UnknownObject · ObjectExpired · ObjectRefused · ObjectLimit
    │  └─ InvalidReference, also a ValueError
    ├─ Cancelled (reason)            this side called ``CancelToken.cancel``
    └─ RoundError (failures by peer)
       ├─ QuorumNotReached
       ├─ JobAborted (reason)
       └─ NonFiniteRound (peer_name)

Attributes hold facts; ``__str__`` makes the sentence out of them, so that a log line, a test and a
program read the same thing. The same fault is *local* if we did it and *remote* if the peer did.
"""

from streamlink.errors.base import AbortCode, Cancelled, StreamlinkError
from streamlink.errors.base import code_of as code_of
from streamlink.errors.base import to_raise as to_raise
from streamlink.errors.models import (
    CorruptStore,
    ModelError,
    NonFiniteUpdate,
    SourceChanged,
    SpecMismatch,
    StoreError,
    StoreFull,
    TooManySideFiles,
    TornModel,
    UnknownCodec,
    UnsupportedDtype,
)
from streamlink.errors.objects import (
    InvalidReference,
    ObjectError,
    ObjectExpired,
    ObjectLimit,
    ObjectRefused,
    UnknownObject,
)
from streamlink.errors.rounds import (
    JobAborted,
    NonFiniteRound,
    QuorumNotReached,
    RoundError,
)
from streamlink.errors.streams import (
    AckTimeout,
    ChecksumError,
    CommunicationTimeout,
    ExchangeFailed,
    FlowControlError,
    FrameTooLarge,
    LocalProtocolError,
    OpenTimeout,
    PeerBusy,
    ProtocolError,
    ReadTimeout,
    RemoteProtocolError,
    RequestRefused,
    ServerBusy,
    StreamAborted,
    StreamTimeout,
    TopicNotServed,
)
from streamlink.errors.transport import (
    AddressInUse,
    AuthenticationFailed,
    ConnectFailed,
    MpiUnavailable,
    SecurityError,
    TooFewDescriptors,
    TransportClosed,
    TransportError,
)

__all__ = [
    "AbortCode",
    "AckTimeout",
    "AddressInUse",
    "AuthenticationFailed",
    "Cancelled",
    "ChecksumError",
    "CommunicationTimeout",
    "ConnectFailed",
    "CorruptStore",
    "ExchangeFailed",
    "FlowControlError",
    "FrameTooLarge",
    "InvalidReference",
    "JobAborted",
    "LocalProtocolError",
    "ModelError",
    "MpiUnavailable",
    "NonFiniteRound",
    "NonFiniteUpdate",
    "ObjectError",
    "ObjectExpired",
    "ObjectLimit",
    "ObjectRefused",
    "OpenTimeout",
    "PeerBusy",
    "ProtocolError",
    "QuorumNotReached",
    "ReadTimeout",
    "RemoteProtocolError",
    "RequestRefused",
    "RoundError",
    "SecurityError",
    "ServerBusy",
    "SourceChanged",
    "SpecMismatch",
    "StoreError",
    "StoreFull",
    "StreamAborted",
    "StreamTimeout",
    "StreamlinkError",
    "TooFewDescriptors",
    "TooManySideFiles",
    "TopicNotServed",
    "TornModel",
    "TransportClosed",
    "TransportError",
    "UnknownCodec",
    "UnknownObject",
    "UnsupportedDtype",
]

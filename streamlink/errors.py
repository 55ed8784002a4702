"""Every exception streamlink raises, in one tree.

    StreamlinkError
    ├─ ProtocolError (code, stream_id)
    │  ├─ LocalProtocolError         we used the library wrongly
    │  └─ RemoteProtocolError        the peer broke the protocol
    │     ├─ FlowControlError        it sent more than it was granted
    │     ├─ ChecksumError           a chunk stayed wrong after every repair
    │     └─ FrameTooLarge           a frame above the negotiated size
    ├─ StreamAborted (code, reason, by_peer)
    ├─ StreamTimeout, also a TimeoutError
    │  ├─ OpenTimeout                the peer never opened or accepted the stream
    │  ├─ AckTimeout                 ``streaming_ack_wait``: the peer does not acknowledge
    │  ├─ ReadTimeout                ``streaming_read_timeout``: the reader stalled
    │  └─ CommunicationTimeout       ``communication_timeout`` (stage)
    ├─ TransportError, also a ConnectionError
    │  ├─ ConnectFailed · TransportClosed · AuthenticationFailed · AddressInUse · TooFewDescriptors
    ├─ SecurityError, also a ValueError
    ├─ ModelError, also a ValueError
    │  ├─ SpecMismatch · UnsupportedDtype · UnknownCodec · TornModel
    │  ├─ SourceChanged (path, tensor, inside)
    │  └─ NonFiniteUpdate (peer, tensor, index, setting)
    ├─ StoreError, also an OSError
    │  └─ CorruptStore (path, tensor, inside, offset) · StoreFull
    ├─ Cancelled (reason)            this side called ``CancelToken.cancel``
    └─ RoundError (failures by peer)
       ├─ QuorumNotReached
       ├─ JobAborted (reason)
       └─ NonFiniteRound (peer)

Attributes hold facts; ``__str__`` makes the sentence out of them, so that a log line, a test and a
program read the same thing. The same fault is *local* if we did it and *remote* if the peer did.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum

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
    "FlowControlError",
    "FrameTooLarge",
    "JobAborted",
    "LocalProtocolError",
    "ModelError",
    "NonFiniteRound",
    "NonFiniteUpdate",
    "OpenTimeout",
    "ProtocolError",
    "QuorumNotReached",
    "ReadTimeout",
    "RemoteProtocolError",
    "RoundError",
    "SecurityError",
    "SourceChanged",
    "SpecMismatch",
    "StoreError",
    "StoreFull",
    "StreamAborted",
    "StreamTimeout",
    "StreamlinkError",
    "TooFewDescriptors",
    "TornModel",
    "TransportClosed",
    "TransportError",
    "UnknownCodec",
    "UnsupportedDtype",
]


class AbortCode(IntEnum):
    """Why a stream or a session ended early; the numbers are those of ``streamlink.proto``."""

    UNSPECIFIED = 0
    PROTOCOL_ERROR = 1
    FLOW_CONTROL = 2
    CHECKSUM = 3
    FRAME_TOO_LARGE = 4
    OPEN_TIMEOUT = 5
    ACK_TIMEOUT = 6
    READ_TIMEOUT = 7
    COMMUNICATION_TIMEOUT = 8
    SPEC_MISMATCH = 9
    STORE_FAILED = 10
    STALE_ATTEMPT = 11
    UNKNOWN_STREAM = 12
    REFUSED = 13
    VERSION = 14
    UNAUTHENTICATED = 15
    CANCELLED = 16
    TASK_FAILED = 17
    DIGEST_MISMATCH = 18
    SESSION_LOST = 19
    SOURCE_CHANGED = 20
    NAME_TAKEN = 21
    BY_OPERATOR = 22
    GOODBYE = 23


class StreamlinkError(Exception):
    """Base of everything streamlink raises on purpose.

    Attributes:
        code: what a peer is told where the error ends a stream or a session.
    """

    code: AbortCode = AbortCode.TASK_FAILED


def code_of(error: BaseException) -> AbortCode:
    """Return the code under which a peer is told of ``error``, one of ours or not."""
    if isinstance(error, StreamlinkError):
        return error.code
    if not isinstance(error, Exception):
        return AbortCode.CANCELLED  # an interrupt: somebody wanted no more of it
    return AbortCode.STORE_FAILED if isinstance(error, OSError) else AbortCode.TASK_FAILED


class Cancelled(StreamlinkError):
    """This side has ended the call with its ``CancelToken``.

    Attributes:
        reason: why, as ``cancel`` was told.
    """

    code = AbortCode.CANCELLED

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(f"ended here: {reason}")


# --- protocol ---------------------------------------------------------------


class ProtocolError(StreamlinkError):
    """A rule of the wire was broken on stream ``stream_id`` (0: the session itself).

    Args:
        what: which one, and by whom.
        stream_id: where.
        code: what the peer is told; None: the code of the class.
    """

    code = AbortCode.PROTOCOL_ERROR

    def __init__(self, what: str, *, stream_id: int = 0, code: AbortCode | None = None) -> None:
        self.what = what
        self.stream_id = stream_id
        self.code = self.code if code is None else code
        super().__init__(what)

    def __str__(self) -> str:
        where = f"stream {self.stream_id}" if self.stream_id else "session"
        return f"{where}: {self.what}"


class LocalProtocolError(ProtocolError):
    """This side called a machine in a way its state does not allow."""


class RemoteProtocolError(ProtocolError):
    """The peer sent what its state or our limits do not allow."""


class FlowControlError(RemoteProtocolError):
    """The peer sent bytes beyond the credit it was given."""

    code = AbortCode.FLOW_CONTROL


class ChecksumError(RemoteProtocolError):
    """A chunk was still wrong after the allowed number of repairs."""

    code = AbortCode.CHECKSUM


class FrameTooLarge(RemoteProtocolError):
    """A frame is larger than the size both sides agreed on."""

    code = AbortCode.FRAME_TOO_LARGE


class StreamAborted(StreamlinkError):
    """A stream or session ended early: ``code`` and ``reason`` say why, ``by_peer`` who said so.

    A session that one end left on purpose has the code ``GOODBYE``.
    """

    def __init__(self, code: AbortCode, reason: str, *, by_peer: bool, who: str = "") -> None:
        self.code = code
        self.reason = reason
        self.by_peer = by_peer
        self.who = who
        super().__init__(code, reason)

    def __str__(self) -> str:
        if self.code is AbortCode.GOODBYE:
            return f"{self.who or 'the peer' if self.by_peer else 'this side'} left: {self.reason}"
        side = f"by {self.who or 'the peer'}" if self.by_peer else "by us"
        return f"aborted {side} ({self.code.name.lower()}): {self.reason}"


# --- time -------------------------------------------------------------------


class StreamTimeout(StreamlinkError, TimeoutError):
    """Nothing moved for ``seconds``; ``setting`` names the configuration key to change.

    Attributes:
        who: the peer (or the local part) that stood still.
        stream: a readable name of the stream.
        seconds: how long nothing moved.
        bytes_done: how far the stream had come.
        setting: the configuration key that set the limit.
    """

    code = AbortCode.COMMUNICATION_TIMEOUT
    verb = "made no progress"

    def __init__(
        self, *, who: str, stream: str, seconds: float, bytes_done: int, setting: str
    ) -> None:
        self.who = who
        self.stream = stream
        self.seconds = seconds
        self.bytes_done = bytes_done
        self.setting = setting
        # The sentence alone: OSError, a base of TimeoutError, reads more arguments as an errno.
        super().__init__(str(self))

    def __str__(self) -> str:
        return (
            f"{self.who} {self.verb} for {self.seconds:.1f} s on {self.stream} after "
            f"{self.bytes_done} bytes; if that is normal on this link, raise {self.setting}"
        )


class OpenTimeout(StreamTimeout):
    """The peer did not open or accept the stream in time."""

    code = AbortCode.OPEN_TIMEOUT
    verb = "did not open the stream"


class AckTimeout(StreamTimeout):
    """``streaming_ack_wait`` passed and the oldest chunk was still not acknowledged."""

    code = AbortCode.ACK_TIMEOUT
    verb = "did not acknowledge a chunk"


class ReadTimeout(StreamTimeout):
    """``streaming_read_timeout`` passed and the upper layer took no chunk that was ready."""

    code = AbortCode.READ_TIMEOUT
    verb = "did not read a chunk that was ready"


class CommunicationTimeout(StreamTimeout):
    """``communication_timeout`` passed in one of its three stages.

    Attributes:
        stage: ``"sending"``, ``"processing"`` or ``"receiving"``.
    """

    def __init__(
        self,
        *,
        stage: str,
        who: str,
        stream: str,
        seconds: float,
        bytes_done: int,
        setting: str = "communication_timeout",
    ) -> None:
        self.stage = stage
        super().__init__(
            who=who, stream=stream, seconds=seconds, bytes_done=bytes_done, setting=setting
        )

    def __str__(self) -> str:
        return f"stage {self.stage}: {super().__str__()}"


# --- transport --------------------------------------------------------------


class TransportError(StreamlinkError, ConnectionError):
    """The carrier under a stream failed; raised from the carrier's own error."""

    code = AbortCode.SESSION_LOST


class ConnectFailed(TransportError):
    """No connection to the server could be made."""


class TransportClosed(TransportError):
    """The connection ended while a stream still needed it."""


class AuthenticationFailed(TransportError):
    """One end does not accept the other's identity: a name, a token or a certificate."""

    code = AbortCode.UNAUTHENTICATED


class AddressInUse(TransportError):
    """The server cannot listen on the address it was given."""


class TooFewDescriptors(TransportError):
    """The process may have fewer file descriptors (RLIMIT_NOFILE) than its settings need."""


class SecurityError(StreamlinkError, ValueError):
    """The settings of ``security`` do not allow this, or one of their files cannot be used."""


# --- models and stores ------------------------------------------------------


class ModelError(StreamlinkError, ValueError):
    """A model, or a description of one, cannot be used as asked."""

    code = AbortCode.SPEC_MISMATCH


class SpecMismatch(ModelError):
    """Two models that should have the same tensors do not."""


class UnsupportedDtype(ModelError):
    """An array's element type cannot travel (object, structured, big-endian, ...)."""


class UnknownCodec(ModelError):
    """A payload encoding neither side knows by this name."""


class TornModel(ModelError):
    """The target of an unfinished transfer was used: part old model, part new."""


class SourceChanged(ModelError):
    """A model was changed while it was being read, so what was read is of two models.

    Attributes:
        path: the file, or ``""`` for memory. tensor: the one that changed, or ``""`` where only the
            file is known. inside: byte offset within the tensor, or -1.
    """

    code = AbortCode.SOURCE_CHANGED

    def __init__(self, what: str, *, path: str = "", tensor: str = "", inside: int = -1) -> None:
        self.path = path
        self.tensor = tensor
        self.inside = inside
        self.what = what
        super().__init__(what)

    def __str__(self) -> str:
        parts = [self.path] if self.path else []
        parts += [f"tensor {self.tensor!r}"] if self.tensor else []
        parts += [f"its byte {self.inside}"] if self.inside >= 0 else []
        at = f"{', '.join(parts)}: " if parts else ""
        return f"{at}{self.what}; nothing may write to a model that is being sent: send it again"


class NonFiniteUpdate(ModelError):
    """An update has NaN or infinity where the round's rules allow none.

    Attributes:
        peer: whose update. tensor: the first one hit. index: the element's flat position in it.
        setting: the value of ``non_finite`` that forbids it.
    """

    def __init__(self, peer: str, tensor: str, index: int, setting: str) -> None:
        self.peer = peer
        self.tensor = tensor
        self.index = index
        self.setting = setting
        super().__init__(
            f"element {index} of tensor {tensor!r} in the update of {peer} is NaN or infinite, and "
            f"non_finite is {setting!r}"
        )


class StoreError(StreamlinkError, OSError):
    """A stored model cannot be read or written."""

    code = AbortCode.STORE_FAILED

    def __init__(self, what: str) -> None:
        self.what = what
        super().__init__(what)

    def __str__(self) -> str:
        return self.what


class CorruptStore(StoreError):
    """Stored bytes are not what was stored.

    Attributes:
        path: the file. tensor: the tensor hit, or ``""``. inside: byte offset within the tensor,
            or -1. offset: the same within the model, the tensors laid end to end, or -1.
    """

    def __init__(
        self, what: str, *, path: str, tensor: str = "", inside: int = -1, offset: int = -1
    ) -> None:
        self.path = path
        self.tensor = tensor
        self.inside = inside
        self.offset = offset
        super().__init__(what)

    def __str__(self) -> str:
        at = f", tensor {self.tensor!r}" if self.tensor else ""
        at += f", its byte {self.inside}" if self.inside >= 0 else ""
        at += f", logical byte {self.offset}" if self.offset >= 0 else ""
        return f"{self.path}{at}: {self.what}"


class StoreFull(StoreError):
    """The disk has not, or no longer, the room this needs."""


# --- rounds -----------------------------------------------------------------


class RoundError(StreamlinkError):
    """A round cannot give a new model; ``failures`` maps each failed peer to its error."""

    def __init__(self, what: str, failures: Mapping[str, BaseException] | None = None) -> None:
        self.what = what
        self.failures = dict(failures or {})
        super().__init__(what)

    def __str__(self) -> str:
        causes = "; ".join(f"{peer}: {error}" for peer, error in sorted(self.failures.items()))
        return f"{self.what} ({causes})" if causes else self.what


class QuorumNotReached(RoundError):
    """Fewer clients than ``min_clients`` gave a whole update; the old model stands."""


class JobAborted(RoundError):
    """An operator has ended the job; the last whole model stands.

    Attributes:
        reason: why, in the operator's words.
    """

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(f"aborted by the operator: {reason}; the last whole model stands")


class NonFiniteRound(RoundError):
    """An update has NaN or infinity, and ``non_finite`` is ``"fail"``; the old model stands."""

    def __init__(self, peer: str, error: NonFiniteUpdate) -> None:
        self.peer = peer
        super().__init__(f"the update of {peer} is not finite", {peer: error})

"""Streams and sessions: a broken rule of the protocol, an abort, a deadline that passed."""

from __future__ import annotations

from streamlink.errors.base import AbortCode, StreamlinkError

__all__ = [
    "AckTimeout",
    "ChecksumError",
    "CommunicationTimeout",
    "FlowControlError",
    "FrameTooLarge",
    "LocalProtocolError",
    "OpenTimeout",
    "ProtocolError",
    "ReadTimeout",
    "RemoteProtocolError",
    "StreamAborted",
    "StreamTimeout",
]


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


# --- deadlines --------------------------------------------------------------


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

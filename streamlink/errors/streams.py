"""Streams and sessions: a broken rule of the protocol, an abort, a deadline that passed."""

from __future__ import annotations

from collections.abc import Mapping

from streamlink.errors.base import AbortCode, StreamlinkError, code_of

__all__ = [
    "AckTimeout",
    "ChecksumError",
    "CommunicationTimeout",
    "ExchangeFailed",
    "FlowControlError",
    "FrameTooLarge",
    "LocalProtocolError",
    "OpenTimeout",
    "PeerBusy",
    "ProtocolError",
    "ReadTimeout",
    "RemoteProtocolError",
    "RequestRefused",
    "ServerBusy",
    "StreamAborted",
    "StreamTimeout",
    "TopicNotServed",
]


class ProtocolError(StreamlinkError):
    """A rule of the wire was broken on stream ``stream_id`` (0: the session itself).

    Args:
        what: which rule, and who broke it.
        stream_id: the number of the stream.
        code: what the peer receives; None: the code of the class.
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
    """The peer sent more bytes than its credit allowed."""

    code = AbortCode.FLOW_CONTROL


class ChecksumError(RemoteProtocolError):
    """A chunk was still wrong after the allowed number of repairs."""

    code = AbortCode.CHECKSUM


class FrameTooLarge(RemoteProtocolError):
    """A frame is larger than the size both sides agreed on."""

    code = AbortCode.FRAME_TOO_LARGE


class StreamAborted(StreamlinkError):
    """A stream or session was ended early, by either end.

    Attributes:
        code: why, as a number of the wire; ``GOODBYE`` where an end left on purpose.
        reason: why, as a sentence.
        by_peer: whether the other end ended it.
        who: the name of the other end, or ``""``.
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


class RequestRefused(StreamAborted):
    """The peer does not do what it was asked for, and says why.

    Attributes:
        metadata: small facts that it sent with the reason.
    """

    def __init__(self, reason: str, *, who: str, metadata: Mapping[str, str]) -> None:
        super().__init__(AbortCode.REFUSED, reason, by_peer=True, who=who)
        self.metadata = metadata

    def __str__(self) -> str:
        return f"{self.who} refused: {self.reason}"


class ServerBusy(RequestRefused):
    """The server has no room for another request just now: ask again later."""


class TopicNotServed(RequestRefused):
    """The server answers no requests of that topic, or does so no more."""


class PeerBusy(StreamlinkError):
    """``max_open_requests`` of a peer are unanswered: nothing was sent, and its session goes on.

    Attributes:
        who: the peer's name.
        unanswered: how many requests it has (count), with those that nobody waits for any more.
    """

    code = AbortCode.REFUSED

    def __init__(self, who: str, unanswered: int) -> None:
        self.who, self.unanswered = who, unanswered
        super().__init__(who, unanswered)

    def __str__(self) -> str:
        return (
            f"{self.who} has not answered {self.unanswered} requests, called off or not, and takes "
            "no more until then (limits.max_open_requests); if its work hangs, restart it"
        )


class ExchangeFailed(StreamlinkError):
    """An exchange with a client failed, or was not complete within its ``timeout``.

    Attributes:
        peer_name: the client's name.
        topic: what it was asked for.
        cause: why; None: ``timeout`` has passed.
        timeout: what was given for the whole exchange (seconds), if that has passed.
        sent_bytes: of the model, acknowledged by the client.
        sends_bytes: size of the model that was sent; 0: none.
        received_bytes: of the answer.
    """

    def __init__(
        self,
        peer_name: str,
        topic: str,
        *,
        cause: BaseException | None,
        timeout: float | None = None,
        sent_bytes: int = 0,
        sends_bytes: int = 0,
        received_bytes: int = 0,
    ) -> None:
        self.peer_name, self.topic = peer_name, topic
        self.cause, self.timeout = cause, timeout
        self.sent_bytes, self.sends_bytes = sent_bytes, sends_bytes
        self.received_bytes = received_bytes
        self.code = AbortCode.COMMUNICATION_TIMEOUT
        if cause is not None:
            self.code = code_of(cause)
        super().__init__(peer_name, topic)

    def __str__(self) -> str:
        what = f"the exchange {self.topic!r} with {self.peer_name}"
        sent = f"{self.sent_bytes} of {self.sends_bytes} bytes sent"
        far = f"with {sent} and {self.received_bytes} received"
        if self.cause is None:
            return (
                f"{what} was not complete within {self.timeout or 0:g} s (timeout), {far}; give it "
                "more time, or none: a client that makes no progress is noticed without it"
            )
        return f"{what} failed, {far}: {self.cause}{_NEXT.get(self.code, '')}"


_NEXT = {
    AbortCode.SESSION_LOST: "; ask it again when it is back (wait_for_peer)",
    AbortCode.GOODBYE: "; ask it again if it comes back (wait_for_peer)",
    AbortCode.TASK_FAILED: "; its own log may say more",
}


# --- deadlines --------------------------------------------------------------


class StreamTimeout(StreamlinkError, TimeoutError):
    """Nothing moved for ``seconds``; ``setting`` names the configuration key to change.

    Attributes:
        who: the peer, or the local part, that made no progress.
        stream: a readable name of the stream.
        seconds: how long nothing moved.
        bytes_done: the bytes that were transferred before.
        setting: the configuration key of the limit.
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
    """The oldest chunk was not acknowledged within ``streaming_ack_wait``."""

    code = AbortCode.ACK_TIMEOUT
    verb = "did not acknowledge a chunk"


class ReadTimeout(StreamTimeout):
    """A chunk that was ready was not consumed within ``streaming_read_timeout``."""

    code = AbortCode.READ_TIMEOUT
    verb = "did not read a chunk that was ready"


class CommunicationTimeout(StreamTimeout):
    """One of the three stages of a request made no progress for ``communication_timeout``.

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
        if self.setting == "timeout":  # of a whole call, in which all of the time bytes may move
            return (
                f"{self.stream}: not complete within {self.seconds:g} s (timeout), after "
                f"{self.bytes_done} bytes; give it more time, or none: a peer that makes no "
                "progress is noticed without it"
            )
        return f"stage {self.stage}: {super().__str__()}"

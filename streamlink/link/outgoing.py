"""Source → chunks → pump: the sending direction. Runs in the caller's thread."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from streamlink.config import LinkConfig
from streamlink.errors import (
    AbortCode,
    LocalProtocolError,
    StreamAborted,
    StreamlinkError,
    code_of,
)
from streamlink.link.faults import abort_reason
from streamlink.link.lookout import Lookout
from streamlink.link.transfers import TransferNotice
from streamlink.model.digest import BLOCK_BYTES, DigestBuilder, HasBlockHashes
from streamlink.model.interfaces import Check, ModelSource, Payload, payload_bytes, watch
from streamlink.model.ranges import Extent
from streamlink.model.spec import ModelSpec
from streamlink.protocol.frames import NO_METRICS, Attempt, Update, split_payload
from streamlink.protocol.sender import SendStream
from streamlink.protocol.stats import StreamStats
from streamlink.transport.messages import encode_spec
from streamlink.transport.receive_pump import ReceivePump
from streamlink.transport.send_pump import SendPump, Supply

__all__ = ["OutgoingModel", "Pulse", "Receipt", "Tell", "ignore", "send_model"]

SPEC_PAGE_BYTES = 256 * 1024
"""Size of one page of a model's description on the wire (bytes), about."""


Tell = Callable[[str, int], None]
"""``tell(phase, done)``: how far a transfer is. Bytes; any thread may call."""


@dataclass(frozen=True, slots=True)
class Receipt:
    """What one finished transfer was, and what it took."""

    digest: str
    """Of the whole model, hexadecimal; of its tail where an update went on at the mark."""
    seconds: float
    stats: StreamStats
    metrics: Mapping[str, float] = field(default_factory=dict)
    resumed_at: int = 0
    """The receiver had the bytes below from an interrupted transfer; they did not travel again."""


WAITING = "waiting for its connection"
"""The phase of a transfer whose connection was lost and has not come back yet."""


class Pulse:
    """Tells the other end every few seconds that this one is at work by itself.

    Args:
        pump: of the stream that waits.
        reason: what the work is.
    """

    def __init__(self, pump: SendPump | ReceivePump, reason: str) -> None:
        self._pump = pump
        self._reason = reason
        self._seconds = pump.stream.config.timeouts.held_interval
        self._due = time.monotonic()

    def beat(self) -> None:
        """Say so if it is time.

        Raises:
            StreamlinkError: the stream has failed, and the work is for nothing.
        """
        if (error := self._pump.stream.error) is not None:
            raise error
        now = time.monotonic()
        if now >= self._due:
            self._due = now + self._seconds
            self._pump.hold(self._reason, "")


class OutgoingModel:
    """A model on its way out: written in order, then finished, then committed by the receiver.

    Every method that waits raises the stream's own error once it has failed. The receiver has asked
    for the tail from ``start`` on, where that is not 0; then the digest is that of the tail.
    """

    def __init__(
        self,
        config: LinkConfig,
        spec: ModelSpec,
        *,
        stream_id: int,
        peer: str,
        name: str,
        attempt: Attempt = Attempt(),
        update: Update = Update(),
        is_resumable: bool = False,
        start: int = 0,
        notice: TransferNotice | None = None,
    ) -> None:
        self.spec = spec
        self.start = start
        self.update = update
        self._notice = notice or TransferNotice(peer, "sent", attempt)
        self._began_at = time.monotonic()
        self.pump = SendPump(
            SendStream(
                config,
                stream_id=stream_id,
                total_bytes=spec.nbytes,
                spec_digest=spec.digest,
                spec_pages=_pages(spec, config),
                attempt=attempt,
                update=update,
                is_resumable=is_resumable or start > 0,
                peer=peer,
                name=name,
            )
        )
        self.resumed_at = 0
        self._digest = DigestBuilder(spec, extent=Extent(start, spec.nbytes))
        self._stored_digest = ""

    def wait_room(self) -> tuple[int, int] | None:
        """Return (offset, bytes) of what the stream can take next; None once all is written."""
        return self.pump.wait_room()

    def write(self, offset: int, payload: Payload) -> None:
        """Send bytes from ``offset`` on, as much at a time as the stream has room for.

        The views must not change until the receiver has them.
        """
        for view in payload:
            self._hash(offset, view)
            offset += view.nbytes
        start, end = offset - payload_bytes(payload), offset
        while start < end:
            room = self.wait_room()
            if room is None or room[0] != start:
                raise LocalProtocolError(f"write at byte {start}, but the stream stands at {room}")
            size = min(room[1], end - start)
            first, payload = split_payload(payload, size)
            self.pump.write(start, first)
            start += size

    def finish(self, metrics: Mapping[str, float] = NO_METRICS) -> Receipt:
        """Say that all is written and wait until the receiver has committed it."""
        while True:
            self.pump.finish(self._hexdigest(), metrics)
            if self.pump.wait_committed():
                return self._receipt(metrics)
            # The call may have been lost just before: then all is there, and it is said once more.
            if self.pump.stream.position < self.spec.nbytes:
                raise LocalProtocolError("the receiver went back behind what can be sent again")

    def draw(self, supply: Supply) -> None:
        """Let the stream draw from ``supply(offset, nbytes)`` until all is written.

        ``supply`` runs in the carrier's thread, gives up to ``nbytes``, and may wait.
        """

        def hashed(offset: int, nbytes: int) -> Payload:
            payload = supply(offset, nbytes)
            for view in payload:
                self._hash(offset, view)
                offset += view.nbytes
            return payload

        self.pump.pull(hashed)

    def send(
        self,
        source: ModelSource,
        metrics: Mapping[str, float] = NO_METRICS,
        tell: Tell | None = None,
        check: Check | None = None,
    ) -> Receipt:
        """Send the whole of ``source`` and wait for the commit; goes back where a resume asks."""
        check = check or watch(source)
        if tell is not None:
            self.pump.on_waiting = lambda: tell(WAITING, self.pump.stream.received)
        supply = _watched(source.read if tell is None else _told(source, tell), check)
        while True:
            try:
                self._skip(source, tell or ignore)
                self.draw(supply)
            finally:
                self.pump.stop_pulling()
            check()  # from here on the receiver may commit
            self.pump.finish(self._hexdigest(), metrics)
            if self._is_committed(check):
                if tell is not None:
                    tell("sending", self.spec.nbytes)
                return self._receipt(metrics)

    def hold(self, reason: str, waiting_for: str) -> None:
        """Say that this end waits for somebody else."""
        self.pump.hold(reason, waiting_for)

    def when_held(self, act: Callable[[str, str], None]) -> None:
        """Call ``act(reason, waiting_for)`` whenever the receiver says that it waits."""
        self.pump.on_held = lambda event: act(event.reason, event.waiting_for)

    def abort(self, code: AbortCode, reason: str) -> None:
        """End the stream and tell the peer why."""
        self.pump.abort(code, reason)
        if self.error is not None:
            self._notice.failed(self.stats, self.error, start=self._first)

    @property
    def stats(self) -> StreamStats:
        """A snapshot for logs and progress bars."""
        return self.pump.stream.stats

    @property
    def error(self) -> StreamlinkError | None:
        """Why the stream failed, if it did."""
        return self.pump.stream.error

    def _is_committed(self, check: Check) -> bool:
        try:
            return self.pump.wait_committed()
        except StreamAborted as error:
            if error.code is AbortCode.DIGEST_MISMATCH:
                check()  # what was on its way may have changed after it was hashed
            raise

    def _skip(self, source: ModelSource, tell: Tell) -> None:
        """Take what the receiver has from an earlier sender into the digest of the whole."""
        self.wait_room()
        start = self.pump.stream.position
        if start <= self._digest.offset or self._stored_digest:
            return
        self.resumed_at = start
        if isinstance(source, HasBlockHashes) and source.block_hash(0) is not None:
            # Each block that is read is checked against its hash, so this is what will be sent.
            self._stored_digest = source.digest()
            return
        pulse = Pulse(self.pump, "reading what was sent before")
        while (offset := self._digest.offset) < start:
            pulse.beat()
            for view in source.read(offset, min(BLOCK_BYTES, start - offset)):
                self._digest.update(view)
            tell("checking", self._digest.offset)

    def _hexdigest(self) -> str:
        return self._stored_digest or self._digest.hexdigest()

    def _hash(self, offset: int, view: memoryview) -> None:
        if self._stored_digest:
            return
        # What a resume writes again is counted once.
        known = self._digest.offset - offset
        if known < view.nbytes:
            self._digest.update(view[max(0, known) :])

    def _receipt(self, metrics: Mapping[str, float]) -> Receipt:
        seconds = time.monotonic() - self._began_at
        self._notice.done(self.stats, self._hexdigest(), start=self._first)
        return Receipt(self._hexdigest(), seconds, self.stats, metrics, self.resumed_at)

    @property
    def _first(self) -> int:
        """The first byte that travels: the receiver has those below."""
        return max(self.start, self.resumed_at)


def send_model(
    model: OutgoingModel,
    source: ModelSource,
    metrics: Mapping[str, float] = NO_METRICS,
    tell: Tell | None = None,
    check: Check | None = None,
) -> Receipt:
    """Send ``source``; whatever goes wrong here is told to the peer.

    Args:
        model: where to.
        source: the bytes.
        metrics: facts about the work on it, told with the last byte.
        tell: told how far it is.
        check: raises where the source has changed; None: what the source has, from now on.

    Raises:
        SourceChanged: somebody wrote to the source meanwhile; the receiver keeps nothing of it.
        StreamlinkError: the stream failed, or the source could not be read.
    """
    try:
        return model.send(source, metrics, tell, check)
    except BaseException as error:
        model.abort(code_of(error), abort_reason(error))
        raise


def ignore(phase: str, done: int) -> None:
    """Take no notice."""


def _told(source: ModelSource, tell: Tell) -> Supply:
    def supply(offset: int, nbytes: int) -> Payload:
        tell("sending", offset)  # what is asked for now follows what was sent
        return source.read(offset, nbytes)

    return supply


def _watched(supply: Supply, check: Check) -> Supply:
    lookout = Lookout(check)

    def watched(offset: int, nbytes: int) -> Payload:
        payload = supply(offset, nbytes)
        lookout.look()
        return payload

    return watched


def _pages(spec: ModelSpec, config: LinkConfig) -> list[bytes]:
    tensors = ((tensor.name, tensor.dtype, tensor.shape) for tensor in spec.tensors)
    return encode_spec(tensors, min(SPEC_PAGE_BYTES, config.stream.chunk_bytes))

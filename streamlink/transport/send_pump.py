"""``SendPump``: a sending stream as its owner sees it: room, write, finish, commit."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping

from streamlink.clock import Clock
from streamlink.errors import code_of, to_raise
from streamlink.protocol.events import Accepted, Committed, Event, Failed, PeerHeld
from streamlink.protocol.frames import (
    NO_METRICS,
    PLAIN,
    Accept,
    Frame,
    Payload,
    Repair,
    payload_bytes,
    split_payload,
)
from streamlink.protocol.sender import SendStream
from streamlink.protocol.states import State
from streamlink.transport.log import log_repair, log_resume
from streamlink.transport.pump import RECHECK_SECONDS
from streamlink.transport.transfer_pump import TransferPump

__all__ = ["Encode", "HashAll", "SendPump", "Supply"]

Supply = Callable[[int, int], Payload]
"""``supply(offset, nbytes)`` gives the bytes of that range, as a source's ``read`` does."""

HashAll = Callable[[int, Payload], bytes]
"""``hash_all(offset, payload)`` gives ``Chunk.hashes`` of bytes that were supplied just now."""

Encode = Callable[[int, Payload, tuple[str, ...]], tuple[int, Payload]]
"""``encode(offset, payload, agreed)`` gives the number, among those agreed on, of the encoding that
these bytes travel in, and what they are in it; 0: plain."""


class SendPump(TransferPump[SendStream]):
    """The owner's view of a sending stream: wait for room, write, finish, wait for the commit.

    Two ways to feed it. An owner whose bytes come from elsewhere *writes* them. An owner with a
    source hands over ``supply`` and the carrier's writer pulls from it, which saves a thread's
    hand-over for each chunk. A call that has no thread to write is *pushed* by the owner, which
    would only wait meanwhile: it pulls, and sends what it has pulled.
    """

    on_held: Callable[[PeerHeld], None] | None = None
    """Called in the owner's thread when the receiver reports that it waits for a third party."""

    _supply: Supply | None = None
    _hash_all: HashAll | None = None
    _supply_error: BaseException | None = None
    _leftover: tuple[int, Payload] | None = None
    _is_pulling = False

    def __init__(self, machine: SendStream, *, clock: Clock, encode: Encode | None = None) -> None:
        """See ``Pump``; ``encode`` is called without the lock, by one thread at a time."""
        super().__init__(machine, clock=clock)
        self._encode = encode

    def wait_room(self) -> tuple[int, int] | None:
        """Return (offset, bytes) of the next piece to write, or None once everything is written.

        Raises:
            StreamlinkError: the stream has failed.
        """
        while True:
            with self._lock:
                machine = self._machine
                while not machine.has_events:
                    if machine.writable_bytes > 0:
                        return machine.ask()
                    if machine.state is State.STREAMING and machine.is_written:
                        return None
                    self._wait_alive()
                event = machine.next_event()
            self._react(event)

    def pull(self, supply: Supply, hash_all: HashAll | None = None) -> None:
        """Let the writer pull from ``supply(offset, nbytes)`` and wait until all is written.

        Where the call has no thread to write, this one pulls and sends.

        ``hash_all`` sees all that is supplied, range by range; after a resume some of it again.

        Raises:
            StreamlinkError: the stream has failed.
            Exception: whatever ``supply`` raised; the peer has been told.
        """
        # Not the bare lock: at its end ``locked`` wakes the writer, which may pull from now on.
        with self.locked():
            self._supply, self._hash_all = supply, hash_all
        while True:
            with self._lock:
                machine = self._machine
                while not self._owner_has_work():
                    self._wait_alive()
                event = machine.next_event()
                call = self._pushable() if event is None else 0
                if event is None and not call:
                    return
            if call:
                self._push(call)
            # First: the abort that follows a fault of the supply is an event, too, and says less.
            if self._supply_error is not None:
                # Handed over and not kept: its frames hold the source.
                error, self._supply_error = self._supply_error, None
                try:
                    raise error
                finally:
                    del error
            self._react(event)

    def write(self, offset: int, payload: Payload) -> bool:
        """Queue ``payload``; its views must not change until received.

        Returns:
            False where it was not taken: the call was lost, or a resume went back behind it;
            ``wait_room`` then says where to go on.
        """
        nbytes, encoding = payload_bytes(payload), PLAIN
        if self._encode is not None and nbytes:
            encoding, payload = self._encode(offset, payload, self._machine.encodings)
        with self.locked() as (machine, now):
            if machine.position != offset or not 0 < nbytes <= machine.writable_limit:
                return False
            machine.write(payload, now=now, encoding=encoding, nbytes=nbytes)
            return True

    def finish(self, digest: str, metrics: Mapping[str, float] = NO_METRICS) -> None:
        """Announce that everything is written; ``wait_committed`` returns how that ended."""
        with self.locked() as (machine, now):
            # Opening: the call was lost just before; the finish is sent on the next one.
            if machine.state in (State.STREAMING, State.OPENING) and machine.is_written:
                machine.finish(digest, metrics, now=now)

    def wait_committed(self) -> bool:
        """Wait for the commit. False: the receiver resumed further back; continue to write.

        Raises:
            StreamlinkError: the stream has failed.
        """
        while True:
            with self._lock:
                machine = self._machine
                while not machine.has_events:
                    self._wait_alive()
                event = machine.next_event()
                # A resume after which only the finish is missing goes on in FINISHING by itself.
                is_rewound = isinstance(event, Accepted) and machine.state is State.STREAMING
            if isinstance(event, Committed):
                return True
            if is_rewound:
                return False
            self._react(event)

    def stop_pulling(self) -> None:
        """Pull no more; wait until no thread reads the supply: then its source may be closed."""
        with self._lock:
            self._supply = self._hash_all = None
            while self._is_pulling:
                self._to_own.wait(RECHECK_SECONDS)

    def _is_progress(self, frame: Frame) -> bool:
        if (
            isinstance(frame, Accept)
            and (machine := self._machine).resumes
            and not machine.is_closed
        ):
            log_resume(machine, machine.position)
        elif isinstance(frame, Repair):
            log_repair(self._machine, self._machine.stats.repairs, "is sent again")
        return super()._is_progress(frame)

    def _react(self, event: Event | None) -> None:
        if isinstance(event, Failed):
            raise to_raise(event.error)
        if isinstance(event, PeerHeld) and self.on_held is not None:
            self.on_held(event)

    def _wait_alive(self) -> None:
        """Wait for a change; raise the machine's error where there will not be one."""
        if self._machine.is_closed and self._machine.error is not None:
            raise to_raise(self._machine.error)
        self._to_own.wait(RECHECK_SECONDS)

    def _push(self, call: int) -> None:
        self._pushing = threading.get_ident()
        try:
            self._refill(call)
        finally:
            self._pushing = 0
        push = self._pushes.get(call)
        if push is not None:
            push()
        else:  # the call was lost meanwhile: the one that took over has to be woken
            with self._lock:
                self._wake()

    def _pushable(self) -> int:
        """Return a call on which the owner may send more; 0: there is none."""
        if self._supply is None or self._is_pulling or self._machine.writable_bytes <= 0:
            return 0
        return next(iter(self._pushes), 0)

    def _refill(self, call: int) -> None:
        with self._lock:
            machine, supply = self._machine, self._supply
            # A writer whose call was lost a moment ago leaves it to the next one.
            if supply is None or self._is_pulling or call not in self._calls:
                return
            offset, nbytes = machine.ask()
            if nbytes == 0:
                return
            self._is_pulling = True
            # For the statistics: from here on the stream waits for the source, not for the link.
            machine.note_idle(now=self._clock())
        try:
            self._refill_from(supply, offset, nbytes)
        finally:
            with self._lock:
                self._is_pulling = False
                # The stream may have ended meanwhile: what was just put aside would keep the source
                # alive.
                self._let_go()
                # Who may wait for the end of this; waking them for each chunk would cost more.
                if self._supply is not supply:
                    self._to_own.notify_all()
                if call not in self._calls or len(self._calls) > 1:
                    self._to_send.notify_all()
                    if self._owner_has_work():  # it may pull for another call
                        self._wake_owner()

    def _refill_from(self, supply: Supply, offset: int, nbytes: int) -> None:
        try:
            # What was pulled and not taken comes first: a supply cannot be asked for it again.
            leftover_at, payload = self._leftover or (offset, ())
            hashes = b""
            if not payload or leftover_at != offset:
                payload = supply(offset, nbytes)
                if self._hash_all is not None:
                    hashes = self._hash_all(offset, payload)
            if self._encode is not None:
                self._leftover = self._write_encoded(self._encode, offset, payload, hashes)
                return
        # Of any kind: this is the carrier's thread, and only the owner, in ``pull``, can act on it.
        except BaseException as error:
            self._supply_error = error
            # After the fault is set: the abort wakes the owner, which looks for it.
            self.abort(code_of(error), f"{type(error).__name__}: {error}")
        else:
            self._leftover = self._write_front(offset, payload, hashes)

    def _write_front(
        self, offset: int, payload: Payload, hashes: bytes
    ) -> tuple[int, Payload] | None:
        """Write as much of ``payload`` as the stream takes; returns what is left of it.

        A receiver that came back may grant less than what was pulled for it before.
        """
        with self._lock:
            machine = self._machine
            most = machine.writable_limit if machine.position == offset else 0
            front, rest = split_payload(payload, max(0, most))
            if front:
                machine.write(front, now=self._clock(), hashes=b"" if rest else hashes)
            self._wake()
        return (offset + payload_bytes(front), rest) if rest else None

    def _write_encoded(
        self, encode: Encode, offset: int, payload: Payload, hashes: bytes
    ) -> tuple[int, Payload] | None:
        """Do as ``_write_front``, with the front of ``payload`` encoded.

        That takes too long for the lock. Meanwhile the call may be lost, and the receiver come back
        elsewhere or with less credit: then all of it is kept, plain, for the next time.
        """
        with self._lock:
            machine = self._machine
            most = machine.writable_limit if machine.position == offset else 0
            agreed = machine.encodings
        front, rest = split_payload(payload, max(0, most))
        nbytes = payload_bytes(front)
        encoding, encoded = encode(offset, front, agreed) if front else (PLAIN, ())
        if rest or encoding != PLAIN:
            hashes = b""
        with self._lock:
            # Looked at again, since the lock was free meanwhile: a whole encoded range, or nothing.
            if machine.position == offset and 0 < nbytes <= machine.writable_limit:
                now = self._clock()
                machine.write(encoded, now=now, encoding=encoding, nbytes=nbytes, hashes=hashes)
                offset, payload = offset + nbytes, rest
            self._wake()
        return (offset, payload) if payload else None

    def _note_idle(self) -> None:
        self._machine.note_idle(now=self._clock())

    def _wake(self) -> None:
        self._let_go()
        super()._wake()

    def _let_go(self) -> None:
        """Drop what only a living stream needs; its pump may be kept for what it knows."""
        if self._machine.is_closed:
            self._supply = self._leftover = self._hash_all = None

    def _writer_has_work(self, call: int) -> bool:
        if self._machine.has_frames(call):
            return True
        # The writer of a call that was lost may still be pulling: only one may ask a supply.
        may_pull = self._supply is not None and not self._is_pulling and call not in self._pushes
        # A lane that is new or retires would pull what only others take, as much as has room.
        if may_pull and len(self._calls) > 1 and not self._machine.may_take(call):
            return False
        return may_pull and self._machine.writable_bytes > 0

    def _owner_has_work(self) -> bool:
        machine = self._machine
        if machine.has_events:
            return True
        # While the writer pulls, room is its concern: the owner sleeps until all is written.
        if self._supply is not None:
            is_written = machine.state is State.STREAMING and machine.is_written
            return is_written or self._pushable() > 0
        return machine.writable_bytes > 0

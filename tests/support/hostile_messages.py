"""Messages of proven connections that a hostile peer may send, fed to the end that receives them.

A conversation is that of a sender, over ``ToldSocket``, with some of its messages changed: their
bytes, what their heads say, or which they are. A hostile peer has the checks of its heads right.
"""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Iterator

import xxhash

from streamlink.clock import running_time
from streamlink.protocol import frames as f
from streamlink.protocol.events import Delivered, Finished, Opened
from streamlink.protocol.receiver import ReceiveStream
from streamlink.transport.carriers import largest_message
from streamlink.transport.receive_pump import ReceivePump
from streamlink.transport.tcp.stream import StreamCall
from streamlink.transport.traffic import WireCount
from streamlink.transport.wire import TransferWire
from tests.support.hostile_frames import (
    CONFIG,
    DOCUMENTED,
    TRANSFER,
    Mischief,
    Undocumented,
    encoded,
)
from tests.support.machines import KiB, a_chunk, an_open
from tests.support.told_socket import ToldSocket

__all__ = ["HEAD_BYTES", "fuzz_messages", "hostile_message", "messages_of", "said_wrongly"]

MOST = largest_message(CONFIG.stream)
FIRST_BYTES, HEAD_BYTES = 64, 72
CHUNKS = 4  # a window: credit for more would have to be sent
TOTAL = CHUNKS * 4 * KiB


def messages_of(frames: list[f.Frame], stream_id: int = 1) -> list[bytes]:
    """Return each of ``frames`` as it goes over a connection."""
    told = ToldSocket()
    StreamCall(told, TransferWire(stream_id), WireCount(), MOST).send(frames)
    told.close()
    return told.sent


def said_wrongly(mischief: Mischief, message: bytes) -> bytes:
    """Return ``message`` with something changed; its head is right again, or is not."""
    random = mischief.random
    if len(message) < HEAD_BYTES or random.random() < 0.4:
        return mischief.bytes_of(message)
    if random.random() < 0.5:  # what it says of itself
        nbytes = mischief.number(len(message) - HEAD_BYTES + FIRST_BYTES) & 0xFFFF_FFFF
        return _headed(nbytes, message[HEAD_BYTES - FIRST_BYTES : HEAD_BYTES], message[HEAD_BYTES:])
    first = bytearray(message[HEAD_BYTES - FIRST_BYTES : HEAD_BYTES])
    first[random.randrange(len(first))] ^= 1 << random.randrange(8)
    (nbytes,) = struct.unpack_from("<I", message)
    return _headed(nbytes, bytes(first), message[HEAD_BYTES:])


def hostile_message(mischief: Mischief, number: int, stream_id: int) -> bytes:
    """Return a made up frame as a message: the ``number``-th of its call."""
    raw = encoded(mischief.frame(TRANSFER), False, number, stream_id)
    message = _headed(len(raw), raw[:FIRST_BYTES].ljust(FIRST_BYTES, b"\0"), raw[FIRST_BYTES:])
    return message if mischief.random.random() < 0.7 else said_wrongly(mischief, message)


def _headed(nbytes: int, first: bytes, rest: bytes) -> bytes:
    return struct.pack("<II", nbytes, xxhash.xxh32_intdigest(first, seed=nbytes)) + first + rest


def fuzz_messages(count: int, seed: int) -> Counter[str]:
    """Feed ``count`` messages, in conversations, to a receiver; returns what became of them.

    Raises:
        Undocumented: one led to an error that is not promised, or to a read that is too large.
    """
    mischief, outcomes, done = Mischief(seed), Counter[str](), 0
    valid = messages_of([an_open(TOTAL), *map(a_chunk, range(CHUNKS)), f.Finish(TOTAL, "digest")])
    while done < count:
        said = list(_changed(mischief, valid))
        done += _Receiver(said, outcomes).run()
    outcomes["messages"] = done
    return outcomes


def _changed(mischief: Mischief, valid: list[bytes]) -> Iterator[bytes]:
    """Yield a conversation with some of its messages changed, lost, doubled, or put in."""
    for number, message in enumerate(valid):
        chance = mischief.random.random() / 0.1
        if chance < 0.2:
            continue
        if chance < 0.6:
            message = said_wrongly(mischief, message)
        elif chance < 0.8:
            yield message
        elif chance < 1.0:
            yield hostile_message(mischief, min(number, 1), 1)
        yield message
    yield _headed(0, bytes(FIRST_BYTES), b"")


class _Receiver:
    """The end that all of it comes to, with a sink that lends its memory."""

    def __init__(self, said: list[bytes], outcomes: Counter[str]) -> None:
        self._outcomes = outcomes
        self._told = ToldSocket(b"".join(said), before=self._own)
        self._pump = ReceivePump(ReceiveStream(CONFIG, stream_id=1), clock=running_time)
        self._memory = memoryview(bytearray(TOTAL))
        self._heads = 0

    def run(self) -> int:
        """Read all of it; returns how many messages were begun."""
        stream = StreamCall(self._told, TransferWire(1), WireCount(), MOST)
        number = self._pump.attach(lambda: None)
        try:
            with self._pump.lending(self._lend):
                was_damaged = stream.read(self._pump, number)
                self._pump.detach(number)
        except Exception as error:
            raise Undocumented(f"what was said led to {error!r}") from error
        finally:
            self._told.close()
        self._check(was_damaged, has_ended=stream.has_ended)
        return self._heads

    def _check(self, was_damaged: bool, *, has_ended: bool) -> None:
        error = self._pump.stream.error
        if error is not None and not isinstance(error, DOCUMENTED):
            raise Undocumented(f"what was said led to {error!r}")
        if self._told.most > MOST:
            raise Undocumented(f"{self._told.most} bytes were read at once, of {MOST}")
        end = "damaged" if was_damaged else "ended" if has_ended else "broken"
        self._outcomes[type(error).__name__ if error else end] += 1

    def _lend(self, offset: int, nbytes: int) -> memoryview:
        view = self._memory[offset : offset + nbytes]
        if view.nbytes != nbytes:
            raise Undocumented(f"{nbytes} bytes at {offset} were asked of a sink of {TOTAL}")
        return view

    def _own(self, nbytes: int) -> None:
        """Do what the owner's thread does meanwhile: between messages, when nothing is lent."""
        if nbytes != HEAD_BYTES:
            return
        self._heads += 1
        pump = self._pump
        while not pump.is_closed and (event := pump.poll(0)) is not None:
            match event:
                case Opened() if not pump.is_closed:
                    pump.accept(wants_spec=False)
                case Delivered():
                    pump.release(event.nbytes)
                case Finished():
                    pump.commit(event.digest)

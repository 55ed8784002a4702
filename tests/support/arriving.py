"""Updates whose bytes arrive when a test says so, over a stream that it holds both ends of."""

from __future__ import annotations

from streamlink.clock import Clock, running_time
from streamlink.extent import Extent
from streamlink.link.description import KnownSpecs
from streamlink.link.receive_transfer import ReceiveTransfer
from streamlink.model.spec import ModelSpec, TensorSpec
from streamlink.protocol import frames as f
from streamlink.rounds.lockstep.source import LiveSource
from streamlink.rounds.resume import Answer
from tests.support.peers import SMALL, WAIT
from tests.support.pumps import pump_of

__all__ = ["arrive", "arrived", "awaited"]


def arrive(
    source: LiveSource,
    data: bytes | bytearray,
    cut: int = 1000,
    *,
    begins: int = 0,
    update: f.Update = f.Update(),
) -> None:
    """Let an update of ``data`` arrive from byte ``begins`` on, in chunks of ``cut`` bytes."""
    spec, pump = spec_of(len(data)), pump_of(source.model)
    extent = Extent(begins, len(data)) if begins else None
    opened = f.Open(
        pump.stream.stream_id, f.Attempt(), len(data), spec.digest, 1, 4096,
        update=update, extent=extent,
    )  # fmt: skip
    call = pump.attach(lambda: None)
    pump.incoming([opened], call)
    assert source.open(WAIT)
    for number, at in enumerate(range(begins, len(data), cut)):
        payload = memoryview(data)[at : at + cut]
        pump.incoming([f.Chunk(number, at, (payload,))], call)
        assert source.fetch(WAIT)


def spec_of(nbytes: int) -> ModelSpec:
    return ModelSpec((TensorSpec("w", "U8", (nbytes,)),))


def awaited(
    nbytes: int,
    stream_id: int = 1,
    extent: Extent | None = None,
    *,
    clock: Clock = running_time,
) -> ReceiveTransfer:
    """Return the stream that an update of so many bytes is expected on; its tensors are known."""
    known = KnownSpecs()
    known.add(spec_of(nbytes))
    return ReceiveTransfer(
        SMALL, stream_id=stream_id, peer_name="a", name="update", known=known, extent=extent,
        clock=clock,
    )  # fmt: skip


def arrived(data: bytes | bytearray, cut: int, *, clock: Clock = running_time) -> LiveSource:
    """Return the source of an update that has arrived in chunks of ``cut`` bytes."""
    source = LiveSource("a", Answer(awaited(len(data), clock=clock)))
    arrive(source, data, cut)
    return source

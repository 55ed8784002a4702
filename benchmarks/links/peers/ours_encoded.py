"""streamlink with an encoding that loses nothing: ``send`` and ``receive``, array to array."""

from __future__ import annotations

import time

from benchmarks.links.ends import End
from benchmarks.links.peers import Peer
from benchmarks.links.peers.ours import link_config

PEER = Peer(
    {name: f"streamlink, {name}" for name in ("zstd", "planes", "auto")},
    order=11,
    has_data_port=True,
    is_own=True,
    module=__name__,
)


def receive(end: End) -> None:
    """Serve one transfer into the arrays; what is received needs no setting."""
    import streamlink

    streamlink.tune_allocator()
    end.base()
    model = end.target()
    streamlink.receive(model, end.address, config=link_config(end), on_listening=end.listening)
    end.finished(model)


def send(end: End) -> None:
    """Send the arrays in the encoding of this variant."""
    import streamlink

    streamlink.tune_allocator()
    end.base()
    model = end.source()
    config = link_config(end, encodings=(end.variant,))
    end.wait_for_go()
    began_at = time.monotonic()
    receipt = streamlink.send(model, end.address, config=config)
    connecting = time.monotonic() - began_at - receipt.seconds
    end.finished(model, connecting_seconds=connecting)

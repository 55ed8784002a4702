"""streamlink as it comes: ``send`` and ``receive`` with default settings, array to array."""

from __future__ import annotations

import time
from typing import Any

from benchmarks.links.ends import End
from benchmarks.links.peers import Peer

PEER = Peer({"": "streamlink"}, order=10, has_data_port=True, module=__name__)


def receive(end: End) -> None:
    """Serve one transfer into the arrays."""
    import streamlink

    streamlink.tune_allocator()
    end.base()
    model = end.target()
    streamlink.receive(model, end.address, config=link_config(end), on_listening=end.listening)
    end.finished(model)


def send(end: End) -> None:
    """Send the arrays; ``send`` connects as well, which counts to the start as for the others."""
    import streamlink

    streamlink.tune_allocator()
    end.base()
    model = end.source()
    end.wait_for_go()
    began_at = time.monotonic()
    receipt = streamlink.send(model, end.address, config=link_config(end))
    connecting = time.monotonic() - began_at - receipt.seconds
    end.finished(model, connecting_seconds=connecting)


def link_config(end: End, **stream: Any) -> Any:
    """Return the settings of an end: the defaults, but for what is given of ``stream``."""
    import streamlink

    # The peers send plain text, too; on the loopback that is streamlink's default.
    is_here = end.host.startswith("127.")
    return streamlink.LinkConfig(
        stream=streamlink.StreamConfig(**stream),
        security=streamlink.SecurityConfig(insecure=not is_here),
    )

"""Each module here is one peer: a way to move the model, with ``PEER``, ``send`` and ``receive``.

The modules are found by their being here. They are read by the harness, which has none of the
peers' packages: what a peer needs is imported in its functions.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Literal

from benchmarks.integrations.environments import Environment

__all__ = ["NUMPY", "Peer", "found"]

NUMPY = "numpy==2.4.6"


@dataclass(frozen=True)
class Peer:
    """How the harness runs a module of this folder.

    Attributes:
        names: what its ways are called, by variant; one way: ``{"": name}``.
        listens: which of its ends listens; the other one dials.
        environment: pinned packages that it is run with; None: those of this checkout.
        order: where it stands in tables; peers of one number go by their names.
        missing: returns why it cannot run on this machine; empty: it can.
        version: returns which program it is, where that is this machine's; empty: it is pinned in
            ``environment``, or of this checkout.
        has_data_port: whether the port above the one that is dialed belongs to it, too.
        caveat: what its figures leave out, for the table.
        is_own: whether it is a way of streamlink's own that has no counterpart in other peers; the
            plan ``peers`` is without it.
    """

    names: dict[str, str]
    listens: Literal["send", "receive"] = "receive"
    environment: Environment | None = None
    order: int = 50
    missing: Callable[[], str] = str
    version: Callable[[], str] = str
    has_data_port: bool = False
    caveat: str = ""
    is_own: bool = False
    module: str = ""


def found() -> dict[str, tuple[Peer, str]]:
    """Return the peers by what they are called, each with its variant, in the tables' order."""
    peers: list[tuple[int, str, str, Peer]] = []
    for each in pkgutil.iter_modules(__path__, f"{__name__}."):
        peer: Peer = import_module(each.name).PEER
        peers += [(peer.order, name, variant, peer) for variant, name in peer.names.items()]
    ordered = sorted(peers, key=lambda each: each[:2])
    return {name: (peer, variant) for _, name, variant, peer in ordered}

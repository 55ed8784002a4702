"""Flower over streamlink: arrays travel beside its messages, by reference.

    strategy.start(grid=StreamlinkGrid(grid), ...)  # in the ServerApp
    app = ClientApp(mods=[StreamlinkMod()])  # in the ClientApp

Flower is imported when the first of these names is used. See docs/integrations.md.
"""

from importlib import import_module
from typing import Any

__all__ = ["StreamingFedAvg", "StreamlinkGrid", "StreamlinkMod", "record_of"]

_HOMES = dict(zip(__all__, ("strategy", "grid", "mod", "records"), strict=True))


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

"""NVIDIA FLARE 2.9 on streamlink: arrays and tensors of its messages travel as objects.

Set ``NVFLARE_NVFLARE_DECOMPOSERS=streamlink.integrations.nvflare`` for every process of FLARE, at
the server and at the sites. FLARE then walks this package and imports ``decomposers``, which
replaces how its NumPy and PyTorch decomposers hand over what is downloaded. No line of a job
changes: see docs/integrations.md. Tensors that are read where they are stored, and models made of
these, are in ``streamlink.integrations.tensors``.

    sides        the object server of a job, and a site's session with it
    riding       our reference inside FLARE's own download, in both directions
    decomposers  what FLARE imports: it puts ``riding`` in the place of FLARE's own
    components   second line: an aggregator and a persistor that hold windows instead of models

Importing this package imports nothing of FLARE.
"""

from typing import Any

__all__ = ["StoreAggregator", "StorePersistor"]


def __getattr__(name: str) -> Any:
    if name in __all__:
        from streamlink.integrations.nvflare import components

        return getattr(components, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

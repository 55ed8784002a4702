"""Switches all optimisations at once: the seeds' ``--use_optimized_version``, or its opposite."""

from __future__ import annotations

from streamlink.training.settings import ClientSettings, CommSettings, ServerSettings

__all__ = ["optimized_client", "optimized_server"]


def optimized_server(settings: ServerSettings, is_on: bool | None) -> ServerSettings:
    """Return settings in which every optimisation is on, or off; None: as they are.

    Off includes chunking: a model is one whole message.
    """
    if is_on is None:
        return settings
    trainer = settings.order.trainer.model_copy(update={"optimize_memory": is_on})
    order = settings.order.model_copy(update={"optimize_memory": is_on, "trainer": trainer})
    return settings.model_copy(
        update={"optimize_memory": is_on, "comm": _comm(settings.comm, is_on), "order": order}
    )


def optimized_client(settings: ClientSettings, is_on: bool | None) -> ClientSettings:
    """Return settings in which every optimisation is on, or off; None: as they are."""
    if is_on is None:
        return settings
    comm = _comm(settings.comm, is_on)
    return settings.model_copy(
        update={"optimize_memory": is_on, "optimize_trainer": is_on, "comm": comm}
    )


def _comm(comm: CommSettings, is_on: bool) -> CommSettings:
    return comm.model_copy(update={"optimize_memory": is_on, "use_model_chunking": is_on})

"""The limits of an object server: how many, how large, and for how long."""

from __future__ import annotations

from typing import Self

from pydantic import Field, model_validator

from streamlink.config.values import GiB, MiB, Seconds, Settings, Size

__all__ = ["ObjectLimits"]


class ObjectLimits(Settings):
    """What an ``ObjectServer`` holds at most. Beyond it a put is refused; nothing else suffers."""

    max_objects: int = Field(default=1000, ge=1)
    """Most objects at the same time, those that arrive included (count). Price: about 2 KiB each,
    and the description of its tensors."""

    max_bytes: Size = Field(default=64 * GiB, ge=1)
    """Most bytes of all objects together, those that arrive included (bytes)."""

    max_memory_bytes: Size = Field(default=4 * GiB, ge=1)
    """Without a spool: most bytes of what clients have put, which is held in memory (bytes)."""

    ttl: Seconds = 3600.0
    """How long an object lives if its ``put`` says nothing else (seconds). A transfer that runs
    then may finish; what is held of the object in memory or on the disk is released after that."""

    max_ttl: Seconds = 7 * 24 * 3600.0
    """The longest time to live that a ``put`` may ask for (seconds)."""

    shared_bytes: Size = Field(default=16 * MiB, ge=1 * MiB)
    """How far apart readers of one object may be and still share what is read of its source
    (bytes). Price: this much for each object that is read, except those in memory."""

    @model_validator(mode="after")
    def _relations(self) -> Self:
        if self.ttl > self.max_ttl:
            raise ValueError(f"ttl ({self.ttl}) must not be above max_ttl ({self.max_ttl})")
        return self

"""The base of our aggregators: settings, with a name by which a job is given them."""

from __future__ import annotations

from typing import ClassVar

from streamlink.config.values import Settings

__all__ = ["NamedSettings"]


class NamedSettings(Settings):
    """Settings that are written as ``NAME:SETTING=VALUE,...``."""

    name: ClassVar[str]
    """The aggregator's name."""

    def __str__(self) -> str:
        """Return the name and every setting, in the form that ``aggregator_of`` takes."""
        # Defaults, too: a later version may have others, and a resumed job must not change.
        settings = ",".join(f"{key}={value}" for key, value in self.model_dump().items())
        return f"{self.name}:{settings}" if settings else self.name

"""Settings with a name, as text: ``mean``, ``NAME:SETTING=VALUE,...``. Aggregators, schedules."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from pydantic import ValidationError

from streamlink.config.values import Settings

__all__ = ["NamedSettings", "named_of"]


class NamedSettings(Settings):
    """Settings that are written as ``NAME:SETTING=VALUE,...``."""

    name: ClassVar[str]
    """The name before the colon."""

    def __str__(self) -> str:
        """Return the name and every setting, in the form that ``named_of`` takes."""
        # Defaults, too: a later version may have others, and a resumed job must not change.
        settings = ",".join(f"{key}={value}" for key, value in self.model_dump().items())
        return f"{self.name}:{settings}" if settings else self.name


def named_of(text: str, kinds: Mapping[str, type[Any]], what: str) -> Any:
    """Return what ``text`` names among ``kinds``, made from the settings that it gives.

    Args:
        text: ``"NAME"`` or ``"NAME:SETTING=VALUE,..."``.
        kinds: name → class.
        what: what it is called in messages, such as ``aggregator``.

    Raises:
        ValueError: there is no such name, or it has no such setting; names those there are.
    """
    name, _, settings = text.partition(":")
    if (kind := kinds.get(name.strip())) is None:
        known = ", ".join(map(repr, sorted(kinds)))
        raise ValueError(f"no {what} is called {name.strip()!r}; there are: {known}")
    given = {}
    for setting in filter(None, settings.split(",")):
        key, equals, value = setting.partition("=")
        if not equals:
            raise ValueError(f"{text!r}: {setting!r} is not of the form SETTING=VALUE")
        given[key.strip()] = value.strip()
    try:
        return kind(**given)
    except ValidationError as error:
        raise ValueError(f"{text!r}: {_first_fault(error)}") from error


def _first_fault(error: ValidationError) -> str:
    fault = error.errors(include_url=False)[0]
    message = str(fault["msg"]).removeprefix("Value error, ")
    # A relation between settings has no place of its own; its message names them.
    where = ".".join(map(str, fault["loc"]))
    return f"{where}: {message}, not {fault['input']!r}" if where else message

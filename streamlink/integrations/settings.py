"""Settings that a framework keeps as texts, checked before a job runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from streamlink import TimeoutConfig

__all__ = ["check_settings", "checked_seconds"]


def check_settings(
    read: Callable[[str], str], checks: Mapping[str, Callable[[str], object]], known_as: str
) -> None:
    """Refuse settings that cannot be used.

    Args:
        read: returns the text of a setting.
        checks: what raises ``ValueError`` for a text that cannot be used, by the setting's name.
        known_as: what a user calls a setting, with ``{name}`` and ``{upper}`` in it.

    Raises:
        ImportError: one cannot be used. It is raised while a framework imports the integration.
    """
    for name, check in checks.items():
        try:
            check(read(name))
        except ValueError as error:
            user_name = known_as.format(name=name, upper=name.upper())
            raise ImportError(
                f"the setting {user_name} is {read(name)!r}, which cannot be used: {error}"
            ) from error


def checked_seconds(text: str) -> float:
    """Return the seconds of a timeout.

    Raises:
        ValueError: it is no number, or no timeout can have it.
    """
    return TimeoutConfig.model_validate({"rejoin_timeout": text}).rejoin_timeout

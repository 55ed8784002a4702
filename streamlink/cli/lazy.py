"""A group of commands of which only the one that is run is imported.

Importing every command takes a second. The help of the group and shell completion still list all,
and import them for that.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Any, ClassVar

import typer
from typer.core import TyperGroup
from typer.main import get_command

from streamlink.cli.collector import importing

__all__ = ["LazyGroup"]


class LazyGroup(TyperGroup):
    """A group that imports a command when it is looked up; subclasses name the modules."""

    modules: ClassVar[Mapping[str, str]] = {}
    """The commands in the order of the help: name, and the module that has it under that name."""

    commands: Any  # typer says a mutable mapping, and only reads it

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        self.commands = _Commands(self.modules)


class _Commands(Mapping[str, Any]):
    """The commands of a group by name; each is imported at its first look-up."""

    def __init__(self, modules: Mapping[str, str]) -> None:
        self._modules = modules
        self._imported: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in self._imported:
            self._imported[name] = _imported(self._modules[name], name)
        return self._imported[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._modules)

    def __len__(self) -> int:
        return len(self._modules)


def _imported(module: str, name: str) -> Any:
    """Return the command, or the group of commands, that ``module`` has as ``name``."""
    with importing():
        found = getattr(import_module(module), name)
    if isinstance(found, typer.Typer):
        return get_command(found)
    from streamlink.cli.help import SettingsCommand

    alone = typer.Typer(add_completion=False, rich_markup_mode=None)
    alone.command(cls=SettingsCommand)(found)
    return get_command(alone)

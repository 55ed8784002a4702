"""``streamlink init``: writes a small project that runs, to begin with."""

from __future__ import annotations

import shlex
from enum import StrEnum
from importlib.resources import files
from importlib.resources.abc import Traversable
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from streamlink.cli.command import Common, command
from streamlink.cli.errors import CommandError

__all__ = ["Template", "init"]


class Template(StrEnum):
    """A folder of ``streamlink/templates``."""

    NUMPY = "numpy"
    TORCH = "torch"
    LORA = "lora"


_NEEDS = {Template.TORCH: "torch", Template.LORA: "torch"}


@command()
def init(
    folder: Annotated[
        Path, typer.Argument(metavar="DIR", help="Where; it is created if it is missing.")
    ],
    template: Annotated[
        Template,
        typer.Option(
            help="A model of NumPy arrays, a torch module, or a torch module of which only the "
            "adapters are trained."
        ),
    ] = Template.NUMPY,
    *,
    common: Common,
) -> None:
    """Write a small project that runs: a model, its training and evaluation, and settings.

    Existing files are never overwritten.
    """
    found = _files_of(template)
    there = [name for name in found if (folder / name).exists()]
    # All are looked at before one is written: half a project is of no use.
    if there:
        raise CommandError(
            f"{folder} has {', '.join(there)} already, and nothing is overwritten; name another "
            "directory"
        )
    folder.mkdir(parents=True, exist_ok=True)
    for name, source in found.items():
        with (folder / name).open("x", encoding="utf-8") as file:
            file.write(source.read_text("utf-8"))
    typer.echo(f"{folder}: {', '.join(found)}; to run it on this machine:\n")
    package = _NEEDS.get(template)
    if package and find_spec(package) is None:
        typer.echo(f"pip install 'streamlink-fl[{package}]'")
    typer.echo(f"cd {shlex.quote(str(folder))}")
    for line in _commands(found["README.md"].read_text("utf-8")):
        typer.echo(line)


def _files_of(template: Template) -> dict[str, Traversable]:
    """Return the files of a template by name."""
    folder = files("streamlink") / "templates"
    own = {each.name: each for each in (folder / template.value).iterdir() if each.is_file()}
    return {"README.md": folder / "README.md", **own}


def _commands(readme: str) -> list[str]:
    """Return the first commands of the README, so that they stand in one place."""
    return readme.split("```")[1].strip().splitlines()

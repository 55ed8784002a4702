"""Which names that stand for types, such as ``Payload``, the public names mention.

A type checker and ``help()`` show the name, and at run time nothing but its value is left: so the
sources are read.
"""

from __future__ import annotations

import ast
import importlib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

from tests.support.parsing import nodes, read

__all__ = ["Alias", "aliases_in", "origin"]

_PARAMETERS = {"TypeVar", "ParamSpec"}  # stand for types of the caller


class Alias(NamedTuple):
    """A name of ours that stands for a type."""

    module: str
    name: str
    value: ast.expr
    """What it stands for."""

    def __str__(self) -> str:
        return f"{self.module}.{self.name}"

    @property
    def line(self) -> str:
        """How it is written, whatever module that is in.

        Of ``protocol`` and ``model`` neither may import the other: both write what ``Payload`` is.
        """
        return f"{self.name} = {ast.unparse(self.value)}"


def aliases_in(annotation: str | ast.expr, module: str) -> Iterator[Alias]:
    """Yield the aliases in an annotation of ``module``, or in the value of an alias there.

    A private one is an abbreviation of the module's: what it stands for is looked at instead.
    """
    expression = annotation if isinstance(annotation, ast.expr) else _parsed(annotation)
    for node in ast.walk(expression):
        found = origin(module, node.id) if isinstance(node, ast.Name) else None
        if found is not None and found.name.startswith("_"):
            yield from aliases_in(found.value, found.module)
        elif found is not None:
            yield found


def origin(module: str, name: str) -> Alias | None:
    """Return the alias that ``name`` is in ``module``; None: it is something else."""
    found = _names_of(module).get(name)
    if isinstance(found, str):
        return origin(*found.rsplit(".", 1)) if "." in found else None
    return None if found is None or _is_parameter(found) else Alias(module, name, found)


def _parsed(text: str) -> ast.expr:
    return ast.parse(text, mode="eval").body


def _is_parameter(value: ast.expr) -> bool:
    match value:
        case ast.Call(func=ast.Name(name)):
            return name in _PARAMETERS
    return False


@cache
def _names_of(module: str) -> dict[str, str | ast.expr]:
    """Return what a module imports from streamlink, by its dotted name, and what it assigns."""
    tree = read(Path(str(importlib.import_module(module).__file__)))
    found: dict[str, str | ast.expr] = {}
    for node in nodes(tree):
        match node:
            case ast.ImportFrom(module=str(source)) if source.split(".")[0] == "streamlink":
                found |= {each.asname or each.name: f"{source}.{each.name}" for each in node.names}
    for node in tree.body:
        match node:
            case (
                ast.Assign([ast.Name(name)], value)
                | ast.AnnAssign(target=ast.Name(name), value=ast.expr() as value)
            ):
                found[name] = value
    return found

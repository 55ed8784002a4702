"""Which types the public names mention: parameters, results, fields and attributes, recursively."""

from __future__ import annotations

import ast
import functools
import importlib
import inspect
import re
import sys
import threading
import typing
from collections.abc import Iterator
from typing import Any

import streamlink
from tests.support.annotations import annotations_of, is_ours
from tests.support.public_aliases import Alias, aliases_in, origin

__all__ = ["NAMESPACES", "homeless", "public_names", "raised_by", "types_of"]

NAMESPACES = tuple(re.findall(r"^``streamlink\.(\w+)``", streamlink.__doc__ or "", re.MULTILINE))
"""As the package's own docstring lists them."""


def public_names() -> dict[str, Any]:
    """Return every public object by its dotted name."""
    found = {f"streamlink.{name}": getattr(streamlink, name) for name in streamlink.__all__}
    for space in NAMESPACES:
        module = importlib.import_module(f"streamlink.{space}")
        found |= {f"streamlink.{space}.{name}": getattr(module, name) for name in module.__all__}
    return found


def homeless() -> list[str]:
    """Return each type of ours, or name for one, that a public name mentions and none can import.

    Both the type and the name that stands for it: users write annotations, too.
    """
    public = public_names()
    homes = {id(each) for each in public.values()}
    lines = {alias.line for name in public if (alias := alias_of(name)) is not None}
    wrong: dict[str, str] = {}
    for name, each in public.items():
        for where, kind in types_of(each):
            if is_ours(kind) and id(kind) not in homes:
                wrong.setdefault(f"{kind.__module__}.{kind.__qualname__}", f"{name}{where}")
        for where, alias in aliases_of(name, each):
            if alias.line not in lines:
                wrong.setdefault(str(alias), f"{name}{where}")
    found = sorted(wrong.items())
    return [f"{kind}, of {name}" for kind, name in found if kind not in _SEAMS]


_SEAMS = {"streamlink.transport.connect.Dial"}
"""Of carriers, which ``transport/carriers.py`` specifies; users leave such arguments out."""


# --- the names that stand for types -----------------------------------------


def alias_of(name: str) -> Alias | None:
    """Return what a public name stands for; None: it is a class, a function or a constant."""
    module, _, short = name.rpartition(".")
    return origin("streamlink.public" if module == "streamlink" else module, short)


def aliases_of(name: str, each: Any) -> Iterator[tuple[str, Alias]]:
    """Yield the place and each alias that a public name mentions, also one that is an alias."""
    for one in annotations_of(each):
        yield from ((one.where, alias) for alias in aliases_in(one.text, one.module))
    if (own := alias_of(name)) is not None and isinstance(own.value, ast.Subscript | ast.BinOp):
        yield from (("", alias) for alias in aliases_in(own.value, own.module))


# --- the types --------------------------------------------------------------


def types_of(each: Any) -> Iterator[tuple[str, Any]]:
    """Yield the place and the type of each class that ``each`` mentions."""
    for one in annotations_of(each):
        yield from ((one.where, kind) for kind in parts(evaluated(one.text, one.module)))
    if not inspect.isclass(each) and not inspect.isfunction(each):
        yield from (("", kind) for kind in parts(each))


def evaluated(text: str, module: str) -> Any:
    known = {**late_imports(module), "threading": _Threading()}
    return eval(text, vars(sys.modules[module]), known)


class _Threading:
    """``threading`` for annotations: its ``Lock`` is a type from Python 3.13 on only."""

    def __getattr__(self, name: str) -> Any:
        return type(threading.Lock()) if name == "Lock" else getattr(threading, name)


@functools.cache
def late_imports(module: str) -> dict[str, Any]:
    """Return what a module imports for types only."""
    source = inspect.getsource(sys.modules[module])
    found: dict[str, Any] = {}
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            exec(ast.unparse(ast.Module(node.body, [])), found)
    return found


def parts(kind: Any) -> Iterator[Any]:
    """Yield the classes in ``kind``: of a union, a callable, an alias of either."""
    if inspect.isclass(kind) and typing.get_origin(kind) is None:
        yield kind
    elif isinstance(kind, list | tuple):  # the parameters of a callable
        for each in kind:
            yield from parts(each)
    elif typing.get_origin(kind) is not typing.Literal:
        yield from parts(list(typing.get_args(kind)))
        if isinstance(origin := typing.get_origin(kind), type):
            yield origin


# --- errors -----------------------------------------------------------------

_RAISES = re.compile(r"^ *Raises:\n(.*?)(?:\n *\n|\Z)", re.MULTILINE | re.DOTALL)
_ERROR = re.compile(r"^ {4}(\w+):", re.MULTILINE)


def raised_by(each: Any) -> Iterator[str]:
    """Yield the names under ``Raises:`` in the docstrings of ``each`` and of its methods."""
    members = list(vars(each).values()) if inspect.isclass(each) else []
    for one in (each, *members):
        for block in _RAISES.findall(inspect.getdoc(one) or ""):
            yield from _ERROR.findall(block)

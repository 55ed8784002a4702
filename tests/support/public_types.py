"""Which types the public names mention: parameters, results, fields and attributes, recursively."""

from __future__ import annotations

import ast
import dataclasses
import functools
import importlib
import inspect
import re
import sys
import textwrap
import threading
import types
import typing
from collections.abc import Iterator
from typing import Any

import streamlink

__all__ = ["NAMESPACES", "homeless", "mentioned_by", "public_names", "raised_by"]

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
    """Return each type of ours that a public name mentions and nobody can import."""
    public = public_names()
    homes = {id(each) for each in public.values()}
    wrong: dict[str, str] = {}
    for name, each in public.items():
        for where, kind in mentioned_by(each):
            if is_ours(kind) and id(kind) not in homes:
                wrong.setdefault(f"{kind.__module__}.{kind.__qualname__}", f"{name}{where}")
    found = sorted(wrong.items())
    return [f"{kind}, of {name}" for kind, name in found if kind not in _SEAMS]


def is_ours(kind: Any) -> bool:
    return isinstance(kind, type) and kind.__module__.split(".")[0] == "streamlink"


_SEAMS = {"streamlink.transport.connect.Dial"}
"""Of carriers, which ``transport/carriers.py`` specifies; users leave such arguments out."""

_HANDED_OUT = {"CompressedSink", "MemorySink", "Pulse", "SafetensorsSink"}


# --- one public name --------------------------------------------------------


def mentioned_by(each: Any) -> Iterator[tuple[str, Any]]:
    """Yield the place and the type of each class that ``each`` mentions."""
    if inspect.isclass(each):
        yield from of_class(each)
    elif inspect.isfunction(each):
        yield from of_function(each, "()")
    else:
        yield from (("", kind) for kind in parts(each))


def of_class(cls: type[Any]) -> Iterator[tuple[str, Any]]:
    for base in (base for base in cls.__mro__ if is_ours(base)):
        yield from of_fields(base)
        for name, member in vars(base).items():
            if is_public(name) or name in ("__enter__", "__call__"):
                yield from of_member(member, f".{name}")
    if is_made_by_users(cls):
        yield from of_function(cls.__init__, "()")


def is_public(name: str) -> bool:
    return not name.startswith("_")


def is_made_by_users(cls: type[Any]) -> bool:
    """Tell whether users call the constructor: then the docstring names its arguments.

    The others are handed out by methods, such as a store's sink by ``begin``.
    """
    if cls.__name__ in _HANDED_OUT:
        return False
    has_fields = dataclasses.is_dataclass(cls) or hasattr(cls, "model_fields")
    return inspect.isfunction(cls.__init__) and ("Args:" in (cls.__doc__ or "")) and not has_fields


def of_member(member: Any, where: str) -> Iterator[tuple[str, Any]]:
    match member:
        case property(fget=fget):
            yield from of_function(typing.cast("Any", fget), where)
        case functools.cached_property(func=func):
            yield from of_function(func, where)
        case staticmethod() | classmethod():
            yield from of_function(member.__func__, f"{where}()")
        case types.FunctionType():
            yield from of_function(member, f"{where}()")


def of_function(function: Any, where: str) -> Iterator[tuple[str, Any]]:
    function = inspect.unwrap(function)
    for kind in hints(function).values():
        yield from ((where, part) for part in parts(kind))


def of_fields(cls: type[Any]) -> Iterator[tuple[str, Any]]:
    """Yield the types of annotated fields, and of public attributes that ``__init__`` assigns."""
    declared = vars(cls).get("__annotations__", {})
    own = {name: kind for name, kind in hints(cls).items() if name in declared}
    for name, kind in {**assigned(cls), **own}.items():
        if is_public(name):
            yield from ((f".{name}", part) for part in parts(kind))


def assigned(cls: type[Any]) -> dict[str, Any]:
    """Return the types of ``self.name = argument`` and of ``self.name: type = ...``."""
    init = vars(cls).get("__init__")
    if not inspect.isfunction(init) or dataclasses.is_dataclass(cls):
        return {}
    tree = ast.parse(textwrap.dedent(inspect.getsource(init)))
    given, found = hints(init), {}
    for node in ast.walk(tree):
        match node:
            case ast.Assign(targets=[ast.Attribute(ast.Name("self"), name)], value=ast.Name(arg)):
                found[name] = given.get(arg)
            case ast.AnnAssign(target=ast.Attribute(ast.Name("self"), name), annotation=kind):
                found[name] = evaluated(ast.unparse(kind), init)
    return found


def hints(each: Any) -> dict[str, Any]:
    known = {**late_imports(each.__module__), "threading": _Threading()}
    return typing.get_type_hints(each, localns=known)


class _Threading:
    """``threading`` for annotations: its ``Lock`` is a type from Python 3.13 on only."""

    def __getattr__(self, name: str) -> Any:
        return type(threading.Lock()) if name == "Lock" else getattr(threading, name)


def evaluated(text: str, function: Any) -> Any:
    return eval(text, function.__globals__, late_imports(function.__module__))


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

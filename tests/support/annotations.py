"""What a public name is annotated with, as its source writes it.

Of a function the parameters and the result; of a class the fields, the attributes, the methods, and
the parameters of a constructor that users call.
"""

from __future__ import annotations

import ast
import dataclasses
import functools
import inspect
import textwrap
import types
import typing
from collections.abc import Iterator
from typing import Any

__all__ = ["Annotation", "annotations_of", "is_ours"]

_PROTOCOLS = {f"__{name}__" for name in ("enter", "call", "iter", "await", "getitem", "contains")}
"""Methods that users call without writing their names."""

_HANDED_OUT = {"CompressedSink", "MemorySink", "Pulse", "SafetensorsSink"}


@dataclasses.dataclass(frozen=True, slots=True)
class Annotation:
    """One annotation, and where it is."""

    where: str
    """Behind the public name, such as ``.spec`` or ``.begin()``."""
    module: str
    """Whose names it uses."""
    text: str


def annotations_of(each: Any) -> Iterator[Annotation]:
    """Yield the annotations of a class or function; an alias has none."""
    if inspect.isclass(each):
        yield from of_class(each)
    elif inspect.isfunction(each):
        yield from of_function(each, "()")


def is_ours(kind: Any) -> bool:
    """Tell whether ``kind`` is a class of streamlink."""
    return isinstance(kind, type) and kind.__module__.split(".")[0] == "streamlink"


def of_class(cls: type[Any]) -> Iterator[Annotation]:
    for base in (base for base in cls.__mro__ if is_ours(base)):
        yield from of_fields(base)
        for name, member in vars(base).items():
            if is_public(name) or name in _PROTOCOLS:
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


def of_member(member: Any, where: str) -> Iterator[Annotation]:
    match member:
        case property(fget=fget):
            yield from of_function(typing.cast("Any", fget), where)
        case functools.cached_property(func=func):
            yield from of_function(func, where)
        case staticmethod() | classmethod():
            yield from of_function(member.__func__, f"{where}()")
        case types.FunctionType():
            yield from of_function(member, f"{where}()")


def of_function(function: Any, where: str) -> Iterator[Annotation]:
    function = inspect.unwrap(function)
    for name, text in inspect.get_annotations(function).items():
        if is_public(name):
            yield Annotation(where, function.__module__, text)


def of_fields(cls: type[Any]) -> Iterator[Annotation]:
    """Yield those of fields, and of the public attributes that ``__init__`` assigns."""
    for name, text in {**assigned(cls), **inspect.get_annotations(cls)}.items():
        if is_public(name):
            yield Annotation(f".{name}", cls.__module__, text)


def assigned(cls: type[Any]) -> dict[str, str]:
    """Return the annotations of ``self.name = argument`` and of ``self.name: type = ...``."""
    init = vars(cls).get("__init__")
    if not inspect.isfunction(init) or dataclasses.is_dataclass(cls):
        return {}
    given: dict[str, str] = inspect.get_annotations(init)
    found: dict[str, str] = {}
    for node in ast.walk(ast.parse(textwrap.dedent(inspect.getsource(init)))):
        match node:
            case ast.Assign(targets=[ast.Attribute(ast.Name("self"), name)], value=ast.Name(arg)):
                found |= {name: given[arg]} if arg in given else {}
            case ast.AnnAssign(target=ast.Attribute(ast.Name("self"), name), annotation=kind):
                found[name] = ast.unparse(kind)
    return found

"""Descriptions of settings: the docstring under each field, as pydantic takes them on demand.

Pydantic's own ``use_attribute_docstrings`` looks for the source of each class with ``inspect``,
which tokenizes it: a tenth of a second for all settings, in each process, whether or not anybody
asks for help. Here each module is parsed once.
"""

from __future__ import annotations

import ast
import inspect
import sys
from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from pathlib import Path

__all__ = ["docstrings_of"]


def docstrings_of(cls: type) -> dict[str, str]:
    """Return the docstrings under the fields that ``cls`` itself annotates, by name.

    Empty where there is no source.
    """
    return _docstrings_in(cls.__module__).get(cls.__qualname__, {})


@cache
def _docstrings_in(module: str) -> dict[str, dict[str, str]]:
    """Return the docstrings of each class at the top of a module."""
    file = getattr(sys.modules.get(module), "__file__", None)
    try:
        tree = ast.parse(Path(file or "").read_bytes())
    except (OSError, SyntaxError):
        return {}
    classes = [node for node in tree.body if isinstance(node, ast.ClassDef)]
    return {each.name: dict(_docstrings(each.body)) for each in classes}


def _docstrings(body: list[ast.stmt]) -> Iterator[tuple[str, str]]:
    for field, text in pairwise(body):
        if (
            isinstance(field, ast.AnnAssign)
            and isinstance(field.target, ast.Name)
            and isinstance(text, ast.Expr)
            and isinstance(text.value, ast.Constant)
            and isinstance(text.value.value, str)
        ):
            yield field.target.id, inspect.cleandoc(text.value.value)

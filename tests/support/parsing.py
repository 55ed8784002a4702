"""Our sources as syntax trees, for the tests that judge them."""

from __future__ import annotations

import ast
import gc
from functools import cache
from pathlib import Path

__all__ = ["nodes", "read"]


@cache
def read(path: Path) -> ast.Module:
    """Return the tree of a file."""
    gc.disable()  # what is collected meanwhile may move the depth CPython 3.11 checks itself by
    try:
        return ast.parse(path.read_text("utf-8"), str(path))
    finally:
        gc.freeze()  # trees live until the end; to walk through all of them takes a second
        gc.enable()


@cache
def nodes(tree: ast.AST) -> tuple[ast.AST, ...]:
    """Return all nodes of a tree; each file is judged by many tests, and walking it is slow."""
    return tuple(ast.walk(tree))

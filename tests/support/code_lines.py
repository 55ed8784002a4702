"""Counts the lines of code of a module."""

from __future__ import annotations

import ast
import io
import tokenize
from pathlib import Path

_EMPTY = {
    *(tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT),
    tokenize.ENDMARKER,
}


def lines_of_code(path: Path) -> int:
    """Return how many lines are not empty, comments or docstrings."""
    text = path.read_text("utf-8")
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    used = [each for each in tokens if each.type not in _EMPTY]
    lines = {line for each in used for line in range(each.start[0], each.end[0] + 1)}
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            lines -= set(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return len(lines)

"""Which files a program runs: what it imports, and what it names as the body of a process."""

from __future__ import annotations

import re
from pathlib import Path

__all__ = ["sources_of"]

ROOT = Path(__file__).resolve().parents[2]
NAMED = re.compile(r"[\"'](benchmarks(?:\.\w+)+)[\"':]")
FROM = re.compile(r"from (benchmarks[\w.]*) import (\([^)]*\)|[^\n(]*)")


def sources_of(*modules: str) -> list[str]:
    """Return the files of this checkout that these modules run, relative to its root.

    Only modules of ``benchmarks`` are followed: those that are imported, also where a program in a
    text does that, and those that a string names, as a whole or as ``"module:function"``.
    """
    found: set[Path] = set()
    to_read = list(modules)
    while to_read:
        path = ROOT / to_read.pop().replace(".", "/")
        path = path.with_suffix(".py") if not path.is_dir() else path / "__init__.py"
        if path in found or not path.exists():
            continue
        found.add(path)
        text = path.read_text("utf-8")
        to_read += NAMED.findall(text)
        for package, names in FROM.findall(text):
            to_read += [package, *(f"{package}.{name}" for name in re.findall(r"\w+", names))]
    return sorted(str(path.relative_to(ROOT)) for path in found)

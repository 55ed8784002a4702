"""Which commit of streamlink produced a result."""

from __future__ import annotations

import subprocess
from pathlib import Path

__all__ = ["commit"]

_GIT_SECONDS = 10.0


def commit() -> str:
    """Return the commit of the checkout that this package runs from, ``-dirty`` if it has changes.

    An installed package has no checkout: then it is empty, and the versions say what ran.
    """
    package = Path(__file__).resolve().parent.parent
    head = _git(package, "rev-parse", "--short=12", "HEAD")
    if head is None or _git(package, "ls-files", "--error-unmatch", "__init__.py") is None:
        return ""
    changed = _git(package, "status", "--porcelain", "--untracked-files=no", "--", ".")
    return f"{head}-dirty" if changed else head


def _git(folder: Path, *arguments: str) -> str | None:
    try:
        done = subprocess.run(
            ["git", "-C", str(folder), *arguments],
            capture_output=True,
            text=True,
            check=True,
            timeout=_GIT_SECONDS,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()

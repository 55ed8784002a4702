"""Tracebacks that begin at the user's code, without our own frames above it."""

from __future__ import annotations

import os
import sysconfig
import traceback
from pathlib import Path
from types import TracebackType

__all__ = ["place_of", "users_frames"]

_OURS = str(Path(__file__).parents[1]) + os.sep
_PYTHON = sysconfig.get_path("stdlib") + os.sep
# The second is what Debian calls the first.
_INSTALLED = ("site-packages", "dist-packages")


def users_frames(trace: TracebackType | None) -> TracebackType | None:
    """Return the traceback from the user's first frame on; all of it if there is none."""
    found = trace
    while found is not None and _is_frame_of_ours(found.tb_frame.f_code.co_filename):
        found = found.tb_next
    return found if found is not None else trace


def place_of(error: BaseException) -> str:
    """Return the user's last line that led to ``error``: ``work.py, line 3, in train``.

    The user can change that line, also if a library raised the error. Empty: there is none.
    """
    frames = traceback.extract_tb(error.__traceback__)
    own = [each for each in frames if _is_of_the_user(each.filename)]
    if not own:
        return ""
    inside = "" if own[-1].name == "<module>" else f", in {own[-1].name}"
    return f"{own[-1].filename}, line {own[-1].lineno}{inside}"


def _is_frame_of_ours(filename: str) -> bool:
    return filename.startswith((_OURS, "<frozen importlib"))


def _is_of_the_user(filename: str) -> bool:
    if filename.startswith((_OURS, "<")):  # generated code has no file
        return False
    is_installed = any(each in _INSTALLED for each in Path(filename).parts)
    return not (is_installed or filename.startswith(_PYTHON))

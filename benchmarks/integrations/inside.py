"""What a measured process says about itself, and the arrays of a case by their closed form.

Imported inside a framework's own environment, so it needs the standard library and NumPy only.
What is said goes to a file, one JSON object a line; ``running`` reads it. Times are those of
``time.monotonic``, which all processes of a machine share.

Element i of array k is ``(i + k) % 16`` at first, client c (1, 2, ...) adds c to each element, so a
round adds the mean ``(n + 1) / 2`` of n clients: exact in float32 and bfloat16.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np

__all__ = [
    "arrays",
    "belong",
    "call",
    "check",
    "check_all",
    "facts",
    "idle",
    "mark",
    "names_and_lengths",
    "result",
    "round",
    "train",
    "wait_for",
    "wait_for_looks",
]

LOOKS_SECONDS = 30.0  # a guard
_BLOCK = 1 << 20  # elements; a multiple of 16
_side = os.environ.get("STREAMLINK_SIDE", "")


def mark(event: str, *, side: str | None = None, **facts: Any) -> None:
    """Say that something happened, with facts that JSON knows."""
    line = {"event": event, "side": side or _side, "pid": os.getpid(), "at": time.monotonic()}
    # One write of a short line to a file opened for appending is not torn by another process's.
    with open(os.environ["STREAMLINK_MARKS"], "ab", buffering=0) as file:
        file.write(json.dumps({**line, **facts}).encode() + b"\n")


def belong(side: str) -> None:
    """Count this process to ``side``, whatever its environment says."""
    global _side
    _side = side
    mark("belongs")


def idle() -> None:
    """Say that all imports are done and no model is here; its memory now is this process's base.

    Returns once it was looked at: on a busy machine that takes longer than any sleep would.
    """
    mark("idle")
    wait_for_looks(os.environ["STREAMLINK_MARKS"])
    mark("idle ended")


def wait_for_looks(marks: str) -> None:
    """Wait until the case has looked at its processes twice; ``marks`` is its file of marks."""
    before, give_up_at = _looks(marks), time.monotonic() + LOOKS_SECONDS
    while _looks(marks) < before + 2 and time.monotonic() < give_up_at:
        time.sleep(0.02)


def _looks(marks: str) -> int:
    try:
        return os.path.getsize(f"{marks}.looks")  # a byte for each
    except OSError:
        return 0


def wait_for(file: str) -> None:
    """Wait until the case has made an empty file beside the marks: the end of all start-ups."""
    path = os.path.join(os.path.dirname(os.environ["STREAMLINK_MARKS"]), file)
    while not os.path.exists(path):
        time.sleep(0.02)


@contextmanager
def call(kind: str, *, side: str | None = None) -> Iterator[None]:
    """Time the framework's own ``"send"`` or ``"receive"`` call in the ``with`` block."""
    started_at = time.monotonic()
    try:
        yield
    finally:
        mark("call", side=side, kind=kind, seconds=time.monotonic() - started_at)


@contextmanager
def round(number: int) -> Iterator[None]:
    """Time a whole round, start-up taken off."""
    started_at = time.monotonic()
    yield
    mark("round", number=number, seconds=time.monotonic() - started_at)


def facts() -> dict[str, Any]:
    """Return the fields of the case that is being run."""
    return dict(json.loads(os.environ["STREAMLINK_CASE_FACTS"]))


def names_and_lengths() -> dict[str, int]:
    """Return the arrays of the case: names in order, and how many elements each has."""
    case = facts()
    itemsize = 2 if case["dtype"] in ("bfloat16", "float16") else np.dtype(case["dtype"]).itemsize
    length = case["size_bytes"] // case["arrays"] // itemsize
    return {f"layer_{number:04d}": length for number in range(case["arrays"])}


def number_of(name: str) -> int:
    """Return k of the k-th array."""
    return int(name.rsplit("_", 1)[1])


def first_values(number: int, start: int, count: int) -> np.ndarray[Any, Any]:
    """Return elements ``[start, start + count)`` of array ``number`` as they are at first."""
    tile = ((np.arange(16) + start + number) % 16).astype(np.float32)
    return np.resize(tile, count)


def arrays(dtype: Any = None) -> dict[str, np.ndarray[Any, Any]]:
    """Return the first model of the case, as NumPy arrays."""
    kind = np.dtype(dtype or facts()["dtype"])
    model = {name: np.empty(n, kind) for name, n in names_and_lengths().items()}
    for name, array in model.items():
        for at in range(0, len(array), _BLOCK):
            part = array[at : at + _BLOCK]
            part[:] = first_values(number_of(name), at, len(part))
    return model


def train(model: Mapping[str, Any], client: int) -> None:
    """Add ``client`` (1, 2, ...) to each element in place; NumPy arrays or torch tensors."""
    for array in model.values():
        array += client


def check(name: str, values: Any, rounds: int, *, start: int = 0) -> bool:
    """Return whether a 1-D array has the closed form's values after so many rounds."""
    add = rounds * (facts()["clients"] + 1) / 2
    for at in range(0, len(values), _BLOCK):
        part = np.asarray(values[at : at + _BLOCK], np.float32)
        if not np.array_equal(part, first_values(number_of(name), start + at, len(part)) + add):
            return False
    return True


def check_all(model: Mapping[str, Any], rounds: int) -> bool:
    """Check every array of the case, and say the verdict."""
    wanted = names_and_lengths()
    exact = list(model) == list(wanted) and all(
        len(model[name]) == length and check(name, model[name], rounds)
        for name, length in wanted.items()
    )
    result(exact)
    return exact


def result(exact: bool, **more: Any) -> None:
    """Say whether the model is what the closed form says."""
    mark("result", exact=exact, **more)

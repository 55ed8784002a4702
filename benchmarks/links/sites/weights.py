"""The model of the two-site job, and the closed form of what its rounds make of it.

Every element is an entry of one table of normal numbers (deviation 0.02, as after the usual
initialization of a transformer). Client and server treat all elements alike, so the model after
some rounds is the same look-up in a table to whose entries the rounds were applied, one by one.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import streamlink
from benchmarks.links.payload import DEVIATION, SEED
from benchmarks.links.rounded import to_bf16
from benchmarks.links.sites.cases import CLIENTS, FAR, NEAR, SiteCase
from streamlink.model import GeneratedModel
from streamlink.stores import SafetensorsStore

__all__ = ["ADDED", "after", "count_wrong_bytes", "model_of", "table", "write"]

Floats = npt.NDArray[np.float32]

ADDED = {NEAR: np.float32(2.0**-10), FAR: np.float32(3 * 2.0**-10)}
"""What each client's work adds to every element: the "small number" of FLARE's notes."""
ENTRIES = 1 << 21
"""Of the table: 8 MiB, so that no chunk has the same bytes twice, which an encoder would find."""
APART = 977 * 1021  # entries by which each tensor is shifted, so that no two tensors are alike
PIECE_BYTES = 4 << 20


def table() -> Floats:
    """Return the entries before the first round."""
    drawn = np.random.default_rng(SEED).standard_normal(ENTRIES, np.float32)
    return drawn * np.float32(DEVIATION)


def after(entries: Floats, rounds: int, *, is_rounded: bool) -> Floats:
    """Return what the rounds make of the entries.

    Args:
        entries: before them.
        rounds: how many.
        is_rounded: whether models travel as bf16 in both directions.
    """
    for _ in range(rounds):
        came = to_bf16(entries) if is_rounded else entries
        updates = [came + ADDED[client] for client in CLIENTS]
        if is_rounded:
            updates = [to_bf16(each) for each in updates]
        mean = sum(each.astype(np.float64) for each in updates) / len(CLIENTS)
        entries = np.asarray(mean).astype(np.float32)
    return entries


def write(case: SiteCase, folder: Path) -> None:
    """Write the model before the first round into a folder."""
    source = model_of(case, table())
    streamlink.copy_model(source, SafetensorsStore(folder).begin(source.spec))


def count_wrong_bytes(case: SiteCase, folder: Path) -> int:
    """Compare the model in a folder with the closed form; returns bytes of pieces that differ."""
    is_rounded = case.variant.encoding == "bf16"
    expected = model_of(case, after(table(), case.rounds, is_rounded=is_rounded))
    found = streamlink.open_model(folder)
    wrong = 0
    try:
        if found.spec != expected.spec:
            return case.nbytes
        for offset in range(0, case.nbytes, PIECE_BYTES):
            length = min(PIECE_BYTES, case.nbytes - offset)
            is_same = _bytes(found, offset, length) == _bytes(expected, offset, length)
            wrong += 0 if is_same else length
    finally:
        found.close()
    return wrong


def model_of(case: SiteCase, entries: Floats) -> GeneratedModel:
    """Return the model whose elements are these entries.

    Args:
        case: says how many tensors there are, and how large.
        entries: of the table, after any rounds.
    """
    shape = (case.key_bytes // 4,)
    names = (f"key_{number:02d}" for number in range(case.keys))
    spec = streamlink.ModelSpec(tuple(streamlink.TensorSpec(name, "F32", shape) for name in names))

    def fill(tensor: streamlink.TensorSpec, start: int, out: npt.NDArray[Any]) -> None:
        at, first = 0, APART * int(tensor.name.removeprefix("key_")) + start
        while at < len(out):
            begin = (first + at) % ENTRIES
            count = min(len(out) - at, ENTRIES - begin)
            out[at : at + count] = entries[begin : begin + count]
            at += count

    return GeneratedModel(spec, fill)


def _bytes(model: streamlink.ModelSource, offset: int, length: int) -> bytes:
    return b"".join(model.read(offset, length))

"""Which file of a store each byte of a model goes to: the shards, and the small files beside them.

The shards come first, each with its header; behind them each small file is one more, without.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from streamlink.model.beside import split
from streamlink.model.spec import ModelSpec
from streamlink.stores.safetensors.beside import (
    Placing,
    is_adapter,
    metadata_of,
    placed_before,
    side_file_name,
)
from streamlink.stores.safetensors.header import LARGEST_ELEMENT_BYTES, encode_header
from streamlink.stores.safetensors.index import SINGLE_NAME, shard_name
from streamlink.stores.safetensors.layout import Layout, split_into_shards

__all__ = ["Plan", "planned"]


@dataclass(frozen=True, slots=True)
class Plan:
    """Where the bytes of one attempt go.

    Attributes:
        model: the tensors, without what is beside them.
        names: of the files, while they are not placed.
        headers: what each file begins with.
        sizes: of the files (bytes).
        weight_map: tensor → shard.
        layout: of all bytes, those of the small files behind those of the tensors.
        placing: what is renamed after the commit.
        placed: the names that are the store's to remove from then on.
    """

    model: ModelSpec
    names: list[str]
    headers: list[bytes]
    sizes: list[int]
    weight_map: dict[str, str]
    layout: Layout
    placing: Placing
    placed: tuple[str, ...]


def planned(
    directory: Path,
    generation: str,
    spec: ModelSpec,
    shard_bytes: int,
    alignment: int = LARGEST_ELEMENT_BYTES,
) -> Plan:
    """Return where the bytes of ``spec`` go in ``directory``.

    A model that brings nothing beside its tensors, such as the mean of a round, keeps the files and
    the metadata that are there.

    Raises:
        ModelError: what is beside the tensors is not allowed.
    """
    model, entries = split(spec)
    adapter = is_adapter(directory, entries)
    # What loads an adapter knows one file only.
    shards = split_into_shards(model.tensors, model.nbytes if adapter else shard_bytes)
    names = [shard_name(generation, number, len(shards)) for number in range(len(shards))]
    metadata: Mapping[str, str] = entries.metadata if entries else metadata_of(directory)
    headers, sizes, places = [], [], list[tuple[int, int]]()
    for number, tensors in enumerate(shards):
        header, offsets = encode_header(tensors, metadata, alignment)
        headers.append(header)
        sizes.append(len(header) + sum(tensor.nbytes for tensor in tensors))
        places.extend((number, offset) for offset in offsets)
    weight_map = {
        tensor.name: name for name, tensors in zip(names, shards, strict=True) for tensor in tensors
    }
    shard = names[0] if adapter and len(shards) == 1 else ""
    placing = Placing(generation, tuple(entries.files), shard)
    before = [name for name in placed_before(directory) if name not in placing.placed]
    placed = placing.placed
    # Many tools prefer this file to an index.
    removed = [SINGLE_NAME] if os.path.lexists(directory / SINGLE_NAME) else []
    if entries.files:
        removed += before
    else:
        placed = (*before, *placed)
    placing = replace(placing, removed=tuple(removed))
    # Facts of the metadata have no bytes, so any place will do.
    places += [(0, 0)] * (len(spec.tensors) - len(model.tensors) - len(entries.files))
    places += [(len(shards) + number, 0) for number in range(len(entries.files))]
    names += [side_file_name(generation, number) for number in range(len(entries.files))]
    headers += [b""] * len(entries.files)
    sizes += entries.files.values()
    return Plan(model, names, headers, sizes, weight_map, Layout(spec, places), placing, placed)

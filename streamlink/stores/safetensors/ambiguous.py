"""Directories in which two models lie: which of them is meant is never guessed.

Other tools save beside what is there. A retrained adapter or a fine-tuned model would lie beside
the index of the model that it was made from, and whoever reads the index would get the old one.
"""

from __future__ import annotations

import filecmp
import os
from pathlib import Path

from streamlink.errors import CorruptStore, StoreError
from streamlink.stores.safetensors.beside import unfinished_of
from streamlink.stores.safetensors.index import ADAPTER_NAME, INDEX_NAME, SINGLE_NAME, ShardIndex

__all__ = ["other_model", "require_one_model"]


def require_one_model(directory: Path) -> None:
    """Check that an adapter and a whole model of other tools do not lie together.

    Raises:
        StoreError: they do; says what to do.
    """
    if not (directory / ADAPTER_NAME).is_file():
        return
    try:
        other = "" if ShardIndex.read(directory).digests else INDEX_NAME
    except FileNotFoundError:
        other = SINGLE_NAME if (directory / SINGLE_NAME).is_file() else ""
    except CorruptStore:
        return  # for whoever reads the index to report
    if other:
        raise StoreError(
            f"{directory}: two models are here, {ADAPTER_NAME} and {other}; keep them in two "
            "directories, and name the one that is meant (a file can be named, too: its tensors go "
            "without the small files)"
        )


def other_model(directory: Path, index: ShardIndex) -> str:
    """Return the file of another model that a tool has left beside ``index``; empty: none.

    Only an index of ours is looked at. The caller must read the index again afterwards: the next
    commit replaces the file of an adapter, too.
    """
    # First of all: a commit removes ``model.safetensors`` and links the adapter before its list
    # goes, so what is there without a list is nothing that it leaves.
    if not index.digests or unfinished_of(index, directory) is not None:
        return ""
    if (directory / SINGLE_NAME).is_file():
        return SINGLE_NAME
    adapter = directory / ADAPTER_NAME
    if not adapter.is_file():
        return ""
    shards = set(index.weight_map.values())
    return "" if len(shards) == 1 and _is_copy(directory / shards.pop(), adapter) else ADAPTER_NAME


def _is_copy(shard: Path, adapter: Path) -> bool:
    # A copy where there are no hard links, or where somebody has copied the directory.
    return os.path.samefile(shard, adapter) or filecmp.cmp(shard, adapter, shallow=False)

"""The small files beside a model in a directory of safetensors: which there are, and placing them.

They have fixed names, so no single rename can switch all of them and the index. They are written
under names of their attempt, as shards are, with a *placing list* beside them. Publishing the index
is the commit; then each is renamed to its own name, and the list is removed last. A process that is
killed in between leaves the list, and the next one that opens or writes the store goes on with it:
a redo log of renames.

Tools that load adapters do not read an index, but ``adapter_model.safetensors``. Where there is an
``adapter_config.json``, the placing gives the one shard that name, too: a hard link, and no second
copy.
"""

from __future__ import annotations

import json
import logging
import os
import shutil
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from streamlink.descriptors import patiently
from streamlink.errors import CorruptStore, ModelError, StoreError
from streamlink.model.beside import (
    Entries,
    SideLimits,
    goes_along,
    may_be_beside,
    require_bounded,
)
from streamlink.stores.checked_json import parse_json
from streamlink.stores.files import remove, sync_directory, write_all
from streamlink.stores.safetensors.header import read_header
from streamlink.stores.safetensors.index import (
    ADAPTER_NAME,
    INDEX_NAME,
    SINGLE_NAME,
    ShardIndex,
    generation_of,
)

__all__ = [
    "Placing",
    "finish_placing",
    "is_adapter",
    "metadata_of",
    "placed_before",
    "read_beside",
    "require_placeable",
    "side_file_name",
    "unfinished",
    "unfinished_of",
]

logger = logging.getLogger("streamlink.stores")

_ADAPTER_CONFIG = "adapter_config.json"
_LIST = ".beside"


@dataclass(frozen=True, slots=True)
class Placing:
    """What is renamed once the index is published.

    Attributes:
        generation: of the attempt.
        files: the names of the small files, in the order of their temporary names.
        shard: the file that is an adapter's; empty: it is no adapter.
        removed: the names of what models before this one brought here, and this one does not.
    """

    generation: str
    files: tuple[str, ...]
    shard: str = ""
    removed: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """Of the file with the list."""
        return f"model-{self.generation}{_LIST}"

    def __bool__(self) -> bool:
        """Whether anything is to be placed."""
        return bool(self.files or self.shard or self.removed)

    @property
    def placed(self) -> tuple[str, ...]:
        """The names that this model takes."""
        return (*self.files, *([ADAPTER_NAME] if self.shard else []))

    def write(self, directory: Path) -> None:
        """Write the list, durably but for its name."""
        # O_TRUNC: a resumed attempt may find the list of its interrupted commit.
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
        fd = patiently(os.open, directory / self.name, flags, 0o644)
        try:
            facts = {"files": self.files, "shard": self.shard, "removed": self.removed}
            write_all(fd, json.dumps(facts).encode(), 0)
            os.fsync(fd)
        finally:
            os.close(fd)


def metadata_of(directory: Path) -> Mapping[str, str]:
    """Return the metadata of the present model's first file; none: there is no such model."""
    try:
        names = [*ShardIndex.read(directory).weight_map.values()][:1]
    except (FileNotFoundError, CorruptStore):
        names = [SINGLE_NAME, ADAPTER_NAME]
    for name in names:
        # A model that is about to be replaced need not be one that can be read.
        with suppress(FileNotFoundError, IsADirectoryError, StoreError, ModelError):
            fd = patiently(os.open, directory / name, os.O_RDONLY)
            try:
                return read_header(fd, directory / name).metadata
            finally:
                os.close(fd)
    return {}


def placed_before(directory: Path) -> tuple[str, ...]:
    """Return the names of what the present model, or one before it, has brought here.

    An adapter that is the whole model here is replaced as all tensors are, whoever has written it.
    """
    try:
        return ShardIndex.read(directory).placed
    except CorruptStore:
        return ()
    except FileNotFoundError:
        is_model = _is_plain(directory / ADAPTER_NAME) and not (directory / SINGLE_NAME).exists()
        return (ADAPTER_NAME,) if is_model else ()


def side_file_name(generation: str, number: int) -> str:
    """Return the temporary name of a small file, until the index is published."""
    return f"model-{generation}{_LIST}-{number:03d}"


def is_adapter(directory: Path, entries: Entries) -> bool:
    """Return whether a model that is written here is an adapter.

    Its own files decide that, or those that are there if it brings none.
    """
    if entries.files:
        return _ADAPTER_CONFIG in entries.files
    return any((directory / name).is_file() for name in (_ADAPTER_CONFIG, ADAPTER_NAME))


def unfinished(directory: Path) -> Placing | None:
    """Return what a commit has left to be placed: the index names files of the same attempt.

    Raises:
        CorruptStore: the list is damaged.
    """
    try:
        index = ShardIndex.read(directory)
    except (FileNotFoundError, CorruptStore):
        return None
    return unfinished_of(index, directory)


def unfinished_of(index: ShardIndex, directory: Path) -> Placing | None:
    """Return what the commit of ``index`` has left to be placed; raises as ``unfinished`` does."""
    alive = index.files
    for generation in {generation_of(name) for name in alive} - {""}:
        path = directory / f"model-{generation}{_LIST}"
        try:
            facts = parse_json(patiently(path.read_bytes), path)
        except FileNotFoundError:
            continue
        files = tuple(str(name) for name in facts.get("files", ()))
        removed = tuple(str(name) for name in facts.get("removed", ()))
        shard = str(facts.get("shard", ""))
        names = {*files, *({*removed} - {ADAPTER_NAME, SINGLE_NAME})}
        if not all(map(may_be_beside, names)) or not (shard == "" or shard in alive):
            raise CorruptStore("it does not list small files of this model", path=str(path))
        return Placing(generation, files, shard, removed)
    return None


def finish_placing(directory: Path) -> None:
    """Give each small file of the present model its own name, if a commit has not done that.

    The caller holds the writer's lock. Nothing is done where the index is missing or damaged.
    """
    placing = unfinished(directory)
    if placing is not None:
        _place(directory, placing)


def _place(directory: Path, placing: Placing) -> None:
    for number, name in enumerate(placing.files):
        written = directory / side_file_name(placing.generation, number)
        if written.exists():  # else an interrupted call has renamed it
            os.replace(written, directory / name)
    for name in placing.removed:
        if not _is_directory(directory / name):
            remove(directory / name)
    if placing.shard:
        _link(directory / placing.shard, directory / ADAPTER_NAME, placing.generation)
    # The names first: a list that is gone says that they are durable.
    sync_directory(directory)
    remove(directory / placing.name)


def read_beside(
    directory: Path, placing: Placing | None, brought: Collection[str], limits: SideLimits
) -> dict[str, bytes]:
    """Return the small files in ``directory``, by name; see ``_file_at`` for links.

    Args:
        directory: of the model.
        placing: what a commit has left to be placed.
        brought: the names of what models brought here, which goes with them whatever it is.
        limits: which others go, how many there may be, and how large together.

    Raises:
        TooManySideFiles: there are more; nothing more is read then.
        FileNotFoundError: one has got another name, or is gone, since they were listed.
    """
    paths = dict(_files_in(directory, brought, limits))
    if placing is not None:
        paths = {name: path for name, path in paths.items() if name not in placing.removed}
        for number, name in enumerate(placing.files):
            # In this order: a file that has no longer the first name has the second one, though
            # the list above may be from before it had.
            written = directory / side_file_name(placing.generation, number)
            final = directory / name
            if written.exists():
                paths[name] = written
            elif _is_plain(final):
                paths[name] = final
    sizes = {name: path.stat().st_size for name, path in sorted(paths.items())}
    require_bounded(Entries(sizes), limits, f"{directory}")
    return {name: _read(paths[name], nbytes) for name, nbytes in sizes.items()}


def require_placeable(directory: Path, placing: Placing) -> None:
    """Check that a model's files can have their names: after its commit it would be too late.

    Raises:
        StoreError: a directory has one of them, or an adapter of another tool would stay beside it.
    """
    for name in (INDEX_NAME, SINGLE_NAME, *placing.placed):
        if _is_directory(directory / name):
            raise StoreError(
                f"{directory / name}: this is a directory, and the model brings a file of that "
                "name; rename the directory, or name another place for the model"
            )
    if ADAPTER_NAME not in (*placing.placed, *placing.removed) and _is_plain(
        directory / ADAPTER_NAME
    ):
        raise StoreError(
            f"{directory / ADAPTER_NAME}: no model has brought this adapter here, and the one that "
            "comes would lie beside it; move it, or name another place for the model"
        )


def _files_in(
    directory: Path, brought: Collection[str], limits: SideLimits
) -> Iterator[tuple[str, Path]]:
    """Yield the name of each small file that goes with the model, and where it is."""
    for name in sorted(patiently(os.listdir, directory)):
        if name in limits.more_side_files and not may_be_beside(name):
            text = "%s stays behind: no file of this kind goes with a model (more_side_files)"
            logger.warning(text, directory / name)
        if not goes_along(name, (*brought, *limits.more_side_files)):
            continue
        if (path := _file_at(directory / name)) is not None:
            yield name, path


def _file_at(path: Path) -> Path | None:
    """Return the regular file at ``path``; None: there is none that goes with a model.

    A link is followed within a cache of Hugging Face alone, where each file of a snapshot is one:
    what lies elsewhere was perhaps never meant to leave this machine.
    """
    if not path.is_symlink():
        return path if path.is_file() else None
    found = Path(os.path.realpath(path))
    if found.parent == _blobs_of(path.parent) and found.is_file():
        return found
    logger.warning(
        "%s is a link to %s, which is no file of the cache that this directory belongs to, so it "
        "does not go with the model; put a copy of the file in its place to send it",
        path,
        found,
    )
    return None


def _blobs_of(directory: Path) -> Path | None:
    """Return where the cache ``.../snapshots/REVISION/...`` has its files; None: it is no cache."""
    parents = Path(os.path.realpath(directory)).parents
    return next((each.parent / "blobs" for each in parents if each.name == "snapshots"), None)


def _is_plain(path: Path) -> bool:
    return path.is_file() and not path.is_symlink()


def _is_directory(path: Path) -> bool:
    return path.is_dir() and not path.is_symlink()


def _read(path: Path, nbytes: int) -> bytes:
    fd = patiently(os.open, path, os.O_RDONLY | os.O_NOFOLLOW)
    with os.fdopen(fd, "rb") as file:
        # One more than there were: a file that grows is refused, whatever its size is by now.
        data = file.read(nbytes + 1)
    if len(data) != nbytes:
        raise ModelError(f"{path}: it was changed while it was read; try again")
    return data


def _link(shard: Path, name: Path, generation: str) -> None:
    temporary = shard.with_name(f"model-{generation}{_LIST}.part")
    remove(temporary)
    try:
        os.link(shard, temporary)
    except OSError:  # a file system without hard links
        _copy(shard, temporary)
    os.replace(temporary, name)
    # Where both are one file already, ``rename`` does nothing and leaves the other name.
    remove(temporary)


def _copy(shard: Path, temporary: Path) -> None:
    shutil.copyfile(shard, temporary)
    fd = patiently(os.open, temporary, os.O_RDONLY)
    try:
        # Once the list is gone, nobody copies it again.
        os.fsync(fd)
    finally:
        os.close(fd)

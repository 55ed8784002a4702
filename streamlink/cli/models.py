"""``streamlink inspect`` and ``streamlink export``: show stored models, and copy them."""

from __future__ import annotations

import itertools
import logging
from collections.abc import Mapping
from itertools import chain
from pathlib import Path
from typing import Annotated

import typer

from streamlink.cli.command import Common, command
from streamlink.cli.errors import CommandError
from streamlink.cli.paths import COMPRESS, holds_model, model_digest, store_at, stored_bytes
from streamlink.copying import copy_model, digest_of, with_files
from streamlink.errors import ModelError
from streamlink.logs import escape
from streamlink.model.beside import Beside, HasBeside, split
from streamlink.model.beside_ends import BesideSource
from streamlink.model.compare import difference
from streamlink.model.digest import HasBlockHashes
from streamlink.model.interfaces import ModelSource
from streamlink.model.spec import ModelSpec, TensorSpec
from streamlink.progress import LinkProgress
from streamlink.stores import open_model
from streamlink.stores.registry import kind_by_suffix

__all__ = ["export", "inspect"]

logger = logging.getLogger("streamlink.command")

_FIRST, _LAST = 12, 4
_DIFFERENCES = 20

Model = Annotated[
    Path, typer.Argument(metavar="PATH", help="A directory, a .safetensors or an .slz file.")
]


@command()
def inspect(
    path: Model,
    other: Annotated[
        Path | None, typer.Argument(metavar="[OTHER]", help="A second model to compare with.")
    ] = None,
    verify: Annotated[
        bool, typer.Option("--verify", help="Read every byte, and check it against stored hashes.")
    ] = False,
    show_all: Annotated[
        bool, typer.Option("--all", help="List every tensor, and every difference.")
    ] = False,
    *,
    common: Common,
) -> None:
    """Show a stored model, or how two models differ.

    The exit code is 1 if they differ.
    """
    model = open_model(path)
    _describe(path, model, show_all)
    digest = _digest(path, model, verify, common)
    if other is None:
        return
    second = open_model(other)
    typer.echo(escape(str(other)))
    if faults := _faults(model, digest, second, _digest(other, second, verify, common), show_all):
        for fault in faults:
            typer.echo(escape(fault))
        raise typer.Exit(1)
    typer.echo(escape(_verdict(path, model, other, second)))


@command()
def export(
    source: Annotated[Path, typer.Argument(metavar="FROM", help="The model to copy.")],
    target: Annotated[
        Path,
        typer.Argument(metavar="TO", help="A directory, or with --compress zstd an .slz file."),
    ],
    compress: Annotated[
        str | None,
        typer.Option(
            metavar=COMPRESS,
            help="Safetensors, or one compressed file [default: none; zstd where TO ends in .slz].",
        ),
    ] = None,
    files: Annotated[
        bool,
        typer.Option(
            "--files/--no-files",
            help="Copy the small files too: config.json, tokenizer and such, at most 64 files and "
            "64 MiB. A compressed file keeps the tensors alone.",
        ),
    ] = True,
    force: Annotated[
        bool, typer.Option("--force", help="Replace a model at TO, when the copy is complete.")
    ] = False,
    *,
    common: Common,
) -> None:
    """Copy a model into another store.

    From safetensors to compressed, or back. TO shows the copy only when it is complete.
    """
    compress = compress or kind_by_suffix(target).name
    store = store_at(target, compress)
    if not force and holds_model(target, compress):
        raise CommandError(f"{target} holds a model already; add --force to replace it")
    model = open_model(source)
    total = model.spec.nbytes
    with LinkProgress(common.console) as progress:
        copy_model(
            model,
            store,
            progress=lambda done: progress.update("export", "writing", min(done, total), total),
            cancel=common.cancel,
            files=files,
        )
    made = store.open()
    kept = stored_bytes(made)
    share = f" ({kept / total:.1%})" if total else ""
    typer.echo(f"{target}: {_size(total)} stored as {_size(kept)}{share}")
    whole = _whole(made)
    if isinstance(whole, HasBlockHashes):
        typer.echo(f"digest {whole.digest()}\ncovers: {_coverage(made)}")


# --- what is printed --------------------------------------------------------


def _describe(path: Path, model: ModelSource, show_all: bool) -> None:
    spec = model.spec
    typer.echo(escape(str(path)))
    for line in _tensor_lines(spec, show_all):
        typer.echo(line)
    if (beside := _content_of(model)) and (files := beside.files):
        nbytes = sum(map(len, files.values()))
        typer.echo(escape(f"  with {', '.join(files)} ({_size(nbytes)})"))
    kept = stored_bytes(model)
    packed = f", stored as {_size(kept)} ({kept / spec.nbytes:.1%})" if kept < spec.nbytes else ""
    typer.echo(
        f"total: {len(spec.tensors)} tensors, {sum(t.count for t in spec.tensors)} elements, "
        f"{spec.nbytes} bytes ({_size(spec.nbytes)}){packed}"
    )


def _tensor_lines(spec: ModelSpec, show_all: bool) -> list[str]:
    tensors, hidden = list(spec.tensors), len(spec.tensors) - _FIRST - _LAST
    if show_all or hidden <= 1:
        return _columns(tensors)
    lines = _columns([*tensors[:_FIRST], *tensors[-_LAST:]])
    return [*lines[:_FIRST], f"  ... {hidden} more (--all lists them)", *lines[_FIRST:]]


def _columns(tensors: list[TensorSpec]) -> list[str]:
    rows = [
        (escape(each.name), each.dtype, "x".join(map(str, each.shape)) or "()", _size(each.nbytes))
        for each in tensors
    ]
    wide = [max((len(row[column]) for row in rows), default=0) for column in range(4)]
    return [
        f"  {name:<{wide[0]}}  {dtype:<{wide[1]}}  {shape:>{wide[2]}}  {size:>{wide[3]}}"
        for name, dtype, shape, size in rows
    ]


def _digest(path: Path, model: ModelSource, verify: bool, common: Common) -> str | None:
    """Print the model's digest and return it; None: it is not stored and was not requested."""
    whole = _whole(model)
    stored = model_digest(whole)
    if not verify:
        typer.echo(f"digest: {stored or 'not stored; --verify reads the model and computes it'}")
        if stored:
            typer.echo(f"covers: {_coverage(model)}")
        return stored
    total = model.spec.nbytes
    with LinkProgress(common.console) as progress:
        found = digest_of(
            whole,
            progress=lambda done: progress.update(str(path), "verifying", done, total),
            cancel=common.cancel,
            files=False,  # they are in it, unless there are too many
        )
    # Compared here, too: a store without a hash of each block cannot notice damage while it reads.
    if stored is not None and stored != found:
        raise CommandError(
            f"{path}: the model is damaged: its digest is {found}, but {stored} was stored"
        )
    typer.echo(f"digest: {found}")
    typer.echo(f"covers: {_coverage(model)}")
    typer.echo("verified: every byte is what was stored" if stored else "read: every byte")
    return found


def _whole(model: ModelSource) -> ModelSource:
    """Return ``model`` with the small files beside it; without them, where they are too large."""
    try:
        return with_files(model)
    except ModelError as error:
        logger.warning("%s; the digest is of the tensors alone", error)
        return model


def _content_of(model: ModelSource) -> Beside | None:
    """Return what is beside the tensors; None: it has no place for it, or has too much."""
    if not isinstance(model, HasBeside):
        return None
    try:
        whole = with_files(model)
    except ModelError:
        return None
    if not isinstance(whole, BesideSource):
        return Beside()
    # Of the description, and not of the headers: facts that are too long do not travel.
    return Beside(whole.content.files, split(whole.spec)[1].metadata)


def _coverage(model: ModelSource) -> str:
    """Return what the digest of a model covers."""
    beside = _content_of(model) or Beside()
    files, facts = len(beside.files), len(beside.metadata)
    words = ["tensors"]
    if files:
        words.append(f"{files} small file{'s' if files > 1 else ''}")
    if facts:
        words.append("metadata")
    return "tensors alone" if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"


def _different_beside(ours: ModelSource, theirs: ModelSource) -> list[str]:
    """Return the small files and the metadata that differ, one on a line."""
    first, second = _content_of(ours), _content_of(theirs)
    if first is None or second is None:
        return []
    return [
        *_different("file", first.files, second.files),
        *_different("metadata", first.metadata, second.metadata),
    ]


def _different(what: str, first: Mapping[str, object], second: Mapping[str, object]) -> list[str]:
    lines = []
    for name in sorted(first.keys() | second.keys()):
        if name not in second:
            lines.append(f"{what} only in the first model: {name}")
        elif name not in first:
            lines.append(f"{what} only in the second model: {name}")
        elif first[name] != second[name]:
            lines.append(f"different {what}: {name}")
    return lines


def _verdict(path: Path, ours: ModelSource, other: Path, theirs: ModelSource) -> str:
    """Return how much of two models without a difference was compared."""
    known = {path: _content_of(ours), other: _content_of(theirs)}
    sides = ((path, ours, other), (other, theirs, path))
    for where, model, against in sides:
        if known[where] is None and isinstance(model, HasBeside):
            return f"the tensors are equal; {where} has too many small files to compare them"
        if known[where] is None and known[against] not in (None, Beside()):
            return f"the tensors are equal; {where} cannot hold the small files of {against}"
    return "the models are equal"


def _faults(
    ours: ModelSource, digest: str | None, theirs: ModelSource, other: str | None, show_all: bool
) -> list[str]:
    """Return the differences of two models, one on a line; nothing for equal models."""
    if what := ours.spec.difference(theirs.spec, "the first model", "the second"):
        return [f"different tensors: {what}"]
    # Equal digests: nothing has to be read.
    if digest is not None and digest == other:
        return []
    found = chain(
        _different_beside(ours, theirs),
        (f"different values: {each}" for each in difference(ours, theirs)),
    )
    if show_all:
        return list(found)
    # One more than shown: this tells whether there are more, without reading both models to the
    # end.
    lines = list(itertools.islice(found, _DIFFERENCES + 1))
    more = ["... and more (--all lists them)"] if len(lines) > _DIFFERENCES else []
    return [*lines[:_DIFFERENCES], *more]


def _size(nbytes: int) -> str:
    if nbytes < 1000:
        return f"{nbytes} B"
    for unit, factor in (("TB", 1000**4), ("GB", 1000**3), ("MB", 1000**2)):
        if nbytes >= factor:
            return f"{nbytes / factor:.2f} {unit}"
    return f"{nbytes / 1000:.2f} kB"

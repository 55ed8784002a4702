"""The small files beside a model's tensors, such as ``config.json``, and its safetensors metadata.

On its way, and in its digest, a model has them as entries behind its own tensors: a file as a
tensor of bytes, a fact of the metadata as an empty tensor whose name holds it. So they are
described, bounded, hashed and resumed as all else is, and no carrier, frame or machine knows them.
The names begin with ``PREFIX``, which has the version of this form.

What a peer sends is hostile until it was checked: ``split`` refuses every name that is not of the
plain kinds below. No entry can name a path, a weight file, an index or a program.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import cached_property
from typing import Protocol, runtime_checkable

from streamlink.errors import ModelError, TooManySideFiles
from streamlink.model.spec import ModelSpec, TensorSpec

__all__ = [
    "PREFIX",
    "Beside",
    "Entries",
    "HasBeside",
    "KeepsBeside",
    "SideLimits",
    "entries_of",
    "goes_along",
    "joined",
    "keeps_beside",
    "may_be_beside",
    "require_bounded",
    "split",
]

PREFIX = "__streamlink_beside_1__/"
_FILE, _FACT = PREFIX + "file/", PREFIX + "metadata/"

MAX_ENTRY_BYTES = 1024
"""Longest name of an entry: the default of ``limits.max_name_bytes``."""

# What the tools of Hugging Face load beside the weights. Other texts, such as notes or a
# list of labels, lie there by chance.
_LOADED = re.compile(
    r"(config|config_sentence_transformers|[A-Za-z][\w.-]*_config|tokenizer[\w.-]*"
    r"|([\w-]+_)?vocab[\w.-]*|special_tokens_map|added_tokens|chat_template[\w.-]*|modules"
    r"|normalizer|tekken)\.json"
    r"|([\w-]+[_-])?(vocab|merges|dict)\.txt"
    r"|[\w.-]+\.(model|jinja|tiktoken|spm)",
    re.ASCII,
)

# All that an entry may ever name: the above, and texts that nothing runs or takes for settings. A
# name begins with a letter, so none is hidden, and has no separator. Three texts are read by tools
# that install and build.
_PLAIN = re.compile(
    r"(?!(requirements|constraints|CMakeLists)[\w.-]*\.txt)[A-Za-z][\w.-]{0,254}",
    re.ASCII | re.IGNORECASE,
)
_TEXT = re.compile(r".*\.(txt|md|rst|tsv|csv|codes)|(LICENSE|NOTICE|USE_POLICY)", re.ASCII)


@dataclass(frozen=True, slots=True)
class Beside:
    """The small files beside a model.

    Attributes:
        files: name → content.
        metadata: the free text of its safetensors headers, such as ``{"format": "pt"}``.
    """

    files: Mapping[str, bytes] = field(default_factory=dict)
    metadata: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Entries:
    """The description of what is beside a model.

    Attributes:
        files: name → bytes, in the order in which they travel.
        metadata: see ``Beside``.
    """

    files: Mapping[str, int] = field(default_factory=dict)
    metadata: Mapping[str, str] = field(default_factory=dict)

    def __bool__(self) -> bool:
        """Whether there is anything."""
        return bool(self.files or self.metadata)

    @cached_property
    def nbytes(self) -> int:
        """Of all files."""
        return sum(self.files.values())

    def tensors(self) -> Iterator[TensorSpec]:
        """Yield the entries behind the model's own tensors; facts that are too long are left out.

        The metadata is free text of other tools, which nothing needs that is so long.
        """
        for key, value in sorted(self.metadata.items()):
            name = _FACT + json.dumps([key, value])  # in ASCII
            if len(name) <= MAX_ENTRY_BYTES and _is_unicode(key + value):
                yield TensorSpec(name, "U8", (0,))
        for name, nbytes in self.files.items():
            yield TensorSpec(_FILE + name, "U8", (nbytes,))


def entries_of(beside: Beside) -> Entries:
    """Return what describes them, by name: a digest does not depend on any other order."""
    sizes = {name: len(data) for name, data in sorted(beside.files.items())}
    return Entries(sizes, beside.metadata)


class SideLimits(Protocol):
    """Which small files go with a model: the part of ``LimitsConfig`` that is about them."""

    @property
    def max_side_files(self) -> int:
        """Most of them (count); 0: none."""

    @property
    def max_side_bytes(self) -> int:
        """Most of them together (bytes)."""

    @property
    def more_side_files(self) -> tuple[str, ...]:
        """Patterns of names, for files that no tool is known to load."""


@runtime_checkable
class HasBeside(Protocol):
    """A source that has small files beside its tensors."""

    def beside(self, limits: SideLimits) -> Beside:
        """Return them.

        Raises:
            TooManySideFiles: there are more than ``limits`` allow; says what to do.
            SourceChanged: they belong to another model by now.
        """


@runtime_checkable
class KeepsBeside(Protocol):
    """A store whose sinks take what is beside a model, as entries behind its tensors."""

    @property
    def keeps_beside(self) -> bool:
        """Whether they do."""


def keeps_beside(store: object) -> bool:
    """Return whether ``store`` takes what is beside a model."""
    return isinstance(store, KeepsBeside) and store.keeps_beside


def may_be_beside(name: str) -> bool:
    """Return whether a file of that name may come with a model; a peer can bring no other."""
    if _PLAIN.fullmatch(name) is None:
        return False
    return _LOADED.fullmatch(name) is not None or _TEXT.fullmatch(name) is not None


def goes_along(name: str, more: Iterable[str]) -> bool:
    """Return whether a file of that name, in a model's directory, goes with the model.

    Args:
        name: of the file.
        more: patterns of names that go, too, if they may.
    """
    if not may_be_beside(name):
        return False
    return _LOADED.fullmatch(name) is not None or any(fnmatchcase(name, each) for each in more)


def joined(spec: ModelSpec, entries: Entries) -> ModelSpec:
    """Return the description of a model with what is beside it."""
    return ModelSpec((*spec.tensors, *entries.tensors())) if entries else spec


def split(spec: ModelSpec) -> tuple[ModelSpec, Entries]:
    """Return the description of the model alone, and of what is beside it.

    Raises:
        ModelError: an entry is not of this form, or names a file that may not be beside a model.
    """
    count = len(spec.tensors)
    while count and spec.tensors[count - 1].name.startswith(PREFIX):
        count -= 1
    if count == len(spec.tensors):
        return spec, Entries()
    files: dict[str, int] = {}
    metadata: dict[str, str] = {}
    for tensor in spec.tensors[count:]:
        if tensor.dtype != "U8" or len(tensor.shape) != 1:
            raise ModelError(f"{tensor.name!r} is no small file: its tensor is not of bytes")
        if tensor.name.startswith(_FILE):
            files[_checked_file(tensor.name.removeprefix(_FILE))] = tensor.nbytes
        else:
            key, value = _checked_fact(tensor)
            if key in metadata:
                raise ModelError(f"the model's metadata has two values for {key[:255]!r}")
            metadata[key] = value
    return ModelSpec(spec.tensors[:count]), Entries(files, metadata)


def require_bounded(entries: Entries, limits: SideLimits, who: str, where: str = "") -> None:
    """Check the files beside a model against limits.

    Args:
        entries: what is beside the model.
        limits: how many there may be, and how large together.
        who: has them, in the words of the error.
        where: the limits are set, such as `` at the receiver``; empty: where ``who`` is.

    Raises:
        TooManySideFiles: there are too many, or they are too large; says what to do.
    """
    for what, found, most, limit in (
        ("small files", len(entries.files), limits.max_side_files, "max_side_files"),
        ("bytes of small files", entries.nbytes, limits.max_side_bytes, "max_side_bytes"),
    ):
        if found > most:
            raise TooManySideFiles(
                f"{who} has {found} {what} beside the model, and limits.{limit}{where} is {most}; "
                "raise it, or send the tensors alone, with limits.max_side_files=0 at the end that "
                "has the model"
            )


def _checked_file(name: str) -> str:
    if not may_be_beside(name):
        raise ModelError(
            f"{name[:255]!r} is not the name of a small file that may be beside a model, such as "
            "config.json"
        )
    return name


def _checked_fact(tensor: TensorSpec) -> tuple[str, str]:
    text = tensor.name.removeprefix(_FACT)
    try:
        fact = json.loads(text)
        # Our own writing and no other: then a name means one fact, and a fact has one name.
        is_fact = tensor.nbytes == 0 and _is_pair(fact) and json.dumps(fact) == text
    except (ValueError, RecursionError):  # hostile text may be nested as deeply as a name is long
        is_fact = False
    if not is_fact:
        raise ModelError(f"{tensor.name[:255]!r} is not a fact of a model's metadata")
    key, value = fact
    return key, value


def _is_pair(fact: object) -> bool:
    if not (isinstance(fact, list) and len(fact) == 2):
        return False
    return all(isinstance(each, str) and _is_unicode(each) for each in fact)


def _is_unicode(text: str) -> bool:
    # JSON can write one half of a surrogate pair, which no header of safetensors may hold.
    return not any("\ud800" <= each <= "\udfff" for each in text)

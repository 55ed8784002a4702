"""What the two ends ask each other: topics, and the facts in a request, which are hostile text.

A client asks, always, over its session: for a whole object (``GET``), for a range of one
(``READ``), to end its reads (``CLOSE``), to put one (``PUT``), for the reference to what it has
put (``REFERENCE``), and to release that (``DROP``). Models travel on the streams that the answers
offer.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass

from streamlink import errors
from streamlink.errors import (
    ObjectError,
    ObjectRefused,
    RequestRefused,
    TopicNotServed,
    UnknownObject,
)
from streamlink.extent import Extent
from streamlink.objects.readers import Readers, checked_readers
from streamlink.objects.reference import Reference

__all__ = [
    "CLOSE",
    "DROP",
    "GET",
    "PUT",
    "READ",
    "REFERENCE",
    "Caller",
    "Facts",
    "Terms",
    "error_of",
    "kind_of",
]

GET, READ, CLOSE = "object.get", "object.read", "object.close"
PUT, REFERENCE, DROP = "object.put", "object.reference", "object.drop"

KIND = "kind"
"""Fact of a refusal: which error it is."""

_KINDS = {
    kind.__name__: kind
    for kind in (
        errors.UnknownObject,
        errors.ObjectExpired,
        errors.ObjectRefused,
        errors.ObjectLimit,
        errors.InvalidReference,
    )
}
_MAX_WORD = 200  # characters of a name that a client chooses
_MAX_DIGITS = 19


@dataclass(frozen=True, slots=True)
class Caller:
    """Who calls, beside the session's name: the client object, and one call of it."""

    client: str
    call: str

    def facts(self) -> dict[str, str]:
        """Return the facts of a request."""
        return {"client": self.client, "call": self.call}


@dataclass(frozen=True, slots=True)
class Terms:
    """Who may read an object that is put, how often, and for how long."""

    nbytes: int
    readers: Readers
    reads: int | None
    ttl: float | None

    def facts(self) -> dict[str, str]:
        """Return the facts of a request."""
        return {
            "nbytes": str(self.nbytes),
            "readers": json.dumps(self.readers),
            "reads": "" if self.reads is None else str(self.reads),
            "ttl": "" if self.ttl is None else repr(float(self.ttl)),
        }


class Facts:
    """The facts of one request, read strictly: each method raises ``ObjectRefused``."""

    def __init__(self, metadata: Mapping[str, str]) -> None:
        self._metadata = metadata

    @property
    def is_of_reference(self) -> bool:
        """Whether what is dropped is named by its reference, and not by the call that puts it."""
        return "ref" in self._metadata

    @property
    def reference(self) -> Reference:
        """The reference to the object; any other text raises ``InvalidReference``."""
        return Reference.parse(self._text("ref"))

    @property
    def caller(self) -> Caller:
        """Who calls."""
        return Caller(self.word("client"), self.word("call"))

    @property
    def extent(self) -> Extent:
        """The range that is wanted."""
        start, stop = self._count("start"), self._count("stop")
        if start > stop:
            raise _refused("stop", str(stop))
        return Extent(start, stop)

    @property
    def is_complete(self) -> bool:
        """Whether a read that ends is used up."""
        return self._text("complete") == "1"

    @property
    def terms(self) -> Terms:
        """The terms of a put."""
        reads = self._text("reads")
        if reads == "0":
            raise ObjectRefused("reads is 0; it is at least 1, or None for any number")
        return Terms(
            self._count("nbytes"),
            self._readers(),
            self._count("reads") if reads else None,
            self._ttl(),
        )

    def word(self, name: str) -> str:
        """Return a short text that names something."""
        text = self._text(name)
        if not 0 < len(text) <= _MAX_WORD or not text.isprintable():
            raise _refused(name, text)
        return text

    def _text(self, name: str) -> str:
        if name not in self._metadata:
            raise ObjectRefused(f"the request lacks {name!r}; both ends need the same streamlink")
        return self._metadata[name]

    def _count(self, name: str) -> int:
        text = self._text(name)
        if not (text.isascii() and text.isdigit() and len(text) <= _MAX_DIGITS):
            raise _refused(name, text)
        return int(text)

    def _ttl(self) -> float | None:
        text = self._text("ttl")
        if not text:
            return None
        try:
            seconds = float(text)
        except ValueError:
            seconds = math.nan
        if not 0 < seconds < math.inf:
            raise _refused("ttl", text)
        return seconds

    def _readers(self) -> Readers:
        text = self._text("readers")
        try:
            names = json.loads(text)
            if names is not None and not (
                isinstance(names, list) and all(isinstance(name, str) for name in names)
            ):
                raise ValueError("it is no list of names")
            return checked_readers(names)
        except (ValueError, RecursionError) as error:
            raise ObjectRefused(f"the readers cannot be used: {error}") from error


def kind_of(error: ObjectError) -> dict[str, str]:
    """Return the facts that tell the client which error this is."""
    return {KIND: type(error).__name__}


def error_of(refused: RequestRefused, topic: str) -> Exception:
    """Return the error that the server has raised for a request, as far as it is known here."""
    if isinstance(refused, TopicNotServed):
        kind = ObjectRefused if topic == PUT else UnknownObject
        return kind(f"the server has no objects: {refused.reason}")
    known = _KINDS.get(refused.metadata.get(KIND, ""))
    return refused if known is None else known(refused.reason)


def _refused(name: str, text: str) -> ObjectRefused:
    return ObjectRefused(f"the request has {name}={text[:80]!r}, which cannot be")

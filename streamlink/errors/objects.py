"""Objects by reference: what a server refuses, and what it has no longer."""

from __future__ import annotations

from streamlink.errors.base import AbortCode, StreamlinkError

__all__ = [
    "InvalidReference",
    "ObjectError",
    "ObjectExpired",
    "ObjectLimit",
    "ObjectRefused",
    "UnknownObject",
]


class ObjectError(StreamlinkError):
    """An object cannot be read or stored as asked."""

    code = AbortCode.REFUSED


class UnknownObject(ObjectError):
    """The server does not have the object: it was started again, or the object was released."""


class ObjectExpired(ObjectError):
    """The object's time to live is over."""


class ObjectRefused(ObjectError):
    """The reference is forged, is meant for another reader, or has no reads left."""


class ObjectLimit(ObjectError):
    """The server holds as many objects, or as many bytes of them, as its limits permit."""


class InvalidReference(ObjectError, ValueError):
    """A text that is no reference."""

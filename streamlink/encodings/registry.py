"""Which encodings there are: one line each."""

from __future__ import annotations

from collections.abc import Iterable
from importlib import import_module
from typing import cast

from streamlink.encodings.codec import Codec
from streamlink.errors import UnknownCodec

__all__ = ["known_encodings", "new_codec", "require_known"]

# "module:class" by the name that travels. A module is imported when its encoding is first used, so
# that it costs nothing where it is not.
_CODECS = {
    "zstd": "streamlink.encodings.zstd:Zstd",
}


def known_encodings() -> tuple[str, ...]:
    """Return the names of all encodings that this end can decode."""
    return tuple(_CODECS)


def new_codec(name: str) -> Codec:
    """Return a codec for one stream.

    Raises:
        UnknownCodec: there is no such encoding.
    """
    require_known((name,))
    module, _, kind = _CODECS[name].partition(":")
    return cast("Codec", getattr(import_module(module), kind)())


def require_known(names: Iterable[str]) -> None:
    """Check the names of encodings.

    Raises:
        UnknownCodec: there is none of one of these names; says which there are.
    """
    for name in names:
        if name not in _CODECS:
            raise UnknownCodec(
                f"stream.encodings: there is no encoding {name!r}; write one or more of "
                f"{', '.join(_CODECS)}"
            )

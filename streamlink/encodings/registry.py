"""Which encodings there are: one line each."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import cast

from streamlink.encodings.codec import Codec
from streamlink.errors import UnknownCodec

__all__ = ["AUTO", "known_encodings", "new_codec", "offered", "require_known"]

AUTO = "auto"
"""In place of names: encodings that suit most models, where the line is slow enough for them."""

_AUTO_ENCODINGS = ("planes",)

# "module:class" by the name that travels. A module is imported when its encoding is first used, so
# that it costs nothing where it is not.
_CODECS = {
    "zstd": "streamlink.encodings.zstd:Zstd",
    "planes": "streamlink.encodings.planes:Planes",
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


def offered(names: Sequence[str]) -> tuple[str, ...]:
    """Return the encodings to offer where ``stream.encodings`` is ``names``."""
    return _AUTO_ENCODINGS if AUTO in names else tuple(names)


def require_known(names: Sequence[str]) -> None:
    """Check the names of encodings.

    Raises:
        UnknownCodec: there is none of one of these names, or ``auto`` has others beside it; says
            what to write.
    """
    if AUTO in names and len(names) > 1:
        raise UnknownCodec(f"stream.encodings ({', '.join(names)}): {AUTO} stands alone")
    for name in offered(names):
        if name not in _CODECS:
            raise UnknownCodec(
                f"stream.encodings: there is no encoding {name!r}; write {AUTO}, or one or more of "
                f"{', '.join(_CODECS)}"
            )

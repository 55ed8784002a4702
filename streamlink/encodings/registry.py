"""Which encodings there are: one line each."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import cast

from streamlink.encodings.codec import Codec
from streamlink.errors import UnknownCodec

__all__ = [
    "AUTO",
    "known_encodings",
    "lossless_encodings",
    "lossy_encodings",
    "lossy_formats",
    "new_codec",
    "offered",
    "require_known",
]

AUTO = "auto"
"""In place of names: encodings that suit most models, where the line is slow enough for them."""

# Where the ends hold no base, or a range is not related to it, differences are left out at once.
_AUTO_ENCODINGS = ("delta", "planes")

# "module:class" by the name that travels. A module is imported when its encoding is first offered,
# so that it costs nothing where it is not.
_CODECS = {
    "zstd": "streamlink.encodings.zstd:Zstd",
    "planes": "streamlink.encodings.planes:Planes",
    "delta": "streamlink.encodings.delta:Delta",
}
_WITH_BASE = frozenset({"delta"})

# Formats that lose something, and the packing that goes with each; the smallest first. The rounding
# is asked for by rules for tensors, and the packing is then offered by itself.
_LOSSY = {
    "int8": "streamlink.encodings.int8:Int8",
    "fp16": "streamlink.encodings.halves:Fp16",
    "bf16": "streamlink.encodings.halves:Bf16",
}


def known_encodings() -> tuple[str, ...]:
    """Return the names of all encodings that this end can decode."""
    return (*_CODECS, *_LOSSY)


def lossless_encodings(*, with_base: bool = False) -> tuple[str, ...]:
    """Return the names of those that any model may be sent in, unchanged.

    Args:
        with_base: also those that need an older version of it at both ends.
    """
    return tuple(name for name in _CODECS if with_base or name not in _WITH_BASE)


def lossy_encodings() -> tuple[str, ...]:
    """Return the names of the formats that lose precision, the smallest first."""
    return tuple(_LOSSY)


def lossy_formats(rules: Sequence[str]) -> tuple[str, ...]:
    """Return the formats that ``rules`` (PATTERN=FORMAT) name, the smallest first."""
    wanted = {rule.rpartition("=")[2] for rule in rules}
    return tuple(name for name in _LOSSY if name in wanted)


def new_codec(name: str) -> Codec:
    """Return a codec for one stream.

    Raises:
        UnknownCodec: there is no such encoding.
    """
    if name not in _LOSSY:
        require_known((name,))
    module, _, kind = (_CODECS | _LOSSY)[name].partition(":")
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
        # Refused, not ignored: whoever writes this wants fewer bytes, and would not get them.
        if name in _LOSSY:
            raise UnknownCodec(
                f"stream.encodings: {name} loses precision; ask for it by tensors, in "
                f"stream.lossy_down or stream.lossy_up, such as *={name}"
            )
        if name not in _CODECS:
            raise UnknownCodec(
                f"stream.encodings: there is no encoding {name!r}; write {AUTO}, or one or more of "
                f"{', '.join(_CODECS)}"
            )

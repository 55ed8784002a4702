"""Small JSON files with a checksum inside, so that a flipped digit is no other fact."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import xxhash

from streamlink.errors import CorruptStore
from streamlink.stores.header import parse_json

__all__ = ["seal", "unseal"]

_CHECKSUM = "checksum"


def seal(facts: Mapping[str, Any]) -> bytes:
    """Return the bytes of a file of ``facts``, which JSON can hold, and their ``checksum``."""
    return json.dumps({**facts, _CHECKSUM: _checksum(facts)}, indent=2).encode()


def unseal(data: bytes, path: Path) -> dict[str, Any]:
    """Return the facts of a sealed file.

    Raises:
        CorruptStore: they are not those that were sealed; names ``path``.
    """
    facts = parse_json(data, path)
    if facts.pop(_CHECKSUM, None) != _checksum(facts):
        raise CorruptStore("it is not what was written: its checksum differs", path=str(path))
    return facts


def _checksum(facts: Mapping[str, Any]) -> str:
    text = json.dumps(facts, sort_keys=True, separators=(",", ":"))
    return xxhash.xxh3_128_hexdigest(text.encode())

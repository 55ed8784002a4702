"""Small JSON files with a checksum inside, so that a flipped digit is no other fact."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import xxhash

from streamlink.errors import CorruptStore

__all__ = ["decode_checked_json", "encode_checked_json", "parse_json"]

_CHECKSUM = "checksum"


def encode_checked_json(facts: Mapping[str, Any]) -> bytes:
    """Return the bytes of a file of ``facts``, which JSON can hold, and their ``checksum``."""
    return json.dumps({**facts, _CHECKSUM: _checksum(facts)}, indent=2).encode()


def decode_checked_json(data: bytes, path: Path) -> dict[str, Any]:
    """Return the facts of a sealed file.

    Raises:
        CorruptStore: they are not those that were sealed; names ``path``.
    """
    facts = parse_json(data, path)
    if facts.pop(_CHECKSUM, None) != _checksum(facts):
        raise CorruptStore("it is not what was written: its checksum differs", path=str(path))
    return facts


def parse_json(text: bytes, path: Path) -> dict[str, Any]:
    """Return a JSON object in which no key comes twice.

    Raises:
        CorruptStore: ``text`` is something else.
    """
    try:
        parsed = json.loads(text.decode(), object_pairs_hook=_unique)
    except (ValueError, RecursionError) as error:
        raise CorruptStore(f"its JSON cannot be read: {error}", path=str(path)) from error
    if not isinstance(parsed, dict):
        raise CorruptStore("its JSON is no object", path=str(path))
    return parsed


def _checksum(facts: Mapping[str, Any]) -> str:
    text = json.dumps(facts, sort_keys=True, separators=(",", ":"))
    return xxhash.xxh3_128_hexdigest(text.encode())


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        twice = next(key for key, count in Counter(key for key, _ in pairs).items() if count > 1)
        raise ValueError(f"key {twice!r} is there twice")
    return found

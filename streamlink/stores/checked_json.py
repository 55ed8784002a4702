"""JSON files that are checked when they are read: for a checksum, and for duplicate keys.

JSON has no redundancy: one flipped bit turns a weight of 128 into 120, and the file is still valid.
"""

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
    """Return ``facts`` as JSON, with their checksum under the key ``checksum``."""
    return json.dumps({**facts, _CHECKSUM: _checksum(facts)}, indent=2).encode()


def decode_checked_json(data: bytes, path: Path) -> dict[str, Any]:
    """Return the facts in a file that ``encode_checked_json`` made.

    Raises:
        CorruptStore: the checksum is wrong or missing; names ``path``.
    """
    # Parsed first, because the checksum is of the content: a tool that indents the file differently
    # does not damage it.
    facts = parse_json(data, path)
    if facts.pop(_CHECKSUM, None) != _checksum(facts):
        raise CorruptStore("the file is damaged: its checksum is wrong or missing", path=str(path))
    return facts


def parse_json(text: bytes, path: Path) -> dict[str, Any]:
    """Return a JSON object, and refuse duplicate keys.

    Parsers disagree on which of two equal keys counts, so such a file could mean one model to
    streamlink and another to the tool that checked it.

    Raises:
        CorruptStore: ``text`` is not a JSON object, or a key is there twice.
    """
    try:
        parsed = json.loads(text.decode(), object_pairs_hook=_unique)
    except (ValueError, RecursionError) as error:
        raise CorruptStore(f"its JSON cannot be read: {error}", path=str(path)) from error
    if not isinstance(parsed, dict):
        raise CorruptStore("its JSON is not an object", path=str(path))
    return parsed


def _checksum(facts: Mapping[str, Any]) -> str:
    # The canonical form: neither the order of the keys nor white space matters.
    text = json.dumps(facts, sort_keys=True, separators=(",", ":"))
    return xxhash.xxh3_128_hexdigest(text.encode())


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        twice = next(key for key, count in Counter(key for key, _ in pairs).items() if count > 1)
        raise ValueError(f"key {twice!r} is there twice")
    return found

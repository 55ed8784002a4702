from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamlink.errors import CorruptStore
from streamlink.stores.checked_json import decode_checked_json, encode_checked_json

PATH = Path("here.json")
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)


@given(facts=st.dictionaries(st.text().filter(lambda name: name != "checksum"), VALUES))
def test_facts_are_read_back(facts: dict[str, Any]) -> None:
    assert decode_checked_json(encode_checked_json(facts), PATH) == facts


def test_every_flipped_bit_is_told_or_changes_no_fact() -> None:
    facts = {"weight": 128.0, "peer": "site-1", "metrics": {"loss": 0.25}}
    good = encode_checked_json(facts)
    for bit in range(8 * len(good)):
        data = bytearray(good)
        data[bit // 8] ^= 1 << bit % 8
        with pytest.raises(CorruptStore) as caught:
            decode_checked_json(bytes(data), PATH)
        assert caught.value.path == "here.json"


@pytest.mark.parametrize("data", [b"", b"[]", b"{}", b'{"weight": 1.0}', b'{"checksum": 3}'])
def test_what_was_never_sealed_is_refused(data: bytes) -> None:
    with pytest.raises(CorruptStore):
        decode_checked_json(data, PATH)

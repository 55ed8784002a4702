"""Encodings are found by their names, and refused by name where there is none."""

from __future__ import annotations

from pathlib import Path

import pytest

from streamlink.encodings.registry import known_encodings, new_codec, offered, require_known
from streamlink.errors import UnknownCodec


@pytest.mark.parametrize("name", known_encodings())
def test_every_encoding_is_made_by_name_and_has_a_contract_test(name: str) -> None:
    codec = new_codec(name)
    assert codec.name == name
    module = type(codec).__module__.rpartition(".")[2]
    assert "(CodecContract)" in Path(__file__).with_name(f"test_{module}.py").read_text("utf-8")


def test_an_unknown_encoding_is_refused_with_those_that_there_are() -> None:
    with pytest.raises(
        UnknownCodec, match=r"no encoding 'zstf'; write auto, or one or more of .*zstd"
    ):
        require_known(("zstd", "zstf"))
    with pytest.raises(UnknownCodec):
        new_codec("")


def test_auto_stands_for_encodings_that_there_are_and_stands_alone() -> None:
    require_known(("auto",))
    assert set(offered(("auto",))) <= set(known_encodings())
    assert offered(("zstd", "planes")) == ("zstd", "planes")
    with pytest.raises(UnknownCodec, match=r"\(auto, zstd\): auto stands alone"):
        require_known(("auto", "zstd"))


def test_a_lossy_format_is_no_encoding_to_ask_for_and_says_where_to_ask() -> None:
    with pytest.raises(UnknownCodec, match=r"fp16 loses precision; .*stream\.lossy_down"):
        require_known(("planes", "fp16"))
    assert "fp16" in known_encodings()  # the packing of it, which loses nothing

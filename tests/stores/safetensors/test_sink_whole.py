"""What a sink of shards tells of a model under way: which blocks are whole, and still so."""

from __future__ import annotations

from pathlib import Path

import pytest

from streamlink.errors import CorruptStore
from streamlink.model.digest import BLOCK_BYTES
from streamlink.model.spec import ModelSpec, TensorSpec
from streamlink.stores.safetensors import SafetensorsStore
from streamlink.stores.safetensors.sink import SafetensorsSink

SPEC = ModelSpec(
    tuple(TensorSpec(f"t{n}", "U8", (nbytes,)) for n, nbytes in enumerate((3, 2 * BLOCK_BYTES, 9)))
)
DATA = memoryview(bytes(range(256)) * (SPEC.nbytes // 256 + 1))[: SPEC.nbytes]


def begun(directory: Path, *stops: int) -> SafetensorsSink:
    """Return a sink that was given the model in pieces that end at ``stops``."""
    sink, start = SafetensorsStore(directory).begin(SPEC), 0
    for stop in stops:
        sink.write(start, DATA[start:stop])
        start = stop
    return sink


@pytest.mark.parametrize(
    ("stops", "whole"),
    [
        ((), 0),
        ((BLOCK_BYTES - 1,), 0),
        ((5, BLOCK_BYTES), BLOCK_BYTES),
        ((BLOCK_BYTES + 7, 2 * BLOCK_BYTES + 7), 2 * BLOCK_BYTES),
        ((SPEC.nbytes,), SPEC.nbytes),
    ],
)
def test_blocks_that_came_without_a_gap_are_whole_and_read_back(
    stops: tuple[int, ...], whole: int, tmp_path: Path
) -> None:
    sink = begun(tmp_path, *stops)
    assert sink.whole == whole
    assert b"".join(sink.written()) == DATA[:whole]
    sink.discard()
    assert sink.whole == 0


def test_a_block_behind_a_gap_is_not_counted(tmp_path: Path) -> None:
    sink = begun(tmp_path)
    sink.write(BLOCK_BYTES, DATA[BLOCK_BYTES : 2 * BLOCK_BYTES])
    assert sink.whole == 0
    sink.write(0, DATA[:BLOCK_BYTES])
    assert sink.whole == 2 * BLOCK_BYTES
    sink.discard()


def test_a_byte_that_changed_meanwhile_is_noticed_with_its_tensor(tmp_path: Path) -> None:
    sink = begun(tmp_path, BLOCK_BYTES, 2 * BLOCK_BYTES)
    (file,) = tmp_path.glob("*.safetensors")
    with file.open("r+b") as opened:
        opened.seek(-(BLOCK_BYTES // 2), 2)
        opened.write(b"\xff\x00")
    with pytest.raises(CorruptStore, match="t1"):
        list(sink.written())
    sink.discard()

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from streamlink.model.spec import ModelSpec, TensorSpec
from streamlink.stores.safetensors.layout import Layout, split_into_shards
from tests.support.models import float_spec, model_specs


@given(spec=model_specs(), data=st.data())
def test_every_logical_byte_is_found_where_its_tensor_is(
    spec: ModelSpec, data: st.DataObject
) -> None:
    files = [bytearray(), bytearray()]
    places = []
    for tensor in spec.tensors:
        shard = data.draw(st.integers(0, 1))
        files[shard] += bytes(data.draw(st.integers(0, 3)))  # sometimes a hole between neighbours
        places.append((shard, len(files[shard])))
        files[shard] += bytes(range(1, 1 + tensor.nbytes % 200)) * 2 + bytes(tensor.nbytes)
    logical = b"".join(
        files[shard][offset : offset + tensor.nbytes]
        for tensor, (shard, offset) in zip(spec.tensors, places, strict=True)
    )
    start, stop = sorted(data.draw(st.tuples(*[st.integers(0, spec.nbytes)] * 2)))
    pieces = Layout(spec, places).pieces(start, stop - start)
    found = b"".join(files[shard][offset : offset + length] for shard, offset, length in pieces)
    assert found == logical[start:stop]


def test_neighbours_in_a_file_are_one_piece() -> None:
    spec = float_spec(2, 0, 3, 4)
    layout = Layout(spec, [(0, 100), (1, 0), (0, 108), (1, 50)])
    assert list(layout.pieces(4, 20)) == [(0, 104, 16), (1, 50, 4)]


@given(spec=model_specs(), limit=st.integers(1, 200))
def test_shards_keep_the_order_and_the_limit(spec: ModelSpec, limit: int) -> None:
    shards = split_into_shards(spec.tensors, limit)
    assert tuple(tensor for shard in shards for tensor in shard) == spec.tensors
    for shard in shards:
        assert len(shard) == 1 or sum(tensor.nbytes for tensor in shard) <= limit or not shard


def test_a_large_tensor_gets_a_shard_of_its_own() -> None:
    shards = split_into_shards(float_spec(1, 100, 1, 1).tensors, 40)
    assert [len(shard) for shard in shards] == [1, 1, 2]


def test_long_names_fill_a_shard_too() -> None:
    tensors = [TensorSpec(f"{'n' * 4000}{number}", "U8", ()) for number in range(3000)]
    assert len(split_into_shards(tensors, 1 << 40)) == 3

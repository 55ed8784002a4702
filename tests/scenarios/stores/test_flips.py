"""One bit flipped anywhere in a stored model or update: told, or harmless; never given out."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import numpy as np
import pytest

from streamlink.clock import running_time
from streamlink.errors import CorruptStore, StoreError
from streamlink.link import Attempt, Update, UpdateKind
from streamlink.model.digest import BLOCK_BYTES, digest_of
from streamlink.model.interfaces import ModelStore
from streamlink.rounds.aggregate.gather import Gather, GatherRules
from streamlink.rounds.spool.source import StoredSource
from streamlink.rounds.spool.stored import MANIFEST_NAME, StoredUpdate
from streamlink.stores import CompressedStore, MemoryStore, SafetensorsStore, open_model
from streamlink.stores.safetensors.index import INDEX_NAME
from tests.support.models import arrays_of, content, float_spec, pattern_model, random_bytes, save

FLIPS = 60
SPEC = float_spec(3, 300_000, 0, 40_000, 5)
DATA = content(pattern_model(SPEC))
EDGE = 300


def flip_bit(path: Path, bit: int) -> None:
    with path.open("r+b", buffering=0) as file:
        file.seek(bit // 8)
        (byte,) = file.read(1)
        file.seek(bit // 8)
        file.write(bytes([byte ^ 1 << bit % 8]))


@contextmanager
def flipped(path: Path, bit: int) -> Iterator[None]:
    """Flip one bit of a file, and back again at the end."""
    flip_bit(path, bit)
    try:
        yield
    finally:
        flip_bit(path, bit)


def some_bits(files: list[Path], count: int, seed: int) -> Iterator[tuple[Path, int]]:
    """Yield bits of all files alike, half of them near a beginning or an end."""
    rng = random.Random(seed)
    for number in range(count):
        path = files[number % len(files)]
        length = path.stat().st_size
        near = min(length, EDGE)
        at = rng.choice(
            [rng.randrange(length), rng.randrange(near), length - 1 - rng.randrange(near)]
        )
        yield path, 8 * at + rng.randrange(8)


def safetensors(path: Path) -> ModelStore:
    return SafetensorsStore(path, shard_bytes=1 << 20)


def packed(path: Path) -> ModelStore:
    return CompressedStore(path / "m.slz", reserve_bytes=0)


def packed_raw(path: Path) -> ModelStore:
    return CompressedStore(path / "m.slz", reserve_bytes=0, min_saving=0.9999)


def read_all(store: ModelStore, expected: bytes) -> StoreError | None:
    """Read as a sender does; whatever is given out must be what was stored, and be verified."""
    piece = 100_000
    try:
        with closing(store.open()) as source:
            assert source.spec == SPEC
            assert source.block_hash(0) is not None  # type: ignore[attr-defined]
            for offset in range(0, SPEC.nbytes, piece):
                length = min(piece, SPEC.nbytes - offset)
                assert b"".join(source.read(offset, length)) == expected[offset : offset + length]
    except StoreError as error:
        return error
    return None


@pytest.mark.parametrize("make", [safetensors, packed, packed_raw])
def test_a_flipped_bit_of_a_store_is_told_before_its_block_is_given_out(
    tmp_path: Path, make: Callable[[Path], ModelStore]
) -> None:
    store = make(tmp_path)
    save(store, pattern_model(SPEC))
    harmless = Counter[str]()
    for path, bit in some_bits(sorted(tmp_path.iterdir()), FLIPS * 2, seed=7):
        with flipped(path, bit):
            error = read_all(store, DATA)
        if error is None:
            harmless[path.name] += 1
            continue
        assert path.name in str(error) or isinstance(error, CorruptStore)
        if isinstance(error, CorruptStore) and error.offset >= 0 and error.tensor:
            index, inside = SPEC.locate(error.offset)
            assert (error.tensor, error.inside) == (SPEC.tensors[index].name, inside)
    # Bits that mean nothing: such as those of a zstd frame that are not used.
    assert sum(harmless.values()) <= FLIPS // 5, harmless
    assert read_all(store, DATA) is None


def test_a_flipped_bit_of_a_tensor_is_told_with_its_block(tmp_path: Path) -> None:
    save(safetensors(tmp_path), pattern_model(SPEC))
    shard = max(tmp_path.glob("*.safetensors"), key=lambda path: path.stat().st_size)
    with flipped(shard, 8 * (shard.stat().st_size - 9)), closing(open_model(tmp_path)) as source:
        for offset in range(0, SPEC.nbytes, BLOCK_BYTES):
            try:
                source.read(offset, 1)
            except CorruptStore as caught:
                error = caught
    assert (error.path, error.tensor, error.offset) == (str(shard), "t1", BLOCK_BYTES)
    assert error.inside == BLOCK_BYTES - 12
    assert f"tensor 't1', its byte {BLOCK_BYTES - 12}, logical byte {BLOCK_BYTES}" in str(error)


def test_every_flipped_bit_of_an_index_is_told(tmp_path: Path) -> None:
    store = safetensors(tmp_path)
    save(store, pattern_model(float_spec(2)))
    index = tmp_path / INDEX_NAME
    for bit in range(8 * index.stat().st_size):
        with flipped(index, bit), pytest.raises(StoreError):
            store.open()


# --- updates in the spool -------------------------------------------------------------------

PART = float_spec(4, 270_000)
BASE = arrays_of(PART, random_bytes(PART.nbytes))


def spooled(path: Path, peer: str, seed: int) -> None:
    path.mkdir()
    store = SafetensorsStore(path)
    model = pattern_model(PART, seed)
    save(store, model)
    StoredUpdate(
        peer, Attempt("job", 3, 1), Update(16.0 + seed, UpdateKind.DIFFERENCES), {"loss": 0.25},
        digest_of(model), path, store,
    ).write()  # fmt: skip


def aggregated(base: ModelStore, updates: list[Path]) -> bytes:
    """Combine what the manifests tell, as a server does that has come back."""
    read = [StoredUpdate.read(path, SafetensorsStore) for path in updates]
    assert [(each.peer_name, each.update.weight, each.metrics) for each in read] == [
        ("site-0", 16.0, {"loss": 0.25}), ("site-1", 17.0, {"loss": 0.25}),
    ]  # fmt: skip
    target = MemoryStore()
    with closing(base.open()) as source:
        stored = [StoredSource(each) for each in read]
        Gather(source, PART, stored, target.begin(PART), GatherRules(clock=running_time)).run()
    return content(target.open())


def test_a_flipped_bit_of_a_spooled_update_or_of_the_base_is_told_before_the_commit(
    tmp_path: Path,
) -> None:
    base = SafetensorsStore(tmp_path / "base")
    with np.errstate(all="ignore"):
        save(base, pattern_model(PART, 5))
        for number in range(2):
            spooled(tmp_path / str(number), f"site-{number}", number)
        updates = [tmp_path / "0", tmp_path / "1"]
        good = aggregated(base, updates)
        files = [path for path in sorted(tmp_path.rglob("*")) if path.is_file()]
        for path, bit in some_bits(files, FLIPS * 2, seed=11):
            with flipped(path, bit):
                with pytest.raises(StoreError) as caught:
                    aggregated(base, updates)
            assert str(path.parent) in str(caught.value)
        assert aggregated(base, updates) == good


def test_every_flipped_bit_of_a_manifest_is_told(tmp_path: Path) -> None:
    spooled(tmp_path / "0", "site-0", 0)
    manifest = tmp_path / "0" / MANIFEST_NAME
    for bit in range(8 * manifest.stat().st_size):
        with flipped(manifest, bit), pytest.raises(CorruptStore) as caught:
            StoredUpdate.read(tmp_path / "0", SafetensorsStore)
        assert caught.value.path == str(manifest)


@pytest.mark.parametrize("number", range(FLIPS // 3))
def test_a_flipped_bit_of_what_an_interrupted_transfer_left_never_reaches_a_model(
    tmp_path: Path, number: int
) -> None:
    store = SafetensorsStore(tmp_path, shard_bytes=1 << 20)
    begun = store.begin(SPEC, "one")
    begun.write(0, memoryview(DATA)[: BLOCK_BYTES + 9])
    begun.suspend()
    files = sorted(tmp_path.iterdir())
    ((file, bit),) = some_bits(files[number % len(files) :], 1, seed=number)
    flip_bit(file, bit)
    sink = store.resume(SPEC.digest, "one")
    if sink is None:
        return  # its journal says nothing that can be believed: the transfer begins anew
    try:
        kept = b"".join(map(bytes, sink.saved()))
    except CorruptStore as error:
        assert (error.tensor, error.inside) == ("t0", 0)  # noqa: PT017
        return
    assert kept == DATA[: sink.durable]
    sink.write(sink.durable, memoryview(DATA)[sink.durable :])
    sink.commit()
    assert content(store.open()) == DATA

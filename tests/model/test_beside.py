"""The small files beside a model: their description, their names, and the two ends of their way."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from streamlink.config import LimitsConfig
from streamlink.errors import ModelError, TooManySideFiles
from streamlink.model.beside import (
    PREFIX,
    Beside,
    Entries,
    SideLimits,
    entries_of,
    goes_along,
    joined,
    keeps_beside,
    may_be_beside,
    split,
)
from streamlink.model.beside_ends import BesideSource, TensorsOnly, beside_source, with_beside
from streamlink.model.copy import copy_model
from streamlink.model.digest import BLOCK_BYTES, HasBlockHashes, digest_of
from streamlink.model.spec import ModelSpec, TensorSpec
from streamlink.stores import ArrayModel, MemoryStore, SafetensorsStore
from tests.support.models import content, float_spec, pattern_model

SPEC = float_spec(BLOCK_BYTES // 4 + 7, 11)
BESIDE = Beside(
    {"config.json": b'{"a": 1}', "tokenizer.model": bytes(range(256)) * 5000, "vocab.txt": b""},
    {"format": "pt", "by": "me \u00e9"},
)


def source() -> BesideSource:
    return BesideSource(pattern_model(SPEC), BESIDE)


def test_a_description_with_files_is_split_into_what_it_was_made_of() -> None:
    whole = joined(SPEC, entries_of(BESIDE))
    assert split(whole) == (SPEC, entries_of(BESIDE))
    assert split(SPEC) == (SPEC, Entries())
    assert joined(SPEC, Entries()) is SPEC
    assert whole.nbytes == SPEC.nbytes + entries_of(BESIDE).nbytes


def test_a_fact_that_is_too_long_or_no_text_is_left_out_and_the_others_are_not() -> None:
    facts = {"long": "x" * 2000, "half": "\ud800", "format": "pt"}
    entries = Entries(metadata=facts)
    assert split(joined(SPEC, entries))[1].metadata == {"format": "pt"}


@pytest.mark.parametrize(
    "name",
    ["config.json", "generation_config.json", "adapter_config.json", "tokenizer.json",
     "tokenizer_config.json", "tokenizer.model", "special_tokens_map.json", "added_tokens.json",
     "preprocessor_config.json", "vocab.json", "merges.txt", "vocab.txt", "chat_template.jinja",
     "spiece.model", "qwen.tiktoken", "config_sentence_transformers.json", "normalizer.json",
     "entity_vocab.json", "target.spm", "dict.txt", "tekken.json"],
)  # fmt: skip
def test_what_tools_load_beside_the_weights_goes_with_a_model(name: str) -> None:
    assert goes_along(name, ())
    assert may_be_beside(name)


@pytest.mark.parametrize(
    "name", ["README.md", "LICENSE", "notes.txt", "train.tsv", "todo.vocab.txt"]
)
def test_another_text_goes_with_a_model_only_where_it_is_named(name: str) -> None:
    assert may_be_beside(name)
    assert not goes_along(name, ())
    assert goes_along(name, ("*",))
    assert goes_along(name, ("x", name[:3] + "*"))


@pytest.mark.parametrize(
    "name",
    ["", ".", "..", "a.yaml", "package.json", "../config.json", "/etc/x.txt", "a/config.json",
     "a\\config.json", "~.txt",
     ".hidden.txt", ".bashrc", "x.py", "modeling_x.py", "x.sh", "config.json\n", "config.json\0",
     "model.safetensors", "model.safetensors.index.json", "model-0a1b2c3d.digests",
     "pytorch_model.bin", "training_args.bin", "update.json", "secrets.json", "x.txt/", "-x.txt",
     "a" * 252 + ".txt", "caf\u00e9.txt",
     "requirements.txt", "Requirements-dev.txt", "constraints.txt", "CMakeLists.txt"],
)  # fmt: skip
def test_no_other_name_can_be_beside_a_model(name: str) -> None:
    assert not may_be_beside(name)
    assert not goes_along(name, ("*",))
    spec = ModelSpec((*SPEC.tensors, TensorSpec(f"{PREFIX}file/{name}", "U8", (3,))))
    with pytest.raises(ModelError, match="is not the name of a small file"):
        split(spec)


@pytest.mark.parametrize(
    "entry",
    [
        TensorSpec(PREFIX + "file/config.json", "F32", (3,)),
        TensorSpec(PREFIX + "file/config.json", "U8", (3, 1)),
        TensorSpec(PREFIX + "metadata/" + json.dumps(["a", "b"]), "U8", (1,)),
        TensorSpec(PREFIX + "metadata/" + json.dumps(["a", 1]), "U8", (0,)),
        TensorSpec(PREFIX + "metadata/" + json.dumps(["a"]), "U8", (0,)),
        TensorSpec(PREFIX + "metadata/{", "U8", (0,)),
        TensorSpec(PREFIX + "other/", "U8", (0,)),
    ],
)
def test_an_entry_of_another_form_is_refused(entry: TensorSpec) -> None:
    with pytest.raises(ModelError, match=r"no small file|is not a fact"):
        split(ModelSpec((*SPEC.tensors, entry)))


@pytest.mark.parametrize(
    "text",
    ["5", "null", "true", '"ab"', '["a", ["b"]]', '{"a": 1, "b": 2}', "[" * 985,
     r'["\ud800", "x"]', r'["x", "\udfff"]', '["a","b"]', ' ["a", "b"]', '["\u00e9", "b"]', ""],
    ids=lambda text: text[:20],
)  # fmt: skip
def test_a_hostile_fact_is_refused_as_a_model_is(text: str) -> None:
    spec = ModelSpec((*SPEC.tensors, TensorSpec(f"{PREFIX}metadata/{text}", "U8", (0,))))
    with pytest.raises(ModelError, match="is not a fact of a model's metadata"):
        split(spec)


def test_a_fact_with_two_values_is_refused() -> None:
    facts = [TensorSpec(f"{PREFIX}metadata/{json.dumps(['a', each])}", "U8", (0,)) for each in "bc"]
    with pytest.raises(ModelError, match="has two values for 'a'"):
        split(ModelSpec((*SPEC.tensors, *facts)))


def test_a_source_gives_the_files_behind_its_tensors() -> None:
    whole = source()
    files = b"".join(BESIDE.files.values())
    assert content(whole) == content(pattern_model(SPEC)) + files
    for start in (0, 5, SPEC.nbytes - 3, SPEC.nbytes, SPEC.nbytes + 4):
        for length in (0, 1, 9):
            got = b"".join(whole.read(start, length))
            assert got == content(whole)[start : start + length]


def test_files_are_part_of_the_digest_and_of_the_name_of_a_model() -> None:
    store = MemoryStore()
    copy_model(pattern_model(SPEC), store.begin(SPEC))
    other = Beside({**BESIDE.files, "config.json": b'{"a": 2}'}, BESIDE.metadata)

    class Stored(ArrayModel):
        def identity(self) -> str:
            return "m"

        def block_hash(self, block: int) -> bytes:
            return hashes[block]

        def digest(self) -> str:
            return "not asked for"

    hashes: dict[int, bytes] = {}
    inner = Stored({"w": np.arange(BLOCK_BYTES, dtype="f4")})
    from streamlink.model.digest import DigestBuilder

    builder = DigestBuilder(inner.spec, lambda block, value: hashes.update({block: value}))
    for view in inner.read(0, inner.spec.nbytes):
        builder.update(view)
    first, second = beside_source(inner, BESIDE), beside_source(inner, other)
    assert isinstance(first, HasBlockHashes)
    assert isinstance(second, HasBlockHashes)
    assert first.digest() == digest_of(first) != digest_of(inner)
    assert first.digest() != second.digest()
    assert first.identity() != second.identity()
    assert BesideSource(pattern_model(SPEC), BESIDE).identity() == ""


def test_only_a_source_with_block_hashes_has_them_with_its_files() -> None:
    assert not isinstance(source(), HasBlockHashes)
    assert not isinstance(beside_source(pattern_model(SPEC), BESIDE), HasBlockHashes)


@pytest.mark.parametrize("files", [BESIDE, Beside(metadata={"format": "pt"})])
def test_a_stored_model_without_a_byte_of_tensors_has_a_digest(
    tmp_path: Path, files: Beside
) -> None:
    store, empty = SafetensorsStore(tmp_path), ArrayModel({"w": np.zeros(0, "f4")})
    copy_model(whole := beside_source(empty, files), store.begin(whole.spec))
    stored = with_beside(store.open(), LimitsConfig())
    assert isinstance(stored, HasBlockHashes)
    assert stored.digest() == digest_of(stored) == digest_of(whole)


def test_a_sink_without_a_place_for_files_gets_the_tensors_alone() -> None:
    store, whole = MemoryStore(), source()
    sink = TensorsOnly(whole.spec, store.begin(SPEC))
    copy_model(whole, sink, piece_bytes=1000)
    assert content(store.open()) == content(pattern_model(SPEC))


def test_memory_is_lent_for_tensors_and_not_for_files() -> None:
    whole = source()
    arrays = {each.name: np.zeros(each.shape, "f4") for each in SPEC.tensors}
    sink = TensorsOnly(whole.spec, ArrayModel(arrays))
    assert sink.is_prompt
    assert sink.lend(0, 8) is not None
    assert sink.lend(SPEC.nbytes - 4, 8) is None
    assert sink.lend(SPEC.nbytes, 8) is None
    sink.filled(0, 8)
    sink.discard()


def test_more_files_than_the_limits_are_refused_in_words() -> None:
    class Directory(ArrayModel):
        def beside(self, limits: SideLimits) -> Beside:
            return BESIDE

    model = Directory({"w": np.zeros(3)})
    with pytest.raises(
        TooManySideFiles, match=r"has 3 small files beside .* limits.max_side_files is 2; raise it"
    ):
        with_beside(model, LimitsConfig(max_side_files=2))
    with pytest.raises(
        TooManySideFiles, match=r"bytes of small files .* limits.max_side_bytes is 9"
    ):
        with_beside(model, LimitsConfig(max_side_bytes=9))
    assert with_beside(model, LimitsConfig(max_side_files=0)) is model


def test_a_store_on_a_disk_keeps_small_files_and_one_in_memory_does_not(tmp_path: Path) -> None:
    assert keeps_beside(SafetensorsStore(tmp_path / "model"))
    assert not keeps_beside(MemoryStore())


def test_a_source_with_files_closes_the_one_it_is_made_of() -> None:
    closed: list[str] = []

    class Closing(ArrayModel):
        def close(self) -> None:
            closed.append("inner")

    BesideSource(Closing({"w": np.zeros(3, "f4")}), BESIDE).close()
    assert closed == ["inner"]

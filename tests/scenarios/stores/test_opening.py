from __future__ import annotations

import json
import struct
import zipfile
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
import safetensors.numpy
import torch

from streamlink.errors import CorruptStore, ModelError, StoreError
from streamlink.model.interfaces import ModelInPlace
from streamlink.stores import (
    ArrayModel,
    CompressedSource,
    CompressedStore,
    SafetensorsSource,
    SafetensorsStore,
    as_model,
    open_model,
    open_store,
)
from tests.support.models import content, float_spec, pattern_model, save


@pytest.mark.parametrize(
    ("compress", "kind"), [("none", SafetensorsSource), ("zstd", CompressedSource)]
)
def test_what_a_store_wrote_is_opened_by_its_path(
    tmp_path: Path, compress: Literal["none", "zstd"], kind: type
) -> None:
    data = save(open_store(tmp_path / "global", compress), pattern_model(float_spec(3)))
    source = open_model(tmp_path / "global")
    assert isinstance(source, kind)
    assert content(source) == data
    source.close()


def test_the_suffix_is_added_only_where_missing(tmp_path: Path) -> None:
    save(open_store(tmp_path / "v1.0", "zstd"), pattern_model(float_spec(3)))
    save(open_store(tmp_path / "v2.slz", "zstd"), pattern_model(float_spec(3)))
    assert {path.name for path in tmp_path.iterdir()} == {"v1.0.slz", "v2.slz"}


def test_a_single_safetensors_file_is_opened(tmp_path: Path) -> None:
    safetensors.numpy.save_file({"w": np.zeros(3, "f4")}, tmp_path / "x.safetensors")
    assert open_model(tmp_path / "x.safetensors").spec.nbytes == 12


def test_stores_are_of_the_kind_asked_for(tmp_path: Path) -> None:
    assert isinstance(open_store(tmp_path), SafetensorsStore)
    assert isinstance(open_store(tmp_path, "zstd"), CompressedStore)
    with pytest.raises(ValueError, match="'none' or 'zstd', not 'gzip'"):
        open_store(tmp_path, "gzip")


def test_where_there_is_no_model_it_is_said(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="there is no model here"):
        open_model(tmp_path / "nothing")
    with pytest.raises(StoreError, match="no safetensors model here"):
        open_model(tmp_path)
    (tmp_path / "text").write_text("hello, I am no model at all")
    with pytest.raises(CorruptStore, match="not a safetensors file"):
        open_model(tmp_path / "text")


# --- what needs pickle ------------------------------------------------------


def zipped(path: Path) -> Path:
    """Write a zip archive laid out as ``torch.save`` does it."""
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("archive/data.pkl", b"\x80\x02}q\x00.")
    return path


@pytest.mark.parametrize("name", ["x.pt", "x.pth", "x.bin", "x.ckpt", "x.safetensors", "x"])
def test_an_archive_of_torch_is_refused_whatever_its_name(tmp_path: Path, name: str) -> None:
    with pytest.raises(StoreError, match="so streamlink refuses it"):
        open_model(zipped(tmp_path / name))


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_a_pickle_is_refused(tmp_path: Path, protocol: int) -> None:
    (tmp_path / "x.pth").write_bytes(bytes([0x80, protocol]) + b"\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19.")
    with pytest.raises(StoreError, match="so streamlink refuses it"):
        open_model(tmp_path / "x.pth")


def test_the_refusal_shows_how_to_convert(tmp_path: Path) -> None:
    with pytest.raises(StoreError) as caught:
        open_model(zipped(tmp_path / "x.v1.pt"))
    *_, first, second = str(caught.value).splitlines()
    compile(f"{first.strip()}\n{second.strip()}", "command", "exec")
    assert "weights_only=True" in second
    assert repr(str(tmp_path / "x.v1.safetensors")) in second


def test_safetensors_under_a_name_of_torch_is_opened(tmp_path: Path) -> None:
    safetensors.numpy.save_file({"w": np.zeros(3, "f4")}, tmp_path / "x.pt")
    assert open_model(tmp_path / "x.pt").spec.nbytes == 12


def test_a_header_whose_length_looks_like_a_pickle_is_no_pickle(tmp_path: Path) -> None:
    entry = {"w": {"dtype": "F32", "shape": [3], "data_offsets": [0, 12]}}
    header = json.dumps(entry).encode().ljust(0x280)  # 80 02, as a pickle of protocol 2 begins
    (tmp_path / "x").write_bytes(struct.pack("<Q", len(header)) + header + bytes(12))
    assert (tmp_path / "x").read_bytes()[:2] == b"\x80\x02"
    assert open_model(tmp_path / "x").spec.nbytes == 12


@pytest.mark.parametrize("data", [b"", b"\x80", b"PK"])
def test_a_file_of_hardly_a_byte_is_refused(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "x.pt").write_bytes(data)
    with pytest.raises(StoreError, match=r"x\.pt"):
        open_model(tmp_path / "x.pt")


# --- what a program has in memory -------------------------------------------


@pytest.mark.parametrize(
    "what",
    [{}, {"w": np.ones(3, "f4")}, {"w": torch.ones(3)}, torch.nn.Linear(2, 2)],
    ids=["nothing", "arrays", "tensors", "module"],
)
def test_what_holds_a_model_in_memory_is_a_model_in_place(what: Any) -> None:
    model = as_model(what)
    assert isinstance(model, ModelInPlace)
    assert as_model(model) is model
    assert not model.is_torn


def test_a_dict_of_arrays_is_filled_itself() -> None:
    array = np.zeros(1, "f4")
    model = as_model({"w": array})
    assert isinstance(model, ArrayModel)
    model.write(0, memoryview(np.float32(7).tobytes()))
    assert array[0] == 7


def test_tensors_are_noticed_behind_anything_else() -> None:
    with pytest.raises(ModelError, match="entry 'a' is a list, not a tensor"):
        as_model({"a": [1.0], "w": torch.ones(3)})


@pytest.mark.parametrize("what", [None, [1.0], "model", open_store("x"), np.zeros(3)])
def test_what_is_no_model_is_refused_by_its_kind(what: Any) -> None:
    with pytest.raises(ModelError, match=f"a {type(what).__name__} is not a model"):
        as_model(what)

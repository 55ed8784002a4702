from __future__ import annotations

from pathlib import Path
from typing import Literal

import numpy as np
import pytest
import safetensors.numpy

from streamlink.errors import CorruptStore, StoreError
from streamlink.stores import (
    CompressedSource,
    CompressedStore,
    SafetensorsSource,
    SafetensorsStore,
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
        open_store(tmp_path, "gzip")  # type: ignore[arg-type]


def test_where_there_is_no_model_it_is_said(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="there is no model here"):
        open_model(tmp_path / "nothing")
    with pytest.raises(StoreError, match="no safetensors model here"):
        open_model(tmp_path)
    (tmp_path / "text").write_text("hello, I am no model at all")
    with pytest.raises(CorruptStore, match="not a safetensors file"):
        open_model(tmp_path / "text")

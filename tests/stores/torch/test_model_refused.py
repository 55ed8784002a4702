"""Tensors that cannot travel or be filled, and PyTorch as an extra."""

from __future__ import annotations

import runpy
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
import torch

import streamlink as sl
import streamlink.stores.torch.model
from streamlink.errors import ModelError, UnsupportedDtype
from streamlink.model.spec import ModelSpec, TensorSpec
from streamlink.stores.torch.model import TorchModel
from tests.support.models import content, pattern_model
from tests.support.processes import ROOT, fact
from tests.support.torch_tensors import Tensor, both_ways, bytes_of, model_of

# --- what is refused --------------------------------------------------------


@pytest.mark.parametrize(
    ("tensor", "why"),
    [
        (torch.zeros(2, dtype=torch.complex128), "torch.view_as_real"),
        (torch.zeros(2, dtype=torch.float8_e4m3fnuz), "pass a view as torch.uint8"),
    ],
)
def test_a_dtype_that_cannot_travel_is_refused_by_name(tensor: Tensor, why: str) -> None:
    with pytest.raises(UnsupportedDtype, match=f"tensor 'w': dtype .*{why}"):
        model_of({"w": tensor})


@pytest.mark.filterwarnings("ignore")
def test_a_quantized_tensor_is_refused() -> None:
    tensor = torch.quantize_per_tensor(torch.zeros(3), 0.1, 0, torch.qint8)
    with pytest.raises(UnsupportedDtype, match=r"tensor 'w': .*int_repr"):
        model_of({"w": tensor})


class Wrapped(torch.Tensor):
    """A tensor whose values are elsewhere, as distributed ones are."""

    @classmethod
    def __torch_dispatch__(cls, *_: Any) -> Any:
        raise NotImplementedError


@pytest.mark.filterwarnings("ignore")  # sparse and nested tensors are called a beta or a prototype
@pytest.mark.parametrize(
    ("make", "why"),
    [
        (lambda: torch.eye(3).to_sparse(), "is not dense"),
        (lambda: torch.eye(3).to_sparse_csr(), "is not dense"),
        (lambda: torch.nested.nested_tensor([torch.zeros(2), torch.zeros(3)]), "is nested"),
        (lambda: torch.zeros(3, device="meta"), "meta device"),
        (lambda: torch.zeros(3, dtype=torch.complex64).conj(), "resolve_conj"),
        (lambda: torch.zeros(3, dtype=torch.complex64).conj().imag, "resolve_neg"),
        (lambda: torch.nn.LazyLinear(2).weight, "run the module once"),
        (lambda: torch.Tensor._make_subclass(Wrapped, torch.zeros(3)), "is a Wrapped"),
    ],
)
def test_what_has_no_plain_memory_is_refused(make: Callable[[], Tensor], why: str) -> None:
    with pytest.raises(ModelError, match=f"tensor 'w' .*{why}"):
        model_of({"w": make()})


@both_ways
@pytest.mark.parametrize(
    "tensor",
    [
        torch.ones(1, 3).expand(2, 3),
        torch.arange(6).unfold(0, 3, 1),
        torch.arange(9).as_strided((2, 3), (2, 1)),
    ],
)
def test_elements_in_one_place_are_read_but_not_filled(
    tensor: Tensor, way: Callable[[Tensor], bool]
) -> None:
    other = torch.zeros(1)
    model = model_of({"a": other, "w": tensor}, way)
    assert content(model, 5) == bytes_of(other) + bytes_of(tensor)
    with pytest.raises(ModelError, match="tensor 'w' has several elements at the same address"):
        model.write(0, memoryview(b"1234"))
    assert not model.is_torn
    assert other[0] == 0


BASE = torch.arange(24, dtype=torch.float32).view(4, 6)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (BASE, BASE[1:3]),
        (BASE, BASE.t()),
        (BASE, BASE.view(-1)),
        (BASE, BASE.view(torch.int32)),
        (BASE[:, :4], BASE[:, 3:]),
        (torch.from_numpy(BASE.numpy()[1:]), BASE[:2]),
    ],
)
def test_memory_shared_in_part_or_seen_differently_is_refused(one: Tensor, other: Tensor) -> None:
    with pytest.raises(ModelError, match=r"tensors '(a|b)' and '(a|b)' share part of their memory"):
        model_of({"a": one, "between": torch.zeros(3), "b": other})


def test_slices_that_interleave_share_nothing() -> None:
    model = model_of({"q": BASE[:, :2], "k": BASE[:, 2:4], "v": BASE[:, 4:], "b": torch.ones(2)})
    assert model.spec.nbytes == 26 * 4
    assert model.tied == {}


def test_memory_that_is_too_hard_to_compare_counts_as_shared() -> None:
    base = torch.zeros(200_000)
    sizes, strides = (4,) * 8, (10_007, 5_003, 2_503, 1_249, 619, 307, 151, 73)
    one, other = base.as_strided(sizes, strides), base.as_strided(sizes, strides[::-1], 1)
    with pytest.raises(ModelError, match="share part of their memory"):
        model_of({"a": one, "b": other})


def test_a_staging_buffer_that_holds_no_element_is_refused() -> None:
    with pytest.raises(ValueError, match="at least 16, not 15"):
        TorchModel({}, staging_bytes=15)


# --- PyTorch as an extra ----------------------------------------------------


def test_a_missing_torch_is_told_with_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(ImportError, match=r"streamlink-fl\[torch\]"):
        runpy.run_path(str(streamlink.stores.torch.model.__file__))


PROGRAM_WITHOUT = """
import sys, numpy, streamlink, streamlink.stores as stores
stores.as_model({"w": numpy.zeros(3)})
assert "torch" not in sys.modules
"""


@pytest.mark.processes(quick=True)
def test_importing_streamlink_does_not_import_torch() -> None:
    subprocess.run([sys.executable, "-c", PROGRAM_WITHOUT], check=True)


NARROW = sl.LinkConfig(stream=sl.StreamConfig(chunk_bytes="1MiB", window_bytes="4MiB"))
RECEIVER = """
import json, os, sys
import psutil, torch
import streamlink as sl
from streamlink.fleet import peak_rss_bytes
from streamlink.stores.torch.model import TorchModel, _needs_staging
from tests.support.processes import tell

NARROW = sl.LinkConfig(stream=sl.StreamConfig(chunk_bytes="1MiB", window_bytes="4MiB"))
sl.tune_allocator()
module = torch.nn.Sequential(*(torch.nn.Linear(4096, 4096, bias=False) for _ in range(2)))
way = {"here": _needs_staging, "staged": lambda tensor: True}[sys.argv[1]]
model = TorchModel(module, _is_staged=way)
base = psutil.Process().memory_info().rss
sl.receive(model, config=NARROW, on_listening=lambda port: tell(port=port))
tell(grown=peak_rss_bytes(os.getpid()) - base, digest=sl.digest_of(model))
"""


@pytest.mark.processes
@pytest.mark.parametrize("way", ["here", "staged"])
def test_a_module_received_in_place_needs_no_second_one(way: str) -> None:
    spec = ModelSpec(tuple(TensorSpec(f"{n}.weight", "F32", (4096, 4096)) for n in range(2)))
    command = [sys.executable, "-c", RECEIVER, way]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) as process:
        try:
            sl.send(pattern_model(spec), f"127.0.0.1:{fact(process, 'port')}", config=NARROW)
            told = fact(process, "grown")
        finally:
            process.kill()  # else a receiver that got nothing is waited for, and it for a sender
    assert spec.nbytes == 128 << 20
    assert told["digest"] == sl.digest_of(pattern_model(spec))
    assert told["grown"] < 32 << 20

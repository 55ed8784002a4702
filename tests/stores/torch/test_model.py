from __future__ import annotations

import runpy
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import streamlink as sl
import streamlink.stores.torch.model
from streamlink.errors import ModelError, StoreError, TornModel, UnsupportedDtype
from streamlink.model.copy import copy_model
from streamlink.model.interfaces import Lending, ModelInPlace, ModelSink, ModelSource
from streamlink.model.spec import ModelSpec, TensorSpec
from streamlink.stores.memory import ArrayModel
from streamlink.stores.safetensors import SafetensorsStore
from streamlink.stores.torch.model import TorchModel, _needs_staging
from streamlink.stores.torch.staging import StagedTensors
from streamlink.stores.torch.tensors import _INTEGERS, _NAMES
from tests.support.models import (
    LendingContract,
    SourceContract,
    StoreContract,
    content,
    fill,
    pattern_model,
    random_bytes,
)
from tests.support.processes import ROOT, fact

Tensor = Any

DTYPES = {name: dtype for dtype, name in _NAMES.items()}
STAGING = 32


def here(tensor: Tensor) -> bool:
    return False


def staged(tensor: Tensor) -> bool:
    return True


def some(tensor: Tensor) -> bool:
    return bool(tensor.dim() == 2)


WAYS = [here, staged, some]
both_ways = pytest.mark.parametrize("way", WAYS)


def model_of(tensors: Any, way: Callable[[Tensor], bool] = here) -> TorchModel:
    return TorchModel(tensors, staging_bytes=STAGING, _is_staged=way)


def bytes_of(tensor: Tensor) -> bytes:
    """Return a tensor's elements in C order, by PyTorch's own copy."""
    integers = tensor.detach().view(_INTEGERS[tensor.element_size()])  # else odd bools become 1
    return bytes(integers.contiguous().numpy().tobytes())


def tensor_of(dtype: torch.dtype, shape: tuple[int, ...], seed: int = 0) -> Tensor:
    """Return a tensor whose every byte is random, NaNs and odd bools among them."""
    count = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
    data = torch.tensor(list(random_bytes(count, seed)), dtype=torch.uint8)
    return data.view(dtype).view(shape)


@st.composite
def tensors(draw: st.DrawFn) -> Tensor:
    """Tensors of every dtype: 0-d, empty, sliced, transposed, stepped."""
    shape = draw(st.lists(st.integers(0, 5), max_size=4))
    tensor = tensor_of(draw(st.sampled_from(list(_NAMES))), tuple(shape), draw(st.integers(0, 9)))
    tensor = tensor.permute(draw(st.permutations(range(tensor.dim()))))
    for dim in range(tensor.dim()):
        start, step = draw(st.integers(0, 1)), draw(st.integers(1, 2))
        tensor = tensor[(slice(None),) * dim + (slice(start, None, step),)]
    return tensor


named = st.lists(tensors(), max_size=4).map(lambda ts: {f"t{n}": t for n, t in enumerate(ts)})


# --- what it promises -------------------------------------------------------


@both_ways
class TestTorchModel(SourceContract):
    @pytest.fixture
    def source(self, way: Callable[[Tensor], bool]) -> ModelSource:
        empty = {t.name: torch.empty(t.shape, dtype=DTYPES[t.dtype]) for t in self.spec.tensors}
        model = TorchModel(empty, staging_bytes=100_000, _is_staged=way)
        copy_model(pattern_model(self.spec), model)
        return model


class TorchStore:
    """Tensors that take turns: what a store needs beside ``TorchModel`` to be judged as one."""

    def __init__(self, way: Callable[[Tensor], bool]) -> None:
        self._way = way
        self._model: TorchModel | None = None

    def open(self) -> TorchModel:
        if self._model is None:
            raise StoreError("nothing yet")
        return self._model

    def begin(self, spec: Any) -> ModelSink:
        empty = {t.name: torch.empty(t.shape, dtype=DTYPES[t.dtype]) for t in spec.tensors}
        store, model = self, TorchModel(empty, staging_bytes=100_000, _is_staged=self._way)

        class Sink:
            spec = model.spec
            discard = staticmethod(model.discard)
            is_prepared = False

            def write(self, offset: int, payload: memoryview) -> None:
                if self.is_prepared:
                    raise StoreError("it is prepared and accepts no more bytes")
                model.write(offset, payload)

            def prepare(self, progress: Any = None) -> None:
                model.prepare(progress)
                self.is_prepared = True

            def commit(self, progress: Any = None) -> None:
                model.commit(progress)
                store._model = model

        return Sink()


@both_ways
class TestAsSink(StoreContract):
    @pytest.fixture
    def store(self, way: Callable[[Tensor], bool]) -> Any:
        return TorchStore(way)


class TestThatLends(LendingContract):
    @pytest.fixture
    def sink(self) -> Lending:
        return model_of({t.name: torch.empty(t.shape) for t in self.spec.tensors})

    def arrived(self, sink: Lending) -> bytes:
        assert isinstance(sink, TorchModel)
        return content(sink)


def test_tensors_that_are_staged_are_not_lent_and_not_torn_by_it() -> None:
    model = model_of({"w": torch.zeros(4, 6).T, "v": torch.zeros(8)})
    assert model.lend(0, 8) is None
    assert not model.is_torn
    assert model.lend(4 * 24, 8) is not None
    assert model.is_torn


def test_lending_tells_autograd_before_a_byte_is_there() -> None:
    weight = torch.ones(8, requires_grad=True)
    loss = (weight**2).sum()
    TorchModel({"w": weight}).lend(0, 8)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


def test_it_is_a_model_in_place() -> None:
    assert isinstance(model_of({}), ModelInPlace)


@given(tensors=named, way=st.sampled_from(WAYS), data=st.data())
def test_any_range_of_any_tensors_is_their_bytes(
    tensors: dict[str, Tensor], way: Callable[[Tensor], bool], data: st.DataObject
) -> None:
    model = model_of(tensors, way)
    expected = b"".join(map(bytes_of, tensors.values()))
    assert model.spec.nbytes == len(expected)
    start = data.draw(st.integers(0, len(expected)))
    length = data.draw(st.integers(0, len(expected) - start))
    held = model.read(start, length)
    assert content(model, 7) == expected
    assert b"".join(held) == expected[start : start + length]


@given(
    tensors=named,
    way=st.sampled_from(WAYS),
    cuts=st.lists(st.integers(0, 500)),
    seed=st.none() | st.integers(0, 9),
)
def test_any_pieces_in_any_order_fill_any_tensors(
    tensors: dict[str, Tensor],
    way: Callable[[Tensor], bool],
    cuts: list[int],
    seed: int | None,
) -> None:
    model = model_of(tensors, way)
    new = random_bytes(model.spec.nbytes, 77)
    fill(model, new, [cut for cut in cuts if cut < len(new)], seed)
    model.commit()
    assert b"".join(map(bytes_of, tensors.values())) == new
    assert content(model) == new


@both_ways
def test_what_lies_between_a_slices_elements_is_not_touched(
    way: Callable[[Tensor], bool],
) -> None:
    base = torch.zeros(8, 8, dtype=torch.int32)
    model = model_of({"w": base[1:7:2, ::3].t()}, way)
    fill(model, b"\xff" * model.spec.nbytes, [5, 6, 17])
    expected = torch.zeros_like(base)
    expected[1:7:2, ::3] = -1
    assert torch.equal(base, expected)


@both_ways
def test_channels_last_travels_in_the_order_of_its_dimensions(
    way: Callable[[Tensor], bool],
) -> None:
    images = torch.arange(120, dtype=torch.float32).view(2, 3, 4, 5)
    last = images.to(memory_format=torch.channels_last)
    assert content(model_of({"w": last}, way), 11) == bytes_of(images)
    fill(model_of({"w": last}, way), bytes_of(images + 1), [3, 50])
    assert torch.equal(last, images + 1)


def test_a_tensor_is_read_without_a_copy() -> None:
    tensor = torch.zeros(10)
    (view,) = model_of({"w": tensor}).read(4, 8)
    tensor[1] = 1.0
    assert bytes(view[:4]) == np.float32(1).tobytes()


def test_a_staged_view_stays_as_it_was_read() -> None:
    tensor = torch.zeros(10)
    (view,) = model_of({"w": tensor}, staged).read(4, 8)
    tensor[1] = 1.0
    assert bytes(view) == bytes(8)


def test_only_contiguous_tensors_in_host_memory_are_not_staged() -> None:
    tensor = torch.arange(6).view(2, 3)
    model = TorchModel({"a": tensor, "b": torch.zeros(2), "c": tensor.clone().t()})
    assert [type(part) for part in model._parts] == [ArrayModel, StagedTensors]
    assert _needs_staging(torch.zeros(2, device="meta"))


def test_a_run_of_tensors_without_bytes_is_passed_over() -> None:
    model = model_of({"a": torch.ones(2), "none": torch.zeros(0, 2), "b": torch.ones(2)}, some)
    assert len(model._parts) == 3
    assert b"".join(model.read(2, 12)) == bytes_of(torch.ones(4))[2:14]


def test_every_dtype_has_its_name_and_its_integers() -> None:
    model = model_of({name: torch.zeros(2, dtype=dtype) for name, dtype in DTYPES.items()})
    assert [tensor.dtype for tensor in model.spec.tensors] == list(DTYPES)
    assert all(dtype.itemsize in _INTEGERS for dtype in _NAMES)


# --- modules ----------------------------------------------------------------


class Net(torch.nn.Module):
    """A tied embedding, a batch norm with its counter, and a buffer that does not travel."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = torch.nn.Embedding(7, 4)
        self.norm = torch.nn.BatchNorm1d(4)
        self.head = torch.nn.Linear(4, 7)
        self.head.weight = self.embed.weight
        self.register_buffer("scratch", torch.zeros(3), persistent=False)

    def forward(self, tokens: Tensor) -> Tensor:
        return self.head(self.norm(self.embed(tokens)))


@both_ways
def test_a_module_is_received_into_its_own_parameters(
    tmp_path: Path, way: Callable[[Tensor], bool]
) -> None:
    ours, theirs = Net(), Net()
    theirs(torch.arange(7))  # so that the batch norm has counted
    store = SafetensorsStore(tmp_path)
    source = model_of(theirs, way)
    copy_model(source, store.begin(source.spec))
    weight = ours.embed.weight
    copy_model(store.open(), model_of(ours, way))
    assert ours.embed.weight is weight
    assert ours.norm.num_batches_tracked == 1
    for name, tensor in theirs.state_dict().items():
        assert torch.equal(ours.state_dict()[name], tensor)
    assert torch.equal(ours.eval()(torch.arange(7)), theirs.eval()(torch.arange(7)))


def test_tied_weights_travel_once_under_the_first_name() -> None:
    model = model_of(Net())
    names = [tensor.name for tensor in model.spec.tensors]
    assert model.tied == {"head.weight": "embed.weight"}
    assert "head.weight" not in names
    assert "scratch" not in names
    assert names[-1] == "head.bias"


def test_empty_tensors_are_not_tied() -> None:
    assert model_of({"a": torch.zeros(0), "b": torch.zeros(0)}).tied == {}


def test_a_parameter_keeps_its_gradient_and_can_be_trained_on() -> None:
    net = Net()
    net(torch.arange(7)).sum().backward()
    copy_model(model_of(Net()), model_of(net))
    assert net.embed.weight.grad is not None
    assert net.embed.weight.is_leaf
    net(torch.arange(7)).sum().backward()


@both_ways
@pytest.mark.parametrize("begins_before", [True, False])
def test_autograd_notices_that_values_were_replaced(
    way: Callable[[Tensor], bool], begins_before: bool
) -> None:
    weight = torch.nn.Parameter(torch.ones(2))
    model, new = model_of({"w": weight}, way), memoryview(bytes(8))
    if begins_before:
        model.write(0, new[:4])
    result = (weight * weight).sum()
    model.write(0, new)
    model.commit()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        result.backward()


@both_ways
def test_inference_tensors_are_filled(way: Callable[[Tensor], bool]) -> None:
    with torch.inference_mode():
        tensor = torch.zeros(2, 3).t()
    model = model_of({"w": tensor}, way)
    fill(model, bytes_of(torch.ones(3, 2)), [5])
    model.commit()
    assert torch.equal(tensor, torch.ones(3, 2))


@pytest.mark.parametrize(
    "move",
    [
        lambda net: net.half(),
        lambda net: net.load_state_dict(Net().state_dict(), assign=True),
        lambda net: setattr(net, "embed", None),
    ],
    ids=["half", "assign", "removed"],
)
def test_a_module_that_has_other_memory_now_is_refused(move: Callable[[Any], None]) -> None:
    net = Net()
    model = model_of(net)
    move(net)
    with pytest.raises(ModelError, match="make a new TorchModel"):
        model.read(0, 1)
    with pytest.raises(ModelError, match=r"tensor 'embed\.weight' has other memory than"):
        model.write(0, memoryview(b"x"))
    assert not model.is_torn


def test_named_parameters_that_were_cast_are_refused() -> None:
    net = Net()
    model = model_of(dict(net.named_parameters()))
    net.half()
    with pytest.raises(ModelError, match="make a new TorchModel"):
        model.read(0, 1)


def test_what_a_hook_copies_is_refused() -> None:
    net = Net()

    def copied(module: Any, state: dict[str, Tensor], *_: Any) -> None:
        state["head.bias"] = state["head.bias"].clone()

    net.register_state_dict_post_hook(copied)
    with pytest.raises(ModelError, match=r"'head.bias' is a copy that state_dict\(\) made"):
        model_of(net)


def test_extra_state_is_refused_with_what_to_do() -> None:
    class Extra(Net):
        def get_extra_state(self) -> dict[str, int]:
            return {"step": 3}

    with pytest.raises(ModelError, match=r"'_extra_state' is a dict, not a tensor.*isinstance"):
        model_of(Extra())


@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")
def test_a_module_on_a_gpu_is_read_and_filled_there() -> None:
    ours, theirs = Net().cuda(), Net()
    wide = torch.zeros(5, 3, dtype=torch.bfloat16, device="cuda").t()
    copy_model(model_of(theirs), TorchModel(ours, staging_bytes=STAGING))
    assert torch.equal(ours.head.weight.cpu(), theirs.head.weight)
    fill(TorchModel({"w": wide}, staging_bytes=STAGING), random_bytes(30), [7, 8, 20])
    assert bytes_of(wide.cpu()) == random_bytes(30)
    assert content(TorchModel({"w": wide}), 7) == random_bytes(30)


# --- torn targets -----------------------------------------------------------


@both_ways
def test_tensors_are_torn_between_first_write_and_commit(way: Callable[[Tensor], bool]) -> None:
    model = model_of({"a": torch.zeros(2), "b": torch.zeros(2, 1)}, way)
    model.write(8, memoryview(b"1234"))
    assert model.is_torn
    with pytest.raises(TornModel, match="receive the model again"):
        model.read(0, 4)
    model.write(0, memoryview(b"abcdefgh"))
    model.write(12, memoryview(b"5678"))
    model.commit()
    assert content(model) == b"abcdefgh12345678"


@both_ways
def test_a_discarded_transfer_leaves_the_tensors_torn(way: Callable[[Tensor], bool]) -> None:
    model = model_of({"a": torch.zeros(2), "b": torch.zeros(2, 1)}, way)
    model.write(0, memoryview(b"1234"))
    model.discard()
    assert model.is_torn
    with pytest.raises(StoreError, match=r"0 of 16 bytes.*byte 0 of tensor 'a'"):
        model.commit()
    fill(model, bytes(16), [])
    model.commit()
    assert content(model) == bytes(16)


def test_nothing_written_tears_nothing() -> None:
    model = model_of({"w": torch.zeros(2)})
    model.write(3, memoryview(b""))
    model.discard()
    assert not model.is_torn


def test_the_staging_buffer_is_held_during_a_transfer_only() -> None:
    model = model_of({"w": torch.zeros(2)}, staged)
    model.write(0, memoryview(bytes(8)))
    (part,) = model._parts
    assert part._staging.nbytes == STAGING  # type: ignore[union-attr]
    model.commit()
    assert part._staging is None  # type: ignore[union-attr]


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

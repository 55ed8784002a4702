"""Models whose tensors are on a GPU: sent, filled, trained and profiled there."""

from __future__ import annotations

import queue
import re
import threading
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import torch

from streamlink import StreamConfig, copy_model, fetch, serve
from streamlink.errors import SourceChanged
from streamlink.profiling.memory import peak_bytes, reset_peak, resident_bytes
from streamlink.stores import MemoryStore
from streamlink.stores.torch import TorchModel
from tests.support.commands import Command, streamlink
from tests.support.models import content
from tests.support.torch_tensors import DTYPES, bytes_of, tensor_of

pytestmark = [
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU that PyTorch sees"),
    pytest.mark.slow,
    pytest.mark.timeout(300),
]
needs_opacus = pytest.mark.skipif(find_spec("opacus") is None, reason="needs streamlink-fl[dp]")

MiB = 1 << 20
GPU = "cuda"
INTEGERS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


def of_every_kind(device: str) -> dict[str, Any]:
    """Return tensors of every dtype on a device: 0-d, empty, sliced, transposed, stepped."""
    found = {}
    for number, (name, dtype) in enumerate(DTYPES.items()):
        # Contiguous ones move as they are; a copy of strided bools would make odd ones 1.
        whole = tensor_of(dtype, (6, 5, 4), number).to(device)
        found[name] = whole
        found[f"{name} transposed"] = tensor_of(dtype, (6, 5), number + 1).to(device).T
        found[f"{name} stepped"] = tensor_of(dtype, (6, 5, 4), number + 2).to(device)[1:, ::2, 1:3]
        found[f"{name} scalar"] = tensor_of(dtype, (), number + 3).to(device)
        found[f"{name} empty"] = whole[:0].clone()
    return found


def emptied(tensors: dict[str, Any]) -> dict[str, Any]:
    """Return tensors of the same kinds and strides, full of zero bytes, in memory of their own."""
    found = {}
    for name, each in tensors.items():
        found[name] = torch.empty_like(each, memory_format=torch.preserve_format)
        found[name].view(INTEGERS[each.element_size()]).zero_()
    return found


@pytest.mark.parametrize("staging", [32, 4096])
def test_every_kind_of_tensor_is_read_and_filled_bit_for_bit(staging: int) -> None:
    tensors, on_host = of_every_kind(GPU), of_every_kind("cpu")
    source = TorchModel(tensors, staging_bytes=staging)
    assert content(source) == b"".join(map(bytes_of, on_host.values()))
    there = emptied(tensors)
    copy_model(source, TorchModel(there, staging_bytes=staging))
    assert content(TorchModel(there)) == content(source)


def test_tied_weights_are_sent_once_and_a_model_comes_back_from_host_memory() -> None:
    torch.manual_seed(1)
    layer = torch.nn.Linear(300, 200, device=GPU)
    source = TorchModel({"one": layer.weight, "same": layer.weight, "bias": layer.bias})
    assert source.tied == {"same": "one"}
    store = MemoryStore()
    copy_model(source, store)
    other = torch.nn.Linear(300, 200, device=GPU)
    copy_model(store.open(), TorchModel({"one": other.weight, "bias": other.bias}))
    assert torch.equal(layer.weight, other.weight)
    assert torch.equal(layer.bias, other.bias)


def test_a_step_of_an_optimizer_after_a_read_is_told() -> None:
    layer = torch.nn.Linear(30, 20, device=GPU)
    source = TorchModel(layer)
    check = source.watch()
    source.read(0, 100)
    check()
    layer(torch.ones(30, device=GPU)).sum().backward()
    torch.optim.SGD(layer.parameters(), lr=0.1).step()
    with pytest.raises(SourceChanged, match="weight"):
        check()


def test_a_model_goes_from_gpu_to_gpu_through_windows_alone() -> None:
    torch.manual_seed(2)
    ours = {
        f"layer {n}": torch.randn(4096, 8192, dtype=torch.bfloat16, device=GPU) for n in range(32)
    }
    ours["turned"] = torch.randn(4096, 2048, device=GPU).T
    theirs = emptied(ours)
    _moved({"a": ours["layer 0"][:2].clone()}, {"a": theirs["layer 0"][:2].clone()})  # to load code
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    held, base = torch.cuda.memory_allocated(), resident_bytes()
    reset_peak()
    _moved(ours, theirs)
    on_gpu, on_host = torch.cuda.max_memory_allocated() - held, peak_bytes() - base
    nbytes = sum(each.nbytes for each in ours.values())
    print(f"{nbytes} bytes, of them held more: {on_gpu} on the GPU, {on_host} on the host")
    assert all(torch.equal(ours[name], theirs[name]) for name in ours)
    assert on_gpu <= 4 * MiB
    assert on_host <= 2 * StreamConfig().window_bytes + 64 * MiB


def _moved(source: dict[str, Any], target: dict[str, Any]) -> None:
    """Move the tensors over the loopback, in threads of this process."""
    ports: queue.Queue[int] = queue.Queue()
    serving = threading.Thread(
        target=serve, args=(source,), kwargs={"count": 1, "on_listening": ports.put}
    )
    serving.start()
    try:
        fetch(f"127.0.0.1:{ports.get(timeout=60)}", target)
    finally:
        serving.join(60)


@pytest.mark.processes
def test_two_clients_train_on_one_gpu(tmp_path: Path) -> None:
    model = ["--model", "cnn", "--model-arg", "num_channel=3", "--model-arg", "num_pixel=32"]
    (tmp_path / "client.yaml").write_text("train_configs: {device: 'cuda:0'}\n")
    words = ["train", "simulate", "--store", "m", *model, "--rounds", 2]
    words += ["--client-config", "client.yaml"]
    with Command(streamlink(*words), tmp_path) as running:
        assert running.end() == 0, running.log
    assert len(re.findall(r"round \d: .* 2 updates, train_loss", running.output)) == 2


@needs_opacus
@pytest.mark.processes
@pytest.mark.parametrize("mode", ["ghost_fsdp", "flash_fsdp"])
def test_private_modes_clip_and_sum_as_explicit_gradients_do(mode: str, tmp_path: Path) -> None:
    from tests.support.private_training import BOUND, batches, explicit_step, trained

    expected = explicit_step(24, batches(1, 2, 24), BOUND)
    (found,) = trained(tmp_path, {"mode": mode, "device": GPU})
    for name, each in expected.items():
        difference = float((found[name] - each).norm() / each.norm().clamp(min=1e-12))
        assert difference < 1e-4, name


@needs_opacus
@pytest.mark.processes
def test_without_a_buffer_of_pairs_the_peak_is_lower() -> None:
    from streamlink.profiling.dp.experiment import Experiment, Mode
    from streamlink.profiling.dp.launch import run_experiment

    peaks = {}
    for mode in Mode:
        found = run_experiment(
            Experiment(mode=mode, device="cuda", seq_length=4096, batch_size=2, num_iter=1)
        )
        assert found.failure is None
        assert found.steps is not None
        assert min(found.steps.seconds) > 0
        peaks[mode] = max(found.steps.peak_bytes)
    assert peaks[Mode.FLASH] < peaks[Mode.GHOST]

"""What may go wrong on a GPU: work that is still queued, a step at the wrong time, full memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from importlib.util import find_spec
from typing import Any

import pytest
import torch
from torch import nn

from streamlink import LinkConfig, StreamConfig, receive, send
from streamlink.errors import SourceChanged
from streamlink.stores.torch import TorchModel
from streamlink.training.data import dummy_cifar10
from streamlink.training.settings import TrainerSettings, TrainingError
from streamlink.training.trainer import Trainer
from tests.support.models import content

pytestmark = [
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU that PyTorch sees"),
    pytest.mark.slow,
    pytest.mark.timeout(120),
]

GPU = torch.device("cuda", 0)
MiB = 1 << 20
SMALL = LinkConfig(
    stream=StreamConfig(chunk_bytes=64 << 10, window_bytes=256 << 10, initial_window_bytes=64 << 10)
)
SAMPLES = dummy_cifar10(1, 20)


def test_what_another_stream_still_computes_is_read_when_it_is_done() -> None:
    weight = torch.zeros(MiB, dtype=torch.uint8, device=GPU)
    model, busy = TorchModel({"w": weight}), torch.ones(4096, 4096, device=GPU)
    torch.cuda.synchronize(GPU)
    with torch.cuda.stream(torch.cuda.Stream(GPU)):  # a copy does not wait for such a stream
        for _ in range(100):
            busy = busy @ busy
        weight.fill_(7)
    assert content(model) == bytes([7]) * MiB


def move(
    source: Any, into: Any, first: Callable[[str], None] = lambda address: None, **options: Any
) -> None:
    """Send ``source`` to a receiver in this process; ``first`` is called with its address."""
    port: Future[int] = Future()
    with ThreadPoolExecutor(1) as pool:
        taken = pool.submit(receive, into, on_listening=port.set_result, timeout=30)
        address = f"127.0.0.1:{port.result(30)}"
        first(address)
        send(source, address, **options)
        taken.result(30)


def test_a_strided_tensor_that_was_filled_is_there_for_every_stream() -> None:
    wide = torch.zeros(1024, 1024, dtype=torch.uint8, device=GPU).t()
    move({"w": torch.full((1024, 1024), 3, dtype=torch.uint8)}, {"w": wide})
    with torch.cuda.stream(torch.cuda.Stream(GPU)):
        assert int((wide != 3).sum()) == 0


def test_a_step_while_a_module_is_sent_is_noticed_and_the_next_transfer_is_whole() -> None:
    ours, theirs = nn.Linear(1024, 1024).to(GPU), nn.Linear(1024, 1024).to(GPU)
    places = {name: each.data_ptr() for name, each in theirs.state_dict().items()}

    def changed(address: str) -> None:
        def change(*_: object) -> None:
            with torch.no_grad():
                ours.weight.add_(1)

        with pytest.raises(SourceChanged, match="weight"):
            send(ours, address, config=SMALL, progress=change)

    move(ours, theirs, changed)  # the receiver waits for the next sender
    assert {name: each.data_ptr() for name, each in theirs.state_dict().items()} == places
    assert torch.equal(ours.weight, theirs.weight)


# --- training ---------------------------------------------------------------


def network() -> nn.Sequential:
    torch.manual_seed(1)
    return nn.Sequential(
        nn.Conv2d(3, 4, 5, stride=4), nn.BatchNorm2d(4), nn.Flatten(), nn.Linear(196, 10)
    )


def trainer(device: str) -> Trainer:
    settings = TrainerSettings(
        device=device, num_local_steps=3, train_batch_size=8, do_validation=True
    )
    return Trainer(settings, SAMPLES, SAMPLES)


@pytest.mark.parametrize("device", ["cuda", "cuda:0"])
def test_a_module_is_trained_there_and_is_back_in_its_own_memory(device: str) -> None:
    here, there = network(), network()
    places = {name: each.data_ptr() for name, each in there.state_dict().items()}
    expected = trainer("cpu").run(here)
    trainer(device).run(network())  # cuBLAS and cuDNN keep what they have allocated once
    held = torch.cuda.memory_allocated(GPU)
    found = trainer(device).run(there)
    assert torch.cuda.memory_allocated(GPU) <= held  # no model, and no gradients
    assert {name: each.data_ptr() for name, each in there.state_dict().items()} == places
    for name in ("train_loss", "val_loss"):
        assert found.metrics[name] == pytest.approx(expected.metrics[name], rel=1e-2)
    for name, each in here.state_dict().items():
        assert torch.allclose(there.state_dict()[name], each, atol=2e-3), name


def test_a_gpu_that_is_not_there_is_named() -> None:
    with pytest.raises(TrainingError, match="'cuda:99' cannot be used here"):
        trainer("cuda:99")


@pytest.fixture
def few_bytes() -> Iterator[None]:
    """A GPU of which this process may take 4 MiB more."""
    torch.cuda.empty_cache()
    total = torch.cuda.get_device_properties(GPU).total_memory
    share = (torch.cuda.memory_reserved(GPU) + 4 * MiB) / total
    torch.cuda.set_per_process_memory_fraction(share, GPU)
    yield
    torch.cuda.set_per_process_memory_fraction(1.0, GPU)


@pytest.mark.usefixtures("few_bytes")
def test_a_gpu_that_is_full_is_named_and_the_model_is_as_before() -> None:
    module = nn.Sequential(nn.Flatten(), nn.Linear(3 * 32 * 32, 4096), nn.Linear(4096, 10))
    before = {name: each.clone() for name, each in module.state_dict().items()}
    with pytest.raises(TrainingError, match=r"cuda:0 has too little free memory .*batch of 8"):
        trainer("cuda:0").run(module)
    assert all(torch.equal(each, before[name]) for name, each in module.state_dict().items())


@pytest.mark.skipif(find_spec("opacus") is None, reason="needs streamlink-fl[dp]")
@pytest.mark.processes
def test_an_experiment_that_is_too_large_is_a_result() -> None:
    from streamlink.profiling.dp.experiment import Experiment, Mode
    from streamlink.profiling.dp.launch import run_experiment

    too_large = Experiment(
        mode=Mode.NO_DP, device="cuda", model_name="small", seq_length=16384, batch_size=512
    )
    forecast = run_experiment(too_large).failure
    assert forecast is not None
    assert forecast.kind == "forecast"
    assert "are free on this GPU" in forecast.text
    found = run_experiment(too_large, ignores_forecast=True).failure
    assert found is not None
    assert found.kind == "out_of_memory"

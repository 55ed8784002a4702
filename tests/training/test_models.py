"""Models: ours by name, the operator's from a file, and none larger than a client permits."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pytest
import torch
from torch import nn

from streamlink.stores import as_model
from streamlink.training.code import CodeFolder
from streamlink.training.models import Synthetic, load_model, state_bytes
from streamlink.training.networks import CNN, ResNet18
from streamlink.training.settings import ModelSettings, TrainingError

pytestmark = pytest.mark.slow  # PyTorch is imported, and models are made

needs_llm = pytest.mark.skipif(find_spec("transformers") is None, reason="needs [llm]")


def model(name: str, **kwargs: object) -> ModelSettings:
    return ModelSettings(name=name, kwargs=kwargs)


def test_resnet18_has_the_parameters_and_counters_that_it_is_known_for() -> None:
    module = load_model(model("resnet18"))
    assert sum(each.numel() for each in module.parameters()) == 11_173_962
    counters = [name for name in module.state_dict() if name.endswith("num_batches_tracked")]
    assert len(counters) == 20
    assert module(torch.zeros(2, 3, 32, 32)).shape == (2, 10)


@pytest.mark.parametrize(("channels", "pixels"), [(1, 28), (3, 32), (2, 16)])
def test_the_cnn_takes_images_of_its_size(channels: int, pixels: int) -> None:
    module = load_model(model("cnn", num_channel=channels, num_pixel=pixels, num_classes=4))
    assert module(torch.zeros(2, channels, pixels, pixels)).shape == (2, 4)


def test_appfls_names_are_ours() -> None:
    settings = ModelSettings(name="ResNet18", path="./resources/model/resnet.py")
    assert isinstance(load_model(settings), ResNet18)


@pytest.mark.parametrize("tensors", [1, 7])
def test_a_synthetic_model_has_its_size_in_so_many_tensors(tensors: int) -> None:
    module = load_model(model("synthetic", nbytes="1MiB", tensors=tensors))
    assert state_bytes(module) == as_model(module).spec.nbytes == 1 << 20
    assert len(module.state_dict()) == tensors
    assert all(each.std() > 0.1 for each in module.parameters())


def test_equal_seeds_make_equal_models() -> None:
    digests = []
    for _ in range(2):
        torch.manual_seed(3)
        digests.append(torch.cat([p.flatten() for p in load_model(model("cnn")).parameters()]))
    assert torch.equal(*digests)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        (model("resnet19"), "there is no 'resnet19'; use one of resnet18, cnn, llm, synthetic"),
        (model("cnn", num_pixel=8), "num_pixel is 8; two convolutions need at least 16"),
        (model("cnn", pixels=8), "raised TypeError"),
        (model("synthetic", nbytes="much"), "'much' is not a size"),
        (model("synthetic", nbytes=8, tensors=3), "it is between 1 and 2"),
        (model("synthetic", nbytes="1TB", tensors=10**9), "it is between 1 and 131072"),
        (ModelSettings(name="Net", path="net.py"), "is loaded unless the operator"),
    ],
)
def test_what_cannot_be_made_is_named_with_its_row(settings: ModelSettings, words: str) -> None:
    with pytest.raises(TrainingError) as caught:
        load_model(settings, row="client_configs.model_configs")
    assert words in str(caught.value)
    assert "client_configs.model_configs" in str(caught.value)


@pytest.mark.parametrize(
    "settings",
    [
        model("synthetic", nbytes="100TB"),
        model("cnn", num_classes=10**11),
        pytest.param(model("llm", config={"vocab_size": 10**11}), marks=needs_llm),
    ],
)
def test_a_model_beyond_the_bound_is_refused_before_its_memory_is_taken(
    settings: ModelSettings,
) -> None:
    # Each would take more memory than there is.
    with pytest.raises(TrainingError, match=r"takes at most 1000000; raise --max-model-bytes"):
        load_model(settings, max_bytes=1_000_000)


def test_a_model_within_the_bound_is_made() -> None:
    size = state_bytes(CNN())
    assert isinstance(load_model(model("cnn"), max_bytes=size), CNN)
    with pytest.raises(TrainingError, match="at most"):
        load_model(model("cnn"), max_bytes=size - 1)


def test_the_operators_own_model_is_loaded_and_bounded(tmp_path: Path) -> None:
    (tmp_path / "net.py").write_text(
        "from torch import nn\ndef Net(width): return nn.Linear(width, 2)\ndef Not(): return 3\n"
    )
    code, settings = CodeFolder(tmp_path), ModelSettings(name="Net", path="net.py")
    wide = settings.model_copy(update={"kwargs": {"width": 50}})
    assert isinstance(load_model(wide, code=code, max_bytes=1000), nn.Linear)
    with pytest.raises(TrainingError, match="at most 100"):
        load_model(wide, code=code, max_bytes=100)
    with pytest.raises(TrainingError, match=r"is a int; it must be a torch.nn.Module"):
        load_model(ModelSettings(name="Not", path="net.py"), code=code)


def test_weights_that_will_arrive_are_not_drawn() -> None:
    torch.manual_seed(5)
    before = torch.get_rng_state()
    load_model(model("synthetic", nbytes="1MiB"), is_initial=False)
    assert torch.equal(torch.get_rng_state(), before)
    assert isinstance(load_model(model("synthetic", nbytes="4KiB")), Synthetic)
    assert not torch.equal(torch.get_rng_state(), before)

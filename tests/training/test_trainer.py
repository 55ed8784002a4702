"""The trainer does what its settings say, in place, and copies the state only where it is told."""

from __future__ import annotations

import copy
import logging
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from streamlink.training.code import CodeFolder
from streamlink.training.data import Samples, dummy_cifar10, dummy_tokens
from streamlink.training.networks import CNN
from streamlink.training.settings import TrainerSettings, TrainingError
from streamlink.training.trainer import Trainer

pytestmark = pytest.mark.slow  # trains with PyTorch

SAMPLES = dummy_cifar10(1, 20)


def network() -> nn.Module:
    torch.manual_seed(1)
    return nn.Sequential(
        nn.Conv2d(3, 4, 5, stride=4), nn.BatchNorm2d(4), nn.Flatten(), nn.LazyLinear(10)
    )


def made() -> nn.Module:
    module = network()
    module(SAMPLES.inputs)
    return module


def trainer(validation: Samples | None = SAMPLES, **settings: Any) -> Trainer:
    given = {"num_local_steps": 3, "train_batch_size": 8, **settings}
    return Trainer(TrainerSettings.model_validate(given), SAMPLES, validation)


def moved(before: dict[str, Any], module: nn.Module) -> list[str]:
    return [name for name, now in module.state_dict().items() if not torch.equal(before[name], now)]


def test_ten_adam_steps_move_every_weight_in_place() -> None:
    module = made()
    before, memory = copy.deepcopy(module.state_dict()), [p.data_ptr() for p in module.parameters()]
    done = trainer(num_local_steps=10, optim="Adam", optim_args={"lr": 0.01}).run(module)
    assert set(moved(before, module)) == set(before)
    assert [p.data_ptr() for p in module.parameters()] == memory
    assert done.samples == len(SAMPLES)


@pytest.mark.parametrize(
    ("settings", "batches"),
    [
        ({"mode": "step", "num_local_steps": 7}, 7),
        ({"mode": "epoch", "num_local_epochs": 2}, 2 * 3),
        ({"mode": "epoch", "num_local_epochs": 1, "train_batch_size": 20}, 1),
    ],
)
def test_as_many_batches_are_trained_as_the_mode_says(
    settings: dict[str, Any], batches: int
) -> None:
    module, calls = made(), []
    before = int(module.state_dict()["1.num_batches_tracked"])
    trainer(None, **settings).run(module, progress=lambda: calls.append(1))
    assert int(module.state_dict()["1.num_batches_tracked"]) - before == len(calls) == batches


def test_one_step_of_sgd_is_that_of_the_formula() -> None:
    module, other = nn.Linear(2, 3), nn.Linear(2, 3)
    other.load_state_dict(module.state_dict())
    samples = Samples(torch.rand(4, 2), torch.tensor([0, 1, 2, 0]))
    settings = TrainerSettings(optim_args={"lr": 0.5}, train_batch_size=4)
    Trainer(settings, samples).run(module)
    nn.functional.cross_entropy(other(samples.inputs), samples.labels).backward()
    assert other.weight.grad is not None
    torch.testing.assert_close(module.weight, other.weight - 0.5 * other.weight.grad)


def test_validation_is_reported_and_logged_when_it_is_asked_for(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.INFO, "streamlink.training"):
        found = trainer(do_validation=True, do_pre_validation=True).run(made(), number=4).metrics
    names = {f"{when}_{what}" for when in ("val", "pre_val") for what in ("loss", "accuracy")}
    assert set(found) == {"train_loss", *names}
    assert 0 <= found["val_accuracy"] <= 100
    assert "round 4 trained" in caplog.text
    assert "val_loss" in caplog.text
    assert set(trainer().run(made()).metrics) == {"train_loss"}
    assert set(trainer(None, do_validation=True).run(made()).metrics) == {"train_loss"}


def test_validation_changes_nothing() -> None:
    first, second = made(), made()
    trainer(train_data_shuffle=False).run(first)
    trainer(train_data_shuffle=False, do_validation=True, do_pre_validation=True).run(second)
    assert moved(copy.deepcopy(first.state_dict()), second) == []


def test_accuracy_is_the_percentage_of_right_answers() -> None:
    samples = Samples(torch.eye(4), torch.tensor([0, 1, 2, 0]))
    identity = nn.Linear(4, 4, bias=False)
    with torch.no_grad():
        identity.weight.copy_(torch.eye(4))
    settings = TrainerSettings(do_pre_validation=True, optim_args={"lr": 0.0})
    assert Trainer(settings, samples, samples).run(identity).metrics["pre_val_accuracy"] == 75


def test_without_its_optimisation_the_trainer_holds_a_copy_and_trains_the_same() -> None:
    plain, copied = made(), made()
    direct, original = trainer(), trainer(optimize_memory=False)
    direct.run(plain)
    original.run(copied)
    assert direct.state is None
    assert original.state is not None
    for name, tensor in copied.state_dict().items():
        assert torch.equal(tensor, plain.state_dict()[name])
        assert torch.equal(tensor, original.state[name])
        assert tensor.data_ptr() != original.state[name].data_ptr()


def test_gradients_are_given_back_after_the_round() -> None:
    module = made()
    trainer().run(module)
    assert all(each.grad is None for each in module.parameters())


def test_a_clipped_step_is_no_longer_than_its_bound() -> None:
    module = made()
    before = copy.deepcopy(dict(module.named_parameters()))
    trainer(num_local_steps=1, clip_grad=True, clip_value=1e-3, optim_args={"lr": 1.0}).run(module)
    steps = [before[name] - now for name, now in module.named_parameters()]
    assert torch.cat([each.flatten() for each in steps]).norm() <= 1e-3 * 1.001


def test_the_dummy_trainer_leaves_the_model_alone() -> None:
    module = made()
    before = copy.deepcopy(module.state_dict())
    done = trainer(trainer="LLMDummyTrainer", do_validation=True).run(module)
    assert moved(before, module) == []
    assert (done.samples, done.metrics) == (len(SAMPLES), {})


def test_a_language_model_is_trained_on_each_of_its_tokens() -> None:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table = nn.Embedding(16, 16)

        def forward(self, tokens: torch.Tensor) -> Any:
            return type("Answer", (), {"logits": self.table(tokens)})

    samples = dummy_tokens(samples=4, length=6, vocab_size=16)
    settings = TrainerSettings(do_validation=True, num_local_steps=30, optim_args={"lr": 5.0})
    found = Trainer(settings, samples, samples).run(Model()).metrics
    assert 0 < found["val_loss"] < 2.8  # log(16) is what a model has that has learned nothing


def test_the_operators_own_loss_and_metric_are_used(tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text(
        "from torch import nn\n"
        "class Loss(nn.CrossEntropyLoss):\n"
        "  def forward(self, o, t): return super().forward(o, t) * 0 + 7\n"
        "def right(labels, outputs): return 42.0\n"
    )
    settings = TrainerSettings(
        loss_fn="Loss", loss_fn_path="own.py", metric="right", metric_path="own.py",
        do_validation=True,
    )  # fmt: skip
    found = Trainer(settings, SAMPLES, SAMPLES, code=CodeFolder(tmp_path)).run(made()).metrics
    assert (found["train_loss"], found["val_accuracy"]) == (7.0, 42.0)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"optim": "Adamm"}, "train_configs.optim: there is no optimiser 'Adamm'; use one of "),
        ({"optim": "Optimizer"}, "there is no optimiser 'Optimizer'"),
        ({"loss_fn": "Softmax"}, "train_configs.loss_fn: there is no 'Softmax'"),
        ({"loss_fn_kwargs": {"size": 3}}, "raised TypeError"),
        ({"metric": "f1"}, "train_configs.metric_name: there is no 'f1'; use one of accuracy"),
        ({"loss_fn": "X", "loss_fn_path": "./x.py"}, "unless the operator of this machine"),
        ({"device": "cuda:99"}, "train_configs.device: 'cuda:99' cannot be used here"),
        ({"device": "abacus"}, "train_configs.device: 'abacus' cannot be used here"),
    ],
)
def test_what_cannot_be_used_is_refused_before_a_model_comes(
    settings: dict[str, Any], words: str
) -> None:
    with pytest.raises(TrainingError) as caught:
        trainer(**settings)
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("settings", "module", "words"),
    [
        (
            {"optim_args": {"speed": 3}},
            made,
            "train_configs.optim_args: SGD(speed=3) raised TypeError",
        ),
        ({"optim_args": {"lr": -1}}, made, "Invalid learning rate"),
        ({"optim_args": {"lr": 1e30}, "num_local_steps": 9}, made, "lower optim_args.lr"),
        ({}, CNN, "the model does not take data of shape (8, 3, 32, 32)"),
    ],
)
def test_a_round_that_cannot_be_trained_says_why(
    settings: dict[str, Any], module: Any, words: str
) -> None:
    with pytest.raises(TrainingError) as caught:
        trainer(**settings).run(module())
    assert words in str(caught.value)


@pytest.mark.parametrize("is_shuffled", [True, False])
def test_samples_are_shuffled_anew_unless_it_is_switched_off(is_shuffled: bool) -> None:
    losses = set()
    run = trainer(None, num_local_steps=1, train_data_shuffle=is_shuffled)
    for _ in range(4):
        losses.add(run.run(made()).metrics["train_loss"])
    assert (len(losses) > 1) is is_shuffled


class Full(nn.Module):
    """Needs more memory than its GPU has."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(1))

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        raise torch.cuda.OutOfMemoryError("Tried to allocate 2.00 GiB\nand more")


def test_memory_that_ran_out_is_not_called_data_that_do_not_fit() -> None:
    with pytest.raises(TrainingError, match=r"cpu has too little .* of 8 \(Tried .*GiB\); lower"):
        trainer().run(Full())

"""Data: seeded samples, and those of the operator's own code."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from streamlink.training.code import CodeFolder
from streamlink.training.data import Samples, dummy_cifar10, dummy_tokens, load_data
from streamlink.training.settings import DataSettings, TrainingError

pytestmark = pytest.mark.slow  # imports PyTorch


def dummy(client_id: int) -> tuple[Samples, Samples | None]:
    kwargs = {"num_clients": 2, "client_id": client_id, "samples_per_client": 64}
    path = "./memory_profiling/dummy_cifar10_dataset.py"
    return load_data(DataSettings(name="get_dummy_cifar10", path=path, kwargs=kwargs))


def test_the_seeds_dummy_data_has_its_shape() -> None:
    train, validation = dummy(0)
    assert train.inputs.shape == (64, 3, 32, 32)
    assert train.inputs.dtype == torch.float32
    assert 0 <= train.inputs.min() < train.inputs.max() < 1
    assert set(train.labels.tolist()) <= set(range(10))
    assert validation is not None
    assert len(validation) == 32


def test_each_client_has_samples_of_its_own_and_all_validate_on_the_same() -> None:
    (first, shared), (second, too), (again, _) = dummy(0), dummy(1), dummy(0)
    assert torch.equal(first.inputs, again.inputs)
    assert not torch.equal(first.inputs, second.inputs)
    assert shared is not None
    assert too is not None
    assert torch.equal(shared.inputs, too.inputs)


def test_making_data_leaves_the_global_generator_alone() -> None:
    before = torch.get_rng_state()
    dummy_cifar10(3), dummy_tokens(3)
    assert torch.equal(torch.get_rng_state(), before)


def test_the_label_of_a_token_is_the_next_one() -> None:
    samples = dummy_tokens(samples=3, length=5)
    assert torch.equal(samples.inputs[:, 1:], samples.labels[:, :-1])


@pytest.mark.parametrize("is_shuffled", [False, True])
def test_batches_have_every_sample_once(is_shuffled: bool) -> None:
    samples = Samples(torch.arange(10.0), torch.arange(10))
    generator = torch.Generator().manual_seed(1) if is_shuffled else None
    batches = list(samples.batches(4, generator))
    assert [len(labels) for _, labels in batches] == [4, 4, 2]
    order = torch.cat([labels for _, labels in batches]).tolist()
    assert sorted(order) == list(range(10))
    assert (order == list(range(10))) is not is_shuffled
    assert all(torch.equal(inputs.long(), labels) for inputs, labels in batches)


def test_the_operators_own_data_is_loaded(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        "def get(n): return [([float(i)], i % 2) for i in range(n)], None\n"
    )
    settings = DataSettings(name="get", path="mine.py", kwargs={"n": 6})
    train, validation = load_data(settings, code=CodeFolder(tmp_path))
    assert validation is None
    assert train.inputs.tolist() == [[0.0], [1.0], [2.0], [3.0], [4.0], [5.0]]
    assert train.labels.tolist() == [0, 1, 0, 1, 0, 1]


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("[]", "must return (training, validation)"),
        ("[], None", "no sequence of (input, label)"),
        ("3, None", "no sequence of (input, label)"),
        ("[([1], 0), ([1, 2], 0)], None", "of one shape"),
    ],
)
def test_data_of_another_form_is_refused(tmp_path: Path, body: str, words: str) -> None:
    (tmp_path / "mine.py").write_text(f"def get(): return {body}\n")
    with pytest.raises(TrainingError) as caught:
        load_data(DataSettings(name="get", path="mine.py"), code=CodeFolder(tmp_path))
    assert words in str(caught.value)


def test_a_client_beyond_their_number_has_no_data() -> None:
    settings = DataSettings(kwargs={"num_clients": 2, "client_id": 2})
    with pytest.raises(TrainingError, match="client_id is 2, and num_clients 2"):
        load_data(settings)


def test_unknown_data_is_refused_with_what_there_is() -> None:
    with pytest.raises(TrainingError, match=r"there is no 'cifar11'; use one of dummy_cifar10"):
        load_data(DataSettings(name="cifar11"))

"""MNIST and CIFAR-10 from a folder: what is there is read, what is wrong is named with its file."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
import torch

from streamlink.training.data import Samples, load_data
from streamlink.training.image_files import CIFAR10_FILES, MNIST_FILES
from streamlink.training.settings import DataSettings, TrainingError

pytestmark = pytest.mark.slow  # imports PyTorch

Bytes = npt.NDArray[np.uint8]
EACH = 20  # images of a file


def idx(array: Bytes) -> bytes:
    sizes = b"".join(size.to_bytes(4, "big") for size in array.shape)
    return bytes([0, 0, 8, array.ndim]) + sizes + array.tobytes()


def images(count: int, *shape: int) -> Bytes:
    return np.random.default_rng(count).integers(0, 256, (count, *shape), np.uint8)


def labels(count: int) -> Bytes:
    return np.arange(count, dtype=np.uint8) % 10


@pytest.fixture
def mnist(tmp_path: Path) -> Path:
    for name, array in zip(
        MNIST_FILES, (images(EACH, 28, 28), labels(EACH), images(7, 28, 28), labels(7)), strict=True
    ):
        (tmp_path / name).write_bytes(idx(array))
    return tmp_path


@pytest.fixture
def cifar10(tmp_path: Path) -> Path:
    for name in CIFAR10_FILES:
        records = np.concatenate([labels(EACH)[:, None], images(EACH, 3072)], axis=1)
        (tmp_path / name).write_bytes(records.tobytes())
    return tmp_path


def load(name: str, folder: Path, **kwargs: object) -> tuple[Samples, Samples | None]:
    return load_data(DataSettings(name=name, kwargs={"folder": str(folder), **kwargs}))


def refused(name: str, folder: Path, **kwargs: object) -> str:
    with pytest.raises(TrainingError) as caught:
        load(name, folder, **kwargs)
    return str(caught.value)


def test_mnist_is_read_as_it_was_written(mnist: Path) -> None:
    train, validation = load("mnist", mnist)
    assert (len(train), train.inputs.shape[1:]) == (EACH, (1, 28, 28))
    assert validation is not None
    ((batch, found),) = validation.batches(100)
    assert batch.dtype == torch.float32
    assert torch.equal((batch * 255).round().byte(), torch.from_numpy(images(7, 28, 28))[:, None])
    assert found.tolist() == labels(7).tolist()


def test_cifar10_is_read_as_it_was_written(cifar10: Path) -> None:
    train, validation = load("cifar10", cifar10)
    assert (len(train), train.inputs.shape[1:]) == (5 * EACH, (3, 32, 32))
    assert train.inputs.dtype == torch.uint8  # a byte of a pixel until it is used
    assert validation is not None
    assert validation.inputs.flatten(1).tolist() == images(EACH, 3072).tolist()
    assert validation.labels.tolist() == labels(EACH).tolist()


def test_gzipped_files_are_read(mnist: Path) -> None:
    before = load("mnist", mnist)[0]
    for name in MNIST_FILES:
        raw = (mnist / name).read_bytes()
        (mnist / name).unlink()
        (mnist / f"{name}.gz").write_bytes(gzip.compress(raw))
    assert torch.equal(load("mnist", mnist)[0].inputs, before.inputs)


@pytest.mark.parametrize("strategy", ["iid", "class_noniid"])
def test_the_clients_parts_are_all_images_and_none_twice(cifar10: Path, strategy: str) -> None:
    options = {"num_clients": 3, "partition_strategy": strategy}
    parts = [load("cifar10", cifar10, client_id=index, **options)[0] for index in range(3)]
    whole = load("cifar10", cifar10)[0]
    dealt = torch.cat([each.inputs.flatten(1) for each in parts]).tolist()
    assert sorted(dealt) == sorted(whole.inputs.flatten(1).tolist())
    classes = [len(set(each.labels.tolist())) for each in parts]
    assert (max(classes) <= 5) is (strategy == "class_noniid")


def test_fewer_samples_can_be_asked_for(mnist: Path) -> None:
    assert len(load("mnist", mnist, samples_per_client=5)[0]) == 5


@pytest.mark.parametrize("name", ["mnist", "cifar10"])
def test_a_folder_without_the_data_is_named_and_nothing_is_fetched(
    tmp_path: Path, name: str
) -> None:
    said = refused(name, tmp_path / "absent")
    assert f"dataset_kwargs.folder: {tmp_path / 'absent'} has no" in said


@pytest.mark.parametrize("folder", ["", "cifar-10-batches-py"])
def test_the_pickled_version_of_cifar10_is_refused_by_name(tmp_path: Path, folder: str) -> None:
    (tmp_path / folder).mkdir(exist_ok=True)
    (tmp_path / folder / "data_batch_1").write_bytes(b"\x80\x02}q\x01.")
    said = refused("cifar10", tmp_path)
    assert "data_batch_1 is the Python version of CIFAR-10, which is pickled" in said
    assert "binary version" in said


@pytest.mark.parametrize("name", MNIST_FILES[1:3])
@pytest.mark.parametrize("kept", [0, 6, -1])
def test_a_truncated_file_of_mnist_is_named(mnist: Path, name: str, kept: int) -> None:
    (mnist / name).write_bytes((mnist / name).read_bytes()[:kept])
    assert refused("mnist", mnist).find(str(mnist / name)) >= 0


@pytest.mark.parametrize("name", CIFAR10_FILES[::5])
@pytest.mark.parametrize("kept", [0, 100, -1])
def test_a_truncated_file_of_cifar10_is_named(cifar10: Path, name: str, kept: int) -> None:
    (cifar10 / name).write_bytes((cifar10 / name).read_bytes()[:kept])
    assert f"{cifar10 / name}: " in refused("cifar10", cifar10)


def test_a_truncated_archive_is_named(mnist: Path) -> None:
    name = MNIST_FILES[2]
    packed = gzip.compress((mnist / name).read_bytes())
    (mnist / name).unlink()
    (mnist / f"{name}.gz").write_bytes(packed[:-9])
    assert "it is truncated or damaged" in refused("mnist", mnist)


def test_a_missing_file_is_named(cifar10: Path) -> None:
    (cifar10 / "data_batch_4.bin").unlink()
    assert "data_batch_4.bin: there is no such file" in refused("cifar10", cifar10)


def test_a_file_of_other_content_is_named(cifar10: Path, mnist: Path) -> None:
    (cifar10 / "test_batch.bin").write_bytes(b"\xff" * 3073)
    assert "a label is 255, so this is no file of CIFAR-10" in refused("cifar10", cifar10)
    (mnist / MNIST_FILES[1]).write_bytes(idx(labels(EACH - 1)))
    assert "it has labels of shape (19,)" in refused("mnist", mnist)


def test_an_unknown_way_to_divide_is_refused(mnist: Path) -> None:
    said = refused("mnist", mnist, partition_strategy="dirichlet")
    assert "partition_strategy is 'dirichlet'; it is iid or class_noniid" in said

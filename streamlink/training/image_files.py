"""MNIST and CIFAR-10 from a local folder, in the formats that their authors publish.

Nothing is downloaded. MNIST is in IDX files (LeCun, Cortes, Burges), plain or gzipped; CIFAR-10 in
its *binary version* (Krizhevsky, "Learning multiple layers of features", 2009). The Python version
of CIFAR-10 is pickled: to read it would be to run it, so it is refused.
"""

from __future__ import annotations

import gzip
import math
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from streamlink.training.data import Samples
from streamlink.training.settings import TrainingError

__all__ = ["CIFAR10_FILES", "MNIST_FILES", "cifar10", "mnist"]

_Bytes = npt.NDArray[np.uint8]

MNIST_FILES = (
    *("train-images-idx3-ubyte", "train-labels-idx1-ubyte"),
    *("t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"),
)
"""Images and labels for training and for validation; each may end in ``.gz``."""

CIFAR10_FILES = (*(f"data_batch_{number}.bin" for number in range(1, 6)), "test_batch.bin")
"""Five files for training, one for validation."""

_CIFAR10_RECORD = 1 + 3 * 32 * 32  # a label and the red, green and blue pixels of an image
_CIFAR10_PICKLED = "data_batch_1"
_CIFAR10_FOLDERS = ("", "cifar-10-batches-bin")
_MNIST_FOLDERS = ("", "raw", "MNIST/raw")
_MAX_BYTES = 1 << 31  # of one file, so that a wrong header or archive cannot fill the memory


def cifar10(
    folder: str = "data", num_clients: int = 1, client_id: int = 0, **options: Any
) -> tuple[Samples, Samples]:
    """Return one client's part of CIFAR-10, and all of its validation images.

    Inputs become float32 in [0, 1] of shape (batch, 3, 32, 32); until then a pixel is a byte.

    Args:
        folder: has the binary version, itself or in ``cifar-10-batches-bin``.
        num_clients: into how many parts the images are divided.
        client_id: which part, from 0.
        options: see ``_part``.

    Raises:
        TrainingError: a file is missing, truncated or pickled; names it.
    """
    found = _folder(folder, _CIFAR10_FOLDERS, CIFAR10_FILES[0], _cifar10_advice)
    *training, validation = (_cifar10_file(found / name) for name in CIFAR10_FILES)
    images = np.concatenate([each for each, _ in training])
    labels = np.concatenate([each for _, each in training])
    chosen = _part(labels, num_clients, client_id, **options)
    return _samples(images[chosen], labels[chosen]), _samples(*validation)


def mnist(
    folder: str = "data", num_clients: int = 1, client_id: int = 0, **options: Any
) -> tuple[Samples, Samples]:
    """Return one client's part of MNIST, and all of its validation images.

    Inputs become float32 in [0, 1] of shape (batch, 1, 28, 28).

    Args:
        folder: has the IDX files, itself or in ``raw`` or ``MNIST/raw``.
        num_clients: into how many parts the images are divided.
        client_id: which part, from 0.
        options: see ``_part``.

    Raises:
        TrainingError: a file is missing or truncated; names it.
    """
    found = _folder(folder, _MNIST_FOLDERS, MNIST_FILES[0], _mnist_advice)
    images, labels = _idx_pair(found, *MNIST_FILES[:2])
    chosen = _part(labels, num_clients, client_id, **options)
    validation = _idx_pair(found, *MNIST_FILES[2:])
    return _samples(images[chosen], labels[chosen]), _samples(*validation)


def _idx_pair(folder: Path, of_images: str, of_labels: str) -> tuple[_Bytes, _Bytes]:
    """Return images, (samples, 1, height, width), and their labels."""
    images, labels = _idx_file(folder / of_images), _idx_file(folder / of_labels)
    if images.ndim != 3 or labels.shape != images.shape[:1]:
        raise TrainingError(
            f"{folder / of_labels}: it has labels of shape {labels.shape}, and the images are of "
            f"shape {images.shape}; fetch both files again"
        )
    return images[:, None], labels


def _samples(images: _Bytes, labels: _Bytes) -> Samples:
    return Samples(
        torch.from_numpy(np.ascontiguousarray(images)),
        torch.from_numpy(labels.astype(np.int64)),
        _to_unit,
    )


def _to_unit(pixels: Tensor) -> Tensor:
    return pixels.to(torch.float32).div_(255)


def _part(
    labels: _Bytes,
    num_clients: int,
    client_id: int,
    partition_strategy: str = "iid",
    samples_per_client: int = 0,
    seed: int = 42,
    **_: Any,
) -> npt.NDArray[np.int64]:
    """Return which samples belong to one client.

    Args:
        labels: of all samples.
        num_clients: how many parts there are; each sample is in one of them.
        client_id: which part, from 0.
        partition_strategy: ``iid`` deals the samples out at random; ``class_noniid`` sorts them by
            label first, so that each client has few classes.
        samples_per_client: the most that a part has; 0: all of them.
        seed: of the dealing; the same at all clients.

    Raises:
        TrainingError: a value is not one of these.
    """
    if not 0 <= client_id < num_clients:
        raise TrainingError(
            f"client_id is {client_id}, and num_clients {num_clients}; it counts from 0"
        )
    order = np.random.default_rng(seed).permutation(len(labels))
    if partition_strategy == "class_noniid":
        order = order[np.argsort(labels[order], kind="stable")]
    elif partition_strategy != "iid":
        raise TrainingError(
            f"partition_strategy is {partition_strategy!r}; it is iid or class_noniid"
        )
    part = np.array_split(order, num_clients)[client_id]
    if not len(part):
        raise TrainingError(f"{len(labels)} samples are too few for num_clients = {num_clients}")
    return part[:samples_per_client] if samples_per_client else part


def _folder(folder: str, below: tuple[str, ...], first: str, advice: Any) -> Path:
    for each in below:
        found = Path(folder, each)
        if any((found / name).is_file() for name in (first, f"{first}.gz")):
            return found
    raise TrainingError(f"dataset_kwargs.folder: {folder} has no {first}; {advice(Path(folder))}")


def _cifar10_advice(folder: Path) -> str:
    pickled = [
        found
        for below in ("", "cifar-10-batches-py")
        if (found := folder / below / _CIFAR10_PICKLED).is_file()
    ]
    if pickled:
        return (
            f"{pickled[0]} is the Python version of CIFAR-10, which is pickled, and reading it "
            "could run its author's code; unpack the binary version there "
            "(cifar-10-binary.tar.gz), or use dummy_cifar10"
        )
    return (
        "unpack the binary version of CIFAR-10 there (cifar-10-binary.tar.gz, from "
        "www.cs.toronto.edu/~kriz/cifar.html), or use dummy_cifar10"
    )


def _mnist_advice(folder: Path) -> str:
    return f"put the four IDX files of MNIST there ({', '.join(MNIST_FILES)}; .gz is read, too)"


def _cifar10_file(path: Path) -> tuple[_Bytes, _Bytes]:
    raw = _raw(path)
    if not len(raw) or len(raw) % _CIFAR10_RECORD:
        raise TrainingError(
            f"{path}: {len(raw)} bytes are no whole number of images of {_CIFAR10_RECORD} bytes: "
            "it is truncated, or another file; unpack it again"
        )
    records = raw.reshape(-1, _CIFAR10_RECORD)
    labels = records[:, 0]
    if labels.max() > 9:
        raise TrainingError(f"{path}: a label is {labels.max()}, so this is no file of CIFAR-10")
    return records[:, 1:].reshape(-1, 3, 32, 32), labels


def _idx_file(path: Path) -> _Bytes:
    """Return the bytes of an IDX file: 0, 0, 8 (bytes), how many sizes; the sizes; the bytes."""
    raw = _raw(path)
    dimensions = int(raw[3]) if len(raw) >= 4 and raw[:3].tolist() == [0, 0, 8] else 0
    header = 4 + 4 * dimensions
    if not 1 <= dimensions <= 3 or len(raw) < header:
        raise TrainingError(f"{path}: this is no IDX file of bytes; fetch it again")
    shape = tuple(int(each) for each in np.frombuffer(raw[4:header].tobytes(), ">u4"))
    if len(raw) - header != math.prod(shape) or not len(raw) - header:
        raise TrainingError(
            f"{path}: it has {len(raw) - header} bytes of data, and its header says "
            f"{math.prod(shape)}: it is truncated; fetch it again"
        )
    return raw[header:].reshape(shape)


def _raw(path: Path) -> _Bytes:
    """Return the bytes of a file, or of what is gzipped beside it."""
    zipped = path.with_name(f"{path.name}.gz")
    try:
        if path.is_file():
            with path.open("rb") as file:
                return _bounded(path, file.read(_MAX_BYTES + 1))
        if zipped.is_file():
            with gzip.open(zipped) as unzipped:
                return _bounded(zipped, unzipped.read(_MAX_BYTES + 1))
    except (OSError, EOFError, zlib.error) as error:
        raise TrainingError(
            f"{path}: it cannot be read ({error}): it is truncated or damaged; fetch it again"
        ) from error
    raise TrainingError(f"{path}: there is no such file; the data set needs all of its files")


def _bounded(path: Path, raw: bytes) -> _Bytes:
    if len(raw) > _MAX_BYTES:
        raise TrainingError(f"{path}: it has more than {_MAX_BYTES} bytes; this is another file")
    return np.frombuffer(bytearray(raw), np.uint8)  # PyTorch warns of what cannot be written to

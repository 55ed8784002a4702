"""What is left of a model's bytes as differences from its base: other ways of coding, and speeds.

In one process, without a line. A step of training adds to each weight what chance picks, up to the
learning rate either way, and rounds it to its dtype; so small steps leave many weights of bfloat16
as they are. Speeds are of processor time, since other work may run beside.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

import streamlink
from benchmarks.stats import Result
from streamlink.encodings.codec import Place
from streamlink.encodings.delta import Delta
from streamlink.encodings.planes import Planes
from streamlink.encodings.zstd import Zstd
from streamlink.model import ModelSpec, TensorSpec

__all__ = ["CASES", "WAYS", "Case", "Measured", "measure", "run"]

Integers = npt.NDArray[Any]

MIB = 1 << 20
CHUNK = MIB
DEVIATION, SEED, STEPS = 0.02, 1, 20


@dataclass(frozen=True)
class Case:
    """What became of the base: ``learning_rate`` 0: nothing; None: the model is another one."""

    name: str
    dtype: str
    learning_rate: float | None


CASES = (
    Case("unchanged", "BF16", 0.0),
    Case("20 steps of 1e-5", "BF16", 1e-5),
    Case("20 steps of 1e-4", "BF16", 1e-4),
    Case("another model", "BF16", None),
    Case("20 steps of 1e-5", "F32", 1e-5),
    Case("20 steps of 1e-4", "F32", 1e-4),
    Case("another model", "F32", None),
)


@dataclass(frozen=True)
class Measured:
    """Of one case: the model's bytes divided by those of each way, and bytes per second of
    processor time; 0: nothing is decoded, since all travels plain."""

    ratios: dict[str, float]
    encode: float
    decode: float


def run(quick: bool) -> Result:
    """Encode 64 MiB (quick: 2 MiB) of each case."""
    streamlink.tune_allocator()
    found = {case: measure(case, 2 * MIB if quick else 64 * MIB) for case in CASES}
    return Result(
        name="differences",
        claim="none: shows how few bytes differences are, and what the processor takes for them",
        columns=(
            "model",
            "dtype",
            "delta",
            *(name for name in WAYS),
            "encode, MB/s",
            "decode, MB/s",
        ),
        rows=tuple(_row(case, measured) for case, measured in found.items()),
        facts={"runs": [asdict(case) | asdict(measured) for case, measured in found.items()]},
    )


def measure(case: Case, nbytes: int) -> Measured:
    """Encode a model in chunks as it travels, in each way; decode what ``delta`` made of it."""
    base, new = _models(case, nbytes)
    spec = ModelSpec((TensorSpec("w", case.dtype, base.shape),))
    old = _bytes_of(base)
    codec, clock = Delta(), time.process_time
    encoded = dict.fromkeys(("delta", *WAYS), 0)
    encoding = decoding = 0.0
    for at in range(0, spec.nbytes, CHUNK):
        size = min(CHUNK, spec.nbytes - at)
        place = Place(spec, at, size, lambda start, count: (old[start : start + count],))
        payload = (_bytes_of(new)[at : at + size],)
        began = clock()
        packed = codec.encode(payload, place)
        encoding += clock() - began
        encoded["delta"] += size if packed is None else packed.nbytes
        if packed is not None:
            began = clock()
            codec.decode((packed,), place)
            decoding += clock() - began
        for name, way in WAYS.items():
            encoded[name] += way(_integers(payload[0], base), _integers(old[at : at + size], base))
    return Measured(
        {name: spec.nbytes / each for name, each in encoded.items()},
        spec.nbytes / max(encoding, 1e-9),
        spec.nbytes / decoding if decoding else 0.0,
    )


def _models(case: Case, nbytes: int) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """Return a base and what became of it."""
    rng, dtype = np.random.default_rng(SEED), TensorSpec("w", case.dtype, ()).numpy_dtype

    def weights() -> npt.NDArray[Any]:
        drawn = rng.standard_normal(nbytes // dtype.itemsize, np.float32) * np.float32(DEVIATION)
        return drawn.astype(dtype)

    base = weights()
    if case.learning_rate is None:
        return base, weights()
    new = base
    for _ in range(STEPS if case.learning_rate else 0):
        steps = rng.uniform(-case.learning_rate, case.learning_rate, base.size)
        new = (new.astype(np.float32) + steps.astype(np.float32)).astype(dtype)
    return base, new


# --- other ways ---------------------------------------------------------------------------------


def _integers(view: memoryview, like: npt.NDArray[Any]) -> Integers:
    return np.frombuffer(view, f"<u{like.itemsize}")


def _planes(values: Integers) -> int:
    """Return the length of integers in byte planes, packed by zstd (bytes)."""
    spec = ModelSpec((TensorSpec("w", f"U{8 * values.itemsize}", values.shape),))
    place = Place(spec, 0, values.nbytes)
    packed = Planes().encode((_bytes_of(values),), place)
    return values.nbytes if packed is None else packed.nbytes


def _bytes_of(values: Integers) -> memoryview:
    return np.ascontiguousarray(values).reshape(-1).view(np.uint8).data


def _zigzag(values: Integers) -> Integers:
    signed = values.view(f"<i{values.itemsize}")
    zigzag: Integers = signed << 1 ^ signed >> 8 * values.itemsize - 1
    return zigzag.view(values.dtype)


def _ordered(values: Integers) -> Integers:
    """Return integers that have the order of the floating point numbers in ``values``."""
    signs = values.view(f"<i{values.itemsize}") >> 8 * values.itemsize - 1
    ordered: Integers = values ^ signs.view(values.dtype) >> 1
    return ordered


WAYS: dict[str, Callable[[Integers, Integers], int]] = {
    "planes": lambda new, old: _planes(new),
    "xor, zstd": lambda new, old: Zstd().pack(_bytes_of(new ^ old)).nbytes,
    "xor, planes": lambda new, old: _planes(new ^ old),
    "difference, planes": lambda new, old: _planes(new - old),
    "zigzag, planes": lambda new, old: _planes(_zigzag(new - old)),
    "ordered, zigzag, planes": lambda new, old: _planes(_zigzag(_ordered(new) - _ordered(old))),
}


def _row(case: Case, measured: Measured) -> tuple[str, ...]:
    return (
        case.name,
        case.dtype,
        *(f"{each:.2f}" if each < 1000 else ">1000" for each in measured.ratios.values()),
        f"{measured.encode / 1e6:.0f}",
        f"{measured.decode / 1e6:.0f}" if measured.decode else "",
    )

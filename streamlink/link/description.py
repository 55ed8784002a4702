"""From the pages that describe a peer's model to its spec, within this end's limits."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator

from streamlink.config import LimitsConfig
from streamlink.errors import ModelError
from streamlink.model.spec import ModelSpec, TensorSpec
from streamlink.transport.messages import decode_spec

__all__ = ["KnownSpecs", "described"]

_MOST_DTYPE = 32  # an error quotes at most so many letters of an unknown dtype


def described(pages: Iterable[bytes], limits: LimitsConfig) -> ModelSpec:
    """Return the spec that ``pages`` describe; limits are checked before anything is built.

    Raises:
        RemoteProtocolError: a page cannot be decoded.
        ModelError: a tensor is invalid, there are too many, or one is beyond ``limits``.
    """
    return ModelSpec(tuple(_tensors(pages, limits)))


def _tensors(pages: Iterable[bytes], limits: LimitsConfig) -> Iterator[TensorSpec]:
    # One by one: a hostile description is refused at the first tensor too many, before the pages
    # behind it are decoded.
    for number, (name, dtype, shape) in enumerate(decode_spec(pages)):
        if number >= limits.max_tensors:
            raise ModelError(
                f"the description has more than {limits.max_tensors} tensors; if that is intended, "
                "raise limits.max_tensors at the receiving end"
            )
        if len(name) > limits.max_name_bytes or len(name.encode()) > limits.max_name_bytes:
            raise ModelError(
                f"tensor {number} has a name of {len(name)} characters; the most are "
                f"{limits.max_name_bytes} bytes (max_name_bytes)"
            )
        if len(shape) > limits.max_dimensions:
            raise ModelError(
                f"tensor {name!r} has {len(shape)} dimensions; the most are "
                f"{limits.max_dimensions} (max_dimensions)"
            )
        yield TensorSpec(name, dtype[:_MOST_DTYPE], shape)


class KnownSpecs:
    """Specs of earlier transfers by digest, so that each description is sent once.

    Keeps the last few, with at most ``most_tensors`` in total; the latest one is always kept. Any
    thread may use it.
    """

    LIMIT = 8

    def __init__(self, most_tensors: int = LimitsConfig().max_tensors) -> None:
        self._most_tensors = most_tensors
        self._lock = threading.Lock()
        self._specs: dict[bytes, ModelSpec] = {}

    def __len__(self) -> int:
        return len(self._specs)

    def add(self, spec: ModelSpec) -> None:
        """Remember ``spec``."""
        with self._lock:
            # Out and in again moves it to the end: the one used longest ago goes first.
            self._specs.pop(spec.digest, None)
            self._specs[spec.digest] = spec
            while len(self._specs) > 1 and self._is_too_much():
                del self._specs[next(iter(self._specs))]

    def get(self, digest: bytes) -> ModelSpec | None:
        """Return the description of that digest, if it is known."""
        # Without the lock: one look at a dict, and a spec never changes.
        return self._specs.get(digest)

    def _is_too_much(self) -> bool:
        tensors = sum(len(spec.tensors) for spec in self._specs.values())
        return len(self._specs) > self.LIMIT or tensors > self._most_tensors

"""``OpenObject``: an object that is read where it is, range by range or tensor by tensor."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from streamlink.model.interfaces import ModelSource, Payload
from streamlink.model.spec import ModelSpec

__all__ = ["OpenObject"]


class OpenObject:
    """An object as a source, and as a mapping of names to tensors; close it, or use ``with``.

    A tensor that is asked for by its name is read whole, into an array of its own. Any thread may
    read; closing it twice is harmless.

    Args:
        source: reads ranges.
        close: called once, when it is closed, with whether its reader was content.
        later: is given what closes it by ``close_later``; by default it is closed at once.
    """

    def __init__(
        self,
        source: ModelSource,
        close: Callable[[bool], object],
        later: Callable[[Callable[[], object]], object] = lambda close: close(),
    ) -> None:
        self._source, self._close, self._later = source, close, later
        self._lock, self._is_closed = threading.Lock(), False

    @property
    def spec(self) -> ModelSpec:
        """The tensors, in logical order."""
        return self._source.spec

    def read(self, offset: int, length: int) -> Payload:
        """Return logical bytes ``[offset, offset + length)``.

        Raises:
            ValueError: the range is not inside the model.
            Cancelled: a token of ``ObjectClient.open`` was cancelled.
            StreamlinkError: they could not be read.
        """
        return self._source.read(offset, length)

    def close(self) -> None:
        """End the read of the object and use it up; a ``with`` block that raises returns it."""
        self._close_once(is_content=True)

    def close_later(self) -> None:
        """Close it soon, for a finalizer: at an ``ObjectServer`` this neither waits nor locks.

        The garbage collector runs finalizers at any moment, also in a thread that just uses the
        server, where ``close`` could change what that thread works on, or wait for it. An object of
        an ``ObjectClient`` is closed at once.
        """
        self._later(self.close)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._close_once(is_content=error is None)

    def _close_once(self, *, is_content: bool) -> None:
        with self._lock:
            is_first, self._is_closed = not self._is_closed, True
        if is_first:
            self._close(is_content)

    # --- by name ------------------------------------------------------------------------------

    def __getitem__(self, name: str) -> npt.NDArray[Any]:
        """Read one tensor, as ``read`` does; ``KeyError``: there is none of that name."""
        index = self.spec.names[name]
        tensor, offset = self.spec.tensors[index], self.spec.offset_of(index)
        array = np.empty(tensor.shape, tensor.numpy_dtype)
        flat = array.reshape(-1).view(np.uint8)
        done = 0
        while done < tensor.nbytes:
            step = min(_PIECE_BYTES, tensor.nbytes - done)
            for view in self.read(offset + done, step):
                flat[done : done + view.nbytes] = np.frombuffer(view, np.uint8)
                done += view.nbytes
        return array

    def __iter__(self) -> Iterator[str]:
        return iter(self.spec.names)

    def __len__(self) -> int:
        return len(self.spec.tensors)

    def __contains__(self, name: object) -> bool:
        return name in self.spec.names

    def keys(self) -> list[str]:
        """Return the names of the tensors, in logical order."""
        return list(self.spec.names)

    # No ``Mapping`` to inherit from: it compares by content, and would read both objects for that.

    def items(self) -> Iterator[tuple[str, npt.NDArray[Any]]]:
        """Yield name and tensor, each read when it is its turn."""
        for name in self.spec.names:
            yield name, self[name]

    def values(self) -> Iterator[npt.NDArray[Any]]:
        """Yield the tensors, each read when it is its turn."""
        for name in self.spec.names:
            yield self[name]


_PIECE_BYTES = 4 << 20

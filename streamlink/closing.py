"""``Closing``: the end of a ``with`` block calls ``close``, whatever ended it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from types import TracebackType

__all__ = ["Closing"]


class Closing(ABC):
    """Something that its ``with`` block closes."""

    @abstractmethod
    def close(self) -> None:
        """End it."""

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

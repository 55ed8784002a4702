"""``Extent``: consecutive bytes of a model, such as a stream brings or a digest covers.

The protocol and the model both use it, and neither may import the other; so it stands beside them.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Extent"]


@dataclass(frozen=True, slots=True)
class Extent:
    """Consecutive bytes ``[start, stop)`` of a model; an empty one is allowed.

    Raises:
        ValueError: ``start`` is negative or above ``stop``.
    """

    start: int
    stop: int

    def __post_init__(self) -> None:
        if not 0 <= self.start <= self.stop:
            raise ValueError(f"{self} is no range")

    def __str__(self) -> str:
        return f"[{self.start}, {self.stop})"

    @property
    def nbytes(self) -> int:
        """How many bytes it has."""
        return self.stop - self.start

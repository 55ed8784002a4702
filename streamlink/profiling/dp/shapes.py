"""Shapes of Llama3's kind, and what their parts weigh; arithmetic only, so it needs no torch."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["LABELS", "SHAPES", "Shape"]

LABELS = 3  # as the task SNLI has


@dataclass(frozen=True, slots=True)
class Shape:
    """The sizes of a Llama."""

    vocabulary: int
    hidden: int
    intermediate: int
    layers: int
    heads: int
    key_value_heads: int
    is_tied: bool = False
    """Whether the output shares the embedding's weight; a classifier has no such output."""

    @property
    def key_value_width(self) -> int:
        """Features of the keys, and of the values."""
        return self.hidden // self.heads * self.key_value_heads

    @property
    def linears(self) -> tuple[tuple[int, int], ...]:
        """Inputs and outputs of the linear layers of one block."""
        d, kv, m = self.hidden, self.key_value_width, self.intermediate
        return ((d, d), (d, kv), (d, kv), (d, d), (d, m), (d, m), (m, d))

    @property
    def parameters(self) -> int:
        """How many numbers a classifier of this shape has."""
        block = sum(a * b for a, b in self.linears) + 2 * self.hidden
        return (self.vocabulary + LABELS + 1) * self.hidden + self.layers * block

    @property
    def widest(self) -> int:
        """How many numbers its largest layer has, which FSDP gathers as a whole."""
        return max(self.vocabulary * self.hidden, *(a * b for a, b in self.linears))


SHAPES = {
    "tiny": Shape(1024, 64, 128, 2, 4, 2),
    "small": Shape(4096, 256, 512, 4, 4, 2),
    "llama-1b": Shape(128256, 2048, 8192, 16, 32, 8),
    "llama-8b": Shape(128256, 4096, 14336, 32, 32, 8),
}
"""What can be built without a file: two small ones (0.1 and 3.4 million parameters), and those of
Llama 3.2 1B and Llama 3.1 8B."""

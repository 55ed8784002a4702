"""The parts of a program that runs for long: a job, a turn, a line.

A program asks for each of its parts by name. Whoever runs it decides what that means: here each
part is measured at once; ``benchmarks.links.programs`` keeps each part that is done, so that a
program which was interrupted resumes with the next one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from benchmarks.tables import report_progress

__all__ = ["Facts", "Parts", "at_once"]

Facts = dict[str, Any]
"""What a part found, as JSON."""


class Parts(Protocol):
    """Measures a part, or returns what is kept of it."""

    def __call__(self, name: str, seconds: float, measure: Callable[[], Facts]) -> Facts:
        """Return what the part found.

        Args:
            name: of the part; no other part of this program has it.
            seconds: about how long it takes.
            measure: returns what it finds, as JSON; with ``is_unavailable`` set, if this machine
                lacked something that a later run may have.
        """


def at_once(name: str, seconds: float, measure: Callable[[], Facts]) -> Facts:
    """Report the part, and measure it; see ``Parts``."""
    report_progress(f"{name}: about {seconds:.0f} s")
    return measure()

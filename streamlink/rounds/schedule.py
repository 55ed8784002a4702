"""Schedules: numbers that change from round to round, such as a learning rate. Pure.

Each gives one fact of a round's task (``Task.metadata``), the same for all clients. It is a
function of the round's number alone, counted from the job's first round. So a round that is tried
again, sent early or resumed by another server has the same facts.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Self

from pydantic import Field, model_validator

from streamlink.errors import RoundError
from streamlink.rounds.aggregate.named import NamedSettings, named_of

__all__ = [
    "SCHEDULES",
    "Constant",
    "Cosine",
    "Linear",
    "Schedule",
    "Schedules",
    "Step",
    "schedules_of",
]

Schedule = Callable[[int], float | int | str]
"""``schedule(number)`` returns the value for a round; 0 is the job's first round."""

_Number = Annotated[float, Field(allow_inf_nan=False)]
_Count = Annotated[int, Field(ge=1)]


class Constant(NamedSettings):
    """The same value in every round."""

    name = "constant"

    value: str
    """The value, as text."""

    def __call__(self, number: int) -> str:
        """Return the value."""
        return self.value


class Step(NamedSettings):
    """``start``, times ``factor`` after each ``every`` rounds."""

    name = "step"

    start: _Number
    """The value of the first round (the fact's unit)."""
    every: _Count
    """After how many rounds it changes (count)."""
    factor: _Number = 0.1
    """What it is multiplied with (ratio)."""

    def __call__(self, number: int) -> float:
        """Return the value for round ``number``, from 0."""
        return self.start * self.factor ** (number // self.every)


class Linear(NamedSettings):
    """From ``start`` to ``end`` in a straight line, and ``end`` from then on."""

    name = "linear"

    start: _Number
    """The value of the first round (the fact's unit)."""
    end: _Number = 0.0
    """The value of the last of ``rounds``, and of those after it (the fact's unit)."""
    rounds: _Count
    """How many rounds it takes (count)."""

    def __call__(self, number: int) -> float:
        """Return the value for round ``number``, from 0."""
        return self.start + (self.end - self.start) * _far(number, self.rounds)


class Cosine(NamedSettings):
    """From ``start`` to ``end`` along half a cosine (Loshchilov and Hutter 2017, no restarts).

    The rounds of ``warmup`` come first: they rise to ``start`` in equal steps (Goyal et al. 2017).
    """

    name = "cosine"

    start: _Number
    """The largest value: of the first round after the warm-up (the fact's unit)."""
    end: _Number = 0.0
    """The value of the last of ``rounds``, and of those after it (the fact's unit)."""
    rounds: _Count
    """How many rounds it takes, with the warm-up (count)."""
    warmup: Annotated[int, Field(ge=0)] = 0
    """Rounds of the warm-up (count)."""

    @model_validator(mode="after")
    def _leaves_rounds(self) -> Self:
        if self.warmup >= self.rounds:
            raise ValueError(f"warmup is {self.warmup}; it must be below rounds, {self.rounds}")
        return self

    def __call__(self, number: int) -> float:
        """Return the value for round ``number``, from 0."""
        if number < self.warmup:
            return self.start * (number + 1) / (self.warmup + 1)
        far = _far(number - self.warmup, self.rounds - self.warmup)
        return self.end + (self.start - self.end) * (1 + math.cos(math.pi * far)) / 2


def _far(number: int, rounds: int) -> float:
    """Return how far round ``number`` is from the first (0) to the last of ``rounds`` (1)."""
    return min(1.0, number / (rounds - 1)) if rounds > 1 else 1.0


SCHEDULES: dict[str, type[NamedSettings]] = {
    each.name: each for each in (Constant, Cosine, Linear, Step)
}
"""Every schedule, by the name that ``RoundConfig.schedules`` takes."""


@dataclass(frozen=True, slots=True)
class Schedules:
    """The schedules of a job, by the name of the fact that each gives.

    Raises:
        ValueError: a name or a schedule cannot be used.
    """

    by_name: Mapping[str, Schedule] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name, schedule in self.by_name.items():
            if not name or not name.isprintable() or name != name.strip():
                raise ValueError(f"a scheduled fact cannot be called {name!r}; give printable text")
            if not callable(schedule):
                raise ValueError(
                    f"the schedule of {name!r} is {schedule!r}; give a function of the number of "
                    "the round, or one of streamlink.schedules"
                )

    def facts(self, number: int) -> dict[str, str]:
        """Return the facts of a round.

        Args:
            number: of the round, from 0 for the job's first.

        Raises:
            RoundError: a schedule returned no text and no finite number.
        """
        return {name: _text(name, schedule(number)) for name, schedule in self.by_name.items()}


def schedules_of(text: str) -> Schedules:
    """Return the schedules of a text: ``"FACT=NAME:SETTING=VALUE,...;FACT=..."``.

    Raises:
        ValueError: it is not of that form, or a schedule or a setting does not exist; says which.
    """
    found: dict[str, Schedule] = {}
    for each in filter(str.strip, text.split(";")):
        fact, equals, schedule = each.partition("=")
        fact = fact.strip()
        # ``lr:start=0.1``: what stands before the first = is a fact only if no setting begins there
        if not equals or ":" in fact:
            raise ValueError(
                f"{each.strip()!r} is not of the form FACT=NAME:SETTING=VALUE,..., such as "
                "lr=step:start=0.1,every=10"
            )
        if fact in found:
            raise ValueError(f"the fact {fact!r} has two schedules")
        found[fact] = named_of(schedule, SCHEDULES, "schedule")
    return Schedules(found)


def _text(name: str, value: object) -> str:
    if isinstance(value, str):
        return value
    # NumPy's numbers too: their ``repr`` is not a number to a client.
    try:
        number = value if isinstance(value, int) else float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        number = math.nan
    if not math.isfinite(number):
        raise RoundError(
            f"the schedule of {name!r} returned {value!r}; it must be a finite number or text"
        )
    return repr(number)

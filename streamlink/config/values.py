"""The types of values in settings: sizes, patterns, seconds."""

from __future__ import annotations

import re
from fractions import Fraction
from typing import Annotated, Any

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    GetCoreSchemaHandler,
)
from pydantic_core import CoreSchema

from streamlink.config.bandwidth import parse_bwlimit, shown
from streamlink.config.descriptions import docstrings_of

__all__ = [
    "LOSSY_FORMATS",
    "Bwlimit",
    "GiB",
    "KiB",
    "MiB",
    "Names",
    "Patterns",
    "Rules",
    "Seconds",
    "Settings",
    "Size",
    "parse_size",
]

KiB, MiB, GiB = 1 << 10, 1 << 20, 1 << 30

_UNITS = {
    "": 1,
    "B": 1,
    **{f"{p}B": 1000**n for n, p in enumerate("KMGT", 1)},
    **{f"{p}IB": 1024**n for n, p in enumerate("KMGT", 1)},
}


def parse_size(text: str | int) -> int:
    """Return bytes from ``"16MB"`` (decimal), ``"16MiB"`` (binary), ``"1.5 GB"`` or an integer.

    Raises:
        ValueError: when the text is no size, in words that show the accepted forms.
    """
    # A bool is an int in Python, but ``true`` is no size.
    if isinstance(text, int) and not isinstance(text, bool):
        return text
    # No size has more digits. Beyond 4,300 Python converts none, and says so in its own words.
    number = r"(\d{1,30}(?:\.\d{1,30})?)"
    match = re.fullmatch(rf"\s*{number}\s*([KMGT]?I?B?)\s*", str(text), re.IGNORECASE)
    unit = match and match[2].upper()
    if match is None or unit not in _UNITS:
        raise ValueError(
            f"{shown(str(text))} is not a size; write it as 2GB (1000³), 2GiB (1024³) or 4096"
        )
    # Exact: a product of floats may lie just below the whole number, and ``int`` would lose a byte.
    return int(Fraction(match[1]) * _UNITS[unit])


def _checked_bwlimit(text: str) -> str:
    parse_bwlimit(text)
    return text


def _at_commas(given: object) -> object:
    return given.split(",") if isinstance(given, str) else given


Size = Annotated[int, BeforeValidator(parse_size)]
"""A size (bytes): an integer, or text as ``parse_size`` takes it."""

Bwlimit = Annotated[str, AfterValidator(_checked_bwlimit)]
"""A bandwidth limit: text as ``parse_bwlimit`` takes it."""

Names = Annotated[tuple[str, ...], BeforeValidator(_at_commas)]
"""Several names; a text is split at its commas."""

Patterns = Names
"""Several patterns of names, such as ``lora_*``; a text is split at its commas."""

LOSSY_FORMATS = ("int8", "fp16", "bf16")
"""Formats of numbers that lose precision."""


def _checked_rules(rules: tuple[str, ...]) -> tuple[str, ...]:
    for rule in rules:
        pattern, _, name = rule.rpartition("=")
        if not pattern or name not in LOSSY_FORMATS:
            raise ValueError(
                f"{rule!r} is no rule; write PATTERN=FORMAT, such as *.weight=int8, with one of "
                f"{', '.join(LOSSY_FORMATS)}"
            )
    return rules


Rules = Annotated[Names, AfterValidator(_checked_rules)]
"""Lossy formats for tensors: several PATTERN=FORMAT; a text is split at its commas."""

Seconds = Annotated[float, Field(gt=0, allow_inf_nan=False)]
"""A time (seconds), positive and finite."""


class Settings(BaseModel):
    """Settings that cannot be changed once built; unknown keys are refused."""

    # Unknown keys are refused, because a misspelled deadline would silently keep its default.
    model_config = ConfigDict(frozen=True, extra="forbid")

    @classmethod
    def __get_pydantic_core_schema__(
        cls, source: Any, handler: GetCoreSchemaHandler, /
    ) -> CoreSchema:
        # Before the schema is made, which takes the descriptions over.
        for name, text in docstrings_of(cls).items():
            field = cls.model_fields.get(name)
            if field is not None and field.description is None:
                field.description = text
        return handler(source)

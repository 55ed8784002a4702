"""The help of the settings: names, units and defaults, taken from the fields of the configuration.

``SettingsCommand`` is a command whose ``--help`` lists every setting by section.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo
from typer.core import TyperCommand

from streamlink.config import JobConfig

__all__ = ["SettingsCommand", "described", "flag_of", "help_of", "metavar_of", "sections"]

_PREFACE = (
    "Each can be set in the file of --config, or with --set SECTION.KEY=VALUE. Those that begin "
    "with -- also have their own flag."
)
_ROUNDS = "rounds"


class SettingsCommand(TyperCommand):
    """A command that lists its settings under its options."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write arguments, options and settings, each under its heading."""
        records = {each: each.get_help_record(ctx) for each in self.get_params(ctx)}
        shown = {each: record for each, record in records.items() if record is not None}
        flags = dict(_flags(shown))
        own = {each: record for each, record in shown.items() if record not in flags.values()}
        for heading, kind in (("Arguments", "argument"), ("Options", "option")):
            rows = [record for each, record in own.items() if each.param_type_name == kind]
            if rows:
                with formatter.section(heading):
                    formatter.write_dl(rows)
        if flags:
            self._write_settings(formatter, flags)

    def _write_settings(self, formatter: Any, flags: dict[str, tuple[str, str]]) -> None:
        with formatter.section("Settings"):
            formatter.write_text(_PREFACE)
        has_rounds = any(name.startswith(f"{_ROUNDS}.") for name in flags)
        for section, about, settings in described():
            if section == _ROUNDS and not has_rounds:
                continue  # this command does not use them
            rows = [
                flags.get(each.name, (f"{each.name}={each.metavar}", each.help))
                for each in settings
            ]
            with formatter.section(f"{section} ({about})"):
                formatter.write_dl(rows)


def _flags(shown: dict[Any, tuple[str, str]]) -> Iterator[tuple[str, tuple[str, str]]]:
    """Yield the settings that the command has a flag for, with the flag's row."""
    by_flag = {flag: (each, record) for each, record in shown.items() for flag in each.opts}
    if "--set" not in by_flag:
        return
    for _, _, settings in described():
        for setting in settings:
            found, record = by_flag.get(setting.flag, (None, ("", "")))
            # A command may have an option of the same name that is no setting; the help tells them
            # apart.
            if found is not None and found.help == setting.help:
                yield setting.name, record


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting, as the help shows it."""

    name: str
    """``section.key``."""
    flag: str
    """How its flag is spelled, where a command has one for it."""
    metavar: str
    help: str
    """What it is, its unit and its default."""


def described() -> Iterator[tuple[str, str, list[Setting]]]:
    """Yield every section of the settings, what it is about, and its settings."""
    for section, keys in sections():
        about = (JobConfig.model_fields[section].description or "").rstrip(".")
        found = [
            Setting(f"{section}.{key}", flag_of(key), metavar_of(field), help_of(field))
            for key, field in keys.model_fields.items()
        ]
        yield section, about[:1].lower() + about[1:], found


def sections() -> list[tuple[str, type[BaseModel]]]:
    """Return the sections of the settings: name and class."""
    return [
        (name, field.annotation)
        for name, field in JobConfig.model_fields.items()
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel)
    ]


def flag_of(key: str) -> str:
    """Return the flag of a setting."""
    return f"--{key.replace('_', '-')}"


def metavar_of(field: FieldInfo) -> str:
    """Return how the help writes a value; the docstring of the field has its unit."""
    text = field.description or ""
    # The type does not show the unit: sizes are integers, as counts are.
    if "(bytes)" in text:
        return "SIZE"
    if "(seconds)" in text:
        return "SECONDS"
    if get_origin(field.annotation) is Literal:
        return "|".join(get_args(field.annotation))
    if Path in get_args(field.annotation):
        return "FILE"
    if field.annotation is bool:
        return "yes|no"
    return "N" if field.annotation in (int, float) else "TEXT"


def help_of(field: FieldInfo) -> str:
    """Return the docstring of a setting and its default."""
    text = " ".join((field.description or "").replace("``", "").split())
    default = field.default
    if default is None:
        shown = "none"
    elif default is False:
        shown = "no"
    elif "(bytes)" in text:
        shown = _size(default)
    elif isinstance(default, float):
        shown = f"{default:g}"
    elif default == ():
        shown = "all" if "empty: all" in text else "none"  # its docstring says which
    elif isinstance(default, tuple):
        shown = ",".join(default)
    else:
        shown = str(default)
    return f"{text} [default: {shown}]"


def _size(nbytes: int) -> str:
    """Return a size in the largest unit that divides it."""
    units = (("TiB", 1 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10))
    for unit, factor in units:
        if nbytes and nbytes % factor == 0:
            return f"{nbytes // factor}{unit}"
    return str(nbytes)

"""The help of a command that has settings: every one of them, by section, from their docstrings."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from typer.core import TyperCommand

from streamlink.cli.settings import described

__all__ = ["SettingsCommand"]

_PREFACE = (
    "Each can be given in the file of --config, and as --set SECTION.KEY=VALUE; those that begin "
    "with -- have a flag of their own."
)
_ROUNDS = "rounds"


class SettingsCommand(TyperCommand):
    """A command that lists its settings under its options; one without settings has the options."""

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
                continue  # this command does not look at them
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
            if found is not None and found.help == setting.help:
                yield setting.name, record

"""Command-line flags for the configuration, and messages for its validation errors.

Every key can be set in a YAML file and with ``--set``; frequently used keys also have their own
flag. The help of a flag is the docstring of its field in ``streamlink.config``.
"""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any

import typer
from pydantic import ValidationError
from pydantic.fields import FieldInfo

from streamlink.cli.errors import BadSettings, CommandError
from streamlink.cli.help import flag_of, help_of, metavar_of, sections
from streamlink.config import JobConfig
from streamlink.config.files import load_yaml
from streamlink.config.files import sections as sections_of

__all__ = [
    "LINK",
    "ROUNDS",
    "SERVING",
    "VISITING",
    "config_from",
    "flags",
    "spelled",
]

LINK = (
    "stream.chunk_bytes",
    "stream.window_bytes",
    "stream.bwlimit",
    "timeouts.streaming_read_timeout",
    "timeouts.streaming_ack_wait",
    "timeouts.communication_timeout",
    "grpc.max_message_bytes",
)
"""Settings of one end of a link that have their own flag."""

SERVING = (
    "stream.data_listen",
    "security.certificate",
    "security.key",
    "security.ca",
    "security.tokens",
    "security.insecure",
)
"""Settings of the end that listens: its data port, and its security."""

VISITING = (
    "security.ca",
    "security.certificate",
    "security.key",
    "security.token",
    "security.server_name",
    "security.insecure",
)
"""Security settings of the end that connects."""

ROUNDS = (
    "rounds.min_clients",
    "rounds.wait_for_clients",
    "rounds.num_rounds",
    "rounds.start_round",
    "rounds.train_timeout",
    "rounds.wait_time_after_min_received",
    "rounds.train_task_name",
    "rounds.gather",
    "rounds.take_first",
    "rounds.weights",
    "rounds.non_finite",
    "rounds.aggregator",
    "rounds.clip_norm",
    "rounds.schedules",
    "rounds.choose",
    "rounds.part",
    "rounds.duplex_bytes",
    "rounds.evaluate_every",
    "rounds.evaluate_timeout",
    "rounds.best_metric",
    "rounds.best_mode",
    "rounds.patience",
    "rounds.min_delta",
)
"""Rules of a round that have their own flag."""

_FILE = Annotated[
    Path | None,
    typer.Option(
        "--config",
        metavar="FILE.yaml",
        help="Settings as YAML: sections stream, timeouts, grpc, limits, security, rounds. --set"
        " and flags take precedence.",
    ),
]
_SET = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="SECTION.KEY=VALUE",
        help="Any setting, such as timeouts.open_timeout=60; repeatable. Flags take precedence.",
    ),
]


_CHECK = Annotated[
    bool,
    typer.Option(
        "--check",
        help="Only check all options and files, and end with exit code 0 or 2. The command does "
        "not listen, connect or change anything.",
    ),
]


def flags(names: Iterable[str]) -> Iterator[inspect.Parameter]:
    """Yield the options for settings: ``--config``, ``--set``, and a flag for each name.

    It also yields ``--check``, with which a command only checks its options.
    """
    if not names:
        return
    yield _option("config", _FILE)
    yield _option("set", _SET)
    yield _option("check", _CHECK, default=False)
    for name in names:
        key = name.partition(".")[2]
        field = _field(name)
        flag, text = flag_of(key), help_of(field)
        if field.annotation is bool:
            yield _option(key, Annotated[bool | None, typer.Option(flag, help=text)])
            continue
        info = typer.Option(flag, metavar=metavar_of(field), help=text)
        yield _option(key, Annotated[str | None, info])


def config_from(names: Iterable[str], given: Mapping[str, Any]) -> JobConfig:
    """Build the configuration from the options that ``flags(names)`` gave a command.

    Raises:
        CommandError: a setting is unknown, or its value is not allowed; names it, and the file that
            it is from. Each such fault is reported.
        OSError: the file cannot be read.
    """
    # None where the flag is absent: so the file's value is not replaced by a default.
    overrides = {name: given[name.partition(".")[2]] for name in names}
    try:
        return JobConfig.assemble(given["config"], given["set"] or (), overrides)
    except ValidationError as error:
        given_as_flags = {name for name, value in overrides.items() if value is not None}
        raise BadSettings(_faults(error, given, given_as_flags)) from error
    except ValueError as error:
        raise CommandError(str(error)) from error


def spelled(config: JobConfig) -> list[str]:
    """Return ``--set`` options that give another process the same settings."""
    # Only what differs from the defaults: a command line is limited in length, and ``ps`` shows it.
    found = config.model_dump(exclude_defaults=True)
    return [
        word
        for section, keys in found.items()
        for key, value in keys.items()
        for word in ("--set", f"{section}.{key}={_spelled(value)}")
    ]


def _spelled(value: object) -> str:
    return ",".join(value) if isinstance(value, tuple) else str(value)


def _faults(error: ValidationError, given: Mapping[str, Any], flags: set[str]) -> Iterator[str]:
    """Yield a sentence for each fault, with the name of the file if it is the file's."""
    is_of_file = _origin(given, flags)
    for fault in error.errors(include_url=False):
        where = f"{given['config']}: " if is_of_file(fault["loc"]) else ""
        yield where + _fault(dict(fault))


def _origin(given: Mapping[str, Any], flags: set[str]) -> Callable[[tuple[int | str, ...]], bool]:
    """Return what tells whether the place of a fault is in the file, and no option replaces it."""
    file = sections_of(load_yaml(given["config"])) if given["config"] is not None else {}
    options = {each.partition("=")[0].strip() for each in given["set"] or ()} | flags

    def is_of_file(place: tuple[int | str, ...]) -> bool:
        if len(place) < 2:
            # A section as a whole, or a relation between keys: any source may have a part in it.
            section = str(place[0]) if place else ""
            is_there = section in file if section else bool(file)
            return is_there and not any(each.startswith(section) for each in options)
        section, key = map(str, place[:2])
        keys = file.get(section)
        return isinstance(keys, dict) and key in keys and f"{section}.{key}" not in options

    return is_of_file


def _fault(fault: Mapping[str, Any]) -> str:
    path = [str(part) for part in fault["loc"]]
    name, kind = ".".join(path), fault["type"]
    if kind == "extra_forbidden":
        return f"there is no setting {name!r}{_nearest(path)}"
    if kind == "model_type":
        return f"{name}: expected keys and values, found {fault['input']!r}"
    message = str(fault["msg"]).removeprefix("Value error, ")
    message = message[:1].lower() + message[1:]
    # Our own validators quote the value in their message.
    found = "" if kind == "value_error" else f", not {fault['input']!r}"
    # A relation between two sections has no key of its own; its message names both.
    return f"{name}: {message}{found}" if name else message


def _nearest(path: list[str]) -> str:
    """Return "; did you mean ...?" for a key with a typing error, or of another section."""
    if len(path) == 1:
        return f"; the sections are {', '.join(name for name, _ in sections())}"
    known = [f"{section}.{key}" for section, keys in sections() for key in keys.model_fields]
    # The right key in the wrong section is likelier than a typing error.
    moved = [name for name in known if name.endswith(f".{path[-1]}")]
    close = moved or difflib.get_close_matches(".".join(path), known, n=1, cutoff=0.8)
    return f"; did you mean {close[0]}?" if close else ""


def _field(name: str) -> FieldInfo:
    section, _, key = name.partition(".")
    return dict(sections())[section].model_fields[key]


def _option(name: str, annotation: object, default: object = None) -> inspect.Parameter:
    return inspect.Parameter(
        name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation
    )

"""What all commands share: common options, logging, signals, error messages and exit codes."""

from __future__ import annotations

import inspect
import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import typer
from pydantic import ValidationError
from rich.console import Console

from streamlink.cancel import CancelToken
from streamlink.cli.errors import CommandError, JobFailed, exit_code, sentence, sentences
from streamlink.cli.settings import config_from, flags
from streamlink.config import JobConfig
from streamlink.errors import AbortCode, Cancelled, StreamAborted, StreamlinkError
from streamlink.logs import configure, everything_in_json, json_line
from streamlink_fl import signals

__all__ = ["Common", "a_job", "command", "in_words", "only_server_failed"]

logger = logging.getLogger("streamlink.command")

LEVELS = ("debug", "info", "warning", "error")


@dataclass(frozen=True, slots=True)
class Common:
    """What every command gets in addition to its own options."""

    config: JobConfig
    console: Console
    """For progress bars and log lines: stderr, so that stdout has only the command's result."""
    log_level: str = "info"
    log_file: Path | None = None
    json_logs: bool = False
    is_check: bool = False
    """The command ends after it has checked all its options."""
    cancel: CancelToken = field(default_factory=CancelToken)
    """SIGINT, SIGTERM and SIGHUP cancel it; every operation that may take long checks it."""

    def passed(self) -> None:
        """Report that all checks passed."""
        typer.echo("checked: all options and files can be used")


_LOG_OPTIONS = {
    "log_level": (
        Annotated[
            str, typer.Option(metavar="LEVEL", help=f"{', '.join(LEVELS)}; debug adds tracebacks.")
        ],
        "info",
    ),
    "log_file": (
        Annotated[
            Path | None, typer.Option(metavar="FILE", help="Append the log to this file too.")
        ],
        None,
    ),
    "json_logs": (
        Annotated[bool, typer.Option("--json-logs", help="Log one JSON object per line.")],
        False,
    ),
}


def command(*names: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Turn a function whose last parameter is ``common: Common`` into a command for typer.

    The command has the function's other parameters, the log's options and, where ``names`` (of
    settings, see ``settings.LINK``) are given, ``--config``, ``--set`` and their flags.
    """

    def decorate(function: Callable[..., None]) -> Callable[..., None]:
        def run(**given: Any) -> None:
            own = {name: given[name] for name in own_names}
            in_json = given["json_logs"]
            is_child = given.get("report_fd") is not None
            stop = _Stop(is_child=is_child)
            # The order matters. Signals outermost, so that none is lost while an error is reported;
            # the stop is closed first, so that no line follows the last one.
            words = in_words(given["log_level"], in_json, site=_site(given), is_child=is_child)
            with signals.Cancelling(stop), words, _all(in_json), closing(stop):
                function(**own, common=_common(names, given, stop.token))

        # ``eval_str``: annotations are strings here, and typer needs the objects. The last
        # parameter, ``common``, is made by ``run`` and is no option.
        own = list(inspect.signature(function, eval_str=True).parameters.values())[:-1]
        own_names = [each.name for each in own]
        parameters = [
            *(each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in own),
            *flags(names),
            *_log_options(),
        ]
        run.__name__, run.__doc__ = function.__name__, function.__doc__
        run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        return run

    return decorate


@contextmanager
def a_job() -> Iterator[None]:
    """Treat errors in the block as a failed job (exit code 1), not as a wrong command (2)."""
    try:
        yield
    except Cancelled:
        raise
    except (StreamlinkError, OSError) as error:
        raise JobFailed(sentence(error)) from error


def _log_options() -> Iterator[inspect.Parameter]:
    for name, (annotation, default) in _LOG_OPTIONS.items():
        yield inspect.Parameter(
            name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation
        )


def _common(names: tuple[str, ...], given: dict[str, Any], token: CancelToken) -> Common:
    # Under --json-logs there are no bars, wherever stderr goes.
    console = Console(stderr=True, force_terminal=False if given["json_logs"] else None)
    if given["log_level"].lower() not in LEVELS:
        raise CommandError(f"--log-level is one of {', '.join(LEVELS)}, not {given['log_level']!r}")
    is_check = given.get("check", False)
    _begin_log(given, console, is_check=is_check)
    config = config_from(names, given) if names else JobConfig()
    options = {name: given[name] for name in _LOG_OPTIONS}
    return Common(config, console, **options, is_check=is_check, cancel=token)


def _begin_log(given: dict[str, Any], console: Console, *, is_check: bool) -> None:
    file = given["log_file"]
    if is_check:
        from streamlink.cli.checks import check_log  # which takes much of the package

        check_log(file)
        file = None  # to open it would create it, and its directory
    configure(given["log_level"], file, given["json_logs"], rich=console, site=_site(given))


def _site(given: dict[str, Any]) -> str:
    """Return the name of a client that shares the terminal with others; empty: it is alone."""
    return given.get("name", "") if given.get("report_fd") is not None else ""


@contextmanager
def _all(in_json: bool) -> Iterator[None]:
    """Under ``--json-logs``, write everything that Python logs to stderr as JSON."""
    if not in_json:
        yield
        return
    with everything_in_json():
        yield


@contextmanager
def in_words(log_level: str, in_json: bool, *, site: str, is_child: bool) -> Iterator[None]:
    """End the command with an exit code, and with ``error: ...`` where it failed.

    Args:
        log_level: with ``debug`` a traceback is logged, too.
        in_json: write JSON.
        site: stands before the error; empty: nothing does.
        is_child: whether another process at the same terminal reports what concerns all of them.

    Raises:
        typer.Exit: the block failed; with its exit code.
    """
    try:
        yield
    except (StreamlinkError, ValidationError, OSError, KeyboardInterrupt) as error:
        if log_level.lower() == "debug":
            logger.debug("the command ended early", exc_info=True)
        if is_child and only_server_failed(error):
            pass  # the server shares this terminal and has reported it
        elif not isinstance(error, KeyboardInterrupt | Cancelled):
            who = f"{site}: " if site else ""
            for text in sentences(error):
                _say(f"error: {who}{text}", "failed", exit_code(error), in_json)
        elif not is_child:  # in a fleet only the parent reports a Ctrl-C
            _say("stopped", "stopped", exit_code(error), in_json)
        raise typer.Exit(exit_code(error)) from None


def only_server_failed(error: BaseException) -> bool:
    """Tell whether a client failed only because its server failed."""
    cause = error.__cause__
    return isinstance(cause, StreamAborted) and cause.by_peer and cause.code is AbortCode.CANCELLED


def _say(text: str, event: str, code: int, in_json: bool) -> None:
    level = "ERROR" if event == "failed" else "INFO"
    line = json_line(level, text, event, exit_code=code) if in_json else text
    typer.echo(line, err=True)


class _Stop:
    """Cancels a command when its process gets a signal, and logs that.

    The signal thread writes the log line; without the lock it could appear after *stopped*.
    """

    def __init__(self, *, is_child: bool) -> None:
        self.token = CancelToken()
        self._lock = threading.Lock()
        self._announces = not is_child  # the parent at the terminal logs it for all

    def __call__(self, name: str) -> None:
        self.token.cancel(name)  # first, because writing to a stderr that nobody reads may block
        with self._lock:
            if self._announces:
                logger.info("stopping (%s); Ctrl-C ends it at once", name)

    def close(self) -> None:
        """Log no more signals."""
        with self._lock:
            self._announces = False

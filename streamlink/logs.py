"""The log of the command line: plain lines, or one JSON object per line.

Library code only calls ``logging.getLogger(__name__)``; the command line configures the output
here. Text from a peer (a name, a reason, a path) may contain control characters that move the
cursor or forge a line (log injection), so each record is escaped when it is written, in one place.
"""

from __future__ import annotations

import json as jsonlib
import logging
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType

from rich.console import Console
from rich.highlighter import NullHighlighter
from rich.logging import RichHandler

__all__ = ["configure", "escape", "everything_in_json", "json_line", "summary"]

Fact = str | int | float | bool
"""The type of a value in a summary."""

_LOGGER = "streamlink"

# C0, DEL and C1; line and paragraph separators; bidirectional control characters.
_CONTROLS = (*range(0x20), *range(0x7F, 0xA0), *range(0x2028, 0x202F), *range(0x2066, 0x206A))
# Lone surrogates too: no file in UTF-8 can hold them, so a name with one would lose its whole line.
_ESCAPES = {code: repr(chr(code))[1:-1] for code in (*_CONTROLS, *range(0xD800, 0xE000))}


def configure(
    level: str | int = "INFO",
    file: str | Path | None = None,
    json: bool = False,
    rich: Console | None = None,
    site: str = "",
    screen_level: str | int | None = None,
) -> None:
    """Send streamlink's log to stderr, and to ``file`` if it is given.

    Calling it again replaces the previous configuration.

    Args:
        level: the least important level to write, as :mod:`logging` names it.
        file: appended to; its directory is created if it is missing.
        json: write JSON objects instead of lines.
        rich: write to this console instead of stderr, so that lines and progress bars share it.
        site: name of this process if several share a terminal: every line has it, and an exception
            takes one line. The file has the traceback.
        screen_level: the least important level for stderr; None: ``level``.

    Raises:
        ValueError: ``level`` is no level.
        OSError: ``file`` cannot be opened.
    """
    logger = logging.getLogger(_LOGGER)
    logger.setLevel(level.upper() if isinstance(level, str) else level)
    # The new outputs are opened before the old ones are removed: if the file cannot be opened, the
    # log goes on as it was.
    outputs = [_screen(rich, json)]
    outputs[0].setFormatter(_JsonLines(site) if json else _Lines(site))
    if screen_level is not None:
        outputs[0].setLevel(screen_level.upper() if isinstance(screen_level, str) else screen_level)
    if file is not None:
        outputs.append(_file(Path(file)))
    for output in logger.handlers[:]:
        logger.removeHandler(output)
        output.close()
    for output in outputs[1:]:
        output.setFormatter(_JsonLines() if json else _Lines())
    for output in outputs:
        logger.addHandler(output)


@contextmanager
def everything_in_json() -> Iterator[None]:
    """Also write the log of other libraries, warnings and uncaught exceptions as JSON.

    Call ``configure(json=True)`` before. It changes the whole process, so it is for programs only.
    """
    ours = logging.getLogger(_LOGGER)
    others = _Others(ours)
    root = logging.getLogger()
    before = sys.excepthook, threading.excepthook
    root.addHandler(others)
    logging.captureWarnings(True)
    sys.excepthook = _tell_uncaught
    threading.excepthook = lambda args: _tell_uncaught(
        args.exc_type, args.exc_value or args.exc_type(), args.exc_traceback
    )
    try:
        yield
    finally:
        sys.excepthook, threading.excepthook = before
        logging.captureWarnings(False)
        root.removeHandler(others)


class _Others(logging.Handler):
    """Passes records of other loggers, from level WARNING on, to our handlers."""

    def __init__(self, ours: logging.Logger) -> None:
        super().__init__(logging.WARNING)
        self._ours = ours

    def emit(self, record: logging.LogRecord) -> None:
        # Ours reach the root logger, too (they propagate), and would be written twice.
        if record.name != _LOGGER and not record.name.startswith(f"{_LOGGER}."):
            for handler in self._ours.handlers:
                handler.handle(record)


def _tell_uncaught(
    kind: type[BaseException], error: BaseException, trace: TracebackType | None
) -> None:
    facts = {"event": "crashed", "facts": {"error": kind.__name__}}
    what = (kind, error, trace)
    logging.getLogger(_LOGGER).critical("uncaught %s", kind.__name__, exc_info=what, extra=facts)


def json_line(level: str, message: str, event: str = "", **facts: Fact) -> str:
    """Return one log line in JSON, for use before the log is configured or after it is closed."""
    now = datetime.now(UTC)
    return jsonlib.dumps(_line(facts, now, level, "streamlink.command", message, event))


def escape(text: str) -> str:
    r"""Return ``text`` with control characters escaped: a newline becomes ``\n``."""
    return text.translate(_ESCAPES)


def summary(logger: logging.Logger, event: str = "transfer done", /, **facts: Fact) -> None:
    """Log one line that people and programs can read.

    ``transfer done peer=site-1 direction=down bytes=4096 seconds=2 rate=0.002MB/s repairs=0``

    Args:
        logger: the logger to use.
        event: what happened.
        facts: in the order to print. The rate is computed from ``bytes`` and ``seconds`` (a MB is
            1000² bytes); in JSON it is ``rate_bytes_per_second``.
    """
    text = " ".join(f"{name}={_value(fact)}" for name, fact in _with_rate(facts).items())
    extra = {"event": event, "facts": facts, "is_summary": True}
    logger.info("%s %s", event, text, extra=extra)


class _Lines(logging.Formatter):
    """``2026-01-31 12:00:00.000+01:00 INFO streamlink.link: message``, a traceback below it.

    The time is local with its UTC offset, so that the logs of two sites can be compared.
    """

    def __init__(self, site: str = "") -> None:
        # The name becomes part of a format string.
        who = site.replace("%", "%%") + ": " if site else ""
        super().__init__(f"%(asctime)s %(levelname)s %(name)s: {who}%(message)s")
        self._site = site

    def formatTime(  # noqa: N802 (logging's name)
        self, record: logging.LogRecord, datefmt: str | None = None
    ) -> str:
        at = datetime.fromtimestamp(record.created, UTC).astimezone()
        return at.isoformat(sep=" ", timespec="milliseconds")

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 (logging's name)
        return escape(super().formatMessage(record))

    # Indented: an exception may quote the peer, and a quote must not look like a log record.
    def formatException(self, ei: logging._SysExcInfoType) -> str:  # noqa: N802 (logging's name)
        if self._site and not logging.getLogger(_LOGGER).isEnabledFor(logging.DEBUG):
            return ""
        return "\n".join(f"  {escape(line)}" for line in super().formatException(ei).split("\n"))


class _JsonLines(logging.Formatter):
    """One JSON object per line; JSON itself escapes control characters."""

    def __init__(self, site: str = "") -> None:
        super().__init__()
        self._facts: Mapping[str, Fact] = {"site": site} if site else {}

    def format(self, record: logging.LogRecord) -> str:
        facts, event = getattr(record, "facts", {}), getattr(record, "event", "")
        is_summary = getattr(record, "is_summary", False)  # its text would repeat the facts
        text = event if is_summary else record.getMessage()
        at = datetime.fromtimestamp(record.created, UTC)
        own = {**self._facts, **facts}
        line = _line(own, at, record.levelname, record.name, text, event)
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        # ``default``: a log line must not fail because a fact is a path or an enum.
        return jsonlib.dumps(line, default=str)


def _line(
    facts: Mapping[str, Fact], at: datetime, level: str, name: str, message: str, event: str
) -> dict[str, object]:
    line: dict[str, object] = {**facts}
    if "rate_bytes_per_second" not in facts and (rate := _rate(facts)) is not None:
        line["rate_bytes_per_second"] = rate
    line |= {"time": at.isoformat(), "level": level, "logger": name, "message": message}
    return line | ({"event": event} if event else {})


def _screen(console: Console | None, json: bool) -> logging.Handler:
    if console is None:
        return logging.StreamHandler()
    # rich would wrap lines at 80 columns if the console is a file.
    if json or not console.is_terminal:
        return logging.StreamHandler(console.file)
    return RichHandler(
        console=console,
        highlighter=NullHighlighter(),
        show_time=False,
        show_level=False,
        show_path=False,
    )


def _file(path: Path) -> logging.Handler:
    path.parent.mkdir(parents=True, exist_ok=True)
    return logging.FileHandler(path, encoding="utf-8")


def _with_rate(facts: Mapping[str, Fact]) -> dict[str, Fact]:
    rate = _rate(facts)
    shown: dict[str, Fact] = {}
    for name, fact in facts.items():
        shown[name] = fact
        if name == "seconds" and rate is not None:
            shown["rate"] = f"{rate / 1e6:.4g}MB/s"
    return shown


def _rate(facts: Mapping[str, Fact]) -> float | None:
    nbytes, seconds = facts.get("bytes"), facts.get("seconds")
    if isinstance(nbytes, int) and isinstance(seconds, int | float) and seconds > 0:
        return nbytes / seconds
    return None


def _value(fact: Fact) -> str:
    if isinstance(fact, float):
        return f"{fact:.6g}"
    text = str(fact)
    plain = text and not any(c.isspace() or c in '="' for c in text)
    return text if plain else jsonlib.dumps(text, ensure_ascii=False)

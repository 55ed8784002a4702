"""What the command line writes to its log: plain lines, or one JSON object a line.

Library code only calls ``logging.getLogger(__name__)``; where the lines go is decided here, once,
by the command line. What a peer sent (its name, a reason, a path) may hold control characters that
move the cursor or forge a line, so each record is escaped when it is written, not where it is made.
"""

from __future__ import annotations

import json as jsonlib
import logging
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

from rich.console import Console
from rich.highlighter import NullHighlighter
from rich.logging import RichHandler

__all__ = ["configure", "escape", "summary"]

Fact = str | int | float | bool
"""What a summary may say about a transfer."""

_LOGGER = "streamlink"

# C0, DEL and C1; line and paragraph separators; marks that turn the direction of writing.
_CONTROLS = (*range(0x20), *range(0x7F, 0xA0), *range(0x2028, 0x202F), *range(0x2066, 0x206A))
_ESCAPES = {code: repr(chr(code))[1:-1] for code in (*_CONTROLS, *range(0xD800, 0xE000))}


def configure(
    level: str | int = "INFO",
    file: str | Path | None = None,
    json: bool = False,
    rich: Console | None = None,
) -> None:
    """Send streamlink's log to stderr, and to ``file`` too if one is named.

    Calling it again replaces what the last call set up.

    Args:
        level: the least important level to write, as :mod:`logging` names it.
        file: appended to; its directory is made when missing.
        json: write JSON objects instead of lines.
        rich: write to this console instead of stderr, so that lines and progress bars share it.

    Raises:
        ValueError: ``level`` is no level.
        OSError: ``file`` cannot be opened.
    """
    logger = logging.getLogger(_LOGGER)
    logger.setLevel(level.upper() if isinstance(level, str) else level)
    outputs = [_screen(rich, json)]
    if file is not None:
        outputs.append(_file(Path(file)))
    for output in logger.handlers[:]:
        logger.removeHandler(output)
        output.close()
    for output in outputs:
        output.setFormatter(_JsonLines() if json else _Lines())
        logger.addHandler(output)


def escape(text: str) -> str:
    r"""Return ``text`` with control characters spelled out: a newline becomes ``\n``."""
    return text.translate(_ESCAPES)


def summary(logger: logging.Logger, event: str = "transfer done", /, **facts: Fact) -> None:
    """Log one line that a person and a program can both read.

    ``transfer done peer=site-1 direction=down bytes=4096 seconds=2 rate=0.002MB/s repairs=0``

    Args:
        logger: whom to log as.
        event: what happened.
        facts: in the order to print. From ``bytes`` and ``seconds`` the rate follows by itself (a
            MB is 1000² bytes); JSON carries it as ``rate_bytes_per_second``.
    """
    text = " ".join(f"{name}={_value(fact)}" for name, fact in _with_rate(facts).items())
    logger.info("%s %s", event, text, extra={"event": event, "facts": facts})


class _Lines(logging.Formatter):
    """``2026-01-31 12:00:00,000 INFO streamlink.link: message``, a traceback indented below it."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s: %(message)s")

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 (logging's name)
        return escape(super().formatMessage(record))

    # Indented, because an exception may quote the peer, and a quote must not pass for a record.
    def formatException(self, ei: logging._SysExcInfoType) -> str:  # noqa: N802 (logging's name)
        return "\n".join(f"  {escape(line)}" for line in super().formatException(ei).split("\n"))


class _JsonLines(logging.Formatter):
    """One object a line. JSON escapes control characters by its own rules."""

    def format(self, record: logging.LogRecord) -> str:
        facts = getattr(record, "facts", {})
        line: dict[str, object] = {**facts}
        if (rate := _rate(facts)) is not None:
            line["rate_bytes_per_second"] = rate
        line["time"] = datetime.fromtimestamp(record.created, UTC).isoformat()
        line["level"] = record.levelname
        line["logger"] = record.name
        line["message"] = getattr(record, "event", record.getMessage())
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return jsonlib.dumps(line, default=str)


def _screen(console: Console | None, json: bool) -> logging.Handler:
    if console is None:
        return logging.StreamHandler()
    # A console that is a file would fold lines at a width nobody asked for.
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

"""Log lines: escaped, greppable, and JSON when asked."""

import io
import json
import logging
import sys
import threading
import time
import warnings
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from streamlink import logs

LOG = logging.getLogger("streamlink.somewhere")


@pytest.fixture(autouse=True)
def _restored_logger() -> Iterator[None]:
    logger = logging.getLogger("streamlink")
    before = logger.level, logger.handlers[:]
    yield
    for output in [o for o in logger.handlers if o not in before[1]]:
        output.close()
    logger.level, logger.handlers = before


def test_a_summary_is_one_line_of_facts_with_the_rate(capsys: pytest.CaptureFixture[str]) -> None:
    logs.configure()
    logs.summary(LOG, peer="site-1", direction="down", bytes=8_000_000, seconds=2.0, repairs=0)
    expected = "peer=site-1 direction=down bytes=8000000 seconds=2 rate=4MB/s repairs=0\n"
    line = capsys.readouterr().err
    assert line.endswith(f"INFO streamlink.somewhere: transfer done {expected}")


def test_a_line_says_how_far_its_time_is_from_utc(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    logs.configure()
    with monkeypatch.context() as patch:
        patch.setenv("TZ", "XYZ-5:30")  # east of Greenwich, as POSIX has it
        time.tzset()
        LOG.warning("here")
    time.tzset()
    line = capsys.readouterr().err
    at = datetime.fromisoformat(line.partition(" WARNING ")[0])
    assert at.utcoffset() == timedelta(hours=5, minutes=30)
    assert abs(at.timestamp() - time.time()) < 60


def test_a_summary_without_time_has_no_rate(capsys: pytest.CaptureFixture[str]) -> None:
    logs.configure()
    logs.summary(LOG, "round done", bytes=0, seconds=0, round=3)
    assert capsys.readouterr().err.endswith("round done bytes=0 seconds=0 round=3\n")


@pytest.mark.parametrize("value", ["two words", 'a"quote', "a=b", "", "tab\there"])
def test_a_fact_that_is_no_plain_word_is_quoted(
    value: str, capsys: pytest.CaptureFixture[str]
) -> None:
    logs.configure()
    logs.summary(LOG, reason=value)
    text = capsys.readouterr().err.partition("reason=")[2]
    assert json.loads(text.replace("\\\\t", "\\t")) == value


def test_json_carries_the_facts_as_numbers(capsys: pytest.CaptureFixture[str]) -> None:
    logs.configure(json=True)
    logs.summary(LOG, peer="site-1", bytes=8_000_000, seconds=2.0)
    line = json.loads(capsys.readouterr().err)
    del line["time"]
    assert line == {
        "peer": "site-1",
        "bytes": 8_000_000,
        "seconds": 2.0,
        "rate_bytes_per_second": 4e6,
        "level": "INFO",
        "logger": "streamlink.somewhere",
        "message": "transfer done",
        "event": "transfer done",
    }


def test_a_peer_cannot_forge_a_line_or_move_the_cursor(capsys: pytest.CaptureFixture[str]) -> None:
    logs.configure()
    LOG.warning("peer %s left", "x\n2026-01-01 INFO all is well\x1b[2J\u202e")
    text = capsys.readouterr().err
    assert text.count("\n") == 1
    assert r"x\n2026-01-01 INFO all is well\x1b[2J\u202e left" in text


def test_a_traceback_is_indented_and_escaped(capsys: pytest.CaptureFixture[str]) -> None:
    logs.configure()
    try:
        raise ValueError("said\n\x1b[31mred")
    except ValueError:
        LOG.exception("failed")
    first, *rest = capsys.readouterr().err.splitlines()
    assert first.endswith("failed")
    assert all(line.startswith("  ") for line in rest)
    assert rest[-1] == r"  \x1b[31mred"


@pytest.mark.parametrize("level", ["info", "debug"])
def test_where_sites_share_a_terminal_each_line_names_its_site_and_the_file_has_the_traceback(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], level: str
) -> None:
    logs.configure(level, tmp_path / "log", site="100%d\n")
    try:
        raise ValueError("no")
    except ValueError:
        LOG.exception("failed")
    first, *rest = capsys.readouterr().err.splitlines()
    assert first.endswith(r" ERROR streamlink.somewhere: 100%d\n: failed")
    assert bool(rest) == (level == "debug")
    assert "  ValueError: no" in (tmp_path / "log").read_text()


def test_json_names_the_site(capsys: pytest.CaptureFixture[str]) -> None:
    logs.configure(json=True, site="site-1")
    LOG.info("hello")
    assert json.loads(capsys.readouterr().err)["site"] == "site-1"


def test_json_carries_the_traceback(capsys: pytest.CaptureFixture[str]) -> None:
    logs.configure(json=True)
    try:
        raise ValueError("no")
    except ValueError:
        LOG.exception("failed")
    assert "ValueError: no" in json.loads(capsys.readouterr().err)["exception"]


@given(text=st.text())
def test_escaped_text_is_printable_on_one_line(text: str) -> None:
    shown = logs.escape(text)
    assert "\x1b" not in shown
    assert shown.splitlines() == ([shown] if shown else [])
    shown.encode()


def test_the_file_gets_the_same_lines_and_its_directory_is_made(tmp_path: Path) -> None:
    logs.configure(file=tmp_path / "new" / "server.log")
    LOG.info("naïve → yes")
    assert "naïve → yes" in (tmp_path / "new" / "server.log").read_text("utf-8")


def test_a_second_call_replaces_the_first(capsys: pytest.CaptureFixture[str]) -> None:
    logs.configure("DEBUG")
    logs.configure("warning")
    LOG.info("hidden")
    LOG.warning("shown")
    assert capsys.readouterr().err.count("\n") == 1


@pytest.mark.parametrize(("terminal", "as_json"), [(True, False), (False, False), (True, True)])
def test_lines_share_the_console_of_the_bars(terminal: bool, as_json: bool) -> None:
    console = Console(file=io.StringIO(), force_terminal=terminal, width=200)
    logs.configure(json=as_json, rich=console)
    LOG.info("[bold]as it is[/bold]")
    assert isinstance(console.file, io.StringIO)
    assert "[bold]as it is[/bold]" in console.file.getvalue()


def test_an_unknown_level_is_refused() -> None:
    with pytest.raises(ValueError, match="CHATTY"):
        logs.configure("chatty")


def test_json_carries_the_sentence_and_the_name_of_an_event(
    capsys: pytest.CaptureFixture[str],
) -> None:
    logs.configure(json=True)
    extra = {"event": "session lost", "facts": {"peer": "site-1"}}
    LOG.warning("connection to %s lost", "site-1", extra=extra)
    line = json.loads(capsys.readouterr().err)
    assert (line["event"], line["peer"]) == ("session lost", "site-1")
    assert line["message"] == "connection to site-1 lost"


def test_what_others_say_is_json_too(capsys: pytest.CaptureFixture[str]) -> None:
    logs.configure(json=True)
    with logs.everything_in_json():
        logging.getLogger("grpc._server").error("broken\nhard")
        logging.getLogger("another").info("not worth a line")
        with warnings.catch_warnings():
            warnings.simplefilter("always")
            warnings.warn("old", DeprecationWarning, stacklevel=1)
        LOG.info("ours, once")
    lines = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert [line["logger"] for line in lines] == [
        "grpc._server",
        "py.warnings",
        "streamlink.somewhere",
    ]


def test_what_nobody_caught_is_json_too(capsys: pytest.CaptureFixture[str]) -> None:
    logs.configure(json=True)
    with logs.everything_in_json():
        thread = threading.Thread(target=lambda: 1 // 0)
        thread.start()
        thread.join()
        sys.excepthook(ValueError, ValueError("no"), None)
    first, second = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert (first["event"], first["error"]) == ("crashed", "ZeroDivisionError")
    assert "ValueError: no" in second["exception"]


def test_what_others_say_goes_its_own_way_afterwards() -> None:
    before = sys.excepthook, threading.excepthook, logging.getLogger().handlers[:]
    with logs.everything_in_json():
        pass
    assert before == (sys.excepthook, threading.excepthook, logging.getLogger().handlers)

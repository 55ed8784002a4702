"""Which part of a traceback is the user's."""

from __future__ import annotations

import json
import traceback
from collections.abc import Callable
from pathlib import Path

import pytest

from streamlink.config import parse_size
from streamlink.errors import ModelError
from streamlink.executors.executor import TaskResult
from streamlink.executors.task_streams import run_work
from streamlink.executors.tracebacks import place_of, users_frames


def caught(work: Callable[[], object]) -> Exception:
    """What ``work`` raises, from under a frame of ours, as an executor would catch it."""
    with pytest.raises(Exception) as raised:
        run_work(work, None, reports_progress=True)  # type: ignore[arg-type]
    return raised.value


def divide() -> float:
    return 1 / 0


def parse() -> object:
    return json.loads("{")


def misuse() -> TaskResult:
    return TaskResult(weight=-1)


def test_a_traceback_begins_with_the_users_first_line() -> None:
    error = caught(divide)
    trace = error.__traceback__
    assert trace is not None
    trace = trace.tb_next  # this file's own frame, which called ours
    assert trace is not None
    frames = traceback.extract_tb(users_frames(trace))
    assert [each.name for each in frames] == ["divide"]


def test_a_traceback_without_the_users_code_is_left_whole() -> None:
    with pytest.raises(ValueError, match="not a size") as raised:
        parse_size("many")
    trace = raised.value.__traceback__
    assert trace is not None
    assert users_frames(trace.tb_next) is trace.tb_next


@pytest.mark.parametrize("work", [divide, parse, misuse])
def test_the_place_of_an_error_is_the_users_last_line(work: Callable[[], object]) -> None:
    place = place_of(caught(work))
    assert place.startswith(str(Path(__file__)))
    assert place.endswith(f"line {work.__code__.co_firstlineno + 1}, in {work.__name__}")


def test_an_error_without_the_users_code_has_no_place() -> None:
    assert place_of(ModelError("never raised")) == ""

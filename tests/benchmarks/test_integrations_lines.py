"""The lines of a framework's objects that a case cuts: objects go over them, and come through."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from benchmarks.integrations.lines import Lines
from streamlink import LinkConfig, StreamlinkError
from streamlink.objects import ObjectClient, ObjectServer

MODEL = {"weight": np.arange(4_000_000, dtype=np.float32)}
HALF = MODEL["weight"].nbytes // 2
SOON = LinkConfig(timeouts={"reconnect_timeout": 1, "rejoin_timeout": 1})


@pytest.fixture(params=["grpc", "tcp"])
def lines(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Lines]:
    """Lines to a server with one object, whose bytes are on the first line or on the second."""
    with Lines() as both:
        host = both.behind.partition(":")[0]
        at = () if request.param == "grpc" else (f"tcp://{host}:{both.port + 1}",)
        config = LinkConfig(stream={"data_listen": at}, timeouts=SOON.timeouts)
        with ObjectServer(f"{host}:{both.port}", config=config, spool=tmp_path) as server:
            request.node.reference = server.put(MODEL)
            yield both


def fetch(lines: Lines, request: pytest.FixtureRequest) -> bool:
    into = {"weight": np.zeros_like(MODEL["weight"])}
    with ObjectClient(f"127.0.0.1:{lines.port}", name="site-1", config=SOON) as client:
        client.get(str(request.node.reference), into=into)
    return np.array_equal(into["weight"], MODEL["weight"])


def test_a_reset_in_the_middle_of_a_model_is_resumed(
    lines: Lines, request: pytest.FixtureRequest
) -> None:
    lines.reset_after((HALF, "down"))
    assert fetch(lines, request)
    assert lines.resets == 1


def test_a_planned_cut_that_no_line_has_come_to_is_missed(
    lines: Lines, request: pytest.FixtureRequest
) -> None:
    lines.reset_after((HALF, "down"), (HALF, "up"))
    assert fetch(lines, request)
    assert lines.missed == [(HALF, "up")]


def test_a_cut_takes_both_lines_until_they_are_mended(
    lines: Lines, request: pytest.FixtureRequest
) -> None:
    lines.cut_after(HALF)
    with pytest.raises(StreamlinkError):
        fetch(lines, request)
    lines.mend()
    assert fetch(lines, request)

"""An object server on the first free port of a range, with a spool of its own."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from streamlink.errors import AddressInUse
from streamlink.integrations.ports import listening, with_own_spool
from streamlink.objects import ObjectServer


def test_any_free_port_is_taken_where_none_is_named() -> None:
    with listening("127.0.0.1:0", ObjectServer) as server:
        assert server.port > 0


def test_a_taken_port_is_skipped() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        first = taken.getsockname()[1]
        with listening(f"127.0.0.1:{first}-{first + 20}", ObjectServer) as server:
            assert first < server.port <= first + 20


def test_a_range_without_a_free_port_is_an_error() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(AddressInUse):
            listening(f"127.0.0.1:{port}-{port}", ObjectServer)


def of_a_job(spools: Path) -> ObjectServer:
    return with_own_spool("127.0.0.1:0", ObjectServer, spools)


def test_two_jobs_at_a_time_have_two_spools_and_a_later_one_removes_what_was_left(
    tmp_path: Path,
) -> None:
    left = tmp_path / "spool-0" / ("5" * 32)  # an object of a job that was killed
    with of_a_job(tmp_path / "spool"):
        left.mkdir()
        with of_a_job(tmp_path / "spool"):
            assert left.exists()
            assert sorted(each.name for each in tmp_path.iterdir()) == ["spool-0", "spool-1"]
    with of_a_job(tmp_path / "spool"):
        assert not left.exists()

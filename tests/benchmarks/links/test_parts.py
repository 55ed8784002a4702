"""The small parts: looks at processes, the rate of a line, and what the peers say."""

from __future__ import annotations

import os
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

from benchmarks.links import trees
from benchmarks.links.accuracy import steady_rate
from benchmarks.links.cases import Moment, Run
from benchmarks.links.measuring import limit_seconds, version_of
from benchmarks.links.peers import NUMPY, Peer, found
from benchmarks.links.watching import thinned
from tests.benchmarks.links.cases import case_of, run_of


def test_a_run_survives_its_json() -> None:
    run = run_of()
    assert Run.from_json(run.as_json()) == run


def test_a_picture_keeps_the_highest_of_the_moments_that_it_leaves_out() -> None:
    moments = [Moment(float(at), 100 if at == 7 else at) for at in range(20)]
    kept = thinned(moments, 4)
    assert len(kept) == 4
    assert Moment(7.0, 100) in kept


def test_the_start_of_a_transfer_does_not_count_to_the_rate_of_a_line() -> None:
    moments = [(0.0, 0), (3.0, 10), (6.0, 110), (9.0, 210)]
    assert steady_rate(moments) == pytest.approx(200 * 8 / 6)


def test_a_line_that_carried_nothing_has_no_rate() -> None:
    assert steady_rate([(0.0, 0)]) == 0.0


def test_this_process_is_in_its_own_tree_and_has_memory_and_time() -> None:
    pids = trees.members(os.getpid())
    assert os.getpid() in pids
    assert trees.rss_bytes(pids) > 1 << 20
    assert trees.cpu_seconds(pids) > 0


def test_a_process_that_has_ended_uses_nothing() -> None:
    nobody = [2**22 - 1]
    assert (trees.rss_bytes(nobody), trees.cpu_seconds(nobody)) == (0, 0.0)


def test_a_slow_line_has_the_time_that_it_needs() -> None:
    slow = case_of(line="200KiB", mib=24)
    assert limit_seconds(slow) > 2 * slow.line.seconds(slow.payload.size_bytes)


@pytest.mark.parametrize(("name", "peer"), [(name, peer) for name, (peer, _) in found().items()])
def test_each_peer_has_both_ends_and_pins_what_it_needs(name: str, peer: Peer) -> None:
    module: ModuleType = import_module(peer.module)
    assert callable(module.send)
    assert callable(module.receive)
    if peer.environment is not None:
        assert all("==" in each for each in peer.environment.wants)
        assert NUMPY in peer.environment.wants
        assert not peer.environment.has_ours


def test_the_raw_socket_comes_first() -> None:
    assert list(found())[:2] == ["raw socket", "streamlink"]


def test_a_peer_that_this_machine_has_not_says_so(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    peer, _ = found()["rsync, daemon"]
    assert peer.missing() == "there is no rsync on this machine"


@pytest.mark.processes(quick=True)
def test_the_first_line_of_what_rsync_says_of_itself_is_its_version(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    program = tmp_path / "rsync"
    program.write_text("#!/bin/sh\necho 'rsync  version 3.4.1  protocol version 32'\necho more\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    peer, _ = found()["rsync, daemon"]
    assert version_of(peer) == "rsync  version 3.4.1  protocol version 32"


def test_the_version_of_a_peer_with_an_environment_is_its_pin() -> None:
    peer, _ = found()["NVFlare download service"]
    assert version_of(peer) == "nvflare==2.9.0"

"""``streamlink serve`` and ``fetch``: real processes, some of them killed on their way."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest

from tests.cli.test_copies import MiB, address, check, killed, source, target, told
from tests.support.commands import Command
from tests.support.dying import command, dying, wait_stopped

__all__ = ["address", "source", "target"]  # fixtures

SMALL = ("--chunk-bytes", "64KiB", "--window-bytes", "256KiB")


def serve(source: Path, address: str, *options: object) -> Command:
    return command("serve", source, "--listen", address, *SMALL, *options)


def fetch(address: str, target: Path, *options: object) -> Command:
    return command("fetch", address, target, *SMALL, *options)


def ended(server: Command, count: int) -> None:
    assert server.end() == 0, server.log
    assert f": {count} fetches done" in server.output


@pytest.mark.processes
def test_a_model_is_served_to_several_and_then_the_server_ends(
    source: Path, tmp_path: Path, address: str
) -> None:
    with (
        serve(source, address, "--count", 2) as server,
        fetch(address, tmp_path / "a") as first,
        fetch(address, tmp_path / "b") as second,
    ):
        for target, each in ((tmp_path / "a", first), (tmp_path / "b", second)):
            got = told(each)
            check(source, target, got, got)
        ended(server, 2)


@pytest.mark.processes
@pytest.mark.parametrize("count", [35, 125])
def test_a_fetcher_that_is_killed_and_started_again_goes_on(
    source: Path, target: Path, address: str, count: int
) -> None:
    with serve(source, address, "--count", 1) as server:
        with dying("pwrite", count, "fetch", address, target, *SMALL) as first:
            killed(first)
        with fetch(address, target) as second:
            got = told(second)
        check(source, target, got, got)
        ended(server, 1)
    assert got.before >= MiB


@pytest.mark.processes
@pytest.mark.parametrize("count", [3, 9])
def test_a_server_of_a_model_that_is_killed_and_started_again_goes_on(
    source: Path, target: Path, address: str, count: int
) -> None:
    words = ("serve", source, "--listen", address, *SMALL)
    with dying("preadv", count, *words) as first, fetch(address, target) as fetcher:
        killed(first)
        with serve(source, address, "--count", 1) as second:
            got = told(fetcher)
            ended(second, 1)
    check(source, target, got, got)
    assert got.before >= (count - 2) * MiB - MiB


@pytest.mark.processes
def test_a_served_model_is_asked_and_ended_like_a_job(
    source: Path, target: Path, address: str
) -> None:
    words = ("fetch", address, target, *SMALL, "--name", "site-1")
    with serve(source, address) as server, dying("pwrite", 40, *words, by="STOP") as fetcher:
        server.until(f"listening on {address} ")
        wait_stopped(fetcher)
        with command("status", "--store", source, "--json") as asked:
            assert asked.end() == 0, asked.log
        status = json.loads(asked.output)
        assert (status["program"], status["served"]) == ("serve", 0)
        assert [each["name"] for each in status["clients"]] == ["site-1"]
        with command("abort", "--store", source, "--reason", "wrong one") as order:
            assert order.end() == 0, order.log
        fetcher.interrupt(signal.SIGCONT)
        for each in (server, fetcher):
            assert each.end() == 1
            assert "aborted by the operator: wrong one" in each.log


@pytest.mark.processes
def test_a_server_of_a_model_runs_until_it_is_interrupted(source: Path, target: Path) -> None:
    with serve(source, "127.0.0.1:0") as server:
        address = server.until(r"listening on (127\.0\.0\.1:[1-9]\d*) ")[1]
        with fetch(address, target) as fetcher:
            told(fetcher)
        server.interrupt()
        assert server.end() == 130
    assert not list(source.parent.glob("*.control"))

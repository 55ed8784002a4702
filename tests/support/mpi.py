"""Both ends of a call over MPI, in a process that sends to itself."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from queue import SimpleQueue

import pytest

from streamlink.clock import Clock, running_time
from streamlink.config import LinkConfig
from streamlink.transport.connect import dial, hub_at
from streamlink.transport.mpi.calls import MpiCall
from streamlink.transport.mpi.switchboard import Switchboard
from streamlink.transport.mpi.tags import Kind
from streamlink.transport.ranks import Ranks, ranks_of_this_process
from tests.support.carrier_contract import Line
from tests.support.peers import SMALL, WAIT, until

__all__ = [
    "HERE",
    "MOST",
    "MpiEnds",
    "mpi_ends",
    "mpi_line",
    "mpi_ranks",
    "mpiexec",
    "require_mpi4py",
]

HERE = "mpi://0"

MOST = 100_000
"""The largest message of these calls (bytes)."""


def require_mpi4py() -> None:
    """Skip the test where MPI is not installed."""
    pytest.importorskip("mpi4py", reason="needs the extra mpi: pip install 'streamlink-fl[mpi]'")


def mpiexec(count: int, *command: object) -> list[str]:
    """Return the command that starts ``command`` as so many processes of one MPI job."""
    require_mpi4py()
    # Beside the interpreter, where the package mpich has put it; else that of the machine.
    beside = shutil.which("mpiexec", path=Path(sys.executable).parent)
    program = beside or shutil.which("mpiexec")
    if program is None:
        pytest.skip("there is no mpiexec: pip install 'streamlink-fl[mpi]'")
    return [program, "-n", str(count), *map(str, command)]


class MpiEnds:
    """A switchboard that listens, and calls to it."""

    def __init__(self, switchboard: Switchboard) -> None:
        self.switchboard = switchboard
        self.opened: SimpleQueue[tuple[Kind, MpiCall]] = SimpleQueue()

    def call(self, kind: Kind = Kind.OPEN_STREAM) -> tuple[MpiCall, MpiCall]:
        """Open a call; returns the client's end and the server's."""
        client = self.switchboard.open(self.switchboard.ranks.rank, kind, MOST)
        assert client is not None
        found, server = self.opened.get(timeout=WAIT)
        assert found is kind
        return client, server


@contextmanager
def mpi_ranks(clock: Clock = running_time) -> Iterator[Ranks]:
    """Take part in MPI once more, with messages of its own, and leave again."""
    require_mpi4py()
    # First what begins MPI, and ends it with the process: the others in it come and go.
    assert ranks_of_this_process(running_time).wait_joined(WAIT)
    ranks = Ranks(clock)
    assert ranks.wait_joined(WAIT)
    try:
        yield ranks
    finally:
        ranks.leave()


@contextmanager
def mpi_ends(most_tag: int | None = None) -> Iterator[MpiEnds]:
    """Give a switchboard that listens; at the end no call may be left."""
    with mpi_ranks() as ranks:
        ranks.most_tag = most_tag or ranks.most_tag
        switchboard = Switchboard(ranks, running_time)
        ends = MpiEnds(switchboard)
        switchboard.listen(lambda kind, call: ends.opened.put((kind, call)), MOST)
        yield ends
        until(lambda: switchboard.calls == 0)


def mpi_line(config: LinkConfig = SMALL) -> Line:
    """Return a hub and its clients, all in this process."""
    return Line(
        lambda config, asked: hub_at(HERE, config, on_request=asked, clock=running_time).listen(),
        lambda hub, name: dial(HERE, config, name=name, clock=running_time),
        config,
    )

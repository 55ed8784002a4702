"""The MPI carrier keeps both contracts; both ends are this process, which sends to itself."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from streamlink.cancel import CancelToken
from streamlink.clock import running_time
from streamlink.config import LinkConfig
from streamlink.errors import ConnectFailed, MpiUnavailable, SecurityError
from streamlink.transport.carriers import Readiness
from streamlink.transport.connect import (
    check_dialing,
    check_listening,
    dial,
    hub_at,
)
from tests.support.carrier_contract import ControlCarrierContract, DataCarrierContract, Line
from tests.support.commands import Command
from tests.support.mpi import HERE, mpi_line, mpiexec, require_mpi4py
from tests.support.peers import SMALL, WAIT


class TestMpiCarrier(ControlCarrierContract, DataCarrierContract):
    @pytest.fixture
    def line(self) -> Iterator[Line]:
        require_mpi4py()
        line = mpi_line()
        yield line
        line.close()


def test_a_client_waits_for_a_server_that_does_not_listen_yet() -> None:
    require_mpi4py()
    dialer = dial(HERE, SMALL, name="site-1", clock=running_time)
    control, cancel = dialer.carriers.control, CancelToken()
    assert control.wait_ready(0.0, is_final=lambda: False, cancel=cancel) is Readiness.NOT_YET
    assert control.failure(WAIT) == "no server listens at MPI rank 0"
    with_server = hub_at(HERE, SMALL, clock=running_time)

    def begins() -> bool:
        with_server.listen()  # between two of its looks
        return False

    assert control.wait_ready(WAIT, is_final=begins, cancel=cancel) is Readiness.READY
    assert control.failure(WAIT) == ""
    with_server.close()
    dialer.close()


def test_a_cancelled_client_does_not_wait_for_a_server() -> None:
    require_mpi4py()
    dialer, cancel = dial(HERE, SMALL, name="site-1", clock=running_time), CancelToken()
    cancel.cancel()
    control = dialer.carriers.control
    assert control.wait_ready(1e6, is_final=lambda: False, cancel=cancel) is Readiness.NOT_YET
    dialer.close()


def test_a_rank_that_does_not_exist_is_refused_with_how_many_there_are() -> None:
    require_mpi4py()
    dialer = dial("mpi://7", SMALL, name="site-1", clock=running_time)
    with pytest.raises(ConnectFailed, match="no MPI rank 7: this job has 1 processes"):
        dialer.connect(lambda session, request: None)
    dialer.close()


def test_a_server_listens_at_its_own_rank_only() -> None:
    require_mpi4py()
    with pytest.raises(ConnectFailed, match="cannot listen at mpi://1: this is MPI rank 0"):
        hub_at("mpi://1", SMALL, clock=running_time).listen()


@pytest.mark.parametrize("address", ["mpi://", "mpi://x", "mpi://-1", "mpi://0:8517"])
def test_an_address_that_names_no_rank_is_refused_with_what_to_write(address: str) -> None:
    for check in (check_listening, check_dialing):
        with pytest.raises(ValueError, match="write mpi://RANK, such as mpi://0"):
            check(address, SMALL)


def test_certificates_are_refused_and_not_ignored() -> None:
    secured = LinkConfig(security={"ca": "ca.pem"})
    with pytest.raises(SecurityError, match="MPI has no certificates"):
        check_dialing(HERE, secured)


def test_without_the_extra_the_check_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mpi4py", None)
    with pytest.raises(MpiUnavailable, match=r"streamlink-fl\[mpi\]"):
        check_listening(HERE, SMALL)


# Each end as a program has it that knows MPI, and that closes nothing.
PROGRAM = """
from mpi4py import MPI
import streamlink

if MPI.COMM_WORLD.rank == 0:
    server = streamlink.Server("mpi://0").listen()
    server.wait_for_peers(1, 60)
else:
    work = streamlink.StreamingExecutor(lambda tensor, start, values: values)
    client = streamlink.Client("mpi://0", "site-1", work)
    client.run()
    print("the job is over")
"""


@pytest.mark.processes
def test_processes_that_close_nothing_end_all_the_same(tmp_path: Path) -> None:
    with Command(mpiexec(2, sys.executable, "-c", PROGRAM), tmp_path) as running:
        assert running.end() == 0, running.log
    assert running.output == "the job is over\n"

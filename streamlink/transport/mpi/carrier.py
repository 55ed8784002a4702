"""What ``transport/connect.py`` asks of a carrier of sessions, for MPI: ``mpi://RANK``."""

from __future__ import annotations

from functools import partial

from streamlink.clock import Clock
from streamlink.config import LinkConfig
from streamlink.errors import ConnectFailed, SecurityError
from streamlink.transport.dialer import Carriers
from streamlink.transport.hub import Hub
from streamlink.transport.mpi.client import MpiCarrier
from streamlink.transport.mpi.server import MpiListener
from streamlink.transport.mpi.switchboard import switchboard_of_this_process
from streamlink.transport.mpi.tags import Kind
from streamlink.transport.ranks import require_mpi

__all__ = ["SECURED_BY", "check_dialing", "check_listening", "new_carriers", "new_listener"]

SECURED_BY = "only processes that one mpiexec has started reach each other"


def check_listening(address: str, config: LinkConfig) -> None:
    """See ``ControlModule``."""
    _check(address, config)


def check_dialing(address: str, config: LinkConfig) -> None:
    """See ``ControlModule``."""
    _check(address, config)


def new_listener(address: str, hub: Hub) -> MpiListener:
    """Listen at the rank of this process, which the address has to name.

    Raises:
        ConnectFailed: it names another one, or the other processes of the job did not begin MPI.
    """
    switchboard = switchboard_of_this_process(hub.clock)
    ranks, seconds = switchboard.ranks, hub.config.timeouts.connect_timeout
    if not ranks.wait_joined(seconds):
        raise ConnectFailed(
            f"not every process of the MPI job has begun within {seconds:g} s (connect_timeout)"
        )
    if ranks.rank != _rank_in(address):
        raise ConnectFailed(f"cannot listen at mpi://{address}: this is MPI rank {ranks.rank}")
    return MpiListener(hub, switchboard)


def new_carriers(address: str, config: LinkConfig, clock: Clock) -> Carriers:
    """See ``ControlModule``."""
    _check(address, config)
    # Not called here: the first use begins MPI, which waits for every process of the job.
    switchboard, rank = partial(switchboard_of_this_process, clock), _rank_in(address)
    return Carriers(
        MpiCarrier(rank, Kind.OPEN_SESSION, config.stream, clock, switchboard),
        MpiCarrier(rank, Kind.OPEN_STREAM, config.stream, clock, switchboard),
    )


def _check(address: str, config: LinkConfig) -> None:
    _rank_in(address)
    if config.security.certificate is not None or config.security.ca is not None:
        raise SecurityError(
            "security: MPI has no certificates, and mpi:// does not encrypt; leave certificate, "
            "key and ca unset, or use another address"
        )
    require_mpi()


def _rank_in(address: str) -> int:
    if not (address.isascii() and address.isdigit()):
        raise ValueError(f"mpi://{address} names no rank; write mpi://RANK, such as mpi://0")
    return int(address)

"""How a server divides its file descriptors between its files and those who connect to it.

gRPC accepts every connection, and a descriptor that an idle connection holds is one that a store
cannot open. So before a server listens, the number of its connections is bounded. The rest of the
process's limit is for its own files: stores, spool, ledger, the operator's socket, metrics.
"""

from __future__ import annotations

from dataclasses import dataclass

from streamlink.config import GrpcConfig, LinkConfig
from streamlink.descriptors import HOW_TO_RAISE, in_use, raise_limit
from streamlink.errors import TooFewDescriptors

__all__ = ["Budget", "budget_for", "lanes_for", "with_room"]

_WANTED = 65_536  # beyond that more descriptors are of no use to anybody
_CONNECTIONS_PER_CLIENT = 4  # session and models; and the two before, not yet known to be dead
_DATA_CONNECTIONS_PER_CLIENT = 2  # a model that comes and one that goes, each over its first lane
_DATA_STRANGERS = 64  # connections to a data port that have proven nothing, at most
_OF_GRPC = 16  # what it opens for itself when it begins to listen
_FEWEST_STRANGERS = 16
_CLIENTS_PER_STRANGER = 4  # where a line was cut, all clients come back, in as many waves
_WITHOUT_MEMORY = GrpcConfig().max_clients

# A store has a descriptor for each of its shards, so large models take more than the fewest.
_FILES, _FILES_PER_CLIENT = 64, 16
_FEWEST_FILES, _FEWEST_FILES_PER_CLIENT = 32, 4


@dataclass(frozen=True, slots=True)
class Budget:
    """What a server may have open.

    Attributes:
        connections: all that it accepts at once (count).
        strangers: those of them that have not identified themselves (count).
        lanes: connections to the data port beyond the first of each stream (count).
    """

    connections: int
    strangers: int
    lanes: int


def budget_for(config: LinkConfig) -> Budget:
    """Raise this process's limit as far as is useful, and divide what it is then.

    Raises:
        TooFewDescriptors: the settings cannot work with so few.
    """
    clients = config.grpc.max_clients
    limit = raise_limit(_WANTED)
    used = in_use() + _OF_GRPC
    known = clients * _CONNECTIONS_PER_CLIENT
    data = clients * _data_connections(config)
    room = limit - used - known - data
    # Files come first: strangers get what is left. But with too few of them the clients would push
    # each other out whenever they all come back at once, for ever.
    spare = room - _FILES - clients * _FILES_PER_CLIENT - _data_strangers(config)
    lanes = _lanes_wanted(config)
    fewest = _FEWEST_FILES + clients * _FEWEST_FILES_PER_CLIENT
    at_least = max(_FEWEST_STRANGERS, min(clients // _CLIENTS_PER_STRANGER, room - fewest))
    strangers = min(config.limits.max_unknown_connections, max(at_least, spare - lanes))
    if room - strangers < fewest:
        needed = used + known + data + strangers + fewest
        raise TooFewDescriptors(
            f"max_clients={clients} needs {needed} file descriptors and this process may have "
            f"{limit} (RLIMIT_NOFILE); {HOW_TO_RAISE}, or admit fewer clients"
        )
    return Budget(known + strangers, strangers, max(0, min(lanes, spare - strangers)))


def lanes_for(config: LinkConfig) -> int:
    """Return how many lanes a server may have; 0: it has too few descriptors."""
    try:
        return budget_for(config).lanes
    except TooFewDescriptors:
        return 0


def with_room(config: LinkConfig) -> LinkConfig:
    """Return ``config`` with as many ``max_clients`` as memory and file descriptors have room for.

    Only where ``stream.memory_bytes`` is set and ``max_clients`` is not.
    """
    if not config.stream.memory_bytes or config.is_max_clients_set:
        return config
    free = raise_limit(_WANTED) - in_use() - _OF_GRPC
    strangers = config.limits.max_unknown_connections + _data_strangers(config)
    connections = _CONNECTIONS_PER_CLIENT + _data_connections(config)
    beside = strangers + _FILES + _lanes_wanted(config)
    in_comfort = (free - beside) // (connections + _FILES_PER_CLIENT)
    at_all = (free - _FEWEST_STRANGERS - _FEWEST_FILES) // (connections + _FEWEST_FILES_PER_CLIENT)
    # With few descriptors a server still admits what it would without a shared memory.
    most = max(in_comfort, min(at_all, _WITHOUT_MEMORY), 1)
    return config.admitting(min(config.grpc.max_clients, most))


def _data_connections(config: LinkConfig) -> int:
    """Return how many connections a client has to the data port, lanes apart."""
    return _DATA_CONNECTIONS_PER_CLIENT if _has_data_port(config) else 0


def _lanes_wanted(config: LinkConfig) -> int:
    """Return how many lanes all clients together may have, given the descriptors."""
    if not _has_data_port(config):
        return 0
    most = config.grpc.max_clients * config.stream.client_lanes
    return min(most, config.limits.max_extra_lanes)


def _data_strangers(config: LinkConfig) -> int:
    return _DATA_STRANGERS if _has_data_port(config) else 0


def _has_data_port(config: LinkConfig) -> bool:
    return "none" not in config.stream.data_listen

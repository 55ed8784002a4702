"""What ``transport/connect.py`` asks of a carrier of sessions, for gRPC."""

from __future__ import annotations

from streamlink.clock import Clock
from streamlink.config import LinkConfig
from streamlink.transport.dialer import Carriers
from streamlink.transport.grpc.client import GrpcCarrier
from streamlink.transport.grpc.credentials import Connector, server_credentials
from streamlink.transport.grpc.server import GrpcListener
from streamlink.transport.hub import Hub

__all__ = ["check_dialing", "check_listening", "new_carriers", "new_listener"]


def check_listening(address: str, config: LinkConfig) -> None:
    """See ``ControlModule``."""
    server_credentials(address, config.security)


def check_dialing(address: str, config: LinkConfig) -> None:
    """See ``ControlModule``."""
    Connector(address, config)


def new_listener(address: str, hub: Hub) -> GrpcListener:
    """See ``ControlModule``."""
    return GrpcListener(address, hub)


def new_carriers(address: str, config: LinkConfig, clock: Clock) -> Carriers:
    """Return one connection for the session and one for its streams.

    On a connection that both share, a heartbeat would queue behind megabytes of a model.
    """
    new_channel = Connector(address, config).channel
    return Carriers(
        GrpcCarrier("Session", new_channel, address), GrpcCarrier("Transfer", new_channel, address)
    )

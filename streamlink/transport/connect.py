"""Which carriers an address stands for: the one place that chooses them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Protocol

from streamlink.cancel import CancelToken
from streamlink.clock import Clock
from streamlink.config import LinkConfig
from streamlink.protocol.frames import Request
from streamlink.transport.dialer import Carriers, Dialer
from streamlink.transport.grpc.client import GrpcCarrier
from streamlink.transport.grpc.credentials import Connector, server_credentials
from streamlink.transport.grpc.server import GrpcListener
from streamlink.transport.hub import Hub
from streamlink.transport.identity import Guard, token_reader
from streamlink.transport.session import Session
from streamlink.transport.traffic import Traffic

__all__ = ["Dial", "carriers_to", "check_dialing", "check_listening", "dial", "hub_at", "listen"]


class Dial(Protocol):
    """Makes what a client reaches its server with; ``dial`` is one."""

    def __call__(
        self,
        address: str,
        config: LinkConfig,
        *,
        clock: Clock,
        name: str,
        traffic: Traffic | None = None,
        cancel: CancelToken | None = None,
    ) -> Dialer:
        """Return a dialer for the server at ``address``; nothing connects yet."""


def listen(
    address: str,
    config: LinkConfig,
    *,
    clock: Clock,
    on_session: Callable[[Session], None] | None = None,
    on_closed: Callable[[Session], None] | None = None,
    on_request: Callable[[Session, Request], None] | None = None,
    traffic: Traffic | None = None,
) -> Hub:
    """Return a hub that serves whoever comes to ``address``; see ``Hub``.

    Raises:
        AddressInUse: the address is taken.
        SecurityError: plain text would leave this machine unasked, or a certificate is no good.
        TooFewDescriptors: the settings cannot work with so few as this process may have.
    """
    hub = hub_at(
        address,
        config,
        clock=clock,
        on_session=on_session,
        on_closed=on_closed,
        on_request=on_request,
        traffic=traffic,
    )
    return hub.listen()


def hub_at(
    address: str,
    config: LinkConfig,
    *,
    clock: Clock,
    on_session: Callable[[Session], None] | None = None,
    on_closed: Callable[[Session], None] | None = None,
    on_request: Callable[[Session, Request], None] | None = None,
    traffic: Traffic | None = None,
) -> Hub:
    """Return a hub for ``address`` that does not listen yet; see ``Hub.listen``.

    Raises:
        SecurityError: a file of tokens cannot be used.
    """
    return Hub(
        config,
        partial(GrpcListener, address),
        clock=clock,
        on_session=on_session,
        on_closed=on_closed,
        on_request=on_request,
        traffic=traffic,
    )


def dial(
    address: str,
    config: LinkConfig,
    *,
    clock: Clock,
    name: str,
    traffic: Traffic | None = None,
    cancel: CancelToken | None = None,
) -> Dialer:
    """Return a dialer for the server at ``address``; nothing connects yet. See ``Dialer``.

    Raises:
        SecurityError: plain text would leave this machine unasked, or a certificate is no good.
    """
    carriers = carriers_to(address, config)
    return Dialer(address, config, carriers, name=name, clock=clock, traffic=traffic, cancel=cancel)


def carriers_to(address: str, config: LinkConfig) -> Carriers:
    """Return what calls to the server at ``address`` go over; nothing connects yet.

    Raises:
        SecurityError: plain text would leave this machine unasked, or a certificate is no good.
    """
    new_channel = Connector(address, config).channel
    return Carriers(
        GrpcCarrier("Session", new_channel, address), GrpcCarrier("Transfer", new_channel, address)
    )


def check_listening(address: str, config: LinkConfig) -> None:
    """Check what ``listen`` would refuse; nothing listens yet.

    Raises:
        SecurityError: a file of certificates or tokens cannot be used, or plain text would leave
            this machine unasked.
    """
    server_credentials(address, config.security)
    Guard(config.security)


def check_dialing(address: str, config: LinkConfig) -> None:
    """Check what ``dial`` would refuse; nothing connects yet.

    Raises:
        SecurityError: as ``check_listening``.
    """
    Connector(address, config)
    token_reader(config.security)()

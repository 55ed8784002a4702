"""Which carrier an address stands for: the hub of a server there, the dialer of a client.

An address may begin with a scheme, as in ``memory://lab``; without one it is gRPC's. The scheme
names the control carrier, which carries sessions, and can carry their streams, too. A server may
offer data carriers beside it, each on a port of its own; its welcome says which. The client uses
the first of them that it knows, and the control carrier where that does not work.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from functools import partial
from typing import Protocol

from streamlink.cancel import CancelToken
from streamlink.clock import Clock
from streamlink.config import LinkConfig
from streamlink.errors import AddressInUse, StreamlinkError
from streamlink.protocol.frames import DataPort, Request
from streamlink.transport.addresses import (
    DEFAULT_SCHEME,
    LARGEST_PORT,
    is_unix,
    named,
    split_scheme,
)
from streamlink.transport.carrier_modules import (
    DataModule,
    control_module,
    data_module,
    data_module_at,
)
from streamlink.transport.carriers import DataSession, Listener, ProvableCarrier
from streamlink.transport.dialer import Carriers, Dialer
from streamlink.transport.hub import DataOffer, Hub
from streamlink.transport.identity import Guard, require_loopback, token_reader
from streamlink.transport.log import noted
from streamlink.transport.port_pair import ABOVE, PortPair
from streamlink.transport.session import Session
from streamlink.transport.traffic import TrafficCounter

__all__ = [
    "Dial",
    "carriers_to",
    "check_data_listening",
    "check_dialing",
    "check_listening",
    "data_carrier_to",
    "dial",
    "hub_at",
]

logger = logging.getLogger("streamlink.client")

_CARRIER_ABOVE = "tcp"


class Dial(Protocol):
    """Makes what a client reaches its server with; ``dial`` is one."""

    def __call__(
        self,
        address: str,
        config: LinkConfig,
        *,
        clock: Clock,
        name: str,
        traffic: TrafficCounter | None = None,
        cancel: CancelToken | None = None,
    ) -> Dialer:
        """Return a dialer for the server at ``address``; nothing connects yet."""


def hub_at(
    address: str,
    config: LinkConfig,
    *,
    clock: Clock,
    on_session: Callable[[Session], None] | None = None,
    on_closed: Callable[[Session], None] | None = None,
    on_request: Callable[[Session, Request], None] | None = None,
    on_called_off: Callable[[Session, int, str], None] | None = None,
    traffic: TrafficCounter | None = None,
) -> Hub:
    """Return a hub that serves clients at ``address`` once ``Hub.listen`` is called.

    Args:
        address: where sessions are opened, such as ``HOST:PORT``.
        config: settings of this end; ``stream.data_listen`` names carriers for streams alone.
        clock: what all deadlines and waits go by.
        on_session: called with each new session.
        on_closed: called with each that has ended.
        on_request: called with each request of a client.
        on_called_off: called with the number of a client's request that it has cancelled.
        traffic: counts what moves.

    Raises:
        SecurityError: a file of tokens cannot be used, or a carrier of ``stream.data_listen`` would
            carry plain text beyond this machine.
        ValueError: there is no such carrier, or ``stream.data_listen`` is wrong.
    """
    scheme, where = split_scheme(address)
    # Before the first listener is open: it would take clients that a refusal then has to cut off.
    check_data_listening(config)
    # Made by the hub and not here: a listener hands over calls as soon as it exists.
    listen: Callable[[Hub], Listener] = partial(control_module(scheme).new_listener, where)
    offers = [_offer(each) for each in config.stream.data_addresses]
    if "auto" in config.stream.data_listen and _has_port_above(address):
        pair = PortPair(where, control_module(scheme), _module_above())
        listen = pair.listen
        offers.append(DataOffer(_CARRIER_ABOVE, pair.above, ABOVE))
    return Hub(
        config,
        [listen],
        clock=clock,
        data=offers,
        on_session=on_session,
        on_closed=on_closed,
        on_request=on_request,
        on_called_off=on_called_off,
        traffic=traffic,
    )


def dial(
    address: str,
    config: LinkConfig,
    *,
    clock: Clock,
    name: str,
    traffic: TrafficCounter | None = None,
    cancel: CancelToken | None = None,
    is_probe: bool = False,
) -> Dialer:
    """Return a dialer for the server at ``address``; nothing connects yet. See ``Dialer``.

    Raises:
        SecurityError: plain text would leave this machine unasked, or a certificate is no good.
        ValueError: there is no such carrier.
    """
    where = split_scheme(address)[1]
    return Dialer(
        named(address),
        config,
        carriers_to(address, config, clock=clock),
        name=name,
        clock=clock,
        traffic=traffic,
        cancel=cancel,
        # To the host that the user named. A welcome names ports only, so that a server cannot make
        # its clients connect to other machines.
        open_data=lambda offered, session: data_carrier_to(where, offered, session, config, clock),
        is_probe=is_probe,
    )


def carriers_to(address: str, config: LinkConfig, *, clock: Clock) -> Carriers:
    """Return what calls to the server at ``address`` go over; nothing connects yet.

    Raises:
        SecurityError: plain text would leave this machine unasked, or a certificate is no good.
        ValueError: there is no such carrier.
    """
    scheme, where = split_scheme(address)
    return control_module(scheme).new_carriers(where, config, clock)


def data_carrier_to(
    address: str,
    offered: Sequence[DataPort],
    session: DataSession,
    config: LinkConfig,
    clock: Clock,
) -> ProvableCarrier | None:
    """Return the client's end of the first offered carrier that is known and usable here.

    Args:
        address: of the server, as it was dialed, without its scheme.
        offered: what the welcome names, the best first.
        session: that of the welcome.
        config: settings of this end.
        clock: what waits go by.
    """
    for each in offered:
        module, port = data_module(each.carrier), _port_of(each, address)
        if module is None:
            _leave(each, port, "this version does not know it")
        elif not port:
            _leave(each, port, f"{address} has no port above it")
        elif not config.stream.permits(port):
            _leave(each, port, f"stream.data_ports permits {config.stream.data_ports} only")
        else:
            there = session._replace(lanes=max(1, each.lanes))
            carrier = module.new_data_carrier(address, port, there, config, clock)
            if carrier is not None:
                return carrier
            _leave(
                each,
                port,
                "it cannot be used from here, as through a proxy or without TLS",
            )
    return None


def _leave(offered: DataPort, port: int, why: str) -> None:
    """Log which port is left alone. No fault: streams can always use the control carrier."""
    logger.info(
        "port %d (%s) of the server is not used: %s; streams use the connection of the session, "
        "which is slower",
        port,
        offered.carrier,
        why,
        extra=noted("data port left", port=port, carrier=offered.carrier, reason=why),
    )


def _port_of(offered: DataPort, address: str) -> int:
    """Return the port to dial; 0: there is none."""
    if not offered.above:
        return offered.port
    if is_unix(address):
        return 0
    port = int(address.rpartition(":")[2]) + offered.above
    return port if port <= LARGEST_PORT else 0


def check_listening(address: str, config: LinkConfig) -> None:
    """Check what ``hub_at(...).listen()`` would refuse; nothing listens yet.

    Raises:
        SecurityError: a file of certificates or tokens cannot be used, or plain text would leave
            this machine unasked.
        ValueError: there is no such carrier, or ``stream.data_listen`` is wrong.
    """
    scheme, where = split_scheme(address)
    control_module(scheme).check_listening(where, config)
    check_data_listening(config)
    Guard(config.security)


def check_data_listening(config: LinkConfig) -> None:
    """Check ``stream.data_listen``; nothing listens yet.

    Raises:
        SecurityError: a carrier that nothing secures would listen beyond this machine.
        ValueError: there is no such carrier, or it cannot listen at such an address.
    """
    for each in config.stream.data_addresses:
        module, where = data_module_at(each)
        module.check_data_listening(where, config)
        if not getattr(module, "SECURED_BY", ""):
            remedy = "Let it listen on loopback, or use a carrier whose module has SECURED_BY"
            require_loopback(where, config.security, remedy=remedy)


def check_dialing(address: str, config: LinkConfig) -> None:
    """Check what ``dial`` would refuse; nothing connects yet.

    Raises:
        SecurityError: as ``check_listening``.
        ValueError: there is no such carrier.
    """
    scheme, where = split_scheme(address)
    control_module(scheme).check_dialing(where, config)
    token_reader(config.security)()


def _has_port_above(address: str) -> bool:
    """Return whether sessions are taken at a port of TCP, whose neighbour ``auto`` stands for."""
    return split_scheme(address)[0] == DEFAULT_SCHEME and not is_unix(address)


def _module_above() -> DataModule:
    module = data_module(_CARRIER_ABOVE)
    assert module is not None, "the carrier of our own data ports is registered"
    return module


def _offer(address: str) -> DataOffer:
    module, where = data_module_at(address)

    def listen(hub: Hub) -> Listener:
        try:
            return module.new_data_listener(where, hub)
        # Before OSError, which some of ours are, too; they already say what to do.
        except StreamlinkError:
            raise
        except OSError as error:
            raise AddressInUse(
                f"stream.data_listen: cannot listen at {address}: {error}; is the port taken, or "
                "the address not this machine's?"
            ) from error

    return DataOffer(split_scheme(address)[0], listen)

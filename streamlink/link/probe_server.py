"""A server that answers one probe and nothing else, for two sites that have no server yet."""

from __future__ import annotations

from collections.abc import Callable

from streamlink.cancel import CancelToken
from streamlink.clock import Clock, running_time
from streamlink.config import LinkConfig
from streamlink.errors import AbortCode, StreamAborted
from streamlink.link.oneshot_wire import HEARD_SECONDS
from streamlink.link.probe_desk import ProbeDesk
from streamlink.protocol.frames import Request
from streamlink.transport.connect import hub_at
from streamlink.transport.session import Session

__all__ = ["serve_probe"]


def serve_probe(
    listen: str,
    *,
    token: str,
    config: LinkConfig | None = None,
    timeout: float | None = None,
    on_listening: Callable[[int], None] = lambda port: None,
    cancel: CancelToken | None = None,
    clock: Clock = running_time,
) -> bool:
    """Answer one probe that knows ``token``.

    Args:
        listen: ``host:port``, where port 0 takes a free one; or ``unix:path``.
        token: what the probe has to know.
        config: settings of this end.
        timeout: how long to wait for it (seconds); None: for ever.
        on_listening: called with the port, once it can be reached; 0: a Unix socket.
        cancel: ends it.
        clock: of all waits.

    Returns:
        Whether a probe came within ``timeout``.

    Raises:
        StreamAborted: too many came with wrong tokens.
        AddressInUse: the address is taken.
        SecurityError: plain text would leave this machine unasked, or a certificate is no good.
        Cancelled: ``cancel`` was cancelled.
    """
    config = config or LinkConfig()
    desk = ProbeDesk(config, clock, on_request=_refuse, token=token, cancel=cancel)
    hub = desk.hub = hub_at(
        listen, config, clock=clock, on_session=desk.on_session, on_request=desk.on_request
    )
    hub.listen()
    try:
        on_listening(hub.port)
        is_over = desk.wait_done(timeout)
    finally:
        hub.close("the probe is done", most=HEARD_SECONDS)
    if is_over and not desk.has_probed:
        raise StreamAborted(
            AbortCode.UNAUTHENTICATED,
            "probes came with wrong one-time tokens, too often; start again, for a new token",
            by_peer=False,
        )
    return is_over


def _refuse(session: Session, request: Request) -> None:
    session.reply(request, error="this end only answers one probe, with streamlink probe")

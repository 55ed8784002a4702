"""Session machines in the state a test begins with, and their deadlines."""

from __future__ import annotations

from streamlink.config import LinkConfig
from streamlink.protocol.frames import (
    Heartbeat,
    Welcome,
)
from streamlink.protocol.session import SessionMachine
from tests.support.machines import SMALL, KiB, a_hello, events

SILENCE = 30.0
"""``session_timeout`` (seconds)."""
BEAT = 5.0
"""``heartbeat_interval`` (seconds)."""


def a_server(config: LinkConfig = SMALL) -> SessionMachine:
    server = SessionMachine(config, peer_name="ipv4:10.0.0.7")
    server.attach(now=0.0)
    return server


def a_client(config: LinkConfig = SMALL, **changes: object) -> SessionMachine:
    client = SessionMachine(config, peer_name="server", hello=a_hello(**changes))
    client.attach(now=0.0)
    return client


def ready_server(config: LinkConfig = SMALL, **changes: object) -> SessionMachine:
    server = a_server(config)
    server.receive(a_hello(**changes), now=0.0)
    server.welcome("id", "epoch", now=0.0)
    server.frames_to_send(now=0.0)
    events(server)
    return server


def ready_client(config: LinkConfig = SMALL, *, beat: float = BEAT) -> SessionMachine:
    client = a_client(config)
    client.frames_to_send(now=0.0)
    client.receive(Welcome(1, "id", "epoch", 4 * KiB, beat), now=0.0)
    events(client)
    return client


def exchange(client: SessionMachine, server: SessionMachine, now: float = 0.0) -> None:
    for frame in client.frames_to_send(now=now):
        server.receive(frame, now=now)
    for frame in server.frames_to_send(now=now):
        client.receive(frame, now=now)


def kept_alive(session: SessionMachine, until: float) -> SessionMachine:
    """Let the peer's heartbeats come in, and our clocks run, up to ``until``."""
    beat, now = 0, 0.0
    while now < until:
        beat, now = beat + 1, min(now + 4.0, until)
        session.receive(Heartbeat(beat), now=now)
        session.handle_timer(now=now)
    return session


# --- calls come and go ------------------------------------------------------------------------

AWAY = 30.0
"""``reconnect_timeout`` (seconds)."""


def pair(config: LinkConfig = SMALL) -> tuple[SessionMachine, SessionMachine]:
    """Return a client and a server that have greeted; nothing is on its way."""
    client, server = a_client(config), a_server(config)
    exchange(client, server)
    server.welcome("id", "epoch", now=0.0)
    exchange(client, server)
    events(client), events(server)
    return client, server


def cut(*sessions: SessionMachine, now: float) -> None:
    for session in sessions:
        session.detach(now=now)


def join(client: SessionMachine, server: SessionMachine, now: float) -> None:
    """Let a new call carry both, and everything they have to say."""
    for session in (client, server):
        session.attach(now=now)
    while client.has_frames() or server.has_frames():
        exchange(client, server, now)

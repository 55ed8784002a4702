"""Bare sockets as peers, with nothing but the bytes on them: no header, no hash, no ack.

What ``peer_tcp`` measures has a header for each message; here ``load.message_bytes`` is only how
much one call offers or asks for. With ``load.certificates`` the sockets are wrapped by ``ssl``: TLS
1.3 and the cipher that both ends choose by themselves.
"""

from __future__ import annotations

import socket
import ssl
import time
from pathlib import Path
from typing import Any

from benchmarks.arrays import Load, digest, make_source, make_target
from benchmarks.unpaced import avoid_pacing
from benchmarks.worker import Port

CONNECT_SECONDS = 20.0
HOST = "127.0.0.1"
DONE = b"\x01"


def receiver(port: Port, load: dict[str, Any]) -> None:
    """Accept one connection and read it into the target, as much at once as there is."""
    _serve(port, Load.from_json(load), 0)


def waiting_receiver(port: Port, load: dict[str, Any]) -> None:
    """Read as :func:`receiver` does, but have the kernel wait until a buffer is full."""
    _serve(port, Load.from_json(load), socket.MSG_WAITALL)


def sender(port: Port, load: dict[str, Any], address: str) -> None:
    """Send the source; the clock stops at the receiver's one byte of answer."""
    plan = Load.from_json(load)
    port.mark_base()
    source = make_source(plan.total_bytes)
    number = int(address.rpartition(":")[2])
    with socket.create_connection((HOST, number), timeout=CONNECT_SECONDS) as plain:
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        avoid_pacing(plain)
        with _trusting(plain, plan) as connection:
            connection.settimeout(None)
            port.tell("ready")
            port.wait_for("go")
            started_at = time.perf_counter()
            for offset in range(0, plan.total_bytes, plan.message_bytes):
                connection.sendall(source.data[offset : offset + plan.message_bytes])
            if connection.recv(1) != DONE:
                raise ConnectionError("the receiver ended before it had everything")
            seconds = time.perf_counter() - started_at
            how = _cipher(connection)
    port.tell("sent", seconds=seconds, digest=digest(source), how=how)


def _serve(port: Port, plan: Load, flags: int) -> None:
    port.mark_base()
    target = make_target(plan.total_bytes)
    with socket.create_server((HOST, 0)) as listening:
        port.tell("listening", address=f"{HOST}:{listening.getsockname()[1]}")
        plain, _ = listening.accept()
        with _trusted(plain, plan) as connection:
            _fill(connection, target.data, plan.message_bytes, flags)
            connection.sendall(DONE)
    port.tell("received", digest=digest(target))


def _fill(connection: socket.socket, target: memoryview, most: int, flags: int) -> None:
    while target:
        received = connection.recv_into(target, min(most, len(target)), flags)
        if not received:
            raise ConnectionError("the sender ended before it had sent everything")
        target = target[received:]


def _trusted(plain: socket.socket, plan: Load) -> socket.socket:
    """Return the server's end, with TLS where the load asks for it."""
    if not plan.certificates:
        return plain
    folder = Path(plan.certificates, "server")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.load_cert_chain(folder / "certificate.pem", folder / "key.pem")
    return context.wrap_socket(plain, server_side=True)


def _trusting(plain: socket.socket, plan: Load) -> socket.socket:
    """Return the client's end, with TLS where the load asks for it."""
    if not plan.certificates:
        return plain
    authority = Path(plan.certificates, "server", "ca.pem")
    context = ssl.create_default_context(cafile=authority)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    return context.wrap_socket(plain, server_hostname=HOST)


def _cipher(connection: socket.socket) -> str:
    chosen = connection.cipher() if isinstance(connection, ssl.SSLSocket) else None
    return f"{chosen[1]}, {chosen[0]}" if chosen else ""

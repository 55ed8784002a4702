"""``streamlink probe --listen``: answers one probe, and prints the command for the other end."""

from __future__ import annotations

import logging
import secrets
import shlex
import socket
from collections.abc import Iterator

import typer

from streamlink.cli.checks import check_offers, check_serving
from streamlink.cli.command import Common, a_job
from streamlink.cli.errors import CommandError
from streamlink.cli.paths import check_address
from streamlink.cli.services import security_summary
from streamlink.config import SecurityConfig
from streamlink.errors import ConnectFailed
from streamlink.link.probe_server import serve_probe
from streamlink.logs import escape
from streamlink.transport.addresses import is_unix, listening_at
from streamlink.transport.identity import is_loopback

__all__ = ["answer_one", "other_end"]

logger = logging.getLogger("streamlink.command")


def answer_one(listen: str, timeout: float | None, common: Common) -> None:
    """Listen there, print the command for the other end, and answer one probe.

    Raises:
        CommandError: an option cannot be used.
        ConnectFailed: no probe came within ``timeout`` seconds.
    """
    check_address("--listen", listen)
    if timeout is not None and not 0 < timeout < float("inf"):
        raise CommandError(f"--timeout must be positive and finite, not {timeout:g}")
    security = common.config.security
    check_offers(common.config)
    if common.is_check:
        check_serving(listen, common.config)
        common.passed()
        return
    token = secrets.token_urlsafe(18)

    def on_listening(port: int) -> None:
        where, way = listening_at(listen, port), security_summary(security)
        logger.info("listening on %s (%s), waiting for one probe", where, way)
        typer.echo("\n".join(map(escape, other_end(where, security, token))))

    with a_job():
        if not serve_probe(
            listen,
            token=token,
            config=common.config,
            timeout=timeout,
            on_listening=on_listening,
            cancel=common.cancel,
        ):
            raise ConnectFailed(f"no probe came to {listen} within {timeout:g} s")
    typer.echo("one probe was answered")


def other_end(where: str, security: SecurityConfig, token: str) -> list[str]:
    """Return the command for the other end, and below it what to replace in it.

    Its files have the names that ``streamlink certs`` gives them.

    Args:
        where: this end listens there.
        security: of this end.
        token: the one-time token.
    """
    address = _from_outside(where)
    words = [*_security_options(address, security), "--one-time", token]
    command = shlex.join(["streamlink", "probe", address, *words])
    return [f"at the other end: {command}", *_replacements(address, security)]


def _from_outside(where: str) -> str:
    """Return ``where`` with the name of this machine for an address that only a listener has."""
    for everywhere in ("0.0.0.0:", "[::]:"):
        if where.startswith(everywhere):
            return f"{socket.gethostname()}:{where.removeprefix(everywhere)}"
    return where


def _security_options(address: str, security: SecurityConfig) -> Iterator[str]:
    if security.certificate is not None:
        yield from ("--ca", "ca.pem")
        if security.ca is not None:
            yield from ("--certificate", "certificate.pem", "--key", "key.pem")
    elif not is_loopback(address):
        yield "--insecure"
    if security.tokens is not None:
        yield from ("--token", "token")
    if security.ca is not None or security.tokens is not None:
        yield from ("--name", "NAME")


def _replacements(address: str, security: SecurityConfig) -> Iterator[str]:
    if security.certificate is not None:
        yield "  ca.pem: the CA that has issued the certificate of this end"
    if security.ca is not None:
        yield "  certificate.pem, key.pem: the certificate of the other end, and its key"
    if security.tokens is not None:
        yield "  token: the file with the token of the other end"
    if security.ca is not None or security.tokens is not None:
        proof = "certificate" if security.ca is not None else "token"
        yield f"  NAME: the name that the {proof} of the other end is for"
    if security.certificate is not None and not is_unix(address):
        host = address.rpartition(":")[0]
        yield f"  if the certificate of this end is not for {host}, add --server-name with its name"

"""``streamlink certs``: makes certificates and tokens for trying out TLS."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer

from streamlink.cli.command import Common, command
from streamlink.cli.errors import CommandError
from streamlink.transport.identity import is_loopback

__all__ = ["certs"]

_PORT = 8517


@command()
def certs(
    folder: Annotated[
        Path, typer.Argument(metavar="DIR", help="Target; it gets one folder for each machine.")
    ],
    server: Annotated[
        list[str],
        typer.Option(
            metavar="NAME_OR_IP",
            help="Host name or IP address at which clients reach the server; repeatable.",
        ),
    ],
    site: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Name of a client; repeatable."),
    ] = None,
    days: Annotated[int, typer.Option(min=1, max=3650, help="Validity in days.")] = 30,
    *,
    common: Common,
) -> None:
    """Make a test CA, and certificates and tokens for a server and its sites.

    Existing files are never overwritten.
    """
    try:
        from streamlink.certs import make_certificates
    except ImportError as error:
        raise CommandError(
            "certificates are made with the cryptography package, which is an extra: "
            "pip install 'streamlink-fl[certs]'"
        ) from error
    authority, serving, *visiting = make_certificates(folder, server, site or [], days=days)
    typer.echo(f"valid for {days} days; the CA's key, which stays here: {authority}")
    typer.echo(
        "these run from here, with a store `model` and a function `train` in work.py; for another "
        "machine copy its folder there, over a safe way, and name it as it is there:\n"
    )
    host = next((each for each in server if not each.startswith("*")), "HOST")
    enough = ["--min-clients", len(visiting)] if visiting else []
    own = ["--tokens", serving / "tokens.yaml", "--listen", f"{_listens(host)}:{_PORT}", *enough]
    _hint("server", "--store", "model", *_files(serving), *own)
    for each in visiting:
        own = ["--token", each / "token", "--name", each.name, "--server", f"{_host(host)}:{_PORT}"]
        _hint("client", "--task", "work.py:train", *_files(each), *own)


def _hint(*words: object) -> None:
    typer.echo(shlex.join(["streamlink", *map(str, words)]))


def _files(folder: Path) -> list[object]:
    own = ["--certificate", folder / "certificate.pem", "--key", folder / "key.pem"]
    return [*own, "--ca", folder / "ca.pem"]


def _host(name: str) -> str:
    return f"[{name}]" if ":" in name else name


def _listens(host: str) -> str:
    """Return the address to listen on for clients that connect to ``host``."""
    if is_loopback(f"{_host(host)}:{_PORT}"):
        return _host(host)
    return "[::]" if ":" in host else "0.0.0.0"

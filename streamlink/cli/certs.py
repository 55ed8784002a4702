"""``streamlink certs``: certificates and tokens to try out TLS with."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from streamlink.cli.command import Common, command
from streamlink.cli.faults import CommandError

__all__ = ["certs"]


@command()
def certs(
    folder: Annotated[
        Path, typer.Argument(metavar="DIR", help="Where to; a folder for each machine in it.")
    ],
    server: Annotated[
        list[str],
        typer.Option(
            metavar="NAME_OR_IP",
            help="A host name or IP address by which clients reach the server; repeatable.",
        ),
    ],
    site: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="A client's name; repeatable."),
    ] = None,
    days: Annotated[int, typer.Option(min=1, max=3650, help="How long they are valid.")] = 30,
    *,
    common: Common,
) -> None:
    """Make a CA, and certificates and tokens for a server and its sites, for a try-out.

    Nothing that is there is overwritten.
    """
    try:
        from streamlink.certs import make_certificates
    except ImportError as error:
        raise CommandError(
            "certificates are made with the cryptography package, which is an extra: "
            "pip install 'streamlink[certs]'"
        ) from error
    authority, serving, *visiting = make_certificates(folder, server, site or [], days=days)
    typer.echo(f"valid for {days} days; the CA's key, which stays here: {authority}")
    typer.echo("copy each of the other folders to its machine, over a safe way, and run there:\n")
    typer.echo(
        f"streamlink server ... {_pair(serving)} --ca {serving / 'ca.pem'} "
        f"--tokens {serving / 'tokens.yaml'} --listen 0.0.0.0:8517"
    )
    for each in visiting:
        typer.echo(
            f"streamlink client ... {_pair(each)} --ca {each / 'ca.pem'} "
            f"--token {each / 'token'} --name {each.name} --server {_host(server[0])}:8517"
        )


def _pair(folder: Path) -> str:
    return f"--certificate {folder / 'certificate.pem'} --key {folder / 'key.pem'}"


def _host(name: str) -> str:
    return f"[{name}]" if ":" in name else name

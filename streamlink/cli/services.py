"""What long-running commands share: the operator's socket and the metrics endpoint."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from streamlink.cli.errors import CommandError, sentence
from streamlink.config import SecurityConfig
from streamlink.errors import StreamlinkError
from streamlink.operate.control import (
    Answer,
    ControlServer,
    ask,
    control_path,
    control_paths,
    own_control_path,
)

if TYPE_CHECKING:
    from streamlink.link import HasTraffic
    from streamlink.rounds.controller import ScatterAndGather

__all__ = [
    "Control",
    "Metrics",
    "StoreOf",
    "control_socket",
    "guest_socket",
    "metrics_endpoint",
    "security_summary",
    "sockets_of",
]

logger = logging.getLogger("streamlink.command")

NOWHERE = "none"

Control = Annotated[
    str | None,
    typer.Option(
        metavar="PATH|none",
        help="Unix socket for streamlink status, limit and abort; none: no socket [default: the "
        "store's name and .control].",
    ),
]
Metrics = Annotated[
    str | None,
    typer.Option(
        metavar="HOST:PORT",
        help="Serve metrics to Prometheus at this address, without authentication [default: no "
        "metrics].",
    ),
]
StoreOf = Annotated[
    Path | None,
    typer.Option("--store", metavar="PATH", help="The store that the process uses."),
]


def sockets_of(store: Path | None, control: Path | None) -> list[Path]:
    """Return the paths of the sockets of the processes that were started with ``store``.

    Raises:
        CommandError: neither or both are given.
    """
    if (store is None) == (control is None):
        raise CommandError(
            "name the process: give the --store PATH that it was started with, or --control PATH"
        )
    return [control] if control is not None else control_paths(store or "")


@contextmanager
def control_socket(
    answer: Answer, store: Path, control: str | None, *, only_reads: bool = False
) -> Iterator[None]:
    """Answer the operator while the block runs.

    Where another process serves the store already, a second one that only reads it has a socket
    with its process number in the name, and logs that.

    If the default socket cannot be created, such as on a file system without sockets, the job runs
    without one, with a warning. If another process listens there, it is an error.

    Raises:
        CommandError: the socket that the user gave cannot be created, or another process uses it.
    """
    if control == NOWHERE:
        yield
        return
    path = Path(control) if control is not None else control_path(store)
    if control is None and only_reads and _is_served(path):
        path = own_control_path(store)
        text = "another process serves %s, too; streamlink status --control %s shows this one"
        logger.info(text, store, path)
    try:
        listening = ControlServer(path, answer)
    except StreamlinkError as error:
        # Something is there: most likely the socket of another server of this store, and two of
        # them would replace each other's models.
        if control is not None or path.exists():
            raise CommandError(str(error)) from error
        # Nobody has asked for the default socket, so a job does not fail for it.
        logger.warning("running without an operator's socket: %s", error)
        yield
    except OSError as error:
        if control is not None:
            raise CommandError(f"--control {path}: {sentence(error)}") from error
        logger.warning("running without an operator's socket at %s: %s", path, sentence(error))
        yield
    else:
        with listening:
            yield


@contextmanager
def guest_socket(answer: Answer, default: Path, control: str | None) -> Iterator[None]:
    """Answer the operator of a process that connects, while the block runs.

    Where the default socket cannot be created, it runs without one; where another process listens
    there, it has one with its process number in the name.

    Raises:
        CommandError: the socket that the user gave cannot be created, or another process uses it.
    """
    if control is not None:
        with control_socket(answer, default, control):
            yield
        return
    with ExitStack() as listening:
        for path in (default, own_control_path(default.with_suffix(""))):
            try:
                listening.enter_context(ControlServer(path, answer))
                break
            except (StreamlinkError, OSError) as error:
                logger.info("no operator's socket at %s: %s", path, sentence(error))
        yield


def _is_served(path: Path) -> bool:
    """Whether a process answers there that reads its store and does not change it."""
    try:
        return ask(path, {"do": "status"}).get("program") == "serve"
    except (StreamlinkError, OSError):
        return False  # to listen there then fails with the reason


def security_summary(security: SecurityConfig) -> str:
    """Return how a server is protected, such as ``mutual TLS, tokens``."""
    if security.certificate is None:
        way = "plain text"
    else:
        way = "TLS" if security.ca is None else "mutual TLS"
    return f"{way}, tokens" if security.tokens is not None else way


@contextmanager
def metrics_endpoint(
    address: str | None, of: HasTraffic, job: ScatterAndGather | None = None
) -> Iterator[None]:
    """Serve metrics while the block runs, if an address is given (see ``check_metrics``).

    Raises:
        StreamlinkError: metrics cannot be served there; says why.
    """
    if address is None:
        yield
        return
    from streamlink.operate.metrics import serve_metrics

    with serve_metrics(address, of, job):
        yield

"""What commands that run for long have in common: the operator's socket, and metrics."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from streamlink.cli.errors import CommandError, sentence
from streamlink.config import SecurityConfig
from streamlink.errors import StreamlinkError
from streamlink.link import HasTraffic
from streamlink.operate.control import Answer, ControlServer, control_path
from streamlink.operate.metrics import serve_metrics
from streamlink.rounds.controller import ScatterAndGather

__all__ = [
    "Control",
    "Metrics",
    "StoreOf",
    "control_socket",
    "metrics_endpoint",
    "security_summary",
    "socket_of",
]

logger = logging.getLogger("streamlink.command")

NOWHERE = "none"

Control = Annotated[
    str | None,
    typer.Option(
        metavar="PATH|none",
        help="The operator's socket, for streamlink status and abort [default: the store's name "
        "and .control].",
    ),
]
Metrics = Annotated[
    str | None,
    typer.Option(
        metavar="HOST:PORT",
        help="Serve metrics to Prometheus there, without a password [default: not at all].",
    ),
]
StoreOf = Annotated[
    Path | None,
    typer.Option("--store", metavar="PATH", help="The store the process works on."),
]


def socket_of(store: Path | None, control: Path | None) -> Path:
    """Return where the socket of a process is that was started on ``store``.

    Raises:
        CommandError: neither or both are given.
    """
    if (store is None) == (control is None):
        raise CommandError("say which process: --store PATH as it was given, or --control PATH")
    return control if control is not None else control_path(store or "")


@contextmanager
def control_socket(answer: Answer, store: Path, control: str | None) -> Iterator[None]:
    """Answer the operator while the block runs.

    Where the default socket cannot be made, such as on a disk that knows none, the job runs without
    one, with a warning; unless another process listens there.

    Raises:
        CommandError: the socket that was asked for cannot be made, or belongs to another process.
    """
    if control == NOWHERE:
        yield
        return
    path = Path(control) if control is not None else control_path(store)
    try:
        listening = ControlServer(path, answer)
    except StreamlinkError as error:
        if control is not None or path.exists():
            raise CommandError(str(error)) from error
        logger.warning("no operator's socket: %s", error)
        yield
    except OSError as error:
        if control is not None:
            raise CommandError(f"--control {path}: {sentence(error)}") from error
        logger.warning("no operator's socket at %s: %s", path, sentence(error))
        yield
    else:
        with listening:
            yield


def security_summary(security: SecurityConfig) -> str:
    """Return in a few words how a server is reached: ``mutual TLS, tokens``."""
    if security.certificate is None:
        way = "plain text"
    else:
        way = "TLS" if security.ca is None else "mutual TLS"
    return f"{way}, tokens" if security.tokens is not None else way


@contextmanager
def metrics_endpoint(
    address: str | None, of: HasTraffic, job: ScatterAndGather | None = None
) -> Iterator[None]:
    """Serve metrics while the block runs, if an address was given (see ``check_metrics``).

    Raises:
        StreamlinkError: metrics cannot be served there; says why.
    """
    if address is None:
        yield
        return
    with serve_metrics(address, of, job):
        yield

"""What the commands that connect have in common towards the operator: client, send and fetch.

They serve nobody, so their sockets are in nobody's way: none of them fails for a default one.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Annotated

import typer

from streamlink.cancel import CancelToken, joined
from streamlink.cli.command import Common
from streamlink.cli.errors import JobFailed
from streamlink.cli.services import guest_socket
from streamlink.clock import running_time
from streamlink.errors import Cancelled
from streamlink.operate.control import Answer, control_path, own_control_path
from streamlink.transport.bandwidth import open_bandwidth

__all__ = ["ClientControl", "CopyControl", "Orders", "beside_model", "named", "reachable"]

CopyControl = Annotated[
    str | None,
    typer.Option(
        "--control",
        metavar="PATH|none",
        help="Unix socket for streamlink status, limit and abort; none: no socket [default: the "
        "name of PATH, the number of the process and .control].",
    ),
]
ClientControl = Annotated[
    str | None,
    typer.Option(
        "--control",
        metavar="PATH|none",
        help="Unix socket for streamlink status, limit and abort; none: no socket [default: "
        "NAME.client.control in the working directory].",
    ),
]


def beside_model(model: Path) -> Path:
    """Return the default socket of a command that moves ``model``: beside it.

    It has the number of the process: ``MODEL.control`` is of the one that serves or changes it.
    """
    return own_control_path(model)


def named(client: str) -> Path:
    """Return the default socket of a client: in the working directory, under its name."""
    return control_path(f"{client.replace('/', '-')}.client")


class Orders:
    """What the operator can order a command that connects to do: to end."""

    def __init__(self) -> None:
        self.token = CancelToken()

    def end(self, reason: str) -> None:
        """End it, with a reason."""
        self.token.cancel(f"aborted by the operator: {reason}")


@contextmanager
def reachable(
    answer: Answer, orders: Orders, default: Path, control: str | None, common: Common
) -> Iterator[CancelToken]:
    """Answer the operator while the block runs; it yields the token that ends the work.

    Args:
        answer: answers.
        orders: what ``answer`` has ordered.
        default: where to listen, unless ``control`` says otherwise.
        control: what the user gave: a path, or ``none``.
        common: of the command.

    Raises:
        JobFailed: the operator has ended the work; has the reason.
        CommandError: the socket that the user gave cannot be created.
    """
    with (
        # Open from here to the end: a limit that the operator has changed would otherwise be
        # forgotten with each connection that is lost.
        closing(open_bandwidth(common.config, running_time)),
        guest_socket(answer, default, control),
        joined(common.cancel, orders.token) as cancel,
    ):
        try:
            yield cancel
        except Cancelled as error:
            if common.cancel.is_cancelled or not orders.token.is_cancelled:
                raise
            raise JobFailed(orders.token.reason) from error

"""The ``streamlink`` command: parse, load settings, call the library, print; no logic of its own.

``settings`` makes flags out of the configuration, ``command`` is the frame every command runs in
(logging, signals, errors in words), ``tasks`` finds the user's code, and ``jobs``, ``simulate``,
``models``, ``copies``, ``certs`` and ``status`` are the commands. ``operating`` is what those
that run for long share.
"""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer

from streamlink import __version__
from streamlink.cli.certs import certs
from streamlink.cli.copies import receive, send
from streamlink.cli.help import SettingsCommand
from streamlink.cli.jobs import client, server
from streamlink.cli.models import export, inspect
from streamlink.cli.simulate import simulate
from streamlink.cli.status import abort, status
from streamlink.logs import json_line
from streamlink_fl import DISTRIBUTION, find_clash

__all__ = ["app", "main"]

app = typer.Typer(
    name="streamlink",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for command in (server, client, simulate, inspect, export, send, receive, certs, status, abort):
    app.command(cls=SettingsCommand)(command)


def main() -> None:
    """Run the command that the command line names, and end the process with its exit code."""
    is_json = "--json-logs" in sys.argv
    if is_json:
        _silence_grpc()
    if clash := find_clash():
        text = f"warning: {clash.text}"
        typer.echo(json_line("WARNING", text, "name_clash") if is_json else text, err=True)
    if not is_json:
        app()
    try:
        sys.exit(app(standalone_mode=False) or 0)
    except typer.Abort:
        sys.exit(130)
    except Exception as error:
        code = getattr(error, "exit_code", None)  # of a wrong command line
        if code is None:
            raise
        text = " ".join(error.format_message().split())  # type: ignore[attr-defined]
        typer.echo(json_line("ERROR", f"error: {text}", "failed", exit_code=code), err=True)
        sys.exit(code)


def _silence_grpc() -> None:
    """Begin again with gRPC's own lines off: its core writes past Python's log.

    It reads its environment when it is imported, and that is behind us.
    """
    if "GRPC_VERBOSITY" not in os.environ:
        os.environ["GRPC_VERBOSITY"] = "NONE"
        os.execv(sys.executable, sys.orig_argv)


def _show_version(is_wanted: bool) -> None:
    if is_wanted:
        typer.echo(f"{DISTRIBUTION} {__version__}")
        raise typer.Exit


@app.callback()
def _all(
    _version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_show_version, is_eager=True, help="Show the version and end."
        ),
    ] = False,
) -> None:
    """Move models of any size between the sites of federated learning.

    Exit codes: 0 done; 1 the job failed, or two models differ; 2 something given was wrong; 130
    interrupted.
    """

"""The names of all commands, and how the command line is read."""

from __future__ import annotations

import sys
from typing import Annotated, ClassVar

import typer

from streamlink import __version__
from streamlink.cli.lazy import LazyGroup
from streamlink.logs import json_line
from streamlink_fl import DISTRIBUTION, find_clash

__all__ = ["app", "run"]

_MODULES = {
    "server": "jobs",
    "client": "jobs",
    "simulate": "simulate",
    "mpi": "mpi",
    "inspect": "models",
    "export": "models",
    "send": "copies",
    "receive": "copies",
    "serve": "fetches",
    "fetch": "fetches",
    "probe": "probe",
    "init": "init",
    "certs": "certs",
    "status": "status",
    "limit": "status",
    "abort": "status",
    "profile": "profile",
    "train": "train",
}


class _Group(LazyGroup):
    modules: ClassVar = {name: f"streamlink.cli.{module}" for name, module in _MODULES.items()}


app = typer.Typer(
    name="streamlink",
    cls=_Group,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def run(*, is_json: bool) -> None:
    """Run the command that the command line names.

    Raises:
        SystemExit: with its exit code.
    """
    if clash := find_clash():
        text = f"warning: {clash.text}"
        typer.echo(json_line("WARNING", text, "name_clash") if is_json else text, err=True)
    # The name is given: as ``python -m streamlink`` it would be that, and completion would be
    # installed for a program of that name.
    name = "streamlink"
    if not is_json:
        app(prog_name=name)
    # In standalone mode typer prints errors of the command line itself, and not as JSON.
    try:
        sys.exit(app(prog_name=name, standalone_mode=False) or 0)
    except typer.Abort:
        sys.exit(130)
    except Exception as error:
        code = getattr(error, "exit_code", None)  # of a wrong command line
        if code is None:
            raise
        text = " ".join(error.format_message().split())  # type: ignore[attr-defined]
        typer.echo(json_line("ERROR", f"error: {text}", "failed", exit_code=code), err=True)
        sys.exit(code)


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

    Exit codes: 0 success; 1 the job failed, or two models differ; 2 the command line or a file is
    wrong; 130, 143 or 129 after Ctrl-C, SIGTERM or SIGHUP.
    """

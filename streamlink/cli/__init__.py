"""The ``streamlink`` command: parse, load settings, call the library, print; no logic of its own.

``settings`` makes flags from the configuration, ``help`` lists them, ``command`` has what all
commands share (logging, signals, error messages), ``services`` what long-running commands share,
``user_code`` loads the user's code. ``jobs``, ``simulate``, ``models``, ``copies``, ``init``,
``certs`` and ``status`` are the commands, which ``commands`` collects.

A command is imported when it is run, without the others, because the imports take a second; Ctrl-C
works during that second already.
"""

from __future__ import annotations

import os
import sys

from streamlink_fl import output, signals

TYPE_CHECKING = False
if TYPE_CHECKING:
    from streamlink.cli.commands import app

__all__ = ["app", "main"]


def main() -> None:
    """Run the command that the command line names, and end the process with its exit code."""
    is_json = "--json-logs" in sys.argv
    if is_json:  # gRPC's core, which reads this when it is imported, writes past Python's log
        os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    from streamlink.cli.collector import importing

    with importing():
        from streamlink.cli.commands import run

    try:
        run(is_json=is_json)
    except SystemExit as ended:
        # Before ``end_with``: from there on a signal ends the process at once, and flushes nothing.
        output.flush()
        signals.end_with(ended.code if isinstance(ended.code, int) else int(bool(ended.code)))
        raise


def __getattr__(name: str) -> object:
    if name == "app":
        from streamlink.cli.commands import app

        return app
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

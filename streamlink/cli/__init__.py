"""The ``streamlink`` command: parse, load settings, call the library, print; no logic of its own.

``settings`` makes flags out of the configuration, ``command`` is the frame every command runs in
(logging, signals, errors in words), ``tasks`` finds the user's code, and ``jobs``, ``simulate``,
``models``, ``copies``, ``certs`` and ``status`` are the commands, which ``commands`` puts together.
``operating`` is what those that run for long share.

They are imported when one is run: that takes a second, which a Ctrl-C does not wait for.
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
    from streamlink.cli.commands import run

    try:
        run(is_json=is_json)
    except SystemExit as ended:
        output.flush()
        signals.end_with(ended.code if isinstance(ended.code, int) else int(bool(ended.code)))
        raise


def __getattr__(name: str) -> object:
    if name == "app":
        from streamlink.cli.commands import app

        return app
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

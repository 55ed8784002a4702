"""Which ``streamlink`` an import finds: ours, or the video tool that has this name on PyPI.

Our distribution is ``streamlink-fl``; our package and our command are ``streamlink``, like those of
the video tool. The one that is installed last overwrites ``streamlink/__init__.py`` and the command
of the other, and uninstalling either removes the shared files; pip does not detect that. This
package has its own name, so it survives both. Our commands start here: it checks before
``streamlink`` is imported, only reads files, and needs only the standard library.

``signals`` and ``output`` are set up here, so nothing that takes time is imported before them.
"""

from __future__ import annotations

import os
import sys

from streamlink_fl import output, signals

__all__ = [
    "DISTRIBUTION",
    "Clash",
    "NameClashWarning",
    "begin",
    "find_clash",
    "main",
    "warn_of_clash",
]

DISTRIBUTION = "streamlink-fl"
"""The name of our distribution on PyPI."""

_APART = (
    "Each needs an environment of its own. To keep streamlink-fl here, run 'pip uninstall "
    "streamlink' and then install streamlink-fl once more with --force-reinstall --no-deps"
)


class NameClashWarning(RuntimeWarning):
    """The video tool is installed in the same place; ours still works."""


class Clash:
    """What is wrong with the installed package ``streamlink``."""

    def __init__(self, text: str, *, is_fatal: bool) -> None:
        self.text = text
        """A sentence for the user, which ends with what to do."""
        self.is_fatal = is_fatal
        """Whether ``import streamlink`` gives something else than our package."""


def find_clash() -> Clash | None:
    """Return the conflict with the installed video tool; None: there is none.

    It imports nothing. The price is a search of ``sys.path`` and reading one small file.
    """
    init = _imported()
    if init is None:
        return Clash(
            "the package 'streamlink' has lost its __init__.py, as it does when the video tool of "
            f"that name is removed, which shares files with streamlink-fl. {_APART}",
            is_fatal=True,
        )
    with open(init, encoding="utf-8", errors="replace") as file:
        is_ours = "streamlink_fl" in file.read()  # ours imports this package
    if not is_ours:
        return Clash(
            f"'import streamlink' finds the video tool of that name ({init}), not streamlink-fl, "
            f"which moves models. {_APART}",
            is_fatal=True,
        )
    return _neighbour(os.path.dirname(os.path.dirname(init)))


def warn_of_clash() -> None:
    """Warn, when our package is imported, that the video tool is installed in the same place.

    The price is one ``stat``, which every import can afford.
    """
    if clash := _neighbour(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))):
        import warnings

        warnings.warn(clash.text, NameClashWarning, stacklevel=3)


def main() -> None:
    """Run the ``streamlink`` command, or end with 2 where another package has its place."""
    begin()
    clash = find_clash()
    if clash is not None:
        if clash.is_fatal:
            sys.stderr.write(_line(clash.text))
            sys.exit(2)
        import warnings

        warnings.simplefilter("ignore", NameClashWarning)  # the command reports it itself
    from streamlink.cli import main as run

    run()


def begin() -> None:
    """Set up ``signals`` and ``output`` for an orderly end. For our commands only."""
    signals.begin()
    output.begin()


def _imported() -> str | None:
    """Return the ``__init__.py`` that ``import streamlink`` would run."""
    from importlib.util import find_spec

    spec = find_spec("streamlink")
    return spec.origin if spec and spec.origin and spec.has_location else None


def _neighbour(site: str) -> Clash | None:
    """Return the clash if the package of the video tool's command is in ``site``."""
    if not os.path.isdir(os.path.join(site, "streamlink_cli")):
        return None
    return Clash(
        f"the video tool 'streamlink' is installed in {site} too, and shares files with "
        "streamlink-fl: streamlink-fl works, the video tool does not, and removing it breaks "
        f"streamlink-fl. {_APART}",
        is_fatal=False,
    )


def _line(text: str) -> str:
    """Format an error as the command line does, without our package, which cannot be imported."""
    if "--json-logs" not in sys.argv:
        return f"error: {text}\n"
    import json

    about = {"level": "ERROR", "logger": "streamlink", "message": f"error: {text}"}
    return json.dumps(about | {"event": "failed", "exit_code": 2}) + "\n"

"""The ways in which a command fails, and their exit codes."""

from __future__ import annotations

import signal
from collections.abc import Iterable

from pydantic import ValidationError

from streamlink.errors import Cancelled, StreamlinkError
from streamlink.logs import escape
from streamlink_fl import signals

__all__ = ["BadSettings", "CommandError", "JobFailed", "exit_code", "sentence", "sentences"]


class CommandError(StreamlinkError):
    """The command line, or something that it names, is wrong."""


class BadSettings(CommandError):
    """Settings that are unknown or not allowed; each has a sentence of its own."""

    def __init__(self, faults: Iterable[str]) -> None:
        self.faults = tuple(faults)
        super().__init__("; ".join(self.faults))


class JobFailed(StreamlinkError):
    """A job that had begun failed; ``__cause__`` says why."""


def exit_code(error: BaseException) -> int:
    """Return 1 for a job that failed, 2 for every other error.

    For signals it is 128 plus the number, as in shells: 130 for Ctrl-C, 143 for SIGTERM, 129 for
    SIGHUP.
    """
    if isinstance(error, KeyboardInterrupt | Cancelled):
        return signals.code_of(signals.received() or signal.SIGINT)
    return 1 if isinstance(error, JobFailed) else 2


def sentences(error: BaseException) -> list[str]:
    """Return what is wrong: a line for each fault of the settings, otherwise one."""
    if isinstance(error, BadSettings):
        return list(map(escape, error.faults))
    return [sentence(error)]


def sentence(error: BaseException) -> str:
    """Return an error as one line without control characters."""
    # Our own errors are OSErrors too, but their text is complete. The system's would print as
    # ``[Errno 28] ...``.
    if isinstance(error, OSError) and not isinstance(error, StreamlinkError) and error.strerror:
        where = f"{error.filename}: " if error.filename else ""
        return escape(f"{where}{error.strerror}")
    if isinstance(error, ValidationError):
        faults = (f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in error.errors())
        return escape("; ".join(faults))
    return escape(str(error) or type(error).__name__)

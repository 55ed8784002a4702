"""The operator's socket: one request and one answer, each a JSON object on one line.

It is a Unix socket beside the store, so it is not reachable from the network. The file's permission
is the authentication: only the user who started the process may open it (mode 0600 is set before
anyone can connect). A stale socket of a killed process is replaced, a live one is not; the kernel
tells them apart, because it refuses a connection to a socket that nobody listens on.
"""

from __future__ import annotations

import errno
import fcntl
import json
import logging
import os
import re
import socket
import socketserver
import stat
import struct
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Self

from streamlink.closing import Closing
from streamlink.descriptors import patiently, unhurried
from streamlink.errors import StreamlinkError

__all__ = [
    "ControlError",
    "ControlServer",
    "NothingRuns",
    "ask",
    "control_path",
    "control_paths",
    "own_control_path",
]

logger = logging.getLogger("streamlink.operate")

Answer = Callable[[Mapping[str, Any]], Mapping[str, Any]]
"""``answer(question)``; a ``StreamlinkError`` that it raises is reported to the operator."""

MAX_PATH_BYTES = 107 if sys.platform == "linux" else 103
"""The longest path of a Unix socket on Linux and on macOS: the size of ``sun_path`` (bytes)."""

MAX_LINE_BYTES = 8 << 20
"""The largest request or answer (bytes)."""

_MAX_CALLERS = 8  # at the same time; one that sends nothing is disconnected after the timeout
_CALLER_SECONDS = 5.0
_LOCK_SECONDS = 5.0


class ControlError(StreamlinkError):
    """The operator's socket cannot be created, or nobody answers at it."""


class NothingRuns(ControlError):
    """No process listens at the operator's socket."""


def control_path(store: str | os.PathLike[str]) -> Path:
    """Return the default path of the socket of a process that uses ``store``: beside the store."""
    path = Path(store)
    if path.name in ("", ".."):
        # ``.`` and ``..`` have no name of their own to add to.
        path = path.resolve()
    return path.with_name(f"{path.name}.control")


def own_control_path(store: str | os.PathLike[str]) -> Path:
    """Return the path of this process where another one has the default path: with its number."""
    path = control_path(store)
    return path.with_name(f"{path.stem}.{os.getpid()}{path.suffix}")


def control_paths(store: str | os.PathLike[str]) -> list[Path]:
    """Return where processes that use ``store`` may listen: the default path, and all own ones."""
    path = control_path(store)
    own = re.compile(re.escape(path.stem) + r"\.\d+" + re.escape(path.suffix), re.ASCII)
    with suppress(OSError):
        return [path, *sorted(each for each in path.parent.iterdir() if own.fullmatch(each.name))]
    return [path]


class ControlServer(Closing):
    """Listens at ``path`` and answers in its own threads. A context manager.

    Args:
        path: of the socket.
        answer: see ``Answer``.

    Raises:
        ControlError: another process listens there, another kind of file is there, or the path is
            too long.
        OSError: it cannot be created, such as on a file system without sockets.
    """

    def __init__(self, path: str | os.PathLike[str], answer: Answer) -> None:
        self.path = Path(path)
        require_short(self.path)
        # From the look at the old socket until the new one listens. Between ``bind`` and ``listen``
        # the kernel refuses connections, so that the new socket looks stale: without the lock
        # another process would remove it.
        with _locked(self.path.absolute().parent):
            _make_way(self.path)
            _remove_stale(self.path)
            self._server = _Listener(self.path, answer)
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(0.2,), name="control", daemon=True
        )
        self._thread.start()

    def close(self) -> None:
        """Stop listening and remove the socket file, if it is still ours."""
        self._server.shutdown()
        self._thread.join()
        # Closed before the file is removed: whoever connects in between is refused at once, instead
        # of waiting for an answer that nobody will give.
        self._server.server_close()
        # With the lock, as above: a process that begins just now may replace our socket between the
        # look and the removal. Where the lock cannot be had, a stale socket stays, which does not
        # hurt.
        with suppress(OSError, ControlError), _locked(self.path.absolute().parent):
            if _identity(self.path) == self._server.identity:
                self.path.unlink()

    def __enter__(self) -> Self:
        return self


def ask(
    path: str | os.PathLike[str], question: Mapping[str, Any], seconds: float = 10.0
) -> dict[str, Any]:
    """Send a request to the process that listens at ``path`` and return its answer.

    Raises:
        NothingRuns: nobody listens there.
        ControlError: it does not answer in time, or it refuses the request; says why.
    """
    path = Path(path)
    require_short(path)
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as line:
            line.settimeout(seconds)
            line.connect(str(path))
            # Before a word is sent: whoever listens there would learn the reason and the client's
            # name.
            _require_trusted(path, line)
            line.sendall(_encoded(question))
            with line.makefile("rb") as answers:
                # One byte more than permitted: a line that is too long then lacks its newline and
                # is refused.
                raw = answers.readline(MAX_LINE_BYTES + 1)
    except (FileNotFoundError, ConnectionRefusedError) as error:
        raise NothingRuns(
            f"{path}: no process listens here; is it the right --store or --control?"
        ) from error
    except TimeoutError as error:
        raise ControlError(
            f"{path}: no answer within {seconds:g} s: the process exists, but it hangs or is "
            "stopped"
        ) from error
    except PermissionError as error:
        raise ControlError(
            f"{path}: only the user who started the process may connect ({error.strerror})"
        ) from error
    except OSError as error:
        raise ControlError(f"{path}: {error.strerror or error}") from error
    return _understood(path, raw)


def _require_trusted(path: Path, line: socket.socket) -> None:
    """Trust only our own user and root: others could put a socket into a shared directory."""
    asking, answering = os.getuid(), _user_of(line, path)
    if asking and answering not in (asking, 0):
        raise ControlError(
            f"{path}: the process there belongs to user {answering}, not to you; put the socket "
            "into a directory that only you can write to (--control)"
        )


def _user_of(line: socket.socket, path: Path) -> int:
    """Return the user of the process that answers; on macOS the owner of the socket file."""
    if not hasattr(socket, "SO_PEERCRED"):
        return path.lstat().st_uid
    # Noted by the kernel when the socket began to listen, so the process cannot pretend.
    facts = line.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    _, user, _ = struct.unpack("3i", facts)
    return int(user)


# --- the listening end ----------------------------------------------------------------------


class _Listener(socketserver.ThreadingMixIn, socketserver.TCPServer):
    address_family = socket.AF_UNIX
    # The end of the process waits for no operator: a caller that hangs would otherwise delay it.
    daemon_threads = True
    block_on_close = False
    request_queue_size = _MAX_CALLERS

    def __init__(self, path: Path, answer: Answer) -> None:
        self.answer = answer
        self._places = threading.BoundedSemaphore(_MAX_CALLERS)
        super().__init__(str(path), _Caller, bind_and_activate=False)  # type: ignore[arg-type]
        try:
            self._bind(path)
            self.identity = _identity(path)
            self.server_activate()
        except BaseException:
            self.server_close()
            raise

    def _bind(self, path: Path) -> None:
        """Create the file with mode 0600 before anyone can connect, that is before ``listen``."""
        if sys.platform == "linux":
            os.fchmod(self.socket.fileno(), 0o600)  # ``bind`` creates the file with this mode
        self.socket.bind(str(path))
        if sys.platform != "linux":
            os.chmod(path, 0o600)

    def get_request(self) -> Any:
        return unhurried(super().get_request)

    def process_request(self, request: Any, client_address: Any) -> None:
        # Never blocks: this is the thread that accepts, and ``close`` waits for it.
        if not self._places.acquire(blocking=False):
            self.shutdown_request(request)
            return
        try:
            super().process_request(request, client_address)
        except BaseException:
            self._places.release()  # no thread could be started, so none will
            raise

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._places.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        logger.debug("the connection of an operator broke", exc_info=True)


class _Caller(socketserver.StreamRequestHandler):
    timeout = _CALLER_SECONDS
    server: _Listener

    def handle(self) -> None:
        raw = self.rfile.readline(MAX_LINE_BYTES + 1)
        if raw:
            self.wfile.write(_encoded(self._answer(raw)))

    def _answer(self, raw: bytes) -> Mapping[str, Any]:
        try:
            question = json.loads(raw) if raw.endswith(b"\n") else None
        except (ValueError, RecursionError):
            question = None
        if not isinstance(question, dict):
            return {"error": "a request is one JSON object on one line"}
        try:
            return self.server.answer(question)
        except (StreamlinkError, ValueError) as error:
            return {"error": str(error)}
        except Exception as error:
            logger.exception("the operator's request %r failed", question)
            return {"error": f"{type(error).__name__}: {error}; see the log of the process"}


# --- helpers --------------------------------------------------------------------------------


def _encoded(what: Mapping[str, Any]) -> bytes:
    return json.dumps(what).encode() + b"\n"


def _understood(path: Path, raw: bytes) -> dict[str, Any]:
    try:
        answer = json.loads(raw) if raw.endswith(b"\n") else None
    except ValueError:
        answer = None
    if not isinstance(answer, dict):
        raise ControlError(f"{path}: the process ended before it answered, or has too many callers")
    if "error" in answer:
        raise ControlError(str(answer["error"]))
    return answer


def require_short(path: Path) -> None:
    """Check that a Unix socket can have this path.

    Raises:
        ControlError: it is too long; says the limit.
    """
    nbytes = len(os.fsencode(path))
    if nbytes > MAX_PATH_BYTES:
        raise ControlError(
            f"{path}: a path of {nbytes} bytes is too long for a Unix socket; the limit is "
            f"{MAX_PATH_BYTES}; give a shorter or relative one with --control"
        )


def _make_way(path: Path) -> None:
    """Remove a stale socket.

    Raises:
        ControlError: a process listens on it, or it is not a socket.
    """
    try:
        is_socket = stat.S_ISSOCK(path.lstat().st_mode)
    except FileNotFoundError:
        return
    if not is_socket:
        raise ControlError(f"{path}: this is not a socket; give another path with --control")
    if _is_alive(path):
        raise ControlError(
            f"{path}: another process listens here, so one uses this store already (streamlink "
            "status shows it); end it first, or give another path with --control"
        )
    path.unlink()


def _remove_stale(path: Path) -> None:
    """Remove what killed processes have left beside ``path``: each had its number in the name."""
    # No later process has the same number, as a rule, so that they would gather for ever.
    store = re.sub(r"(\.\d+)?\.control$", "", str(path), flags=re.ASCII)
    for each in control_paths(store)[1:]:
        with suppress(ControlError, OSError):  # a live one, or another user's
            _make_way(each)


def _is_alive(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as line:
        line.settimeout(1.0)
        try:
            line.connect(str(path))
        except OSError as error:
            # Any other error counts as alive, such as a full queue of callers, or a socket that
            # this user may not open: to leave a stale file is harmless, to remove a live one is
            # not.
            return error.errno != errno.ECONNREFUSED
    return True


def _identity(path: Path) -> tuple[int, int]:
    # The inode and not the path: another process may have put its own socket there since.
    found = path.lstat()
    return found.st_dev, found.st_ino


@contextmanager
def _locked(directory: Path) -> Iterator[None]:
    """Let one process at a time replace sockets in ``directory``.

    Without the lock, two processes that start together could both find a stale socket, and the
    second would unlink the live socket of the first.
    """
    with _opened(directory) as fd:
        until = time.monotonic() + _LOCK_SECONDS
        while not _has_locked(fd):
            if time.monotonic() > until:
                raise ControlError(
                    f"{directory}: another process has held the lock (flock) for "
                    f"{_LOCK_SECONDS:g} s; end it, or give another path with --control"
                )
            time.sleep(0.01)  # flock has no timeout
        yield


def _has_locked(fd: int) -> bool:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:  # a file system without locks: accept a race of milliseconds
        logger.debug("no lock: %s", error)
    return True


@contextmanager
def _opened(directory: Path) -> Iterator[int]:
    fd = patiently(os.open, directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield fd
    finally:
        os.close(fd)  # releases the lock

"""A server and its clients as processes of this machine: start, watch, measure, and end them all.

Each child is a command line of its own. It reports facts about itself on a pipe from its parent
(``--report-fd``), one JSON object per line: its port, its memory before the first channel, its
results. The parent samples each child's resident memory from outside.
"""

from __future__ import annotations

import ctypes
import json
import logging
import os
import resource
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from types import FrameType
from typing import Any

import psutil

from streamlink.cancel import CancelToken
from streamlink.errors import StreamlinkError
from streamlink.signals import deferred, ignored

__all__ = ["Fleet", "FleetError", "Member", "Reporter"]

logger = logging.getLogger("streamlink.fleet")

# A second is enough on an idle machine, for the imports; this is for a very busy one.
START_SECONDS = 60.0
END_SECONDS = 15.0
MAX_SAMPLES = 600
_PR_SET_PDEATHSIG = 1


class FleetError(StreamlinkError):
    """A process of the fleet failed, or never started."""


class Reporter:
    """The child's end of the pipe: reports facts about this process to its ``Fleet``.

    With a pipe SIGTERM raises ``KeyboardInterrupt``, once. The parent sends it, and the kernel does
    where the parent was killed. A program that has a handler of its own keeps it.

    Args:
        fd: the pipe, from ``--report-fd``; None: nothing is reported.
    """

    def __init__(self, fd: int | None) -> None:
        # Line-buffered, so that each fact reaches the parent at once.
        self._file = os.fdopen(fd, "w", buffering=1) if fd is not None else None
        if self._file is not None:
            # SIGTERM comes from the parent, or from the kernel when the parent was killed. In both
            # cases there is time to clean up.
            if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
                signal.signal(signal.SIGTERM, _interrupt)
            _die_with_parent(self._file.fileno())

    def report(self, **facts: Any) -> None:
        """Report ``facts``: anything that JSON can represent."""
        if self._file is not None:
            self._file.write(json.dumps(facts) + "\n")

    def report_base(self) -> None:
        """Report the resident memory of this moment: after the imports, before any channel."""
        self.report(base_rss_bytes=psutil.Process().memory_info().rss)

    def report_usage(self) -> None:
        """Report peak memory (bytes) and processor time (seconds) so far."""
        used = resource.getrusage(resource.RUSAGE_SELF)
        self.report(
            peak_rss_bytes=peak_rss_bytes(os.getpid()),
            cpu_seconds=round(used.ru_utime + used.ru_stime, 2),
        )


@dataclass
class Member:
    """One process of a fleet, as the parent sees it."""

    role: str
    name: str
    process: subprocess.Popen[bytes]
    facts: dict[str, Any] = field(default_factory=dict)
    samples: list[tuple[float, int, float]] = field(default_factory=list)
    """(seconds since the start, resident bytes, processor seconds)."""

    def report(self) -> dict[str, Any]:
        """Return what the run's report says of this process."""
        peak = max((rss for _, rss, _ in self.samples), default=0)
        return {
            "role": self.role,
            "name": self.name,
            "base_rss_bytes": self.facts.get("base_rss_bytes", 0),
            "peak_rss_bytes": max(peak, self.facts.get("peak_rss_bytes", 0)),
            "cpu_seconds": self.facts.get("cpu_seconds", 0.0),
            "exit_code": self.process.returncode,
            "rss": [[t, rss] for t, rss, _ in _thinned(self.samples)],
            "cpu": [[t, cpu] for t, _, cpu in _thinned(self.samples)],
        }


class Fleet:
    """Runs one server command and, once that listens, its client commands.

    Args:
        sample_seconds: the interval of the memory samples (seconds).
        end_seconds: how long a process may take to end before it is killed (seconds).
        cancel: ends ``run``. Without it Ctrl-C and SIGTERM are deferred while a process starts and
            while the processes are ended.
    """

    def __init__(
        self,
        *,
        sample_seconds: float = 0.25,
        end_seconds: float = END_SECONDS,
        cancel: CancelToken | None = None,
    ) -> None:
        self._has_token, self._cancel = cancel is not None, cancel or CancelToken()
        self.members: list[Member] = []
        self._sample_seconds = sample_seconds
        self._end_seconds = end_seconds
        self._began = time.monotonic()
        self._told = threading.Condition()

    def run(
        self, server: Sequence[str], clients: Callable[[int], Iterable[tuple[str, Sequence[str]]]]
    ) -> Member:
        """Run them to the end and return the server's member.

        Args:
            server: its command; it must take ``--report-fd`` and report ``port``.
            clients: gives (name, command) of each client, for the port the server listens on.

        Raises:
            FleetError: the server failed or never listened, or a client ended before it began.
            Cancelled: the token was; after every process has ended.
            KeyboardInterrupt: after every process has ended.
        """
        try:
            with self._cancel.calling(self._wake):
                head = self._start("server", "server", server)
                port = self._wait_port(head)
                for name, command in clients(port):
                    self._start("client", name, command)
                self._watch(head)
                self._end_clients()
        except BaseException:
            with nullcontext() if self._has_token else ignored():
                self._end_all()
            raise
        if head.process.returncode != 0:
            raise FleetError(
                f"the server ended with exit code {head.process.returncode}; its log above says why"
            )
        return head

    # --- steps ------------------------------------------------------------------------

    def _start(self, role: str, name: str, command: Sequence[str]) -> Member:
        self._cancel.check()
        with nullcontext() if self._has_token else deferred():
            reads, writes = os.pipe()
            try:
                process = subprocess.Popen(
                    [*command, "--report-fd", str(writes)],
                    pass_fds=(writes,),
                    start_new_session=True,  # Ctrl-C reaches the parent, which ends them in order
                )
            except BaseException:
                os.close(reads)
                raise
            finally:
                # The child has its copy. While ours is open, the pipe would not end with the child.
                os.close(writes)
            member = Member(role, name, process)
            self.members.append(member)
            threading.Thread(target=self._listen, args=(member, reads), daemon=True).start()
        logger.debug("started %s, process %d", name, process.pid)
        return member

    def _listen(self, member: Member, reads: int) -> None:
        with os.fdopen(reads) as lines:
            for line in lines:
                if not line.endswith("\n"):
                    break  # it was killed while it wrote this line
                with self._told:
                    member.facts.update(json.loads(line))
                    self._told.notify_all()
        with self._told:
            member.facts["has_ended"] = True
            self._told.notify_all()

    def _wait_port(self, head: Member) -> int:
        with self._told:
            self._told.wait_for(lambda: "port" in head.facts or self._is_over(head), START_SECONDS)
        self._cancel.check()
        if "port" in head.facts:
            return int(head.facts["port"])
        if "has_ended" in head.facts:
            code = self._code_of(head)
            raise FleetError(f"the server ended before it listened, exit code {code}; see above")
        raise FleetError(f"the server did not begin to listen within {START_SECONDS:g} s")

    def _watch(self, head: Member) -> None:
        while head.process.poll() is None:
            self._sample()
            with self._told:
                self._told.wait_for(lambda: self._is_over(head), self._sample_seconds)
            if "has_ended" in head.facts:
                self._code_of(head)
                return
            self._cancel.check()
            self._check_clients(head)

    def _is_over(self, head: Member) -> bool:
        return "has_ended" in head.facts or self._cancel.is_cancelled

    def _wake(self, reason: str) -> None:
        with self._told:
            self._told.notify_all()

    def _check_clients(self, head: Member) -> None:
        """Do not let the server wait for a client that never began.

        One that ends later is the server's business: it has rules for that, and when all have left
        it may still have work of its own.
        """
        for member in self.members:
            if member is head or member.process.poll() is None:
                continue
            # It has ended, but the thread that reads its pipe may lag behind: what it reported last
            # would be missed.
            self._wait_told(member)
            if "base_rss_bytes" not in member.facts:
                raise FleetError(
                    f"{member.name} ended before it began, exit code {member.process.returncode}; "
                    "see above"
                )

    def _code_of(self, head: Member) -> int:
        """Return the exit code of a server that has closed its pipe, so is about to end."""
        try:
            return head.process.wait(self._end_seconds)
        except subprocess.TimeoutExpired:
            raise FleetError("the server fell silent and did not end") from None

    def _wait_told(self, member: Member) -> None:
        """Wait until everything an ended process told has been read."""
        with self._told:
            self._told.wait_for(lambda: "has_ended" in member.facts, self._end_seconds)

    def _sample(self) -> None:
        at = round(time.monotonic() - self._began, 2)
        for member in self.members:
            try:
                process = psutil.Process(member.process.pid)
                with process.oneshot():
                    cpu = process.cpu_times()
                    rss = process.memory_info().rss
                if rss:  # else it has ended, and nobody has waited for it yet
                    member.samples.append((at, rss, round(cpu.user + cpu.system, 2)))
            except psutil.Error:
                continue

    def _end_clients(self) -> None:
        until = time.monotonic() + self._end_seconds
        for member in self.members:
            try:
                member.process.wait(max(0.0, until - time.monotonic()))
            except subprocess.TimeoutExpired:
                logger.warning("%s did not end by itself and is killed", member.name)
                member.process.kill()
                member.process.wait()
            self._wait_told(member)

    def _end_all(self) -> None:
        # The clients first: a client whose server is gone would begin to reconnect, and complain.
        for member in reversed(self.members):
            if member.process.poll() is None:
                # Not SIGINT: a process that is still starting up would answer with a traceback.
                member.process.terminate()
        self._end_clients()


def peak_rss_bytes(pid: int) -> int:
    """Return the most memory the process ever had resident (bytes); 0 where Linux cannot say."""
    try:
        with open(f"/proc/{pid}/status", encoding="ascii") as status:
            line = next(line for line in status if line.startswith("VmHWM"))
    except (OSError, StopIteration):
        return 0
    return int(line.split()[1]) * 1024


def python_module(*arguments: str) -> list[str]:
    """Return the command that runs streamlink's own command line with ``arguments``."""
    return [sys.executable, "-m", "streamlink", *arguments]


def _thinned(samples: list[tuple[float, int, float]]) -> list[tuple[float, int, float]]:
    """Return at most ``MAX_SAMPLES``, each the highest of its stretch: a peak is never lost."""
    step = -(-len(samples) // MAX_SAMPLES) or 1
    return [max(samples[at : at + step], key=lambda s: s[1]) for at in range(0, len(samples), step)]


def _interrupt(number: int, frame: FrameType | None) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # once: what follows is the clean-up
    raise KeyboardInterrupt


def _die_with_parent(pipe: int) -> None:
    if sys.platform.startswith("linux"):
        # The signal comes when the *thread* ends that started this process. ``Fleet.run`` starts
        # and awaits them in one thread, so that is the parent's end too.
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    # For a parent that died before that no signal comes. Only the parent has the reading end, so
    # its end shows there; ``getppid`` would not, since nobody told this process who started it.
    look = select.poll()
    look.register(pipe, 0)
    if any(event & select.POLLERR for _, event in look.poll(0)):
        signal.raise_signal(signal.SIGTERM)

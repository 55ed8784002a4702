"""Runs one case: starts its processes, waits for what they say, watches, and cleans up."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
import threading
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psutil

from benchmarks.integrations.cases import Case, Ended, Outcome
from benchmarks.integrations.lines import Lines
from benchmarks.integrations.sides import Sides, processes_of
from benchmarks.stats import commit, environment

__all__ = ["CaseFailed", "Running", "run_case"]

REPOSITORY = Path(__file__).resolve().parents[2]
TAIL_CHARS = 2000
LEFT_SECONDS = 10.0


class CaseFailed(RuntimeError):
    """A process of the case ended badly, said nothing, or said the wrong thing."""


class Running:
    """What a framework's ``run`` gets: its case, a folder, and ways to start and to disturb.

    Attributes:
        folder: empty at first; deleted afterwards, unless the case failed.
        python: of the framework's environment.
    """

    def __init__(self, case: Case, python: Path, folder: Path, stack: ExitStack) -> None:
        self.case, self.python, self.folder = case, python, folder
        self.name = f"{case.framework}-{uuid.uuid4().hex[:12]}"
        self.said = ""
        self.over_limit = ""
        self._stack = stack
        self.marks_file = folder / "marks.jsonl"
        self.marks_file.touch()
        self._processes: dict[str, list[subprocess.Popen[bytes]]] = {}
        self._closing = False

    def start(
        self,
        side: str,
        command: Sequence[object],
        *,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
    ) -> subprocess.Popen[bytes]:
        """Start a process of ``side``; what it prints goes to ``<side>.log`` in the folder."""
        here = {**os.environ, "PYTHONPATH": str(REPOSITORY), **self.variables(side), **(env or {})}
        here.pop("VIRTUAL_ENV", None)
        with (self.folder / f"{side}.log").open("ab") as log:
            process = subprocess.Popen(
                [str(each) for each in command],
                env=here,
                cwd=cwd or self.folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # a Ctrl-C is ours to pass on, when all is written down
            )
        with suppress(OSError):  # should memory run out, the kernel is to end a measured process
            Path(f"/proc/{process.pid}/oom_score_adj").write_text("900")
        self._processes.setdefault(side, []).append(process)
        if self._closing:
            process.kill()
        return process

    def variables(self, side: str) -> dict[str, str]:
        """Return the environment variables by which a process belongs to a side of this case."""
        return {
            "STREAMLINK_CASE": self.name,
            "STREAMLINK_SIDE": side,
            "STREAMLINK_MARKS": str(self.marks_file),
            "STREAMLINK_CASE_FACTS": json.dumps(self.case.as_json()),
        }

    # --- what they say ------------------------------------------------------------------

    def marks(self, event: str = "", side: str = "") -> list[dict[str, Any]]:
        """Return what was said so far: all of it, or one event, or one side's."""
        lines = self.marks_file.read_text().splitlines(keepends=True)
        found = [json.loads(line) for line in lines if line.endswith("\n")]
        return [
            each for each in found if each["event"] == (event or each["event"])
            and each["side"] == (side or each["side"])
        ]  # fmt: skip

    def until(
        self, event: str, side: str = "", *, seconds: float = 300.0, count: int = 1
    ) -> dict[str, Any]:
        """Wait until ``event`` was said ``count`` times, and return the last of these.

        Raises:
            CaseFailed: it was not said in time, or a process of the side has ended before.
        """
        give_up_at = time.monotonic() + seconds
        while len(found := self.marks(event, side)) < count:
            for each in self._processes.get(side, [])[-1:]:  # an earlier one may be killed
                if each.poll() and len(self.marks(event, side)) < count:
                    raise CaseFailed(f"{side} ended with {each.returncode} before {event!r}")
            if time.monotonic() > give_up_at or self._closing:
                raise CaseFailed(f"nobody of {side or 'any side'} said {event!r} in {seconds:g} s")
            time.sleep(0.05)
        return found[count - 1]

    def until_logged(self, side: str, *texts: str, seconds: float = 300.0) -> None:
        """Wait until a process of ``side`` has printed one of the texts.

        Raises:
            CaseFailed: it was not printed in time.
        """
        give_up_at, log = time.monotonic() + seconds, self.folder / f"{side}.log"
        while not any(text in log.read_text(errors="replace") for text in texts):
            if time.monotonic() > give_up_at or self._closing:
                raise CaseFailed(f"{side} printed none of {texts} in {seconds:g} s")
            time.sleep(0.1)

    def finish(self, process: subprocess.Popen[bytes], *, seconds: float = 600.0) -> None:
        """Wait for a process's end.

        Raises:
            CaseFailed: it did not end in time, or not with status 0.
        """
        status = self.end_of(process, seconds=seconds)
        if status:
            raise CaseFailed(f"{self.side_of(process)} ended with status {status}")

    def end_of(self, process: subprocess.Popen[bytes], *, seconds: float = 600.0) -> int:
        """Wait for a process's end and return its status, whatever it is.

        Raises:
            CaseFailed: it did not end in time.
        """
        try:
            return process.wait(seconds)
        except subprocess.TimeoutExpired:
            raise CaseFailed(f"{self.side_of(process)} has not ended in {seconds:g} s") from None

    def side_of(self, process: subprocess.Popen[bytes]) -> str:
        """Return the side that a process was started for."""
        return next(side for side, all_of_it in self._processes.items() if process in all_of_it)

    # --- what goes wrong ----------------------------------------------------------------

    def lines(self) -> Lines:
        """Return the lines to a server of objects, which can be cut."""
        return self._stack.enter_context(Lines())

    def kill(self, process: subprocess.Popen[bytes]) -> None:
        """Kill a process and its children."""
        for each in _tree(process):
            with suppress(psutil.NoSuchProcess):
                each.kill()

    def stop(self, process: subprocess.Popen[bytes]) -> None:
        """Stop a process and its children: they are there, and do nothing more."""
        for each in _tree(process):
            with suppress(psutil.NoSuchProcess):
                each.suspend()

    # --- the end ------------------------------------------------------------------------

    def log(self) -> str:
        """Return the last words of every side."""
        parts = []
        for path in sorted(self.folder.glob("*.log")):
            text = path.read_text(errors="replace")[-TAIL_CHARS:].strip()
            parts.append(f"--- {path.stem}\n{text}")
        return "\n".join(parts)

    def close(self) -> None:
        """End everything of this case that is still there, by id."""
        self._closing = True
        orphans = []
        for pid in processes_of(self.name):
            with suppress(psutil.NoSuchProcess):
                orphans.append(psutil.Process(pid))
                orphans[-1].kill()
        for processes in self._processes.values():
            for each in processes:
                each.wait()
        # What they have left behind is not ours to wait for by ``wait``: it has another parent.
        psutil.wait_procs(orphans, LEFT_SECONDS)

    def left_behind(self, seconds: float) -> list[str]:
        """Return the command lines of what still runs ``seconds`` from now; ended means none."""
        give_up_at = time.monotonic() + seconds
        while pids := self._alive():
            if time.monotonic() > give_up_at:
                return [_command_line(pid) for pid in pids]
            time.sleep(0.1)
        return []

    def _alive(self) -> list[int]:
        """Return those that run, and were not stopped on purpose."""
        found = []
        for pid in processes_of(self.name):
            with suppress(psutil.NoSuchProcess):
                if psutil.Process(pid).status() not in ("stopped", "zombie"):
                    found.append(pid)
        return found


def run_case(
    case: Case,
    run: Callable[[Running], None],
    python: Path,
    *,
    limit_bytes: int,
    timeout: float,
    left_seconds: float = LEFT_SECONDS,
) -> Outcome:
    """Run one case to its end, whatever that is, and return what was seen."""
    # Not "streamlink-": an integration removes folders with its own name that nobody owns.
    folder = Path(tempfile.mkdtemp(prefix=f"case-{case.framework}-"))
    started_at, ended, error = time.monotonic(), "done", ""
    with ExitStack() as stack:
        running = Running(case, python, folder, stack)

        def over(why: str) -> None:
            running.over_limit = running.over_limit or why
            running.close()

        timer = threading.Timer(timeout, over, [f"timeout: it ran for more than {timeout:g} s"])
        looks = Path(f"{running.marks_file}.looks")
        sides = stack.enter_context(Sides(running.name, limit_bytes, over, looks))
        timer.start()
        try:
            run(running)
            left = running.left_behind(left_seconds)
        except Exception as failure:  # a bug of a case must not end a series of hours
            ended, error, left = "failed", f"{type(failure).__name__}: {failure}", []
        finally:
            timer.cancel()
            running.close()
    if running.over_limit:
        timed_out = running.over_limit.startswith("timeout")
        ended, error = "timeout" if timed_out else "out of memory", running.over_limit
    outcome = _outcome(running, sides, ended, time.monotonic() - started_at)  # type: ignore[arg-type]
    outcome.left_behind = left
    outcome.said = "\n".join(filter(None, [error, running.said, error and running.log()]))
    shutil.rmtree(folder, ignore_errors=True)
    return outcome


def _outcome(running: Running, sides: Sides, ended: Ended, seconds: float) -> Outcome:
    marks = running.marks()
    idle: dict[int, tuple[float, float]] = {}
    calls: dict[str, dict[str, float]] = {}
    for each in marks:
        if each["event"] == "belongs":
            sides.side_of[each["pid"]] = each["side"]
        elif each["event"] == "idle":
            idle[each["pid"]] = (each["at"], each["at"] + 1.0)
        elif each["event"] == "idle ended":
            idle[each["pid"]] = (idle[each["pid"]][0], each["at"])
        elif each["event"] == "call":
            side = calls.setdefault(each["side"], {"send": 0.0, "receive": 0.0})
            side[each["kind"]] += each["seconds"]
    verdicts = [each["exact"] for each in marks if each["event"] == "result"]
    found = environment()
    return Outcome(
        case=running.case,
        ended=ended,
        seconds=seconds,
        exact=all(verdicts) if verdicts else None,
        rounds=[each["seconds"] for each in marks if each["event"] == "round"],
        calls=calls,
        memory=sides.memory(idle),
        marks=[each for each in marks if each["event"] not in ("call", "idle", "idle ended")],
        commit=commit(),
        at=datetime.now(UTC).isoformat(timespec="seconds"),
        machine=found["machine"],
    )


def _tree(process: subprocess.Popen[bytes]) -> list[psutil.Process]:
    with suppress(psutil.NoSuchProcess):
        root = psutil.Process(process.pid)
        return [*root.children(recursive=True), root]
    return []


def _command_line(pid: int) -> str:
    with suppress(psutil.NoSuchProcess):
        return " ".join(psutil.Process(pid).cmdline())[:200]
    return f"process {pid}, which has just ended"

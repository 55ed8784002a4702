"""NVIDIA FLARE's own benchmarks, as they are in a clone of its repository: how each is run.

Each script has a receiver and a sender. ``cellnet_bench.py`` sends bytes that are made as they are
sent and dropped where they arrive; its receiver prints the seconds. ``tensor_download_bench.py``
sends a PyTorch checkpoint by the download service, into memory or into files; its sender prints the
seconds. The second one imports the first.
"""

from __future__ import annotations

import re
import select
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.links.payload import Payload
from benchmarks.links.plans import COMPUTED, OURS
from benchmarks.links.ports import free_port

__all__ = ["BENCHES", "STREAM", "TAG", "TENSORS", "Bench", "checked_out", "run_bench",
           "scripts_of", "seconds_of_receiver", "seconds_of_sender"]  # fmt: skip

FOLDER = "dev_tools/f3"
TAG = "2.9.0dev0"  # the newest tag that has them; the package that runs them is 2.9.0
GIB = 1 << 30
ARRAYS = 64
WAIT_SECONDS = 120.0
SLOWEST_BYTES_PER_SECOND = 20e6
CHECKPOINT = "model.bin"
_DONE = re.compile(r"DONE: ([\d,]+) bytes in ([\d,.]+) seconds .* OK$")
_RESULT = re.compile(r"^\[send\] RESULT mode=\S+ .* transferred in ([\d,.]+)s ", re.MULTILINE)
_MAKE_CHECKPOINT = (
    "import sys, torch; path, count, length = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]); "
    "torch.save({f'layer_{n:04d}': torch.rand(length) for n in range(count)}, path)"
)


@dataclass(frozen=True)
class Bench:
    """One of their scripts.

    Attributes:
        script: its name.
        ways: what is run of it, by name: the sender's options.
        ours: streamlink's peer that moves as many bytes beside it.
        payload: returns what that one moves, for a number of bytes.
        sends: returns the sender's options for a number of bytes, and makes what it needs in a
            folder, with the python that runs it.
        receives: returns the receiver's options, for that folder.
        is_told_by_receiver: who prints the seconds: the receiver, or else the sender.
    """

    script: str
    ways: Mapping[str, tuple[str, ...]]
    ours: str
    payload: Callable[[int], Payload]
    sends: Callable[[Path, Path, int], tuple[str, ...]]
    receives: Callable[[Path], tuple[str, ...]]
    is_told_by_receiver: bool


def _size(_python: Path, _folder: Path, nbytes: int) -> tuple[str, ...]:
    return ("--size-gb", repr(nbytes / GIB))


def _checkpoint(python: Path, folder: Path, nbytes: int) -> tuple[str, ...]:
    """Write float32 tensors for the sender, once."""
    path = folder / CHECKPOINT
    if not path.exists():
        length = nbytes // ARRAYS // 4
        words = [str(python), "-c", _MAKE_CHECKPOINT, str(path), str(ARRAYS), str(length)]
        subprocess.run(words, check=True, capture_output=True, timeout=_limit(nbytes))
    return ("--checkpoint", str(path))


STREAM = Bench(
    script="cellnet_bench.py",
    ways={"byte stream": ("--reliable", "false"), "reliable byte stream": ("--reliable", "true")},
    ours=COMPUTED,
    payload=lambda nbytes: Payload(nbytes, 16, "computed"),
    sends=_size,
    receives=lambda folder: (),
    is_told_by_receiver=True,
)
TENSORS = Bench(
    script="tensor_download_bench.py",
    ways={"tensors into memory": ("--modes", "memory"), "tensors into files": ("--modes", "disk")},
    ours=OURS,
    payload=lambda nbytes: Payload(nbytes, ARRAYS),
    sends=_checkpoint,
    receives=lambda folder: ("--offload-dir", str(folder)),
    is_told_by_receiver=False,
)
BENCHES = (STREAM, TENSORS)


@contextmanager
def scripts_of(repository: Path, tag: str = TAG) -> Iterator[Path]:
    """Give their scripts, as they are at a tag of a clone, in a folder that is removed again.

    Raises:
        OSError: the clone has no such tag or file; git's words say why.
    """
    with tempfile.TemporaryDirectory() as folder:
        checked_out(repository, tag, Path(folder))
        yield Path(folder)


def checked_out(repository: Path, tag: str, folder: Path) -> None:
    """Write their scripts, as they are at a tag of a clone, bare or not, to a folder.

    Raises:
        OSError: it has no such tag or file; git's words say why.
    """
    for bench in BENCHES:
        path = f"{FOLDER}/{bench.script}"
        words = ["git", "-C", str(repository), "show", f"{tag}:{path}"]
        done = subprocess.run(words, capture_output=True, text=True)
        if done.returncode:
            raise OSError(f"no {path} at {tag} in {repository}: {done.stderr.strip()}")
        (folder / bench.script).write_text(done.stdout, encoding="utf-8")


def run_bench(
    bench: Bench, python: Path, folder: Path, nbytes: int, options: tuple[str, ...]
) -> float:
    """Run a benchmark's receiver and its sender once; returns the seconds that it prints.

    Raises:
        OSError: one of them failed, or did not end in time.
    """
    try:
        sends = bench.sends(python, folder, nbytes)
    except subprocess.SubprocessError as error:
        raise OSError(f"what its sender sends cannot be made: {error}") from error
    url = ("--url", f"tcp://127.0.0.1:{free_port('127.0.0.1')}")
    command = [str(python), "-u", str(folder / bench.script)]
    receives = [*command, "recv", *url, *bench.receives(folder)]
    with subprocess.Popen(receives, stdout=subprocess.PIPE) as receiver:
        try:
            _line(receiver, lambda text: "listening" in text)
            sent = subprocess.run([*command, "send", *url, *sends, *options], check=True,
                                  stdout=subprocess.PIPE, text=True,
                                  timeout=_limit(nbytes))  # fmt: skip
            if not bench.is_told_by_receiver:
                return seconds_of_sender(sent.stdout)
            return seconds_of_receiver(_line(receiver, lambda text: "DONE" in text), nbytes)
        except subprocess.SubprocessError as error:
            raise OSError(f"its sender failed: {error}") from error
        finally:
            receiver.kill()


def seconds_of_receiver(line: str, nbytes: int) -> float:
    """Return the seconds of the receiver's last line.

    Raises:
        OSError: it did not get all bytes.
    """
    match = _DONE.search(line)
    if match is None or int(match[1].replace(",", "")) != nbytes:
        raise OSError(f"its receiver got something else than {nbytes} bytes: {line}")
    return float(match[2].replace(",", ""))


def seconds_of_sender(printed: str) -> float:
    """Return the seconds of the sender's line of results.

    Raises:
        OSError: there is none.
    """
    match = _RESULT.search(printed)
    if match is None:
        raise OSError(f"its sender printed no result: {printed[-500:]}")
    return float(match[1].replace(",", ""))


def _limit(nbytes: int) -> float:
    return WAIT_SECONDS + nbytes / SLOWEST_BYTES_PER_SECOND


def _line(process: subprocess.Popen[bytes], is_it: Callable[[str], bool]) -> str:
    """Return the first line of a process's output for which ``is_it`` is true."""
    assert process.stdout is not None
    give_up_at = time.monotonic() + WAIT_SECONDS
    while (left := give_up_at - time.monotonic()) > 0:
        if not select.select([process.stdout], [], [], left)[0]:
            break
        text = process.stdout.raw.readline().decode(errors="replace").strip()  # type: ignore[attr-defined]
        if not text:
            break
        if is_it(text):
            return str(text)
    raise OSError("its receiver has ended, or says nothing")

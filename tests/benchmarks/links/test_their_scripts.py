"""What is read of NVIDIA FLARE's own benchmarks, which are not here."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from benchmarks.links.their_scripts import (
    BENCHES,
    checked_out,
    seconds_of_receiver,
    seconds_of_sender,
)

LINE = "[recv] stream 7 DONE: 1,000,000 bytes in 1,002.50 seconds (0.0 MB/s) OK"
RESULT = (
    "[send] starting mode=memory repetition=1: 64 tensor references\n"
    "[send] RESULT mode=memory repetition=1: 1.00 GiB transferred in 1,003.456s (1.0 MiB/s, "
    "0.009 Gbit/s) sender_rss_delta=1.00 MiB receiver_rss_delta=1.00 GiB receiver_disk=0.00 MiB\n"
)


def test_the_time_of_the_byte_stream_is_the_receivers() -> None:
    assert seconds_of_receiver(LINE, 10**6) == 1002.5


@pytest.mark.parametrize("line", [LINE.replace(" OK", " SIZE MISMATCH"), "[recv] nothing"])
def test_a_receiver_without_all_bytes_is_a_failure(line: str) -> None:
    with pytest.raises(OSError, match="something else than 1000000 bytes"):
        seconds_of_receiver(line, 10**6)


def test_the_time_of_the_tensors_is_the_senders() -> None:
    assert seconds_of_sender(RESULT) == 1003.456


def test_a_sender_without_a_result_is_a_failure() -> None:
    with pytest.raises(OSError, match=r"printed no result: .*starting"):
        seconds_of_sender(RESULT.splitlines()[0])


@pytest.mark.processes
def test_the_scripts_are_those_of_the_tag(tmp_path: Path) -> None:
    repository, scripts = tmp_path / "repository", tmp_path / "scripts"
    theirs = repository / "dev_tools" / "f3"
    theirs.mkdir(parents=True)
    scripts.mkdir()

    def git(*words: str) -> None:
        subprocess.run(["git", "-C", str(repository), *words], check=True, capture_output=True)

    def write(text: str) -> None:
        for bench in BENCHES:
            (theirs / bench.script).write_text(f"{bench.script}: {text}\n", "utf-8")

    git("init")
    write("first")
    git("add", "-A")
    git("-c", "user.name=a", "-c", "user.email=a@example.org", "commit", "-m", "first")
    git("tag", "1.0")
    write("second")
    checked_out(repository, "1.0", scripts)
    for bench in BENCHES:
        assert (scripts / bench.script).read_text("utf-8") == f"{bench.script}: first\n"
    with pytest.raises(OSError, match=r"no dev_tools/f3/cellnet_bench.py at 2.0"):
        checked_out(repository, "2.0", scripts)

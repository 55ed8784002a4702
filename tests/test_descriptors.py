"""File descriptors run out for real, in processes that may have few of them."""

from __future__ import annotations

import errno

import pytest

from streamlink.descriptors import in_use, patiently
from tests.support.few_files import run_with_few_files

TAKE_ALL = """
import os, threading
from streamlink import descriptors
from streamlink.descriptors import patiently

held = []
try:
    while True:
        held.append(os.open("/dev/null", os.O_RDONLY))
except OSError:
    pass
"""


@pytest.mark.processes
def test_work_on_a_file_waits_until_a_descriptor_is_free() -> None:
    said = run_with_few_files(
        TAKE_ALL
        + """
has_failed = threading.Event()

def open_one():
    try:
        return os.open("/dev/null", os.O_RDONLY)
    except OSError:
        has_failed.set()
        raise

def free_one():
    has_failed.wait()
    os.close(held.pop())

threading.Thread(target=free_one).start()
print(patiently(open_one) >= 0)
""",
        soft=32,
    )
    assert said == "True\n"


@pytest.mark.processes
def test_who_waits_in_vain_is_told_the_limit_and_how_to_raise_it() -> None:
    said = run_with_few_files(
        TAKE_ALL
        + """
descriptors.WAIT_SECONDS = 0.1
try:
    patiently(os.listdir, "/tmp")
except OSError as error:
    print(error.errno, error.strerror)
""",
        soft=32,
    )
    assert said.startswith(f"{errno.EMFILE} no file descriptor became free within 0.1 s")
    assert "may have 32 (RLIMIT_NOFILE); raise it with `ulimit -n`, or LimitNOFILE=" in said


def test_every_other_fault_is_passed_on_at_once() -> None:
    with pytest.raises(FileNotFoundError):
        patiently(open, "/nowhere/at-all")


def test_descriptors_are_counted() -> None:
    before = in_use()
    with open("/dev/null"):
        assert in_use() == before + 1

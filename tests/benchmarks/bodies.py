"""Worker functions for the tests of ``benchmarks.processes``."""

from __future__ import annotations

import time

import numpy as np

from benchmarks.worker import Port


def allocate(port: Port, nbytes: int) -> None:
    """Hold ``nbytes`` until told to go on, then let go of them."""
    port.mark_base()
    held = np.ones(nbytes, dtype=np.uint8)
    port.tell("allocated", total=int(held[-1]))
    port.wait_for("release")
    del held


def fail(port: Port) -> None:
    """Raise in the child."""
    port.mark_base()
    raise RuntimeError("this one was meant to fail")


def wait(port: Port) -> None:
    """Do nothing until told to go on."""
    port.wait_for("go")


def sleep(port: Port) -> None:
    """Be busy for ten minutes, without a look at whoever started it."""
    port.tell("asleep")
    time.sleep(600)


def print_and_say(port: Port) -> None:
    """Print as a careless library would, then say something."""
    print("noise")
    port.tell("said", what="signal")

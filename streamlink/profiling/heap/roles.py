"""One process of an experiment: ``python -m streamlink.profiling.heap.roles ORDER``.

``ORDER`` is the JSON of an ``Order``. Standard output has a line of JSON for each event: where the
server listens, each round, and why it failed.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable
from typing import Any

import streamlink as sl
from streamlink.fleet import Reporter
from streamlink.profiling.heap.capture import Capture
from streamlink.profiling.heap.experiment import Order
from streamlink.profiling.heap.serving import serve
from streamlink.profiling.heap.sites import is_synthetic
from streamlink.profiling.heap.taking_part import take_part

__all__ = ["run_role"]


def run_role(order: Order, report: Callable[..., object]) -> None:
    """Do what the order says, with the memory of this process watched, and write its record.

    Args:
        order: what to do.
        report: called with the facts of each event.

    Raises:
        StreamlinkError: the job failed here.
        Exception: whatever the training raised.
    """
    _import(order)
    with Capture(order, report) as capture:
        if order.role == "server":
            serve(order, capture, lambda address: report(event="listening", address=address))
        else:
            take_part(order, capture)


def _import(order: Order) -> None:
    """Import all that the role needs, so that the base counts the program and no model."""
    assert sl.Server
    assert sl.Client
    if order.role == "client" and not is_synthetic(order.experiment):
        import streamlink.profiling.heap.trained


def main() -> int:
    """Run the role that the command line names; returns its exit code."""
    order = Order.model_validate_json(sys.argv[1])
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    # A copy: what a library prints does not end our lines.
    reporter = Reporter(os.dup(sys.stdout.fileno()))
    who = _who(order)

    def report(**facts: Any) -> None:
        reporter.report(who=who, **facts)

    try:
        run_role(order, report)
    except KeyboardInterrupt:
        return 130
    except Exception as error:
        logging.exception("%s failed", who)
        report(event="failed", text=f"{type(error).__name__}: {error}")
        return 1
    return 0


def _who(order: Order) -> str:
    if order.rank is not None:
        return f"rank {order.rank}"
    return "server" if order.role == "server" else f"client {order.clients[0] + 1}"


if __name__ == "__main__":
    sys.exit(main())

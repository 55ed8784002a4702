"""The job's client: adds a small number of its own to every element, range by range.

Started by ``run.py``; by hand it is ``python client.py --server HOST:PORT --name site-1``, or
``streamlink client --server HOST:PORT --name site-1 --executor client.py:make``.
"""

from __future__ import annotations

from typing import Annotated

import typer
import weights

import streamlink
from streamlink.fleet import Reporter


def make(name: str) -> streamlink.StreamingExecutor:
    """Return the work of the client called ``name``: "site-1", "site-2", ..."""
    number = int(name.removeprefix("site-")) - 1
    delta = weights.delta(number)
    return streamlink.StreamingExecutor(
        lambda tensor, start, values: weights.train(values, delta), weight=weights.weight(number)
    )


def main(
    server: Annotated[str, typer.Option(help="The server's host:port.")],
    name: Annotated[str, typer.Option(help="site-1, site-2, ...")],
    insecure: Annotated[bool, typer.Option(help="Plain text beyond this machine.")] = False,
    report_fd: Annotated[int | None, typer.Option(hidden=True)] = None,
) -> None:
    """Take part in the job until the server says goodbye."""
    streamlink.tune_allocator()
    reporter = Reporter(report_fd)
    executor = make(name)
    reporter.report_base()
    config = streamlink.LinkConfig(security=streamlink.SecurityConfig(insecure=insecure))
    with streamlink.Client(server, name, executor, config) as client:
        client.run()
    reporter.report_usage()


if __name__ == "__main__":
    typer.run(main)

"""``streamlink serve`` and ``streamlink fetch``: one model for whoever connects and wants it."""

from __future__ import annotations

import logging
from typing import Annotated

import typer

from streamlink.cli.checks import (
    check_control,
    check_offers,
    check_serving,
    check_store,
    check_visiting,
)
from streamlink.cli.command import Common, command
from streamlink.cli.errors import CommandError
from streamlink.cli.paths import ADDRESS, store_at
from streamlink.cli.services import Control, Metrics, control_socket, security_summary
from streamlink.cli.settings import LINK, SERVING, VISITING
from streamlink.cli.transfers import (
    Compress,
    Name,
    Retry,
    Source,
    Target,
    begin_listening,
    begin_visiting,
    both,
    moving,
    outcome,
)
from streamlink.cli.visits import CopyControl, Orders, beside_model, reachable
from streamlink.link import pull
from streamlink.link.fetch_desk import FetchDesk
from streamlink.logs import escape
from streamlink.operate.status import Memory
from streamlink.operate.transfers import FetchOperator, ServeOperator
from streamlink.stores import open_model
from streamlink.transport.addresses import listening_at
from streamlink.transport.traffic import TrafficCounter

__all__ = ["fetch", "serve"]

logger = logging.getLogger("streamlink.command")


@command(*LINK, *SERVING)
def serve(
    source: Source,
    listen: Annotated[
        str,
        typer.Option(
            metavar=ADDRESS,
            help="Address to listen on. 0.0.0.0:8470 is reachable from other machines, port 0 takes"
            " a free port, unix:PATH is a socket of this machine. Without --ca or --tokens anybody"
            " who reaches it may fetch.",
        ),
    ] = "127.0.0.1:8470",
    count: Annotated[
        int | None,
        typer.Option(metavar="N", help="End after N fetches [default: run until interrupted]."),
    ] = None,
    fetchers: Annotated[
        int,
        typer.Option(
            metavar="N",
            help="Serve N at a time; the others are refused and try again. Price: one window and"
            " four chunks of memory each.",
        ),
    ] = 8,
    timeout: Annotated[
        float | None,
        typer.Option(
            metavar="SECONDS", help="Fail if nobody has fetched for this long [default: never]."
        ),
    ] = None,
    control: Control = None,
    metrics: Metrics = None,
    *,
    common: Common,
) -> None:
    """Give a model to whoever runs streamlink fetch.

    For a receiver that nobody can connect to, and for a model that many want. If this command is
    interrupted, run it again: fetches that were under way resume.
    """
    begin_listening(listen, metrics, timeout)
    way = security_summary(common.config.security)
    _require_positive("--count", count)
    _require_positive("--fetchers", fetchers)
    model = open_model(source)
    check_offers(common.config)
    if common.is_check:
        check_control(control)
        check_serving(listen, common.config)
        common.passed()
        return
    # Made here and not by ``pull.serve``: the operator must reach them while that blocks.
    desk, traffic = FetchDesk(count=count, most=fetchers), TrafficCounter()
    operator = ServeOperator(
        desk, traffic, Memory(), lambda reason: desk.close(f"aborted by the operator: {reason}")
    )

    def on_listening(port: int) -> None:
        operator.listens = listening_at(listen, port)
        logger.info("listening on %s (%s), serving %s", operator.listens, way, source)

    with (
        control_socket(operator.answer, source, control, only_reads=True),
        moving(common, metrics, traffic) as progress,
    ):
        pull.serve(
            model,
            listen,
            config=common.config,
            on_listening=on_listening,
            timeout=timeout,
            progress=progress.update,
            desk=desk,
            traffic=traffic,
            cancel=common.cancel,
            # Else a bar would stay for each fetcher that ever came.
            on_transfer=lambda facts: progress.forget(facts.peer_name),
        )
    typer.echo(escape(f"{source}: {desk.served} fetches done"))


@command(*LINK, *VISITING)
def fetch(
    address: Annotated[
        str, typer.Argument(metavar=ADDRESS, help="Where streamlink serve listens.")
    ],
    target: Target,
    compress: Compress = None,
    name: Name = "",
    retry: Retry = 60.0,
    control: CopyControl = None,
    metrics: Metrics = None,
    *,
    common: Common,
) -> None:
    """Fetch a model from streamlink serve, and store it.

    The model becomes visible at PATH only when it is complete and verified. If this command or the
    server is interrupted, run it again to resume: bytes that have arrived are not sent again.
    """
    begin_visiting(address, name, metrics, retry)
    store = store_at(target, compress)
    check_store(store)
    if common.is_check:
        check_control(control)
        check_visiting(address, common.config)
        common.passed()
        return
    orders, traffic = Orders(), TrafficCounter()
    operator = FetchOperator(traffic, Memory(), orders.end, address)
    with (
        reachable(operator.answer, orders, beside_model(target), control, common) as cancel,
        moving(common, metrics, traffic) as progress,
    ):
        receipt = pull.fetch(
            address,
            store,
            name=name,
            config=common.config,
            retry=retry,
            progress=both(progress.update, operator.update),
            traffic=traffic,
            cancel=cancel,
        )
    typer.echo(outcome(f"{target}: fetched from {address}", receipt, store))


def _require_positive(option: str, number: int | None) -> None:
    if number is not None and number < 1:
        raise CommandError(f"{option} must be positive, not {number}")

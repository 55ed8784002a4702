"""``streamlink send`` and ``streamlink receive``: copy one model to another machine."""

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
from streamlink.link import oneshot
from streamlink.link.oneshot_wire import PUSH
from streamlink.link.receive_slot import ReceiveSlot
from streamlink.operate.status import Memory
from streamlink.operate.transfers import SendOperator, TransferOperator
from streamlink.stores import open_model
from streamlink.transport.addresses import listening_at
from streamlink.transport.traffic import TrafficCounter

__all__ = ["receive", "send"]

logger = logging.getLogger("streamlink.command")


@command(*LINK, *SERVING)
def receive(
    target: Target,
    listen: Annotated[
        str,
        typer.Option(
            metavar=ADDRESS,
            help="Address to listen on. 0.0.0.0:8470 is reachable from other machines, port 0 takes"
            " a free port, unix:PATH is a socket of this machine. Without --ca or --tokens anybody"
            " who reaches it may send.",
        ),
    ] = "127.0.0.1:8470",
    compress: Compress = None,
    timeout: Annotated[
        float | None,
        typer.Option(
            metavar="SECONDS", help="Fail if no sender is connected for this long [default: never]."
        ),
    ] = None,
    control: Control = None,
    metrics: Metrics = None,
    *,
    common: Common,
) -> None:
    """Wait for a model from streamlink send, and store it.

    The model becomes visible at PATH only when it is complete. If this command is interrupted, run
    it again to resume. It ends when one model is complete.
    """
    begin_listening(listen, metrics, timeout)
    way = security_summary(common.config.security)
    store = store_at(target, compress)
    check_store(store)
    check_offers(common.config)
    if common.is_check:
        check_control(control)
        check_serving(listen, common.config)
        common.passed()
        return
    # Made here and not by ``oneshot.receive``: the operator must reach them while that blocks.
    slot, traffic = ReceiveSlot(PUSH), TrafficCounter()
    operator = TransferOperator(
        traffic, Memory(), lambda reason: slot.close(f"aborted by the operator: {reason}")
    )

    def on_listening(port: int) -> None:
        operator.listens = listening_at(listen, port)
        logger.info("listening on %s (%s), waiting for a model", operator.listens, way)

    with (
        control_socket(operator.answer, target, control),
        moving(common, metrics, traffic) as progress,
    ):
        receipt = oneshot.receive(
            store,
            listen,
            config=common.config,
            on_listening=on_listening,
            timeout=timeout,
            progress=both(progress.update, operator.update),
            slot=slot,
            traffic=traffic,
            cancel=common.cancel,
        )
    typer.echo(outcome(f"{target}: received", receipt, store))


@command(*LINK, *VISITING)
def send(
    source: Source,
    to: Annotated[str, typer.Argument(metavar=ADDRESS, help="Where streamlink receive listens.")],
    name: Name = "",
    retry: Retry = 60.0,
    control: CopyControl = None,
    metrics: Metrics = None,
    *,
    common: Common,
) -> None:
    """Send a model to streamlink receive, and wait until it is verified and stored there.

    If this command or the receiver is interrupted, run it again to resume: bytes that have arrived
    are not sent again.
    """
    begin_visiting(to, name, metrics, retry)
    model = open_model(source)
    if common.is_check:
        check_control(control)
        check_visiting(to, common.config)
        common.passed()
        return
    orders, traffic = Orders(), TrafficCounter()
    operator = SendOperator(traffic, Memory(), orders.end, to)
    with (
        reachable(operator.answer, orders, beside_model(source), control, common) as cancel,
        moving(common, metrics, traffic) as progress,
    ):
        receipt = oneshot.send(
            model,
            to,
            name=name,
            config=common.config,
            retry=retry,
            progress=both(progress.update, operator.update),
            traffic=traffic,
            cancel=cancel,
        )
    typer.echo(outcome(f"{source}: sent to {to}", receipt))

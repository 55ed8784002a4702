"""``streamlink send`` and ``streamlink receive``: copy one model to another machine."""

from __future__ import annotations

import logging
import math
from pathlib import Path
from typing import Annotated

import typer

from streamlink.allocator import tune_allocator
from streamlink.cli.checks import (
    check_control,
    check_metrics,
    check_offers,
    check_serving,
    check_store,
    check_visiting,
)
from streamlink.cli.command import Common, command
from streamlink.cli.errors import CommandError, JobFailed, sentence
from streamlink.cli.paths import ADDRESS, COMPRESS, check_address, model_digest, store_at
from streamlink.cli.services import (
    Control,
    Metrics,
    control_socket,
    metrics_endpoint,
    security_summary,
)
from streamlink.cli.settings import LINK, SERVING, VISITING
from streamlink.errors import AddressInUse, Cancelled, SecurityError, StreamlinkError
from streamlink.link import oneshot
from streamlink.link.oneshot_wire import PUSH
from streamlink.link.receive_slot import ReceiveSlot
from streamlink.link.transfer import Receipt, TransferProgress
from streamlink.logs import escape
from streamlink.model.beside import keeps_beside
from streamlink.model.interfaces import ModelStore
from streamlink.operate.status import Memory
from streamlink.operate.transfers import TransferOperator
from streamlink.progress import LinkProgress
from streamlink.stores import open_model
from streamlink.transport.addresses import listening_at
from streamlink.transport.traffic import TrafficCounter

__all__ = ["outcome", "receive", "require_seconds", "send"]

logger = logging.getLogger("streamlink.command")


@command(*LINK, *SERVING)
def receive(
    target: Annotated[
        Path,
        typer.Argument(
            metavar="PATH", help="A directory, or an .slz file; a model it holds is replaced."
        ),
    ],
    listen: Annotated[
        str,
        typer.Option(
            metavar=ADDRESS,
            help="Address to listen on. 0.0.0.0:8470 is reachable from other machines, port 0 takes"
            " a free port, unix:PATH is a socket of this machine. Without --ca or --tokens anybody"
            " who reaches it may send.",
        ),
    ] = "127.0.0.1:8470",
    compress: Annotated[
        str | None,
        typer.Option(
            metavar=COMPRESS,
            help="Safetensors or one compressed file [default: zstd if PATH ends in .slz]. Only "
            "safetensors can be resumed after this end was interrupted.",
        ),
    ] = None,
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
    tune_allocator()
    check_address("--listen", listen)
    check_metrics(metrics)
    way = security_summary(common.config.security)
    require_seconds("--timeout", timeout)
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
        metrics_endpoint(metrics, traffic),
        LinkProgress(common.console) as progress,
    ):
        try:
            receipt = oneshot.receive(
                store,
                listen,
                config=common.config,
                on_listening=on_listening,
                timeout=timeout,
                progress=_both(progress.update, operator.update),
                slot=slot,
                traffic=traffic,
                cancel=common.cancel,
            )
        except (AddressInUse, Cancelled, SecurityError):
            raise  # the command was wrong, not the transfer
        except (StreamlinkError, OSError) as error:
            raise JobFailed(sentence(error)) from error
    typer.echo(outcome(f"{target}: received", receipt, store))


@command(*LINK, *VISITING)
def send(
    source: Annotated[
        Path,
        typer.Argument(metavar="PATH", help="A directory, a .safetensors or an .slz file."),
    ],
    to: Annotated[str, typer.Argument(metavar=ADDRESS, help="Where streamlink receive listens.")],
    name: Annotated[
        str,
        typer.Option(
            metavar="NAME", help="Name of this end at the receiver [default: host and process]."
        ),
    ] = "",
    retry: Annotated[
        float,
        typer.Option(
            metavar="SECONDS",
            help="Retry for this long while the receiver is unreachable or busy; 0: do not retry.",
        ),
    ] = 60.0,
    metrics: Metrics = None,
    *,
    common: Common,
) -> None:
    """Send a model to streamlink receive, and wait until it is verified and stored there.

    If this command or the receiver is interrupted, run it again to resume: bytes that have arrived
    are not sent again.
    """
    tune_allocator()
    check_address("the address", to)
    check_metrics(metrics)
    require_seconds("--retry", retry)
    model = open_model(source)
    if common.is_check:
        check_visiting(to, common.config)
        common.passed()
        return
    traffic = TrafficCounter()
    with metrics_endpoint(metrics, traffic), LinkProgress(common.console) as progress:
        try:
            receipt = oneshot.send(
                model,
                to,
                name=name,
                config=common.config,
                retry=retry,
                progress=progress.update,
                traffic=traffic,
                cancel=common.cancel,
            )
        except (Cancelled, SecurityError):
            raise
        except (StreamlinkError, OSError) as error:
            raise JobFailed(sentence(error)) from error
    typer.echo(outcome(f"{source}: sent to {to}", receipt))


def _both(first: TransferProgress, second: TransferProgress) -> TransferProgress:
    """Return what tells two listeners how far a transfer is."""

    def told(peer_name: str, phase: str, done: int, total: int) -> None:
        first(peer_name, phase, done, total)
        second(peer_name, phase, done, total)

    return told


def outcome(what: str, receipt: Receipt, store: ModelStore | None = None) -> str:
    """Return the lines that end a copy: what moved and how fast, and the model's digest.

    Where ``store`` has kept the tensors alone of a model with small files, also their digest.
    """
    total = receipt.stats.total_bytes
    moved = total - receipt.resumed_at
    # The time in which bytes moved; it is unknown if all arrived at once.
    seconds, rate = receipt.stats.moving_seconds, receipt.stats.mean_rate
    how = f" in {seconds:.3g} s, {rate / 1e6:.4g} MB/s" if rate is not None else ""
    before = f", after {receipt.resumed_at} that were there" if receipt.resumed_at else ""
    saved = f", {receipt.stats.wire_bytes} on the way" if receipt.stats.saved_bytes else ""
    own = None if store is None or keeps_beside(store) else model_digest(store.open())
    kept = ""
    if own not in (None, receipt.digest):
        kept = f"\ncovers: tensors and small files; the tensors alone, as stored, have {own}"
    return f"{escape(f'{what}: {moved} bytes{saved}{how}{before}')}\ndigest {receipt.digest}{kept}"


def require_seconds(option: str, seconds: float | None) -> None:
    """Refuse a time that is not finite or is negative; None: it was not given."""
    if seconds is not None and not 0 <= seconds < math.inf:
        raise CommandError(f"{option} must be finite and not negative, not {seconds}")

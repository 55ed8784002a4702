"""What the commands have in common that move one model: send, receive, serve and fetch."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from streamlink.allocator import tune_allocator
from streamlink.cli.checks import check_metrics, check_name
from streamlink.cli.command import Common
from streamlink.cli.errors import CommandError, JobFailed, sentence
from streamlink.cli.paths import COMPRESS, check_address, model_digest
from streamlink.cli.services import metrics_endpoint
from streamlink.errors import AddressInUse, Cancelled, SecurityError, StreamlinkError
from streamlink.link import HasTraffic
from streamlink.link.transfer import Receipt, TransferProgress
from streamlink.logs import escape
from streamlink.model.beside import keeps_beside
from streamlink.model.interfaces import ModelStore
from streamlink.progress import LinkProgress

__all__ = [
    "Compress",
    "Name",
    "Retry",
    "Source",
    "Target",
    "begin_listening",
    "begin_visiting",
    "both",
    "moving",
    "outcome",
]

Source = Annotated[
    Path, typer.Argument(metavar="PATH", help="A directory, a .safetensors or an .slz file.")
]
Target = Annotated[
    Path,
    typer.Argument(
        metavar="PATH", help="A directory, or an .slz file; a model it holds is replaced."
    ),
]
Compress = Annotated[
    str | None,
    typer.Option(
        metavar=COMPRESS,
        help="Safetensors or one compressed file [default: zstd if PATH ends in .slz]. Only "
        "safetensors can be resumed after this end was interrupted.",
    ),
]
Name = Annotated[
    str,
    typer.Option(
        metavar="NAME", help="Name of this end at the other end [default: host and process]."
    ),
]
Retry = Annotated[
    float,
    typer.Option(
        metavar="SECONDS",
        help="Retry for this long while the other end is unreachable or busy; 0: do not retry.",
    ),
]


def begin_visiting(address: str, name: str, metrics: str | None, retry: float) -> None:
    """Begin a command that connects: check what all of them are given."""
    tune_allocator()
    check_address("the address", address)
    if name:  # else this process gets one
        check_name(name)
    check_metrics(metrics)
    _require_seconds("--retry", retry)


def begin_listening(address: str, metrics: str | None, timeout: float | None) -> None:
    """Begin a command that listens: check what all of them are given."""
    tune_allocator()
    check_address("--listen", address)
    check_metrics(metrics)
    _require_seconds("--timeout", timeout)


@contextmanager
def moving(common: Common, metrics: str | None, traffic: HasTraffic) -> Iterator[LinkProgress]:
    """Draw the progress and serve the metrics while the block moves a model.

    Raises:
        JobFailed: the block failed. A wrong command, or its interruption, keeps its own error.
    """
    with metrics_endpoint(metrics, traffic), LinkProgress(common.console) as progress:
        try:
            yield progress
        except (AddressInUse, Cancelled, SecurityError):
            raise
        except (StreamlinkError, OSError) as error:
            raise JobFailed(sentence(error)) from error


def both(first: TransferProgress, second: TransferProgress) -> TransferProgress:
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


def _require_seconds(option: str, seconds: float | None) -> None:
    """Refuse a time that is not finite or is negative; None: it was not given."""
    if seconds is not None and not 0 <= seconds < math.inf:
        raise CommandError(f"{option} must be finite and not negative, not {seconds}")

"""What is looked at before a command listens, connects or waits: can this command work at all?

The library refuses the same things; here they are refused first, each as one line. With ``--check``
a command ends behind its checks.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from streamlink.cli.errors import CommandError
from streamlink.cli.paths import check_address
from streamlink.config import JobConfig, LinkConfig
from streamlink.encodings.registry import require_known
from streamlink.errors import ModelError
from streamlink.model.interfaces import ChecksWriting, ModelStore
from streamlink.model.part import require_part
from streamlink.operate.control import require_short
from streamlink.operate.metrics import require_metrics
from streamlink.rounds.spool.spool import check_spool
from streamlink.stores.preflight import require_replaceable, require_writable
from streamlink.transport.addresses import is_unix
from streamlink.transport.connect import check_dialing, check_listening

__all__ = [
    "check_control",
    "check_job",
    "check_metrics",
    "check_report",
    "check_serving",
    "check_store",
    "check_visiting",
]


def check_job(store: ModelStore, config: JobConfig, spool: Path | None) -> None:
    """Check that the settings of a job fit each other, the model in ``store`` and the disk.

    Raises:
        CommandError: the job cannot work with these settings; names the setting and the remedy.
        StoreError: the model cannot be read, or store or spool not be written.
    """
    if config.rounds.gather == "spool" and spool is None:
        raise CommandError("--gather spool needs a directory for the updates: --spool DIR")
    with _refused():
        config.rounds.require_room(config.grpc)
    with _refused("rounds.part (--part): "):
        require_part(store, config.rounds.part)
    check_store(store)
    if spool is not None:
        check_spool(spool)


def check_store(store: ModelStore) -> None:
    """Check that a model can be stored, where the store can tell.

    Raises:
        StoreError: it cannot.
    """
    if isinstance(store, ChecksWriting):
        store.check_writable()


def check_report(path: Path | None) -> None:
    """Check that a report can be written: it is only when the job is over.

    Raises:
        CommandError: there is no directory for it.
        StoreError: it cannot be written there.
    """
    if path is None:
        return
    if not path.parent.is_dir():
        raise CommandError(f"--report {path}: there is no directory {path.parent}; make it")
    require_replaceable(path, path, "the report cannot be written")


def check_control(control: str | None) -> None:
    """Check that the operator's socket can be made where the user asks for it.

    Raises:
        StreamlinkError: it cannot; says why.
    """
    if control is not None and control != "none":
        require_short(Path(control))
        require_writable(Path(control).parent, "the operator's socket cannot be made")


def check_metrics(address: str | None) -> None:
    """Check that metrics could be served at ``address``; None: nobody wants them.

    Raises:
        CommandError: it is no address for them.
        StreamlinkError: the package for them is missing; says how to get it.
    """
    if address is None:
        return
    check_address("--metrics", address)
    if is_unix(address):
        raise CommandError(
            f"--metrics {address!r} is a Unix socket, and Prometheus reads none; give HOST:PORT"
        )
    require_metrics()


def check_serving(address: str, config: LinkConfig) -> None:
    """Check that clients could be let in at ``address``; nothing listens yet.

    Raises:
        SecurityError: a file of certificates or tokens cannot be used, or plain text would leave
            this machine unasked.
    """
    require_known(config.stream.encodings)
    check_listening(address, config)


def check_visiting(address: str, config: LinkConfig) -> None:
    """Check that a connection to ``address`` could be made; nothing connects yet.

    Raises:
        SecurityError: as ``check_serving``.
    """
    require_known(config.stream.encodings)
    check_dialing(address, config)


@contextmanager
def _refused(what: str = "") -> Iterator[None]:
    """Turn what the library says of a wrong value into a wrong command line."""
    try:
        yield
    except (ModelError, ValueError) as error:
        raise CommandError(f"{what}{error}") from error

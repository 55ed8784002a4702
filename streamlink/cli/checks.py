"""Checks that a command makes before it listens, connects or waits.

The library refuses the same errors later; here they are reported first, each on one line. With
``--check`` a command ends after its checks.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from streamlink.cli.errors import CommandError
from streamlink.cli.paths import check_address, store_at
from streamlink.config import JobConfig, LinkConfig, RoundConfig
from streamlink.encodings.registry import require_known
from streamlink.errors import ModelError, StreamlinkError
from streamlink.executors.client import NOTHING_FED_BACK
from streamlink.model.interfaces import ChecksWriting, ModelStore
from streamlink.model.part import require_part
from streamlink.operate.control import require_short
from streamlink.operate.metrics import require_metrics
from streamlink.protocol.handshake import name_fault
from streamlink.rounds.aggregate.aggregators import aggregator_of
from streamlink.rounds.aggregate.state import check_state_directory
from streamlink.rounds.choice import choice_of, require_choosable
from streamlink.rounds.schedule import schedules_of
from streamlink.rounds.spool.spool import check_spool
from streamlink.stores.preflight import require_replaceable, require_writable
from streamlink.transport.addresses import is_unix
from streamlink.transport.connect import check_data_listening, check_dialing, check_listening

__all__ = [
    "check_best",
    "check_control",
    "check_curves",
    "check_events",
    "check_file",
    "check_job",
    "check_log",
    "check_metrics",
    "check_name",
    "check_offers",
    "check_report",
    "check_serving",
    "check_store",
    "check_visiting",
]


def check_job(
    store: ModelStore, config: JobConfig, spool: Path | None, state: Path | None = None
) -> None:
    """Check the settings of a job against each other, against the model in ``store`` and the disk.

    Raises:
        CommandError: the job cannot run with these settings; names the setting and the remedy.
        StoreError: the model cannot be read, or the store, spool or state cannot be written.
    """
    if config.rounds.gather == "spool" and spool is None:
        raise CommandError("--gather spool needs a directory for the updates: --spool DIR")
    with _refused():
        config.rounds.require_room(config.grpc)
    with _refused("rounds.aggregator (--aggregator): "):
        check_state_directory(aggregator_of(config.rounds.aggregator), state)
    with _refused("rounds.choose (--choose): "):
        require_choosable(choice_of(config.rounds.choose), config.rounds)
    with _refused("rounds.schedules (--schedules): "):
        schedules_of(config.rounds.schedules)
    with _refused("rounds.part (--part): "):
        require_part(store, config.rounds.part)
    with _refused("stream.lossy_down: "):
        require_part(store, [rule.rpartition("=")[0] for rule in config.stream.lossy_down])
    check_store(store)
    if spool is not None:
        check_spool(spool)


def check_best(best: Path | None, store: Path, rules: RoundConfig) -> None:
    """Check where the best model is to be kept.

    Raises:
        CommandError: it is where the model itself is, or no metric says which model is the best.
        StoreError: no model can be stored there.
    """
    if best is None:
        return
    if not rules.best_metric:
        raise CommandError(
            "--best needs --best-metric NAME: the metric of the evaluations that says which model "
            "is the best"
        )
    if best.resolve() == store.resolve():
        raise CommandError(f"--best {best} is the store of the model itself; give another path")
    check_store(store_at(best, None))


def check_store(store: ModelStore) -> None:
    """Check that a model can be stored, if the store can check that.

    Raises:
        StoreError: it cannot.
    """
    if isinstance(store, ChecksWriting):
        store.check_writable()


def check_report(path: Path | None) -> None:
    """Check that a report can be written, because that happens only at the end of the job.

    Raises:
        CommandError: there is no directory for it.
        StoreError: it cannot be written there.
    """
    if path is not None:
        _require_directory("--report", path)
        require_replaceable(path, path, "the report cannot be written")


def check_events(path: Path | None) -> None:
    """Check that events can be appended to a file; None: they are not.

    Raises:
        CommandError: there is no directory for it.
        StoreError: it cannot be written there.
    """
    if path is not None:
        _require_directory("--events", path)
        require_replaceable(path, path, "the events cannot be written")


def check_file(option: str, path: Path | None) -> None:
    """Check that a file can be written at the end of a command; None: there is none.

    Raises:
        CommandError: there is no directory for it.
        StoreError: it cannot be written there.
    """
    if path is not None:
        _require_directory(option, path)
        require_replaceable(path, path, f"what {option} names cannot be written")


def _require_directory(option: str, path: Path) -> None:
    if not path.parent.is_dir():
        raise CommandError(f"{option} {path}: directory {path.parent} does not exist; create it")


def check_log(path: Path | None) -> None:
    """Check that the log can be appended to a file; its directory may be missing. None: no file.

    Raises:
        CommandError: it cannot be written.
        StoreError: it cannot be created.
    """
    if path is None:
        return
    if not path.exists():
        require_writable(path.parent, "the log cannot be written")
    elif path.is_dir() or not os.access(path, os.W_OK, effective_ids=True):
        why = "this is a directory" if path.is_dir() else "this user may not write it"
        raise CommandError(f"--log-file {path}: {why}; name another file")


def check_control(control: str | None) -> None:
    """Check that the operator's socket can be created at the path that the user gave.

    Raises:
        StreamlinkError: it cannot; says why.
    """
    if control is not None and control != "none":
        require_short(Path(control))
        require_writable(Path(control).parent, "the operator's socket cannot be created")


def check_curves(folder: Path | None) -> None:
    """Check that curves for TensorBoard can be written into ``folder``; None: there are none.

    Raises:
        StreamlinkError: they cannot; says why.
    """
    if folder is not None:
        require_writable(folder, "the curves for TensorBoard cannot be written")


def check_metrics(address: str | None) -> None:
    """Check that metrics can be served at ``address``; None: without metrics.

    Raises:
        CommandError: metrics cannot be served at such an address.
        StreamlinkError: the package for them is not installed; says how to install it.
    """
    if address is None:
        return
    check_address("--metrics", address)
    if is_unix(address):
        raise CommandError(
            f"--metrics {address!r} is a Unix socket, and Prometheus needs TCP; give HOST:PORT"
        )
    require_metrics()


def check_name(name: str) -> None:
    """Check the name that this end has at its server.

    Raises:
        CommandError: no server admits a client of that name.
    """
    if fault := name_fault(name):
        raise CommandError(f"--name: {fault}")


def check_offers(config: LinkConfig) -> None:
    """Check ``stream.data_listen``, with ``--check`` and without.

    Raises:
        CommandError: it names no carrier, or no address of it.
        SecurityError: such a carrier would carry plain text beyond this machine.
    """
    try:
        check_data_listening(config)
    except StreamlinkError:
        raise  # several of ours are ValueErrors, too, and already say what to do
    except ValueError as error:
        raise CommandError(str(error)) from error


def check_serving(address: str, config: LinkConfig) -> None:
    """Check that a server can accept clients at ``address``; nothing listens yet.

    Raises:
        SecurityError: a file of certificates or tokens cannot be used, or plain text beyond this
            machine is not permitted.
    """
    require_known(config.stream.encodings)
    check_listening(address, config)


def check_visiting(address: str, config: LinkConfig) -> None:
    """Check that a client can connect to ``address``; nothing connects yet.

    Raises:
        SecurityError: as ``check_serving``.
        StoreError: the directory ``stream.error_feedback`` cannot be made or written to.
    """
    require_known(config.stream.encodings)
    if config.stream.error_feedback is not None:
        require_writable(config.stream.error_feedback, NOTHING_FED_BACK)
    check_dialing(address, config)


@contextmanager
def _refused(what: str = "") -> Iterator[None]:
    """Turn an error of the library about a value into an error about the command line."""
    try:
        yield
    except (ModelError, ValueError) as error:
        raise CommandError(f"{what}{error}") from error

"""Recovers the updates that a killed server has left in its spool: verifies them, or removes them.

A whole update counts as arrived when its server is restarted, and its client is not asked again.
It must be of this run, of the next round, and made from the model that is in the store. Whatever
else this run or one that it replaced has left is removed; what belongs to other runs stays.
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Collection, Iterable
from contextlib import closing, suppress
from pathlib import Path

from streamlink.descriptors import patiently
from streamlink.errors import CorruptStore, StoreError
from streamlink.link import Attempt
from streamlink.model.digest import digest_of
from streamlink.model.spec import ModelSpec
from streamlink.rounds.durable import spool_errors
from streamlink.rounds.ledger import Run
from streamlink.rounds.spool.stored import MANIFEST_NAME, StoreAt, StoredUpdate
from streamlink.stores.files import remove_tree

__all__ = ["path_name", "recover"]

logger = logging.getLogger("streamlink.rounds")

# As ``path_name`` writes it for a job with a ledger. Without one no later server could know what an
# update was made from, so nothing is recovered.
_NAME = re.compile(r"([0-9a-f]+)-[0-9]+")


def path_name(run: str, number: int) -> str:
    """Return the directory's name for update ``number`` of a run; run "": there is no ledger."""
    return f"{run}-{number}" if run else str(number)


def recover(
    directory: Path,
    run: Run,
    next_round: Attempt,
    part: ModelSpec,
    *,
    store_at: StoreAt,
    replaced_runs: Iterable[str] = (),
    without: Collection[str] = (),
) -> list[StoredUpdate]:
    """Return the whole updates in ``directory``, ordered by their clients' names.

    Each is read once, from front to back, and compared with its digest. A damaged one is removed,
    and its client is asked again.

    Args:
        directory: the spool; it need not be there.
        run: the run and the model that they must be of.
        next_round: the job and the round that they must be of.
        part: the tensors they must have.
        store_at: gives the store in a directory.
        replaced_runs: runs that this one replaced; what they left is removed.
        without: excluded clients; what they sent is removed.

    Raises:
        StoreError: the directory cannot be read.
    """
    found: dict[str, StoredUpdate] = {}
    ours = _of_runs(directory, {run.id, *replaced_runs})
    for path in ours:
        try:
            update = _usable(path, run, next_round, part, store_at)
        except StoreError as error:
            logger.warning("removed from the spool: %s", error)
        else:
            # A second update of one client would count that client twice.
            if update is not None and update.peer_name not in {*found, *without}:
                found[update.peer_name] = update
                logger.info("recovered the update of %s for %s", update.peer_name, next_round)
                continue
        remove_tree(path)
    # As a spool does at its end, where nothing is left in it.
    if ours and not found:
        with suppress(OSError):  # not empty, or not there
            directory.rmdir()
    return [update for _, update in sorted(found.items())]


def _of_runs(directory: Path, runs: set[str]) -> list[Path]:
    if not directory.is_dir():
        return []
    with spool_errors(directory):
        names = sorted(patiently(os.listdir, directory))
    matches = filter(None, map(_NAME.fullmatch, names))
    return [directory / match[0] for match in matches if match[1] in runs]


def _usable(
    path: Path, run: Run, next_round: Attempt, part: ModelSpec, store_at: StoreAt
) -> StoredUpdate | None:
    """Return the update in ``path``; None: it is incomplete, or of another run, round or model.

    Raises:
        StoreError: it is damaged, or cannot be read.
    """
    if not (path / MANIFEST_NAME).exists():
        logger.info("removed from the spool: %s, an incomplete update", path)
        return None
    update = StoredUpdate.read(path, store_at)
    sent = update.attempt
    is_ours = (update.run, sent.job, sent.round) == (run.id, next_round.job, next_round.round)
    if not is_ours or update.base != run.base:
        logger.info("removed from the spool: %s, an update of %s, no longer needed", path, sent)
        return None
    with closing(update.store.open()) as source:
        # Every byte is read, also where hashes are stored: the restart may follow a power cut.
        # Damage that is found now costs one client another task; later it would cost the attempt.
        if source.spec != part or digest_of(source) != update.digest:
            raise CorruptStore(
                f"this is not the update of {update.peer_name} that was stored here", path=str(path)
            )
    return update

"""What a server that was killed has left in its spool: found again and verified, or removed.

An update that was stored whole counts as arrived when its server comes back: nobody is asked for it
again. Only what this very run has stored for the round that is next, from the model that is still
there, is that. What else this run, or one it took the place of, has left is removed; what belongs
to others stays.
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

_NAME = re.compile(r"([0-9a-f]+)-[0-9]+")


def path_name(run: str, number: int) -> str:
    """Return the name of the directory of a run's ``number``-th update; run "": it has no name."""
    return f"{run}-{number}" if run else str(number)


def recover(
    directory: Path,
    run: Run,
    next_round: Attempt,
    part: ModelSpec,
    *,
    store_at: StoreAt,
    forgotten: Iterable[str] = (),
    without: Collection[str] = (),
) -> list[StoredUpdate]:
    """Return the whole updates in ``directory``, ordered by their clients' names.

    Each is read once from front to back. One that is not what was stored is removed: its client is
    asked again.

    Args:
        directory: the spool; it need not be there.
        run: whose they must be, and of which model.
        next_round: job and round they must belong to.
        part: the tensors they must have.
        store_at: gives the store in a directory.
        forgotten: runs of which nothing is needed any more.
        without: clients of whom nothing counts.

    Raises:
        StoreError: the directory cannot be read.
    """
    found: dict[str, StoredUpdate] = {}
    ours = _of_runs(directory, {run.id, *forgotten})
    for path in ours:
        try:
            update = _usable(path, run, next_round, part, store_at)
        except StoreError as error:
            logger.warning("removed from the spool: %s", error)
        else:
            if update is not None and update.peer not in {*found, *without}:
                found[update.peer] = update
                logger.info("the update of %s for %s is here already", update.peer, next_round)
                continue
        remove_tree(path)
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
    """Return the update in ``path``; None: there is none whole, or it is of no use any more.

    Raises:
        StoreError: it is not what was stored, or cannot be read.
    """
    if not (path / MANIFEST_NAME).exists():
        logger.info("removed from the spool: %s, which was on its way", path)
        return None
    update = StoredUpdate.read(path, store_at)
    sent = update.attempt
    is_ours = (update.run, sent.job, sent.round) == (run.id, next_round.job, next_round.round)
    if not is_ours or update.base != run.base:
        logger.info("removed from the spool: %s, an update of %s, of no use now", path, sent)
        return None
    with closing(update.store.open()) as source:
        if source.spec != part or digest_of(source) != update.digest:
            raise CorruptStore(
                f"this is not the update of {update.peer} that was stored here", path=str(path)
            )
    return update

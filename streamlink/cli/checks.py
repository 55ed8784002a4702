"""What is looked at before a command listens, connects or waits: can this job work at all?

The library refuses the same things; here they are refused first, and as one line.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from streamlink.cli.faults import CommandError
from streamlink.config import JobConfig
from streamlink.errors import ModelError
from streamlink.model.interfaces import ModelStore
from streamlink.model.part import require_part

__all__ = ["require_job"]


def require_job(store: ModelStore, config: JobConfig) -> None:
    """Check that the settings of a job fit each other, and the model in ``store``.

    Raises:
        CommandError: the job cannot work with these settings; names the setting and the remedy.
        StoreError: the model cannot be read.
    """
    with _refused():
        config.rounds.require_room(config.grpc)
    with _refused("rounds.part (--part): "):
        require_part(store, config.rounds.part)


@contextmanager
def _refused(what: str = "") -> Iterator[None]:
    """Turn what the library says of a wrong value into a wrong command line."""
    try:
        yield
    except (ModelError, ValueError) as error:
        raise CommandError(f"{what}{error}") from error

"""How a client rounds one update: by its own settings, and with what is left of its last one."""

from __future__ import annotations

import hashlib

from streamlink.encodings.rounder import Rounder, formats_of
from streamlink.link.assignment import Assignment
from streamlink.model.spec import ModelSpec
from streamlink.stores.files import directory_for
from streamlink.stores.remainder import Remainder

__all__ = ["UpdateRounding"]


class UpdateRounding:
    """The lossy formats of one update (``stream.lossy_up``), and its remainder.

    Args:
        assignment: the task.
        whole: the model that came with it.
        part: the tensors that are sent back.

    Raises:
        ModelError: a rule matches no tensor of the model.
        StoreError: the directory of ``stream.error_feedback`` cannot be used.
    """

    def __init__(self, assignment: Assignment, whole: ModelSpec, part: ModelSpec) -> None:
        stream = assignment.config.stream
        formats = formats_of(stream.lossy_up, whole)
        # Against the whole model, then of the part: a rule may be for tensors that stay here.
        rounded = [name for name in part.names if name in formats]
        self._remainder: Remainder | None = None
        if rounded and stream.error_feedback is not None:
            described = [part.digest.hex(), *(f"{name}={formats[name].name}" for name in rounded)]
            self._remainder = Remainder(
                directory_for(stream.error_feedback, "client", assignment.client_name),
                ModelSpec(tuple(each for each in part.tensors if each.name in formats)),
                owner=_hash_of(assignment.attempt.job, *described),
                update=str(assignment.attempt),
                is_resumed=assignment.is_resumed,
            )
        self.rounder: Rounder | None = None
        """Rounds ranges of the update; None: nothing is rounded."""
        if rounded:
            self.rounder = Rounder(part, formats, self._remainder)

    def commit(self) -> None:
        """Keep what is left of the update for the next one."""
        if self._remainder is not None:
            self._remainder.commit()

    def close(self) -> None:
        """Close the files."""
        if self._remainder is not None:
            self._remainder.close()


def _hash_of(*texts: str) -> str:
    return hashlib.sha256("\0".join(texts).encode(errors="replace")).hexdigest()

"""Who may read an object: names of clients, as the server knows them by their sessions."""

from __future__ import annotations

from collections.abc import Iterable

__all__ = ["MAX_READERS_BYTES", "Readers", "checked_readers", "may_read"]

Readers = tuple[str, ...] | None
"""Names of clients that may read an object; empty: only the server itself; None: any client."""

MAX_READERS_BYTES = 4096
"""What the names of an object's readers may have together, each with 2 bytes more (bytes)."""


def checked_readers(readers: Iterable[str] | None) -> Readers:
    """Return ``readers`` as a tuple, in their order.

    Raises:
        ValueError: one is no name, is there twice, or they are too long together.
    """
    if readers is None:
        return None
    if isinstance(readers, str):
        raise ValueError(f"readers is the text {readers!r}; pass a tuple of names: ({readers!r},)")
    names = tuple(readers)
    for name in names:
        # The same rule as for the name of a session: no other client can be admitted.
        if not 0 < len(name) <= 128 or not name.isprintable():
            raise ValueError(f"{name!r} is no name of a client")
    if len(set(names)) != len(names):
        raise ValueError(f"a reader is named twice: {', '.join(sorted(names))[:200]}")
    nbytes = sum(len(name.encode(errors="replace")) + 2 for name in names)
    if nbytes > MAX_READERS_BYTES:
        raise ValueError(
            f"the names of {len(names)} readers have {nbytes} bytes; a reference has room for "
            f"{MAX_READERS_BYTES}. Name no readers (None) and rely on the expiry and the reads"
        )
    return names


def may_read(readers: Readers, name: str) -> bool:
    """Return whether the client called ``name`` may read an object of these readers."""
    return readers is None or name in readers

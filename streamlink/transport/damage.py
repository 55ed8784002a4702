"""``DamagedFrame``: what the wire raises and a pump takes; nobody else ever sees it."""

from __future__ import annotations


class DamagedFrame(Exception):
    """A frame did not arrive as it left, or others before it were lost: the peer did no wrong."""

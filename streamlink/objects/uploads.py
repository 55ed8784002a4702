"""``Uploads``: which puts of clients are on their way, which were cut, and which are whole.

A put is found again by its client's name and the identity that the client gives its model. So it
goes on where it stopped: over another session, or after a restart of the client; and one that is
whole, but whose client was killed before it got the reference, is not sent a second time.

Pure bookkeeping, as the shelf is; its owner locks.
"""

from __future__ import annotations

from dataclasses import dataclass

from streamlink.link import ReceiveTransfer
from streamlink.model.interfaces import ModelStore, ReadBackSink
from streamlink.objects.reference import Reference
from streamlink.objects.shelf import Slot
from streamlink.objects.wire import Caller, Terms

__all__ = ["Upload", "Uploads"]


@dataclass(slots=True, eq=False)
class Upload:
    """One object that a client puts."""

    key: tuple[str, ...]
    caller: Caller
    """The latest call that sends it."""
    terms: Terms
    slot: Slot
    store: ModelStore
    expires: float
    """When it is given up, unless it is arriving then."""
    is_running: bool = True
    transfer: ReceiveTransfer | None = None
    """The stream that it arrives on now."""
    kept: ReadBackSink | None = None
    """What has arrived before it was cut."""
    reference: Reference | None = None
    """Known once it is whole."""
    claimed_by: str = ""
    """The call that has got the reference."""
    is_unwanted: bool = False
    """Whether it is released as soon as nothing brings it any more: its client was forgotten."""

    @property
    def is_cut(self) -> bool:
        """Whether nothing brings it now, and it is not whole."""
        return not self.is_running and self.reference is None


class Uploads:
    """The uploads of all clients."""

    def __init__(self) -> None:
        self._all: dict[tuple[str, ...], Upload] = {}

    def __len__(self) -> int:
        return len(self._all)

    def key_of(self, peer_name: str, identity: str, caller: Caller) -> tuple[str, ...]:
        """Return what this call's upload goes by.

        A second call of the same client object that puts the same model meanwhile is another put;
        one of another client object is the same client, started again.
        """
        own = (peer_name, identity, caller.call)
        if own in self._all:
            return own
        other = self._all.get((peer_name, identity))
        is_beside = (
            other is not None
            and other.is_running
            and other.caller.client == caller.client
            and other.caller.call != caller.call
        )
        return own if is_beside else (peer_name, identity)

    def of(self, peer_name: str) -> list[Upload]:
        """Return all uploads of one client."""
        return [each for each in self._all.values() if each.key[0] == peer_name]

    def find(self, key: tuple[str, ...]) -> Upload | None:
        """Return the upload of that key."""
        return self._all.get(key)

    def is_good_for(self, upload: Upload, caller: Caller, terms: Terms) -> bool:
        """Return whether this call continues ``upload``, or gets its reference."""
        is_free = upload.reference is None or upload.claimed_by in ("", caller.call)
        return is_free and upload.terms == terms

    def add(self, upload: Upload) -> None:
        """Note an upload that begins."""
        self._all[upload.key] = upload

    def remove(self, upload: Upload) -> None:
        """Forget an upload; harmless when called twice."""
        if self._all.get(upload.key) is upload:
            del self._all[upload.key]

    def take_expired(self, now: float) -> list[Upload]:
        """Forget the cut ones whose time is over, and return them."""
        over = [each for each in self._all.values() if each.is_cut and each.expires <= now]
        for each in over:
            self.remove(each)
        return over

    @property
    def next_expiry(self) -> float | None:
        """When the next cut upload is given up; None: there is none."""
        return min((each.expires for each in self._all.values() if each.is_cut), default=None)

    def clear(self) -> list[Upload]:
        """Forget all, and return them."""
        found = list(self._all.values())
        self._all.clear()
        return found

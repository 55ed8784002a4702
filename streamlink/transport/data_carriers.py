"""``PreferredCarrier``: streams go over the carrier that the welcome names, while that works."""

from __future__ import annotations

import logging
import threading

from streamlink.transport.carriers import CallEnd, ClientCall, DataCarrier

__all__ = ["PreferredCarrier"]

logger = logging.getLogger("streamlink.client")


class PreferredCarrier:
    """Carries streams over the preferred carrier, or else over the one that sessions use.

    A call over the preferred carrier that ends before it has moved anything is taken as proof that
    this carrier does not work from here (a firewall, a proxy): it is given up until the next
    session. Nothing is lost by that, since a stream resumes on its next call, over any carrier.

    Args:
        usual: carries streams wherever sessions are carried; closed with this.
    """

    def __init__(self, usual: DataCarrier) -> None:
        self._usual = usual
        self._lock = threading.Lock()
        self._preferred: DataCarrier | None = None
        self._is_closed = False

    def prefer(self, carrier: DataCarrier | None) -> None:
        """Use ``carrier`` from the next call on, in the place of any before; it is closed here."""
        with self._lock:
            old, self._preferred = self._preferred, None if self._is_closed else carrier
            is_late = self._is_closed
        # Without the lock: closing ends calls, whose threads may be about to take it in
        # ``_give_up``.
        for each in (old, carrier if is_late else None):
            if each is not None:
                each.close()

    def carry(self, call: ClientCall) -> CallEnd:
        """See ``DataCarrier``."""
        # Read once: ``prefer`` and ``_give_up`` may change it at any time.
        preferred = self._preferred
        if preferred is None:
            return self._usual.carry(call)
        end = preferred.carry(call)
        if end is not CallEnd.ENDED and not call.pump.has_moved:
            self._give_up(preferred)
        return end

    def renew(self) -> None:
        """See ``DataCarrier``."""
        for each in self._both():
            each.renew()

    def close(self) -> None:
        """See ``DataCarrier``."""
        with self._lock:
            self._is_closed = True
        for each in self._both():
            each.close()

    def _both(self) -> list[DataCarrier]:
        with self._lock:
            return [each for each in (self._preferred, self._usual) if each is not None]

    def _give_up(self, carrier: DataCarrier) -> None:
        with self._lock:
            if self._preferred is not carrier or self._is_closed:
                return  # another stream has noticed it first, or all ends here
            self._preferred = None
        logger.warning(
            "the data carrier that the server offers delivers nothing (is its port reachable from "
            "here?); streams use the connection of the session instead"
        )
        carrier.close()

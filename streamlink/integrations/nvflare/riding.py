"""Our reference inside FLARE's own download: what is sent, and what is done on arrival.

FLARE's download service stays in charge: who downloads what, retries, timeouts, abort signals and
confirmations are its own. In the place of the bytes it carries one small chunk with a reference,
and then empty chunks while the bytes travel beside it, so that its clocks see a living download.

Each request for a chunk has the receiver's state in it. A receiver that cannot fetch the reference
answers so in its next request, and the same download goes on with FLARE's own chunks.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from concurrent.futures import Future, wait
from dataclasses import asdict
from functools import partial
from typing import Any

from nvflare.fuel.f3.streaming.download_service import Consumer, Downloadable, ProduceRC
from nvflare.fuel.f3.streaming.transfer_outcome import DownloadStatus

from streamlink import CancelToken, ModelSource
from streamlink.errors import ObjectError
from streamlink.integrations.background import OnceEach, begin
from streamlink.integrations.connecting import warn
from streamlink.integrations.nvflare.sides import Offer, Side, SiteSide

__all__ = ["ReferenceDownloadable", "reference_consumer"]

_MARK, _BEAT = b"streamlink-reference-1:", b"streamlink-beat"
_BEAT_SECONDS = 2.0
# FLARE's state of a download: how far it is. Its own chunks have other states.
_UPLOADING, _OFFERED, _FETCHING, _DONE = ({"streamlink": step} for step in range(4))
_WHY = "streamlink failed"
_STRANGER = "{} cannot read a reference; set NVFLARE_NVFLARE_DECOMPOSERS there, too"


_warn = partial(warn, "FLARE", "streamlink_ports (NVFLARE_STREAMLINK_PORTS)")


class ReferenceDownloadable(Downloadable):
    """Offers a model to whoever downloads it.

    Args:
        source: the model; released with FLARE's transaction.
        side: this end of the job.
        own: makes what FLARE itself would send, to receivers that cannot fetch a reference.
    """

    def __init__(self, source: ModelSource, side: Side, own: Callable[[], Any]) -> None:
        super().__init__(source)
        self._side, self._transaction = side, ("", "")

        def own_downloadable(requester: str, cancel: CancelToken) -> Any:
            made = own()
            made.set_transaction(*self._transaction)
            return made

        self._offers = OnceEach(partial(side.offer, source), side.drop)
        self._own = OnceEach(own_downloadable, lambda made: made.release())

    def set_transaction(self, tx_id: str, ref_id: str) -> None:
        """Note FLARE's names for the download."""
        self._transaction = (tx_id, ref_id)

    def produce(self, state: dict[str, Any] | None, requester: str) -> tuple[str, Any, Any]:
        """Return the next chunk: a reference, beats while the bytes travel, or the end."""
        if state not in (None, _OFFERED):  # FLARE's own consumers ask on before they read a chunk
            self._side.known.add(requester)
        if state == _DONE:
            return ProduceRC.EOF, None, {}
        if state == _FETCHING:
            return ProduceRC.OK, [_BEAT], _FETCHING
        if state and _WHY in state:
            _warn(self._side.port, requester, state[_WHY])
            return self._as_flare_does(None, requester)
        if state not in (None, _UPLOADING, _OFFERED) or not self._side.reaches(requester):
            return self._as_flare_does(state, requester)
        offer = self._offers.of(requester)
        if not wait([offer], _BEAT_SECONDS).done:
            return ProduceRC.OK, [_BEAT], _UPLOADING
        if (error := offer.exception()) is not None:
            _warn(self._side.port, "this end", error)
            return self._as_flare_does(None, requester)
        return ProduceRC.OK, [_MARK + json.dumps(asdict(offer.result())).encode()], _OFFERED

    def downloaded_to_one(self, to_receiver: str, status: str) -> None:
        """Offer no more to a receiver that has given up at the reference: it has no streamlink."""
        is_known = to_receiver in self._side.known or isinstance(self._side, SiteSide)
        if status == DownloadStatus.FAILED and not is_known:
            self._side.strangers.add(to_receiver)
            _warn(self._side.port, "this end", _STRANGER.format(to_receiver))

    def release(self) -> None:
        """Release the model and its objects: FLARE's transaction is over."""
        self.base_obj = None
        for each in (self._offers, self._own):
            each.end("this model was released: FLARE's transaction is over")

    def _as_flare_does(self, state: Any, requester: str) -> tuple[str, Any, Any]:
        own = self._own.of("all receivers").result()  # in this thread FLARE waits for its own, too
        return own.produce(state, requester)  # type: ignore[no-any-return]


def reference_consumer(own: type[Consumer], fetch: Callable[[Offer, CancelToken], Any]) -> Any:
    """Return a consumer that fetches what a reference names, and takes what comes without one.

    Args:
        own: FLARE's consumer for this kind of items; it takes what comes without a reference.
        fetch: fetches an object.
    """

    class ReferenceConsumer(own):  # chosen at run time
        supports_pipelining = False
        offer = Offer("")
        fetched: Future[Any] | None = None
        cancel = CancelToken()

        def consume(self, ref_id: str, state: dict[str, Any], data: Any) -> dict[str, Any]:
            if state == _OFFERED:
                self.offer = Offer(**json.loads(data[0][len(_MARK) :]))
                self.fetched = begin(lambda: fetch(self.offer, self.cancel))
            if self.fetched is None:
                return state if state == _UPLOADING else dict(super().consume(ref_id, state, data))
            if not wait([self.fetched], _BEAT_SECONDS).done:
                return _FETCHING
            error = self.fetched.exception()
            # Where the object is gone, FLARE asks for the task again and gets another reference.
            if error is None or isinstance(error, ObjectError):
                self.result = self.fetched.result()
                return _DONE
            self.fetched = None
            return {_WHY: _warn(self.offer.port, "this end", error)}

        def download_failed(self, ref_id: str, reason: str) -> None:
            self.cancel.cancel(reason)
            super().download_failed(ref_id, reason)

    return ReferenceConsumer(None, {})

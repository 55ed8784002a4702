"""Our reference inside FLARE's own download: what is sent, and what is done on arrival.

FLARE's download service stays in charge: who downloads what, retries, timeouts, abort signals and
confirmations are its own. In the place of the bytes it carries one small chunk with a reference,
and then empty chunks while the bytes travel beside it, so that its clocks see a living download.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from concurrent.futures import Future, wait
from dataclasses import asdict
from typing import Any

from nvflare.fuel.f3.streaming.download_service import Consumer, Downloadable, ProduceRC

from streamlink import ModelSource, StreamlinkError
from streamlink.integrations.nvflare.sides import Offer, Side

__all__ = ["ReferenceDownloadable", "reference_consumer"]

_MARK, _BEAT = b"streamlink-reference-1:", b"streamlink-beat"
_BEAT_SECONDS = 2.0
# FLARE's state of a download: how far it is.
_UPLOADING, _OFFERED, _FETCHING, _DONE = ({"streamlink": step} for step in range(4))


def _begin(work: Callable[[], Any]) -> Future[Any]:
    """Run ``work`` in a thread of its own, so that FLARE's can look after its clocks."""
    future: Future[Any] = Future()

    def run() -> None:
        try:
            future.set_result(work())
        except BaseException as error:  # raised by ``result``, in FLARE's thread
            future.set_exception(error)

    threading.Thread(target=run, name="streamlink-nvflare", daemon=True).start()
    return future


class ReferenceDownloadable(Downloadable):
    """Offers a model to whoever downloads it.

    Args:
        source: the model; released with FLARE's transaction.
        side: this end of the job.
        own: makes what FLARE itself would send, for a download from site to site.
    """

    def __init__(self, source: ModelSource, side: Side, own: Callable[[], Any]) -> None:
        super().__init__(source)
        self.base_obj: ModelSource | None = source
        self._side = side
        self._make_own: Callable[[], Any] | None = own
        self._own: Any = None
        self._transaction: tuple[str, str] = ("", "")
        self._offers: dict[str, Future[Offer]] = {}

    def set_transaction(self, tx_id: str, ref_id: str) -> None:
        """Note FLARE's names for the download."""
        self._transaction = (tx_id, ref_id)

    def produce(self, state: dict[str, Any] | None, requester: str) -> tuple[str, Any, Any]:
        """Return the next chunk: a reference, beats while the bytes travel, or the end."""
        if state == _DONE:
            return ProduceRC.EOF, None, {}
        if state == _FETCHING:
            return ProduceRC.OK, [_BEAT], _FETCHING
        if (source := self.base_obj) is None:
            raise StreamlinkError("this model was released: FLARE's transaction is over")
        if not self._side.reaches(requester):
            return self._as_flare_does(state, requester)
        if requester not in self._offers:
            # In a thread: a site puts the model at the server, which takes a while.
            self._offers[requester] = _begin(lambda: self._side.offer(source, requester))
        if not wait([self._offers[requester]], _BEAT_SECONDS).done:
            return ProduceRC.OK, [_BEAT], _UPLOADING
        offer = self._offers[requester].result()
        return ProduceRC.OK, [_MARK + json.dumps(asdict(offer)).encode()], _OFFERED

    def release(self) -> None:
        """Release the model and its objects: FLARE's transaction is over."""
        self.base_obj = self._make_own = None
        for future in self._offers.values():
            future.add_done_callback(self._drop)
        if self._own is not None:
            self._own.release()

    def _drop(self, future: Future[Offer]) -> None:
        if future.exception() is None:
            self._side.drop(future.result())

    def _as_flare_does(self, state: Any, requester: str) -> tuple[str, Any, Any]:
        if self._own is None and self._make_own is not None:
            self._own = self._make_own()
            self._own.set_transaction(*self._transaction)
        return self._own.produce(state, requester)  # type: ignore[no-any-return]


def reference_consumer(own: type[Consumer], fetch: Callable[[Offer], Any]) -> Any:
    """Return a consumer that fetches what a reference names, and takes what comes without one.

    Args:
        own: FLARE's consumer for this kind of items; it takes what comes without a reference.
        fetch: fetches an object.
    """

    class ReferenceConsumer(own):  # chosen at run time
        supports_pipelining = False
        fetched: Future[Any] | None = None

        def consume(self, ref_id: str, state: dict[str, Any], data: Any) -> dict[str, Any]:
            if state == _OFFERED:
                offer = Offer(**json.loads(data[0][len(_MARK) :]))
                self.fetched = _begin(lambda: fetch(offer))
            if self.fetched is None:
                return state if state == _UPLOADING else dict(super().consume(ref_id, state, data))
            if not wait([self.fetched], _BEAT_SECONDS).done:
                return _FETCHING
            self.result = self.fetched.result()
            return _DONE

    return ReferenceConsumer(None, {})

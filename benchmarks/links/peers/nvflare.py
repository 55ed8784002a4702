"""NVIDIA FLARE 2.9.0, between two of its cells: the download service, and the byte stream.

The download service is how it moves a model: the receiver asks for one item after another, and an
array is one item. Its own functions for NumPy arrays and its defaults are used. The byte stream is
the layer below everything; FLARE drops the bytes in its own measurement, here they are copied into
the arrays. The future of the byte stream's sender is done before the receiver has the bytes.
"""

from __future__ import annotations

import threading
from typing import Any

from benchmarks.integrations.environments import Environment
from benchmarks.links.ends import End
from benchmarks.links.payload import Arrays
from benchmarks.links.peers import NUMPY, Peer
from benchmarks.links.ports import free_port

PEER = Peer(
    {
        "download": "NVFlare download service",
        "stream": "NVFlare byte stream, gRPC",
        "stream-tcp": "NVFlare byte stream, TCP",
    },
    environment=Environment(
        ("nvflare==2.9.0", NUMPY, "grpcio==1.80.0", "protobuf==6.33.1"), has_ours=False
    ),
    order=60,
    module=__name__,
)

LISTENING, DIALING = "server", "site-1"  # FLARE asks for the first name
CHANNEL, TOPIC = "benchmark", "model"
READ_BYTES = 1 << 20
CONNECT_SECONDS = 120.0
IDLE_SECONDS = 600.0  # its own defaults, of a request for an item and of the whole
REQUEST_SECONDS = 7200.0  # for the whole of it; what is measured is to end by itself


def receive(end: End) -> None:
    """Run the server's cell until the model is there."""
    from nvflare.fuel.f3.cellnet.cell import Cell

    _register()
    end.base()
    number = free_port(end.host)
    cell = Cell(LISTENING, _url(end, number), False, {})
    taking = _Downloading(cell) if end.variant == "download" else _Reading(end.target())
    taking.register(cell)
    cell.start()
    end.listening(number)
    end.finished(taking.wait())


def send(end: End) -> None:
    """Run a site's cell, and send."""
    from nvflare.fuel.f3.cellnet.cell import Cell

    _register()
    end.base()
    model = end.source()
    connected = threading.Event()
    cell = Cell(DIALING, _url(end, end.number), False, {})
    cell.core_cell.set_cell_connected_cb(lambda _: connected.set())
    cell.start()
    if not connected.wait(CONNECT_SECONDS):
        raise ConnectionError(f"no cell at {_url(end, end.number)} in {CONNECT_SECONDS:g} s")
    end.wait_for_go()
    if end.variant == "download":
        _offer(cell, model)
    else:
        _stream(cell, model)
    end.finished(model)


# --- the download service -----------------------------------------------------------------------


class _Downloading:
    """Downloads what a message refers to, in the callback of that message, as FLARE does."""

    def __init__(self, cell: Any) -> None:
        self._cell = cell
        self._is_done = threading.Event()
        self._model: Arrays = {}
        self._error = ""

    def register(self, cell: Any) -> None:
        cell.register_request_cb(channel=CHANNEL, topic=TOPIC, cb=self._take)

    def wait(self) -> Arrays:
        self._is_done.wait()
        if self._error:
            raise ConnectionError(self._error)
        return self._model

    def _take(self, message: Any) -> Any:
        from nvflare.app_common.np.np_downloader import download_arrays
        from nvflare.fuel.f3.cellnet.defs import ReturnCode
        from nvflare.fuel.f3.cellnet.utils import make_reply

        error, model = download_arrays(
            from_fqcn=DIALING,
            ref_id=message.payload,
            per_request_timeout=IDLE_SECONDS,
            cell=self._cell,
        )
        self._error, self._model = error or "", model or {}
        self._is_done.set()
        return make_reply(ReturnCode.OK if not error else ReturnCode.PROCESS_EXCEPTION)


def _offer(cell: Any, model: Arrays) -> None:
    from nvflare.app_common.np.np_downloader import add_arrays
    from nvflare.fuel.f3.cellnet.defs import MessageHeaderKey, ReturnCode
    from nvflare.fuel.f3.cellnet.utils import new_cell_message
    from nvflare.fuel.f3.streaming.obj_downloader import ObjectDownloader

    downloader = ObjectDownloader(cell, IDLE_SECONDS, num_receivers=1)
    reference = add_arrays(downloader, model)
    reply = cell.send_request(
        channel=CHANNEL, topic=TOPIC, target=LISTENING, timeout=REQUEST_SECONDS,
        request=new_cell_message({}, reference),
    )  # fmt: skip
    code = reply.get_header(MessageHeaderKey.RETURN_CODE)
    if code != ReturnCode.OK:
        raise ConnectionError(f"the download ended with {code}")


# --- the byte stream ----------------------------------------------------------------------------


class _Reading:
    """Reads one byte stream into the arrays."""

    def __init__(self, model: Arrays) -> None:
        self._model = model
        self._is_done = threading.Event()
        self._error = ""

    def register(self, cell: Any) -> None:
        cell.register_stream_cb(CHANNEL, TOPIC, self._read)

    def wait(self) -> Arrays:
        self._is_done.wait()
        if self._error:
            raise ConnectionError(self._error)
        return self._model

    def _read(self, future: Any, stream: Any, resume: bool) -> int:
        try:
            for array in self._model.values():
                _fill(array.data.cast("B"), stream)
        except Exception as error:
            self._error = f"{type(error).__name__}: {error}"
        self._is_done.set()
        return 0


def _fill(left: memoryview, stream: Any) -> None:
    while left:
        piece = stream.read(min(READ_BYTES, len(left)))
        if not piece:
            raise ConnectionError("the stream ended before it had everything")
        left[: len(piece)] = piece
        left = left[len(piece) :]


def _stream(cell: Any, model: Arrays) -> None:
    from nvflare.fuel.f3.message import Message
    from nvflare.fuel.f3.streaming.stream_types import Stream

    views = [array.data.cast("B") for array in model.values()]

    class Laid(Stream):
        def __init__(self) -> None:
            super().__init__(sum(map(len, views)))
            self._left = list(views)

        def read(self, size: int) -> memoryview | bytes:
            if not self._left:
                return b""
            piece, self._left[0] = self._left[0][:size], self._left[0][size:]
            if not self._left[0]:
                del self._left[0]
            self.pos += len(piece)
            return piece

    cell.send_stream(CHANNEL, TOPIC, LISTENING, Message({}, Laid())).result()


# --- both ---------------------------------------------------------------------------------------


def _register() -> None:
    """Import what both ends need, before the base of memory."""
    from nvflare.fuel.f3.cellnet.cell import Cell

    assert Cell


def _url(end: End, number: int) -> str:
    scheme = "tcp" if end.variant == "stream-tcp" else "grpc"
    return f"{scheme}://{end.host}:{number}"

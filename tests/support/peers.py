"""Servers, clients and settings for tests over real gRPC, all in one process and on port 0."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from streamlink.clock import Clock, running_time
from streamlink.config import GrpcConfig, LinkConfig, StreamConfig, TimeoutConfig
from streamlink.executors.client import Client
from streamlink.executors.executor import Executor, TaskOutcome
from streamlink.executors.streaming import StreamingExecutor
from streamlink.link.assignment import Assignment
from streamlink.link.client import ClientLink
from streamlink.link.peer import Peer
from streamlink.link.peer_request import PeerRequest
from streamlink.link.receive_model import receive_model
from streamlink.link.send_model import send_model
from streamlink.link.server import Server
from streamlink.link.transfer import Receipt
from streamlink.link.transfer_facts import OnTransfer
from streamlink.model.computed import RangeFunction
from streamlink.model.interfaces import ModelSource
from streamlink.model.spec import ModelSpec, TensorSpec
from streamlink.rounds.aggregate.mean import WeightedMean
from streamlink.stores.memory import MemoryStore, spec_of
from streamlink.transport.connect import Dial, dial
from tests.support.waiting import WAIT as WAIT

Array = npt.NDArray[Any]
KiB = 1 << 10

STREAM = StreamConfig(
    chunk_bytes=4 * KiB,
    min_chunk_bytes=1 * KiB,
    window_bytes=16 * KiB,
    initial_window_bytes=8 * KiB,
)
SMALL = LinkConfig(stream=STREAM, timeouts=TimeoutConfig(rejoin_timeout=0))
"""Chunks of 1 to 4 KiB and a window of 16 KiB, so that small models have many of each; a client
whose session is lost ends."""


def config(
    *, stream: dict[str, Any] | None = None, grpc: dict[str, Any] | None = None, **timeouts: float
) -> LinkConfig:
    """Return ``SMALL`` with some settings of its own; timeouts in seconds."""
    return LinkConfig(
        stream=StreamConfig(**{**STREAM.model_dump(), **(stream or {})}),
        timeouts=TimeoutConfig(**{"rejoin_timeout": 0, **timeouts}),
        grpc=GrpcConfig(**(grpc or {})),
    )


def until(is_so: Callable[[], bool]) -> None:
    """Wait for what nobody tells of."""
    end, never = time.monotonic() + WAIT, threading.Event()
    while not is_so():
        assert time.monotonic() < end, "it does not come to be"
        never.wait(0.01)


def exchange_models(
    exchange: PeerRequest, source: ModelSource, store: MemoryStore
) -> tuple[Receipt, Receipt]:
    """Send ``source`` and receive the answer into ``store``, both at once; the server's side."""
    with ThreadPoolExecutor(max_workers=2) as pool:
        sent = pool.submit(send_model, exchange.outgoing, source)
        got = pool.submit(receive_model, exchange.incoming, lambda model: store.begin(model.spec))
        receipts = sent.result(WAIT), got.result(WAIT)
    assert exchange.wait_reply(WAIT) is not None
    return receipts


def echo(assignment: Assignment) -> None:
    """Receive a model whole and send it back; the client's side."""
    store = MemoryStore()
    model = assignment.incoming()
    receive_model(model, lambda model: store.begin(model.spec))
    answer = assignment.outgoing(model.spec)
    send_model(answer, store.open())
    assignment.reply()
    assignment.close(model, answer)


class Federation:
    """A server on a free port and clients that come and go; all end with it."""

    def __init__(
        self,
        config: LinkConfig = SMALL,
        *,
        on_transfer: OnTransfer | None = None,
        clock: Clock = running_time,
        port: int = 0,
    ) -> None:
        server = Server(f"127.0.0.1:{port}", config, on_transfer=on_transfer, clock=clock)
        self.server = server.listen()
        self.address = f"127.0.0.1:{self.server.port}"
        self.config = config
        self._links: list[ClientLink | Client] = []

    def link(
        self,
        name: str,
        serve: Callable[[Assignment], None] = echo,
        config: LinkConfig | None = None,
        dial: Dial = dial,
    ) -> ClientLink:
        """Join a client whose work is ``serve``."""
        link = ClientLink(
            self.address, name=name, serve=serve, config=config or self.config, dial=dial
        )
        self._links.append(link)
        return link.start()

    def client(self, name: str, executor: Executor, config: LinkConfig | None = None) -> Site:
        """Join a client that runs tasks in a thread of its own."""
        client = Client(self.address, name, executor, config or self.config)
        self._links.append(client)
        return Site(client.start())

    def peer(self, name: str) -> Peer:
        """Return the server's view of a client, once it is there."""
        peer = self.server.wait_for_peer(name, WAIT)
        assert peer is not None, f"{name} did not come"
        return peer

    def wait_left(self, name: str) -> None:
        """Wait until the server knows that a client has gone and its place is free."""
        assert self.server.wait_until_left(name, WAIT), f"{name} did not leave"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        for link in self._links:
            link.close()
        # A client that is gone gives no answer to a goodbye, and nobody is to wait for it.
        self.server.cancel.cancel("the test is over")
        self.server.close()


class Site:
    """A client whose ``run`` has a thread."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.done: Future[list[TaskOutcome]] = Future()
        threading.Thread(target=self._run, daemon=True).start()

    def leave(self) -> None:
        """Say goodbye, whatever it is at."""
        self.client.close()

    def _run(self) -> None:
        try:
            self.done.set_result(self.client.run())
        except BaseException as error:
            self.done.set_exception(error)


# --- rounds ---------------------------------------------------------------------------

ODD = ModelSpec(
    (
        TensorSpec("f64", "F64", (701,)),
        TensorSpec("flag", "BOOL", (1003,)),
        TensorSpec("f32", "F32", (37, 41)),
        TensorSpec("none", "I64", (0, 4)),
        TensorSpec("i8", "I8", (5,)),
        TensorSpec("f16", "F16", (1, 2, 999)),
        TensorSpec("scalar", "BF16", ()),
        TensorSpec("bf16", "BF16", (2047,)),
        TensorSpec("u8", "U8", (3,)),
        TensorSpec("i64", "I64", (499,)),
        TensorSpec("c64", "C64", (333,)),
    )
)
"""Every kind of element, at offsets that are no multiple of their sizes."""


def initial(spec: ModelSpec = ODD) -> dict[str, Array]:
    """Return small whole numbers for every tensor, different from element to element."""
    arrays = {}
    for tensor in spec.tensors:
        values = np.arange(tensor.count) % 19 - (0 if tensor.dtype[0] in "UB" else 9)
        if tensor.dtype == "BOOL":
            values = values % 2
        arrays[tensor.name] = values.astype(tensor.numpy_dtype).reshape(tensor.shape)
    return arrays


def trained(number: int) -> RangeFunction:
    """Return the work of client ``number``: it depends on the client and on every position."""

    def function(tensor: TensorSpec, start: int, values: Array) -> Array:
        steps = (np.arange(start, start + values.size) * (number + 3)) % 11 + number
        if tensor.dtype == "BOOL":
            flipped: Array = np.logical_xor(values, steps % 3 == 0)
            return flipped
        sums: Array = values + steps.astype(values.dtype)
        return sums

    return function


def mean_of(before: Mapping[str, Array], weights: Mapping[int, float]) -> dict[str, Array]:
    """Return what a round of these clients must give: each tensor averaged whole, in one piece."""
    spec, mean = spec_of(before), WeightedMean([weights[n] for n in sorted(weights)])
    after = {}
    for tensor in spec.tensors:
        flat = before[tensor.name].reshape(-1)
        updates = [trained(number)(tensor, 0, flat) for number in sorted(weights)]
        out = np.empty(flat.size, tensor.numpy_dtype)
        mean.combine(tensor.dtype, updates, out)
        after[tensor.name] = out.reshape(tensor.shape)
    return after


def assert_same(found: Mapping[str, Array], expected: Mapping[str, Array]) -> None:
    """Compare two models bit by bit."""
    assert list(found) == list(expected)
    for name, array in expected.items():
        assert found[name].tobytes() == array.tobytes(), f"{name} differs"


def executor(number: int, weight: float = 1.0, **facts: float) -> StreamingExecutor:
    """Return the executor of client ``number``, reporting ``facts`` as its metrics."""
    return StreamingExecutor(trained(number), weight=weight, metrics=lambda: facts)


class Gate:
    """Stops an executor's function at the first range from element ``at`` of a tensor on."""

    def __init__(self, number: int, tensor: str = "bf16", at: int = 0) -> None:
        self.reached, self.opens = threading.Event(), threading.Event()
        self._function, self._tensor, self._at = trained(number), tensor, at

    def __call__(self, tensor: TensorSpec, start: int, values: Array) -> Array:
        if tensor.name == self._tensor and start >= self._at:
            self.reached.set()
            self.opens.wait(WAIT)
        return self._function(tensor, start, values)

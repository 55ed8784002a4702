"""The clients of an experiment: one for each number in the order, all in this process."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import streamlink as sl
from streamlink.errors import AbortCode
from streamlink.profiling.heap.capture import Capture
from streamlink.profiling.heap.experiment import Order
from streamlink.profiling.heap.messages import Message, pack, unpack
from streamlink.profiling.heap.serving import LOAD, link_config
from streamlink.profiling.heap.sites import Site, site_of
from streamlink.profiling.heap.variants import Variant, variant
from streamlink.stores import Array, MemoryStore

__all__ = ["take_part"]


def take_part(order: Order, capture: Capture) -> None:
    """Take part in the job until the server ends it.

    Raises:
        StreamlinkError: the work failed, or the server was lost.
        Exception: whatever the training raised.
    """
    switches = variant(order.version)
    if switches.is_streaming and switches.client:
        sl.tune_allocator()
    sites = {f"site-{number + 1}": site_of(order.experiment, number) for number in order.clients}
    first = next(iter(sites.values()))
    capture.model_bytes = sum(each.nbytes for each in first.state(optimize=True).values())
    run = _stream if switches.is_streaming else _by_hand
    with ThreadPoolExecutor(len(sites)) as pool:
        ends = [
            pool.submit(run, order, name, site, switches, capture) for name, site in sites.items()
        ]
        for end in ends:
            end.result()


def _stream(order: Order, name: str, site: Site, switches: Variant, capture: Capture) -> None:
    """Take part in rounds of streamlink."""
    if switches.client and switches.trainer:
        executor = sl.WholeExecutor(lambda model, task: site.train(task.round), site.model)
    else:
        executor = sl.WholeExecutor(_Copying(site, switches))
    timed = _Timed(executor, capture)
    config = link_config(order.experiment, switches, is_client=True)
    with sl.Client(order.address, name, timed, config) as client:
        client.run()


class _Timed:
    """Passes each task on to an executor, and notes how long it took."""

    def __init__(self, executor: sl.Executor, capture: Capture) -> None:
        self._executor, self._capture = executor, capture

    def execute(self, task: sl.Task, assignment: Any) -> Any:
        began = time.monotonic()
        outcome = self._executor.execute(task, assignment)
        self._capture.done(task.round, time.monotonic() - began)
        return outcome


class _Copying:
    """The work of a client that receives beside its model, and sends from a copy of it."""

    def __init__(self, site: Site, switches: Variant) -> None:
        self._site, self._switches = site, switches
        self._held: dict[str, Array] = {}

    def __call__(self, arrays: dict[str, Array], task: sl.Task) -> None:
        params = dict(arrays)
        if not self._switches.client:
            params = {name: each.copy() for name, each in arrays.items()}
        self._site.load(params)
        self._held = params
        self._site.train(task.round)
        for name, array in self._site.state(optimize=self._switches.trainer).items():
            if self._switches.trainer:
                arrays[name][...] = array
            else:
                arrays[name] = array.copy()


def _by_hand(order: Order, name: str, site: Site, switches: Variant, capture: Capture) -> None:
    """Serve the two requests of rounds by hand."""
    work = _ByHand(site, switches, capture)
    config = link_config(order.experiment, switches, is_client=True)
    with sl.link.ClientLink(order.address, name=name, serve=work, config=config) as link:
        link.wait_finished()
        if work.error is not None:
            raise work.error
        error = link.error
        if error is not None and error.code is not AbortCode.GOODBYE:  # the server's own end
            raise error


class _ByHand:
    """Takes a model, trains it, and gives it back, as two requests."""

    def __init__(self, site: Site, switches: Variant, capture: Capture) -> None:
        self._site, self._switches, self._capture = site, switches, capture
        self._kind = {"chunking": switches.chunking, "optimize": switches.carrier}
        self._params: Message | None = None
        self._sent: Message | None = None
        self._round, self._began = 0, 0.0
        self.error: Exception | None = None

    def __call__(self, assignment: Any) -> None:
        try:
            if assignment.topic == LOAD:
                self._load(assignment)
            else:
                with assignment.alive():
                    message = self._trained()
                assignment.answer(message.arrays)
                message.arrays = {}  # what was sent piece by piece is gone; its sources stay
                self._capture.done(self._round, time.monotonic() - self._began)
                self._round += 1
        except Exception as error:
            self.error = error
            raise

    def _load(self, assignment: Any) -> None:
        self._began = time.monotonic()
        switches = self._switches
        if switches.chunking and switches.carrier and switches.client:
            assignment.receive(self._site.model)
            assignment.answer()
            return
        store = MemoryStore()
        assignment.receive(store)
        arrived = dict(store.arrays)
        del store
        message = unpack(arrived, **self._kind)
        message.held.clear()  # a client is done with the response once it has the model
        tensors = dict(message.arrays)
        message.arrays = tensors
        self._sent = None
        self._params = None if self._switches.client else message
        self._site.load(tensors)
        assignment.answer()

    def _trained(self) -> Message:
        self._site.train(self._round)
        state = self._site.state(optimize=self._switches.trainer)
        message = pack(state, **self._kind)
        if not self._switches.client:
            self._sent = message
        return message

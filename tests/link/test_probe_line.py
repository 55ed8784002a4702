"""The end that probes, where the server does not keep to what it was asked for."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy.typing as npt
import pytest

from streamlink.clock import Clock, running_time
from streamlink.errors import AbortCode, SpecMismatch, StreamAborted, StreamlinkError
from streamlink.link.client_request import ClientRequest
from streamlink.link.probe_line import ProbeLine
from streamlink.link.probe_wire import (
    BYTES,
    DOWN,
    MAX_PROBE_SECONDS,
    PROBE_MARGIN_SECONDS,
    probe_model,
)
from streamlink.link.receive_transfer import KnownSpecs
from streamlink.link.send_model import send_model
from streamlink.model.computed import GeneratedModel
from streamlink.model.interfaces import ModelSource
from streamlink.model.spec import ModelSpec, TensorSpec
from streamlink.protocol.frames import Request
from streamlink.transport.connect import hub_at
from streamlink.transport.hub import Hub
from streamlink.transport.session import Session
from tests.support.peers import SMALL, until
from tests.support.virtual_clock import VirtualClock

ModelFor = Callable[[int], ModelSource]
LONGEST = MAX_PROBE_SECONDS + PROBE_MARGIN_SECONDS


@contextmanager
def hostile(address: str, model_for: ModelFor, clock: Clock = running_time) -> Iterator[str]:
    """A server that admits every probe, ends none, and sends what ``model_for`` returns."""
    hubs: list[Hub] = []

    def answer(session: Session, request: Request) -> None:
        asked = ClientRequest(hubs[0], session, request, KnownSpecs())
        model = model_for(int(request.metadata[BYTES]))
        try:
            send_model(asked.send(model.spec), model)
        except StreamlinkError:
            pass  # the probe has had enough
        finally:
            asked.close()

    def on_request(session: Session, request: Request) -> None:
        if request.topic == DOWN:
            threading.Thread(target=answer, args=(session, request), daemon=True).start()
        else:
            session.reply(request)

    hub = hub_at(address, SMALL, clock=clock, on_request=on_request)
    hubs.append(hub)
    hub.listen()
    try:
        yield address if address.startswith("memory:") else f"127.0.0.1:{hub.port}"
    finally:
        hub.close("the test is over")


@pytest.mark.parametrize("size", [1, 99_999, 100_001, 1 << 40])
def test_a_server_that_sends_another_size_than_it_was_asked_for_is_stopped(size: int) -> None:
    with hostile("127.0.0.1:0", lambda nbytes: probe_model(size)) as address:
        with ProbeLine(address, SMALL) as line:
            with pytest.raises(SpecMismatch, match=f"of {size} bytes .* has asked for 100000"):
                line.move([("down", 100_000)])


def test_a_server_that_answers_and_never_ends_the_probe_is_left() -> None:
    with VirtualClock().running() as clock:
        with hostile("memory://endless", probe_model, clock) as address:
            with ProbeLine(address, SMALL, clock=clock) as line:
                began, pause = clock(), clock.event()
                with pytest.raises(StreamAborted, match="should have done so after 60 s") as caught:
                    until(lambda: pause.wait(1.0) or line.echo() < 0)
                assert LONGEST <= clock() - began <= LONGEST + 2
    assert caught.value.code is AbortCode.COMMUNICATION_TIMEOUT
    assert not caught.value.by_peer


def test_a_server_whose_model_trickles_for_ever_is_left() -> None:
    with VirtualClock().running() as clock:

        def fill(tensor: TensorSpec, start: int, out: npt.NDArray[Any]) -> None:
            clock.event().wait(5.0)  # far less than any deadline of the stream

        def trickling(nbytes: int) -> ModelSource:
            return GeneratedModel(ModelSpec((TensorSpec("probe", "U8", (nbytes,)),)), fill)

        with hostile("memory://trickling", trickling, clock) as address:
            with ProbeLine(address, SMALL, clock=clock) as line:
                began = clock()
                with pytest.raises(StreamAborted, match="such as --most 32MiB"):
                    line.move([("down", 4 << 20)])
                assert LONGEST <= clock() - began <= LONGEST + 10

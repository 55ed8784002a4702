"""By default models travel over the port above that of sessions, where it can be reached."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import ExitStack

import numpy as np
import pytest

from benchmarks.relay import Relay
from streamlink.link.client import ClientLink
from streamlink.link.transfer_facts import TransferFacts
from tests.support.peers import WAIT, Federation, config, echo, until

MODEL = {"w": np.arange(50_000, dtype=np.float32)}
FEW_TRIES = 50


class Site:
    """A client that reaches its server over a relay, and echoes models."""

    def __init__(self, relay: Relay, federation: Federation) -> None:
        self.facts: list[TransferFacts] = []
        self.data_port = relay.port + 1
        self.link = ClientLink(
            f"127.0.0.1:{relay.port}",
            name="site-1",
            serve=echo,
            config=federation.config,
            on_transfer=self.facts.append,
        ).start()
        self._peer = federation.peer("site-1")

    def carriers(self) -> set[str]:
        """Move a model there and back; returns what carried it."""
        before = len(self.facts)
        answer = {"w": np.zeros_like(MODEL["w"])}
        self._peer.ask("echo", MODEL, into=answer, timeout=WAIT).result(WAIT)
        assert np.array_equal(answer["w"], MODEL["w"])
        until(lambda: len(self.facts) == before + 2)
        return {each.carrier for each in self.facts[before:]}


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def joined(stack: ExitStack, *, with_data_port: bool, data_listen: str = "auto") -> Site:
    federation = stack.enter_context(Federation(config(stream={"data_listen": data_listen})))
    relay = Relay("127.0.0.1", federation.server.port, with_data_port=with_data_port)
    site = Site(stack.enter_context(relay), federation)
    stack.callback(site.link.close)
    return site


def test_models_soon_travel_over_the_port_above(stack: ExitStack) -> None:
    site = joined(stack, with_data_port=True)
    # The first may begin over the session's carrier, where the proof takes longer than it waits.
    assert any(site.carriers() == {"tcp"} for _ in range(FEW_TRIES))


def test_behind_a_firewall_they_travel_beside_the_session_and_the_port_is_named(
    stack: ExitStack, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "streamlink.client"):
        site = joined(stack, with_data_port=False)
        for _ in range(3):
            assert site.carriers() == {"grpc"}
        until(lambda: bool(caplog.records))
    (said,) = caplog.messages
    assert f"tcp://127.0.0.1:{site.data_port} cannot be used from here" in said


def test_a_server_that_offers_no_port_is_no_news(
    stack: ExitStack, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "streamlink.client"):
        site = joined(stack, with_data_port=True, data_listen="none")
        assert site.carriers() == {"grpc"}
    assert caplog.messages == []

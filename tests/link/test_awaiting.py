"""Calls that block, from asyncio: the loop stays free, and a cancelled task leaves nothing."""

from __future__ import annotations

import asyncio
import threading

import numpy as np
import pytest

import streamlink
from streamlink.cancel import CancelToken
from streamlink.errors import Cancelled, ModelError
from streamlink.link import run_async
from streamlink.link.client import ClientLink
from streamlink.link.server import Server
from streamlink.testing import memory_address
from tests.support.peers import SMALL, WAIT


def test_send_and_receive_are_awaited_together() -> None:
    model, into = {"w": np.arange(9, dtype=np.float32)}, {"w": np.zeros(9, np.float32)}
    address = memory_address()

    async def both() -> None:
        is_open = asyncio.Event()
        loop = asyncio.get_running_loop()

        def opened(port: int) -> None:
            loop.call_soon_threadsafe(is_open.set)

        receiving = asyncio.create_task(
            run_async(streamlink.receive, into, address, config=SMALL, on_listening=opened)
        )
        await is_open.wait()
        sent = await run_async(streamlink.send, model, address, config=SMALL)
        assert (await receiving).digest == sent.digest

    asyncio.run(asyncio.wait_for(both(), WAIT))
    assert into["w"].tolist() == model["w"].tolist()


def test_what_the_call_raises_is_raised() -> None:
    with pytest.raises(ModelError, match="cannot be read as a model"):
        asyncio.run(run_async(streamlink.send, 3, memory_address()))


def test_a_cancelled_task_ends_its_call_first() -> None:
    into, ended = {"w": np.zeros(9, np.float32)}, threading.Event()

    def receive(cancel: CancelToken) -> None:
        try:
            streamlink.receive(into, memory_address(), config=SMALL, cancel=cancel)
        finally:
            ended.set()

    async def cancelled() -> None:
        task = asyncio.create_task(run_async(receive))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert ended.is_set()

    asyncio.run(asyncio.wait_for(cancelled(), WAIT))


def test_a_token_of_ones_own_ends_the_call() -> None:
    token, into = CancelToken(), {"w": np.zeros(9, np.float32)}
    token.cancel("enough")
    with pytest.raises(Cancelled, match="enough"):
        asyncio.run(run_async(streamlink.receive, into, memory_address(), cancel=token))


def test_a_client_asks_without_blocking_the_loop() -> None:
    may_answer, address = threading.Event(), memory_address()

    async def ask(client: ClientLink) -> str:
        asking = asyncio.create_task(run_async(client.ask, "wait"))
        asyncio.get_running_loop().call_soon(may_answer.set)  # only a loop that is free gets there
        with await asking as answer:
            return answer.metadata["is"]

    def handler(asked: streamlink.link.ClientRequest) -> None:
        assert may_answer.wait(WAIT)
        asked.reply(metadata={"is": "here"})

    with (
        Server(address, SMALL, serve={"wait": handler}),
        ClientLink(address, name="site-1", config=SMALL) as client,
    ):
        assert asyncio.run(ask(client)) == "here"


def test_a_job_is_awaited_with_the_token_that_ends_it() -> None:
    address = memory_address()

    def run(cancel: CancelToken) -> None:
        store = streamlink.stores.MemoryStore({"w": np.zeros(3, np.float32)})
        with Server(address, SMALL) as server:
            rules = streamlink.RoundConfig(min_clients=1)
            streamlink.ScatterAndGather(server, store, rules, cancel=cancel).run()

    async def cancelled() -> None:
        task = asyncio.create_task(run_async(run))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(asyncio.wait_for(cancelled(), WAIT))

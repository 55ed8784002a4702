"""Checks of what is held for a message of Flower, and until when; ``flower_checks`` runs them."""

from __future__ import annotations

import gc
import json
import time
from collections.abc import Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from threading import Event
from typing import Any

import numpy as np
import torch
from flwr.app import ArrayRecord, Context, Error, Message, RecordDict

from streamlink.config import ObjectLimits
from streamlink.errors import ObjectLimit, StreamlinkError
from streamlink.integrations.flower import StreamlinkGrid, record_of
from streamlink.objects import Reference
from tests.integrations.flower_in_memory import MODEL, InMemory, adding, messages
from tests.support.collecting import CollectingSeconds, collecting_only_there, in_cycle


def check_nothing_is_held_once_the_replies_are_gone() -> None:
    with StreamlinkGrid(InMemory(adding)) as grid:
        replies = list(grid.send_and_receive(messages(ArrayRecord(MODEL))))
        assert len(grid.objects) == 2  # the updates
        del replies
        gc.collect()
        assert len(grid.objects) == 0


def check_replies_that_the_collector_finds_inside_the_shelf_change_nothing_there() -> None:
    with StreamlinkGrid(InMemory(adding)) as grid, collecting_only_there():
        grid.objects.put({"w": MODEL[0]}, ttl=CollectingSeconds(60))
        in_cycle(list(grid.send_and_receive(messages(ArrayRecord(MODEL)))))
        grid.push_messages(messages(ArrayRecord(MODEL)))
        assert len(grid.objects) == 2


def check_a_client_that_fails_leaves_nothing_and_is_an_error_of_flowers() -> None:
    def failing(message: Message, context: Context) -> Message:
        raise StreamlinkError("no disk")

    with StreamlinkGrid(InMemory(failing)) as grid:
        replies = list(grid.send_and_receive(messages(ArrayRecord(MODEL))))
        assert [each.error.reason for each in replies] == ["no disk", "no disk"]
        assert len(grid.objects) == 0


def check_what_nobody_fetches_is_released_at_the_timeout() -> None:
    grid = StreamlinkGrid(InMemory(adding))
    grid.grid.pull_messages = lambda ids: []
    assert not list(grid.send_and_receive(messages(ArrayRecord(MODEL)), timeout=0.1))
    assert len(grid.objects) == 0
    grid.close()
    grid.close()


def check_an_update_that_comes_too_late_is_released_in_the_next_round() -> None:
    with StreamlinkGrid(InMemory(adding)) as grid:
        pull, waiting = grid.grid.pull_messages, grid.grid.waiting
        late: list[Message] = []

        def without_the_last(ids: Iterable[str]) -> list[Message]:
            slow = [each for each in ids if waiting[each].metadata.dst_node_id == 22]
            late.extend(grid.grid.answer(waiting[each]) for each in slow if not late)
            return list(pull(set(ids) - set(slow)))

        grid.grid.pull_messages = without_the_last
        [reply] = grid.send_and_receive(messages(ArrayRecord(MODEL)), timeout=0.1)
        assert len(grid.objects) == 1  # not the update that nobody waits for
        name = late[0].metadata.reply_to_message_id
        grid.grid.pull_messages = lambda ids: late * (name in ids) + pull(set(ids) - {name})
        del waiting[name], reply
        replies = list(grid.send_and_receive(messages(ArrayRecord(MODEL))))
        assert sorted(each.metadata.src_node_id for each in replies) == [11, 22]
        del replies
        late.clear()
        gc.collect()
        assert len(grid.objects) == 0


def check_an_update_that_has_gone_is_an_error_of_that_node_only() -> None:
    with StreamlinkGrid(InMemory(adding)) as grid:
        pull = grid.grid.pull_messages

        def losing(ids: Iterable[str]) -> list[Message]:
            replies: list[Message] = pull(ids)
            [array] = replies[0].content["arrays"].values()
            grid.objects.drop(array.data.decode())
            return replies

        grid.grid.pull_messages = losing
        replies = list(grid.send_and_receive(messages(ArrayRecord(MODEL))))
        assert [each.has_error() for each in replies] == [True, False]
        assert replies[0].metadata.src_node_id in (11, 22)


def admitted(grid: Any) -> set[str]:
    """Return the names that may connect; nobody has the empty one."""
    return {*json.loads(grid.config.security.tokens.read_text())} - {""}


def check_messages_that_cannot_be_put_leave_nothing() -> None:
    small, large = ArrayRecord([np.zeros(1)]), ArrayRecord([np.zeros(1000)])
    with StreamlinkGrid(InMemory(adding), limits=ObjectLimits(max_bytes=8010)) as grid:
        grid.push_messages(messages(large))
        both = RecordDict({"small": small, "large": large})  # the first fits
        try:
            grid.push_messages([Message(both, 11, "train")])
        except ObjectLimit:
            assert (len(grid.objects), len(admitted(grid))) == (1, 2)  # those of the first push
        else:
            raise AssertionError("there is room for both")


def check_messages_that_flower_does_not_take_leave_nothing() -> None:
    class Refusing(InMemory):
        def push_messages(self, messages: Iterable[Message]) -> list[str]:
            raise ConnectionError("the SuperLink is away")

    with StreamlinkGrid(Refusing(adding)) as grid:
        for sent in (messages(ArrayRecord(MODEL)), failing_halfway()):
            try:
                grid.push_messages(sent)
            except ConnectionError:
                assert (len(grid.objects), admitted(grid)) == (0, set())
            else:
                raise AssertionError("nobody takes them")


def failing_halfway() -> Iterable[Message]:
    yield messages(ArrayRecord(MODEL))[0]
    raise ConnectionError("the second message cannot be made")


class Killing(InMemory):
    """Nodes whose ClientApps are killed when they have sent their update, and not the reply."""

    def answer(self, message: Message) -> Message:
        super().answer(message)
        return Message(Error(2, "ClientApp stopped responding"), reply_to=message)


def check_the_update_of_a_client_that_is_killed_is_released_with_its_error() -> None:
    with StreamlinkGrid(Killing(adding)) as grid:
        replies = list(grid.send_and_receive(messages(ArrayRecord(MODEL))))
        assert [each.has_error() for each in replies] == [True, True]
        assert len(grid.objects) == 0


def check_the_update_of_a_client_that_is_killed_after_the_timeout_is_released_too() -> None:
    is_over = Event()

    def slow(message: Message, context: Context) -> Message:
        reply = adding(message, context)
        assert is_over.wait(60)
        return reply

    patience = {"poll_seconds": 0.0, "idle_seconds": 0.2}
    with StreamlinkGrid(Killing(slow), **patience) as grid, ThreadPoolExecutor() as threads:
        node, clients = grid.grid, list[Future[Message]]()

        def working(ids: Iterable[str]) -> list[Message]:
            new = [node.waiting.pop(each) for each in ids if each in node.waiting]
            clients.extend(threads.submit(node.answer, each) for each in new)
            return []

        node.pull_messages = working
        assert not list(grid.send_and_receive(messages(ArrayRecord(MODEL))[:1], timeout=0.1))
        is_over.set()
        late = [each.result(60) for each in clients]
        assert len(grid.objects) == 1
        node.pull_messages = lambda ids: late
        assert not list(grid.pull_messages([]))
        assert len(grid.objects) == 0


def check_an_update_lives_as_long_as_its_reply() -> None:
    ends: list[float] = []

    class Noting(InMemory):
        def answer(self, message: Message) -> Message:
            reply = super().answer(message)
            [array] = reply.content["arrays"].values()
            ends.append(Reference.parse(array.data.decode()).expires_at)
            return reply

    content, began = RecordDict({"arrays": ArrayRecord(MODEL)}), time.time()
    sent = [Message(content, 11, "train", ttl=500.0), Message(content, 22, "train", ttl=7200.0)]
    with StreamlinkGrid(Noting(adding), limits=ObjectLimits(ttl=1e-6, max_ttl=1000.0)) as grid:
        replies = list(grid.send_and_receive(sent))
        assert not any(each.has_error() for each in replies)
    lived = sorted(round(end - began, -2) for end in ends)
    assert lived == [500, 1000]  # the server permits no more


def check_a_change_after_the_push_is_noticed_of_tensors_and_not_of_arrays() -> None:
    models: list[Any] = [{"w": torch.zeros(3)}, {"w": np.zeros(3)}]
    noticed = []
    for model in models:
        with StreamlinkGrid(InMemory(adding)) as grid:
            ids = grid.push_messages(messages(record_of(model)))
            model["w"] += 1
            noticed.append([each.has_error() for each in grid.pull_messages(ids)])
    assert noticed == [[True, True], [False, False]]

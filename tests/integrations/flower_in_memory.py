"""A grid of Flower that keeps messages in memory, and calls the clients in this process."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import ml_dtypes
import numpy as np
from flwr.app import ArrayRecord, Context, Error, Message, MetricRecord, RecordDict
from flwr.proto.node_pb2 import NodeInfo
from flwr.serverapp import Grid

from streamlink import LinkConfig, TimeoutConfig
from streamlink.errors import StreamlinkError
from streamlink.integrations.flower import StreamlinkMod, record_of

__all__ = ["MODEL", "SOON", "InMemory", "adding", "messages"]

Train = Callable[[Message, Context], Message]
MODEL = [
    np.arange(12, dtype=np.float32).reshape(3, 4),
    np.asfortranarray(np.arange(6.0).reshape(2, 3)),
    np.array(3.0),
    np.empty((0, 3)),
    np.arange(5).astype(ml_dtypes.bfloat16),
    np.array([1, 2, 3]),
]

SOON = LinkConfig(
    timeouts=TimeoutConfig(connect_timeout=2.0, reconnect_timeout=2.0, rejoin_timeout=2.0)
)


class InMemory(Grid):
    """Two nodes in this process: a message is answered when its reply is asked for."""

    def __init__(self, app: Train, **settings: Any) -> None:
        self.app, self.settings = app, settings
        self.own: dict[int, dict[str, Any]] = {11: {}, 22: {}}  # settings of one node
        self.names: dict[int, str] = {}
        self.waiting: dict[str, Message] = {}
        self.seen: list[Message] = []
        self.data_bytes = 0

    run = None

    def set_run(self, run: Any) -> None: ...

    def create_message(self, *args: Any, **options: Any) -> Message:
        return Message(*args, **options)

    def get_node_ids(self) -> list[int]:
        return list(self.own)

    def get_nodes(self) -> list[Any]:
        return [NodeInfo(node_id=node, name=self.names.get(node)) for node in self.own]

    def push_messages(self, messages: Iterable[Message]) -> list[str]:
        ids = []
        for number, message in enumerate(messages):
            ids.append(f"{len(self.seen)}-{number}")
            message.metadata.__dict__["_message_id"] = ids[-1]
            self.waiting[ids[-1]] = message
            self.data_bytes += sum(len(a.data) for a in message.content["arrays"].values())
        self.seen += [self.waiting[each] for each in ids]
        return ids

    def pull_messages(self, message_ids: Iterable[str]) -> list[Message]:
        return [self.answer(self.waiting.pop(each)) for each in list(message_ids)]

    def answer(self, message: Message) -> Message:
        node = message.metadata.dst_node_id
        context = Context(1, node, self.settings | self.own[node], RecordDict(), {})
        try:
            return StreamlinkMod(config=SOON)(message, context, self.app)
        except StreamlinkError as error:  # as Flower does
            return Message(Error(2, str(error)), reply_to=message)

    def send_and_receive(self, messages: Any, *, timeout: Any = None) -> Any:
        raise NotImplementedError


def adding(message: Message, context: Context) -> Message:
    """Add 1 at node 11, and 2 at node 22."""
    arrays = message.content["arrays"].to_numpy_ndarrays()
    for array in arrays:
        array += np.asarray(context.node_id // 11, array.dtype)
    metrics = MetricRecord({"num-examples": 1})
    return Message(RecordDict({"arrays": record_of(arrays), "metrics": metrics}), reply_to=message)


def messages(record: ArrayRecord) -> list[Message]:
    content = RecordDict({"arrays": record})
    return [Message(content, node, "train") for node in (11, 22)]

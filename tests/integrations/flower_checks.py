"""Checks of the records, the grid and the mod, run by the python of Flower's environment.

``python -m tests.integrations.flower_checks`` runs all of them and prints the names of those that
hold; ``test_flower`` asks for that. Nothing of Flower is replaced but its transport: see
``flower_in_memory``.
"""

from __future__ import annotations

import gc
import io
import logging
import socket
import tempfile
import traceback
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from threading import Barrier, Thread
from types import SimpleNamespace
from typing import Any

import ml_dtypes
import numpy as np
import torch
from flwr.app import Array, ArrayRecord, ConfigRecord, Context, Message, MetricRecord, RecordDict
from flwr.serverapp.strategy import FedAvg
from flwr.supercore.task_identity import TaskIdentity

import streamlink
from streamlink import LinkConfig, SecurityConfig
from streamlink.certs import make_certificates
from streamlink.errors import ConnectFailed, NonFiniteUpdate
from streamlink.integrations.flower import (
    StreamingFedAvg,
    StreamlinkGrid,
    StreamlinkMod,
    record_of,
)
from streamlink.integrations.flower.identity import SESSION
from streamlink.integrations.flower.records import SourceRecord, source_of
from streamlink.model import GeneratedModel, ModelSpec, TensorSpec
from streamlink.stores import MemoryStore
from tests.integrations import flower_endings
from tests.integrations.flower_in_memory import MODEL, SOON, InMemory, adding, messages

NO_EVALUATE = {"fraction_evaluate": 0.0}


def same(ours: Iterable[Any], theirs: Iterable[Any]) -> bool:
    return all(
        a.dtype == b.dtype and a.shape == b.shape and bool((a == b).all())
        for a, b in zip(ours, theirs, strict=True)
    )


def check_every_kind_of_array_survives_flowers_form() -> None:
    source = source_of(ArrayRecord(MODEL))
    record = SourceRecord(source)
    assert same(record.to_numpy_ndarrays(), MODEL)
    assert same([each.numpy() for each in record.values()], MODEL)


def check_bfloat16_becomes_a_tensor_of_bfloat16() -> None:
    net = torch.nn.Linear(2, 3).to(torch.bfloat16)
    state = record_of(net).to_torch_state_dict()
    assert state["weight"].dtype == torch.bfloat16
    net.load_state_dict(state)


def check_what_has_no_dtype_of_ours_stays_with_flower() -> None:
    with StreamlinkGrid(InMemory(lambda message, _: message)) as grid:
        record = ArrayRecord([np.zeros(3, np.complex128)])
        grid.push_messages(messages(record))
        [message, _] = grid.grid.seen
        assert message.content["arrays"] is record


def check_a_record_that_was_changed_is_sent_as_it_is_now() -> None:
    record = record_of([np.zeros(3, np.float32), np.ones(2, np.float32)])
    record["0"] = Array(np.full(4, 7, np.float32))
    source = source_of(record)
    assert [tensor.shape for tensor in source.spec.tensors] == [(4,), (2,)]
    assert record.to_numpy_ndarrays()[0].tolist() == [7, 7, 7, 7]


def check_flowers_own_code_can_copy_a_lazy_record() -> None:
    copied = ArrayRecord(dict(record_of([np.ones(3, np.float32)])))
    assert copied["0"].numpy().tolist() == [1, 1, 1]


def check_a_message_carries_references_and_the_reply_arrays() -> None:
    with StreamlinkGrid(InMemory(adding)) as grid:
        replies = list(grid.send_and_receive(messages(ArrayRecord(MODEL)), timeout=60))
        assert grid.grid.data_bytes < 1000
        for reply in replies:
            add = reply.metadata.src_node_id // 11
            expected = [(each + np.asarray(add, each.dtype)).astype(each.dtype) for each in MODEL]
            assert same(reply.content["arrays"].to_numpy_ndarrays(), expected)


def check_the_callers_messages_keep_their_arrays() -> None:
    with StreamlinkGrid(InMemory(adding)) as grid:
        sent = messages(ArrayRecord(MODEL))
        list(grid.send_and_receive(sent))
        assert same(
            sent[0].content["arrays"].to_numpy_ndarrays(), ArrayRecord(MODEL).to_numpy_ndarrays()
        )
        assert list(sent[0].content) == ["arrays"]


def check_an_update_ends_the_wait_for_its_reply() -> None:
    with StreamlinkGrid(InMemory(adding), poll_seconds=0.0, idle_seconds=3600.0) as grid:
        pull, found = grid.grid.pull_messages, list[Message]()
        clients: list[Thread] = []

        def working(ids: Iterable[str]) -> list[Message]:
            if not clients:  # nothing is there when the grid looks first
                clients.append(Thread(target=lambda: found.extend(pull(ids))))
                clients[0].start()
                return []
            clients[0].join()
            return found

        grid.grid.pull_messages = working
        assert len(list(grid.send_and_receive(messages(ArrayRecord(MODEL))))) == 2


def check_a_second_grid_takes_the_next_port_of_the_range() -> None:
    with StreamlinkGrid(InMemory(adding)) as free:
        first = free.objects.port
    ports = f"127.0.0.1:{first}-{first + 20}"
    with (
        StreamlinkGrid(InMemory(adding), ports) as one,
        StreamlinkGrid(InMemory(adding), ports) as two,
    ):
        assert first <= one.objects.port < two.objects.port <= first + 20


def check_a_node_dials_no_port_beyond_its_range() -> None:
    settings = {"streamlink-server": "127.0.0.1:1-2"}
    with StreamlinkGrid(InMemory(adding, **settings)) as grid:
        [reply, _] = grid.send_and_receive(messages(ArrayRecord(MODEL)))
        assert "may dial 127.0.0.1:1-2 only" in reply.error.reason


def check_a_node_that_was_not_told_where_its_server_is_says_what_to_set() -> None:
    errors: list[str] = []
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        there = {"name": "11-a", "token": "t" * 32, "port": nobody.getsockname()[1], "ttl": 60.0}
        for own in ({}, {"streamlink-server": "127.0.0.1"}):
            message = Message(RecordDict({SESSION: ConfigRecord(there)}), 11, "train")
            context = Context(1, 11, own, RecordDict(), {})
            try:
                StreamlinkMod(config=SOON)(message, context, adding)
            except ConnectFailed as error:
                errors.append(str(error))
    hint = "streamlink-server (--node-config) is not set here"
    assert [hint in each for each in errors] == [True, False]


def check_a_grid_at_one_port_opens_no_other() -> None:
    with StreamlinkGrid(InMemory(adding)) as free:
        port = free.objects.port
    settings = {"streamlink-server": f"127.0.0.1:{port}"}
    with StreamlinkGrid(InMemory(adding, **settings), f"127.0.0.1:{port}") as grid:
        with socket.socket() as above:
            assert above.connect_ex(("127.0.0.1", port + 1))
        replies = list(grid.send_and_receive(messages(ArrayRecord(MODEL))))
        assert not any(each.has_error() for each in replies)


@contextmanager
def all_at_once(number: int, **settings: Any) -> Iterator[tuple[Any, list[Message]]]:
    """Yield a grid whose nodes reply once all of them are connected, and a message to each."""
    everybody = Barrier(number)

    def waiting(message: Message, context: Context) -> Message:
        reply = adding(message, context)
        everybody.wait(60)
        return reply

    class Parallel(InMemory):
        def pull_messages(self, message_ids: Iterable[str]) -> list[Message]:
            with ThreadPoolExecutor(number) as threads:
                return list(threads.map(self.answer, map(self.waiting.pop, message_ids)))

    transport = Parallel(waiting)
    transport.own = {11 * (node + 1): {} for node in range(number)}
    content = RecordDict({"arrays": ArrayRecord([np.zeros(3, np.float32)])})
    with StreamlinkGrid(transport, **settings) as grid:
        yield grid, [Message(content, node, "train") for node in transport.own]


def check_the_clients_of_all_nodes_are_connected_at_once() -> None:
    for number in (17, 65):
        with all_at_once(number) as (grid, sent):
            assert not [each.error for each in grid.send_and_receive(sent) if each.has_error()]


def check_a_grid_holds_what_its_disk_can() -> None:
    spec = ModelSpec((TensorSpec("w", "U8", (100 << 30,)),))
    with StreamlinkGrid(InMemory(adding)) as grid:
        for _ in range(26):
            model = GeneratedModel(spec, lambda tensor, start, out: out.fill(0))
            grid.objects.put(model, digest="")


def check_a_message_without_references_passes_through_the_mod() -> None:
    message = Message(RecordDict({"arrays": ArrayRecord(MODEL)}), 11, "train")
    context = Context(1, 11, {}, RecordDict(), {})
    assert StreamlinkMod()(message, context, lambda message, _: message) is message


def check_our_strategy_averages_into_its_store() -> None:
    store = MemoryStore()
    strategy = StreamingFedAvg(store, fraction_evaluate=0.0)
    floats: list[Any] = [np.arange(5, dtype=np.float32), np.arange(6, dtype=np.float64)]
    seen: list[float] = []

    def evaluate(number: int, arrays: ArrayRecord) -> MetricRecord:
        seen.append(float(arrays["0"].numpy()[0]))
        return MetricRecord({"x": 1.0})

    with StreamlinkGrid(InMemory(adding)) as grid:
        result = strategy.start(grid, ArrayRecord(floats), 3, evaluate_fn=evaluate)
        assert same(result.arrays.to_numpy_ndarrays(), [each + 4.5 for each in floats])
        assert seen == [0, 1.5, 3.0, 4.5]
        gc.collect()
        assert len(grid.objects) == 0
    assert same([a.numpy() for a in record_of(store.open()).values()], [a + 4.5 for a in floats])
    with StreamlinkGrid(InMemory(adding)) as grid:
        strategy.start(grid, None, 1, 60, None, None, evaluate)  # in Flower's order
    assert seen[4:] == [4.5, 6.0]


def check_an_update_that_is_not_finite_ends_the_run_by_its_node_unless_accepted() -> None:
    def diverging(message: Message, context: Context) -> Message:
        nan = np.asarray(np.nan if context.node_id == 22 else 1.0, np.float32)
        content = {"arrays": ArrayRecord([nan]), "metrics": MetricRecord({"num-examples": 1})}
        return Message(RecordDict(content), reply_to=message)

    first = ArrayRecord([np.zeros((), np.float32)])
    with StreamlinkGrid(InMemory(diverging)) as grid:
        refused = ""
        try:
            StreamingFedAvg(MemoryStore(), **NO_EVALUATE).start(grid, first, 1)
        except NonFiniteUpdate as error:
            refused = str(error)
        assert "'0' in the update of 22" in refused
        accepting = StreamingFedAvg(MemoryStore(), accept_non_finite=True, **NO_EVALUATE)
        assert np.isnan(accepting.start(grid, first, 1).arrays["0"].numpy())


def check_our_strategy_begins_with_the_model_in_its_store() -> None:
    store = MemoryStore()
    streamlink.copy_model({"0": np.ones(4, np.float32)}, store)
    strategy = StreamingFedAvg(store, fraction_evaluate=0.0)
    with StreamlinkGrid(InMemory(adding)) as grid:
        result = strategy.start(grid, None, 1)
    assert result.arrays["0"].numpy().tolist() == [2.5] * 4


class Unread(MemoryStore):
    """A store that counts what is read of the model that was opened last (bytes)."""

    nbytes_read = 0

    def open(self) -> Any:
        model = super().open()
        self.nbytes_read = 0

        def read(start: int, nbytes: int) -> Any:
            self.nbytes_read += nbytes
            return model.read(start, nbytes)

        return SimpleNamespace(spec=model.spec, read=read, close=model.close)


def check_flower_logs_the_size_of_a_model_in_a_store_and_reads_nothing_for_that() -> None:
    store, said = Unread(), io.StringIO()
    strategy = StreamingFedAvg(store, fraction_evaluate=0.0)
    handler = logging.StreamHandler(said)
    logging.getLogger("flwr").addHandler(handler)
    with StreamlinkGrid(InMemory(adding)) as grid:
        result = strategy.start(grid, ArrayRecord([np.ones(1 << 20, np.float32)]), 1)
    logging.getLogger("flwr").removeHandler(handler)
    assert store.nbytes_read == 0
    assert said.getvalue().count("ArrayRecord (4.00") == 2, said.getvalue()
    assert "Starting StreamingFedAvg strategy" in said.getvalue()
    assert float(result.arrays["0"].numpy()[-1]) == 2.5
    assert store.nbytes_read == 4 << 20


@contextmanager
def secured(**security: Any) -> Iterator[tuple[Any, Callable[[str], dict[str, str]]]]:
    """Yield a grid with a certificate, and what the configuration of a node has for each site."""
    with tempfile.TemporaryDirectory() as folder:
        _, own, *_ = make_certificates(Path(folder), ["127.0.0.1"], ["site-1", "site-2"])
        security = {name: own / value for name, value in security.items()}
        pair = {"certificate": own / "certificate.pem", "key": own / "key.pem"}
        config = LinkConfig(security=SecurityConfig(**pair, **security))
        with StreamlinkGrid(InMemory(adding), config=config) as grid:
            yield (
                grid,
                lambda site: {
                    "streamlink-ca": f"{folder}/{site}/ca.pem",
                    "streamlink-certificate": f"{folder}/{site}/certificate.pem",
                    "streamlink-key": f"{folder}/{site}/key.pem",
                },
            )


def check_the_certificate_of_flowers_server_serves_here_too() -> None:
    with secured() as (grid, files):
        grid.grid.own[11] = {"streamlink-ca": files("site-1")["streamlink-ca"]}
        replies = list(grid.send_and_receive(messages(ArrayRecord(MODEL))))
        good = {each.metadata.src_node_id: not each.has_error() for each in replies}
        assert good == {11: True, 22: False}  # the other one talks in plain text


def check_a_node_presents_the_certificate_of_its_name_in_flower() -> None:
    with secured(ca="ca.pem") as (grid, files):
        grid.grid.names = {11: "site-1", 22: "site-2"}
        grid.grid.own = {11: files("site-1"), 22: files("site-2")}
        for _ in range(2):  # the same names connect again
            replies = list(grid.send_and_receive(messages(ArrayRecord(MODEL))))
            assert not any(each.has_error() for each in replies)


def check_a_node_with_the_certificate_of_another_is_refused() -> None:
    with secured(ca="ca.pem") as (grid, files):
        grid.grid.names = {11: "site-1", 22: "site-2"}
        grid.grid.own = {11: files("site-1"), 22: files("site-1")}
        replies = list(grid.send_and_receive(messages(ArrayRecord(MODEL))))
        errors = {r.metadata.src_node_id: r.error.reason for r in replies if r.has_error()}
        assert "the certificate is that of site-1" in errors.pop(22)
        assert not errors


def dtypes_seen(strategy: Any, model: list[Any]) -> tuple[set[tuple[str, ...]], ArrayRecord]:
    """Return the dtypes of all records that clients got and sent in three rounds, and the end."""
    seen: set[tuple[str, ...]] = set()

    def noting(message: Message, context: Context) -> Message:
        reply = adding(message, context)
        for each in (message, reply):
            seen.add(tuple(str(array.numpy().dtype) for array in each.content["arrays"].values()))
        return reply

    with StreamlinkGrid(InMemory(noting)) as grid:
        return seen, strategy.start(grid, ArrayRecord(model), 3).arrays


def check_bfloat16_arrives_as_bfloat16_in_both_directions_and_lines() -> None:
    model: list[Any] = [np.arange(8).astype(ml_dtypes.bfloat16), np.zeros(2, np.float32)]
    for strategy in (FedAvg(**NO_EVALUATE), StreamingFedAvg(MemoryStore(), **NO_EVALUATE)):
        seen, end = dtypes_seen(strategy, model)
        assert seen == {("bfloat16", "float32")}
        found = [each.tolist() for each in end.to_numpy_ndarrays()]
        assert found == [list(np.arange(8) + 4.5), [4.5] * 2]


def check_a_model_that_began_as_float32_stays_float32() -> None:
    narrow: dict[str, Any] = {}
    for dtype, sent in [(np.float32, "F32"), (ml_dtypes.bfloat16, "BF16"), (np.float64, "BF16")]:
        [tensor] = source_of(ArrayRecord([np.zeros(2, dtype)]), narrow).spec.tensors
        assert tensor.dtype == sent


class Tied(torch.nn.Module):
    """A model with tied weights: one parameter under two names."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = torch.nn.Embedding(3, 2)
        self.head = torch.nn.Linear(2, 3, bias=False)
        self.head.weight = self.embedding.weight


def check_a_model_with_tied_weights_travels_with_all_its_names() -> None:
    model = Tied()
    torch.nn.init.ones_(model.head.weight)
    for record in (record_of(model), record_of(model.state_dict())):
        assert list(record) == ["embedding.weight", "head.weight"]
        with StreamlinkGrid(InMemory(adding)) as grid:
            result = FedAvg(**NO_EVALUATE).start(grid, record, 2)
        ends = result.arrays.to_numpy_ndarrays()
        assert same(ends, [np.full((3, 2), 4, np.float32)] * 2)


def check_flowers_own_strategy_averages_lazy_arrays() -> None:
    with StreamlinkGrid(InMemory(adding)) as grid:
        strategy = FedAvg(fraction_evaluate=0.0)
        result = strategy.start(grid, ArrayRecord([np.zeros(4, np.float32)]), 2)
    assert result.arrays["0"].numpy().tolist() == [3.0] * 4


def main() -> int:
    failed = TaskIdentity.run_id = TaskIdentity.node_id = TaskIdentity.task_id = 0
    found = globals() | vars(flower_endings)
    for name, check in [(n, c) for n, c in found.items() if n.startswith("check_")]:
        try:
            check()
            print("holds", name)
        except Exception:
            failed += 1
            print("FAILS", name)
            traceback.print_exc()
    return failed


if __name__ == "__main__":
    raise SystemExit(main())

"""The client's work: ranges in, ranges out, and what is told when it cannot be done."""

from __future__ import annotations

import itertools
import threading
import traceback
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamlink.errors import ModelError, StreamAborted
from streamlink.executors.executor import Task, TaskOutcome
from streamlink.executors.streaming import RangeMapper, StreamingExecutor
from streamlink.link import UpdateKind
from streamlink.link.assignment import Assignment
from streamlink.link.peer_request import PeerRequest
from streamlink.model.computed import MappedSource, RangeFunction, map_model
from streamlink.model.difference import DifferenceSource
from streamlink.model.interfaces import ModelSource
from streamlink.model.part import part_of, part_source
from streamlink.model.spec import ModelSpec, TensorSpec
from streamlink.protocol.frames import Attempt
from streamlink.stores.memory import ArrayModel, MemoryStore
from tests.support.models import content, model_specs, pattern_model
from tests.support.peers import (
    ODD,
    WAIT,
    Array,
    Federation,
    Site,
    config,
    exchange_models,
    initial,
    trained,
)


def noting(tensor: TensorSpec, start: int, values: Array) -> Array:
    """Return values that tell which tensor and element the function was asked for."""
    steps = np.arange(start, start + values.size) + len(tensor.name)
    return values ^ (steps % 2 == 0) if tensor.dtype == "BOOL" else values + steps % 5


@given(
    model_specs(), st.lists(st.integers(0, 400)), st.integers(0, 3), st.sampled_from((1, 4, 256))
)
def test_ranges_cut_anywhere_map_as_the_whole_does(
    spec: ModelSpec, cuts: list[int], extra: int, block: int
) -> None:
    def function(tensor: TensorSpec, start: int, values: Array) -> Array:
        assert start % block == 0
        assert values.size % block == 0 or start + values.size == tensor.count
        with np.errstate(all="ignore"):  # any bytes are elements here, signalling NaNs too
            return noting(tensor, start, values).astype(values.dtype)

    data = content(pattern_model(spec))
    ranges, answer = RangeMapper(spec, function, block=block), bytearray()
    edges = sorted({0, spec.nbytes, *(cut for cut in cuts if cut < spec.nbytes)})
    for start, stop in itertools.pairwise(edges):
        middle = start + (stop - start) // (extra + 1)
        payload = (memoryview(data)[start:middle], memoryview(data)[middle:stop])
        results = ranges.apply(start, tuple(view for view in payload if view.nbytes))
        answer += b"".join(results)
    assert answer == content(MappedSource(pattern_model(spec), function, block=block))


def asked(
    federation: Federation,
    work: RangeFunction | StreamingExecutor,
    part: Sequence[str] = (),
) -> tuple[PeerRequest, Site]:
    executor = work if isinstance(work, StreamingExecutor) else StreamingExecutor(work, weight=2.5)
    site = federation.client("site-1", executor)
    peer = federation.peer("site-1")
    return peer.request("train", ODD, attempt=Attempt("job", 3, 1), part=part), site


def answer(federation: Federation, function: RangeFunction) -> dict[str, Array]:
    """Return what a client with ``function`` makes of the model ``initial()``."""
    store = MemoryStore()
    exchange, _ = asked(federation, function)
    exchange_models(exchange, ArrayModel(initial()), store)
    assert exchange.incoming.update.weight == 2.5
    return store.arrays


def test_the_answer_is_the_functions(federation: Federation) -> None:
    found, before = answer(federation, trained(2)), initial()
    for tensor in ODD.tensors:
        expected = trained(2)(tensor, 0, before[tensor.name].reshape(-1))
        assert found[tensor.name].tobytes() == expected.tobytes()


PARTS: list[tuple[str, ...]] = [
    (),
    ("f64",),
    ("c64",),
    ("*16", "i*", "scalar"),
    ("none",),
    ("flag", "u8"),
]


@pytest.mark.product
@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("returns", ["values", "differences"])
def test_the_part_that_is_asked_for_is_computed_and_sent(
    federation: Federation, returns: Any, part: tuple[str, ...]
) -> None:
    computed: set[str] = set()

    def function(tensor: TensorSpec, start: int, values: Array) -> Array:
        computed.add(tensor.name)
        return trained(2)(tensor, start, values)

    exchange, _ = asked(federation, StreamingExecutor(function, returns=returns), part)
    store, source = MemoryStore(), ArrayModel(initial())
    exchange_models(exchange, source, store)
    expected: ModelSource = map_model(source, trained(2))
    if returns == "differences":
        expected = DifferenceSource(expected, source)
        assert exchange.incoming.update.kind is UpdateKind.DIFFERENCES
    wanted = part_of(ODD, part)
    assert exchange.incoming.spec == wanted
    assert content(store.open()) == content(part_source(expected, wanted))
    assert computed == {tensor.name for tensor in wanted.tensors if tensor.nbytes}


def test_a_part_there_is_not_is_refused(federation: Federation) -> None:
    exchange, _ = asked(federation, trained(2), ["f64", "lora*"])
    with pytest.raises(StreamAborted, match=r"matches the pattern 'lora\*'"):
        exchange_models(exchange, ArrayModel(initial()), MemoryStore())


@pytest.mark.slow
@pytest.mark.parametrize("part", [("f64",), ("c64",)], ids=["first", "last"])
def test_the_server_hears_that_the_rest_of_the_model_still_comes(part: tuple[str, ...]) -> None:
    # Nothing of the update moves while the other tensors come; that takes longer than the clocks.
    settings = config(communication_timeout=4.0, open_timeout=4.0)

    class Slow(ArrayModel):
        def read(self, offset: int, length: int) -> tuple[memoryview, ...]:
            threading.Event().wait(1.0)  # a slow link
            return super().read(offset, length)

    with Federation(settings) as federation:
        exchange, _ = asked(federation, trained(2), part)
        exchange_models(exchange, Slow(initial()), MemoryStore())


def test_the_weight_may_depend_on_the_task_and_facts_go_with_the_reply(
    federation: Federation,
) -> None:
    executor = StreamingExecutor(
        trained(2),
        weight=lambda task: np.float32(task.round + 0.5),  # type: ignore[return-value,arg-type]
        metrics=lambda: {"loss": np.float16(0.25)},  # type: ignore[dict-item]
        metadata=lambda: {"site": "here"},
    )
    exchange, _ = asked(federation, executor)
    exchange_models(exchange, ArrayModel(initial()), MemoryStore())
    assert exchange.incoming.update.weight == 3.5
    assert exchange.incoming.metrics == {"loss": 0.25}
    reply = exchange.wait_reply(WAIT)
    assert reply is not None
    assert reply.metadata["site"] == "here"


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"weight": -1.0}, "weight -1.0; a weight is 0"),
        ({"weight": lambda task: float("nan")}, "weight nan"),
        ({"metrics": lambda: {"loss": float("inf")}}, "metric 'loss' is inf"),
        ({"metadata": lambda: {"epoch": 3}}, "metadata 'epoch' is 3, of type int"),
    ],
)
def test_numbers_that_cannot_be_averaged_are_refused(
    federation: Federation, settings: dict[str, Any], why: str
) -> None:
    exchange, _ = asked(federation, StreamingExecutor(trained(2), **settings))
    with pytest.raises(StreamAborted, match=why):
        exchange_models(exchange, ArrayModel(initial()), MemoryStore())


def test_another_kind_of_update_is_not_known() -> None:
    with pytest.raises(ValueError, match="returns must be"):
        StreamingExecutor(trained(2), returns="gradients")  # type: ignore[arg-type]


def test_a_result_that_is_not_contiguous_is_sent_all_the_same(federation: Federation) -> None:
    def reversed_twice(tensor: TensorSpec, start: int, values: Array) -> Array:
        return np.stack([values, values], axis=1)[:, 0]

    found = answer(federation, reversed_twice)
    assert all((found[name] == array).all() for name, array in initial().items())


def test_values_are_read_only(federation: Federation) -> None:
    flags: list[bool] = []

    def look(tensor: TensorSpec, start: int, values: Array) -> Array:
        flags.append(values.flags.writeable)
        return values

    answer(federation, look)
    assert not any(flags)


def test_the_answer_to_the_first_range_leaves_before_the_last_arrives(
    federation: Federation,
) -> None:
    answered = threading.Event()

    class Waiting(ArrayModel):
        """A model whose second half is given only when an answer to the first is here."""

        def read(self, offset: int, length: int) -> tuple[memoryview, ...]:
            assert offset < ODD.nbytes // 2 or answered.wait(WAIT)
            return super().read(offset, length)

    class Watched(MemoryStore):
        def begin(self, spec: ModelSpec) -> object:  # type: ignore[override]
            sink = super().begin(spec)
            # In either way, whichever carrier brings it.
            for way in ("write", "filled"):
                setattr(sink, way, partial(self.noted, getattr(sink, way)))
            return sink

        def noted(self, take: Callable[..., None], *arguments: Any) -> None:
            answered.set()
            take(*arguments)

    exchange, _ = asked(federation, trained(0))
    exchange_models(exchange, Waiting(initial()), Watched())


@pytest.mark.parametrize(
    ("function", "why"),
    [
        (lambda tensor, start, values: values[1:], "returned float64 of shape"),
        (lambda tensor, start, values: values.astype("f2"), "returned float16 of shape"),
        (lambda tensor, start, values: 1 / 0, "division by zero"),
    ],
)
def test_a_function_that_fails_is_told_to_the_server(
    federation: Federation, function: RangeFunction, why: str
) -> None:
    exchange, _ = asked(federation, function)
    with pytest.raises(StreamAborted, match=why) as told:
        exchange_models(exchange, ArrayModel(initial()), MemoryStore())
    assert told.value.by_peer
    reply = exchange.wait_reply(WAIT)
    assert reply is not None
    assert why in reply.error
    assert federation.peer("site-1").is_here  # the next task may go well


def test_a_bug_in_the_task_comes_with_its_traceback(federation: Federation) -> None:
    def buggy(tensor: TensorSpec, start: int, values: Array) -> Array:
        raise KeyError("learning_rate")

    exchange, _ = asked(federation, buggy)
    with pytest.raises(StreamAborted):
        exchange_models(exchange, ArrayModel(initial()), MemoryStore())
    reply = exchange.wait_reply(WAIT)
    assert reply is not None
    assert reply.error == "KeyError: 'learning_rate'"
    first, *frames = reply.traceback.splitlines()
    assert first == "Traceback (most recent call last):"
    assert frames[0].endswith(", in buggy")  # none of our frames stands above it
    assert not any("streamlink/rounds" in line for line in frames)


def test_a_bug_in_the_task_is_logged_with_what_it_says_and_the_users_lines_only(
    federation: Federation, caplog: pytest.LogCaptureFixture
) -> None:
    def buggy(tensor: TensorSpec, start: int, values: Array) -> Array:
        raise KeyError("learning_rate")

    exchange, _ = asked(federation, buggy)
    with pytest.raises(StreamAborted):
        exchange_models(exchange, ArrayModel(initial()), MemoryStore())
    exchange.wait_reply(WAIT)
    (record,) = [each for each in caplog.records if each.name == "streamlink.executor"]
    assert record.getMessage().endswith("the work of site-1 raised KeyError: 'learning_rate'")
    assert record.exc_info is not None
    frames = traceback.extract_tb(record.exc_info[2])
    assert [each.name for each in frames] == ["buggy"]


def test_an_executor_that_opens_nothing_is_answered_for(federation: Federation) -> None:
    class Refusing:
        def execute(self, task: Task, assignment: Assignment) -> TaskOutcome:
            raise ModelError(f"{task.name} of round {task.round} is not for this site")

    federation.client("site-1", Refusing())
    exchange = federation.peer("site-1").request("train", ODD, attempt=Attempt("job", 3, 1))
    reply = exchange.wait_reply(WAIT)
    assert reply is not None
    assert reply.error == "train of round 3 is not for this site"
    assert "not for this site" in str(exchange.failure)


def test_the_streams_of_the_running_task_can_be_watched(federation: Federation) -> None:
    seen: list[int] = []

    def look(tensor: TensorSpec, start: int, values: Array) -> Array:
        assert site.watched is not None
        seen.append(site.watched[0].stats.received_bytes)
        return values

    site = StreamingExecutor(look)
    federation.client("site-1", site)
    exchange = federation.peer("site-1").request("train", ODD, attempt=Attempt("job", 0, 1))
    exchange_models(exchange, ArrayModel(initial()), MemoryStore())
    assert seen == sorted(seen)
    assert site.watched is None

"""What work may say beside the model: numbers of any kind, and small facts."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import numpy as np
import pytest

from streamlink.errors import ModelError
from streamlink.executors.executor import TaskResult


@pytest.mark.parametrize(
    "value", [0.5, np.float32(0.5), np.float16(0.5), np.array(0.5), Decimal("0.5")]
)
def test_any_kind_of_number_becomes_a_float(value: Any) -> None:
    result = TaskResult(value, {"loss": value})
    assert (result.weight, result.metrics) == (0.5, {"loss": 0.5})
    assert type(result.weight) is type(result.metrics["loss"]) is float


@pytest.mark.parametrize("value", [True, 1, np.True_, np.int64(1)])
def test_booleans_and_integers_are_numbers(value: Any) -> None:
    result = TaskResult(value, {"is_better": value})
    assert (result.weight, result.metrics) == (1.0, {"is_better": 1.0})
    assert type(result.weight) is type(result.metrics["is_better"]) is float


@pytest.mark.parametrize("requires_grad", [False, True])
def test_a_tensor_of_one_element_is_a_number_too(requires_grad: bool) -> None:
    torch = pytest.importorskip("torch")
    loss = torch.tensor(0.5, requires_grad=requires_grad)
    result = TaskResult(loss, {"loss": loss * 2})
    assert (result.weight, result.metrics) == (0.5, {"loss": 1.0})


def test_what_is_said_is_kept_as_it_was_said() -> None:
    metrics, metadata = {"loss": 0.5}, {"site": "here"}
    result = TaskResult(1.0, metrics, metadata)
    metrics["loss"], metadata["site"] = float("nan"), "elsewhere"
    assert (result.metrics, result.metadata) == ({"loss": 0.5}, {"site": "here"})


NO_NUMBERS = [float("nan"), -np.inf, "0.5", b"1", None, [0.5], np.arange(3), 10**400, 1j]


@pytest.mark.parametrize("value", NO_NUMBERS)
def test_what_is_no_finite_number_is_refused(value: Any) -> None:
    with pytest.raises(ModelError, match=r"metric 'loss' is .*; a metric is a finite number"):
        TaskResult(metrics={"loss": value})
    with pytest.raises(ModelError, match="0, for an update that must not count, or between"):
        TaskResult(value)


def test_tensors_that_are_no_number_are_refused() -> None:
    torch = pytest.importorskip("torch")
    for value in (torch.arange(3), torch.tensor(1j), torch.empty((), device="meta")):
        with pytest.raises(ModelError, match="metric 'loss' is "):
            TaskResult(metrics={"loss": value})


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ({"metadata": {"epoch": 3}}, "metadata 'epoch' is 3, of type int; it must be a str$"),
        ({"metadata": {"sites": ["a"]}}, r"metadata 'sites' is \['a'\], of type list"),
        ({"metadata": {3: "three"}}, "the name of a fact in metadata is 3, of type int"),
        ({"metadata": {"raw": b"x"}}, "metadata 'raw' is b'x', of type bytes"),
        ({"metadata": {"half": "\ud800"}}, "metadata 'half' is .* which is not valid text"),
        ({"metadata": None}, "metadata is a NoneType; it must be a dict"),
        ({"metrics": [("loss", 0.5)]}, "metrics is a list; it must be a dict"),
        ({"norm": -1.0}, "norm -1.0; a norm is a finite number, 0 or more, or None"),
        ({"norm": float("nan")}, "norm nan; a norm is a finite number"),
        ({"metrics": {3: 0.5}}, "the name of a metric is 3, of type int"),
        ({"metadata": {"raw": list(range(999))}}, r"metadata 'raw' is \[0, 1.{95}\.\.\., of type"),
    ],
)
def test_what_cannot_travel_is_refused_by_name(said: dict[str, Any], why: str) -> None:
    with pytest.raises(ModelError, match=why):
        TaskResult(**said)


def test_there_is_a_bound_to_metrics_and_facts() -> None:
    metrics = {f"loss.{number}": 0.5 for number in range(1024)}
    facts = {f"{number:03}": "x" * 29 for number in range(256)}
    result = TaskResult(metrics=metrics, metadata=facts)
    assert (len(result.metrics), len(result.metadata)) == (1024, 256)
    with pytest.raises(ModelError, match="metrics has 1025 entries; it may have at most 1024"):
        TaskResult(metrics={**metrics, "one": 1.0})
    with pytest.raises(ModelError, match="metadata has 257 entries; it may have at most 256"):
        TaskResult(metadata={**facts, "one": ""})
    with pytest.raises(ModelError, match="metadata is longer than 8192 bytes with 'more'"):
        TaskResult(metadata={"much": "é" * 4090, "more": "1234567"})

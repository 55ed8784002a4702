"""What a server orders: as JSON in a fact, checked again by the client that gets it."""

from __future__ import annotations

import json

import pytest

from streamlink.training.order import ORDER, order_facts, order_of
from streamlink.training.settings import (
    ClientOrder,
    ModelSettings,
    TrainerSettings,
    TrainingError,
)

FULL = ClientOrder(
    trainer=TrainerSettings(optim="Adam", optim_args={"lr": 0.01, "betas": [0.9, 0.99]}),
    model=ModelSettings(name="cnn", kwargs={"num_pixel": 32}),
    optimize_memory=False,
)


@pytest.mark.parametrize("order", [ClientOrder(), FULL])
def test_an_order_arrives_as_it_was_given(order: ClientOrder) -> None:
    assert order_of(order_facts(order)) == order


def test_a_task_without_an_order_is_refused_with_the_command_that_sends_one() -> None:
    with pytest.raises(TrainingError, match="start it with: streamlink train server"):
        order_of({})


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "is no JSON"),
        ("[" * 9000, "is no JSON"),
        ("[]", "cannot be followed here"),
        (json.dumps({"code": "x"}), "client_configs.code: Extra inputs"),
        (json.dumps({"trainer": {"mode": "x"}}), "client_configs.trainer.mode: Input should be"),
        (json.dumps({"model": {"name": "x" * 20_000}}), "more than 16384 bytes"),
    ],
)
def test_an_order_that_cannot_be_followed_is_refused_by_its_key(text: str, words: str) -> None:
    with pytest.raises(TrainingError) as caught:
        order_of({ORDER: text})
    assert words in str(caught.value)


def test_an_order_that_is_too_long_is_refused_at_the_server() -> None:
    order = ClientOrder(model=ModelSettings(kwargs={"x": "y" * 20_000}))
    with pytest.raises(TrainingError, match="shorten model_kwargs"):
        order_facts(order)

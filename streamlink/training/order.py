"""What a server orders its clients to do, as JSON in the facts of each task."""

from __future__ import annotations

import json
from collections.abc import Mapping

from pydantic import ValidationError

from streamlink.training.settings import ClientOrder, TrainingError

__all__ = ["ORDER", "SAMPLES", "order_facts", "order_of"]

ORDER = "training"
"""The fact of a task that has the server's ``ClientOrder`` as JSON."""

SAMPLES = "samples"
"""The fact of a reply that has the number of samples."""

_MAX_ORDER_BYTES = 16 * 1024


def order_facts(order: ClientOrder) -> Mapping[str, str]:
    """Return the facts with which a server's tasks carry ``order``.

    Raises:
        TrainingError: it cannot be written as JSON, or is too long for facts.
    """
    try:
        text = order.model_dump_json(exclude_defaults=True)
    except ValueError as error:
        raise TrainingError(f"client_configs cannot be sent to clients: {error}") from error
    if len(text.encode()) > _MAX_ORDER_BYTES:
        raise TrainingError(
            f"client_configs have {len(text)} characters as JSON, and at most {_MAX_ORDER_BYTES} "
            "travel to clients; shorten model_kwargs, optim_args or loss_fn_kwargs"
        )
    return {ORDER: text}


def order_of(facts: Mapping[str, str]) -> ClientOrder:
    """Return the order in the facts of a task.

    Raises:
        TrainingError: there is none, or it cannot be followed here.
    """
    text = facts.get(ORDER, "")
    if not text:
        raise TrainingError(
            "the server has sent no order for training; start it with: streamlink train server"
        )
    if len(text.encode()) > _MAX_ORDER_BYTES:
        raise TrainingError(f"the server's order has more than {_MAX_ORDER_BYTES} bytes")
    try:
        return ClientOrder.model_validate(json.loads(text))
    except ValidationError as error:
        faults = "; ".join(
            f"client_configs.{'.'.join(map(str, each['loc']))}: {each['msg']}"
            for each in error.errors(include_url=False, include_input=False)
        )
        raise TrainingError(f"the server's order cannot be followed here: {faults}") from error
    except (ValueError, RecursionError) as error:
        raise TrainingError(f"the server's order is no JSON: {error}") from error

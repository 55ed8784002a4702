"""What an executor does with a model before it sends it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any, cast

import numpy as np

from streamlink.executors.task_streams import with_norm
from streamlink.link import Update, UpdateKind
from streamlink.model.interfaces import Payload
from streamlink.model.part import part_of, part_source
from streamlink.stores.memory import ArrayModel


def test_the_norm_is_of_a_model_that_is_awaited_before_it_is_read() -> None:
    happened = []

    class Awaited(ArrayModel):
        def watch(self) -> Callable[[], None]:
            happened.append("awaited")
            return lambda: happened.append("checked")

        def read(self, offset: int, length: int) -> Payload:
            happened.append("read")
            return super().read(offset, length)

    class Quiet:
        def alive(self) -> AbstractContextManager[None]:
            return nullcontext()

        def check(self) -> None:
            pass

    model = Awaited({"a": np.ones(4, np.float32), "b": np.full(4, 2, np.float32)})
    source = part_source(model, part_of(model.spec, ["b"]))
    update = with_norm(Update(1.0, UpdateKind.DIFFERENCES), source, source, cast("Any", Quiet()))
    assert update.norm == 4.0
    assert happened == ["awaited", "read", "checked"]

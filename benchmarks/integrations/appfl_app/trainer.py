"""The trainer of a case: APPFL's own one for tests of communication, with a closed form."""

from __future__ import annotations

import os

from appfl.algorithm.trainer import LLMDummyTrainer

from benchmarks.integrations import inside
from benchmarks.integrations.cases import NOT_FINITE


class ClosedFormTrainer(LLMDummyTrainer):
    """Adds the client's number to each element."""

    def train(self) -> None:
        """Train in place."""
        model, number = self.model.state_dict(), int(os.environ["CASE_CLIENT"])
        inside.train(model, number)
        if inside.facts()["failure"] == NOT_FINITE and number == 2:
            next(iter(model.values()))[:1] = float("nan")

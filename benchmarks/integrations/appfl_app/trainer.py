"""The trainer of a case: APPFL's own one for tests of communication, with a closed form."""

from __future__ import annotations

import os

from appfl.algorithm.trainer import LLMDummyTrainer

from benchmarks.integrations import inside


class ClosedFormTrainer(LLMDummyTrainer):
    """Adds the client's number to each element."""

    def train(self) -> None:
        """Train in place."""
        inside.train(self.model.state_dict(), int(os.environ["CASE_CLIENT"]))

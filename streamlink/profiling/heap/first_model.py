"""Writes the model that an experiment begins with: ``python -m …first_model EXPERIMENT FOLDER``."""

from __future__ import annotations

import sys
from pathlib import Path

import streamlink as sl
from streamlink.errors import StreamlinkError
from streamlink.profiling.heap.experiment import Experiment
from streamlink.training.code import CodeFolder
from streamlink.training.initial import write_initial
from streamlink.training.settings import ModelSettings

__all__: list[str] = []


def main() -> int:
    """Write it, and print its size (bytes)."""
    experiment = Experiment.model_validate_json(sys.argv[1])
    settings = experiment.server.order.model or experiment.client.model or ModelSettings()
    store = sl.open_store(Path(sys.argv[2]))
    code = CodeFolder(experiment.code)
    try:
        size = write_initial(settings, store, seed=experiment.seed, code=code)
    except (StreamlinkError, OSError) as error:
        print(error, file=sys.stderr)
        return 1
    print(size)
    return 0


if __name__ == "__main__":
    sys.exit(main())

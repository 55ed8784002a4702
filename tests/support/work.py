"""What the clients of a supervised job do; the same for the same range, whenever it is asked."""

import numpy as np

import streamlink as sl


def shift(tensor: sl.TensorSpec, start: int, values: "np.ndarray") -> "np.ndarray":
    """A pure function of a range."""
    return values + np.float32(0.25)


def whole(name: str) -> sl.WholeExecutor:
    """The model in memory, changed in place."""

    def train(model: "dict[str, np.ndarray]", task: sl.Task) -> sl.TaskResult:
        for array in model.values():
            array += np.float32(0.5)
        return sl.TaskResult(weight=2.0)

    return sl.WholeExecutor(train)

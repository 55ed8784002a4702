"""Logistic regression with NumPy: the model, the data of a site, its training, its evaluation.

``python work.py`` makes the first model; README.md has the commands that train it.
"""

import sys

import numpy as np
import numpy.typing as npt

import streamlink

Array = npt.NDArray[np.float32]

FEATURES = 8
STEPS = 10  # of training, in each round


def model() -> dict[str, Array]:
    """Return the model before the first round: name → array."""
    return {"weights": np.zeros(FEATURES, np.float32), "bias": np.zeros(1, np.float32)}


def data(name: str) -> tuple[Array, Array]:
    """Return the inputs and the answers (0 or 1) of a site. Yours go here."""
    random = np.random.default_rng(sum(name.encode()))
    inputs = random.standard_normal((500, FEATURES), np.float32)
    return inputs, (inputs[:, 0] > inputs[:, 1]).astype(np.float32)


def site(name: str) -> streamlink.WholeExecutor:
    """Return what the client of this name does; it is called once, when the client starts."""
    inputs, answers = data(name)
    seen, unseen = slice(0, 400), slice(400, None)

    def guesses(arrays: dict[str, Array], which: slice) -> Array:
        found: Array = 1 / (1 + np.exp(-(inputs[which] @ arrays["weights"] + arrays["bias"])))
        return found

    def train(arrays: dict[str, Array], task: streamlink.Task) -> streamlink.TaskResult:
        rate = np.float32(task.metadata["lr"])
        for _ in range(STEPS):
            errors = guesses(arrays, seen) - answers[seen]
            # In place: what the arrays hold in the end is sent back.
            arrays["weights"] -= rate * (errors @ inputs[seen]) / len(errors)
            arrays["bias"] -= rate * errors.mean()
        return streamlink.TaskResult(weight=len(errors), metrics={"error": np.abs(errors).mean()})

    def evaluate(arrays: dict[str, Array], task: streamlink.Task) -> streamlink.TaskResult:
        is_right = (guesses(arrays, unseen) > 0.5) == (answers[unseen] > 0.5)
        return streamlink.TaskResult(weight=len(is_right), metrics={"accuracy": is_right.mean()})

    return streamlink.WholeExecutor(train, model(), evaluate=evaluate)


if __name__ == "__main__":
    streamlink.copy_model(model(), sys.argv[1] if len(sys.argv) > 1 else "model")

"""The model: ones, so that every value after a round is known."""

import numpy as np
import numpy.typing as npt


def get_dummy_model() -> list[npt.NDArray[np.float32]]:
    return [np.ones((256, 256), np.float32), np.ones(10, np.float32)]

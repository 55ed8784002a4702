"""What a name of the configuration stands for: ours, or what a file of the operator defines.

APPFL's files name Python files of its examples. Where the operator's ``--code`` directory has such
a file, that one is used. Where it has none and we offer the same under the same names, ours is.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from pathlib import PurePosixPath
from typing import Any

from streamlink.training.code import CodeFolder
from streamlink.training.settings import TrainingError

__all__ = ["OFFERED_FILES", "called", "resolve"]

logger = logging.getLogger("streamlink.training")

OFFERED_FILES: Mapping[tuple[str, str], str] = {
    ("resnet.py", "ResNet18"): "resnet18",
    ("cnn.py", "CNN"): "cnn",
    ("hf_llm.py", "load_hf_llm"): "llm",
    ("celoss.py", "CELoss"): "CELoss",
    ("acc.py", "accuracy"): "accuracy",
    ("dummy_cifar10_dataset.py", "get_dummy_cifar10"): "dummy_cifar10",
    ("cifar10_dataset.py", "get_cifar10"): "cifar10",
    ("mnist_dataset.py", "get_mnist"): "mnist",
}
"""(file of APPFL's examples, name in it) → our name of the same."""


def resolve(
    name: str, path: str, offered: Mapping[str, Callable[..., Any]], code: CodeFolder, row: str
) -> Callable[..., Any]:
    """Return what ``name`` in ``path`` stands for.

    Args:
        name: of the function or class.
        path: of its file; empty: ours.
        offered: what we have, by name.
        code: the operator's files.
        row: of the configuration, for the error.

    Raises:
        TrainingError: we have nothing of that name, or the file cannot be used.
    """
    if not path:
        if name not in offered:
            raise TrainingError(
                f"{row}: there is no {name!r}; use one of {', '.join(offered)}, or name a Python "
                "file with it (--code DIR)"
            )
        return offered[name]
    ours = OFFERED_FILES.get((PurePosixPath(path).name, name))
    if ours is not None and ours in offered and not code.has(path):
        logger.info("%s: %r of %s is streamlink's own %r", row, name, path, ours)
        return offered[ours]
    return code.load(path, name, row)


def called(function: Callable[..., Any], kwargs: Mapping[str, Any], row: str) -> Any:
    """Return what ``function`` returns; whatever it raises becomes one sentence.

    Raises:
        TrainingError: it raised.
    """
    try:
        return function(**kwargs)
    except TrainingError:
        raise
    except Exception as error:
        name = getattr(function, "__name__", str(function))
        given = ", ".join(f"{key}={value!r:.60}" for key, value in kwargs.items())
        raise TrainingError(
            f"{row}: {name}({given}) raised {type(error).__name__}: {error}; mend its arguments"
        ) from error

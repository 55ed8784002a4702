"""Loads the user's code, named as ``FILE.py:name`` or ``package.module:name``."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

# Here, and not when the user's code asks for the first public name: a ``KeyboardInterrupt`` inside
# an import, such as while a dataclass is made, makes Python end by the signal instead of our code.
import streamlink.public  # noqa: F401
from streamlink.cli.errors import CommandError
from streamlink.executors.executor import Executor
from streamlink.executors.streaming import StreamingExecutor
from streamlink.executors.tracebacks import place_of
from streamlink.rounds.aggregate.validate import WEIGHTS_ALLOWED, is_weight
from streamlink_fl import signals

__all__ = ["maker_of"]


def maker_of(
    task: str | None, executor: str | None, weight: float, evaluate: str | None = None
) -> Callable[[str], Executor]:
    """Import the user's code, and return a function that makes the executor of a client by name.

    That function raises ``CommandError`` if the user's factory fails.

    Args:
        task: names a ``function(tensor, start, values) -> values``.
        executor: names a ``factory(name) -> Executor``. Exactly one of the two is given.
        weight: of the client's updates; with ``task`` only.
        evaluate: names an ``evaluate(arrays, task) -> metrics``; with ``task`` only.

    Raises:
        CommandError: neither or both are given, or the code cannot be used; says why.
    """
    if (task is None) == (executor is None):
        raise CommandError("give either --task FILE.py:function or --executor FILE.py:factory")
    if not is_weight(weight):
        raise CommandError(f"--weight is {weight}; {WEIGHTS_ALLOWED}")
    if task is not None:
        evaluation = _load("--evaluate", evaluate) if evaluate is not None else None
        work = StreamingExecutor(_load("--task", task), weight=weight, evaluate=evaluation)
        return lambda name: work
    assert executor is not None
    # Refused, not ignored: without the weight the mean would be another, and nobody would notice.
    if weight != 1.0:
        raise CommandError("--weight needs --task; an executor returns its own weight")
    if evaluate is not None:
        raise CommandError("--evaluate needs --task; give an executor its own evaluate=...")
    factory, where = _load("--executor", executor), executor
    return lambda name: _made(factory, where, name)


def _made(factory: Callable[..., Any], executor: str, name: str) -> Executor:
    try:
        with signals.Raising():  # the user's code may run for any time and does not check the token
            made = factory(name)
    except Exception as error:
        raise CommandError(f"--executor {executor} raised {_what(error)}") from error
    if not callable(getattr(made, "execute", None)):
        raise CommandError(
            f"--executor {executor} returned {type(made).__name__}, which has no method execute"
        )
    found: Executor = made
    return found


def _load(option: str, where: str) -> Callable[..., Any]:
    module_name, colon, name = where.rpartition(":")
    if not (module_name and colon and name):
        raise CommandError(f"{option} {where!r} is not of the form FILE.py:name or module:name")
    is_file = module_name.endswith(".py") or "/" in module_name
    try:
        with signals.Raising():
            module = _from_file(Path(module_name)) if is_file else _by_name(module_name)
    except CommandError:
        raise
    except Exception as error:
        raise CommandError(f"{option}: importing {module_name} raised {_what(error)}") from error
    found = getattr(module, name, None)
    if not callable(found):
        problem = "has no function" if found is None else "has something that is no function called"
        raise CommandError(f"{option}: {module_name} {problem} {name!r}")
    return found  # type: ignore[no-any-return]


def _by_name(name: str) -> ModuleType:
    if "" not in sys.path and str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))  # as `python -m` has it
    return importlib.import_module(name)


def _from_file(path: Path) -> ModuleType:
    if not path.is_file():
        raise CommandError(f"{path}: there is no such file")
    folder = str(path.resolve().parent)
    if folder not in sys.path:
        sys.path.insert(0, folder)  # what stands beside it can be imported, as by `python FILE.py`
    # A name of its own: a task file may be called like a module that is loaded already.
    name = f"streamlink_task_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise CommandError(f"{path}: this is no Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses and others look their module up there
    spec.loader.exec_module(module)
    return module


def _what(error: Exception) -> str:
    place = place_of(error)
    return f"{type(error).__name__}: {error}" + (f" ({place})" if place else "")

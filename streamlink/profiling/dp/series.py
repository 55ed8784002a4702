"""The series: each mode over each length, one experiment after the other, and their report."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from streamlink.profiling.dp.experiment import Experiment, ExperimentError, Mode
from streamlink.profiling.dp.launch import run_experiment
from streamlink.profiling.dp.result import Result, read_result, result_path
from streamlink.profiling.folder import write_json

__all__ = ["Series", "read_series", "run_series"]

Progress = Callable[[Experiment, Mapping[str, Any]], None]


class Series:
    """The results of one folder, and what in it could not be read."""

    def __init__(self, results: Sequence[Result], damaged: Sequence[str]) -> None:
        order = list(Mode)
        self.results = sorted(
            results, key=lambda each: (each.experiment.seq_length, order.index(each.mode))
        )
        self.damaged = tuple(damaged)
        """A sentence for each damaged file."""

    @property
    def measured(self) -> list[Result]:
        """Those with figures."""
        return [each for each in self.results if each.steps is not None]

    @property
    def failed(self) -> list[Result]:
        """Those without."""
        return [each for each in self.results if each.failure is not None]

    def of(self, mode: str, seq_length: int) -> Result | None:
        """Return the result with figures of one mode and length, if there is one."""
        for each in self.measured:
            if each.mode.value == mode and each.experiment.seq_length == seq_length:
                return each
        return None


def run_series(
    folder: Path,
    experiments: Sequence[Experiment],
    *,
    token: str | None = None,
    timeout_seconds: float = 3600.0,
    ignores_forecast: bool = False,
    commit: str = "",
    progress: Progress | None = None,
) -> None:
    """Run all experiments and write the result of each into ``folder`` as soon as it is known.

    One that fails does not stop the others.

    Raises:
        FileExistsError: a result is there already; nothing is overwritten.
    """
    for experiment in experiments:
        if result_path(folder, experiment).exists():
            raise FileExistsError(
                f"{result_path(folder, experiment)} exists already, and is not overwritten"
            )
    for experiment in experiments:
        result = run_experiment(
            experiment,
            token=token,
            timeout_seconds=timeout_seconds,
            ignores_forecast=ignores_forecast,
            progress=None if progress is None else partial(progress, experiment),
        )
        result = result.model_copy(update={"commit": commit})
        write_json(result_path(folder, experiment), result.facts())
        if progress is not None:
            progress(experiment, {"event": "over", "result": result})


def read_series(folder: Path) -> Series:
    """Return the results in ``folder``, whether all of them are there or not.

    Raises:
        ExperimentError: it is no folder, or it has no file of a result.
    """
    paths = sorted(folder.glob("*_result.json"))
    if not paths:
        raise ExperimentError(
            f"{folder} has no results (*_result.json); name the folder run_... of a series"
        )
    results, damaged = [], []
    for path in paths:
        try:
            results.append(read_result(path))
        except ExperimentError as error:
            damaged.append(str(error))
    return Series(results, damaged)

"""``streamlink profile EXPERIMENT``: programs that measure, and write a report."""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any

import typer

from streamlink.cli.command import Common, a_job, command
from streamlink.cli.errors import CommandError, JobFailed
from streamlink.cli.profile_analyze import analyze, forecast
from streamlink.cli.profile_heap import check, experiments
from streamlink.profiling.dp.experiment import SEQUENCE_LENGTHS, Experiment, Mode
from streamlink.profiling.dp.forecast import forecast as dp_forecast
from streamlink.profiling.dp.result import Result, result_path
from streamlink.profiling.dp.series import Series, read_series, run_series
from streamlink.profiling.dp.shapes import SHAPES
from streamlink.profiling.dp.summary import summary
from streamlink.profiling.folder import new_run_folder, write_json
from streamlink.profiling.origin import commit
from streamlink_fl import signals

__all__ = ["profile"]

profile = typer.Typer(
    name="profile",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    help="Measure memory and time in an experiment, and write a report.",
)
_NEEDED = ("torch", "opacus", "transformers", "matplotlib")


@profile.callback()
def _all() -> None:
    pass  # without it typer makes the only experiment the command itself


for _each in (*experiments.values(), check, analyze, forecast):
    profile.command()(_each)


@profile.command(name="dp")
@command()
def dp(
    mode: Annotated[
        str | None,
        typer.Option(help=f"{', '.join(Mode)}; without it all, one after the other."),
    ] = None,
    seq_length: Annotated[
        str, typer.Option(metavar="N[,N...]", help="Tokens of each sample; several: a series.")
    ] = ",".join(map(str, SEQUENCE_LENGTHS)),
    batch_size: Annotated[int, typer.Option(metavar="N", help="Samples of each rank.")] = 2,
    num_iter: Annotated[int, typer.Option(metavar="N", help="Steps that are measured.")] = 3,
    warmup_iter: Annotated[int, typer.Option(metavar="N", help="Steps before them.")] = 1,
    output: Annotated[
        Path,
        typer.Option(
            metavar="PATH",
            help="A folder, in which each run makes one of its own; of a single experiment also a "
            "file NAME.json, which must not exist.",
        ),
    ] = Path("results"),
    model_name: Annotated[
        str, typer.Option(help=f"{', '.join(SHAPES)} (random weights), a folder, or a Hub's name.")
    ] = "tiny",
    token: Annotated[
        str,
        typer.Option(
            help="Opens a gated model. HF_TOKEN does the same, and no list of processes shows it."
        ),
    ] = "",
    world_size: Annotated[int, typer.Option(metavar="N", help="Ranks to shard over.")] = 1,
    device: Annotated[str, typer.Option(help="cpu, or cuda.")] = "cpu",
    sigma: Annotated[float, typer.Option(help="Noise, in units of the bound.")] = 1.0,
    max_grad_norm: Annotated[float, typer.Option(help="Bound of a sample's gradient.")] = 1.0,
    timeout: Annotated[float, typer.Option(help="Seconds for each experiment.")] = 3600.0,
    ignore_forecast: Annotated[
        bool, typer.Option("--ignore-forecast", help="Start even if memory may not be enough.")
    ] = False,
    report: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Only write the report of these results once more."),
    ] = None,
    *,
    common: Common,
) -> None:
    """Compare private training (ghost_fsdp, flash_fsdp) with training without privacy (no_dp).

    Each experiment runs in processes of its own; one that fails becomes a result, and the others
    go on. A folder of results has a JSON file for each, and a report with pictures.
    """
    _require_packages()
    if report is not None:
        with a_job():
            _report(read_series(report), report)
        return
    lengths = _lengths(seq_length)
    facts = {
        "batch_size": batch_size,
        "num_iter": num_iter,
        "warmup_iter": warmup_iter,
        "model_name": model_name,
        "world_size": world_size,
        "device": device,
        "sigma": sigma,
        "max_grad_norm": max_grad_norm,
    }
    experiments = [
        Experiment.model_validate({**facts, "mode": each, "seq_length": length})
        for length in lengths
        for each in _modes(mode)
    ]
    options = {
        "token": token or os.environ.get("HF_TOKEN") or None,
        "timeout_seconds": timeout,
        "ignores_forecast": ignore_forecast,
    }
    if output.suffix == ".json":
        _single(experiments, output, options)
    else:
        _series(experiments, output, options)


def _single(experiments: list[Experiment], output: Path, options: Mapping[str, Any]) -> None:
    if len(experiments) != 1:
        raise CommandError(
            f"--output {output} is one file, and these are {len(experiments)} experiments: name "
            "one with --mode and one --seq-length, or name a folder"
        )
    if output.exists():
        raise CommandError(f"{output} is there already, and nothing is overwritten")
    from streamlink.profiling.dp.launch import run_experiment

    with signals.Raising():  # the ranks end with this process
        result = run_experiment(experiments[0], **options, progress=partial(_show, experiments[0]))
    _show(experiments[0], {"event": "over", "result": result})
    result = result.model_copy(update={"commit": commit()})
    write_json(output, result.facts())
    typer.echo(f"result: {output}")
    if result.failure is not None:
        raise JobFailed(f"{experiments[0].name}: {result.failure.text}")


def _series(experiments: list[Experiment], output: Path, options: Mapping[str, Any]) -> None:
    _show_forecasts(experiments)
    with a_job():
        folder = new_run_folder(output)
        typer.echo(f"results: {folder}")
        with signals.Raising():  # else a signal would end one experiment, and the next would begin
            run_series(folder, experiments, **options, commit=commit(), progress=_show)
        series = read_series(folder)
        _report(series, folder)
    if not series.measured:
        raise JobFailed("no experiment has figures; see the reasons above")


def _report(series: Series, folder: Path) -> None:
    from streamlink.profiling.dp.report import write_report

    page = write_report(series, folder / "visualizations")
    typer.echo(f"\n{summary(series)}\nreport: {page}")


def _show(experiment: Experiment, event: Mapping[str, Any]) -> None:
    match event["event"]:
        case "step":
            number = event["number"] + 1
            word = f"warm-up {number}" if number <= experiment.warmup_iter else f"step {number}"
            of = experiment.warmup_iter + experiment.num_iter
            typer.echo(
                f"{experiment.name}: {word} of {of}, {event['seconds']:.2f} s, "
                f"{event['peak_bytes'] / 1e6:.1f} MB",
                err=True,
            )
        case "over":
            result: Result = event["result"]
            if result.failure is not None:
                typer.echo(f"{experiment.name}: {result.failure.text}", err=True)


def _show_forecasts(experiments: list[Experiment]) -> None:
    for each in experiments:
        if each.model_name in SHAPES:
            total = dp_forecast(each, SHAPES[each.model_name]).total
            name = result_path(Path(), each).name
            typer.echo(f"{name}: about {total / 1e6:.0f} MB for each rank", err=True)


def _modes(mode: str | None) -> list[Mode]:
    if mode is None:
        return list(Mode)
    if mode not in list(Mode):
        raise CommandError(f"--mode is one of {', '.join(Mode)}, not {mode!r}")
    return [Mode(mode)]


def _lengths(text: str) -> list[int]:
    parts = [each.strip() for each in text.split(",")]
    if not all(each.isascii() and each.isdigit() for each in parts):
        raise CommandError(f"--seq-length is numbers separated by commas, not {text!r}")
    return sorted({int(each) for each in parts})


def _require_packages() -> None:
    missing = [name for name in _NEEDED if find_spec(name) is None]
    if missing:
        raise CommandError(f"{', '.join(missing)} cannot be found; pip install 'streamlink-fl[dp]'")

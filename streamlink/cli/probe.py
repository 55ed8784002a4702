"""``streamlink probe``: what a line can do, which settings suit it, and how long a round takes."""

from __future__ import annotations

import json
import logging
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from streamlink.allocator import tune_allocator
from streamlink.cli.checks import check_file, check_name, check_visiting
from streamlink.cli.command import Common, a_job, command
from streamlink.cli.errors import CommandError, JobFailed
from streamlink.cli.help import flag_of
from streamlink.cli.paths import ADDRESS, check_address
from streamlink.cli.probe_listen import answer_one
from streamlink.cli.settings import LINK, SERVING, VISITING
from streamlink.config import LinkConfig, parse_size
from streamlink.errors import StreamlinkError, TopicNotServed
from streamlink.link.probe_line import ProbeLine
from streamlink.link.probe_wire import MAX_PROBE_BYTES
from streamlink.logs import escape
from streamlink.model.interfaces import ModelSource
from streamlink.probing.encoded import WEIGHT_DTYPES, costs_of, random_weights
from streamlink.probing.forecast import EncodingCost, Round, forecast
from streamlink.probing.measure import LEAST_BYTES, MOST_SECONDS, measure
from streamlink.probing.measured import Measured, RoundTrips
from streamlink.probing.proposal import propose
from streamlink.probing.speed import Speed
from streamlink.probing.text import (
    as_json,
    as_text,
    as_yaml,
    forecast_text,
    partial_text,
    settings_text,
)
from streamlink.stores import open_model

__all__ = ["probe"]

logger = logging.getLogger("streamlink.command")

_SAMPLE_BYTES = 64 << 20
_LEAST_SECONDS = 0.5

_FOR_ADDRESS = ("one_time", "name", "seconds", "most", "model", "dtype", "base", "output", "report")
_FOR_LISTEN = ("timeout",)
"""Options that only one of the two ends uses. Flags of settings follow the same rule: see
``SERVING`` and ``VISITING``; a setting in a file may be there for another command."""


@command(*dict.fromkeys((*LINK, *SERVING, *VISITING)))
def probe(
    context: typer.Context,
    address: Annotated[
        str | None,
        typer.Argument(metavar=ADDRESS, help="Where a server, serve, receive or probe listens."),
    ] = None,
    listen: Annotated[
        str | None,
        typer.Option(
            metavar=ADDRESS,
            help="Instead of an address: listen there for one probe, print the command for the "
            "other end, with a one-time token, and end after it.",
        ),
    ] = None,
    one_time: Annotated[
        str, typer.Option(metavar="TOKEN", help="The token that probe --listen has printed.")
    ] = "",
    name: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="Name of this end, where a certificate or token proves it; it may be connected "
            "meanwhile [default: host and process].",
        ),
    ] = "",
    seconds: Annotated[
        float,
        typer.Option(
            metavar="SECONDS",
            help=f"About how long each measurement takes, at most {MOST_SECONDS:g}; longer ones "
            "show more of how stable the line is. On a fast line its share of --most is used up "
            "first: by default above about 60 Mbit/s, and at 1 Gbit/s in less than 0.5 s.",
        ),
    ] = 5.0,
    most: Annotated[
        str,
        typer.Option(metavar="SIZE", help="The most bytes of models to move in all, up to 256MiB."),
    ] = "256MiB",
    model: Annotated[
        str,
        typer.Option(
            metavar="SIZE|PATH",
            help="Forecast a round with a model of this size (bytes), such as 128GB, or with this "
            "one, for each executor and encoding [default: no forecast].",
        ),
    ] = "",
    dtype: Annotated[
        str | None,
        typer.Option(
            metavar="DTYPE",
            help=f"With --model SIZE: what its weights are, one of {', '.join(WEIGHT_DTYPES)}. "
            "Encodings are tried on random weights of this dtype [default: F32].",
        ),
    ] = None,
    base: Annotated[
        Path | None,
        typer.Option(
            metavar="PATH",
            help="With --model PATH: an older version of that model. The forecast then has the "
            "encoding delta, too: only the differences travel [default: none].",
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE.yaml",
            help="Write the proposed settings there, for --config of client and other commands.",
        ),
    ] = None,
    report: Annotated[
        Path | None, typer.Option(metavar="FILE.json", help="Write everything to this file.")
    ] = None,
    timeout: Annotated[
        float | None,
        typer.Option(
            metavar="SECONDS", help="With --listen: fail if no probe has come [default: never]."
        ),
    ] = None,
    *,
    common: Common,
) -> None:
    """Measure the line to a streamlink server, and propose settings for it.

    Round trips idle and loaded, the rate each way alone and at once, over one connection and over
    several, and lost connections. The server needs nothing else; it takes one probe at a time, of
    at most 60 s and 256 MiB of models (and up to 128 MiB that is sent again after losses), and none
    while a round runs unless limits.probes allows it. Before there is a server, one end runs probe
    --listen.
    """
    tune_allocator()
    if (address is None) == (listen is None):
        raise CommandError(
            "name the server, such as streamlink probe server.example:8517, or listen for a probe "
            "with --listen 0.0.0.0:8470"
        )
    _require_used(context, is_listening=listen is not None)
    check_file("--output", output)
    check_file("--report", report)
    if listen is not None:
        answer_one(listen, timeout, common)
        return
    plan = _Plan.of(seconds, most, _Forecast.of(model, dtype, base))
    check_address("the address", address or "")
    if name:
        check_name(name)
    if common.is_check:
        check_visiting(address or "", common.config)
        common.passed()
        return
    with a_job():
        measured = _measured(address or "", name, one_time, plan, common)
    _report(measured, plan, output, report)


def _require_used(context: typer.Context, *, is_listening: bool) -> None:
    """Refuse options that this end does not use: whoever gave one expects that it counts."""
    serving, visiting = (
        {each.partition(".")[2] for each in names} for names in (SERVING, VISITING)
    )
    unused = {*_FOR_ADDRESS, *(visiting - serving)}
    if not is_listening:
        unused = {*_FOR_LISTEN, *(serving - visiting)}
    # By where a value comes from, and not by the value: a default that was typed is refused, too.
    given = [each for each in context.params if each in unused and _is_typed(context, each)]
    if not given:
        return
    flags = " and ".join(flag_of(each) for each in given)
    verb = "is" if len(given) == 1 else "are"
    if is_listening:
        raise CommandError(
            f"{flags} {verb} of no use with --listen; give that at the other end, which probes "
            "the address where this one listens"
        )
    raise CommandError(
        f"{flags} {verb} of use only with --listen; leave that out, or listen for a probe with "
        "--listen 0.0.0.0:8470 in place of the address"
    )


def _is_typed(context: typer.Context, name: str) -> bool:
    source = context.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"


@dataclass(frozen=True, slots=True)
class _Forecast:
    """The model that a round is forecast for."""

    model: ModelSource
    nbytes: int
    what: str
    base: ModelSource | None = None
    base_path: str = ""

    @classmethod
    def of(cls, model: str, dtype: str | None, base: Path | None) -> _Forecast | None:
        weights = _weights_dtype(model, dtype)
        if base is not None and not (model and Path(model).exists()):
            raise CommandError(
                f"--base {base} is an older version of a model, which has to be there, too; write "
                f"for example --model new.safetensors --base {base}"
            )
        if not model:
            return None
        if Path(model).exists():
            return cls._of_models(Path(model), base)
        nbytes = _size("--model", model, or_else="; nor is there such a file")
        if nbytes < 1:
            raise CommandError(f"--model must be positive, not {model}; write for example 128GB")
        sample = random_weights(min(nbytes, _SAMPLE_BYTES), weights)
        return cls(sample, nbytes, f"random weights in {weights}")

    @classmethod
    def _of_models(cls, path: Path, base: Path | None) -> _Forecast:
        model, what = open_model(path), f"ranges of {path}"
        if base is None:
            return cls(model, model.spec.nbytes, what)
        older = open_model(base)
        if fault := model.spec.difference(older.spec, f"--model {path}", f"--base {base}"):
            raise CommandError(f"{fault}; --base is an older version, of the same tensors")
        return cls(model, model.spec.nbytes, what, older, str(base))


@dataclass(frozen=True, slots=True)
class _Plan:
    """What to measure and to forecast, checked."""

    seconds: float
    most: int
    forecast: _Forecast | None

    @classmethod
    def of(cls, seconds: float, most: str, forecast: _Forecast | None) -> _Plan:
        if not _LEAST_SECONDS <= seconds <= MOST_SECONDS:
            raise CommandError(
                f"--seconds is from {_LEAST_SECONDS:g} to {MOST_SECONDS:g}, not {seconds:g}; a "
                "server ends a probe after 60 s; write for example --seconds 3"
            )
        size = _size("--most", most)
        if not LEAST_BYTES <= size <= MAX_PROBE_BYTES:
            raise CommandError(
                f"--most is from {LEAST_BYTES >> 20}MiB to {MAX_PROBE_BYTES >> 20}MiB, not {most}; "
                "write for example --most 64MiB"
            )
        return cls(seconds, size, forecast)


def _weights_dtype(model: str, dtype: str | None) -> str:
    """Return the dtype of random weights, where the model is only a size.

    Raises:
        CommandError: it is not one of those, or of no use.
    """
    if dtype is None:
        return WEIGHT_DTYPES[0]
    if not model:
        raise CommandError(
            f"--dtype {dtype} is of a model whose size is given; write for example "
            f"--model 14GB --dtype {dtype}"
        )
    if Path(model).exists():
        raise CommandError(
            f"--dtype {dtype} is of use only with --model SIZE: the dtypes of {model} are known; "
            "leave it out"
        )
    if dtype.upper() not in WEIGHT_DTYPES:
        raise CommandError(
            f"--dtype is one of {', '.join(WEIGHT_DTYPES)}, not {dtype}; write for example "
            "--dtype BF16"
        )
    return dtype.upper()


def _size(option: str, text: str, or_else: str = "") -> int:
    try:
        return parse_size(text)
    except ValueError as error:
        raise CommandError(f"{option}: {error}{or_else}") from error


def _measured(address: str, name: str, token: str, plan: _Plan, common: Common) -> Measured:
    # Each measurement is a transfer, which is logged as one; here they are one result.
    transfers = logging.getLogger("streamlink.transfer")
    before = transfers.level
    if common.log_level.lower() != "debug":
        transfers.setLevel(logging.WARNING)
    found: list[tuple[str, RoundTrips | Speed]] = []
    try:
        line = ProbeLine(address, common.config, name=name, token=token, cancel=common.cancel)
        with line:
            return measure(
                line,
                address=address,
                is_encrypted=_is_encrypted(common.config),
                seconds=plan.seconds,
                most=plan.most,
                tell=lambda what: logger.info("measuring: %s", what),
                note=lambda what, each: found.append((what, each)),
            )
    except TopicNotServed as error:
        raise JobFailed(
            f"{address} is an older streamlink, which answers no probes; upgrade it, or run "
            "streamlink probe --listen there"
        ) from error
    except StreamlinkError:
        if found:  # by its time or by a round, after up to a minute: this much is known
            typer.echo(partial_text(found))
        raise
    finally:
        transfers.setLevel(before)


def _is_encrypted(config: LinkConfig) -> bool:
    security = config.security
    return bool(security.ca or security.certificate or security.server_name)


def _report(measured: Measured, plan: _Plan, output: Path | None, report: Path | None) -> None:
    choices = propose(measured)
    typer.echo(_escaped(as_text(measured)))
    typer.echo(f"\n{settings_text(choices)}")
    costs: tuple[EncodingCost, ...] = ()
    rounds: tuple[Round, ...] = ()
    if (wanted := plan.forecast) is not None:
        costs = costs_of(wanted.model, wanted.base)
        rounds = forecast(wanted.nbytes, measured, costs)
        text = forecast_text(wanted.nbytes, rounds, costs, wanted.what, wanted.base_path)
        typer.echo(f"\n{_escaped(text)}")
    if output is not None:
        output.write_text(as_yaml(measured, choices), encoding="utf-8")
        typer.echo(f"\nsettings written to {escape(str(output))}; use them with --config")
    if report is not None:
        facts = as_json(measured, choices, rounds, costs)
        report.write_text(json.dumps(facts, indent=1) + "\n", encoding="utf-8")


def _escaped(text: str) -> str:
    """Return text of several lines without control characters of others."""
    return "\n".join(escape(line) for line in text.splitlines())

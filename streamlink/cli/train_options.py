"""What the commands of ``streamlink train`` are given: files first, options over them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer
import yaml
from pydantic import BaseModel, ValidationError

from streamlink.cli.command import Common
from streamlink.cli.errors import CommandError, sentence
from streamlink.errors import StreamlinkError
from streamlink.training.appfl_yaml import read_client, read_server
from streamlink.training.client import for_client
from streamlink.training.optimized import optimized_client, optimized_server
from streamlink.training.settings import ClientSettings, ModelSettings, ServerSettings

__all__ = [
    "Check",
    "Clients",
    "Code",
    "Config",
    "Data",
    "DataArg",
    "Download",
    "Model",
    "ModelArg",
    "ModelName",
    "Optimized",
    "OutputDir",
    "ReportFd",
    "Rounds",
    "Seed",
    "Set",
    "Store",
    "TrainArg",
    "assembled",
    "client_settings",
    "given",
    "logging_options",
    "repeated",
    "require_torch",
    "server_settings",
    "with_model",
]

T = TypeVar("T")
S = TypeVar("S", bound=BaseModel)

Config = Annotated[
    Path | None,
    typer.Option("--config", metavar="FILE.yaml", help="A file as APPFL has it."),
]
Set = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="SECTION.KEY=VALUE",
        help="A setting of the link or the rounds, such as rounds.train_timeout=600; repeatable.",
    ),
]
Check = Annotated[bool, typer.Option("--check", help="Only check all options and files.")]
Code = Annotated[
    Path | None,
    typer.Option(
        metavar="DIR",
        help="Where Python files of models, losses, metrics and data are loaded from. Without it "
        "no file is loaded, whoever names it.",
    ),
]
Download = Annotated[
    bool, typer.Option("--download", help="Fetch a named model from the Hugging Face Hub.")
]
Model = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="resnet18, cnn, llm or synthetic; instead of the file's."),
]
ModelArg = Annotated[
    list[str] | None,
    typer.Option("--model-arg", metavar="KEY=VALUE", help="An argument of it; repeatable."),
]
ModelName = Annotated[
    str | None,
    typer.Option(
        *("--model-name", "--model_name"),
        metavar="NAME",
        help="Which llm: tiny, 1gb, a folder, or a name of the Hugging Face Hub.",
    ),
]
TrainArg = Annotated[
    list[str] | None,
    typer.Option(
        "--train-arg",
        metavar="KEY=VALUE",
        help="How clients train, such as num_local_steps=10; instead of the file's; repeatable.",
    ),
]
Data = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="dummy_cifar10, dummy_tokens, cifar10 or mnist."),
]
DataArg = Annotated[
    list[str] | None,
    typer.Option("--data-arg", metavar="KEY=VALUE", help="An argument of it; repeatable."),
]
Store = Annotated[
    Path,
    typer.Option(
        metavar="PATH", help="Where the global model lives; the job begins with what is there."
    ),
]
Clients = Annotated[
    int | None,
    typer.Option("--clients", "--num-clients", "--num_clients", min=1, help="Number of clients."),
]
Rounds = Annotated[int | None, typer.Option(min=1, help="Number of rounds.")]
Seed = Annotated[int, typer.Option(help="Of the initial weights.")]
Optimized = Annotated[
    bool | None,
    typer.Option(
        "--optimize-memory/--no-optimize-memory",
        help="Switch every memory optimisation on, or off; instead of what the file says.",
    ),
]
OutputDir = Annotated[
    Path | None,
    typer.Option(
        *("--output-dir", "--output_dir"),
        metavar="DIR",
        help="Directory of the logs; instead of the file's.",
    ),
]
ReportFd = Annotated[int | None, typer.Option("--report-fd", hidden=True)]


def server_settings(
    config: Path | None,
    clients: int | None,
    rounds: int | None,
    is_optimized: bool | None,
    output_dir: Path | None,
    train_arg: list[str] | None = None,
) -> ServerSettings:
    """Return a server's settings: those of the file, and the options over them.

    Raises:
        StreamlinkError: the file or an option cannot be used.
    """
    settings = assembled(lambda: read_server(config)) if config else ServerSettings()
    trainer = _changed(settings.order.trainer, _arguments("--train-arg", train_arg))
    changes = {
        "num_clients": clients,
        "num_rounds": rounds,
        "log": _log(settings, output_dir),
        "order": settings.order.model_copy(update={"trainer": trainer}),
    }
    return optimized_server(_changed(settings, changes), is_optimized)


def client_settings(
    config: Path | None,
    index: int | None,
    num_clients: int | None,
    is_optimized: bool | None,
    changes: Mapping[str, Any],
) -> ClientSettings:
    """Return a client's settings: those of the file, and the options over them.

    Raises:
        StreamlinkError: the file or an option cannot be used.
    """
    settings = assembled(lambda: read_client(config)) if config else ClientSettings()
    changes = dict(changes)
    data, arguments = changes.pop("data"), changes.pop("data_arg")
    if data is not None:
        changes["data"] = {"name": data, "kwargs": settings.data.kwargs}
    changes["log"] = _log(settings, changes.pop("output_dir"))
    settings = _changed(settings, changes)
    if index is not None or num_clients is not None:
        if index is None or num_clients is None:
            raise CommandError("--client-idx and --num-clients need each other; give both")
        settings = assembled(lambda: for_client(settings, index, num_clients))
    if arguments:
        kwargs = {**settings.data.kwargs, **_arguments("--data-arg", arguments)}
        settings = _changed(settings, {"data": {**dict(settings.data), "kwargs": kwargs}})
    return optimized_client(settings, is_optimized)


def with_model(
    settings: ServerSettings,
    model: str | None,
    arguments: list[str] | None,
    model_name: str | None,
) -> ServerSettings:
    """Return settings whose clients train the model that the options name.

    Raises:
        CommandError: an argument is not of the form KEY=VALUE.
    """
    named = settings.order.model
    if model is not None:
        named = ModelSettings(name=model)
    kwargs = _arguments("--model-arg", arguments)
    if model_name is not None:
        kwargs["model_name"] = model_name
    if kwargs and named is None:
        raise CommandError("--model-arg and --model-name need a model; give --model NAME")
    if named is None:
        return settings
    named = named.model_copy(update={"kwargs": {**named.kwargs, **kwargs}})
    order = settings.order.model_copy(update={"model": named})
    return settings.model_copy(update={"order": order})


def assembled(make: Callable[[], T]) -> T:
    """Return what ``make`` returns; an error about a value becomes one about the command.

    Raises:
        CommandError: ``make`` raised ``ValueError``.
    """
    try:
        return make()
    except StreamlinkError:
        raise  # some are ValueErrors, too, and already say what to do
    except ValueError as error:
        raise CommandError(sentence(error)) from error


def given(option: str, value: object) -> list[str]:
    """Return the words that give ``option`` to a child; none where it was not given."""
    return [] if value is None else [option, str(value)]


def repeated(option: str, values: Iterable[str] | None) -> list[str]:
    """Return the words that give ``option`` to a child once for each value."""
    return [word for value in values or () for word in (option, value)]


def logging_options(common: Common, name: str) -> list[str]:
    """Return the words with which the process ``name`` logs as its parent does."""
    # The clients' lines would disturb the server's; their files have them.
    level = "warning" if name != "server" and common.log_level == "info" else common.log_level
    own = common.log_file
    if own is not None and name != "server":
        own = own.with_stem(f"{own.stem}.{name}")
    in_json = ["--json-logs"] if common.json_logs else []
    return ["--log-level", level, *given("--log-file", own), *in_json]


def require_torch() -> None:
    """Check that PyTorch is installed.

    Raises:
        CommandError: it is not; says how to install it.
    """
    if find_spec("torch") is None:
        raise CommandError("torch cannot be found; pip install 'streamlink-fl[torch]'")


def _changed(settings: S, changes: Mapping[str, Any]) -> S:
    """Return settings with the ``changes`` that are not None, checked."""
    wanted = {name: value for name, value in changes.items() if value is not None}
    try:
        return type(settings).model_validate({**dict(settings), **wanted})
    except ValidationError as error:
        raise CommandError(sentence(error)) from error


def _log(settings: ServerSettings | ClientSettings, folder: Path | None) -> Any:
    if folder is None:
        return None
    return settings.log.model_copy(update={"logging_output_dirname": str(folder)})


def _arguments(option: str, words: Iterable[str] | None) -> dict[str, Any]:
    """Return KEY=VALUE words as arguments; a value is read as in YAML: number, text or mapping."""
    arguments: dict[str, Any] = {}
    for word in words or ():
        key, equals, text = word.partition("=")
        if not (equals and key.isidentifier()):
            raise CommandError(f"{option} {word!r} is not of the form KEY=VALUE")
        try:
            arguments[key] = yaml.safe_load(text)
        except yaml.YAMLError as error:
            raise CommandError(f"{option} {word!r}: the value is no YAML") from error
    return arguments

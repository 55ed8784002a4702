"""``streamlink profile resnet`` and the others: what is refused before anything starts."""

from importlib.util import find_spec
from pathlib import Path

import pytest
from typer.testing import CliRunner

from streamlink.cli.commands import app

pytestmark = pytest.mark.skipif(find_spec("memray") is None, reason="needs streamlink-fl[memray]")


def refused(*arguments: str) -> str:
    result = CliRunner().invoke(app, ["profile", *arguments])
    assert result.exit_code == 2, result.output
    return " ".join(result.output.split())


def test_an_experiment_that_does_not_exist_is_refused() -> None:
    assert "No such command 'vgg'" in refused("vgg")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--version", "fast"], "--version 'fast' is none of original, optimized"),
        (["--carrier", "udp"], "--carrier is grpc or mpi, not 'udp'"),
        (["--chunk-size", "big"], "--chunk-size 'big'"),
        (["--chunk-size", "5"], "model_chunk_size = 5"),
        (["--model-size", "1GB"], "--model-size is no option of resnet"),
        (["--version", "original", "--use_optimized_version"], "give one of them"),
        (["--role", "clerk"], "--role is server or client, not 'clerk'"),
        (["--role", "client"], "--role client needs --client-idx 0 to 1"),
        (["--role", "client", "--client-idx", "2"], "as --clients 2 says, not 2"),
        (["--role", "server", "--version", "both"], "--role runs one version"),
        (["--role", "server", "--carrier", "mpi"], "mpiexec starts all ranks"),
    ],
)
def test_what_cannot_run_is_refused_with_its_value(options: list[str], said: str) -> None:
    assert said in refused("resnet", *options)


def test_a_key_that_nobody_knows_is_refused_with_its_file(tmp_path: Path) -> None:
    path = tmp_path / "server.yaml"
    path.write_text("server_configs:\n  num_clientz: 2\n", "utf-8")
    said = refused("resnet", "--config", str(path))
    assert "server_configs.num_clientz" in said
    assert "num_clients" in said


def test_data_that_is_not_named_is_not_downloaded() -> None:
    assert "nothing is downloaded" in refused("cifar10")

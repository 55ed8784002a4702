"""``streamlink train``: what is refused before anything starts, and whole jobs as processes."""

from __future__ import annotations

import os
import re
import shutil
import signal
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from streamlink import digest_of
from streamlink.cli.commands import app
from streamlink.stores import ArrayModel, SafetensorsStore
from tests.support.commands import Command, streamlink
from tests.support.training_job import stored

CONFIGS = Path(__file__).parents[1] / "training" / "configs"
RESNET = [
    *("--server-config", CONFIGS / "server_resnet_dummy.yaml"),
    *("--client-config", CONFIGS / "client_1_resnet_dummy.yaml"),
]
LLM = [
    *("--server-config", CONFIGS / "server_llm_dummy.yaml"),
    *("--client-config", CONFIGS / "client_1_llm_dummy.yaml"),
]
needs_llm = pytest.mark.skipif(find_spec("transformers") is None, reason="needs [llm]")


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder: a store ``m``, and files that are wrong."""
    monkeypatch.chdir(tmp_path)
    stored(tmp_path / "m", {"a": np.zeros(3, np.float32)})
    (tmp_path / "typo.yaml").write_text("server_configs:\n  num_global_epoch: 3\n")
    (tmp_path / "tls.yaml").write_text("comm_configs: {grpc_configs: {use_ssl: True}}\n")
    return tmp_path


def said(*words: object) -> tuple[int, str]:
    result = CliRunner().invoke(app, ["train", *map(str, words)])
    return result.exit_code, result.output


def test_a_server_can_be_checked(place: Path) -> None:
    code, output = said("server", "--store", "m", "--check")
    assert (code, "checked" in output) == (0, True)
    config = CONFIGS / "server_resnet_dummy.yaml"
    assert said("server", "--store", "new", "--config", config, "--check")[0] == 0
    assert not (place / "new").exists()
    assert not (place / "output").exists()


SERVER = ["server", "--store", "m"]


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ([*SERVER, "--config", "typo.yaml"], "did you mean server_configs.num_global_epochs?"),
        ([*SERVER, "--config", "absent.yaml"], "absent.yaml: No such file"),
        ([*SERVER, "--listen", "here"], "--listen 'here' is not of the form HOST:PORT"),
        ([*SERVER, "--listen", "0.0.0.0:1"], "0.0.0.0:1 is beyond this machine"),
        ([*SERVER, "--set", "rounds.speed=3"], "rounds.speed"),
        ([*SERVER, "--set", "speed"], "is not of the form section.key=value"),
        ([*SERVER, "--code", "absent"], "--code absent: there is no such directory"),
        ([*SERVER, "--model-arg", "x=1"], "need a model; give --model NAME"),
        ([*SERVER, "--model", "cnn", "--model-arg", "x"], "'x' is not of the form KEY=VALUE"),
        ([*SERVER, "--model", "cnn", "--model-arg", "x=["], "the value is no YAML"),
        ([*SERVER, "--train-arg", "steps=3"], "steps: Extra inputs are not permitted"),
        ([*SERVER, "--train-arg", "mode=batch"], "mode: Input should be 'step' or 'epoch'"),
        (["server", "--store", "new"], "new holds no model, and client_configs.model_configs"),
        (["client", "--client-idx", "1"], "--client-idx and --num-clients need each other"),
        (["client", "--client-idx", "2", "--num-clients", "2"], "client 2 of 2: they are counted"),
        (["client", "--max-model-bytes", "much"], "'much' is not a size"),
        (["client", "--config", "tls.yaml"], "use_ssl is True, and root_certificate names no file"),
        (["client", "--config", "typo.yaml"], "'server_configs' is a key of the other role's file"),
        (["client", "--server", "10.0.0.1:1"], "10.0.0.1:1 is beyond this machine"),
        (["simulate", "--store", "m", "--server-config", "typo.yaml"], "did you mean"),
        (["simulate", "--store", "m", "--client-config", "typo.yaml"], "of the other role"),
        (["model", "--store", "m", "--model", "cnn"], "m holds a model already"),
        (["model", "--store", "new"], "no model is named; give --model, or --config"),
    ],
)
def test_what_cannot_be_used_is_named_and_ends_with_2(
    place: Path, words: list[str], sentence: str
) -> None:
    code, output = said(*words)
    assert sentence in " ".join(output.split())
    assert code == 2


@pytest.mark.slow  # imports PyTorch
@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["client", "--data", "cifar11"], "there is no 'cifar11'"),
        (
            ["client", "--data", "mnist", "--data-arg", "folder=absent"],
            "absent has no train-images",
        ),
        (["model", "--store", "new", "--model", "resnet19"], "there is no 'resnet19'"),
        (["model", "--store", "new", "--model", "cnn", "--model-arg", "x=1"], "raised TypeError"),
    ],
)
def test_what_only_pytorch_can_judge_is_named_as_well(
    place: Path, words: list[str], sentence: str
) -> None:
    code, output = said(*words)
    assert sentence in " ".join(output.split())
    assert code == 2


@pytest.mark.slow
def test_a_model_is_written_and_its_seed_decides_which(place: Path) -> None:
    for name, seed in (("one", 1), ("again", 1), ("other", 2)):
        words = ["--model", "cnn", "--model-arg", "num_pixel=16", "--seed", seed]
        assert said("model", "--store", name, *words)[0] == 0
    digests = [digest_of(SafetensorsStore(place / name)) for name in ("one", "again", "other")]
    assert digests[0] == digests[1] != digests[2]


@pytest.mark.parametrize("command", ["simulate", "server", "client", "model"])
def test_the_help_fits_80_columns(command: str) -> None:
    shown = CliRunner().invoke(app, ["train", command, "--help"], env={"COLUMNS": "80"})
    assert max(map(len, shown.stdout.splitlines())) <= 80


# --- processes --------------------------------------------------------------


@pytest.mark.processes
@pytest.mark.timeout(900)
def test_the_seeds_resnet_job_runs_as_it_stands(place: Path) -> None:
    # One of its five rounds, and one of the ten steps that each client takes in it.
    short = ["--rounds", 1, "--train-arg", "num_local_steps=1"]
    words = streamlink("train", "simulate", "--store", "r", *RESNET, *short)
    with Command(words, place, _one_thread()) as running:
        assert running.end() == 0, running.log
    assert re.search(r"round 0: .* 2 updates, train_loss .*val_accuracy .*val_loss", running.output)
    logs = {each.name: each.read_text() for each in (place / "output").iterdir()}
    assert sorted(logs) == ["result_Client1.log", "result_Client2.log", "result_server.log"]
    assert "Client2: round 0 trained" in logs["result_Client2.log"]
    assert "round 0 done" in logs["result_server.log"]
    # Half a model is more than what it streams through.
    over = {row[0]: int(row[1]) for row in rows(running.output)}
    assert over["server"] < 80
    assert over.keys() == {"server", "Client1", "Client2"}


def rows(output: str) -> list[tuple[str, str]]:
    """Return each process of the table with its memory over its base (MiB)."""
    return re.findall(r"(server|Client\d)\W+\d+\W+\d+\W+(\d+)", output)


@pytest.mark.processes
@pytest.mark.timeout(600)
@needs_llm
def test_the_seeds_language_model_job_runs_with_a_tiny_model_and_changes_nothing(
    place: Path,
) -> None:
    tiny = ["--model-name", "tiny"]
    assert said("model", "--store", "before", "--config", LLM[1], *tiny)[0] == 0
    shutil.copytree(place / "before", place / "after")  # what the job begins with
    job = ["train", "simulate", "--store", "after", *LLM, *tiny, "--clients", 3]
    with Command(streamlink(*job), place, _one_thread()) as running:
        assert running.end() == 0, running.log
    assert running.output.count("3 updates") == 3  # of as many rounds
    # Nobody trains, so the mean of all clients is the model that the job began with.
    assert digest_of(SafetensorsStore(place / "after")) == digest_of(
        SafetensorsStore(place / "before")
    )


@pytest.mark.processes
@pytest.mark.timeout(600)
def test_original_and_optimised_processes_train_the_same_bits(place: Path) -> None:
    model = ["--model", "cnn", "--model-arg", "num_channel=3", "--model-arg", "num_pixel=32"]
    assert said("model", "--store", "first", *model)[0] == 0
    digests = set()
    for switch in ("--optimize-memory", "--no-optimize-memory"):
        shutil.copytree(place / "first", place / f"s{switch}")
        job = ["simulate", "--store", f"s{switch}", *model, "--rounds", 2, switch]
        with Command(streamlink("train", *job), place, _one_thread()) as running:
            assert running.end() == 0, running.log
        digests.add(digest_of(SafetensorsStore(place / f"s{switch}")))
    assert len(digests) == 1


def _one_thread() -> dict[str, str]:
    from tests.support.commands import environment

    return {**environment(), "OMP_NUM_THREADS": "1"}  # the order of sums is then always the same


@pytest.mark.processes
@pytest.mark.timeout(600)
def test_a_client_that_may_not_hold_the_model_ends_the_job_with_its_reason(place: Path) -> None:
    assert said("model", "--store", "c", "--model", "cnn")[0] == 0
    words = ["train", "server", "--store", "c", "--model", "cnn", "--listen", "127.0.0.1:0"]
    words += ["--clients", "1", "--set", "rounds.max_attempts=1"]
    with Command(streamlink(*words, "--log-level", "debug"), place) as serving:
        port = serving.until(r"listening on 127.0.0.1:(\d+)")[1]
        joined = ["train", "client", "--server", f"127.0.0.1:{port}", "--max-model-bytes", "1MB"]
        with Command(streamlink(*joined), place) as visiting:
            assert serving.end() == 1
            assert visiting.end() == 1
    assert "takes at most 1000000; raise --max-model-bytes" in serving.log


@pytest.mark.processes
@pytest.mark.timeout(300)
def test_an_interrupted_job_leaves_no_process_and_the_last_model(place: Path) -> None:
    before = ArrayModel({"a": np.zeros(3, np.float32)})
    words = ["train", "simulate", "--store", "m", "--log-level", "debug", "--model", "cnn"]
    with Command(streamlink(*words), place) as running:
        running.until(r"started Client2")
        running.interrupt(signal.SIGINT)
        assert running.end() == 130, running.log
    for process in running.started:
        with pytest.raises(ProcessLookupError):
            os.kill(process, 0)
    assert digest_of(SafetensorsStore(place / "m")) == digest_of(before)

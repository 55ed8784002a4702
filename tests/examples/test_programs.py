"""Every program under ``examples`` as its reader runs it, from the root of the repository."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

import streamlink
from streamlink.model import GeneratedModel
from tests.support.commands import REPOSITORY, environment
from tests.support.ports import KeptPort

EXAMPLES = REPOSITORY / "examples"
ADDS = {"site-1": 1.0, "site-2": 3.0, "site-3": 8.0}  # as in operations/work.py


def run(
    program: str, *options: object, path: tuple[Path, ...] = ()
) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(EXAMPLES / program), *map(str, options)]
    env = environment(*path)
    return subprocess.run(command, cwd=REPOSITORY, env=env, capture_output=True, text=True)


def said(program: str, *options: object) -> str:
    done = run(program, *options)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Traceback" not in done.stderr, done.stderr
    return done.stdout


def numbers(pattern: str, text: str) -> list[float]:
    return [float(found) for found in re.findall(pattern, text)]


# --- torch ------------------------------------------------------------------


@pytest.mark.processes
def test_a_module_is_trained_by_two_sites_and_loaded_back() -> None:
    text = said("hello_torch/train.py", "--rounds", 4)
    losses = numbers(r"loss ([\d.]+) before", text)
    assert len(losses) == 4
    assert losses == sorted(losses, reverse=True)
    assert numbers(r"final loss over all tokens: ([\d.]+)", text)[0] < losses[0] / 4
    assert "tied: {'output.weight': 'embedding.weight'}" in text
    assert "the module has the stored model: True" in text
    assert "batches seen by the norm: 40\n" in text


QUICKSTART = "quickstart_torch/train.py"


def test_the_quickstart_takes_at_most_sixty_lines() -> None:
    assert len((EXAMPLES / QUICKSTART).read_text("utf-8").splitlines()) <= 60


@pytest.mark.processes
def test_the_quickstart_keeps_its_best_model_and_draws_its_curves(tmp_path: Path) -> None:
    text = said(QUICKSTART, tmp_path)
    accuracies = numbers(r"'accuracy': ([\d.]+)", text)
    kept = [line for line in text.splitlines() if "} best" in line]
    assert numbers(r"'accuracy': ([\d.]+)", kept[-1]) == [max(accuracies)]
    assert max(accuracies) > 0.9
    assert streamlink.digest_of(tmp_path / "best") != streamlink.digest_of(tmp_path / "model")
    reader = "tensorboard.backend.event_processing.event_file_loader"
    loader = pytest.importorskip(reader, reason="TensorBoard's reader is not installed: make venv")
    [curves] = (tmp_path / "runs").iterdir()
    events = loader.LegacyEventFileLoader(str(curves)).Load()
    values = [value for event in events for value in event.summary.value]
    drawn = [value.simple_value for value in values if value.tag == "evaluation/accuracy"]
    assert drawn == pytest.approx(accuracies)


@pytest.mark.processes
def test_only_adapters_change_and_only_they_come_back() -> None:
    text = said("lora_adapters/adapt.py", "--width", 128, "--rounds", 2)
    first, second = numbers(r"loss ([\d.]+),", text)
    assert second < first
    assert text.count("{'site-1': 384.0, 'site-2': 128.0}") == 2
    rank, layers = 2, 2
    assert f"an update: {layers * 2 * rank * 128 * 4} bytes" in text
    assert "base tensors that are bit for bit what they were: 2 of 2" in text
    assert "adapter tensors that are bit for bit what they were: 0 of 4" in text


@pytest.mark.processes
@pytest.mark.parametrize("program", ["hello_torch/train.py", "lora_adapters/adapt.py"])
def test_where_torch_is_missing_that_is_said(program: str, tmp_path: Path) -> None:
    (tmp_path / "torch.py").write_text("raise ImportError('no torch here')")
    done = run(program, path=(tmp_path,))
    assert done.returncode == 1
    assert done.stderr.strip().endswith("pip install 'streamlink-fl[torch]'")
    assert "Traceback" not in done.stderr


# --- a framework ------------------------------------------------------------


@pytest.mark.processes
def test_a_framework_runs_its_rounds_until_it_is_content_and_gets_the_same_bits_twice() -> None:
    text, again = (said("embedding/framework.py") for _ in range(2))
    losses = numbers(r"loss ([\d.]+);", text)
    assert losses[-1] < 0.1 < losses[-2]
    assert f"task offered {2 * len(losses)}," in text
    assert f"round done {len(losses)}\n" in text
    assert text.count("site-1 on node-1, site-2 on node-2") == len(losses)
    each_way = 2 * 40 * 4  # two sites, 40 elements of four bytes
    assert f"transfers told to Acme: {len(losses) * 2 * each_way} bytes" in text
    digest = re.compile(r"model: (\w{64})").findall
    assert digest(text) == digest(again) != []


@pytest.mark.processes
def test_a_framework_refuses_a_job_that_may_take_too_much() -> None:
    done = run("embedding/framework.py", "--memory", "64MiB")
    assert done.returncode == 1
    assert re.fullmatch(r"not admitted: the job may take \d+ MiB\n", done.stderr)


@pytest.mark.processes
def test_a_model_is_handed_over_with_one_digest() -> None:
    text = said("embedding/hand_over.py", "--size", "3MB")
    assert text.count("3000000 bytes") == 3
    assert len(set(re.findall(r"digest (\w{64})", text))) == 1


@pytest.mark.processes
def test_messages_carry_references_and_the_models_travel_beside_them() -> None:
    text = said("embedding/objects.py")
    assert numbers(r"a message of (\d+) characters for 1048576 bytes", text)[0] < 300
    averaged = ", ".join(f"'layer.{n}': {n + 2.0}" for n in range(4))
    assert f"averaged: {{{averaged}}}" in text
    assert "site-1 has the model: True" in text
    assert "is not meant for 'site-2'" in text
    assert "the server holds 0 objects\n" in text


@pytest.mark.processes
def test_a_client_is_asked_without_rounds() -> None:
    text = said("embedding/ask.py")
    assert "answer: [1.0, 2.0, 3.0, 4.0] {'from': 'Zurich'} {'loss': 0.5}\n" in text
    assert "second: ExchangeProgress(phase='over', sent_bytes=16" in text


def test_the_program_that_asks_is_as_short_as_the_document_shows() -> None:
    text = (REPOSITORY / "docs/embedding.md").read_text()
    code = re.findall(r"```python\n(.*?)```", text, re.DOTALL)[0]
    program = (EXAMPLES / "embedding/ask.py").read_text()
    for function in re.findall(r"^def .*?(?=\n\n\n|\Z)", code, re.DOTALL | re.MULTILINE):
        assert function.rstrip() in program


# --- an operator ------------------------------------------------------------


@pytest.mark.processes
def test_a_night_goes_on_without_the_straggler_leaves_a_backup_and_says_what_failed(
    tmp_path: Path,
) -> None:  # one test, since it takes ten commands: two workers would run them twice
    port = KeptPort()
    options = ("--listen", port.address, "--folder", tmp_path, "--size", "2MB")
    text = said("operations/nightly.py", *options)
    port.close()
    goes_on_without_the_straggler(tmp_path, text)
    leaves_a_backup_and_says_what_failed(tmp_path, text)


def goes_on_without_the_straggler(folder: Path, text: str) -> None:
    assert "sites ended with {'site-1': 0, 'site-2': 0, 'site-3': 0}" in text
    assert "continues without site-3: " in text
    rounds = [found.split(", ") for found in re.findall(r"round \d+: (site.*)", text)]
    assert len(rounds) == 4
    steps = [sum(ADDS[site] for site in sites) / len(sites) for sites in rounds]
    assert is_filled(folder / "model", sum(steps))


def leaves_a_backup_and_says_what_failed(folder: Path, text: str) -> None:
    assert "receive ended with 0\nmodel and backup differ: False\n" in text
    assert "nobody came to ended with 1; the model is what it was: True" in text
    digests = [streamlink.digest_of(streamlink.open_model(folder / name)) for name in PLACES]
    assert digests[0] == digests[1] != digests[2]
    assert "0 of 2 clients came within 1 s" in (folder / "nobody.out").read_text()


PLACES = ("model", "backup", "weights")


def is_filled(place: Path, value: float) -> bool:
    """Tell whether every element of a stored float32 model is ``value``, bit for bit."""
    source = streamlink.open_model(place)
    expected = GeneratedModel(source.spec, lambda tensor, start, out: out.fill(value))
    return streamlink.digest_of(source) == streamlink.digest_of(expected)


# --- more than memory -------------------------------------------------------


@pytest.mark.processes
def test_a_model_larger_than_what_is_held_comes_out_exact(tmp_path: Path) -> None:
    options = ("--rounds", 2, "--size", "180MB", "--folder", tmp_path)
    text = said("larger_than_memory/train.py", *options)
    assert "every element is exactly right: True" in text
    ((before, peak),) = re.findall(r"(\d+) MiB before, (\d+) MiB at most", text)
    assert int(peak) - int(before) < 160  # MiB, of a server and two sites; the model has 171
    tensors = streamlink.open_model(tmp_path / "global").spec.tensors
    assert sum(tensor.nbytes for tensor in tensors) == 180_000_000


def test_examples_of_the_table_are_those_that_are_there() -> None:
    table = (EXAMPLES / "README.md").read_text()
    named = set(re.findall(r"\]\((\w+)[/)]", table))
    assert named == {path.name for path in EXAMPLES.iterdir() if path.is_dir()}

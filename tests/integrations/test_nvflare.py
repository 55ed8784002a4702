"""NVIDIA FLARE on streamlink: what can be said without FLARE, and jobs in its own environment."""

from __future__ import annotations

import ast
import io
import os
import signal
import subprocess
import sys
import tokenize
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from benchmarks.integrations import nvflare
from benchmarks.integrations.cases import OURS, Case, Outcome
from benchmarks.integrations.nvflare_app import published
from benchmarks.integrations.running import run_case
from benchmarks.integrations.sides import processes_of
from streamlink import copy_model, open_model
from tests.support.framework_environments import environment_of
from tests.support.framework_failures import failing

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "streamlink" / "integrations" / "nvflare"
EXAMPLES = ROOT / "examples" / "nvflare"
MB = 1_000_000


def test_to_import_the_package_imports_nothing_of_flare() -> None:
    import streamlink.integrations.nvflare  # noqa: F401

    assert not [name for name in sys.modules if name.split(".")[0] == "nvflare"]


def test_the_integration_is_short() -> None:
    """Lines of code: without those that are empty, comments or docstrings."""
    assert sum(lines_of_code(path) for path in PACKAGE.rglob("*.py")) <= 400


def lines_of_code(path: Path) -> int:
    text = path.read_text("utf-8")
    empty = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT}
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    used = [each for each in tokens if each.type not in {*empty, tokenize.ENDMARKER}]
    lines = {line for each in used for line in range(each.start[0], each.end[0] + 1)}
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            lines -= set(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return len(lines)


SCRIPT = """\
import torch
import torchvision
from torchvision.transforms import ToTensor

def main():
    transform = ToTensor()
    if True:
        train_set = torchvision.datasets.CIFAR10(transform=transform)
    print(train_set)
"""


def test_only_the_data_set_of_a_published_script_is_replaced() -> None:
    changed = published.edited(SCRIPT, published.data_edits(SCRIPT)).splitlines()
    added = [line for line in changed if line not in SCRIPT.splitlines()]
    assert [line.split(" = ")[0].strip() for line in added] == [
        "images", "train_set", "images", "test_set",
    ]  # fmt: skip
    assert [line for line in changed if line not in added] == [
        "import torch", "", "def main():", "    print(train_set)",
    ]  # fmt: skip


def test_a_published_job_gets_the_environment_of_poc_mode_and_nothing_else() -> None:
    job = "from nvflare.recipe import SimEnv\nenv = SimEnv(num_clients=2, log_config=args.log)\n"
    assert published.edited(job, published.job_edits(job, poc=False)) == job
    assert published.edited(job, published.job_edits(job, poc=True)).splitlines() == [
        "from nvflare.recipe import PocEnv",
        "env = PocEnv(num_clients=2, extra={'login_timeout': 120.0})",
    ]


# --- in FLARE's own environment ---------------------------------------------


python = environment_of("nvflare")


def in_flare(
    python: Path, words: Sequence[object], folder: Path, **settings: object
) -> subprocess.CompletedProcess[str]:
    """Run a program in FLARE's environment, with the one variable of the integration."""
    chosen = {"MIN_BYTES": 1, "SPOOL": folder / "spool", **settings}
    here = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")])),
        "PATH": f"{python.parent}{os.pathsep}{os.environ['PATH']}",
        "TMPDIR": str(folder),
        "NVFLARE_SIMULATOR_WORKSPACE_ROOT": str(folder / "simulation"),
        "NVFLARE_POC_WORKSPACE": str(folder / "poc"),
        "NVFLARE_NVFLARE_DECOMPOSERS": "streamlink.integrations.nvflare",
        "STREAMLINK_CASE": str(folder),
        **{f"NVFLARE_STREAMLINK_{name}": str(value) for name, value in chosen.items()},
    }
    try:
        return subprocess.run(
            [str(python), *map(str, words)], env=here, capture_output=True, text=True, timeout=900
        )
    finally:  # a job that fails in POC mode leaves its system running, on the port of the next one
        while pids := processes_of(str(folder)):
            for pid in pids:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)


in_its_environment = [
    pytest.mark.integrations,
    pytest.mark.processes,
    pytest.mark.timeout(1800),
]


@pytest.fixture(params=[pytest.param(None, marks=in_its_environment)])
def flare(request: pytest.FixtureRequest) -> Path:
    """The python of FLARE's environment; marks the test that wants it."""
    found: Path = request.getfixturevalue("python")
    return found


@pytest.mark.integrations(small=True)
def test_the_components_and_the_sides_do_as_they_say(flare: Path, tmp_path: Path) -> None:
    done = in_flare(flare, ["-m", "tests.integrations.nvflare_checks"], tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr


LOAD = """
from nvflare.private.fed.utils.fed_utils import register_decomposer_module
{before}
register_decomposer_module("streamlink.integrations.nvflare")
print("installed")
"""


@pytest.mark.integrations(small=True)
def test_what_is_replaced_in_flare_is_what_we_know(flare: Path, tmp_path: Path) -> None:
    done = in_flare(flare, ["-c", LOAD.format(before="")], tmp_path)
    assert done.stdout.strip() == "installed", done.stderr


@pytest.mark.integrations(small=True)
def test_another_flare_is_refused_by_what_differs_and_what_to_do(
    flare: Path, tmp_path: Path
) -> None:
    before = (
        "from nvflare.fuel.utils.fobs.decomposers.via_downloader import ViaDownloaderDecomposer\n"
        "ViaDownloaderDecomposer.download = lambda self, where: None"
    )
    done = in_flare(flare, ["-c", LOAD.format(before=before)], tmp_path)
    assert done.returncode == 1
    assert "download(where) was download(from_fqcn" in done.stderr
    assert "Install nvflare==2.9.0, or unset NVFLARE_NVFLARE_DECOMPOSERS" in done.stderr


def test_a_numpy_job_runs_in_the_simulator_without_a_line_about_us(
    flare: Path, tmp_path: Path
) -> None:
    done = in_flare(flare, [EXAMPLES / "hello_numpy" / "job.py"], tmp_path)
    said = done.stdout + done.stderr
    assert "objects are served at 127.0.0.1" in said
    assert LAST_METRICS in said, said[-3000:]


LAST_METRICS = "site-2: round 2: {'weight_mean': 8.0}"


@pytest.mark.parametrize(
    ("setting", "value", "why"),
    [
        ("SPOOL", "/dev/null", "File exists: '/dev/null'"),
        ("TTL", "a day", "unable to parse string as a number"),
    ],
)
def test_a_job_whose_server_cannot_use_a_setting_runs_as_without_us_and_says_why(
    flare: Path, tmp_path: Path, setting: str, value: str, why: str
) -> None:
    job = EXAMPLES / "hello_numpy" / "job.py"
    done = in_flare(flare, [job], tmp_path, **{setting: value})
    said = done.stdout + done.stderr
    assert LAST_METRICS in said, said[-3000:]
    assert "FLARE carries its models itself" in said
    assert why in said
    assert "objects are served at" not in said


@pytest.mark.parametrize(
    ("setting", "value", "why"),
    [("MIN_BYTES", "one", "'one' is not a size"), ("PORTS", "8452-8443", "is no range of ports")],
)
def test_a_setting_that_sites_read_and_cannot_use_is_refused_before_a_job_runs(
    flare: Path, tmp_path: Path, setting: str, value: str, why: str
) -> None:
    done = in_flare(flare, [EXAMPLES / "hello_numpy" / "job.py"], tmp_path, **{setting: value})
    said = done.stdout + done.stderr
    assert f"streamlink_{setting.lower()} (NVFLARE_STREAMLINK_{setting}) is {value!r}" in said
    assert why in said
    assert "site-1: round 0" not in said


def test_a_job_that_stores_its_model_gives_the_same(flare: Path, tmp_path: Path) -> None:
    job, first = EXAMPLES / "hello_numpy" / "job.py", os.path.relpath(tmp_path / "first")
    said = in_flare(flare, [job, "--stored", first], tmp_path).stdout
    assert LAST_METRICS in said, said[-3000:]
    assert [path.name for path in (tmp_path / "first-jobs").iterdir()] == ["simulate_job"]


def test_a_torch_job_trains_over_streamlink(flare: Path, tmp_path: Path) -> None:
    said = in_flare(flare, [EXAMPLES / "hello_pt" / "job.py"], tmp_path).stdout
    losses = [line.split(" - ")[-1] for line in said.splitlines() if ": loss " in line]
    assert "objects are served at 127.0.0.1" in said
    assert len(losses) == 4, said[-3000:]


@pytest.mark.parametrize("example", ["hello_numpy", "hello_pt"])
def test_an_example_runs_in_poc_mode(flare: Path, tmp_path: Path, example: str) -> None:
    run_in_poc_mode(flare, tmp_path, EXAMPLES / example / "job.py")


def test_a_job_that_stores_its_model_leaves_it_in_poc_mode(flare: Path, tmp_path: Path) -> None:
    run_in_poc_mode(
        flare, tmp_path, EXAMPLES / "hello_numpy" / "job.py", "--stored", tmp_path / "first"
    )
    [model] = (tmp_path / "first-jobs").iterdir()
    [values] = all_arrays(model)
    assert values.tolist() == [[4, 5, 6], [7, 8, 9], [10, 11, 12]]  # each round adds 1


def run_in_poc_mode(python: Path, folder: Path, *words: object) -> None:
    done = in_flare(python, [*words, "--poc"], folder)
    assert "'status': 'FINISHED:COMPLETED'" in done.stdout, done.stdout + done.stderr
    # FLARE removes a POC system with its logs; that there was an object server shows here.
    assert list((folder / "spool").iterdir()) == []


def all_arrays(path: Path) -> list[npt.NDArray[Any]]:
    """Return the arrays of a model, in its order."""
    source = open_model(path)
    arrays = {each.name: np.empty(each.shape, each.numpy_dtype) for each in source.spec.tensors}
    copy_model(source, arrays)
    return list(arrays.values())


# --- FLARE's own examples, of which nothing is kept here ---------------------


@pytest.fixture
def hello_world() -> Path:
    """FLARE's ``examples/hello-world``."""
    if "FLARE_EXAMPLES" not in os.environ:
        pytest.skip("set FLARE_EXAMPLES to examples/hello-world of a checkout of FLARE")
    return Path(os.environ["FLARE_EXAMPLES"])


def test_the_published_hello_numpy_runs_in_the_simulator(
    flare: Path, hello_world: Path, tmp_path: Path
) -> None:
    words = ["-m", published.__name__, hello_world / "hello-numpy", tmp_path / "job"]
    done = in_flare(flare, words, tmp_path)
    said = done.stdout + done.stderr
    assert "objects are served at" in said, said[-3000:]
    assert said.count("finished training for round 2") == 2


def test_the_published_hello_numpy_runs_in_poc_mode(
    flare: Path, hello_world: Path, tmp_path: Path
) -> None:
    words = ["-m", published.__name__, hello_world / "hello-numpy", tmp_path / "job", "--poc"]
    done = in_flare(flare, words, tmp_path)
    assert "Job Status is: FINISHED:COMPLETED" in done.stdout, done.stdout + done.stderr
    # FLARE removes a POC system with its logs; that there was an object server shows here.
    assert list((tmp_path / "spool").iterdir()) == []


def hello_pt(flare: Path, hello_world: Path, folder: Path, *words: str) -> str:
    """Run the published hello-pt with its data set replaced; return what was printed."""
    start = ["-m", published.__name__, hello_world / "hello-pt", folder / "job"]
    done = in_flare(flare, [*start, "--num_workers", "0", "--epochs", "1", *words], folder)
    assert "+    train_set = torch.utils.data.TensorDataset(images, " in done.stdout
    assert "-        train_set = torchvision.datasets.CIFAR10(" in done.stdout
    if "--poc" in words:  # the published job asks for the status while it runs, too
        assert "'status': 'FINISHED:COMPLETED'" in done.stdout, done.stdout + done.stderr
    return done.stdout + done.stderr


def test_the_published_hello_pt_runs_with_seeded_tensors(
    flare: Path, hello_world: Path, tmp_path: Path
) -> None:
    said = hello_pt(flare, hello_world, tmp_path)
    assert "objects are served at" in said, said[-3000:]
    assert said.count("Finished Training for site-") == 4


def test_the_published_hello_pt_runs_with_seeded_tensors_in_poc_mode(
    flare: Path, hello_world: Path, tmp_path: Path
) -> None:
    assert "+    env = PocEnv(" in hello_pt(flare, hello_world, tmp_path, "--poc")
    assert list((tmp_path / "spool").iterdir()) == []


def run(
    python: Path, line: str, failure: str | None = None, size: int = 16 * MB, clients: int = 2
) -> Outcome:
    case = Case("nvflare", size, 4, line, clients=clients, rounds=2, failure=failure)
    outcome = run_case(case, nvflare.run, python, limit_bytes=8_000 * MB, timeout=1500.0)
    assert outcome.ended == "done", outcome.said
    assert outcome.left_behind == []
    return outcome


@pytest.mark.parametrize("line", OURS)
def test_every_element_is_exact_in_poc_mode(flare: Path, line: str) -> None:
    assert run(flare, line).exact


@failing("cut")
def test_a_cut_of_the_objects_line_costs_a_resume_and_no_round(
    flare: Path, failure: str, line: str, size: int
) -> None:
    outcome = run(flare, line, failure, size)
    assert outcome.exact, outcome.said
    assert "FINISHED:COMPLETED" in outcome.said


@failing("cut off")
def test_a_site_that_was_cut_off_for_too_long_joins_again_and_loses_no_round(
    flare: Path, failure: str, line: str, size: int
) -> None:
    """FLARE carries the model that was on its way; with the next reference the site is back."""
    outcome = run(flare, line, failure, size, clients=1)
    assert outcome.exact, outcome.said
    assert "FINISHED:COMPLETED" in outcome.said
    assert [each["round"] for each in outcome.marks if each["event"] == "received"] == [0, 1]


@failing("unreachable")
def test_sites_that_cannot_reach_the_port_get_their_models_flares_own_way(
    flare: Path, failure: str, line: str, size: int
) -> None:
    """One may dial other ports only, and nobody answers where the other dials; both ends log it."""
    outcome = run(flare, line, failure, size)
    assert outcome.exact, outcome.said
    assert "FINISHED:COMPLETED" in outcome.said


def test_a_site_without_streamlink_gets_its_models_flares_own_way(flare: Path) -> None:
    """It fails at the first reference, and FLARE asks for the task again."""
    outcome = run(flare, "first", "not installed")
    assert outcome.exact, outcome.said
    assert "FINISHED:COMPLETED" in outcome.said


@failing("wrong setting")
def test_a_setting_of_a_site_that_cannot_be_used_ends_the_job_and_is_named(
    flare: Path, failure: str, line: str, size: int
) -> None:
    outcome = run(flare, line, failure, size)
    assert "the job ended as FINISHED:" in outcome.said
    assert "FINISHED:COMPLETED" not in outcome.said


@failing("killed", "stopped")
def test_the_job_ends_as_flare_ends_it_and_leaves_nothing(
    flare: Path, failure: str, line: str, size: int
) -> None:
    """FLARE fails the job of a dead site, and of one whose heartbeats are missing."""
    outcome = run(flare, line, failure, size)
    assert "the job ended as FINISHED:" in outcome.said
    assert "FINISHED:COMPLETED" not in outcome.said


@failing("restarted")
def test_a_killed_object_server_ends_its_job_and_the_next_one_runs(
    flare: Path, failure: str, line: str, size: int
) -> None:
    """It is in the server's job process; what it left on the disk is removed by the next."""
    outcome = run(flare, line, failure, size)
    first, second = outcome.said.splitlines()
    assert outcome.exact, outcome.said
    assert "FINISHED:COMPLETED" not in first
    assert second == "the job ended as FINISHED:COMPLETED"


@failing("unfetched")
def test_an_object_that_nobody_fetches_expires_and_the_round_ends_without_its_site(
    flare: Path, failure: str, line: str, size: int
) -> None:
    """FLARE's task times out; who asks for the object later is refused, and gets the next round."""
    outcome = run(flare, line, failure, size)
    events = [(each["event"], each["side"], each.get("round")) for each in outcome.marks]
    assert ("fetched too late", "site-2", None) in events
    assert ("received", "site-2", 0) not in events
    assert ("received", "site-2", 1) in events
    [ended] = [each for each in outcome.marks if each["event"] == "run ended"]
    assert ended["objects"] == 0

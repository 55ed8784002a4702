"""The video tool that is called ``streamlink`` on PyPI, in one environment with ours.

Environments are real ones, and pip puts the wheels there. Of the video tool a stand-in does: the
files that it shares with us, and the package of its command.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
import venv
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from hatchling.build import build_wheel

import streamlink
import streamlink_fl

ROOT = Path(__file__).parents[1]
OUTER = Path(sysconfig.get_path("purelib"))
OURS = f"streamlink-fl {streamlink.__version__}\n"


VIDEO_TOOL = {
    "pyproject.toml": """
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"
[project]
name = "streamlink"
version = "8.6.3"
[project.scripts]
streamlink = "streamlink_cli.main:main"
[tool.hatch.build.targets.wheel]
packages = ["streamlink", "streamlink_cli"]
""",
    "streamlink/__init__.py": '__version__ = "8.6.3"\n',
    "streamlink/__main__.py": "from streamlink_cli.main import main\nmain()\n",
    "streamlink/py.typed": "",
    "streamlink_cli/__init__.py": "",
    "streamlink_cli/main.py": 'def main():\n    print("no video here")\n',
}


PACKED = "from streamlink_fl import warn_of_clash\n"


def clash_in(site: Path, **files: str) -> list[str]:
    """Return what ``find_clash`` says where only ``files`` and this package are installed."""
    (site / "streamlink_fl").symlink_to(ROOT / "streamlink_fl")
    (site / "streamlink").mkdir()
    for name, text in files.items():
        (site / name).mkdir(exist_ok=True)
        (site / name / "__init__.py").write_text(text)
    code = "import streamlink_fl, sys; c = streamlink_fl.find_clash(); print(c and c.text)"
    done = subprocess.run(
        [sys.executable, "-E", "-S", "-c", code],
        cwd=site,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.splitlines()


@pytest.mark.processes(quick=True)
def test_alone_ours_is_no_clash(tmp_path: Path) -> None:
    assert clash_in(tmp_path, streamlink=PACKED) == ["None"]


@pytest.mark.processes(quick=True)
def test_the_video_tools_package_in_place_of_ours_is_named(tmp_path: Path) -> None:
    [said] = clash_in(tmp_path, streamlink=VIDEO_TOOL["streamlink/__init__.py"], streamlink_cli="")
    assert said.startswith(f"'import streamlink' finds the video tool of that name ({tmp_path}")


@pytest.mark.processes(quick=True)
def test_the_video_tool_under_ours_is_named(tmp_path: Path) -> None:
    [said] = clash_in(tmp_path, streamlink=PACKED, streamlink_cli="")
    assert said.startswith(f"the video tool 'streamlink' is installed in {tmp_path} too")


@pytest.mark.processes(quick=True)
def test_a_package_without_its_beginning_is_told(tmp_path: Path) -> None:
    [said] = clash_in(tmp_path)
    assert said.startswith("the package 'streamlink' has lost its __init__.py")


def test_this_package_is_known_as_ours() -> None:
    assert streamlink_fl.find_clash() is None


def built(project: Path, target: Path) -> Path:
    """Return the wheel of ``project``; PEP 517's hook works in the current directory."""
    before = Path.cwd()
    os.chdir(project)
    try:
        return target / str(build_wheel(str(target)))
    finally:
        os.chdir(before)


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built(ROOT, tmp_path_factory.mktemp("ours"))


@pytest.fixture(scope="module")
def theirs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    project = tmp_path_factory.mktemp("theirs")
    for name, text in VIDEO_TOOL.items():
        (project / name).parent.mkdir(exist_ok=True)
        (project / name).write_text(text)
    return built(project, project)


class Environment:
    """A virtual environment; what ours needs is found in that of the tests."""

    def __init__(self, folder: Path) -> None:
        venv.create(folder, symlinks=True)
        self.bin = folder / "bin"
        self.site = Path(sysconfig.get_path("purelib", vars={"base": str(folder)}))

    def pip(self, *words: object) -> None:
        """Run pip in here; not while the outer packages are in sight, or it would count them."""
        (self.site / "outer.pth").unlink(missing_ok=True)
        found = pytest.importorskip("pip")
        # What ``pip --python`` would start, as a second process.
        runner = Path(found.__file__).parent / "__pip-runner__.py"
        command = [str(self.bin / "python"), str(runner), *map(str, words), "--quiet"]
        subprocess.run(command, check=True)
        (self.site / "outer.pth").write_text(f"{OUTER}\n")

    def install(self, *wheels: Path, again: bool = False) -> None:
        for wheel in wheels:
            more = ["--force-reinstall"] if again else []
            self.pip("install", "--no-deps", "--no-index", "--no-compile", *more, wheel)

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run a command of this environment, away from the checkout."""
        return subprocess.run(
            [str(self.bin / words[0]), *words[1:]],
            cwd=self.site,
            env={name: value for name, value in os.environ.items() if name != "PYTHONPATH"},
            capture_output=True,
            text=True,
        )


New = Callable[[], Environment]


@pytest.fixture
def environment(tmp_path: Path) -> Environment:
    if (OUTER / "streamlink").exists():
        pytest.skip("streamlink-fl is installed as a copy, which would be found from inside, too")
    return Environment(tmp_path / "env")


# Two tests with one environment each, in the order in which users do it: every step takes seconds.


@pytest.mark.processes
def test_ours_survives_the_video_tool_on_top_of_it_which_is_named_and_the_remedy_helps(
    environment: Environment, ours: Path, theirs: Path
) -> None:
    environment.install(ours)
    alone_says_nothing_of_the_other(environment)
    environment.install(theirs)
    under_the_video_tool_is_an_error_that_names_it(environment)
    environment.pip("uninstall", "--yes", "streamlink")
    done = environment.run("streamlink-fl", "--version")
    assert done.returncode == 2
    assert "error: the package 'streamlink' has lost its __init__.py" in done.stderr
    assert "--force-reinstall --no-deps" in done.stderr
    environment.install(ours, again=True)
    done = environment.run("streamlink", "--version")
    assert (done.returncode, done.stdout, done.stderr) == (0, OURS, "")


def alone_says_nothing_of_the_other(environment: Environment) -> None:
    for command in ("streamlink", "streamlink-fl"):
        done = environment.run(command, "--version")
        assert (done.returncode, done.stdout, done.stderr) == (0, OURS, "")
    done = environment.run("python", "-W", "error", "-c", "import streamlink; streamlink.Server")
    assert (done.returncode, done.stderr) == (0, "")


def under_the_video_tool_is_an_error_that_names_it(environment: Environment) -> None:
    assert environment.run("streamlink").stdout == "no video here\n"
    for command in (["streamlink-fl"], ["python", "-m", "streamlink_fl"]):
        done = environment.run(*command, "inspect", "model")
        assert (done.returncode, done.stdout) == (2, "")
        file = environment.site / "streamlink" / "__init__.py"
        assert (
            f"error: 'import streamlink' finds the video tool of that name ({file})" in done.stderr
        )
        assert "pip uninstall streamlink" in done.stderr
        assert len(done.stderr.splitlines()) == 1
    line = json.loads(environment.run("streamlink-fl", "inspect", "m", "--json-logs").stderr)
    assert line["level"] == "ERROR"
    assert line["exit_code"] == 2


@pytest.mark.processes
def test_ours_on_top_of_the_video_tool_works_and_warns_once_and_in_json_where_all_is_json(
    environment: Environment, ours: Path, theirs: Path
) -> None:
    environment.install(theirs, ours)
    done = environment.run("streamlink", "--version")
    assert (done.returncode, done.stdout) == (0, OURS)
    assert f"the video tool 'streamlink' is installed in {environment.site} too" in done.stderr
    assert len(done.stderr.splitlines()) == 1
    done = environment.run("python", "-c", "import streamlink; print(streamlink.Server.__name__)")
    assert (done.returncode, done.stdout) == (0, "Server\n")
    assert "NameClashWarning: the video tool 'streamlink' is installed" in done.stderr
    done = environment.run("streamlink", "inspect", "absent", "--json-logs")
    lines = [json.loads(line) for line in done.stderr.splitlines()]
    assert [line["level"] for line in lines] == ["WARNING", "ERROR"]
    assert lines[0]["event"] == "name_clash"


def test_the_look_at_import_is_one_question_to_the_file_system(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[str] = []

    def noted(path: str) -> bool:
        asked.append(path)
        return False

    monkeypatch.setattr(os.path, "isdir", noted)
    streamlink_fl.warn_of_clash()
    assert asked == [str(ROOT / "streamlink_cli")]


@pytest.mark.processes
def test_the_video_tool_of_today_is_known(environment: Environment, ours: Path) -> None:
    """The stand-in is like it: the real one, from the index, without what it needs."""
    environment.install(ours)
    try:
        environment.pip("install", "--no-deps", "--no-compile", "streamlink")
    except subprocess.CalledProcessError:
        pytest.skip("no package index can be reached")
    done = environment.run("streamlink-fl", "--version")
    assert done.returncode == 2
    assert "finds the video tool of that name" in done.stderr


def test_no_text_of_ours_recommends_the_other(ours: Path) -> None:
    with zipfile.ZipFile(ours) as wheel:
        texts = {name: wheel.read(name).decode("utf-8", "replace") for name in wheel.namelist()}
    for path in (ROOT / "README.md", *ROOT.glob("docs/*.md"), *ROOT.glob("examples/**/*.*")):
        if path.suffix in {".md", ".py"}:
            texts[str(path)] = path.read_text("utf-8")
    wrong = ("streamlink[", "install streamlink ", "install 'streamlink'", "install streamlink`")
    assert not {name for name, text in texts.items() for each in wrong if each in text}

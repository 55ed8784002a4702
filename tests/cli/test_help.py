"""The help: every setting with its unit and default, readable at 80 columns; and completion."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from pydantic.fields import FieldInfo
from typer.testing import CliRunner

from streamlink.cli import app
from streamlink.cli.help import described
from streamlink.config import JobConfig, parse_size
from tests.support.commands import REPOSITORY, environment

SECTIONS = {name: type(field.default) for name, field in JobConfig.model_fields.items()}
FIELDS = {
    f"{section}.{key}": field
    for section, keys in SECTIONS.items()
    for key, field in keys.model_fields.items()
}
LINK = [name for name in FIELDS if not name.startswith("rounds.")]
JOB = list(FIELDS)
COMMANDS = [
    *(("server", JOB), ("simulate", JOB), ("mpi", JOB)),
    *(("client", LINK), ("send", LINK), ("receive", LINK), ("serve", LINK), ("fetch", LINK)),
    ("probe", LINK),
]

PROGRAM = 'import sys; sys.argv[0] = "streamlink"; from streamlink.cli import main; main()'


def help_of(*command: str) -> str:
    shown = CliRunner().invoke(app, [*command, "--help"], env={"COLUMNS": "80"})
    assert shown.exit_code == 0, shown.output
    return shown.stdout


def row(name: str, text: str) -> str:
    """Return the row of one setting: from its flag or its name to the next one."""
    key = name.partition(".")[2]
    own = rf"--{key.replace('_', '-')}(?= )|{re.escape(name)}="
    found = re.search(rf"^  (?:{own}).*(?:\n {{10,}}.*)*", text, re.MULTILINE)
    assert found, name
    return " ".join(found[0].split())


@pytest.mark.parametrize(("command", "names"), COMMANDS)
def test_every_setting_is_in_the_help_with_its_text_and_default(
    command: str, names: list[str]
) -> None:
    settings = help_of(command).partition("\nSettings:\n")[2]
    for name in names:
        shown, field = row(name, settings), FIELDS[name]
        assert " ".join((field.description or "").replace("``", "").split()) in shown
        default = re.search(r"\[default: (.*)\]$", shown)
        assert default, name
        assert as_given(default[1], name) == field.default, name
        if field.default == ():
            assert default[1] == ("all" if name == "rounds.part" else "none")


def as_given(default: str, name: str) -> object:
    """Return what a setting is where its default is written as the help shows it."""
    if default in ("none", "all") and default != FIELDS[name].default:
        return () if FIELDS[name].default == () else None
    config = JobConfig.assemble(settings=[f"{name}={default}"])
    section, _, key = name.partition(".")
    return getattr(getattr(config, section), key)


def test_who_does_not_look_at_the_rules_of_a_round_does_not_list_them() -> None:
    for command in ("client", "send", "receive"):
        assert "rounds (" not in help_of(command)


@pytest.mark.parametrize("name", [each for each, field in FIELDS.items() if field.default != ()])
def test_every_number_has_a_unit(name: str) -> None:
    field: FieldInfo = FIELDS[name]
    if isinstance(field.default, int | float) and not isinstance(field.default, bool):
        units = r"\((bytes|seconds|count|PEM file|the (?:metric|model)'s unit)\)|^Number of"
        assert re.search(units, field.description or ""), name


def test_a_size_in_the_help_is_one_that_can_be_given() -> None:
    for _, _, settings in described():
        for each in settings:
            if each.metavar == "SIZE":
                JobConfig.assemble(settings=[f"{each.name}={FIELDS[each.name].default}B"])
                default = each.help.rpartition("[default: ")[2].rstrip("]")
                assert parse_size(default) == FIELDS[each.name].default


@pytest.mark.parametrize("command", [name for name, _ in COMMANDS])
def test_the_help_fits_80_columns(command: str) -> None:
    assert max(map(len, help_of(command).splitlines())) <= 80


def test_commands_without_settings_have_no_such_heading() -> None:
    for command in ("inspect", "export", "status", "abort", "certs"):
        assert "Settings" not in help_of(command)


@pytest.mark.processes
@pytest.mark.parametrize(
    ("typed", "found"),
    [("ser", "server"), ("server --stream", "--streaming-read-timeout")],
)
@pytest.mark.parametrize("run", [("-c", PROGRAM), ("-m", "streamlink")], ids=["command", "module"])
def test_the_shell_completes_commands_and_flags(
    run: tuple[str, str], typed: str, found: str
) -> None:
    words = f"streamlink {typed}"
    asked = {"COMP_WORDS": words, "COMP_CWORD": str(words.count(" "))}
    done = subprocess.run(
        [sys.executable, *run],
        env={**environment(), **asked, "_STREAMLINK_COMPLETE": "complete_bash"},
        capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip
    assert found in done.stdout.split()


@pytest.mark.processes
def test_completion_is_installed_by_one_command(tmp_path: Path) -> None:
    # The first command of the list keeps bash from replacing itself: its name is looked for.
    done = subprocess.run(
        ["bash", "-c", f"{sys.executable} -c '{PROGRAM}' --install-completion; exit $?"],
        env={**environment(), "HOME": str(tmp_path), "PATH": os.environ["PATH"]},
        capture_output=True, text=True, check=False, timeout=300, cwd=REPOSITORY,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "bash completion installed in" in done.stdout
    scripts = [each for each in tmp_path.rglob("*") if each.is_file()]
    assert any("streamlink" in each.read_text() for each in scripts)

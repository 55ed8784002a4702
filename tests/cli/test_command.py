"""The command line: settings from every place, stores, errors as one line, exit codes."""

from __future__ import annotations

import json
import logging
import re
import shutil
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError
from typer.testing import CliRunner

from streamlink import (
    Client,
    ScatterAndGather,
    Server,
    StreamingExecutor,
    __version__,
    copy_model,
    digest_of,
    open_model,
    open_store,
    serve,
)
from streamlink.cli import app
from streamlink.cli.settings import LINK, ROUNDS, config_from, spelled
from streamlink.config import JobConfig, RoundConfig
from streamlink.errors import ModelError
from streamlink.stores import ArrayModel, MemoryStore
from tests.support.commands import Command, environment, streamlink
from tests.support.models import float_spec, pattern_model

ABSENT = "127.0.0.1:1"  # nobody listens on port 1 without being root and meaning it

TASKS = """
import numpy as np
def add(tensor, start, values): return values + np.float32(1)
def fail(tensor, start, values): raise RuntimeError("boom")
def refuse(name): raise OSError(f"no GPU for {name}")
def wrong(name): return 3
number = 3
"""


class Outcome:
    """What a command printed, and its exit code."""

    def __init__(self, *words: object) -> None:
        result = CliRunner().invoke(app, [str(word) for word in words])
        assert result.exception is None or isinstance(result.exception, SystemExit), (
            result.exception
        )
        self.code, self.out, self.err = result.exit_code, result.stdout, result.stderr

    @property
    def error(self) -> str:
        """The one line that says what is wrong."""
        assert self.code in (1, 2), (self.code, self.out, self.err)
        logged = re.compile(r"\S+ \S+ (INFO|WARNING) ")  # of a server in this very process, too
        lines = [line for line in self.err.splitlines() if not logged.match(line)]
        assert len(lines) == 1, self.err
        assert lines[0].startswith("error: ")
        return lines[0].removeprefix("error: ")


@pytest.fixture(autouse=True)
def _log_is_left_as_it_was() -> Iterator[None]:
    logger = logging.getLogger("streamlink")
    level = logger.level
    yield
    for output in logger.handlers[:]:
        logger.removeHandler(output)
        output.close()
    logger.setLevel(level)


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder: ``tasks.py``, a safetensors store ``g``, a compressed ``z.slz``."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    (tmp_path / "tasks.py").write_text(TASKS)
    fill(tmp_path / "g")
    fill(tmp_path / "z.slz", "zstd")
    return tmp_path


def fill(path: Path, compress: Any = "none", seed: int = 0, *sizes: int) -> None:
    model = pattern_model(float_spec(*sizes or (300_000, 5)), seed)
    copy_model(model, open_store(path, compress).begin(model.spec))


def words(text: str) -> str:
    return " ".join(text.split())


# --- help and version -------------------------------------------------------


def test_the_version_is_the_packages() -> None:
    assert Outcome("--version").out == f"streamlink-fl {__version__}\n"


@pytest.mark.parametrize("name", [*LINK, *ROUNDS])
def test_a_flags_help_is_its_settings_docstring(name: str) -> None:
    section, _, key = name.partition(".")
    described = JobConfig.model_fields[section].default.__class__.model_fields[key].description
    shown = words(Outcome("server", "--help").out)
    assert f"--{key.replace('_', '-')}" in shown
    assert words(described or "").replace("``", "") in shown


def test_help_gives_defaults_and_units() -> None:
    shown = words(Outcome("server", "--help").out)
    assert "--streaming-ack-wait SECONDS" in shown
    assert "(seconds). [default: 300]" in shown
    assert "--chunk-bytes SIZE" in shown
    assert "[default: 2MiB]" in shown


# --- settings ---------------------------------------------------------------

KEY = "timeouts.open_timeout"


@given(layers=st.tuples(*[st.none() | st.integers(1, 900)] * 3))
def test_what_is_more_particular_wins(
    layers: tuple[int | None, ...], tmp_path_factory: pytest.TempPathFactory
) -> None:
    in_file, in_set, as_flag = layers
    file = tmp_path_factory.getbasetemp() / "layers.yaml"
    file.write_text("" if in_file is None else f"timeouts:\n  open_timeout: {in_file}\n")
    settings = [] if in_set is None else [f"{KEY}={in_set}"]
    config = JobConfig.assemble(file, settings, {KEY: as_flag})
    expected = next((x for x in (as_flag, in_set, in_file) if x is not None), 30.0)
    assert config.timeouts.open_timeout == expected


def test_flags_win_over_set_and_set_over_the_file(tmp_path: Path) -> None:
    file = tmp_path / "job.yaml"
    file.write_text(
        "stream:\n  chunk_bytes: 1MiB\n  window_bytes: 8MiB\nrounds:\n  num_rounds: 9\n"
    )
    given = dict.fromkeys((name.partition(".")[2] for name in (*LINK, *ROUNDS)), None)
    told = {**given, "config": file, "set": ["stream.chunk_bytes=64KiB"], "window_bytes": "3MB"}
    config = config_from((*LINK, *ROUNDS), told)
    assert (config.stream.chunk_bytes, config.stream.window_bytes) == (64 << 10, 3_000_000)
    assert config.rounds.num_rounds == 9


def test_a_section_with_nothing_under_it_is_empty(tmp_path: Path) -> None:
    file = tmp_path / "job.yaml"
    file.write_text("timeouts:\nstream:\n  chunk_bytes: 4MiB\n")
    assert JobConfig.assemble(file).stream.chunk_bytes == 4 << 20


def test_a_job_config_serves_as_a_links() -> None:
    config = JobConfig.assemble(settings=["rounds.min_clients=1", "grpc.max_clients=3"])
    assert config.grpc.max_clients == 3
    with pytest.raises(ValidationError, match="frozen"):
        config.rounds = RoundConfig()  # type: ignore[misc]


def test_settings_can_be_spelled_for_another_process() -> None:
    config = JobConfig.assemble(
        settings=["stream.chunk_bytes=1MiB", "rounds.train_task_name=a=b c", f"{KEY}=1.5"]
    )
    spelling = spelled(config)
    assert spelling[::2] == ["--set"] * 3
    assert JobConfig.assemble(settings=spelling[1::2]) == config


BAD_YAML = [
    ("timeouts:\n  opn_timeout: 3\n", "no setting 'timeouts.opn_timeout'; did you mean " + KEY),
    ("timeout:\n  open_timeout: 3\n", "no setting 'timeout'; the sections are stream, timeouts"),
    ("rounds:\n  open_timeout: 3\n", "no setting 'rounds.open_timeout'; did you mean " + KEY),
    ("timeouts: 3\n", "timeouts: expected keys and values, found 3"),
    ("- 3\n", "expected a mapping of settings, found list"),
    ("a: [\n", "this is not YAML: while parsing"),
    ("\ufeff\x00", "this is not YAML"),
    ("stream:\n  chunk_bytes: 4 bananas\n", "stream.chunk_bytes: '4 bananas' is not a size"),
    ("stream:\n  window_bytes: 64KiB\n", "must hold at least one chunk"),
    ("rounds:\n  min_clients: 0\n", "rounds.min_clients: input should be greater than or equal"),
]


@pytest.mark.parametrize(("text", "sentence"), BAD_YAML, ids=range(len(BAD_YAML)))
def test_a_fault_in_the_file_is_one_line_that_names_the_key(
    place: Path, text: str, sentence: str
) -> None:
    (place / "job.yaml").write_text(text)
    assert sentence in Outcome("server", "--store", "g", "--config", "job.yaml").error


def test_each_fault_of_a_file_has_a_line_with_the_name_of_the_file(place: Path) -> None:
    (place / "job.yaml").write_text(
        "timeouts:\n  open_timeout: soon\n  opn_timeout: 3\nrounds:\n  min_clients: 0\n"
    )
    options = ["--config", "job.yaml", "--min-clients", "-1", "--set", "stream.chunks=3"]
    outcome = Outcome("server", "--store", "g", *options)
    assert outcome.code == 2
    assert sorted(line[:40] for line in outcome.err.splitlines()) == [
        "error: job.yaml: there is no setting 'ti",
        "error: job.yaml: timeouts.open_timeout: ",
        "error: rounds.min_clients: input should ",  # the flag replaces the file's value
        "error: there is no setting 'stream.chunk",
    ]


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--set", "chunk_bytes=3"], "names no section; write it as stream.chunk_bytes=value"),
        (["--set", "chunks=3"], "'chunks' names no section; write it as section.key=value"),
        (["--set", "stream.chunk_bytes"], "is not of the form section.key=value"),
        (["--set", "stream.chunks=3"], "there is no setting 'stream.chunks'"),
        (["--set", "a.b=3"], "there is no setting 'a'; the sections are"),
        (["--chunk-bytes", "many"], "'many' is not a size; write it as 2GB"),
        (["--train-timeout", "soon"], "rounds.train_timeout: input should be a valid number"),
        (["--num-rounds", "0"], "rounds.num_rounds: input should be greater than or equal to 1"),
        (["--config", "nowhere.yaml"], "nowhere.yaml: No such file or directory"),
        (["--log-level", "loud"], "--log-level is one of debug, info, warning, error"),
        (["--log-file", "tasks.py/log"], "tasks.py: "),
        (["--listen", "nowhere"], "--listen 'nowhere' is not of the form HOST:PORT or unix:PATH"),
        (["--listen", f"unix:{'x' * 120}"], "too long for a Unix socket: 120 bytes of at most 107"),
        (["--metrics", "unix:x", "--listen", "127.0.0.1:0"], "--metrics 'unix:x' is a Unix socket"),
        (["--listen", "localhost:99999"], "is not of the form HOST:PORT"),
        (["--compress", "lzma"], "--compress is none or zstd, not 'lzma'"),
    ],
)
def test_a_bad_option_of_the_server_is_one_line(
    place: Path, options: list[str], sentence: str
) -> None:
    outcome = Outcome("server", "--store", "g", *options)
    assert sentence in outcome.error
    assert outcome.code == 2


ROOM = "the server admits at most grpc.max_clients = 16 clients at once; raise grpc.max_clients to"


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--min-clients", "20", "--set", "grpc.max_clients=16"], f"min_clients is 20, but {ROOM}"),
        (["--wait-for-clients", "17", "--set", "grpc.max_clients=16"], f"is 17, but {ROOM} 17"),
        (["--min-clients", "5000"], "rounds.min_clients: input should be less than or equal to"),
        (["--part", "t0,x*"], "rounds.part (--part): no tensor's name matches the pattern 'x*'"),
    ],
)
@pytest.mark.parametrize("command", ["server", "simulate"])
def test_a_job_that_cannot_work_is_refused_before_anything_listens(
    place: Path, command: str, options: list[str], sentence: str
) -> None:
    own = ["--task", "tasks.py:add", "--clients", "20"] if command == "simulate" else []
    if command == "simulate" and options[-1] == "grpc.max_clients=16":
        sentence = "grpc.max_clients is 16; --clients 20 is more"
    with socket.create_server(("127.0.0.1", 0)) as taken:  # nobody gets as far as to find it so
        port = taken.getsockname()[1]
        own = own or ["--listen", f"127.0.0.1:{port}"]
        outcome = Outcome(command, "--store", "g", *own, *options)
    assert sentence in outcome.error
    assert outcome.code == 2


def test_a_server_admits_as_many_clients_as_its_job_waits_for(place: Path) -> None:
    server = ["--listen", "127.0.0.1:0", "--set", "rounds.wait_for_clients_seconds=0.1"]
    outcome = Outcome("server", "--store", "g", "--min-clients", "20", *server)
    assert "0 of 20 clients came" in outcome.error  # it listened, and had room for them


# --- stores -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "how"),
    [
        (["--store", "none"], "streamlink export FROM none"),
        (["--store", "none.slz"], "streamlink export FROM none.slz --compress zstd"),
        (["--store", "g", "--compress", "zstd"], "streamlink export FROM g --compress zstd"),
    ],
)
def test_a_server_without_a_model_says_how_to_make_one(
    place: Path, options: list[str], how: str
) -> None:
    error = Outcome("server", *options).error
    assert "there is no model here" in error
    assert error.endswith(how)


def test_a_single_file_cannot_be_a_servers_store(place: Path) -> None:
    (place / "m.safetensors").write_bytes(b"x")
    error = Outcome("server", "--store", "m.safetensors").error
    assert "name a directory" in error


@pytest.mark.parametrize("command", ["inspect", "export"])
@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        ("absent", None, "there is no model here"),
        ("text.txt", b"this is no model at all", "not a safetensors file"),
        ("short", b"12", "2 bytes are too few for a safetensors"),
        ("packed.slz", b"STREAMLZ" + bytes(500), "packed.slz"),
    ],
)
def test_what_is_no_model_is_refused_in_one_line(
    place: Path, command: str, name: str, content: bytes | None, sentence: str
) -> None:
    if content is not None:
        (place / name).write_bytes(content)
    outcome = Outcome(command, name, *(["new"] if command == "export" else []))
    assert sentence in outcome.error
    assert not (place / "new").exists()


def test_a_truncated_model_is_noticed_by_its_header(place: Path) -> None:
    shard = next((place / "g").glob("*.safetensors"))
    shard.write_bytes(shard.read_bytes()[:-100])
    assert "the file was cut short" in Outcome("inspect", "g").error


def test_a_changed_byte_is_found_by_reading_everything(place: Path) -> None:
    shard = next((place / "g").glob("*.safetensors"))
    data = bytearray(shard.read_bytes())
    data[-600_000] ^= 1
    shard.write_bytes(data)
    assert Outcome("inspect", "g").code == 0  # a look at the header cannot know
    assert "tensor 't0'" in Outcome("inspect", "g", "--verify").error


# --- inspect ----------------------------------------------------------------


def test_inspect_tells_names_dtypes_shapes_sizes_and_digest(place: Path) -> None:
    outcome = Outcome("inspect", "g")
    digest = digest_of(open_model(place / "g"))
    assert outcome.out.splitlines() == [
        "g",
        "  t0  F32  300000  1.20 MB",
        "  t1  F32       5     20 B",
        "total: 2 tensors, 300005 elements, 1200020 bytes (1.20 MB)",
        f"digest: {digest}",
        "covers: tensors alone",
    ]


def beside(place: Path, name: str, **files: str) -> str:
    """Give the model ``g`` a twin of that name, with small files."""
    shutil.copytree(place / "g", place / name)
    for key, text in files.items():
        (place / name / f"{key}.json").write_text(text)
    return name


def test_inspect_and_export_tell_what_a_digest_covers(place: Path) -> None:
    name = beside(place, "whole", config="{}", tokenizer="{}")
    assert "\ncovers: tensors and 2 small files\n" in Outcome("inspect", name).out
    assert "\ncovers: tensors alone\n" in Outcome("inspect", "z.slz").out
    assert "\ncovers: tensors and 2 small files\n" in Outcome("export", name, "copy").out
    packed = Outcome("export", name, "packed.slz").out
    assert f"digest {digest_of(place / 'g')}\ncovers: tensors alone\n" in packed


def test_models_with_other_small_files_differ(place: Path) -> None:
    first = beside(place, "first", config="{}", tokenizer="{}")
    second = beside(place, "second", config='{"a": 1}', vocab="{}")
    outcome = Outcome("inspect", first, second)
    assert outcome.code == 1
    assert outcome.out.splitlines()[-3:] == [
        "different file: config.json",
        "file only in the first model: tokenizer.json",
        "file only in the second model: vocab.json",
    ]


@pytest.mark.parametrize("options", [(), ("--verify",)])
def test_a_model_without_the_small_files_of_another_is_not_equal(
    place: Path, options: tuple[str, ...]
) -> None:
    outcome = Outcome("inspect", beside(place, "whole", config="{}"), "g", *options)
    assert outcome.code == 1
    assert outcome.out.splitlines()[-1] == "file only in the first model: config.json"


def test_a_compressed_file_is_compared_by_its_tensors_which_is_told(place: Path) -> None:
    outcome = Outcome("inspect", beside(place, "whole", config="{}"), "z.slz")
    assert outcome.code == 0
    assert outcome.out.splitlines()[-1] == (
        "the tensors are equal; z.slz cannot hold the small files of whole"
    )


def test_too_many_small_files_are_refused_with_what_can_be_done(place: Path) -> None:
    name = beside(place, "many", **{f"{number}_config": "{}" for number in range(65)})
    with pytest.raises(ModelError, match=r"\(at most 64, .*leave them out \(files=False"):
        digest_of(place / name)
    assert "export --no-files" in Outcome("export", name, "copy").error
    assert Outcome("export", name, "copy", "--no-files").code == 0
    shown = Outcome("inspect", name, "--verify")
    assert (shown.code, "covers: tensors alone" in shown.out) == (0, True)


def test_a_long_list_is_shortened_unless_all_of_it_is_wanted(place: Path) -> None:
    fill(place / "many", "none", 0, *range(1, 41))
    short, full = Outcome("inspect", "many").out, Outcome("inspect", "many", "--all").out
    assert "... 24 more (--all lists them)" in short
    assert ("t11 " in short, "t12 " in short, "t35 " in short, "t36 " in short) == (
        True, False, False, True,
    )  # fmt: skip
    assert all(f"t{number} " in full for number in range(40))


def test_a_model_without_stored_leaves_has_its_digest_told_by_verify(place: Path) -> None:
    ours = next((place / "g").glob("*.safetensors")).rename(place / "plain.safetensors")
    assert "digest: not stored; --verify" in Outcome("inspect", ours).out
    verified = Outcome("inspect", ours, "--verify").out
    assert (
        f"digest: {digest_of(open_model(ours))}\ncovers: tensors alone\nread: every byte"
        in verified
    )


def test_a_model_with_stored_leaves_is_verified_against_them(place: Path) -> None:
    assert "verified: every byte is what was stored" in Outcome("inspect", "z", "--verify").out


def test_equal_models_are_equal_however_they_are_stored(place: Path) -> None:
    outcome = Outcome("inspect", "g", "z.slz")
    assert outcome.out.splitlines()[-1] == "the models are equal"
    assert outcome.code == 0


def test_other_values_are_named_and_end_with_1(place: Path) -> None:
    fill(place / "other", "zstd", 1)
    outcome = Outcome("inspect", "g", "other")
    assert outcome.code == 1
    assert outcome.out.splitlines()[-2:] == [
        "different values: t0: 300000 elements differ, the first at byte 0",
        "different values: t1: 5 elements differ, the first at byte 0",
    ]


def test_other_tensors_are_named_and_end_with_1(place: Path) -> None:
    fill(place / "other", "none", 0, 300_000, 6)
    outcome = Outcome("inspect", "g", "other")
    assert outcome.code == 1
    assert (
        "differs in shape: the first model has (5,), the second (6,)"
        in outcome.out.splitlines()[-1]
    )


def test_a_name_with_control_characters_does_not_reach_the_terminal(place: Path) -> None:
    model = ArrayModel({"a\x1b[2Jb": np.zeros(1, np.float32)})
    copy_model(model, open_store(place / "odd").begin(model.spec))
    out = Outcome("inspect", "odd").out
    assert "\x1b" not in out
    assert "a\\x1b[2Jb" in out


def test_a_compressed_copy_of_a_model_with_small_files_is_told_with_both_digests(
    place: Path,
) -> None:
    whole, port = place / beside(place, "whole", config="{}"), Future[int]()
    with ThreadPoolExecutor(1) as pool:
        served = pool.submit(serve, whole, "127.0.0.1:0", count=1, on_listening=port.set_result)
        got = Outcome("fetch", f"127.0.0.1:{port.result(60)}", "got.slz")
        assert served.result(60) == 1
    whole_digest, own = digest_of(whole), digest_of(place / "got.slz")
    assert got.out.splitlines()[-2:] == [
        f"digest {whole_digest}",
        f"covers: tensors and small files; the tensors alone, as stored, have {own}",
    ]


# --- export -----------------------------------------------------------------


def test_export_packs_and_unpacks_without_changing_anything(place: Path) -> None:
    assert Outcome("export", "g", "packed.slz").code == 0
    outcome = Outcome("export", "packed", "plain")
    assert outcome.code == 0
    assert digest_of(open_model(place / "plain")) == digest_of(open_model(place / "g"))
    assert (place / "packed.slz").stat().st_size < 300_000
    assert "plain: 1.20 MB stored as 1.20 MB (100.0%)" in outcome.out


def test_export_replaces_a_model_only_by_force(place: Path) -> None:
    fill(place / "other", "none", 7)
    before = digest_of(open_model(place / "g"))
    assert "g holds a model already; add --force" in Outcome("export", "other", "g").error
    assert digest_of(open_model(place / "g")) == before
    assert Outcome("export", "other", "g", "--force").code == 0
    assert digest_of(open_model(place / "g")) == digest_of(open_model(place / "other"))


def test_an_export_that_fails_in_the_middle_leaves_what_was_there(place: Path) -> None:
    shard = next((place / "g").glob("*.safetensors"))
    data = bytearray(shard.read_bytes())
    data[-1] ^= 1  # in the last block: most is written before it is read
    shard.write_bytes(data)
    before = {path: path.read_bytes() for path in place.glob("z*")}
    assert "t1" in Outcome("export", "g", "z.slz", "--force").error
    assert {path: path.read_bytes() for path in place.glob("z*")} == before


@pytest.mark.processes
def test_a_disk_that_is_too_small_is_said_in_one_line(place: Path) -> None:
    limit = "import resource as r; r.setrlimit(r.RLIMIT_FSIZE, (500_000, 500_000))\n"
    program = f"{limit}from streamlink.cli import main; main()"
    command = [sys.executable, "-c", program, "export", "z", "new"]
    done = subprocess.run(command, capture_output=True, text=True, env=environment(), cwd=place)
    assert done.returncode == 2
    assert re.fullmatch(r"error: new: no room while .*\n", done.stderr)
    assert not (place / "new").exists()


# --- the client's work ------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ([], "give either --task FILE.py:function or --executor FILE.py:factory"),
        (["--task", "tasks.py:add", "--executor", "tasks.py:wrong"], "give either --task"),
        (["--task", "tasks.py"], "--task 'tasks.py' is not of the form FILE.py:name"),
        (["--task", "absent.py:add"], "absent.py: there is no such file"),
        (["--task", "tasks.py:sub"], "--task: tasks.py has no function 'sub'"),
        (["--task", "tasks.py:number"], "something that is no function called 'number'"),
        (["--task", "no.such.module:f"], "importing no.such.module raised ModuleNotFoundError"),
        (["--task", "broken.py:f"], "--task: importing broken.py raised SyntaxError"),
        (["--task", "imports.py:f"], "raised KeyError: 'k' ({place}/helper.py, line 3, in look)"),
        (["--task", "absence.py:f"], "No module named 'nowhere' ({place}/absence.py, line 2)"),
        (["--executor", "tasks.py:refuse"], "no GPU for site-1 ({place}/tasks.py, line 5, in "),
        (["--executor", "tasks.py:wrong"], "returned int, which has no method execute"),
        (["--executor", "tasks.py:wrong", "--weight", "2"], "--weight needs --task"),
        (["--task", "tasks:add", "--weight", "nan"], "--weight is nan; a weight is 0"),
    ],
)
def test_work_that_cannot_be_used_is_one_line(
    place: Path, options: list[str], sentence: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (place / "broken.py").write_text("def f(:\n")
    (place / "imports.py").write_text("from helper import x\n")
    (place / "helper.py").write_text("import os\ndef look():\n    return {}['k']\nx = look()\n")
    (place / "absence.py").write_text("import os\nimport nowhere\n")
    monkeypatch.delitem(sys.modules, "helper", raising=False)
    error = Outcome("client", "--server", ABSENT, "--name", "site-1", *options).error
    assert sentence.format(place=place) in error


def test_an_absent_server_is_one_line_that_names_the_setting(place: Path) -> None:
    options = ["--task", "tasks:add", "--set", "timeouts.connect_timeout=0.2"]
    outcome = Outcome("client", "--server", ABSENT, "--name", "site-1", *options)
    assert f"no server answers at {ABSENT} within 0.2 s (connect_timeout)" in outcome.error
    assert outcome.code == 2


def test_debug_adds_the_traceback(place: Path) -> None:
    outcome = Outcome("inspect", "absent", "--log-level", "debug")
    assert "Traceback (most recent call last)" in outcome.err
    assert outcome.err.splitlines()[-1] == "error: absent: there is no model here"


def test_a_taken_name_is_refused_in_one_line(place: Path) -> None:
    with Server() as server:
        address = f"127.0.0.1:{server.port}"
        with Client(address, "site-1", StreamingExecutor(lambda tensor, start, values: values)):
            options = ["--name", "site-1", "--task", "tasks.py:add"]
            for name, seconds in (("connect", 1), ("session", 0.4)):
                options += ["--set", f"timeouts.{name}_timeout={seconds}"]
            options += ["--set", "timeouts.heartbeat_interval=0.2"]
            outcome = Outcome("client", "--server", address, *options)
    assert "a client named 'site-1' is already connected" in outcome.error
    assert outcome.code == 2


def test_a_taken_port_is_one_line(place: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        outcome = Outcome("server", "--store", "g", "--listen", address)
    assert f"cannot listen on {address}" in outcome.error
    assert outcome.code == 2


def test_too_few_clients_are_a_failed_job(place: Path) -> None:
    options = ["--listen", "127.0.0.1:0", "--set", "rounds.wait_for_clients_seconds=0.1"]
    outcome = Outcome("server", "--store", "g", *options)
    assert "0 of 2 clients came within 0.1 s" in outcome.error
    assert outcome.code == 1


# --- a job ------------------------------------------------------------------


@pytest.mark.processes(quick=True)
def test_a_server_and_a_client_run_a_job_from_the_command_line(place: Path) -> None:
    initial = pattern_model(float_spec(300_000, 5))
    server = streamlink(
        "server", "--store", "z", "--listen", "127.0.0.1:0", "--min-clients", 1,
        "--num-rounds", 2, "--start-round", 5, "--job", "own", "--json-logs",
    )  # fmt: skip
    with Command(server, place) as running:
        port = running.until(r"listening on 127.0.0.1:(\d+)")[1]
        work = ["--name", "site 1", "--task", "tasks.py:add", "--log-file", "c.log"]
        outcome = Outcome("client", "--server", f"127.0.0.1:{port}", *work)
        assert running.end() == 0
    assert outcome.code == 0
    lines = [json.loads(line) for line in running.log.splitlines()]
    done = [line for line in lines if line["message"] == "transfer done"]
    # Within a round the two ends may be noticed in either order.
    assert sorted((each["round"], each["direction"]) for each in done) == [
        (5, "received"), (5, "sent"), (6, "received"), (6, "sent"),
    ]  # fmt: skip
    assert {each["bytes"] for each in done} == {1_200_020}
    assert running.output.startswith("2 rounds in ")
    assert "transfer done → server round=6 attempt=1 bytes=1200020" in outcome.err
    assert outcome.err.splitlines()[0] == (place / "c.log").read_text().splitlines()[0]
    begun, ended = (np.frombuffer(first_values(m), "<f4") for m in (initial, open_model("z")))
    with np.errstate(invalid="ignore"):
        np.testing.assert_array_equal(ended, begun + np.float32(1) + np.float32(1))


def first_values(model: Any) -> bytes:
    return b"".join(model.read(0, 4096))


def test_a_task_that_raises_tells_its_traceback_to_the_server_and_the_round_goes_on(
    caplog: pytest.LogCaptureFixture,
) -> None:
    store = MemoryStore({"w": np.zeros(100_000, np.float32)})

    def boom(tensor: Any, start: int, values: Any) -> Any:
        raise RuntimeError("boom\nINFO forged")

    with Server() as server:
        for name, task in (("bad", boom), ("good", lambda tensor, start, values: values + 1)):
            client = Client(f"127.0.0.1:{server.port}", name, StreamingExecutor(task))
            threading.Thread(target=client.run, daemon=True).start()
        server.wait_for_peers(2, 60)
        rules = RoundConfig(min_clients=1, num_rounds=1)
        (report,) = ScatterAndGather(server, store, rules).run()
    told = [r.getMessage() for r in caplog.records if r.name == "streamlink.rounds"]
    assert "bad: the task raised RuntimeError: boom\nINFO forged" in told
    assert any(line.startswith("bad: | ") and "in boom" in line for line in told)
    assert list(report.weights) == ["good"]
    assert "boom" in report.failures["bad"]

"""Settings from every place: flags, ``--set``, files, defaults; each fault is one line."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from streamlink.cli.settings import LINK, ROUNDS, config_from, spelled
from streamlink.config import JobConfig, RoundConfig
from tests.support.invoked import Outcome

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
        sentence = "grpc.max_clients is 16, and there are 20 clients (--clients)"
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

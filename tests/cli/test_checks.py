"""``--check``: everything that was given is looked at, and nothing listens, connects or changes."""

from __future__ import annotations

import socket
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from streamlink.certs import make_certificates
from streamlink.cli import app
from streamlink.stores import open_store
from tests.support.models import float_spec, pattern_model, save

TASKS = """
from pathlib import Path
def add(tensor, start, values): return values
def factory(name): Path("made").write_text(name)
"""

SERVER = ["server", "--store", "g"]
CLIENT = ["client", "--server", "127.0.0.1:1", "--name", "site-1"]
WORK = ["--task", "tasks.py:add"]
ADAM = ["--aggregator", "fedadam"]
JUDGED = ["--best-metric", "accuracy", "--evaluate-every", "1"]
SIMULATE = ["simulate", "--store", "g", *WORK]
SEND = ["send", "g", "127.0.0.1:1"]
RECEIVE = ["receive", "new"]
SERVE = ["serve", "g"]
FETCH = ["fetch", "127.0.0.1:1", "new"]
PROBE = ["probe", "127.0.0.1:1"]


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The working folder: ``tasks.py``, a store ``g``, certificates for two in ``c``."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    (tmp_path / "tasks.py").write_text(TASKS)
    save(open_store(tmp_path / "g"), pattern_model(float_spec(300, 5)))
    make_certificates(tmp_path / "c", ["localhost"], ["site-1"], days=1)
    before = content(tmp_path)
    yield tmp_path
    assert content(tmp_path) == before


def content(folder: Path) -> dict[Path, tuple[int, bytes] | None]:
    """What is in every file and when it was written; directories have their names only."""
    found = [each for each in folder.rglob("*") if not each.name.startswith("given")]
    return {
        each: (each.stat().st_mtime_ns, each.read_bytes()) if each.is_file() else None
        for each in found
    }


def check(*words: object) -> tuple[int, str, str]:
    result = CliRunner().invoke(app, [*map(str, words), "--check"])
    errors = [line for line in result.stderr.splitlines() if line.startswith("error: ")]
    assert len(errors) == (result.exit_code != 0), result.stderr
    return result.exit_code, result.stdout, errors[0] if errors else ""


LEFT_IN = ["--set", "stream.lossy_up=*=int8", "--set"]
TLS = ["--certificate", "c/server/certificate.pem", "--key", "c/server/key.pem"]
SITE = ["--ca", "c/site-1/ca.pem", "--token", "c/site-1/token"]


@pytest.mark.parametrize(
    "words",
    [
        SERVER,
        [*SERVER, "--part", "t1", "--spool", "spool", "--min-clients", "20", "--resume"],
        [*SERVER, "--listen", "0.0.0.0:8517", *TLS, "--tokens", "c/server/tokens.yaml"],
        [*SERVER, "--best", "b.slz", "--best-metric", "accuracy", "--evaluate-every", "1"],
        [*SERVER, "--schedules", "lr=cosine:start=0.1,rounds=9;batch=constant:value=32"],
        [*SERVER, "--listen", "unix:socket", "--metrics", "127.0.0.1:0", "--control", "none"],
        [*CLIENT, *WORK],
        [*CLIENT, *SITE, "--executor", "tasks.py:factory"],
        [*SIMULATE, "--clients", "20", "--report", "r.json"],
        SEND,
        [*SEND, "--server-name", "localhost"],
        RECEIVE,
        [*RECEIVE, "--compress", "zstd", "--listen", "127.0.0.1:0"],
        SERVE,
        [*SERVE, "--listen", "0.0.0.0:8470", *TLS, "--count", "3", "--control", "none"],
        FETCH,
        [*FETCH, "--compress", "zstd", *SITE, "--name", "site-1"],
        [*PROBE, *SITE, "--name", "site-1", "--model", "g", "--output", "line.yaml"],
        ["probe", "--listen", "0.0.0.0:8470", *TLS],
        [*SERVER, "--log-file", "logs/of/it.log"],
        [*SEND, "--log-file", "tasks.py"],
    ],
)
def test_what_can_be_used_passes_and_nothing_is_changed(place: Path, words: list[str]) -> None:
    assert check(*words) == (0, "checked: all options and files can be used\n", "")


def test_nothing_listens_and_nothing_connects(place: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        taken.setblocking(False)
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        for words in (SERVER, RECEIVE, SERVE):
            assert check(*words, "--listen", address)[0] == 0  # a server could not listen there
        for words in (["send", "g", address], ["fetch", address, "new"]):
            assert check(*words)[0] == 0
        assert check(*CLIENT, *WORK, "--server", address)[0] == 0
        with pytest.raises(BlockingIOError):
            taken.accept()


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ([*SERVER, "--config", "given.yaml"], "did you mean timeouts.open_timeout?"),
        ([*SERVER, "--set", "grpc.max_clients=0"], "grpc.max_clients: input should be greater"),
        ([*SERVER, "--window-bytes", "64KiB"], "must hold at least one chunk"),
        ([*SERVER, "--listen", "here"], "--listen 'here' is not of the form HOST:PORT"),
        ([*SERVER, "--listen", "0.0.0.0:1"], "0.0.0.0:1 is beyond this machine"),
        ([*SERVER, "--set", "stream.data_listen=memory"], "write CARRIER://WHERE"),
        ([*SERVER, "--store", "absent"], "absent: there is no model here"),
        ([*SERVER, "--part", "x*"], "no tensor's name matches the pattern 'x*'"),
        ([*SERVER, "--gather", "spool"], "--gather spool needs a directory for the updates"),
        ([*SERVER, "--spool", "tasks.py"], "tasks.py: the spool cannot be used"),
        ([*SERVER, "--aggregator", "fedadam"], "there is no directory for that: give one"),
        ([*SERVER, *ADAM, "--state", "tasks.py"], "tasks.py: the state of the aggregator cannot"),
        ([*SERVER, "--aggregator", "fedadam:eta=0"], "(--aggregator): 'fedadam:eta=0': eta: "),
        (
            [*SERVER, "--gather", "spool", "--set", "rounds.duplex_bytes=1MiB"],
            "only a lockstep round knows ranges",
        ),
        ([*SERVER, "--take-first", "2"], "only a round that stores its updates can leave some out"),
        ([*SERVER, "--ledger", "no/l.json"], "the directory of the ledger does not exist"),
        ([*SERVER, "--ledger", "tasks.py", "--resume"], "this is not a ledger of rounds"),
        ([*SERVER, "--best", "b"], "--best needs --best-metric NAME"),
        ([*SERVER, "--best", "./g", *JUDGED], "--best g is the store of the model itself"),
        ([*SERVER, "--best", "tasks.py", *JUDGED], "tasks.py: this is a file; a safetensors store"),
        ([*SERVER, *JUDGED, "--evaluate-every", "0"], "no model is evaluated; set evaluate_every"),
        ([*SERVER, "--schedules", "lr=cosin:start=1"], "(--schedules): no schedule is called"),
        ([*SERVER, "--tensorboard", "tasks.py"], "tasks.py: the curves for TensorBoard cannot be"),
        ([*SERVER, "--events", "no/e.jsonl"], "--events no/e.jsonl: directory no does not exist"),
        ([*SERVER, "--report", "no/r.json"], "--report no/r.json: directory no does not exist"),
        ([*SERVER, "--report", "g"], "g: the report cannot be written: this is a directory"),
        ([*SERVER, "--log-file", "g"], "--log-file g: this is a directory; name another file"),
        ([*SEND, "--log-file", "tasks.py/s.log"], "tasks.py: the log cannot be written"),
        ([*SERVER, "--metrics", "unix:m"], "--metrics 'unix:m' is a Unix socket"),
        ([*SERVER, "--control", "x" * 120], "too long for a Unix socket"),
        ([*SERVER, "--control", "tasks.py/c"], "the operator's socket cannot be created"),
        ([*SERVER, "--tokens", "absent.yaml"], "absent.yaml"),
        ([*SERVER, *TLS[:2], "--key", "c/site-1/ca.pem"], "do not belong together"),
        ([*CLIENT, "--task", "tasks.py:sub"], "tasks.py has no function 'sub'"),
        ([*CLIENT, *WORK, "--weight", "-1"], "--weight is -1.0; "),
        (
            [*CLIENT, *WORK, *LEFT_IN, "stream.error_feedback=tasks.py/left"],
            "cannot be kept (stream.error_feedback)",
        ),
        ([*CLIENT, *WORK, "--token", "tasks.py"], "security.token: tasks.py"),
        ([*CLIENT, *WORK, "--ca", "tasks.py"], "security.ca: tasks.py holds no certificates"),
        ([*CLIENT, *WORK, "--server", "10.0.0.1:1"], "10.0.0.1:1 is beyond this machine"),
        ([*CLIENT, *WORK, "--name", ""], "--name: '' is not a valid name: use 1 to 128 printable"),
        ([*CLIENT, *WORK, "--name", "a\nb"], r"--name: 'a\nb' is not a valid name"),
        ([*SIMULATE, "--min-clients", "3"], "rounds.min_clients is 3, but there are only 2"),
        ([*SIMULATE, "--set", "stream.encodings=foo"], "there is no encoding 'foo'"),
        ([*SIMULATE, "--set", "stream.lossy_up=*=int4"], "'*=int4' is no rule; write PATTERN="),
        ([*SIMULATE, "--set", "stream.encodings=int8"], "stream.lossy_down or stream.lossy_up"),
        ([*SIMULATE, "--set", "stream.lossy_down=no.*=int8"], "the pattern 'no.*'"),
        ([*SIMULATE, "--set", "stream.error_feedback=left"], "lossy_up is not set"),
        ([*SIMULATE, "--set", "stream.data_listen=memory"], "write CARRIER://WHERE"),
        ([*SIMULATE, "--weight", "nan"], "--weight is nan; "),
        ([*SIMULATE, "--report", "no/r.json"], "--report no/r.json: directory no does not exist"),
        (["send", "absent", "127.0.0.1:1"], "absent: there is no model here"),
        ([*SEND, "--retry", "nan"], "--retry must be finite and not negative"),
        ([*SEND, "--name", "x" * 200], "is not a valid name: use 1 to 128 printable characters"),
        ([*FETCH, "--name", "x" * 129], "is not a valid name: use 1 to 128 printable characters"),
        (["receive", "tasks.py/new"], "no model can be stored here"),
        (["serve", "absent"], "absent: there is no model here"),
        ([*SERVE, "--listen", "0.0.0.0:1"], "0.0.0.0:1 is beyond this machine"),
        ([*SERVE, "--count", "0"], "--count must be positive, not 0"),
        ([*SERVE, "--fetchers", "0"], "--fetchers must be positive, not 0"),
        ([*SERVE, "--timeout", "-1"], "--timeout must be finite and not negative"),
        ([*SERVE, "--set", "stream.data_listen=memory"], "write CARRIER://WHERE"),
        ([*SERVE, "--set", "stream.encodings=foo"], "there is no encoding 'foo'"),
        (["fetch", "127.0.0.1:1", "tasks.py/new"], "no model can be stored here"),
        (["fetch", "10.0.0.1:1", "new"], "10.0.0.1:1 is beyond this machine"),
        ([*FETCH, "--compress", "lzma"], "--compress is none or zstd, not 'lzma'"),
        ([*FETCH, "--retry", "-1"], "--retry must be finite and not negative"),
        ([*FETCH, "--set", "stream.encodings=foo"], "there is no encoding 'foo'"),
        ([*PROBE, "--seconds", "0"], "--seconds is from 0.5 to 6, not 0"),
        ([*PROBE, "--report", "g"], "what --report names cannot be written: this is a directory"),
        (["probe", "10.0.0.1:1"], "10.0.0.1:1 is beyond this machine"),
        ([*RECEIVE, "--listen", "unix:no/s"], "there is no directory no for the socket"),
    ],
)
def test_what_cannot_be_used_is_named_and_ends_with_2(
    place: Path, words: list[str], sentence: str
) -> None:
    (place / "given.yaml").write_text("timeouts:\n  opn_timeout: 3\n")
    code, _, error = check(*words)
    assert sentence in error
    assert code == 2

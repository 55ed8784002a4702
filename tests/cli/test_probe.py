"""``streamlink probe``: real processes at both ends, and ends that are no streamlink at all."""

from __future__ import annotations

import json
import re
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import grpc
import pytest
from typer.testing import CliRunner

from streamlink.certs import make_certificates
from streamlink.cli import app
from streamlink.config import JobConfig
from streamlink.link.server import Server
from streamlink.stores import open_store
from tests.cli.test_copies import address
from tests.support.commands import Command
from tests.support.dying import command
from tests.support.models import float_spec, pattern_model, save
from tests.support.peers import WAIT, until

__all__ = ["address"]  # a fixture

QUICK = ("--seconds", "0.5", "--most", "4MiB")


def probe(address: str, *options: object) -> Command:
    return command("probe", address, *QUICK, *options)


@pytest.fixture
def store(tmp_path: Path) -> Path:
    save(open_store(tmp_path / "g"), pattern_model(float_spec(300, 5)))
    return tmp_path / "g"


# --- it works -------------------------------------------------------------------------------


@pytest.mark.processes
def test_a_server_without_a_round_is_probed_and_the_settings_are_used(
    store: Path, address: str, tmp_path: Path
) -> None:
    file, report = tmp_path / "line.yaml", tmp_path / "line.json"
    with command("server", "--store", store, "--listen", address, "--min-clients", 1) as server:
        server.until("waiting for 1 client")
        options = ("--model", "128GB", "--output", file, "--report", report, "--name", "site-1")
        with probe(address, *options) as prober:
            assert prober.end() == 0, prober.log
        server.interrupt()
        server.end()
    assert re.search(r"down, alone +[0-9.]+ MB/s", prober.output)
    assert "streaming  plain" in prober.output
    JobConfig.assemble(file)
    facts = json.loads(report.read_text())
    assert facts["measured"]["nbytes"] <= 4 << 20
    encodings = ("plain", "zstd", "planes", "auto", "int8", "fp16", "bf16")
    assert [each["encoding"] for each in facts["rounds"]] == 3 * [*encodings]


@pytest.mark.processes
def test_two_sites_without_a_server_probe_their_line_once(store: Path) -> None:
    with command("probe", "--listen", "127.0.0.1:0") as listener:
        where = listener.until(r"listening on (\S+) \(plain text\)")[1]
        assert listener.process.stdout is not None
        token = listener.process.stdout.readline().split()[-1]
        with probe(where, "--one-time", "wrong") as wrong:
            assert wrong.end() == 1
            assert "the one-time token is wrong" in wrong.log
        models = ("--model", store, "--base", store)
        with probe(where, "--one-time", token, *models) as right:
            assert right.end() == 0, right.log
        assert listener.end() == 0, listener.log
    assert "one probe was answered" in listener.output
    said = " ".join(right.output.split())
    assert f"tried with ranges of {store}, as differences from {store}" in said
    assert "streaming delta " in said


@pytest.mark.processes
@pytest.mark.parametrize("role", ["serve", "receive"])
def test_an_end_that_waits_for_a_copy_is_probed(
    role: str, store: Path, address: str, tmp_path: Path
) -> None:
    path = store if role == "serve" else tmp_path / "new"
    with command(role, path, "--listen", address) as listener:
        listener.until("listening on")
        with probe(address) as prober:
            assert prober.end() == 0, prober.log
        listener.interrupt()
        listener.end()


@pytest.mark.processes
def test_a_probe_has_the_identity_and_the_encryption_of_a_client(
    store: Path, address: str, tmp_path: Path
) -> None:
    made = tmp_path / "c"
    make_certificates(made, ["localhost", "127.0.0.1"], ["site-1", "site-2"], days=1)
    own = made / "server"
    keys = ("--certificate", own / "certificate.pem", "--key", own / "key.pem")
    tokens = ("--tokens", own / "tokens.yaml")
    with command("serve", store, "--listen", address, *keys, *tokens) as server:
        server.until("listening on")
        site = made / "site-1"
        secured = ("--ca", site / "ca.pem", "--token", site / "token")
        with probe(address, *secured, "--name", "site-1") as prober:
            assert prober.end() == 0, prober.log
        assert f"{address}: TLS, models over tcp" in prober.output
        with probe(address, *secured, "--name", "site-2") as another:
            assert another.end() == 1
        assert "the token is not that of 'site-2'" in another.log
        server.interrupt()
        server.end()


def test_a_probe_that_a_round_ends_prints_what_it_had_measured() -> None:
    with Server() as server, ThreadPoolExecutor(1) as pool:
        is_over = threading.Event()

        def begin_a_round() -> None:
            until(lambda: server.wire_bytes[0] > 0)  # the round trips are known by then
            with server.occupied("round 4 runs"):
                is_over.wait(WAIT)

        begun = pool.submit(begin_a_round)
        try:
            # Slower than a round is noticed.
            words = ["probe", server.address, "--seconds", "6", "--bwlimit", "1M"]
            result = CliRunner().invoke(app, words)
        finally:
            is_over.set()
        begun.result(WAIT)
    assert result.exit_code == 1
    assert "the probe was ended early; measured until then" in result.stdout
    assert re.search(r"round trip, idle +[0-9.]+ ms", result.stdout)
    assert "settings for this line" not in result.stdout
    assert "round 4 runs" in result.stderr


# --- what is there is no streamlink -------------------------------------------------------------


@contextmanager
def answering(greeting: bytes, answer: bytes) -> Iterator[str]:
    """A port that greets whoever comes, answers what it gets first, and then is silent."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve(line: socket.socket) -> None:
            with line:
                try:
                    line.sendall(greeting)
                    if line.recv(4096) and answer:
                        line.sendall(answer)
                    while line.recv(4096):
                        pass
                except OSError:
                    pass

        def accept() -> None:
            while True:
                try:
                    line, _ = listener.accept()
                except OSError:
                    return
                threading.Thread(target=serve, args=(line,), daemon=True).start()

        threading.Thread(target=accept, daemon=True).start()
        try:
            yield f"127.0.0.1:{listener.getsockname()[1]}"
        finally:
            listener.shutdown(socket.SHUT_RDWR)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("greeting", "answer", "said"),
    [
        (
            b"",
            b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n",
            "something else listens there: a web server",
        ),
        (b"SSH-2.0-OpenSSH_9.6\r\n", b"", "something else listens there: an SSH server"),
        (b"", b"", "accepts connections and says nothing"),
    ],
    ids=["http", "ssh", "silent"],
)
def test_what_is_no_streamlink_server_is_reported_in_one_line(
    greeting: bytes, answer: bytes, said: str
) -> None:
    with answering(greeting, answer) as where:
        result = CliRunner().invoke(
            app, ["probe", where, "--set", "timeouts.connect_timeout=2", "--log-level", "error"]
        )
    assert result.exit_code == 1
    (line,) = result.stderr.splitlines()
    assert line.startswith(f"error: no server answers at {where}")
    assert said in line


def test_another_grpc_server_is_reported_at_once() -> None:
    other = grpc.server(ThreadPoolExecutor(1))
    where = f"127.0.0.1:{other.add_insecure_port('127.0.0.1:0')}"
    other.start()
    waits = ("connect_timeout", "call_timeout", "session_timeout", "reconnect_timeout")
    long = [word for each in waits for word in ("--set", f"timeouts.{each}=600")]
    try:
        result = CliRunner().invoke(app, ["probe", where, *long, "--log-level", "error"])
    finally:
        other.stop(None).wait()
    assert result.exit_code == 1
    (line,) = result.stderr.splitlines()
    assert line.startswith(f"error: no server answers at {where}: something else listens there: a")
    assert "UNIMPLEMENTED" in line


def test_a_closed_port_is_reported_at_once() -> None:
    result = CliRunner().invoke(app, ["probe", "127.0.0.1:1", "--log-level", "error"])
    assert result.exit_code == 1
    assert result.stderr.startswith("error: no server answers at 127.0.0.1:1")


# --- what is given wrongly ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "name the server, such as streamlink probe server.example:8517"),
        (["a:1", "--listen", "b:1"], "or listen for a probe with --listen 0.0.0.0:8470"),
        (["a:1", "--seconds", "60"], "--seconds is from 0.5 to 6, not 60"),
        (["a:1", "--seconds", "nan"], "write for example --seconds 3"),
        (["a:1", "--most", "1GB"], "--most is from 4MiB to 256MiB, not 1GB"),
        (["a:1", "--most", "much"], "--most: 'much' is not a size; write it as 2GB"),
        (["a:1", "--model", "128 giga"], "write it as 2GB (1000³), 2GiB (1024³) or 4096; nor is"),
        (["a:1", "--model", "0"], "--model must be positive, not 0; write for example 128GB"),
        (["a:1", "--model", "1GB", "--base", "old"], "--model new.safetensors --base old"),
        (["a:1", "--base", "old"], "--base old is an older version of a model, which has to be"),
        (["a:1", "--dtype", "BF16"], "write for example --model 14GB --dtype BF16"),
        (["a:1", "--model", "1GB", "--dtype", "I8"], "--dtype is one of F32, F16, BF16, F64, not"),
        (["a:1", "--model", ".", "--dtype", "BF16"], "the dtypes of . are known; leave it out"),
        (["a:1", "--output", "no/x.yaml"], "--output no/x.yaml: directory no does not exist"),
        (["--listen", "127.0.0.1:0", "--timeout", "0"], "--timeout must be positive and finite"),
        (["--listen", "127.0.0.1:0", "--set", "stream.data_listen=x://y"], "names no carrier"),
        (
            ["--listen", "127.0.0.1:0", "--set", "stream.data_listen=x://y", "--check"],
            "names no carrier",
        ),
    ],
)
def test_bad_input_is_refused_with_the_value_and_an_example(words: list[str], said: str) -> None:
    result = CliRunner().invoke(app, ["probe", *words])
    assert result.exit_code == 2
    assert said in result.stderr


LISTEN, ADDRESS = ("--listen", "127.0.0.1:0"), ("127.0.0.1:1",)


@pytest.mark.parametrize(
    ("mode", "option", "value"),
    [
        (LISTEN, "--model", "nonsense"),
        (LISTEN, "--dtype", "BF16"),
        (LISTEN, "--base", "old"),
        (LISTEN, "--output", "line.yaml"),
        (LISTEN, "--report", "no/line.json"),
        (LISTEN, "--seconds", "5.0"),
        (LISTEN, "--most", "1KiB"),
        (LISTEN, "--name", "site-1"),
        (LISTEN, "--one-time", "abc"),
        (LISTEN, "--token", "token"),
        (LISTEN, "--server-name", "s"),
        (ADDRESS, "--timeout", "5"),
        (ADDRESS, "--tokens", "tokens.yaml"),
        (ADDRESS, "--data-listen", "127.0.0.1:0"),
    ],
)
def test_an_option_that_this_end_does_not_use_is_refused_by_name(
    mode: tuple[str, ...], option: str, value: str
) -> None:
    result = CliRunner().invoke(app, ["probe", *mode, option, value, "--check"])
    assert result.exit_code == 2
    assert f"{option} is of " in result.stderr
    assert "--listen" in result.stderr


def test_all_options_that_are_not_used_are_named_at_once() -> None:
    words = ["probe", *LISTEN, "--most", "4MiB", "--name", "site-1", "--check"]
    result = CliRunner().invoke(app, words)
    assert "--most and --name are of no use with --listen" in " ".join(result.stderr.split())


@pytest.mark.parametrize("mode", [LISTEN, ADDRESS])
def test_a_file_of_settings_may_have_those_of_both_ends(
    mode: tuple[str, ...], tmp_path: Path
) -> None:
    file = tmp_path / "line.yaml"
    file.write_text("security: {server_name: s}\nstream: {data_listen: 'tcp://127.0.0.1:0'}\n")
    result = CliRunner().invoke(app, ["probe", *mode, "--config", str(file), "--check"])
    assert result.exit_code == 0, result.stderr


def test_an_older_version_of_another_model_is_refused(store: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    save(open_store(other), pattern_model(float_spec(301, 5)))
    words = ["probe", "127.0.0.1:1", "--model", str(store), "--base", str(other)]
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 2
    assert f"--base {other} " in result.stderr
    assert "--base is an older version, of the same tensors" in result.stderr

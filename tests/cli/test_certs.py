"""``streamlink certs``, a job with what it made, and that nothing secret is ever printed."""

from __future__ import annotations

import builtins
import json
import re
import shlex
import socket
import ssl
import stat
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from streamlink import copy_model, digest_of
from streamlink.cli import app
from streamlink.cli.settings import LINK, SERVING, VISITING, config_from, spelled
from streamlink.config import JobConfig, SecurityConfig
from streamlink.errors import SecurityError
from streamlink.transport.identity import read_token, read_tokens
from tests.support.commands import Command, environment, streamlink


def certs(*words: object) -> tuple[int, str]:
    """Run the command; returns its exit code and what it printed."""
    result = CliRunner().invoke(app, ["certs", *map(str, words)])
    return result.exit_code, result.output


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("certs") / "try-out"
    code, said = certs(
        *(folder, "--server", "127.0.0.1", "--server", "fl.test", "--server", "::1"),
        *("--site", "site-1", "--site", "site-2"),
    )
    assert code == 0, said
    assert said.count("streamlink client") == 2
    assert f"--tokens {folder / 'server' / 'tokens.yaml'}" in said
    return folder


def test_each_folder_has_what_its_machine_needs(made: Path) -> None:
    own = ["ca.pem", "certificate.pem", "key.pem"]
    found = {
        each.name: sorted(path.name for path in each.iterdir()) for each in sorted(made.iterdir())
    }
    assert found == {
        "ca": ["ca.pem", "key.pem"],
        "server": [*own, "tokens.yaml"],
        "site-1": [*own, "token"],
        "site-2": [*own, "token"],
    }


def test_keys_and_tokens_are_for_their_owner_only(made: Path) -> None:
    secret = [path for path in made.rglob("*") if path.name in ("key.pem", "token")]
    assert len(secret) == 6
    assert {stat.S_IMODE(path.stat().st_mode) for path in secret} == {0o600}


def test_the_list_holds_hashes_of_the_tokens_and_not_the_tokens(made: Path) -> None:
    accepted = read_tokens(SecurityConfig(tokens=made / "server" / "tokens.yaml"))
    assert sorted(accepted) == ["site-1", "site-2"]
    tokens = {read_token(SecurityConfig(token=made / name / "token")) for name in accepted}
    assert len(tokens) == 2
    text = (made / "server" / "tokens.yaml").read_text()
    assert not [token for token in tokens if token in text]


def test_the_certificates_are_signed_by_the_ca_for_their_purpose_and_time(made: Path) -> None:
    from cryptography import x509

    def loaded(path: str) -> x509.Certificate:
        return x509.load_pem_x509_certificate((made / path).read_bytes())

    authority, server = loaded("ca/ca.pem"), loaded("server/certificate.pem")
    for each in (server, loaded("site-1/certificate.pem")):
        each.verify_directly_issued_by(authority)
    names = server.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["fl.test"]
    assert [str(each) for each in names.get_values_for_type(x509.IPAddress)] == ["127.0.0.1", "::1"]
    assert (server.not_valid_after_utc - server.not_valid_before_utc).days == 30
    context = ssl.create_default_context(cafile=str(made / "ca" / "ca.pem"))
    context.load_cert_chain(made / "site-1/certificate.pem", made / "site-1/key.pem")


def test_nothing_is_overwritten(made: Path) -> None:
    before = {path: path.read_bytes() for path in made.rglob("*.pem")}
    code, said = certs(made, "--server", "127.0.0.1", "--site", "site-3")
    assert code == 2
    assert "is there, and nothing is overwritten" in said
    assert {path: path.read_bytes() for path in made.rglob("*.pem")} == before
    assert not (made / "site-3").exists()


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["--server", "fl.test", "--site", "../x"], "cannot be a site's name"),
        (["--server", "fl.test", "--site", "server"], "cannot be a site's name"),
        (["--server", "fl.test", "--site", "x" * 65], "cannot be a site's name"),
        (["--server", "fl.test", "--site", "a", "--site", "A"], "two sites have the same name"),
        (["--server", "fl.test:8517"], "neither a host's name nor an IP address"),
        (["--server", "0.0.0.0"], "no address that clients reach it by"),
        (["--server", "::"], "no address that clients reach it by"),
    ],
)
def test_names_that_cannot_be_used_are_refused_before_anything_is_made(
    tmp_path: Path, words: list[str], why: str
) -> None:
    code, said = certs(tmp_path / "new", *words)
    assert code == 2
    assert why in said
    assert list(tmp_path.iterdir()) == []


def test_a_folder_appears_whole_or_not_at_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "rename", full)
    code, said = certs(tmp_path, "--server", "fl.test")
    assert code == 2
    assert "No space left on device" in said
    assert list(tmp_path.iterdir()) == []


def test_without_the_package_one_is_told_which_extra_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = builtins.__import__

    def without(name: str, *rest: Any, **more: Any) -> Any:
        if name.startswith(("cryptography", "streamlink.certs")):
            raise ModuleNotFoundError(name)
        return real(name, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", without)
    code, said = certs(tmp_path, "--server", "fl.test")
    assert code == 2
    assert "pip install 'streamlink-fl[certs]'" in said


# --- on the command line --------------------------------------------------------


def test_every_setting_of_security_has_its_flag() -> None:
    names = {name.partition(".")[2] for name in (*SERVING, *VISITING)}
    assert names == {*SecurityConfig.model_fields, "data_listen"}
    for command, wanted in (("server", SERVING), ("client", VISITING), ("send", VISITING)):
        said = CliRunner().invoke(app, [command, "--help"]).output
        for name in wanted:
            assert f"--{name.partition('.')[2].replace('_', '-')} " in said


def test_settings_that_are_handed_on_are_paths_and_come_out_the_same(made: Path) -> None:
    names = (*LINK, *SERVING)
    given: dict[str, Any] = dict.fromkeys((name.partition(".")[2] for name in names), None)
    given |= {"insecure": True, "tokens": str(made / "server" / "tokens.yaml")}
    config = config_from(names, {**given, "config": None, "set": []})
    assert config.security.insecure is True
    words = spelled(config)
    assert f"security.tokens={made / 'server' / 'tokens.yaml'}" in words
    assert JobConfig.assemble(settings=words[1::2]) == config


@pytest.mark.parametrize(
    "words",
    [
        ["client", "--server", "fl.test:1", "--name", "a", "--task", "tasks.py:add"],
        ["receive", "copy", "--listen", "0.0.0.0:0"],
        ["server", "--store", "model", "--listen", "0.0.0.0:0"],
        ["send", "model", "fl.test:1"],
    ],
)
def test_plain_text_beyond_this_machine_is_a_wrong_command(
    words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    copy_model({"w": np.zeros(3, np.float32)}, tmp_path / "model")
    (tmp_path / "tasks.py").write_text("def add(tensor, start, values): return values\n")
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 2
    assert "nothing here is encrypted" in result.output
    assert "--insecure" in result.output


def secrets_of(made: Path) -> list[str]:
    """Return every token, and every line of every key."""
    files = [path for path in made.rglob("*") if path.name in ("key.pem", "token")]
    lines = [line for path in files for line in path.read_text().splitlines()]
    return [line for line in lines if line and "-----" not in line]


@pytest.mark.parametrize(
    ("servers", "listens", "reached"),
    [
        (["localhost"], "localhost:8517", "localhost:8517"),
        (["::1"], "[::1]:8517", "[::1]:8517"),
        (["*.fl.test", "fl.test", "127.0.0.1"], "0.0.0.0:8517", "fl.test:8517"),
        (["2001:db8::1"], "[::]:8517", "[2001:db8::1]:8517"),
    ],
)
def test_a_hint_listens_where_its_clients_reach_it(
    tmp_path: Path, servers: list[str], listens: str, reached: str
) -> None:
    words = [word for each in servers for word in ("--server", each)]
    _, said = certs(tmp_path / "new", *words, "--site", "site-1")
    serving, visiting = [line for line in said.splitlines() if line.startswith("streamlink ")]
    assert shlex.split(serving)[-4:] == ["--listen", listens, "--min-clients", "1"]
    assert shlex.split(visiting)[-1] == reached


@pytest.mark.processes
def test_the_hints_are_commands_that_work_from_the_folder_one_is_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    copy_model({"w": np.zeros(5, dtype=np.float32)}, "model")
    Path("work.py").write_text("def train(tensor, start, values): return values + 1\n")
    code, said = certs("my try-out", "--server", "127.0.0.1", "--site", "site-1")
    assert code == 0
    hints = [shlex.split(line) for line in said.splitlines() if line.startswith("streamlink ")]
    serving, visiting = hints
    server_words = [word.replace(":8517", ":0") for word in serving[1:]]
    with Command(streamlink(*server_words, "--num-rounds", 1), tmp_path) as server:
        port = server.until(r"listening on 127.0.0.1:(\d+)")[1]
        with Command(
            streamlink(*(word.replace(":8517", f":{port}") for word in visiting[1:])), tmp_path
        ) as site:
            assert site.end() == 0, site.log
        assert server.end() == 0, server.log


@pytest.mark.processes
def test_a_job_with_tls_and_tokens_prints_nothing_secret(made: Path, tmp_path: Path) -> None:
    copy_model({"w": np.arange(5, dtype=np.float32)}, tmp_path / "model")
    (tmp_path / "tasks.py").write_text("def add(tensor, start, values): return values + 1\n")

    def options(name: str) -> list[object]:
        files = {"--certificate": "certificate.pem", "--key": "key.pem", "--ca": "ca.pem"}
        files |= {"--tokens": "tokens.yaml"} if name == "server" else {"--token": "token"}
        told = [word for flag, file in files.items() for word in (flag, made / name / file)]
        lines = ["--log-file", "server.log"] if name == "server" else ["--json-logs"]
        return [*told, "--log-level", "debug", *lines]

    def client(name: str, own: str) -> list[str]:
        words = ("client", "--server", f"localhost:{port}", "--task", "tasks.py:add")
        return streamlink(*words, "--server-name", "fl.test", "--name", name, *options(own))

    rules = ("--min-clients", 1, "--num-rounds", 1)
    serving = ("server", "--store", "model", "--listen", "127.0.0.1:0", *rules)
    env = {**environment(), "GRPC_VERBOSITY": "debug"}
    with Command(streamlink(*serving, *options("server")), tmp_path, env) as server:
        port = server.until(r"listening on 127.0.0.1:(\d+) \(mutual TLS, tokens\)")[1]
        with Command(client("site-2", "site-1"), tmp_path, env) as wrong:
            assert wrong.end() == 2
        with Command(client("site-1", "site-1"), tmp_path, env) as site:
            assert site.end() == 0, site.log
        assert server.end() == 0, server.log
    assert "the certificate is that of site-1, not of 'site-2'" in wrong.log
    assert digest_of(tmp_path / "model") == digest_of({"w": np.arange(5, dtype=np.float32) + 1})
    printed = "".join(each.log + each.output for each in (server, wrong, site))
    assert " DEBUG " in printed
    assert '"level": "DEBUG"' in printed
    assert not [line for line in secrets_of(made) if line in printed]
    reports = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert not [
        path for path in reports for line in secrets_of(made) if line.encode() in path.read_bytes()
    ]


@pytest.mark.processes
def test_a_stranger_who_speaks_no_tls_leaves_the_log_json_and_a_line_in_it(
    made: Path, tmp_path: Path
) -> None:
    own = made / "server"
    files = ("--certificate", own / "certificate.pem", "--key", own / "key.pem")
    words = ("receive", tmp_path / "copy", "--listen", "127.0.0.1:0", "--json-logs", *files)
    with Command(streamlink(*words), tmp_path) as receiver:
        port = int(receiver.until(r"listening on 127.0.0.1:(\d+) \(TLS\)")[1])
        with socket.create_connection(("127.0.0.1", port), 10) as stranger:
            stranger.sendall(b"GET / HTTP/1.1\r\n\r\n" * 10)
            while stranger.recv(4096):
                pass  # gRPC has ended it: what it had to say is said
        receiver.interrupt()
        assert receiver.end() == 130
    lines = [json.loads(line) for line in receiver.log.splitlines()]
    assert all(isinstance(line, dict) for line in lines)
    (failed,) = [line for line in lines if line.get("event") == "handshake failed"]
    assert (failed["peer"], failed["count"]) == ("127.0.0.1", 1)


def test_what_is_secret_is_in_no_repr(made: Path) -> None:
    from streamlink.transport.grpc.credentials import Connector, server_credentials
    from streamlink.transport.identity import Guard

    own = made / "server"
    security = SecurityConfig(
        certificate=own / "certificate.pem", key=own / "key.pem", tokens=own / "tokens.yaml"
    )
    config = JobConfig(security=SecurityConfig(token=made / "site-1" / "token"))
    objects = (security, config, Guard(security), Connector("localhost:1", config))
    shown = "".join(map(repr, (*objects, server_credentials("localhost:1", security))))
    assert "site-1" in shown
    hashes = re.findall("[0-9a-f]{64}", (own / "tokens.yaml").read_text())
    assert not [line for line in (*secrets_of(made), *hashes) if line in shown]


def test_a_key_of_another_is_an_error_that_quotes_nothing(made: Path) -> None:
    from streamlink.transport.grpc.credentials import server_credentials

    own = made / "server" / "certificate.pem"
    with pytest.raises(SecurityError) as refused:
        server_credentials(
            "localhost:1", SecurityConfig(certificate=own, key=made / "ca" / "key.pem")
        )
    assert not [line for line in secrets_of(made) if line in repr(refused.value)]

"""What a client finds out about a server that it cannot connect to, from servers that are none."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from streamlink.config import SecurityConfig
from streamlink.transport.diagnosis import Finding, diagnose, unreachable
from tests.support.peers import WAIT


@contextmanager
def answering(answer: bytes | None) -> Iterator[str]:
    """Listen; answer the first bytes of one connection with these, or end it; yield the address."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(WAIT)

        def serve() -> None:
            line, _ = listener.accept()
            with line, suppress(ConnectionError):
                line.recv(4096)
                if answer is not None:
                    line.sendall(answer)
                    line.recv(4096)

        thread = threading.Thread(target=serve)
        thread.start()
        yield f"127.0.0.1:{listener.getsockname()[1]}"
        thread.join(WAIT)


TLS = SecurityConfig(server_name="server.test")
ALERT = b"\x15\x03\x03\x00\x02\x02"  # a fatal one, less its number


def found(answer: bytes | None, security: SecurityConfig) -> Finding:
    with answering(answer) as address:
        finding = diagnose(address, security)
    assert finding is not None
    return finding


def test_a_server_that_speaks_something_else_is_recognised() -> None:
    assert "does not speak TLS" in found(b"HTTP/1.1 400 Bad Request\r\n\r\n", TLS).what
    assert not found(b"\0\0\0\4\0\0\0\0\0", TLS).is_identity


def test_an_alert_is_told_in_the_words_of_tls() -> None:
    finding = found(ALERT + b"\x30", TLS)
    assert finding.is_identity
    assert "unknown ca" in finding.what


def test_one_that_ends_the_connection_is_told_apart_from_one_that_is_not_there() -> None:
    assert "closes the connection during the TLS handshake" in found(None, TLS).what


def test_a_plain_client_learns_from_an_alert_that_the_server_speaks_tls() -> None:
    assert "it takes TLS only" in found(ALERT + b"\x28", SecurityConfig()).what
    with answering(b"\0\0\0\4\0\0\0\0\0") as address:
        assert diagnose(address, SecurityConfig()) is None


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (b"SSH-2.0-OpenSSH_9.6\r\n", "an SSH server (it answers b'SSH-2.0-OpenSSH_9.6"),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "something else listens there: a web server"),
        (b"* OK IMAP4 ready\r\n", "it does not speak HTTP/2 (it answers b'* OK IMAP4"),
    ],
)
def test_a_plain_client_learns_which_other_program_answers(answer: bytes, said: str) -> None:
    # Two connections: one that tries TLS, and one that looks at what is said in plain text.
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(WAIT)

        def serve() -> None:
            for _ in range(2):
                line, _ = listener.accept()
                with line, suppress(ConnectionError):
                    line.recv(4096)
                    line.sendall(answer)
                    line.recv(4096)

        thread = threading.Thread(target=serve)
        thread.start()
        finding = diagnose(f"127.0.0.1:{listener.getsockname()[1]}", SecurityConfig())
        thread.join(WAIT)
    assert finding is not None
    assert said in finding.what
    assert not finding.is_identity


@pytest.mark.parametrize("address", ["127.0.0.1:1", "unix:/nowhere", "unix-abstract:none", "none"])
def test_nothing_is_found_where_nobody_answers(address: str) -> None:
    assert diagnose(address, TLS) is None


def test_a_server_behind_a_proxy_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("https_proxy", "http://127.0.0.1:1")
    monkeypatch.setenv("no_proxy", "else.test")
    with socket.create_server(("127.0.0.1", 0)) as listener:
        assert diagnose(f"127.0.0.1:{listener.getsockname()[1]}", TLS) is None
        listener.setblocking(False)
        with pytest.raises(BlockingIOError):
            listener.accept()


def test_files_that_are_gone_are_somebody_elses_to_report(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = f"127.0.0.1:{listener.getsockname()[1]}"
        assert diagnose(address, SecurityConfig(ca=tmp_path / "gone.pem")) is None


def test_a_server_of_another_carrier_is_reported_without_a_word_of_grpc_or_tls() -> None:
    error = unreachable(
        "memory://lab", SecurityConfig(), within=" within 3 s", said="nobody is there"
    )
    assert str(error) == "no server answers at memory://lab within 3 s: nobody is there"

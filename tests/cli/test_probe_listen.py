"""``streamlink probe --listen``: the command for the other end, which works as it is printed."""

from __future__ import annotations

import shlex
import socket
from pathlib import Path

import pytest

from streamlink.certs import make_certificates
from streamlink.cli.probe_listen import other_end
from streamlink.config import SecurityConfig
from tests.support.commands import Command, environment, streamlink
from tests.support.dying import command

OWN = {"certificate": Path("server.pem"), "key": Path("server.key")}
MUTUAL = "--ca ca.pem --certificate certificate.pem --key key.pem"
QUICK = ("--seconds", "0.5", "--most", "4MiB")


@pytest.mark.parametrize(
    ("where", "security", "options"),
    [
        ("127.0.0.1:8470", {}, ""),
        ("unix:/tmp/s", {}, ""),
        ("10.0.0.1:8470", {"insecure": True}, "--insecure"),
        (
            "10.0.0.1:8470",
            {"insecure": True, "tokens": "t"},
            "--insecure --token token --name NAME",
        ),
        ("10.0.0.1:8470", OWN, "--ca ca.pem"),
        ("127.0.0.1:8470", OWN, "--ca ca.pem"),
        ("10.0.0.1:8470", {**OWN, "tokens": "t"}, "--ca ca.pem --token token --name NAME"),
        ("10.0.0.1:8470", {**OWN, "ca": "ca.pem"}, f"{MUTUAL} --name NAME"),
    ],
)
def test_the_command_has_the_security_options_of_the_other_end(
    where: str, security: dict[str, object], options: str
) -> None:
    printed, *_ = other_end(where, SecurityConfig.model_validate(security), "abc")
    words = ["streamlink", "probe", where, *options.split(), "--one-time", "abc"]
    assert printed == f"at the other end: {shlex.join(words)}"


@pytest.mark.parametrize("everywhere", ["0.0.0.0:8470", "[::]:8470"])
def test_an_address_that_only_a_listener_has_becomes_the_name_of_the_machine(
    everywhere: str,
) -> None:
    printed, *_ = other_end(everywhere, SecurityConfig(insecure=True), "abc")
    assert f"streamlink probe {socket.gethostname()}:8470 --insecure " in printed


def test_an_address_with_brackets_is_quoted_for_the_shell() -> None:
    printed, *_ = other_end("[::1]:8470", SecurityConfig(), "abc")
    assert "streamlink probe '[::1]:8470' " in printed


def test_what_stands_for_something_is_explained_below_the_command() -> None:
    security = SecurityConfig.model_validate({**OWN, "ca": "ca.pem", "tokens": "t"})
    printed, *below = other_end("10.0.0.1:8470", security, "abc")
    text = "\n".join(below)
    for each in ("ca.pem", "certificate.pem", "key.pem", "token", "NAME"):
        assert each in shlex.split(printed)
        assert f"{each}:" in text or f"{each}, " in text
    assert "if the certificate of this end is not for 10.0.0.1, add --server-name" in text


def test_plain_text_on_this_machine_needs_no_explanation() -> None:
    assert len(other_end("127.0.0.1:8470", SecurityConfig(), "abc")) == 1


# --- what was printed is run ----------------------------------------------------------------


def run_as_printed(listener: Command, folder: Path, **replaced: str) -> Command:
    """Start the command that ``listener`` has printed; a quick probe, which changes no option."""
    listener.until("waiting for one probe")
    assert listener.process.stdout is not None
    words = shlex.split(listener.process.stdout.readline().partition(": ")[2])
    assert words[0] == "streamlink"
    words = [replaced.get(word, word) for word in words[1:]]
    return Command(streamlink(*words, *QUICK), folder, environment())


def knows_itself() -> bool:
    try:
        socket.getaddrinfo(socket.gethostname(), None, socket.AF_INET)
    except OSError:
        return False
    return True


@pytest.mark.processes
@pytest.mark.skipif(not knows_itself(), reason="this machine's name leads nowhere")
def test_the_command_for_plain_text_beyond_this_machine_works_as_printed(tmp_path: Path) -> None:
    with command("probe", "--listen", "0.0.0.0:0", "--insecure") as listener:
        with run_as_printed(listener, tmp_path) as prober:
            assert prober.end() == 0, prober.log
        assert listener.end() == 0, listener.log
    assert "plain text, models over" in prober.output


@pytest.mark.processes
def test_the_command_for_tls_works_as_printed_in_the_folder_of_a_site(tmp_path: Path) -> None:
    make_certificates(tmp_path, ["127.0.0.1"], ["site-1"], days=1)
    own = tmp_path / "server"
    keys = ("--certificate", own / "certificate.pem", "--key", own / "key.pem")
    with command("probe", "--listen", "127.0.0.1:0", *keys) as listener:
        with run_as_printed(listener, tmp_path / "site-1") as prober:
            assert prober.end() == 0, prober.log
        assert listener.end() == 0, listener.log
    assert "TLS, models over" in prober.output


@pytest.mark.processes
def test_the_command_for_mutual_tls_and_tokens_works_with_the_name_of_the_site(
    tmp_path: Path,
) -> None:
    make_certificates(tmp_path, ["127.0.0.1"], ["site-1"], days=1)
    own = tmp_path / "server"
    keys = ("--certificate", own / "certificate.pem", "--key", own / "key.pem")
    both = ("--ca", own / "ca.pem", "--tokens", own / "tokens.yaml")
    with command("probe", "--listen", "127.0.0.1:0", *keys, *both) as listener:
        with run_as_printed(listener, tmp_path / "site-1", NAME="site-1") as prober:
            assert prober.end() == 0, prober.log
        assert listener.end() == 0, listener.log
    assert "TLS, models over" in prober.output

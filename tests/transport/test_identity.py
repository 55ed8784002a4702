"""Whose name a call may act under, tokens and their list, and which addresses are loopback."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Iterable
from pathlib import Path

import pytest

from streamlink.config import SecurityConfig
from streamlink.errors import AbortCode, SecurityError, StreamAborted
from streamlink.protocol.frames import Goodbye
from streamlink.transport.identity import (
    Guard,
    is_loopback,
    read_token,
    read_tokens,
    require_loopback,
)
from tests.support.machines import a_hello

TOKEN, OTHER = "the-token-of-site-1", "the-token-of-site-2"
CERTIFIED = SecurityConfig(certificate=Path("c"), key=Path("k"), ca=Path("ca"))


def sha256(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()


@pytest.fixture
def tokens(tmp_path: Path) -> Path:
    path = tmp_path / "tokens.yaml"
    path.write_text(f"site-1: {sha256(TOKEN)}\nsite-2: ['{sha256(OTHER)}', '{sha256(TOKEN)}']\n")
    return path


def refusal(guard: Guard, name: str, token: str, certified: Iterable[str] | None = None) -> str:
    """Return why a greeting is refused; empty: it is not."""
    names = None if certified is None else frozenset(certified)
    error = None
    try:
        guard.check_greeting(a_hello(name=name, token=token), names)
    except StreamAborted as caught:
        error = caught
    if error is None:
        return ""
    assert error.code is AbortCode.UNAUTHENTICATED
    assert TOKEN not in error.reason
    assert OTHER not in error.reason
    return error.reason


@pytest.mark.parametrize(
    ("name", "token", "why"),
    [
        ("site-1", TOKEN, ""),
        ("site-2", OTHER, ""),
        ("site-2", TOKEN, ""),
        ("site-1", OTHER, "the token is not that of 'site-1'"),
        ("site-1", TOKEN + "x", "the token is not that of 'site-1'"),
        ("site-3", TOKEN, "the token is not that of 'site-3'"),
        ("site-1", "", "'site-1' brought none"),
    ],
)
def test_a_token_stands_for_its_own_name_only(
    tokens: Path, name: str, token: str, why: str
) -> None:
    told = refusal(Guard(SecurityConfig(tokens=tokens)), name, token)
    assert why in told
    assert bool(told) is bool(why)


@pytest.mark.parametrize(
    ("names", "why"),
    [
        ({"site-1"}, ""),
        ({"host.test", "site-1"}, ""),
        ({"site-2"}, "the certificate is that of site-2, not of 'site-1'"),
        ({"site-1 "}, "not of 'site-1'"),
        ({"*"}, "not of 'site-1'"),
        (set(), "the certificate is that of nobody"),
        (None, "asks for a certificate, and none was shown"),
    ],
)
def test_a_client_acts_only_under_a_name_in_its_certificate(
    names: set[str] | None, why: str
) -> None:
    told = refusal(Guard(CERTIFIED), "site-1", "", names)
    assert why in told
    assert bool(told) is bool(why)


def test_where_both_are_asked_for_neither_is_enough(tokens: Path) -> None:
    guard = Guard(CERTIFIED.model_copy(update={"tokens": tokens}))
    assert refusal(guard, "site-1", TOKEN, {"site-1"}) == ""
    assert "certificate" in refusal(guard, "site-1", TOKEN, {"site-2"})
    assert "token" in refusal(guard, "site-1", OTHER, {"site-1"})


def test_without_identity_every_name_is_believed() -> None:
    assert refusal(Guard(SecurityConfig()), "anyone", "") == ""


def test_nothing_is_said_before_a_hello_where_identity_is_asked_for(tokens: Path) -> None:
    Guard(SecurityConfig()).check_greeting(Goodbye("x"), None)
    for security in (CERTIFIED, SecurityConfig(tokens=tokens)):
        with pytest.raises(StreamAborted, match="a session begins with hello"):
            Guard(security).check_greeting(Goodbye("x"), frozenset({"site-1"}))


def test_a_token_that_is_taken_off_the_list_is_refused_at_once(tokens: Path) -> None:
    guard = Guard(SecurityConfig(tokens=tokens))
    tokens.write_text(f"site-1: {sha256(OTHER)}\n")
    assert "not that of 'site-1'" in refusal(guard, "site-1", TOKEN)
    assert refusal(guard, "site-1", OTHER) == ""


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (f"site-1: {TOKEN}", "'site-1' is not the SHA-256 of a token"),
        ("site-1: []", "'site-1' is not the SHA-256 of a token"),
        (f"site-1: [{sha256(TOKEN)}, 3]", "'site-1' is not the SHA-256 of a token"),
        (f"1: {sha256(TOKEN)}", "a name is not text"),
        ("site-1: 2026-99-99", "this is not YAML"),
        ("", "expected the SHA-256 of each"),
        (TOKEN, "expected the SHA-256 of each"),
        (f"a: 'b'\n  c: {TOKEN}: [", "line 2: this is not YAML"),
    ],
)
def test_a_list_of_tokens_that_is_none_is_refused_and_not_quoted(
    tmp_path: Path, text: str, why: str
) -> None:
    path = tmp_path / "tokens.yaml"
    path.write_text(text)
    with pytest.raises(SecurityError) as refused:
        read_tokens(SecurityConfig(tokens=path))
    assert why in str(refused.value)
    assert TOKEN not in str(refused.value)
    assert refused.value.__cause__ is None


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("short", "holds 5 characters; a token has 16 to 4096"),
        (f"{TOKEN} {TOKEN}", "one word of printable ASCII"),
        (f"{TOKEN}\u00e9", "one word of printable ASCII"),
    ],
)
def test_a_file_that_holds_no_token_is_refused_and_not_quoted(
    tmp_path: Path, text: str, why: str
) -> None:
    path = tmp_path / "token"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(SecurityError) as refused:
        read_token(SecurityConfig(token=path))
    assert why in str(refused.value)
    assert text not in str(refused.value)


def test_a_token_is_read_without_the_end_of_its_line(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text(f"{TOKEN}\n")
    assert read_token(SecurityConfig(token=path)) == TOKEN
    assert read_token(SecurityConfig()) == ""


HERE = [
    *("127.0.0.1:8517", "127.9.9.9:0", "localhost:1", "LocalHost:1", "[::1]:8517"),
    *("unix:/run/x", "unix-abstract:x"),
]
AWAY = [
    *("0.0.0.0:8517", "[::]:8517", "10.0.0.1:1", "server:8517", "localhost.evil.test:1"),
    *("::1:8517", "0:8517", "127.1:8517", "[::ffff:10.0.0.1]:1", "[127.0.0.1]:1", "::ffff:7f00:1"),
    *("127.0.0.1.evil.test:1", "ipv4:127.0.0.1:1,10.0.0.1:1", ":8517", "127.0.0.1@evil:1", ""),
]


@pytest.mark.parametrize("address", HERE)
def test_an_address_on_this_machine_takes_plain_text(address: str) -> None:
    assert is_loopback(address)
    require_loopback(address, SecurityConfig(), remedy="")


@pytest.mark.parametrize("address", AWAY)
def test_any_other_takes_it_only_when_asked_by_name_and_with_a_warning(
    address: str, caplog: pytest.LogCaptureFixture
) -> None:
    assert not is_loopback(address)
    with pytest.raises(SecurityError, match=r"nothing here is encrypted. Do this.*--insecure"):
        require_loopback(address, SecurityConfig(), remedy="Do this")
    assert "plain text" not in caplog.text
    require_loopback(address, SecurityConfig(insecure=True), remedy="Do this")
    assert [each.levelno for each in caplog.records if "plain text at " in each.message] == [
        logging.WARNING
    ]


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"key": "k"}, "key is set without certificate"),
        ({"certificate": "c"}, "certificate is set without key"),
        ({"insecure": True, "ca": "c"}, "insecure means plain text and ca means TLS"),
        ({"insecure": True, "server_name": "s"}, "plain text and server_name means TLS"),
        ({"server_name": ""}, "server_name is empty"),
    ],
)
def test_settings_that_contradict_each_other_are_refused(
    given: dict[str, object], why: str
) -> None:
    with pytest.raises(ValueError, match=why):
        SecurityConfig.model_validate(given)

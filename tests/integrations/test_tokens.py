"""Tokens in files that have no name, as integrations send them through a framework's channel."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from threading import Barrier

import pytest

from streamlink import LinkConfig
from streamlink.config import SecurityConfig
from streamlink.integrations.tokens import SecretFile, TokenList, with_security
from streamlink.transport.identity import Guard
from tests.support.machines import a_hello


def test_a_secret_file_holds_its_text_until_it_is_replaced() -> None:
    file = SecretFile("the first, which is the longer one")
    assert file.path.read_text() == "the first, which is the longer one"
    file.write("the second")
    assert file.path.read_text() == "the second"


def test_who_reads_a_secret_file_while_it_is_replaced_has_the_old_text() -> None:
    file = SecretFile("old")
    with file.path.open() as reader:
        file.write("new")
        assert reader.read() == "old"
    assert file.path.read_text() == "new"


def test_a_secret_file_is_another_one_to_stat_once_it_was_replaced() -> None:
    file = SecretFile("same")
    before = file.path.stat().st_ino
    file.write("same")
    assert file.path.stat().st_ino != before


def test_a_closed_secret_file_is_gone() -> None:
    file = SecretFile("text")
    file.close()
    assert not file.path.exists()


def test_a_list_of_tokens_is_never_empty_and_admits_nobody_at_first() -> None:
    assert list(json.loads(TokenList().path.read_text())) == [""]


def test_a_name_may_have_several_tokens_and_lose_one_of_them() -> None:
    tokens = TokenList()
    first, second = tokens.admit("site-1"), tokens.admit("site-1")
    assert not tokens.dismiss("site-1", first)
    tokens.publish()
    found = json.loads(tokens.path.read_text())
    assert found["site-1"] == [sha256(second.encode()).hexdigest()]
    assert tokens.dismiss("site-1", second)


def test_a_client_keeps_the_token_that_it_was_given_and_may_connect_with_it_at_once() -> None:
    tokens = TokenList()
    first = tokens.token_of("site-1")
    assert tokens.token_of("site-1") == first != tokens.token_of("site-2")
    found = json.loads(tokens.path.read_text())
    assert found["site-1"] == [sha256(first.encode()).hexdigest()]


def test_what_was_never_admitted_is_dismissed_without_harm() -> None:
    tokens = TokenList()
    tokens.dismiss("site-1", "no token of this list")
    tokens.publish()
    assert list(json.loads(tokens.path.read_text())) == [""]


def test_files_of_tls_that_make_no_sense_together_are_refused() -> None:
    with pytest.raises(ValueError, match="certificate is set without key"):
        with_security(LinkConfig(), certificate="site.pem")


def test_clients_that_get_their_tokens_at_the_same_time_are_all_let_in() -> None:
    tokens, clients = TokenList(), 16
    guard, ready = Guard(SecurityConfig(tokens=tokens.path)), Barrier(clients)

    def join(name: str) -> None:
        ready.wait()
        guard.check_greeting(a_hello(name=name, token=tokens.token_of(name)), None)

    with ThreadPoolExecutor(clients) as pool:
        list(pool.map(join, [f"site-{number}" for number in range(clients)]))

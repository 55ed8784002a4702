"""Facts of a request: what a client meant is what is read; anything else is refused."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamlink.errors import (
    ObjectError,
    ObjectExpired,
    ObjectRefused,
    RequestRefused,
    TopicNotServed,
    UnknownObject,
)
from streamlink.objects.wire import GET, PUT, Caller, Facts, Terms, error_of, kind_of

words = st.text(st.characters(codec="utf-8"), min_size=1, max_size=60).filter(str.isprintable)
terms = st.builds(
    Terms,
    nbytes=st.integers(0, 10**18),
    readers=st.none() | st.lists(words, max_size=5, unique=True).map(tuple),
    reads=st.none() | st.integers(1, 10**9),
    ttl=st.none() | st.floats(min_value=0, exclude_min=True, allow_infinity=False),
)


@given(terms, words, words)
def test_what_a_client_asks_is_what_is_read(asked: Terms, client: str, call: str) -> None:
    facts = Facts({**asked.facts(), **Caller(client, call).facts()})
    assert facts.terms == asked
    assert facts.caller == Caller(client, call)


NAMES = ("ref", "client", "call", "start", "stop", "complete", "nbytes", "readers", "reads", "ttl")


@given(st.dictionaries(st.sampled_from(NAMES), st.text(max_size=60)))
def test_garbage_raises_an_object_error_and_nothing_else(metadata: dict[str, str]) -> None:
    for name in ("reference", "caller", "extent", "is_complete", "terms"):
        with suppress(ObjectError):
            getattr(Facts(metadata), name)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("nbytes", "-1"),
        ("nbytes", "9" * 20),
        ("nbytes", "٣"),
        ("reads", "1.5"),
        ("ttl", "nan"),
        ("ttl", "inf"),
        ("ttl", "0"),
        ("ttl", "-3"),
        ("readers", "site-1"),
        ("readers", '"site-1"'),
        ("readers", "[1]"),
        ("readers", '["a", "a"]'),
        ("readers", "[" * 5000),
    ],
)
def test_terms_that_cannot_be_are_refused(name: str, text: str) -> None:
    fine = Terms(7, ("a",), 1, 2.0).facts()
    with pytest.raises(ObjectRefused):
        Facts({**fine, name: text}).terms  # noqa: B018


@pytest.mark.parametrize("text", ["", "a\nb", "x" * 201])
def test_a_caller_has_short_printable_names(text: str) -> None:
    with pytest.raises(ObjectRefused):
        Facts({"client": text, "call": "c"}).caller  # noqa: B018


def test_a_range_ends_after_it_starts() -> None:
    assert Facts({"start": "3", "stop": "3"}).extent.nbytes == 0
    with pytest.raises(ObjectRefused):
        Facts({"start": "4", "stop": "3"}).extent  # noqa: B018


def test_an_error_of_the_server_is_the_same_error_at_the_client() -> None:
    raised = ObjectExpired("it has expired")
    there = RequestRefused(str(raised), who="server", metadata=kind_of(raised))
    found = error_of(there, GET)
    assert type(found) is ObjectExpired
    assert str(found) == "it has expired"
    other = RequestRefused("no", who="server", metadata={"kind": "SystemExit"})
    assert error_of(other, GET) is other
    unserved = TopicNotServed("it is closed", who="server", metadata={})
    assert {topic: type(error_of(unserved, topic)) for topic in (GET, PUT)} == {
        GET: UnknownObject,
        PUT: ObjectRefused,
    }

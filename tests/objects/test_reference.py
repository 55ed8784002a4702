"""References: a text that survives any journey, and nothing that was not sealed gets through."""

from __future__ import annotations

import base64
import hmac
from dataclasses import replace
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamlink.errors import InvalidReference, ObjectError, ObjectRefused, UnknownObject
from streamlink.objects.reference import MAX_REFERENCE_CHARS, Reference, Sealer

KEY, START = bytes(range(32)), b"\1" * 8

names = st.text(
    st.characters(codec="utf-8", categories=("L", "N", "P")), min_size=1, max_size=128
).filter(str.isprintable)
readers = st.none() | st.lists(names, max_size=6, unique=True).map(tuple)
digests = st.binary(min_size=32, max_size=32).filter(any).map(bytes.hex)


@st.composite
def references(draw: st.DrawFn) -> Reference:
    return Sealer(KEY, START).seal(
        id=draw(st.binary(min_size=16, max_size=16)).hex(),
        nbytes=draw(st.integers(0, (1 << 63) - 1)),
        digest=draw(st.just("") | digests),
        spec_digest=draw(digests),
        expires_at=draw(st.floats(0, 1e11)),
        readers=draw(readers),
    )


def a_reference(**facts: object) -> Reference:
    sealer = Sealer(KEY, START)
    known = {
        "id": "ab" * 16,
        "nbytes": 7,
        "digest": "",
        "spec_digest": "cd" * 32,
        "expires_at": 5.0,
        "readers": ("site-1",),
    }
    return sealer.seal(**{**known, **facts})  # type: ignore[arg-type]


@given(references())
def test_a_reference_comes_back_from_its_text_and_its_seal_fits(reference: Reference) -> None:
    text = str(reference)
    assert text.isascii()
    assert len(text) <= MAX_REFERENCE_CHARS
    assert Reference.parse(text) == reference
    Sealer(KEY, START).check(Reference.parse(text))


@given(references(), st.data())
def test_a_reference_with_any_other_character_is_refused(
    reference: Reference, data: st.DataObject
) -> None:
    text = str(reference)
    at = data.draw(st.integers(0, len(text) - 1))
    other = data.draw(st.characters(codec="ascii").filter(lambda one: one != text[at]))
    with pytest.raises(ObjectError):
        Sealer(KEY, START).check(Reference.parse(text[:at] + other + text[at + 1 :]))


@given(references(), st.data())
def test_a_reference_that_was_cut_or_lengthened_is_refused(
    reference: Reference, data: st.DataObject
) -> None:
    text = str(reference)
    cut = data.draw(st.integers(0, len(text) - 1))
    tail = data.draw(st.text(min_size=1, max_size=9).filter(str.strip))  # not spaces alone
    for wrong in (text[:cut], text + tail, tail + text):
        with pytest.raises(ObjectError):
            Sealer(KEY, START).check(Reference.parse(wrong))


@given(st.text(max_size=400) | st.binary(max_size=400).map(lambda raw: encoded(raw)))
def test_a_text_that_is_no_reference_is_refused_and_does_nothing_else(text: str) -> None:
    with pytest.raises(ObjectError):
        Sealer(KEY, START).check(Reference.parse(text))


def encoded(raw: bytes) -> str:
    return "slref1." + base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


@given(references(), st.binary(max_size=40), st.sampled_from([0, 1, 2, 7, 0xFFFE, 0xFFFF]))
def test_a_list_of_readers_that_lies_about_itself_is_refused(
    reference: Reference, names: bytes, count: int
) -> None:
    head = base64.urlsafe_b64decode(str(reference)[7:] + "==")[:106]
    raw = head[:-2] + count.to_bytes(2, "big") + names + bytes(32)
    with pytest.raises(ObjectError):
        Sealer(KEY, START).check(Reference.parse(encoded(raw)))


@pytest.mark.parametrize("wrong", [None, 7, b"slref1.AAAA", ["slref1.AAAA"]])
def test_what_is_no_text_is_no_reference(wrong: object) -> None:
    with pytest.raises(InvalidReference, match="is a text"):
        Reference.parse(wrong)  # type: ignore[arg-type]


def test_spaces_and_line_ends_around_a_reference_do_not_count() -> None:
    known = a_reference()
    assert Reference.parse(f" {known}\n") == known


def test_a_text_that_is_too_long_is_refused_before_it_is_decoded() -> None:
    with pytest.raises(InvalidReference, match=f"most are {MAX_REFERENCE_CHARS}"):
        Reference.parse("slref1." + "A" * MAX_REFERENCE_CHARS)


@pytest.mark.parametrize(
    "change",
    [
        {"readers": None},
        {"readers": ("site-1", "site-2")},
        {"nbytes": 8},
        {"expires_at": 6.0},
        {"digest": "ef" * 32},
        {"spec_digest": "ef" * 32},
        {"id": "ef" * 16},
    ],
)
def test_every_fact_of_a_reference_is_sealed(change: dict[str, object]) -> None:
    with pytest.raises(ObjectRefused, match="forged"):
        Sealer(KEY, START).check(replace(a_reference(), **change))  # type: ignore[arg-type]


def test_a_reference_of_an_earlier_start_is_unknown_and_the_error_says_so() -> None:
    before = Sealer().seal(
        id="ab" * 16, nbytes=7, digest="", spec_digest="cd" * 32, expires_at=5.0, readers=None
    )
    with pytest.raises(UnknownObject, match="the server was started again"):
        Sealer().check(before)


def test_a_key_of_another_server_does_not_fit_even_if_it_claims_the_same_start() -> None:
    with pytest.raises(ObjectRefused, match="forged"):
        Sealer(bytes(32), START).check(a_reference())


def test_seals_are_compared_in_constant_time() -> None:
    with patch.object(hmac, "compare_digest", return_value=True) as compared:
        Sealer(KEY, START).check(replace(a_reference(), seal=bytes(32)))
    assert compared.called


def test_a_reference_has_a_few_hundred_characters_and_no_place_for_an_address() -> None:
    assert len(str(a_reference(readers=None))) < 250
    assert len(str(a_reference(readers=tuple(f"site-{n}" for n in range(20))))) < 500


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        ("site-1", "pass a tuple"),
        (("",), "no name"),
        (("a\nb",), "no name"),
        (("x" * 129,), "no name"),
        (("a", "a"), "twice"),
        (tuple(f"{n:0128}" for n in range(40)), "room for 4096"),
    ],
)
def test_readers_that_cannot_be_are_refused_when_a_reference_is_made(
    wrong: object, why: str
) -> None:
    with pytest.raises(ValueError, match=why):
        a_reference(readers=wrong)

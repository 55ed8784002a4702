"""The proof of a connection, without I/O."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamlink.transport.tcp import proof
from streamlink.transport.tcp.proof import Opening, Replays

KEY, OTHER = bytes(range(32)), bytes(32)
OPENING = Opening("0f" * 16, "ab" * 8, 7, 1)
LANE = Opening("0f" * 16, "ab" * 8, 7, 1, is_lane=True)

names = st.text(st.characters(codec="ascii", categories=["L", "N"]), max_size=60)
numbers = st.integers(0, 2**64 - 1)


@given(st.builds(Opening, names, names, numbers, numbers, st.booleans()))
def test_an_opening_says_what_was_put_in_and_is_proven_by_its_key_alone(opening: Opening) -> None:
    raw = opening.encode(KEY)
    assert len(raw) <= proof.MOST_BYTES
    assert Opening.rest_bytes(raw[: proof.HEAD_BYTES]) == len(raw) - proof.HEAD_BYTES
    assert Opening.decode(raw) == opening
    assert Opening.is_proven(raw, KEY)
    assert not Opening.is_proven(raw, OTHER)


@given(st.integers(0, len(OPENING.encode(KEY)) * 8 - 1))
def test_an_opening_with_any_bit_changed_is_not_proven(bit: int) -> None:
    raw = bytearray(OPENING.encode(KEY))
    raw[bit // 8] ^= 1 << bit % 8
    assert not Opening.is_proven(bytes(raw), KEY)


def test_an_opening_cannot_be_passed_off_as_that_of_a_lane() -> None:
    forged = LANE.encode(KEY)[: proof.HEAD_BYTES] + OPENING.encode(KEY)[proof.HEAD_BYTES :]
    assert Opening.decode(forged) == LANE
    assert not Opening.is_proven(forged, KEY)


@given(st.binary(max_size=300))
def test_of_any_bytes_an_opening_is_made_or_a_value_error(raw: bytes) -> None:
    try:
        assert isinstance(Opening.decode(raw), Opening)
    except ValueError:
        return
    assert raw.startswith((b"SLD1", b"SLL1"))


@pytest.mark.parametrize(
    ("raw", "why"),
    [
        (b"GET / HTTP/1.1\r\nHost: x\r\n\r\n".ljust(proof.HEAD_BYTES), "does not begin as"),
        (b"SLD1\xff\xff".ljust(proof.HEAD_BYTES), "longer than 256 bytes"),
    ],
)
def test_what_begins_otherwise_is_refused_before_the_rest_is_read(raw: bytes, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        Opening.rest_bytes(raw)


def test_a_session_with_an_enormous_name_is_not_opened() -> None:
    with pytest.raises(ValueError, match="too many bytes"):
        Opening("x" * 200, "y", 1, 1).encode(KEY)


def test_an_answer_is_good_for_its_opening_and_its_key_alone() -> None:
    raw = OPENING.encode(KEY)
    said = proof.answer(raw, KEY)
    assert len(said) == proof.ANSWER_BYTES
    assert proof.is_answer(said, raw, KEY)
    assert not proof.is_answer(said, raw, OTHER)
    assert not proof.is_answer(said, OPENING.encode(KEY), KEY)  # other random bytes
    assert not proof.is_answer(bytes(proof.ANSWER_BYTES), raw, KEY)


def test_an_opening_sent_back_is_no_answer() -> None:
    raw = OPENING.encode(KEY)
    for at in range(len(raw) - proof.ANSWER_BYTES + 1):
        assert not proof.is_answer(raw[at : at + proof.ANSWER_BYTES], raw, KEY)


@given(st.lists(st.integers(1, 3000), max_size=60))
def test_a_number_is_good_once_in_any_order(drawn: list[int]) -> None:
    replays, used = Replays(), set[int]()
    for number in drawn:
        is_new = replays.is_new(number)
        # One that is far behind may be refused, though it is new; none is accepted twice.
        assert not (is_new and number in used)
        if number not in used and number > max(used, default=0) - 1024:
            assert is_new
        used.add(number)


def test_numbers_that_no_client_would_send_cost_nothing() -> None:
    replays = Replays()
    assert [replays.is_new(each) for each in (0, 2**64 - 1, 2**64 - 1, 1)] == [
        False, True, False, False,
    ]  # fmt: skip

"""What a peer describes: read within the limits, remembered within a sum."""

from __future__ import annotations

import tracemalloc

import pytest

from streamlink.config import LimitsConfig
from streamlink.errors import ModelError, RemoteProtocolError, SpecMismatch, UnsupportedDtype
from streamlink.link.description import KnownSpecs, described
from streamlink.transport.messages import TensorEntry, encode_spec
from tests.support.hostile_frames import SPEC_PAGE, Mischief
from tests.support.models import float_spec

LIMITS = LimitsConfig(max_tensors=20, max_name_bytes=10, max_dimensions=3)


def pages(*tensors: TensorEntry) -> list[bytes]:
    return encode_spec(tensors, 1 << 20)


@pytest.mark.parametrize(
    ("tensors", "kind", "words"),
    [
        ([(f"t{n}", "U8", ()) for n in range(21)], ModelError, "more than 20 tensors"),
        ([("é" * 6, "U8", ())], ModelError, "the most are 10 bytes (max_name_bytes)"),
        ([("n", "U8", (1, 1, 1, 1))], ModelError, "has 4 dimensions; the most are 3"),
        ([("", "U8", ())], ModelError, "name is empty"),
        ([("a", "x" * 9999, ())], UnsupportedDtype, f"dtype '{'x' * 32}' is not one of"),
        ([("a", "U8", ()), ("a", "U8", ())], SpecMismatch, "in the spec twice"),
        ([("a", "U8", ((1 << 64) - 1,))], ModelError, "a shape has at most"),
        (
            [("a", "F64", (1 << 60, 1 << 60, 1 << 60))],
            ModelError,
            "above the limit of",
        ),
        ([("a", "F64", (1 << 60,)), ("b", "F64", (1,))], ModelError, "above the limit of"),
    ],
)
def test_a_description_beyond_a_limit_is_refused_in_words(
    tensors: list[TensorEntry], kind: type[ModelError], words: str
) -> None:
    with pytest.raises(kind) as refused:
        described(pages(*tensors), LIMITS)
    assert words in str(refused.value)


def test_a_description_at_the_limits_is_taken() -> None:
    tensors = [(f"{n:010}", "U8", (1, 2, 3)) for n in range(20)]
    assert [tensor.name for tensor in described(pages(*tensors), LIMITS).tensors] == [
        name for name, _, _ in tensors
    ]


def test_bytes_that_describe_nothing_lead_to_a_typed_error() -> None:
    mischief, ends = Mischief(7), set()
    for _ in range(2000):
        try:
            described([mischief.bytes_of(SPEC_PAGE)], LIMITS)
        except (ModelError, RemoteProtocolError) as error:
            ends.add(type(error))
    assert {ModelError, RemoteProtocolError} <= ends


def test_a_page_of_nothings_costs_little_and_no_more_than_the_limit_is_built() -> None:
    page = b"\x0a\x00" * (256 << 10)  # as many tensors without a name as fit a page
    tracemalloc.start()
    try:
        with pytest.raises(ModelError, match="is not one of"):
            described([page], LimitsConfig())
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()


def test_what_is_remembered_of_descriptions_is_bounded_in_number_and_in_sum() -> None:
    many, few = KnownSpecs(), KnownSpecs(10)
    specs = [float_spec(*range(1, 2 + size)) for size in range(12)]
    for spec in specs:
        many.add(spec)
        few.add(spec)
    assert len(many) == KnownSpecs.LIMIT
    assert many.get(specs[-1].digest) is specs[-1]
    assert many.get(specs[0].digest) is None
    assert len(few) == 1  # the latest is kept, though it has 12 tensors

"""Which names that stand for types are noticed in an annotation, and where they are from."""

from __future__ import annotations

import pytest

from tests.support.public_aliases import aliases_in, origin


@pytest.mark.parametrize(
    ("annotation", "module", "names"),
    [
        ("SourceLike", "streamlink.copying", ["streamlink.stores.coercion.SourceLike"]),
        (
            "dict[str, Callable[[SourceLike], TransferProgress]] | None",
            "streamlink.copying",
            ["streamlink.link.transfer.TransferProgress", "streamlink.stores.coercion.SourceLike"],
        ),
        ("ModelSource | int | Path", "streamlink.copying", []),  # classes are judged as such
        ("Callable[[str], T]", "streamlink.link.awaiting", []),  # a type of the caller
        ("_Number", "streamlink.rounds.schedule", []),  # an abbreviation of what users know
    ],
)
def test_an_alias_is_noticed_wherever_it_is_in_an_annotation(
    annotation: str, module: str, names: list[str]
) -> None:
    assert sorted(map(str, aliases_in(annotation, module))) == names


def test_an_alias_that_was_imported_on_the_way_is_the_same_one() -> None:
    found = origin("streamlink.stores", "SourceLike")
    assert found is not None
    assert str(found) == "streamlink.stores.coercion.SourceLike"
    assert origin("streamlink.stores", "ArrayModel") is None


def test_an_alias_that_two_packages_write_alike_is_one_for_users() -> None:
    one, other = (origin(f"streamlink.{each}", "Payload") for each in ("model", "protocol.frames"))
    assert one is not None
    assert other is not None
    assert one.line == other.line

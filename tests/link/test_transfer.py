"""What the peer is told of an error of ours."""

from __future__ import annotations

import pytest

from streamlink.errors import StoreFull
from streamlink.link.transfer import abort_reason


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (KeyboardInterrupt(), "interrupted by its user"),
        (StoreFull("the disk is full"), "the disk is full"),
        (MemoryError(), "MemoryError"),
    ],
)
def test_a_reason_is_never_empty(error: BaseException, words: str) -> None:
    assert abort_reason(error) == words

from __future__ import annotations

from streamlink.model.interfaces import payload_bytes


def test_a_payload_is_as_long_as_its_views() -> None:
    assert payload_bytes(()) == 0
    assert payload_bytes((memoryview(b"abc"), memoryview(b""), memoryview(b"de"))) == 5

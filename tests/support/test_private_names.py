"""The rule on private names in tests: what it notices, and what it lets pass."""

from __future__ import annotations

import ast

import pytest

from tests.support.private_names import faults


@pytest.mark.parametrize(
    ("line", "count"),
    [
        ("peer._session", 1),
        ("self._session", 0),
        ("class A:\n    _kept: int\nA()._kept", 0),
        ("from streamlink.link.client import _Task", 1),
        ("monkeypatch.setattr(link, 'connect', broken)", 1),
        ("setattr(Link, 'connect', broken)", 1),
        ("monkeypatch.setattr(messages, 'MAX_BYTES', 3)", 0),
        ("monkeypatch.setattr(os, 'pwrite', full)", 0),
        ("os._exit(0)", 0),
    ],
)
def test_every_kind_is_noticed(line: str, count: int) -> None:
    assert len(list(faults(ast.parse(line)))) == count

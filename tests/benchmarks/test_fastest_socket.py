"""The bare sockets that others are measured beside come from the report of ``raw``."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.arrays import KiB
from benchmarks.fastest_socket import fastest


def report(folder: Path, **best: str) -> Path:
    path = folder / "raw.json"
    kinds = {"raw TCP": best.get("tcp"), "raw TLS": best.get("tls")}
    path.write_text(json.dumps({"results": {"raw": {"best": kinds}}}))
    return path


def test_what_was_fastest_is_run_as_it_was_then(tmp_path: Path) -> None:
    path = report(tmp_path, tcp="raw TCP, 1024 KiB, MSG_WAITALL", tls="raw TLS, 256 KiB")
    plain, secret = fastest("raw TCP", path), fastest("raw TLS", path)
    assert (plain.message_bytes, secret.message_bytes) == (1024 * KiB, 256 * KiB)
    assert plain.receiver.endswith("waiting_receiver")
    assert not secret.receiver.endswith("waiting_receiver")


def test_a_report_that_does_not_know_it_says_how_it_is_measured(tmp_path: Path) -> None:
    with pytest.raises(LookupError, match="measured first, by `python -m benchmarks raw"):
        fastest("raw TCP", tmp_path / "raw.json")
    with pytest.raises(LookupError, match="has no raw TLS"):
        fastest("raw TLS", report(tmp_path, tcp="raw TCP, 256 KiB"))

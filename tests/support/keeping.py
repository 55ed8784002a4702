"""Clients that keep versions in one directory, running or ended, and a clock for their waits."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from streamlink.stores.shared_space import SharedSpace
from streamlink.stores.versions import Versions

SPEC = bytes(range(32))
SIZE = 100_000


def opened(shared: Path, name: str, room: int) -> Versions:
    """Return what ``name`` keeps, where ``room`` models fit in all."""
    return Versions(shared, "kept-client", name, most=3, most_bytes=room * SIZE)


def seen_by(shared: Path, name: str) -> SharedSpace:
    return SharedSpace(shared, "kept-client", name, SIZE)


def keep(versions: Versions, number: int) -> bool:
    writer = versions.begin("job", SPEC, SIZE)
    if writer is None:
        return False
    writer.add(memoryview(bytes([number]) * SIZE))
    writer.commit(f"digest {number}")
    return True


def kept(shared: Path) -> list[str]:
    """Return folder and number of each file that counts towards ``kept_bytes``."""
    found = [*shared.glob("*/*.version"), *shared.glob("*/*.partial")]
    return sorted(f"{each.parent.name} {int(each.stem)}" for each in found)


def ended(shared: Path, name: str, *ages: int) -> None:
    """Let a client that has ended leave one version of each age (days), the oldest first."""
    with opened(shared, name, 100) as versions:
        for number, _ in enumerate(ages):
            assert keep(versions, number)
    for path, age in zip(sorted((shared / f"kept-client-{name}").iterdir()), ages, strict=True):
        os.utime(path, (time.time() - age * 86400,) * 2)


def clock_of_sleepers(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Return the time (seconds), which goes on while somebody sleeps, and only then."""
    now = [0.0]

    def sleep(seconds: float) -> None:
        now[0] += seconds

    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    monkeypatch.setattr(time, "sleep", sleep)
    return now

"""Words between a peer's process and processes that it has not started itself, as files.

A framework starts processes of its own and offers no line to them but their environment. A word is
a file with JSON in a folder, which is there as a whole or not at all. Imported in the environments
of the peers: the standard library and NumPy only.
"""

from __future__ import annotations

import json
import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.links.payload import Payload

__all__ = ["LOOK_SECONDS", "Hand", "from_environment"]

LOOK_SECONDS = 0.02
WAIT_SECONDS = 7200.0
FOLDER, FACTS = "STREAMLINK_LINKS_FOLDER", "STREAMLINK_LINKS_PAYLOAD"


@dataclass(frozen=True)
class Hand:
    """Says words to whoever looks into the folder, and waits for theirs."""

    folder: Path
    payload: Payload

    def variables(self) -> dict[str, str]:
        """Return what a process needs in its environment for ``from_environment``."""
        return {FOLDER: str(self.folder), FACTS: json.dumps(self.payload.as_json())}

    def say(self, word: str, **facts: Any) -> None:
        """Leave a word with its facts."""
        partial = self.folder / f"{word}.partial"
        partial.write_text(json.dumps(facts), encoding="utf-8")
        partial.replace(self.folder / f"{word}.json")

    def wait_for(self, word: str, seconds: float = WAIT_SECONDS) -> dict[str, Any]:
        """Wait for a word and return its facts.

        Raises:
            TimeoutError: nobody said it.
        """
        path, give_up_at = self.folder / f"{word}.json", time.monotonic() + seconds
        while not path.exists():
            if time.monotonic() > give_up_at:
                raise TimeoutError(f"nobody said {word!r} in {seconds:g} s")
            time.sleep(LOOK_SECONDS)
        facts: dict[str, Any] = json.loads(path.read_text("utf-8"))
        return facts


def from_environment() -> Hand:
    """Return the hand of whoever started this process's framework."""
    return Hand(Path(os.environ[FOLDER]), Payload(**json.loads(os.environ[FACTS])))

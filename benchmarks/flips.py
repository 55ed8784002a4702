"""Single bits are flipped on the line while models cross it, one at a time: none gets through.

Plain text, so nothing but streamlink's own checks, gRPC's and HTTP/2's stand between a flip and the
model. Both directions are hit, in every kind of place (``hits.py`` has how often): chunks, their
headers, all other messages of ours, and what gRPC and HTTP/2 wrap around them. The next bit is
flipped when it is known what the last one did, so each has its own outcome.

Judged are the flips in messages: for each of them its chunk was asked for again, or an end found
its frame damaged; or the call ended before the message was read, which is counted beside the
others. Nothing else passes, and every byte of every model is compared, the digests of both ends
are, and no transfer may fail.

Not every other bit means something: a window that only grows, a ping's payload, a setting nobody
uses, a reserved bit, a frame of a stream that is over. Such a flip is without effect, and the table
has the kind of frame that it hit.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import streamlink
from benchmarks.hits import GRPC, IN_MESSAGES, OUTCOMES, TCP, Hit, OneByOne, Outcome
from benchmarks.models import GrowingStore, Layout
from benchmarks.passing import Passed, listening, pass_model
from benchmarks.stats import Result

__all__ = ["SETTINGS", "Found", "flip", "run"]

KIB, MB = 1 << 10, 10**6
FLIPS, QUICK_FLIPS, SEED = 1000, 20, 1
RETRY_SECONDS = 60.0
LAYOUT, QUICK = Layout(16, 4 * MB), Layout(4, 2 * MB)
# A data connection carries little but chunks except where a model begins or ends, and every kind of
# message is to be hit: so models are short there, and many.
LAYOUTS = {"grpc": LAYOUT, "tcp": QUICK}
MESSAGES, TOTAL = "all messages", "all"

SETTINGS = streamlink.LinkConfig(
    stream=streamlink.StreamConfig(
        chunk_bytes=8 * KIB,  # many frames of every kind
        min_chunk_bytes=8 * KIB,
        window_bytes=512 * KIB,
        initial_window_bytes=128 * KIB,
        max_repairs=20,  # a storm such as this may hit one call after another
    ),
    timeouts=streamlink.TimeoutConfig(
        call_timeout=0.25,
        open_timeout=5.0,
        heartbeat_interval=0.05,
        session_timeout=1.0,
        reconnect_timeout=60.0,
        connect_timeout=60.0,
    ),
)


@dataclass(frozen=True)
class Found:
    """What became of the flips of a run.

    Attributes:
        hits: each flip, in order.
        transfers: how many models were sent (count).
        repairs: how many chunks were asked for again (count).
        wrong_bytes: length of the ranges that were not what they should be (bytes).
        different_digests: how many models had another digest at the other end (count).
    """

    hits: tuple[Hit, ...]
    transfers: int
    repairs: int
    wrong_bytes: int
    different_digests: int

    @property
    def table(self) -> dict[str, dict[Outcome, int]]:
        """How many flips had which outcome, by where they fell; messages of ours come first."""
        ours = [hit for hit in self.hits if hit.is_in_message]
        others = [hit for hit in self.hits if not hit.is_in_message]
        labels = [*IN_MESSAGES, *sorted({hit.label for hit in others})]
        rows = {label: _count([hit for hit in self.hits if hit.label == label]) for label in labels}
        first = {label: rows.pop(label) for label in IN_MESSAGES}
        return {**first, MESSAGES: _count(ours), **rows, TOTAL: _count(self.hits)}

    def as_json(self) -> dict[str, Any]:
        """Return the counts as a JSON object."""
        return {
            "transfers": self.transfers,
            "flips": len(self.hits),
            "by_place": self.table,
            "repairs": self.repairs,
            "wrong_bytes": self.wrong_bytes,
            "different_digests": self.different_digests,
        }


def _count(hits: Sequence[Hit]) -> dict[Outcome, int]:
    counted = Counter(hit.outcome for hit in hits)
    return {outcome: counted[outcome] for outcome in OUTCOMES}


def run(quick: bool, carrier: str = "grpc") -> Result:
    """Flip 1,000 bits of messages (quick: 20), and a fifth of all flips elsewhere."""
    flips, layout = (QUICK_FLIPS, QUICK) if quick else (FLIPS, LAYOUTS[carrier])
    found = flip(flips, layout, SEED, carrier)
    return Result(
        name="flips",
        claim=f"{flips} bits of messages flipped one by one ({carrier}), and more around them: "
        "each in a message is found, none gets through, no transfer fails",
        columns=("where", "flips", *OUTCOMES),
        rows=tuple(
            (label, str(sum(row.values())), *(str(row[outcome]) for outcome in OUTCOMES))
            for label, row in found.table.items()
        ),
        facts={"layout": layout.as_json(), "seed": SEED, "carrier": carrier, **found.as_json()},
        met=None if quick else is_met(found, flips),
    )


def is_met(found: Found, flips: int) -> bool:
    """Tell whether as many bits of messages were flipped and found, and all arrived as it left."""
    ours = found.table[MESSAGES]
    is_found = ours["repaired"] + ours["damaged"] + ours["not delivered"] == sum(ours.values())
    is_right = not (found.wrong_bytes or found.different_digests)
    return sum(ours.values()) >= flips and is_found and is_right


def flip(flips: int, layout: Layout, seed: int, carrier: str = "grpc") -> Found:
    """Send models over a line that flips bits, until it has hit so many in messages.

    With ``tcp`` the line is that of the models' connections alone.

    Raises:
        StreamlinkError: a transfer failed.
    """
    store = GrowingStore(layout, 1.0)
    passed: list[Passed] = []
    with listening() as heard:
        wire = TCP if carrier == "tcp" else GRPC
        flipping = OneByOne(random.Random(seed), heard.lines, flips, wire=wire)
        while not flipping.is_done:
            model = layout.model(store.models + 1.0)
            # With retries, which ``send`` has by default: a flip in the first bytes of a
            # connection comes before the session, so there is nothing to resume.
            passed.append(
                pass_model(
                    model, store, SETTINGS, tap=flipping, carrier=carrier, retry=RETRY_SECONDS
                )
            )
            flipping.end_line()
    return Found(
        hits=tuple(flipping.hits),
        transfers=len(passed),
        repairs=sum(one.received.stats.repairs for one in passed),
        wrong_bytes=store.wrong_bytes,
        different_digests=sum(one.sent.digest != one.received.digest for one in passed),
    )

"""Single bits are flipped on the line while models cross it: none of it gets through.

Plain text, so nothing but streamlink's own checks, gRPC's and HTTP/2's stand between a flip and the
model. Both directions are hit at random places, in turn as the bytes pass: payloads, headers, acks,
heartbeats, and what HTTP/2 and gRPC wrap around them. Each is found in one of these ways:

    repaired   a chunk was damaged, and was asked for again on its call
    damaged    another frame was, or was lost: its call was given up, and another one went on
    broken     HTTP/2 or gRPC ended a call, or the whole connection
    silent     the call brought nothing more, and was given up

Not every bit means something. A ping's payload, a setting nobody uses, a window that only grows,
an ack that the next one repeats, what is under way on a connection that has just broken, a frame of
a stream that is over: such a flip nobody finds, and it does no harm. And one flip may end more than
one call. So the ways are counted over the whole run, and ``unnoticed`` is what they leave of the
flips, if they leave any. What is judged is what arrived: every byte of every model is compared, the
digests of both ends are, and no transfer may fail.
"""

from __future__ import annotations

import random
from dataclasses import asdict, dataclass

import streamlink
from benchmarks.models import GrowingStore, Layout
from benchmarks.passing import Passed, listening, pass_model
from benchmarks.relay import Direction, Link, Relay
from benchmarks.stats import Result

__all__ = ["SETTINGS", "Found", "flip", "run"]

KIB, MB = 1 << 10, 10**6
FLIPS, QUICK_FLIPS, SEED = 1000, 40, 1
LAYOUT, QUICK = Layout(16, 4 * MB), Layout(4, 2 * MB)
APART: dict[Direction, int] = {"up": 300_000, "down": 4_000}
"""How many bytes lie between two flips, on average: by far the most go up, in chunks."""

SETTINGS = streamlink.LinkConfig(
    stream=streamlink.StreamConfig(
        chunk_bytes=8 * KIB,  # many frames of every kind
        min_chunk_bytes=8 * KIB,
        window_bytes=512 * KIB,
        initial_window_bytes=128 * KIB,
        max_repairs=10,  # a storm such as this may hit one call after another
    ),
    timeouts=streamlink.TimeoutConfig(
        call_timeout=0.25,
        open_timeout=5.0,
        heartbeat_interval=0.25,
        session_timeout=1.0,
        reconnect_timeout=60.0,
        connect_timeout=60.0,
    ),
)


@dataclass(frozen=True)
class Found:
    """What became of the flips of a run (counts)."""

    flips: int
    transfers: int
    repaired: int
    damaged: int
    broken: int
    silent: int
    wrong_bytes: int
    different_digests: int

    @property
    def unnoticed(self) -> int:
        """Flips that nobody found, at least."""
        return max(0, self.flips - self.repaired - self.damaged - self.broken - self.silent)


def run(quick: bool) -> Result:
    """Flip 1,000 bits (quick: 40)."""
    flips, layout = (QUICK_FLIPS, QUICK) if quick else (FLIPS, LAYOUT)
    found = flip(flips, layout, SEED)
    return Result(
        name="flips",
        claim=f"{flips} bits flipped on the line, both ways: none gets through, no transfer fails",
        columns=("flips", "repaired", "damaged", "broken", "silent", "unnoticed", "wrong bytes"),
        rows=(
            tuple(
                str(count)
                for count in (
                    found.flips,
                    found.repaired,
                    found.damaged,
                    found.broken,
                    found.silent,
                    found.unnoticed,
                    found.wrong_bytes,
                )
            ),
        ),
        facts={"layout": layout.as_json(), "seed": SEED, **asdict(found)},
        met=None if quick else is_met(found, flips),
    )


def is_met(found: Found, flips: int) -> bool:
    """Tell whether as many bits were flipped, and everything arrived as it left."""
    return found.flips >= flips and not (found.wrong_bytes or found.different_digests)


def flip(flips: int, layout: Layout, seed: int) -> Found:
    """Send models over a line that flips bits, until it has flipped so many.

    Raises:
        StreamlinkError: a transfer failed.
    """
    rng = random.Random(seed)
    store = GrowingStore(layout, 1.0)
    passed: list[Passed] = []
    with listening() as heard:
        while (left := flips - sum(one.line.flips for one in passed)) > 0:
            passed.append(
                pass_model(
                    layout.model(store.models + 1.0),
                    store,
                    SETTINGS,
                    link=Link(seed=rng.randrange(1 << 30)),
                    begin=lambda relay, left=left: _arm(relay, rng, left),  # type: ignore[misc]
                )
            )
        damaged = heard.count("damaged on the way")
        silent = heard.count("brings nothing") + heard.count("nothing was heard")
        lost = heard.count("connection to server")
    repaired = sum(one.received.stats.repairs for one in passed)
    resumes = sum(one.sent.stats.resumes for one in passed)
    return Found(
        flips=sum(one.line.flips for one in passed),
        transfers=len(passed),
        repaired=repaired,
        damaged=damaged,
        broken=max(0, resumes + lost - damaged - silent),
        silent=silent,
        wrong_bytes=store.wrong_bytes,
        different_digests=sum(one.sent.digest != one.received.digest for one in passed),
    )


def _arm(relay: Relay, rng: random.Random, flips: int) -> None:
    """Choose the bytes to be hit: half of them each way, as far as a model goes."""
    for direction, apart in APART.items():
        at, places = 0, list[int]()
        for _ in range((flips + 1) // 2):
            at += 1 + int(rng.expovariate(1 / apart))
            places.append(at)
        relay.flip(direction, at=places)

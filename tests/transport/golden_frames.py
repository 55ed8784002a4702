"""The frames of version 1 whose wire bytes lie in ``golden/``, one file each.

A file is written once, when its frame is new, and never again: ``python -m
tests.transport.golden_frames`` adds what is missing. Peers of an older release speak these bytes.
"""

from __future__ import annotations

from pathlib import Path

from streamlink.errors import AbortCode
from streamlink.extent import Extent
from streamlink.protocol import frames as f
from streamlink.transport import messages

GOLDEN = Path(__file__).parent / "golden"
STREAM = 7
ATTEMPT = f.Attempt("llm", 3, 2)

TRANSFER: dict[str, f.TransferFrame] = {
    "attach": f.Attach("5e551011", STREAM),
    "open": f.Open(STREAM, ATTEMPT, 1 << 37, bytes(range(32)), 12, 1 << 21, f.Update(0.75), True),
    "open_of_differences": f.Open(
        STREAM,
        ATTEMPT,
        1 << 37,
        bytes(range(32)),
        12,
        1 << 21,
        f.Update(2.0, f.UpdateKind.DIFFERENCES, takes_next=True),
    ),
    "open_of_a_pure_update": f.Open(
        STREAM, ATTEMPT, 1 << 37, bytes(range(32)), 12, 1 << 21, f.Update(is_pure=True)
    ),
    "open_of_a_known_norm": f.Open(
        STREAM, ATTEMPT, 1 << 37, bytes(range(32)), 12, 1 << 21, f.Update(norm=0.5)
    ),
    "open_of_norm_0": f.Open(
        STREAM, ATTEMPT, 1 << 37, bytes(range(32)), 12, 1 << 21, f.Update(norm=0.0)
    ),
    "spec_page": f.SpecPage(11, b"a page"),
    "chunk": f.Chunk(5, 1 << 36, (memoryview(bytes(range(256))),)),
    "chunk_in_an_encoding": f.Chunk(6, 1 << 36, (memoryview(b"few"),), 2, 1 << 21),
    "chunk_of_one_byte": f.Chunk(0, 0, (memoryview(b"x"),)),
    "chunk_of_nothing": f.Chunk(0, 0, ()),
    "finish": f.Finish(1 << 37, "0123abcd", {"loss": 0.25}),
    "open_with_encodings": f.Open(
        STREAM, ATTEMPT, 1 << 37, bytes(range(32)), 12, 1 << 21, encodings=("delta", "zstd")
    ),
    "open_of_an_extent": f.Open(
        STREAM,
        ATTEMPT,
        1 << 37,
        bytes(range(32)),
        12,
        1 << 21,
        extent=Extent(1 << 20, 1 << 36),
    ),
    "accept": f.Accept(1 << 20, 1 << 24, 1 << 21, True),
    "accept_behind_a_gap": f.Accept(
        1 << 20, 1 << 24, 1 << 21, ranges=((1 << 21, 3 << 21), (1 << 23, 1 << 24))
    ),
    "accept_of_an_encoding": f.Accept(0, 1 << 24, 1 << 21, encodings=("zstd",)),
    "open_with_bases": f.Open(
        STREAM,
        ATTEMPT,
        1 << 37,
        bytes(range(32)),
        12,
        1 << 21,
        encodings=("delta",),
        bases=("ab" * 32, "cd" * 32),
        is_kept=True,
    ),
    "accept_of_a_base": f.Accept(0, 1 << 24, 1 << 21, encodings=("delta",), base="cd" * 32),
    "ack": f.Ack(3 << 40, 2 << 40, 1 << 40, 4 << 40),
    "ack_behind_a_gap": f.Ack(3 << 40, 0, 0, 4 << 40, ((13 << 38, 14 << 38),)),
    "repair": f.Repair(1 << 33),
    "committing": f.Committing(9),
    "commit": f.Commit("0123abcd"),
    "held": f.Held(4, "lockstep", "site-2"),
    "abort": f.Abort(AbortCode.READ_TIMEOUT, "the reader stalled"),
}

SESSION: dict[str, f.SessionFrame] = {
    "hello": f.Hello(1, 1, "site-1", "4f2a", 1 << 21, 1 << 26, 30.0, "token"),
    "hello_of_a_probe": f.Hello(
        1, 1, "site-1", "4f2a", 1 << 21, 1 << 26, 30.0, "token", is_probe=True
    ),
    "hello_to_go_on": f.Hello(
        1, 1, "site-1", "4f2a", 1 << 21, 1 << 26, 30.0, "token", resume="5e551011"
    ),
    "welcome": f.Welcome(1, "5e551011", "e90c4", 1 << 21, 5.0),
    "heartbeat": f.Heartbeat(17),
    "request": f.Request(2, "train", ATTEMPT, 7, 8, {"rounds": "3"}),
    "request_for_a_part": f.Request(3, "train", ATTEMPT, 9, 10, {}, ("lora.*", "head.bias")),
    "request_to_go_on": f.Request(
        4,
        "train",
        ATTEMPT,
        11,
        12,
        {},
        ("head.*",),
        Extent(1 << 36, 1 << 37),
        Extent(1 << 20, 3 << 20),
    ),
    "cancel": f.Cancel(2, "the round is over"),
    "progress": f.TaskProgress(2, 99),
    "reply": f.Reply(2, "ValueError: no", "Traceback: ...", {"samples": "10"}),
    "goodbye": f.Goodbye("job done"),
    "goodbye_in_answer": f.Goodbye(""),
    "session_abort": f.Abort(AbortCode.SESSION_LOST, "gone"),
}


def encoded(name: str) -> bytes:
    """Return the wire bytes today's code gives the frame called ``name``."""
    if name in TRANSFER:
        return messages.encode_transfer(TRANSFER[name], STREAM)
    return messages.encode_session(SESSION[name])


def main() -> None:
    """Write the files that are missing."""
    GOLDEN.mkdir(exist_ok=True)
    for name in [*TRANSFER, *SESSION]:
        path = GOLDEN / f"{name}.bin"
        if not path.exists():
            path.write_bytes(encoded(name))


if __name__ == "__main__":
    main()

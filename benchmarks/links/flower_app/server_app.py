"""The ServerApp of a measured transfer: asks one client for its model, and says when it has it."""

from __future__ import annotations

import time

from flwr.app import ConfigRecord, Context, Message, RecordDict
from flwr.serverapp import Grid, ServerApp

from benchmarks.links.handing import LOOK_SECONDS, from_environment
from benchmarks.links.payload import digest

REPLY_SECONDS = 7200.0

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    hand = from_environment()
    while not (nodes := list(grid.get_node_ids())):
        time.sleep(LOOK_SECONDS)
    hand.say("idle")
    hand.wait_for("asked")
    asking = RecordDict({"config": ConfigRecord({"wanted": "model"})})
    message = Message(asking, dst_node_id=nodes[0], message_type="train")
    [reply] = grid.send_and_receive([message], timeout=REPLY_SECONDS)
    if reply.has_error():
        hand.say("finished", error=str(reply.error.reason))
        return
    arrays = reply.content["arrays"].to_numpy_ndarrays(keep_input=False)
    at = time.monotonic()
    model = dict(zip(hand.payload.names(), arrays, strict=True))
    hand.say("finished", at=at, digest=digest(model))

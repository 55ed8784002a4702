"""The measured ClientApp: adds its number to each element, in place."""

from __future__ import annotations

import os
import time
from typing import Any

from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

from benchmarks.integrations import inside

IS_BARE = inside.facts()["line"] == "bare"
mods: list[Any] = []
if not IS_BARE:  # so that bare is Flower alone
    import streamlink
    from streamlink.integrations.flower import StreamlinkMod, record_of

    mods = [StreamlinkMod(config=streamlink.LinkConfig.from_yaml(os.environ["STREAMLINK_CONFIG"]))]
app = ClientApp(mods=mods)


@app.train()
def train(message: Message, context: Context) -> Message:
    client = int(context.node_config["partition-id"]) + 1
    number = int(message.content["config"]["server-round"])
    inside.mark("training begins", side=f"site-{client}", number=number)
    misbehave(client, number)
    arrays = message.content["arrays"].to_numpy_ndarrays(keep_input=False)
    dtype = str(arrays[0].dtype)
    inside.mark("model is here", side=f"site-{client}", number=number, dtype=dtype)
    inside.train(dict(enumerate(arrays)), client)  # type: ignore[arg-type]
    record: Any = ArrayRecord(arrays, keep_input=False) if IS_BARE else record_of(arrays)
    metrics = MetricRecord({"num-examples": 1, "client": client})
    return Message(RecordDict({"arrays": record, "metrics": metrics}), reply_to=message)


def misbehave(client: int, number: int) -> None:
    """Wait to be killed, stopped or cut, where the case says so."""
    failure = inside.facts()["failure"]
    # Of a restarted server all clients have references; of the others only the last one fails.
    is_hit = client == inside.facts()["clients"] or failure == "restarted"
    if number != 2 or not is_hit:
        return
    if failure in ("killed", "stopped", "cut", "restarted"):
        inside.mark("hit me", side=f"site-{client}")
        while not os.path.exists(os.path.join(os.environ["STREAMLINK_CASE_FOLDER"], "go-on")):
            time.sleep(0.1)
    if failure == "unfetched":
        raise RuntimeError("this client does not want its model")

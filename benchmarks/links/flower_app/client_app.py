"""The ClientApp of a measured transfer: replies with its model, once it has the word to start."""

from __future__ import annotations

from flwr.app import ArrayRecord, Context, Message, RecordDict
from flwr.clientapp import ClientApp

from benchmarks.links.handing import from_environment

app = ClientApp()


@app.train()
def train(message: Message, context: Context) -> Message:
    hand = from_environment()
    hand.say("idle")
    hand.wait_for("make")
    model = hand.payload.model()
    hand.say("made")
    hand.wait_for("go")
    record = ArrayRecord(list(model.values()), keep_input=False)
    return Message(RecordDict({"arrays": record}), reply_to=message)

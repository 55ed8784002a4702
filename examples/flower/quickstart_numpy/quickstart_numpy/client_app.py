"""The ClientApp: adds one to every parameter."""

from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

from streamlink.integrations.flower import StreamlinkMod

app = ClientApp(mods=[StreamlinkMod()])  # the first line for streamlink


@app.train()
def train(msg: Message, context: Context) -> Message:
    ndarrays = msg.content["arrays"].to_numpy_ndarrays()  # fetched here

    # Simulate local training
    model = [m + 1 for m in ndarrays]

    metrics = MetricRecord({"first_value": float(model[0].flat[0]), "num-examples": 1})
    content = RecordDict({"arrays": ArrayRecord(model), "metrics": metrics})
    return Message(content=content, reply_to=msg)


@app.evaluate()
def evaluate(msg: Message, context: Context) -> Message:
    ndarrays = msg.content["arrays"].to_numpy_ndarrays()
    metrics = MetricRecord({"first_value": float(ndarrays[0].flat[0]), "num-examples": 1})
    return Message(content=RecordDict({"metrics": metrics}), reply_to=msg)

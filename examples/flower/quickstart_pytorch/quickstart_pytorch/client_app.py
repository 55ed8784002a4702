"""The ClientApp: trains the model that arrives as references, and returns it as one."""

from flwr.app import Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

from quickstart_pytorch.task import Net, load_data
from quickstart_pytorch.task import test as test_fn
from quickstart_pytorch.task import train as train_fn
from streamlink.integrations.flower import StreamlinkMod, record_of

app = ClientApp(mods=[StreamlinkMod()])


def loaded(msg: Message) -> Net:
    model = Net()
    model.load_state_dict(msg.content["arrays"].to_torch_state_dict())  # fetched here
    return model


@app.train()
def train(msg: Message, context: Context) -> Message:
    model = loaded(msg)
    batch_size, epochs = int(context.run_config["batch-size"]), context.run_config["local-epochs"]
    training, _ = load_data(int(context.node_config["partition-id"]), batch_size)
    loss = train_fn(model, training, int(epochs), float(msg.content["config"]["lr"]))

    metrics = MetricRecord({"train_loss": loss, "num-examples": len(training.dataset)})
    # Flower's ArrayRecord(model.state_dict()) would do, with one more copy of the model.
    content = RecordDict({"arrays": record_of(model), "metrics": metrics})
    return Message(content=content, reply_to=msg)


@app.evaluate()
def evaluate(msg: Message, context: Context) -> Message:
    batch_size = int(context.run_config["batch-size"])
    _, validation = load_data(int(context.node_config["partition-id"]), batch_size)
    loss, accuracy = test_fn(loaded(msg), validation)
    numbers = {"eval_loss": loss, "eval_acc": accuracy, "num-examples": len(validation.dataset)}
    return Message(content=RecordDict({"metrics": MetricRecord(numbers)}), reply_to=msg)

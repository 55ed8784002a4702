"""The ServerApp: the model stays in a store on the disk and is averaged there, range by range."""

import torch
from flwr.app import ArrayRecord, ConfigRecord, Context, MetricRecord
from flwr.serverapp import Grid, ServerApp

import streamlink
from quickstart_pytorch.task import Net, load_data, test
from streamlink.integrations.flower import StreamingFedAvg, StreamlinkGrid, record_of

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    config = context.run_config
    torch.manual_seed(0)

    strategy = StreamingFedAvg(
        streamlink.open_store("final_model"),  # a directory of safetensors files
        fraction_evaluate=float(config["fraction-evaluate"]),
    )
    with StreamlinkGrid(grid, str(config["streamlink-listen"])) as over_streamlink:
        strategy.start(
            grid=over_streamlink,
            initial_arrays=record_of(Net()),
            train_config=ConfigRecord({"lr": float(config["learning-rate"])}),
            num_rounds=int(config["num-server-rounds"]),
            evaluate_fn=global_evaluate,
        )
    print("\nThe final model is in the directory final_model")


def global_evaluate(server_round: int, arrays: ArrayRecord) -> MetricRecord:
    model = Net()
    model.load_state_dict(arrays.to_torch_state_dict())
    loss, accuracy = test(model, load_data(seed=99, batch_size=128)[0])
    return MetricRecord({"accuracy": accuracy, "loss": loss})

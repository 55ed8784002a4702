"""The ServerApp: Flower's FedAvg over a grid that sends references in the place of arrays."""

import numpy as np
from flwr.app import ArrayRecord, Context
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg

from quickstart_numpy.task import get_dummy_model
from streamlink.integrations.flower import StreamlinkGrid

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    num_rounds = int(context.run_config["num-server-rounds"])
    arrays = ArrayRecord(get_dummy_model())

    strategy = FedAvg()
    with StreamlinkGrid(grid, str(context.run_config["streamlink-listen"])) as over_streamlink:
        result = strategy.start(  # the second line for streamlink is the grid
            grid=over_streamlink, initial_arrays=arrays, num_rounds=num_rounds
        )

    ndarrays = result.arrays.to_numpy_ndarrays()
    is_exact = all((array == 1 + num_rounds).all() for array in ndarrays)
    print(f"\nevery value is {1 + num_rounds}: {is_exact}")
    print("\nSaving final model to disk...")
    np.savez("final_model", *ndarrays)

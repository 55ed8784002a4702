"""FedAvg of a NumPy array, in FLARE's simulator or in POC mode."""

import argparse
import os
from pathlib import Path
from typing import Any

from nvflare.app_common.np.recipes.fedavg import NumpyFedAvgRecipe
from nvflare.fuel.utils.constants import FrameworkType
from nvflare.recipe import PocEnv, SimEnv
from nvflare.recipe.fedavg import FedAvgRecipe

FIRST = [[1, 2, 3], [4, 5, 6], [7, 8, 9]]


def stored(first: Path) -> dict[str, Any]:
    """Return what the second line adds to a recipe: the model and its mean live on the disk."""
    import numpy as np

    import streamlink
    from streamlink.integrations.nvflare import StoreAggregator, StorePersistor

    if not first.exists():
        streamlink.copy_model({"numpy_key": np.array(FIRST, np.float32)}, first)
    return {
        "model_persistor": StorePersistor(str(first)),
        "aggregator": StoreAggregator(),
        "enable_tensor_disk_offload": True,  # clients' results stay unread until they are averaged
    }


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--sites", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--poc", action="store_true", help="server and sites as processes")
    parser.add_argument("--stored", type=Path, help="the second line, with its first model here")
    chosen = parser.parse_args()

    first = chosen.stored.resolve() if chosen.stored else None  # before the folder changes
    os.chdir(Path(__file__).parent)
    shared: dict[str, Any] = {
        "name": "hello-numpy",
        "min_clients": chosen.sites,
        "num_rounds": chosen.rounds,
        "train_script": "client.py",
    }
    if first:
        recipe = FedAvgRecipe(**shared, framework=FrameworkType.NUMPY, **stored(first))
    else:
        recipe = NumpyFedAvgRecipe(**shared, model=FIRST)
    environment = PocEnv if chosen.poc else SimEnv
    # For POC mode: a busy machine may take longer than FLARE's 10 s to start the server.
    run = recipe.execute(environment(num_clients=chosen.sites, extra={"login_timeout": 120.0}))
    print("status:", run.get_status())
    print("result:", run.get_result())


if __name__ == "__main__":
    main()

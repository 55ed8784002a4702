"""FedAvg of a PyTorch network, in FLARE's simulator or in POC mode."""

import argparse
import os
from pathlib import Path

from hello_network import SimpleNetwork  # type: ignore[import-not-found]  # beside this file
from nvflare.app_opt.pt.recipes.fedavg import FedAvgRecipe
from nvflare.client.config import ExchangeFormat
from nvflare.recipe import PocEnv, SimEnv


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--sites", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--poc", action="store_true", help="server and sites as processes")
    chosen = parser.parse_args()

    os.chdir(Path(__file__).parent)
    recipe = FedAvgRecipe(
        name="hello-pt",
        min_clients=chosen.sites,
        num_rounds=chosen.rounds,
        model=SimpleNetwork(),
        train_script="client.py",
        server_expected_format=ExchangeFormat.PYTORCH,  # tensors travel as tensors
        enable_tensor_disk_offload=True,
    )
    environment = PocEnv if chosen.poc else SimEnv
    # For POC mode: a busy machine may take longer than FLARE's 10 s to start the server.
    run = recipe.execute(environment(num_clients=chosen.sites, extra={"login_timeout": 120.0}))
    print("status:", run.get_status())
    print("result:", run.get_result())


if __name__ == "__main__":
    main()

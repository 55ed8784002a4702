"""An APPFL server whose models travel beside its messages: ``python server.py``, then clients.

``python server.py PORT`` takes other ports: that one for APPFL, and the two above it for models.
"""

from __future__ import annotations

import sys
from pathlib import Path

from appfl.agent import ServerAgent
from appfl.comm.grpc import GRPCServerCommunicator, serve
from omegaconf import OmegaConf

from streamlink.integrations.appfl import StreamlinkServerAgent

HERE = Path(__file__).parent
PORT = int(sys.argv[1]) if len(sys.argv) > 1 else 50051
GRPC = {"server_uri": f"127.0.0.1:{PORT}", "use_ssl": False}
MODELS = f"127.0.0.1:{PORT + 1}-{PORT + 2}"
CONFIG = {
    "server_configs": {
        "num_clients": 2,
        "scheduler": "SyncScheduler",
        "aggregator": "FedAvgAggregator",
        "aggregator_kwargs": {"client_weights_mode": "equal"},
        "num_global_epochs": 3,
        "comm_configs": {"grpc_configs": GRPC},
    },
    "client_configs": {
        "train_configs": {
            "trainer": "VanillaTrainer",
            "mode": "step",
            "num_local_steps": 2,
            "optim": "SGD",
            "optim_args": {"lr": 0.01},
            "loss_fn": "CrossEntropyLoss",
            "metric_path": str(HERE / "model.py"),
            "metric_name": "accuracy",
            "do_validation": False,
            "train_batch_size": 16,
            "val_batch_size": 16,
        },
        "model_configs": {"model_path": str(HERE / "model.py"), "model_name": "Linear"},
    },
}

if __name__ == "__main__":
    agent = ServerAgent(server_agent_config=OmegaConf.create(CONFIG))
    # These two lines are new: around the agent, and where models are served.
    with StreamlinkServerAgent(agent, MODELS, spool="spool") as agent:
        serve(GRPCServerCommunicator(agent, logger=agent.logger, **GRPC), **GRPC)

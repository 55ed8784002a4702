"""An APPFL client whose models travel beside its messages: ``python client.py 1``.

``python client.py 1 PORT`` dials other ports: see ``server.py``.
"""

from __future__ import annotations

import sys
from pathlib import Path

from appfl.agent import ClientAgent
from appfl.comm.grpc import GRPCClientCommunicator
from omegaconf import OmegaConf

from streamlink.integrations.appfl import StreamlinkClientCommunicator

HERE = Path(__file__).parent
PORT = int(sys.argv[2]) if len(sys.argv) > 2 else 50051
GRPC = {"server_uri": f"127.0.0.1:{PORT}", "use_ssl": False}
MODELS = f"127.0.0.1:{PORT + 1}-{PORT + 2}"

if __name__ == "__main__":
    number = int(sys.argv[1])
    config = {
        "client_id": f"Client{number}",
        "train_configs": {"device": "cpu", "logging_output_dirname": "output"},
        "data_configs": {
            "dataset_path": str(HERE / "model.py"),
            "dataset_name": "data",
            "dataset_kwargs": {"number": number},
        },
    }
    agent = ClientAgent(client_agent_config=OmegaConf.create(config))
    communicator = GRPCClientCommunicator(client_id=agent.get_id(), logger=agent.logger, **GRPC)
    # This line is new: around the communicator, and where the server's models are.
    communicator = StreamlinkClientCommunicator(communicator, MODELS, GRPC, agent=agent)

    agent.load_config(communicator.get_configuration())
    agent.load_parameters(communicator.get_global_model(init_model=True))
    status = "RUNNING"
    while status != "DONE":
        agent.train()
        found = agent.get_parameters()
        local_model, metadata = found if isinstance(found, tuple) else (found, {})
        model, metadata = communicator.update_global_model(local_model, **metadata)
        agent.load_parameters(model)
        status = metadata["status"]
    communicator.invoke_custom_action(action="close_connection")
    print(f"Client{number} is done", flush=True)

"""APPFL 1.12: a client gets the global model from the server in chunks, over its gRPC service.

A chunk is as many whole tensors as fit into ``CHUNK_BYTES``; one tensor that is larger is a chunk
of its own. The server learns nothing of the arrival.
"""

from __future__ import annotations

import os
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks.integrations.environments import PINS
from benchmarks.links.ends import End
from benchmarks.links.handing import Hand
from benchmarks.links.payload import digest
from benchmarks.links.peers import NUMPY, Peer
from benchmarks.links.ports import free_port, wait_for_port

NEEDED = (NUMPY, "grpcio==1.80.0", "protobuf==6.33.1", "pydantic==2.14.4")
"""What APPFL takes from streamlink's requirements where both are installed; here it is alone."""

PEER = Peer(
    {"": "APPFL, chunked"},
    listens="send",
    environment=replace(PINS["appfl"], wants=(*PINS["appfl"].wants, *NEEDED), has_ours=False),
    order=80,
    module=__name__,
)

MODEL = Path(__file__).parents[1] / "appfl_model.py"
CHUNK_BYTES = 64 << 20
START_SECONDS = 280.0


def send(end: End) -> None:
    """Be the server, which holds the model."""
    from appfl.agent import ServerAgent
    from appfl.comm.grpc import GRPCServerCommunicator, serve
    from omegaconf import OmegaConf

    os.environ.update(Hand(end.folder, end.payload).variables())
    number = free_port(end.host)
    end.base()
    grpc = _grpc(f"{end.host}:{number}")
    server = {
        "num_clients": 1,
        "scheduler": "SyncScheduler",
        "aggregator": "FedAvgAggregator",
        "aggregator_kwargs": {"client_weights_mode": "equal"},
        "device": "cpu",
        "num_global_epochs": 1,
        "logging_output_dirname": str(end.folder),
        "comm_configs": {"grpc_configs": grpc},
    }
    clients = {
        "train_configs": {"trainer": "LLMDummyTrainer"},
        "model_configs": {"model_path": str(MODEL), "model_name": "Model"},
    }
    config = OmegaConf.create({"server_configs": server, "client_configs": clients})
    agent = ServerAgent(server_agent_config=config)
    communicator = GRPCServerCommunicator(agent, logger=agent.logger, **grpc)
    threading.Thread(target=serve, args=(communicator,), kwargs=grpc, daemon=True).start()
    wait_for_port(end.host, number, START_SECONDS)
    end.listening(number)
    end.finished_elsewhere(0.0, lambda: digest(_arrays(agent.model.state_dict())))


def receive(end: End) -> None:
    """Be a client, which gets the model."""
    from appfl.agent import ClientAgent
    from appfl.comm.grpc import GRPCClientCommunicator
    from omegaconf import OmegaConf

    os.chdir(end.folder)  # its logs go there
    grpc = _grpc(end.address)
    config = OmegaConf.create(
        {
            "client_id": "site-1",
            "train_configs": {"device": "cpu", "logging_output_dirname": str(end.folder)},
            "comm_configs": {"grpc_configs": grpc},
        }
    )
    agent = ClientAgent(client_agent_config=config)
    end.base()
    communicator = GRPCClientCommunicator(agent.get_id(), logger=agent.logger, **grpc)
    communicator.get_configuration()
    end.wait_for_go()
    model = communicator.get_global_model(init_model=True)
    end.finished_later(lambda: _arrays(model[0] if isinstance(model, tuple) else model))


def _grpc(address: str) -> dict[str, Any]:
    return {
        "server_uri": address,
        "use_ssl": False,
        "use_model_chunking": True,
        "model_chunk_size": CHUNK_BYTES,
    }


def _arrays(state: Any) -> dict[str, Any]:
    return {name: tensor.numpy() for name, tensor in state.items()}

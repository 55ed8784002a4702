"""One process of APPFL's job: ``python -m benchmarks.heap.appfl_role``, in its own environment.

It is APPFL's server or client, with a model of its own size that its dummy trainer adds one to, or
with ResNet18, which its trainer trains on random images. The environment variable HEAP_FACTS says
which. It prints one line of JSON: memory before the model and at the peak, and times of rounds.
"""

from __future__ import annotations

import gc
import json
import os
import re
import time
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import torch
from appfl.agent import ClientAgent, ServerAgent
from appfl.algorithm.trainer import LLMDummyTrainer
from appfl.comm.grpc import GRPCClientCommunicator, GRPCServerCommunicator, serve
from omegaconf import OmegaConf

__all__ = ["AddOne", "Model", "accuracy", "images"]

HERE = str(Path(__file__))


NETWORKS = str(Path(__file__).parents[2] / "streamlink" / "training" / "networks.py")
MODELS = {
    "moved": {"model_path": HERE, "model_name": "Model"},
    "resnet": {"model_path": NETWORKS, "model_name": "ResNet18"},
}
TRAINING: dict[str, dict[str, Any]] = {
    "moved": {"trainer": "AddOne", "trainer_path": HERE},
    "resnet": {
        "trainer": "VanillaTrainer",
        "mode": "step",
        "num_local_steps": 10,
        "optim": "Adam",
        "optim_args": {"lr": 0.01},
        "loss_fn": "CrossEntropyLoss",
        "do_validation": True,
        "train_batch_size": 16,
        "val_batch_size": 16,
        "metric_path": HERE,
        "metric_name": "accuracy",
    },
}


class Model(torch.nn.Module):
    """As many float32 parameters as the job says, all zero."""

    def __init__(self) -> None:
        super().__init__()
        facts = json.loads(os.environ["HEAP_FACTS"])
        length = facts["model_bytes"] // 4 // facts["tensors"]
        for number in range(facts["tensors"]):
            values = torch.nn.Parameter(torch.zeros(length), requires_grad=False)
            self.register_parameter(f"layer_{number:04d}", values)


def images(client_id: int, **_: Any) -> tuple[Any, Any]:
    """Return 64 random images with labels, for training and for validation."""
    generator = torch.Generator().manual_seed(42 + client_id)
    inputs = torch.rand(64, 3, 32, 32, generator=generator)
    labels = torch.randint(0, 10, (64,), generator=generator)
    data = torch.utils.data.TensorDataset(inputs, labels)
    return data, data


def accuracy(labels: Any, outputs: Any) -> float:
    """Return how many outputs are largest at their label."""
    return float((outputs.argmax(axis=1) == labels).mean())


class AddOne(LLMDummyTrainer):
    """APPFL's dummy trainer, and one is added to each element, in place."""

    def train(self) -> None:
        """Train in place."""
        for each in self.model.parameters():
            each.data.add_(1.0)


def main(facts: dict[str, Any]) -> None:
    """Be the server, or a client; print what was measured."""
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    # Clients of one machine share its cores.
    torch.set_num_threads(max(1, (os.cpu_count() or 1) // facts["clients"]))
    base = memory("VmRSS")
    with watched(facts.get("profile")):
        rounds = client(facts) if "client" in facts else server(facts)
    print(json.dumps({"base": base, "peak": memory("VmHWM"), "rounds": rounds}), flush=True)


def watched(profile: str | None) -> AbstractContextManager[object]:
    """Return a block that memray watches, if a file is named for it."""
    if profile is None:
        return nullcontext()
    from memray import Tracker

    return Tracker(profile)


def server(facts: dict[str, Any]) -> list[float]:
    """Serve until all clients have left."""
    config = OmegaConf.create(
        {
            "server_configs": {
                "num_clients": facts["clients"],
                "scheduler": "SyncScheduler",
                "scheduler_kwargs": {"same_init_model": True, **switch(facts)},
                "aggregator": "FedAvgAggregator",
                "aggregator_kwargs": {"client_weights_mode": "equal", **switch(facts)},
                "device": "cpu",
                "num_global_epochs": facts["rounds"],
                "logging_output_dirname": facts["folder"],
                "comm_configs": {"grpc_configs": grpc(facts)},
                **switch(facts),
            },
            "client_configs": {
                "train_configs": {**TRAINING[facts["job"]], **switch(facts)},
                "model_configs": MODELS[facts["job"]],
                **switch(facts),
            },
        }
    )
    agent = ServerAgent(server_agent_config=config)
    if facts["way"] == "tuned":
        gc.freeze()
    configs = config.server_configs.comm_configs.grpc_configs
    serve(GRPCServerCommunicator(agent, logger=agent.logger, **configs), **configs)
    return []


def client(facts: dict[str, Any]) -> list[float]:
    """Take part in all rounds, as APPFL's own program does; return how long each took (seconds)."""
    config = OmegaConf.create(
        {
            "client_id": f"site-{facts['client']}",
            "train_configs": {"device": "cpu", "logging_output_dirname": facts["folder"]},
            "comm_configs": {"grpc_configs": grpc(facts)},
            **switch(facts),
        }
    )
    if facts["job"] == "resnet":
        config.data_configs = {
            "dataset_path": HERE,
            "dataset_name": "images",
            "dataset_kwargs": {"client_id": facts["client"]},
        }
    agent = ClientAgent(client_agent_config=config)
    configs = config.comm_configs.grpc_configs
    communicator = GRPCClientCommunicator(agent.get_id(), logger=agent.logger, **configs)
    if facts["way"] == "tuned":
        gc.freeze()
    agent.load_config(communicator.get_configuration())
    model = communicator.get_global_model(init_model=True)
    agent.load_parameters(model)
    rounds, status = [], "RUNNING"
    while status != "DONE":
        began = time.monotonic()
        agent.train()
        update = agent.get_parameters()
        if isinstance(update, tuple):  # with the figures of the validation
            update = update[0]
        model, metadata = communicator.update_global_model(update)
        agent.load_parameters(model)
        status = metadata["status"]
        rounds.append(time.monotonic() - began)
    communicator.invoke_custom_action(action="close_connection")
    if facts["job"] == "moved":
        last = agent.model.layer_0000
        assert last.min() == last.max() == facts["rounds"], "the final model is wrong"
    return rounds


def switch(facts: dict[str, Any]) -> dict[str, Any]:
    """Return APPFL's own switch: off, or as it is shipped."""
    return {"optimize_memory": False} if facts["way"] == "off" else {}


def grpc(facts: dict[str, Any]) -> dict[str, Any]:
    """Return ``grpc_configs`` of either end."""
    is_chunked = facts["way"] in ("chunked", "tuned")
    return {
        "server_uri": facts["address"],
        "use_ssl": False,
        "max_message_size": facts["max_message_bytes"],
        "use_model_chunking": is_chunked,
        "model_chunk_size": facts["chunk_bytes"],
        **switch(facts),
    }


def memory(key: str) -> int:
    """Return a line of this process's status (bytes)."""
    text = Path("/proc/self/status").read_text("ascii")
    found = re.search(rf"^{key}:\s+(\d+) kB$", text, re.M)
    assert found is not None
    return int(found[1]) * 1024


if __name__ == "__main__":
    main(json.loads(os.environ["HEAP_FACTS"]))

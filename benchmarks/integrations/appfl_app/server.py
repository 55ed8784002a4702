"""An APPFL server: its own configuration and service, and streamlink where the case wants it.

``python -m benchmarks.integrations.appfl_app.server PORT FOLDER ROUND_TIMEOUT``
"""

from __future__ import annotations

import gc
import sys
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

from appfl.agent import ServerAgent
from appfl.comm.grpc import GRPCServerCommunicator, serve
from omegaconf import OmegaConf

from benchmarks.integrations import inside
from benchmarks.integrations.appfl_app.trust import server_grpc
from streamlink.integrations.appfl import StreamlinkServerAgent

HERE = Path(__file__).parent


def configuration(port: str, folder: Path) -> Any:
    """Return the server's configuration, as APPFL's examples have it."""
    case = inside.facts()
    is_async, is_second = case["mode"] == "async", case["line"] == "second"
    server: dict[str, Any] = {
        "num_clients": case["clients"],
        "scheduler": "AsyncScheduler" if is_async else "SyncScheduler",
        "aggregator": "FedAsyncAggregator" if is_async else "FedAvgAggregator",
        "aggregator_kwargs": {"client_weights_mode": "equal", "alpha": 0.5},
        "device": "cpu",
        "num_global_epochs": case["rounds"] * (case["clients"] if is_async else 1),
        "logging_output_dirname": str(folder / "output"),
        "comm_configs": {"grpc_configs": server_grpc(f"127.0.0.1:{port}")},
    }
    clients: dict[str, Any] = {
        "train_configs": {"trainer": "ClosedFormTrainer", "trainer_path": str(HERE / "trainer.py")},
        "model_configs": {"model_path": str(HERE / "model.py"), "model_name": "ClosedForm"},
    }
    if is_second:
        server["aggregator_path"] = str(HERE / "aggregator.py")
        server["aggregator"] = "StreamlinkAggregator"
        server["aggregator_kwargs"]["store"] = str(folder / "global")
        del clients["model_configs"]  # the server has no model; clients have their own file
    return OmegaConf.create({"server_configs": server, "client_configs": clients})


def main(port: str, folder: str, round_timeout: str, objects_at: str) -> None:
    """Serve until all clients have left."""
    inside.idle()
    config = configuration(port, Path(folder))
    agent: Any = ServerAgent(server_agent_config=config)
    around: AbstractContextManager[Any] = nullcontext(agent)
    line = inside.facts()["line"]
    if line == "tuned":
        gc.freeze()  # as the wrapper does, at the same place
    elif line != "bare":
        spool = Path(folder, "spool")
        limit = float(round_timeout)
        around = StreamlinkServerAgent(agent, objects_at, spool=spool, round_timeout=limit)
    with around as agent:
        objects = None if line in ("bare", "tuned") else agent.objects
        inside.mark("listening", objects=0 if objects is None else objects.port)
        grpc_configs = config.server_configs.comm_configs.grpc_configs
        communicator = GRPCServerCommunicator(agent, logger=agent.logger, **grpc_configs)
        serve(communicator, **grpc_configs)
        inside.mark("ended", objects=0 if objects is None else len(objects))


if __name__ == "__main__":
    main(*sys.argv[1:])

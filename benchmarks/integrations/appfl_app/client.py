"""An APPFL client as its examples have it; two lines are new where the case wants streamlink.

``python -m benchmarks.integrations.appfl_app.client SERVER OBJECTS NUMBER``
"""

from __future__ import annotations

import gc
import os
import sys
import threading
from pathlib import Path
from typing import Any

from appfl.agent import ClientAgent
from appfl.comm.grpc import GRPCClientCommunicator
from omegaconf import OmegaConf

from benchmarks.integrations import inside
from benchmarks.integrations.appfl_app.trust import client_grpc
from streamlink import LinkConfig
from streamlink.integrations.appfl import StreamlinkClientCommunicator

HERE = Path(__file__).parent
SOON = LinkConfig(timeouts={"reconnect_timeout": 5, "rejoin_timeout": 5})
"""A line that stays cut is given up in seconds that would take a minute and a half."""


def configuration(server: str, number: str) -> Any:
    """Return a client's configuration."""
    found: dict[str, Any] = {
        "client_id": f"site-{number}",
        "train_configs": {"device": "cpu", "logging_output_dirname": "output"},
        "comm_configs": {"grpc_configs": client_grpc(server)},
    }
    if inside.facts()["line"] == "second":
        found["model_configs"] = {"model_path": str(HERE / "model.py"), "model_name": "ClosedForm"}
    return OmegaConf.create(found)


def main(server: str, objects: str, number: str) -> None:
    """Train with the others until the server says that it is done."""
    os.environ["CASE_CLIENT"] = number
    inside.idle()
    case, config = inside.facts(), configuration(server, number)
    agent = ClientAgent(client_agent_config=config)
    grpc_configs = config.comm_configs.grpc_configs
    communicator: Any = GRPCClientCommunicator(
        client_id=agent.get_id(), logger=agent.logger, **grpc_configs
    )
    if case["line"] == "tuned":
        gc.freeze()  # as the wrapper does, at the same place
    elif case["line"] != "bare":
        if "CASE_UNFETCHED" in os.environ:
            stop_at_reference(communicator)
        link = SOON if case["failure"] == "stays cut" else None
        communicator = StreamlinkClientCommunicator(
            communicator, objects, grpc_configs, agent=agent, config=link
        )
    agent.load_config(communicator.get_configuration())
    with inside.call("receive"):
        model = communicator.get_global_model(init_model=True)
    agent.load_parameters(model)
    del model
    inside.mark("ready")
    inside.wait_for("all-are-ready")  # a round is not to wait for another client's imports
    train(agent, communicator, number)
    communicator.invoke_custom_action(action="close_connection")
    inside.mark("left")


def train(agent: Any, communicator: Any, number: str) -> None:
    """Go through the rounds."""
    case, status, turn = inside.facts(), "RUNNING", 0
    while status != "DONE":
        turn += 1
        with inside.round(turn):
            agent.train()
            inside.mark("trained", turn=turn)
            with inside.call("send"):  # APPFL's one call sends the model and receives the new one
                new_model, metadata = communicator.update_global_model(agent.get_parameters())
            agent.load_parameters(new_model)
            del new_model
        status = metadata["status"]
        inside.mark("updated", turn=turn)
    model = {name: each.float().numpy() for name, each in agent.model.state_dict().items()}
    if case["mode"] == "async":
        check_async(model)
    else:
        inside.check_all(model, case["rounds"])


def stop_at_reference(communicator: Any) -> None:
    """Do nothing more once APPFL has brought the reference to a new model."""
    update = communicator.update_global_model

    def updating(*arguments: Any, **kwargs: Any) -> Any:
        update(*arguments, **kwargs)
        inside.mark("has reference")
        threading.Event().wait()

    communicator.update_global_model = updating


def check_async(model: dict[str, Any]) -> None:
    """Check that all elements have moved by the same number: nobody can say which.

    An update moves them by a tenth or more; what is rounded after a few of them is far smaller.
    """
    least, most = float("inf"), float("-inf")
    for name in inside.names_and_lengths():
        moved = model[name] - inside.first_values(inside.number_of(name), 0, len(model[name]))
        least, most = min(least, float(moved.min())), max(most, float(moved.max()))
    inside.result(least > 0 and most - least < 1e-3, least=least, most=most)


if __name__ == "__main__":
    main(*sys.argv[1:])

"""Stand-ins for APPFL's agent and communicators, with the methods that the wrappers call."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import torch

from streamlink.integrations.appfl import StreamlinkClientCommunicator

__all__ = ["MODEL", "Agent", "Communicator", "joined", "same"]

MODEL = {"a": torch.arange(6.0).reshape(2, 3), "b": torch.ones(3, dtype=torch.bfloat16)}


class Agent:
    """The part of ``appfl.agent.ServerAgent`` that its communicator calls.

    It works as with APPFL's ``SyncScheduler``, also in what that leaves behind when aggregating
    fails: open futures, and the models of the round.

    Attributes:
        came: set as soon as a client's model is here.
    """

    def __init__(self, server: Mapping[str, Any] | None = None, clients: int = 1) -> None:
        self.server_agent_config = SimpleNamespace(
            server_configs={"comm_configs": {}, **(server or {})}, client_configs={"lr": 0.1}
        )
        self.model = {name: each.clone() for name, each in MODEL.items()}
        self.clients, self.updates = clients, dict[Any, Any]()
        self.futures, self.came = dict[Any, Future[Any]](), threading.Event()
        self.is_over = False

    def get_num_clients(self) -> int:
        return self.clients

    def get_client_configs(self) -> Any:
        return self.server_agent_config.client_configs

    def get_parameters(self, **kwargs: Any) -> Any:
        return {name: each.clone() for name, each in self.model.items()}

    def global_update(self, client_id: str, local_model: Any, **kwargs: Any) -> Any:
        self.updates[client_id] = local_model
        future = self.futures[client_id] = Future()
        if len(self.updates) == self.clients:
            self.model = self.aggregate(self.updates)
            self.updates.clear()
            while self.futures:
                self.futures.popitem()[1].set_result((dict(self.model), {"local_steps": 7}))
        self.came.set()
        return future

    def aggregate(self, updates: Mapping[Any, Any]) -> dict[str, Any]:
        """Return the new model."""
        *_, last = updates.values()
        return {name: each + 1 for name, each in last.items()}

    def training_finished(self) -> bool:
        return self.is_over

    def server_terminated(self) -> bool:
        return False


class Communicator:
    """The part of APPFL's two communicators between a client's script and the server's agent."""

    def __init__(self, agent: Any, client_id: str = "Client1") -> None:
        self.agent, self.client_id, self.max_message_size = agent, client_id, 17
        self.carried = list[Any]()

    def get_configuration(self, **kwargs: Any) -> Any:
        return dict(self.agent.get_client_configs(**kwargs))

    def get_global_model(self, **kwargs: Any) -> Any:
        found = self.agent.get_parameters(blocking=True, **kwargs)
        self.carried.append(found)
        return found

    def update_global_model(self, local_model: Any, **kwargs: Any) -> Any:
        found = self.agent.global_update(self.client_id, local_model, blocking=True, **kwargs)
        self.carried += [local_model, found]
        model, metadata = found if isinstance(found, tuple) else (found, {})
        return model, {**metadata, "status": "RUNNING"}

    def invoke_custom_action(self, action: str, **kwargs: Any) -> Any:
        return {"did": action}


def joined(
    server: Any,
    name: str = "Client1",
    grpc_configs: Mapping[str, Any] | None = None,
    address: str = "",
    **kwargs: Any,
) -> StreamlinkClientCommunicator:
    """Return a client's communicator that has its configuration."""
    client = StreamlinkClientCommunicator(
        *(Communicator(server, name), address or server.objects.address, grpc_configs or {}),
        **kwargs,
    )
    assert client.get_configuration() == {"lr": 0.1}
    return client


def same(model: Mapping[str, Any], expected: Mapping[str, Any]) -> bool:
    """Tell whether two models have the same tensors, in the same order."""
    return list(model) == list(expected) and all(
        model[name].dtype == each.dtype and torch.equal(model[name], each)
        for name, each in expected.items()
    )

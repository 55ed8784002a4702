"""APPFL 1.12: its gRPC service stays and carries references, the models travel beside it.

At the server, around APPFL's own agent::

    with StreamlinkServerAgent(ServerAgent(server_agent_config=config), "0.0.0.0:8443") as agent:
        serve(GRPCServerCommunicator(agent, **grpc_configs), **grpc_configs)

At a client, around its communicator::

    inner = GRPCClientCommunicator(client_id=client_agent.get_id(), **grpc_configs)
    communicator = StreamlinkClientCommunicator(inner, "server:8443", grpc_configs)

Both pass on everything else to what they wrap, so nothing of APPFL is imported here. Where APPFL
would carry a model, its message has an empty one, and in its metadata under ``KEY`` a reference. A
client without the wrapper is served as before.
"""

from __future__ import annotations

from streamlink.integrations.appfl.agent import StreamlinkServerAgent
from streamlink.integrations.appfl.aggregator import StreamlinkAggregator
from streamlink.integrations.appfl.communicator import StreamlinkClientCommunicator
from streamlink.integrations.appfl.trust import link_config
from streamlink.integrations.appfl.wrapper import KEY

__all__ = [
    "KEY",
    "StreamlinkAggregator",
    "StreamlinkClientCommunicator",
    "StreamlinkServerAgent",
    "link_config",
]

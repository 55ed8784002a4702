"""What of APPFL the wrappers rely on, looked at in APPFL's own environment.

``python -m tests.integrations.appfl_checks`` fails with the sentence that is no longer true;
``test_appfl`` asks for that.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import appfl
from appfl.agent import ClientAgent, ServerAgent
from appfl.algorithm.aggregator import FedAsyncAggregator, FedAvgAggregator
from appfl.algorithm.scheduler import SyncScheduler
from appfl.comm.grpc import GRPCClientCommunicator, GRPCServerCommunicator, serve

from streamlink.integrations.appfl import (
    StreamlinkAggregator,
    StreamlinkClientCommunicator,
    StreamlinkServerAgent,
)

WRAPPED = {
    StreamlinkServerAgent: (
        ServerAgent,
        ("get_client_configs", "get_parameters", "global_update", "server_terminated"),
    ),
    StreamlinkClientCommunicator: (
        GRPCClientCommunicator,
        ("get_configuration", "get_global_model", "update_global_model", "invoke_custom_action"),
    ),
}


def names(of: Callable[..., Any]) -> list[str]:
    """Return the names of the parameters that are not collected in ``*`` or ``**``."""
    found = inspect.signature(of).parameters.values()
    return [each.name for each in found if each.kind not in (each.VAR_KEYWORD, each.VAR_POSITIONAL)]


def takes_metadata(of: Callable[..., Any]) -> bool:
    """Tell whether a method takes whatever metadata there is."""
    kinds = {each.kind for each in inspect.signature(of).parameters.values()}
    return inspect.Parameter.VAR_KEYWORD in kinds


def problems() -> Iterator[str]:
    """Yield a sentence for each thing that is another than the wrappers take it for."""
    if not appfl.__version__.startswith("1.12."):
        yield f"this is APPFL {appfl.__version__}; the wrappers were tried with 1.12"
    for ours, (theirs, methods) in WRAPPED.items():
        for method in methods:
            own, known = getattr(theirs, method), getattr(ours, method)
            if method != "server_terminated" and not takes_metadata(own):
                yield f"{theirs.__name__}.{method} takes no metadata"
            unknown = set(names(own)) - set(names(known))
            if unknown and not takes_metadata(known):
                yield f"{theirs.__name__}.{method} has {sorted(unknown)}, which ours has not"
    for method in ("training_finished", "get_num_clients"):
        if not callable(getattr(ServerAgent, method, None)):
            yield f"ServerAgent.{method} is no method"
    for aggregator in (FedAvgAggregator, FedAsyncAggregator):
        if names(aggregator.__init__)[1:] != names(StreamlinkAggregator.__init__)[1:]:
            yield f"{aggregator.__name__} is made of {names(aggregator.__init__)}"
    for settings in (serve, GRPCClientCommunicator.__init__):
        if "use_ssl" not in names(settings):
            yield f"{settings.__qualname__} has no use_ssl"
    if not {"server_certificate", "server_certificate_key"} <= set(names(serve)):
        yield "the server's certificate has another setting"
    if "root_certificate" not in names(GRPCClientCommunicator.__init__):
        yield "the root certificate has another setting"
    source = Path(inspect.getfile(GRPCServerCommunicator)).read_text("utf-8")
    for call in ("get_client_configs(**meta_data)", "blocking=True", "server_terminated()"):
        if call not in source + inspect.getsource(serve):
            yield f"APPFL's service does not call {call}"
    if "use_polling" not in source:
        yield "the server has no use_polling"
    if "timeout=3600" not in inspect.getsource(GRPCClientCommunicator.update_global_model):
        yield "a client's call ends after another time than 3600 s, by which ours are set"
    if "future.set_exception" in inspect.getsource(SyncScheduler):
        yield "SyncScheduler fails its futures itself by now"
    if not hasattr(ClientAgent, "load_parameters"):
        yield "ClientAgent.load_parameters is missing"


if __name__ == "__main__":
    found = list(problems())
    print("\n".join(found) or "APPFL is as we know it")
    raise SystemExit(bool(found))

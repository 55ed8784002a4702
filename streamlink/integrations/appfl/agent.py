"""The server's side: what its service asks the agent for is answered with references."""

from __future__ import annotations

import copy
import threading
import time
from collections.abc import Mapping
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any, Self

from streamlink import LinkConfig
from streamlink.errors import ModelError, RoundError
from streamlink.integrations.appfl.trust import link_config
from streamlink.integrations.appfl.wrapper import KEY, RPC_SECONDS, Wrapper, require_plain, section
from streamlink.integrations.folders import own_folder
from streamlink.integrations.ports import ON_DISK, listening
from streamlink.integrations.tokens import TokenList
from streamlink.integrations.torch_models import Tensors
from streamlink.objects import ObjectLimits, ObjectServer

__all__ = ["StreamlinkServerAgent"]

_CHUNKED = ("_chunk_idx", "_chunk_id", "_request_chunked")


class StreamlinkServerAgent(Wrapper):
    """APPFL's ``ServerAgent`` with its models beside the messages; everything else is passed on.

    Args:
        agent: the ``ServerAgent``.
        address: where objects are served: ``HOST:FIRST-LAST`` for the first free pair of ports of a
            range, or ``HOST:PORT``, where port 0 takes free ones; see ``integrations.ports``.
        config: settings of the link. Unless ``security`` is set, it has APPFL's certificates, and a
            token for each client, sent through APPFL's own channel with its configuration. Unless
            ``grpc.max_clients`` is set, APPFL's ``num_clients`` may connect at once.
        limits: how many objects, how large, and for how long; by default 4 TiB with a spool.
        spool: directory in which this server makes a folder for what clients send; it goes with the
            server. None: it is held in memory.
        round_timeout: how long a client waits for the others (seconds); then one was lost, and the
            round fails, and the job with it.

    Attributes:
        objects: the server of the models, from the beginning of the ``with`` block.

    Raises ``ValueError`` where the configuration moves models by other means, or in chunks.
    """

    objects: ObjectServer

    def __init__(
        self,
        agent: Any,
        address: str = "127.0.0.1:0",
        *,
        config: LinkConfig | None = None,
        limits: ObjectLimits | None = None,
        spool: Path | str | None = None,
        round_timeout: float = RPC_SECONDS,
    ) -> None:
        super().__init__(agent)
        self._round_timeout = round_timeout
        server = agent.server_agent_config.server_configs
        require_plain(server)
        require_plain(agent.server_agent_config.client_configs)
        self._issued, self._lock = dict[str, str](), threading.Lock()
        self._admitted: TokenList | None = None
        if config is None or "security" not in config.model_fields_set:
            self._admitted = TokenList()
            theirs = section(server, "comm_configs", "grpc_configs")
            config = link_config(theirs, config, keep=self.private_file, tokens=self._admitted.path)
        self._is_lost, self._heard_at = False, time.monotonic()
        self._address, self._config, self._limits, self._spool = address, config, limits, spool

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            limits, spool = self._limits, self._spool
            if spool is not None:
                limits = limits or ON_DISK
                spool = stack.enter_context(own_folder("streamlink-appfl", spool))
            make = partial(ObjectServer, limits=limits, spool=spool)
            most = int(self._wrapped.get_num_clients())
            server = listening(self._address, make, self._config, most)
            self.objects = stack.enter_context(server)
            self._stack.enter_context(stack.pop_all())
        return self

    def get_client_configs(self, **kwargs: Any) -> Any:
        """Return the clients' configuration; with port and token for the client that asks so."""
        name = kwargs.pop(KEY, None)
        configs = self._wrapped.get_client_configs(**kwargs)
        if name is not None:
            configs = copy.deepcopy(configs)  # the token is for one client only
            token = self._token_of(str(name), self._admitted) if self._admitted else ""
            configs[KEY] = {"port": self.objects.port, "token": token}
        return configs

    def get_parameters(self, blocking: bool = False, **kwargs: Any) -> Any:
        """Return the global model; to a client with references, a reference to it."""
        name = kwargs.pop(KEY, None)
        _require_whole(kwargs)
        found = self._wrapped.get_parameters(blocking=False, **kwargs)
        return self._answer(self._waited(found), name) if blocking else found

    def global_update(
        self, client_id: int | str, local_model: Any, blocking: bool = False, **kwargs: Any
    ) -> Any:
        """Aggregate a client's model, which its reference names; return one to the new model."""
        text = kwargs.pop(KEY, None)
        _require_whole(kwargs)
        if text is not None:
            local_model = Tensors(self.objects.open(text))
        found = self._wrapped.global_update(client_id, local_model, blocking=False, **kwargs)
        del local_model  # what waits for the others must not keep it
        name = text and str(client_id)
        return self._answer(self._waited(found), name) if blocking else found

    def server_terminated(self) -> bool:
        """Tell whether the server may end: all clients left, or were lost."""
        if self._wrapped.server_terminated() or self._is_lost:
            return True
        is_quiet = time.monotonic() - self._heard_at > self._round_timeout
        return is_quiet and bool(self._wrapped.training_finished())

    def _waited(self, found: Any) -> Any:
        """Return what APPFL's scheduler has promised; it waits for lost clients without an end."""
        try:
            return found.result(self._round_timeout) if isinstance(found, Future) else found
        except FutureTimeout:
            self._is_lost = True
            what = f"after {self._round_timeout:g} s the server waits for other clients no longer; "
            what += "one of them was lost, so the job ends: start it again, or raise round_timeout"
            raise RoundError(what) from None
        finally:
            self._heard_at = time.monotonic()

    def _answer(self, found: Any, name: str | None) -> Any:
        model, metadata = found if isinstance(found, tuple) else (found, {})
        if name is None:
            model = dict(model) if isinstance(model, Tensors) else model
            return (model, metadata) if metadata else model
        # The tensors are not copied: nobody changes what an aggregator has returned. Without a
        # digest, since that would read them once more before the first byte is sent.
        reference = self.objects.put(model, readers=(name,), reads=1, digest="")
        return {}, {**metadata, KEY: str(reference)}

    def _token_of(self, name: str, admitted: TokenList) -> str:
        with self._lock:
            if name not in self._issued:
                self._issued[name] = admitted.admit(name)
                admitted.publish()
            return self._issued[name]


def _require_whole(kwargs: Mapping[str, Any]) -> None:
    if any(kwargs.get(name) is not None for name in _CHUNKED):
        raise ModelError("the client has use_model_chunking; it is to be turned off there")

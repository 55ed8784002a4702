"""The server's side: what its service asks the agent for is answered with references."""

from __future__ import annotations

import copy
import logging
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any, Self

from streamlink import LinkConfig
from streamlink.errors import ModelError
from streamlink.integrations.appfl.trust import link_config
from streamlink.integrations.appfl.waiting import ROUND_SECONDS, Waiting
from streamlink.integrations.appfl.wrapper import KEY, Wrapper, require_plain, section
from streamlink.integrations.folders import own_folder
from streamlink.integrations.ports import ON_DISK, listening
from streamlink.integrations.tokens import TokenList
from streamlink.integrations.torch_models import Tensors
from streamlink.objects import ObjectLimits, ObjectServer

__all__ = ["StreamlinkServerAgent"]

logger = logging.getLogger("streamlink.integrations.appfl")

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
            round fails, and the job with it. The job also ends where no client is connected, and
            none has called for so long. APPFL ends a call after an hour, unless ``use_polling`` is
            set in ``grpc_configs``: without it a larger value is of no use.

    Raises ``ValueError`` where the configuration moves models by other means, or in chunks.
    """

    def __init__(
        self,
        agent: Any,
        address: str = "127.0.0.1:0",
        *,
        config: LinkConfig | None = None,
        limits: ObjectLimits | None = None,
        spool: Path | str | None = None,
        round_timeout: float = ROUND_SECONDS,
    ) -> None:
        super().__init__(agent)
        self._round_timeout = round_timeout
        server = agent.server_agent_config.server_configs
        require_plain(server)
        require_plain(agent.server_agent_config.client_configs)
        self._admitted: TokenList | None = None
        if config is None or "security" not in config.model_fields_set:
            self._admitted = TokenList()
            theirs = section(server, "comm_configs", "grpc_configs")
            config = link_config(theirs, config, keep=self.private_file, tokens=self._admitted.path)
        self._first, self._rounds = Waiting(round_timeout), Waiting(round_timeout)
        self._names, self._heard_at = set[Any](), time.monotonic()
        self._objects: ObjectServer | None = None
        self._address, self._config, self._spool = address, config, spool
        self._limits = limits or (ON_DISK if spool is not None else None)

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            spool = self._spool
            if spool is not None:
                spool = stack.enter_context(own_folder("streamlink-appfl", spool))
            make = partial(ObjectServer, limits=self._limits, spool=spool)
            most = int(self._wrapped.get_num_clients())
            self._objects = stack.enter_context(listening(self._address, make, self._config, most))
            self._stack.enter_context(stack.pop_all())
        return self

    @property
    def objects(self) -> ObjectServer:
        """The server of the models, from the beginning of the ``with`` block."""
        if self._objects is None:
            raise RuntimeError("call serve within `with StreamlinkServerAgent(...) as agent:`")
        return self._objects

    def get_client_configs(self, **kwargs: Any) -> Any:
        """Return the clients' configuration; with port and token for the client that asks so."""
        name = kwargs.pop(KEY, None)
        self._hear(name)
        configs = self._wrapped.get_client_configs(**kwargs)
        if name is not None:
            configs = copy.deepcopy(configs)  # the token is for one client only
            token = self._admitted.token_of(str(name)) if self._admitted else ""
            configs[KEY] = {"port": self.objects.port, "token": token}
        return configs

    def get_parameters(self, blocking: bool = False, **kwargs: Any) -> Any:
        """Return the global model; to a client with references, a reference to it."""
        name = kwargs.pop(KEY, None)
        _require_whole(kwargs)
        ask = partial(self._wrapped.get_parameters, blocking=False, **kwargs)
        return self._answered(name, self._first, ask) if blocking else ask()

    def global_update(
        self, client_id: int | str, local_model: Any, blocking: bool = False, **kwargs: Any
    ) -> Any:
        """Aggregate a client's model, which its reference names; return one to the new model."""
        text = kwargs.pop(KEY, None)
        _require_whole(kwargs)

        def ask() -> Any:
            # Nothing here keeps the model while its client waits for the others.
            model = local_model if text is None else Tensors(self.objects.open(text))
            return self._wrapped.global_update(client_id, model, blocking=False, **kwargs)

        name = None if text is None else client_id
        return self._answered(name, self._rounds, ask) if blocking else ask()

    def server_terminated(self) -> bool:
        """Tell whether the server may end: all clients left, or were lost, or their job failed."""
        clients = self.objects.clients  # outside of ``with`` its script gets the error here
        if self._wrapped.server_terminated() or self._first.failed or self._rounds.failed:
            return True
        if time.monotonic() - self._heard_at <= self._round_timeout:
            return False
        # Whether a client without the wrapper, None, trains or is lost, nobody can know.
        are_lost = bool(self._names) and not clients and None not in self._names
        if are_lost:
            logger.error("all clients were lost: none has called for %g s", self._round_timeout)
        return are_lost or bool(self._wrapped.training_finished())

    def _hear(self, name: Any) -> None:
        self._names.add(name)
        self._heard_at = time.monotonic()

    def _answered(self, name: Any, calls: Waiting, ask: Callable[[], Any]) -> Any:
        self._hear(name)
        try:
            return self._answer(calls.result(ask), name)
        except Exception as error:
            if name is None:
                raise
            # APPFL itself would send "Server error occurred!", whatever it is.
            logger.exception("the call of client %s failed", name)
            return {}, {KEY: {"error": f"{type(error).__name__}: {error}"}}
        finally:
            self._hear(name)

    def _answer(self, found: Any, name: Any) -> Any:
        model, metadata = found if isinstance(found, tuple) else (found, {})
        if name is None:
            model = dict(model) if isinstance(model, Tensors) else model
            return (model, metadata) if metadata else model
        # The tensors are not copied: nobody changes what an aggregator has returned. Without a
        # digest, since that would read them once more before the first byte is sent.
        reference = self.objects.put(model, readers=(str(name),), reads=1, digest="")
        return {}, {**metadata, KEY: str(reference)}


def _require_whole(kwargs: Mapping[str, Any]) -> None:
    if any(kwargs.get(name) is not None for name in _CHUNKED):
        raise ModelError("the client has use_model_chunking; it is to be turned off there")

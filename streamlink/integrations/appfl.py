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

import copy
import gc
import hashlib
import json
import logging
import secrets
import tempfile
import threading
import time
from collections.abc import Mapping
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Self

from streamlink import LinkConfig, ModelSource, SecurityConfig, copy_model, open_store
from streamlink.errors import CorruptStore, ModelError, ObjectError, RoundError, StoreError
from streamlink.integrations.torch_models import IntoTensors, Tensors
from streamlink.objects import ObjectClient, ObjectLimits, ObjectServer
from streamlink.rounds import AveragedModel
from streamlink.stores import as_model

__all__ = [
    "KEY",
    "StreamlinkAggregator",
    "StreamlinkClientCommunicator",
    "StreamlinkServerAgent",
    "link_config",
]

KEY = "_streamlink"
"""In APPFL's metadata: a client's name in what it asks for, a reference beside a model."""

logger = logging.getLogger("streamlink.integrations.appfl")

_RPC_SECONDS = 3600.0  # APPFL gives each of its calls this long
_CHUNKED = ("_chunk_idx", "_chunk_id", "_request_chunked")
_ELSEWHERE = {  # what moves models by other means: section of comm_configs, its switch
    "compressor_configs": "enable_compression",
    "proxystore_configs": "enable_proxystore",
    "s3_configs": "enable_s3",
    "colab_connector_configs": "enable",
    "grpc_configs": "use_model_chunking",
}
_CERTIFICATES = (("server_certificate", "certificate"), ("server_certificate_key", "key"),
                 ("root_certificate", "ca"))  # fmt: skip


def link_config(grpc_configs: Mapping[str, Any], **tokens: Path) -> LinkConfig:
    """Return settings with the certificates of a server's or client's ``grpc_configs``.

    Without ``use_ssl`` there is no TLS here either; ``tokens`` are fields of ``SecurityConfig``.

    Raises:
        ValueError: a certificate is given as bytes; ours are read from files.
    """
    security: dict[str, Any] = dict(tokens)
    for theirs, ours in _CERTIFICATES if grpc_configs.get("use_ssl") else ():
        value = grpc_configs.get(theirs)
        if isinstance(value, bytes):
            raise ValueError(f"{theirs} is given as bytes; write it to a file and pass its path")
        if value:
            security[ours] = Path(value)
    # A server that was started again has lost its job: its clients need not wait for it for long.
    return LinkConfig(security=SecurityConfig(**security), timeouts={"rejoin_timeout": 60.0})


class _Wrapper:
    """Passes on what it does not do itself; ``with`` ends what it has opened."""

    def __init__(self, wrapped: Any) -> None:
        self._wrapped, self._stack = wrapped, ExitStack()
        # APPFL calls gc.collect() some twenty times for each model. With PyTorch and APPFL imported
        # a call takes 0.25 s and more; without what is here by now, microseconds.
        gc.freeze()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._wrapped, name)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def _private_file(self, name: str, text: str) -> Path:
        """Return a new file in a folder that only this user reads, removed at the end."""
        folder = self._stack.enter_context(tempfile.TemporaryDirectory(prefix="streamlink-"))
        path = Path(folder, name)
        path.write_text(text)
        return path


class StreamlinkServerAgent(_Wrapper):
    """APPFL's ``ServerAgent`` with its models beside the messages; everything else is passed on.

    Args:
        agent: the ``ServerAgent``.
        address: where objects are served: ``host:port``, where port 0 takes a free one.
        config: settings of the link; None: APPFL's certificates, and a token for each client, sent
            through APPFL's own channel with its configuration.
        limits: how many objects, how large, and for how long.
        spool: directory for what clients send; None: it is held in memory.
        round_timeout: how long a client waits for the others (seconds); then one was lost, and the
            round fails, and the job with it.

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
        round_timeout: float = _RPC_SECONDS,
    ) -> None:
        super().__init__(agent)
        self._round_timeout = round_timeout
        server = agent.server_agent_config.server_configs
        _require_plain(server)
        _require_plain(agent.server_agent_config.client_configs)
        self._issued, self._lock = dict[str, str](), threading.Lock()
        self._tokens: Path | None = None
        if config is None:
            self._tokens = self._private_file("tokens", "")
            self._token_of("nobody")  # a list of tokens has at least one
            theirs = _section(server, "comm_configs", "grpc_configs")
            config = link_config(theirs, tokens=self._tokens)
        self._is_lost, self._heard_at = False, time.monotonic()
        self.objects = ObjectServer(address, config=config, limits=limits, spool=spool)

    def __enter__(self) -> Self:
        self._stack.enter_context(self.objects)
        return self

    def get_client_configs(self, **kwargs: Any) -> Any:
        """Return the clients' configuration; with a token for the client that asks for one."""
        name = kwargs.pop(KEY, None)
        configs = self._wrapped.get_client_configs(**kwargs)
        if name is not None and self._tokens is not None:
            configs = copy.deepcopy(configs)  # the token is for one client only
            configs[KEY] = self._token_of(str(name))
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

    def _token_of(self, name: str) -> str:
        assert self._tokens is not None
        with self._lock:
            token = self._issued.setdefault(name, secrets.token_urlsafe(32))
            known = self._issued.items()
            hashes = {each: hashlib.sha256(text.encode()).hexdigest() for each, text in known}
            partial = self._tokens.with_name("partial")
            partial.write_text(json.dumps(hashes))
            partial.replace(self._tokens)  # the server reads it again with the next session
        return token


class StreamlinkClientCommunicator(_Wrapper):
    """APPFL's ``GRPCClientCommunicator`` with the models beside the messages.

    ``get_configuration`` comes first, as in APPFL's examples: it brings this client's token.

    Args:
        communicator: the ``GRPCClientCommunicator``.
        address: of the server's objects, ``host:port``; nothing else is dialled.
        grpc_configs: what the communicator was made with; its certificates are used.
        agent: the ``ClientAgent``: a model is received into the tensors of its own model, so that
            there is one in memory. None: into new tensors.
        config: settings of the link; None: APPFL's certificates, and the token.
        timeout: the most that one model may take (seconds).

    Raises ``ValueError`` where the configuration moves models by other means, or in chunks.
    """

    def __init__(
        self,
        communicator: Any,
        address: str,
        grpc_configs: Mapping[str, Any],
        *,
        agent: Any = None,
        config: LinkConfig | None = None,
        timeout: float = _RPC_SECONDS,
    ) -> None:
        _require_plain({"comm_configs": {"grpc_configs": grpc_configs, **grpc_configs}})
        super().__init__(communicator)
        self._address, self._agent, self._timeout = address, agent, timeout
        self._grpc_configs, self._config = grpc_configs, config
        self._name, self._token = str(communicator.client_id), ""
        self._objects: ObjectClient | None = None

    def get_configuration(self, **kwargs: Any) -> Any:
        """Return the configuration that the server has for clients."""
        configuration = self._wrapped.get_configuration(**kwargs, **{KEY: self._name})
        self._token = configuration.pop(KEY, "")
        _require_plain(configuration)
        return configuration

    def get_global_model(self, **kwargs: Any) -> Any:
        """Return the global model, and metadata where the server sends some."""
        found = self._wrapped.get_global_model(**kwargs, **{KEY: self._name})
        model, metadata = found if isinstance(found, tuple) else (found, {})
        if KEY in metadata:
            model = self._fetched(metadata.pop(KEY))
        return (model, metadata) if metadata else model

    def update_global_model(self, local_model: Any, **kwargs: Any) -> tuple[Any, dict[str, Any]]:
        """Send the local model, and return the new global one, and metadata with its status."""
        if not isinstance(local_model, Mapping):
            raise TypeError(f"the local model is {type(local_model).__name__}, not name → tensor")
        reference = self._session().put(local_model, readers=(), reads=1, timeout=self._timeout)
        kwargs[KEY] = str(reference)
        model, metadata = self._wrapped.update_global_model({}, **kwargs)
        return (self._fetched(metadata.pop(KEY)) if KEY in metadata else model), metadata

    def invoke_custom_action(self, action: str, **kwargs: Any) -> Any:
        """Invoke an action at the server; ``close_connection`` ends this session as well."""
        try:
            return self._wrapped.invoke_custom_action(action, **kwargs)
        finally:
            if action == "close_connection":
                self._objects = None
                self._stack.close()

    def _fetched(self, text: str) -> dict[str, Any]:
        try:
            return self._received(text)
        except ObjectError as gone:
            # The server's objects were started again, or this client was away for too long. The
            # server has the model still, so it is asked for once more.
            logger.info("asking for the global model again: %s", gone)
        _, metadata = self._wrapped.get_global_model(init_model=False, **{KEY: self._name})
        return self._received(metadata[KEY])

    def _received(self, text: str) -> dict[str, Any]:
        into = IntoTensors(getattr(self._agent, "model", None))
        self._session().get(text, into, timeout=self._timeout)
        return into.tensors

    def _session(self) -> ObjectClient:
        if self._objects is None:
            config = self._config or self._own_config()
            client = ObjectClient(self._address, name=self._name, config=config)
            self._objects = self._stack.enter_context(client)
        return self._objects

    def _own_config(self) -> LinkConfig:
        token = {"token": self._private_file("token", self._token)} if self._token else {}
        return link_config(self._grpc_configs, **token)


class StreamlinkAggregator:
    """Averages range by range into a store, so that the server holds windows and no model.

    In APPFL's configuration: ``aggregator_path`` names a file that imports this class,
    ``aggregator: StreamlinkAggregator``, and in ``aggregator_kwargs``

    - ``store``: the global model's directory; where it is empty, APPFL's own model is stored there;
    - ``client_weights_mode``: ``equal`` or ``sample_size``, as for ``FedAvgAggregator``;
    - ``alpha``: with an asynchronous scheduler, the weight of each local model, as for
      ``FedAsyncAggregator`` (0.9; whatever its staleness).
    """

    def __init__(
        self, model: Any = None, aggregator_configs: Any = None, logger: Any = None
    ) -> None:
        configs = dict(aggregator_configs or {})
        if "store" not in configs:
            raise ValueError("aggregator_kwargs.store is missing: the directory of the model")
        if configs.get("staleness_fn", "constant") != "constant":
            raise ValueError("staleness_fn: StreamlinkAggregator knows 'constant' only")
        self._store = open_store(configs["store"])
        self._by_samples = configs.get("client_weights_mode", "equal") == "sample_size"
        self._alpha = float(configs.get("alpha", 0.9))
        self._samples: dict[str, float] = {}
        self.model, self.logger = model, logger

    def set_client_sample_size(self, client_id: int | str, sample_size: int) -> None:
        """Note how many samples a client has."""
        self._samples[str(client_id)] = sample_size

    def get_parameters(self, **_: Any) -> Tensors:
        """Return the global model as it is now, also while a later one replaces it."""
        try:
            return Tensors(self._store.open())
        except StoreError as error:
            if self.model is None or isinstance(error, CorruptStore):
                raise
        copy_model(self.model, self._store)
        return self.get_parameters()

    def aggregate(self, *models: Any, **_: Any) -> Tensors:
        """Average the clients' models, or one client's and the global one, into the store."""
        if len(models) == 2:  # an asynchronous scheduler: client, model
            client, model = models
            sources = {"": self.get_parameters(), str(client): _as_source(model)}
            weights = {"": 1.0 - self._alpha, str(client): self._alpha}
        else:
            sources = {str(client): _as_source(model) for client, model in models[0].items()}
            weights = {name: self._samples.get(name, 1.0) if self._by_samples else 1.0
                       for name in sources}  # fmt: skip
        copy_model(AveragedModel(sources, weights), self._store)
        return Tensors(self._store.open())


def _as_source(model: Any) -> ModelSource:
    return model if isinstance(model, ModelSource) else as_model(model)


def _section(configs: Any, *names: str) -> Mapping[str, Any]:
    for name in names:
        configs = configs.get(name) if isinstance(configs, Mapping) else None
    return configs if isinstance(configs, Mapping) else {}


def _require_plain(configs: Any) -> None:
    """Refuse what moves models by other means: half of it would go one way, half the other."""
    comm = _section(configs, "comm_configs")
    for section, switch in _ELSEWHERE.items():
        if _section(comm, section).get(switch):
            raise ValueError(f"comm_configs.{section}.{switch} is on; streamlink moves the models "
                             "itself, whole and in windows: turn it off")  # fmt: skip
    if _section(configs, "aggregator_kwargs").get("use_secure_agg"):
        raise ValueError("use_secure_agg sends masked vectors, which streamlink does not move")


def _require_whole(kwargs: Mapping[str, Any]) -> None:
    if any(kwargs.get(name) is not None for name in _CHUNKED):
        raise ModelError("the client has use_model_chunking; it is to be turned off there")

"""A client's side: its communicator puts a reference where APPFL would carry a model."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from streamlink import LinkConfig
from streamlink.errors import ObjectError, RoundError
from streamlink.integrations.appfl.trust import link_config
from streamlink.integrations.appfl.wrapper import KEY, RPC_SECONDS, Wrapper, require_plain
from streamlink.integrations.ports import dialled, within
from streamlink.integrations.torch_models import IntoTensors
from streamlink.objects import ObjectClient

__all__ = ["StreamlinkClientCommunicator"]

logger = logging.getLogger("streamlink.integrations.appfl")


class StreamlinkClientCommunicator(Wrapper):
    """APPFL's ``GRPCClientCommunicator`` with the models beside the messages.

    ``get_configuration`` comes first, as in APPFL's examples: it brings this client's token and the
    port of the models.

    Args:
        communicator: the ``GRPCClientCommunicator``.
        address: of the server's objects: ``HOST:FIRST-LAST`` or ``HOST``, where the server names
            the port, or ``HOST:PORT``; nothing else is dialled.
        grpc_configs: what the communicator was made with; its certificates are used.
        agent: the ``ClientAgent``: a model is received into the tensors of its own model, so that
            there is one in memory. None: into new tensors.
        config: settings of the link. Unless ``security`` is set, it has APPFL's certificates, and
            the token.
        timeout: the most that one model may take (seconds).

    Raises ``ValueError`` where the configuration moves models by other means, or in chunks, and
    ``RoundError`` where the server reports that a call failed there.
    """

    def __init__(
        self,
        communicator: Any,
        address: str,
        grpc_configs: Mapping[str, Any],
        *,
        agent: Any = None,
        config: LinkConfig | None = None,
        timeout: float = RPC_SECONDS,
    ) -> None:
        require_plain({"comm_configs": {"grpc_configs": grpc_configs, **grpc_configs}})
        super().__init__(communicator)
        self._address, self._agent, self._timeout = address, agent, timeout
        self._grpc_configs, self._config = grpc_configs, config
        self._name, self._port, self._token = str(communicator.client_id), -1, ""
        self._objects: ObjectClient | None = None

    def get_configuration(self, **kwargs: Any) -> Any:
        """Return the configuration that the server has for clients."""
        configuration = self._wrapped.get_configuration(**kwargs, **{KEY: self._name})
        session = configuration.pop(KEY, None)
        if session is None:
            raise ValueError("put a StreamlinkServerAgent around the server's agent: it has none")
        self._port, self._token = int(session["port"]), session["token"]
        require_plain(configuration)
        return configuration

    def get_global_model(self, **kwargs: Any) -> Any:
        """Return the global model, and metadata where the server sends some."""
        self._session()  # if it cannot be opened, nothing is trained in vain
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

    def _fetched(self, text: Any) -> dict[str, Any]:
        try:
            return self._received(text)
        except ObjectError as gone:
            # The server's objects were started again, or this client was away for too long. The
            # server has the model still, so it is asked for once more.
            logger.info("asking for the global model again: %s", gone)
        _, metadata = self._wrapped.get_global_model(init_model=False, **{KEY: self._name})
        return self._received(metadata[KEY])

    def _received(self, text: Any) -> dict[str, Any]:
        if isinstance(text, Mapping):
            raise RoundError(f"the call failed at the server: {text['error']}")
        into = IntoTensors(getattr(self._agent, "model", None))
        self._session().get(text, into, timeout=self._timeout)
        return into.tensors

    def _session(self) -> ObjectClient:
        if self._port < 0:
            raise RuntimeError("call get_configuration first: it brings the port of the models")
        if self._objects is None:
            address = dialled(self._address, self._port)
            config = within(self._address, self._secured(address))
            client = ObjectClient(address, name=self._name, config=config)
            self._objects = self._stack.enter_context(client)
        return self._objects

    def _secured(self, dials: str) -> LinkConfig:
        config, keep = self._config, self.private_file
        if config is not None and "security" in config.model_fields_set:
            return config
        token = {"token": keep(self._token)} if self._token else {}
        return link_config(self._grpc_configs, config, dials=dials, keep=keep, **token)

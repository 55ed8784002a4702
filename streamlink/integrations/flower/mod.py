"""``StreamlinkMod``: at a client, references become arrays, and its reply's arrays references."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from functools import partial

from flwr.app import ArrayRecord, Context, Message

from streamlink import LinkConfig
from streamlink.errors import ModelError
from streamlink.integrations.flower import identity, records
from streamlink.integrations.ports import dialled, started, within
from streamlink.integrations.tokens import SecretFile, with_security
from streamlink.objects import ObjectClient

__all__ = ["StreamlinkMod"]


class StreamlinkMod:
    """The mod of a ClientApp whose server uses ``StreamlinkGrid``; the first in its list.

    Args:
        server: the only host that is dialled, and its ports: ``HOST:FIRST-LAST`` or ``HOST``, where
            the message names the port, or ``HOST:PORT``. By default ``streamlink-server`` in the
            node's configuration, or in the run's; else this machine.
        config: settings of this end. Files of TLS may be in the node's configuration as well:
            ``streamlink-ca`` (the one of ``--root-certificates``), ``streamlink-certificate`` and
            ``streamlink-key`` (for mutual TLS), ``streamlink-server-name``.
    """

    def __init__(self, server: str | None = None, *, config: LinkConfig | None = None) -> None:
        self._server, self._config = server, config or LinkConfig()

    def __call__(
        self, message: Message, context: Context, call_next: Callable[[Message, Context], Message]
    ) -> Message:
        """Run the rest of the app with arrays that are fetched when they are used."""
        if not message.has_content() or identity.SESSION not in message.content:
            return call_next(message, context)
        session = message.content.pop(identity.SESSION)
        node = context.node_config
        own = self._server or {**context.run_config, **node}.get(identity.SETTING)
        server = str(own or "127.0.0.1")
        address = dialled(server, int(session["port"]))
        # Never from the run: who submits it must not choose the files of a node.
        files = {field: node[name] for name, field in identity.FILES.items() if name in node}
        with ExitStack() as stack:
            token = SecretFile(session["token"])
            config = with_security(within(server, self._config), **files, token=token.path)
            client = ObjectClient(address, name=session["name"], config=config)
            started(client, "" if own else f"{identity.SETTING} (--node-config)")
            fetched = partial(_fetched, stack.enter_context(client), stack)
            message.content = records.exchanged(message.content, fetched)
            reply = call_next(message, context)
            if reply.has_content():
                # As long as Flower keeps the reply, if the server permits it.
                ttl = max(1.0, min(reply.metadata.ttl, float(session["ttl"])))
                reply.content = records.exchanged(reply.content, partial(_sent, client, ttl))
            return reply


def _fetched(client: ObjectClient, stack: ExitStack, record: ArrayRecord) -> ArrayRecord:
    text = records.reference_in(record)
    if text is None:
        return record
    # Whole models arrive in the arrays' own memory, with `get`; single arrays through `open`.
    return records.SourceRecord(stack.enter_context(client.open(text)), partial(client.get, text))


def _sent(client: ObjectClient, ttl: float, record: ArrayRecord) -> ArrayRecord:
    try:
        source = records.source_of(record)
    except ModelError:  # an array that streamlink does not know: Flower carries it
        return record
    return records.referring(client.put(source, reads=1, ttl=ttl))

"""Who may connect: each message carries a name and a token of its own, made for one run.

They travel through Flower's own channel, so Flower's trust decides: only the node that a message is
for can use them, and only until its reply is here. Where the server asks for certificates, a node
needs one as well, with the name that it is registered with in Flower.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping

from streamlink import LinkConfig
from streamlink.integrations.tokens import TokenList, with_security

__all__ = ["FILES", "SESSION", "SETTING", "Admission"]

SESSION = "streamlink"
"""The key of the record with what a client needs to connect; the mod takes it out."""

SETTING = "streamlink-server"
"""Where a node's or a run's configuration says what clients dial."""

_FIELDS = ("ca", "certificate", "key", "server_name")
FILES = {"streamlink-" + each.replace("_", "-"): each for each in _FIELDS}
"""Settings of a node's configuration for TLS, and the fields of ``SecurityConfig`` they set."""


class Admission(TokenList):
    """The names that may connect now, each with its tokens.

    Args:
        config: settings of the server.

    Attributes:
        config: the same with this list of tokens.
        is_mutual: whether clients must present a certificate, with the name of their node.

    Raises:
        ValueError: the settings have tokens already.
    """

    def __init__(self, config: LinkConfig) -> None:
        if config.security.tokens is not None:
            raise ValueError(
                "security.tokens does not fit Flower's nodes, since each message brings a token of "
                "its own; omit it (certificate, key and ca may be set)"
            )
        super().__init__()
        self.config = with_security(config, tokens=self.path)
        self.is_mutual = config.security.ca is not None

    def entry(self, node: int, names: Mapping[int, str]) -> tuple[str, str]:
        """Return the name of a client of this node, and its token.

        The name is a new one. Where it is compared with a certificate it is the one that the node
        is registered with in Flower, if it is in ``names``, or else the node's ID.
        """
        own = names.get(node) or str(node)
        name = own if self.is_mutual else f"{node}-{secrets.token_hex(4)}"
        return name, self.admit(name)

"""Who may connect: each message carries a name and a token of its own, made for one run.

They travel through Flower's own channel, so Flower's trust decides: only the node that a message is
for can use them, and only until its reply is here.
"""

from __future__ import annotations

import json
import re
import secrets
from hashlib import sha256
from pathlib import Path

from streamlink import LinkConfig
from streamlink.errors import SecurityError

__all__ = ["SESSION", "SETTING", "Admission", "dialled", "with_security"]

SESSION = "streamlink"
"""The key of the record with what a client needs to connect; the mod takes it out."""

SETTING = "streamlink-server"
"""Where a node's or a run's configuration says what clients dial."""

_SERVER = re.compile(r"(.+?)(?::([0-9]+)(?:-([0-9]+))?)?")  # HOST, HOST:PORT, HOST:FIRST-LAST


class Admission:
    """The names that may connect now, and the hashes of their tokens in a file that is reloaded.

    Args:
        folder: for the file; readable by this user only.
        config: settings of the server.

    Raises:
        ValueError: the settings name the clients already.
    """

    def __init__(self, folder: Path, config: LinkConfig) -> None:
        if config.security.ca is not None or config.security.tokens is not None:
            raise ValueError(
                "security.ca and security.tokens do not fit Flower's nodes: each message brings a "
                "name and a token of its own; leave them out (certificate and key may be set)"
            )
        self._hashes: dict[str, str] = {}
        self.admit(0)  # nobody: an empty list is refused
        self._file = folder / "tokens.json"
        self.publish()
        self.config = with_security(config, tokens=self._file)

    def admit(self, node: int) -> tuple[str, str]:
        """Return a new name for a client of this node, and its token."""
        name, token = f"{node}-{secrets.token_hex(4)}", secrets.token_urlsafe(32)
        self._hashes[name] = sha256(token.encode()).hexdigest()
        return name, token

    def dismiss(self, name: str) -> None:
        """Let the client of that name in no more, from the next ``publish`` on."""
        self._hashes.pop(name, None)

    def publish(self) -> None:
        """Let in who was admitted and not dismissed, and nobody else."""
        new = self._file.with_suffix(".new")
        new.touch(mode=0o600)
        new.write_text(json.dumps(self._hashes))
        new.replace(self._file)


def with_security(config: LinkConfig, **changes: Path) -> LinkConfig:
    """Return ``config`` with other settings of its security."""
    security = config.security.model_copy(update=changes)
    return config.model_copy(update={"security": security})


def dialled(server: str, port: int) -> str:
    """Return where to connect: ``server``, with ``port`` if that is in its range.

    Raises:
        SecurityError: it is not.
    """
    found = _SERVER.fullmatch(server)
    host, first, last = found.groups("") if found else (server, "", "")
    if first and not last:  # also one that a gateway forwards to the server
        return server
    if last and not int(first) <= port <= int(last):
        raise SecurityError(
            f"the message names port {port} of the server, and this node may dial {server} only; "
            f"set {SETTING} to the ports that StreamlinkGrid may listen on"
        )
    return f"{host}:{port}"

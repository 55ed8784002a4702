"""The settings that say who the two ends of a link are, and that nobody else reads it."""

from __future__ import annotations

from pathlib import Path
from typing import Self

from pydantic import model_validator

from streamlink.config.values import Settings

__all__ = ["SecurityConfig"]


class SecurityConfig(Settings):
    """Authentication and encryption of both ends.

    The settings are paths of files, so that no setting holds a secret. See docs/security.md.
    """

    certificate: Path | None = None
    """This end's certificate with its intermediate certificates (PEM file). A server with a
    certificate accepts TLS only; a client presents it to the server (mutual TLS)."""

    key: Path | None = None
    """Private key of ``certificate`` (PEM file, not encrypted)."""

    ca: Path | None = None
    """The CA that must have issued the other end's certificate (PEM file). Client: turns TLS on.
    Server: every client must present a certificate, and may use only the name in it."""

    tokens: Path | None = None
    """Server: the SHA-256 of each site's token, by the site's name (YAML or JSON file). Every
    client must send the token of its name, in addition to a certificate if ``ca`` is set."""

    token: Path | None = None
    """Client: file with this site's token and nothing else."""

    server_name: str | None = None
    """Client: the name in the server's certificate, if it differs from the host in its address.
    Without ``ca`` it turns TLS on, with the public CAs that gRPC knows."""

    insecure: bool = False
    """Permit plain text beyond this machine: anybody on the path can read and change everything,
    and names prove nothing. Without it plain text is permitted on loopback addresses only."""

    @model_validator(mode="after")
    def _relations(self) -> Self:
        if (self.certificate is None) != (self.key is None):
            there, missing = ("key", "certificate") if self.key else ("certificate", "key")
            raise ValueError(f"{there} is set without {missing}; set both or none")
        if self.server_name == "":
            raise ValueError("server_name is empty; omit it to use the host of the address")
        # Refused, not resolved: either reading would surprise somebody, and one sends secrets in
        # plain text.
        tls = [name for name in ("certificate", "ca", "server_name") if getattr(self, name)]
        if self.insecure and tls:
            raise ValueError(
                f"insecure means plain text and {tls[0]} means TLS; set only one of them"
            )
        return self

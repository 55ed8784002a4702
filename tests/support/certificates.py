"""Certificates and tokens for tests, and settings that use them; made once for a test module."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from streamlink.certs import make_certificates
from streamlink.config import LinkConfig, SecurityConfig
from tests.support.peers import config

SITES = ("site-1", "site-2")


class Authority:
    """What one ``make_certificates`` left in ``folder``, for a server here and two sites."""

    def __init__(self, folder: Path) -> None:
        make_certificates(folder, ["127.0.0.1", "server.test"], SITES)
        self.folder = folder

    def server(self, **changes: Any) -> LinkConfig:
        """TLS that demands certificate and token; ``changes`` to the section security."""
        own = self.folder / "server"
        return secured(**{**self._pair("server"), "tokens": own / "tokens.yaml", **changes})

    def site(self, name: str = "site-1", **changes: Any) -> LinkConfig:
        """A client with all that it needs; None leaves a setting out."""
        own = self.folder / name
        return secured(**{**self._pair(name), "token": own / "token", **changes})

    def token(self, name: str) -> str:
        return (self.folder / name / "token").read_text("ascii").strip()

    def _pair(self, name: str) -> dict[str, Path]:
        files = {"certificate": "certificate.pem", "key": "key.pem", "ca": "ca.pem"}
        return {setting: self.folder / name / file for setting, file in files.items()}


def secured(connect_timeout: float = 20.0, **security: Any) -> LinkConfig:
    """Return small settings with a section security of their own."""
    small = config(connect_timeout=connect_timeout)
    return small.model_copy(update={"security": SecurityConfig(**security)})

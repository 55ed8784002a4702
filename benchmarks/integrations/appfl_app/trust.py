"""``grpc_configs`` of the server and of clients, by the mode of the case.

They are plain, have APPFL's own trust ("tls"), or let clients poll for their answers ("polling").

The files are those that ``appfl-setup-ssl`` writes, in the folder ``tls`` where all processes of a
case run.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from benchmarks.integrations import inside

__all__ = ["client_grpc", "server_grpc"]

TOKEN = "the secret that all clients of this job share"


def server_grpc(uri: str) -> dict[str, Any]:
    """Return the server's ``grpc_configs``."""
    files = {"server_certificate": "server.crt", "server_certificate_key": "server.key"}
    return _grpc(uri, files, TOKEN)


def client_grpc(uri: str) -> dict[str, Any]:
    """Return a client's; ``CASE_AUTH_TOKEN`` makes it a stranger."""
    return _grpc(uri, {"root_certificate": "ca.crt"}, os.environ.get("CASE_AUTH_TOKEN", TOKEN))


def _grpc(uri: str, files: dict[str, str], token: str) -> dict[str, Any]:
    if inside.facts()["mode"] != "tls":
        polling = {"use_polling": True, "poll_interval": 1.0}
        return {"server_uri": uri, "use_ssl": False,
                **(polling if inside.facts()["mode"] == "polling" else {})}  # fmt: skip
    return {
        "server_uri": uri,
        "use_ssl": True,
        **{setting: str(Path("tls", name).absolute()) for setting, name in files.items()},
        "use_authenticator": True,
        "authenticator": "NaiveAuthenticator",
        "authenticator_args": {"auth_token": token},
    }

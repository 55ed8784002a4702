"""APPFL's own trust as settings of a link: its certificates, and tokens sent over its channel."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from streamlink import LinkConfig, SecurityConfig

__all__ = ["link_config"]

_AT_SERVER = {"certificate": "server_certificate", "key": "server_certificate_key"}
_AT_CLIENT = {"ca": "root_certificate"}


def link_config(
    grpc_configs: Mapping[str, Any],
    config: LinkConfig | None = None,
    *,
    dials: str | None = None,
    keep: Callable[[str], Path] | None = None,
    **tokens: Path,
) -> LinkConfig:
    """Return settings with the certificates of a server's or client's ``grpc_configs``.

    Without ``use_ssl`` there is no TLS here either. APPFL's clients have no certificates, so none
    are asked for.

    Args:
        grpc_configs: of APPFL's server or client.
        config: all other settings.
        dials: the address that a client dials; None at the server.
        keep: makes a file of a certificate that is given as bytes; None: such ones are refused.
        tokens: fields of ``SecurityConfig``.

    Raises:
        ValueError: a certificate is given as bytes, and there is no ``keep``.
    """
    security: dict[str, Any] = dict(tokens)
    if grpc_configs.get("use_ssl"):
        for ours, theirs in (_AT_SERVER if dials is None else _AT_CLIENT).items():
            if value := grpc_configs.get(theirs):
                security[ours] = _file_of(theirs, value, keep)
        if dials is not None and "ca" not in security:
            # As in APPFL: the public authorities vouch for the host that is dialled.
            security["server_name"] = dials.rpartition(":")[0].strip("[]")
    config = config or LinkConfig()
    timeouts = config.timeouts
    if "rejoin_timeout" not in timeouts.model_fields_set:
        # A server that was started again has lost its job: no client need wait for it for long.
        timeouts = timeouts.model_copy(update={"rejoin_timeout": 60.0})
    return config.model_copy(update={"security": SecurityConfig(**security), "timeouts": timeouts})


def _file_of(name: str, value: Any, keep: Callable[[str], Path] | None) -> Path:
    if not isinstance(value, bytes):
        return Path(value)
    if keep is None:
        raise ValueError(f"{name} is given as bytes; write it to a file and pass its path")
    return keep(value.decode("ascii"))

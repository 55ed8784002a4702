"""What both wrappers share: they pass on what they do not do, and refuse what they cannot do."""

from __future__ import annotations

import gc
from collections.abc import Mapping
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any, Self

from streamlink.integrations.tokens import SecretFile

__all__ = ["KEY", "RPC_SECONDS", "Wrapper", "require_plain", "section"]

KEY = "_streamlink"
"""In APPFL's metadata: a client's name in what it asks for, a reference beside a model, or
in the place of it an ``error``."""

RPC_SECONDS = 3600.0  # APPFL gives each of its calls this long
_ELSEWHERE = {  # what moves models by other means, or not whole: section, its switch
    "comm_configs.compressor_configs": "enable_compression",
    "comm_configs.proxystore_configs": "enable_proxystore",
    "comm_configs.s3_configs": "enable_s3",
    "comm_configs.colab_connector_configs": "enable",
    "comm_configs.grpc_configs": "use_model_chunking",
    "aggregator_kwargs": "use_secure_agg",
}


class Wrapper:
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

    def private_file(self, content: str) -> Path:
        """Return the path of a file in memory, which ends with this or its process."""
        return self._stack.enter_context(closing(SecretFile(content))).path


def section(configs: Any, *names: str) -> Mapping[str, Any]:
    """Return a section of a configuration; an empty one where it is not there."""
    for name in names:
        configs = configs.get(name) if isinstance(configs, Mapping) else None
    return configs if isinstance(configs, Mapping) else {}


def require_plain(configs: Any) -> None:
    """Refuse what moves models by other means: half of it would go one way, half the other."""
    for part, switch in _ELSEWHERE.items():
        if section(configs, *part.split(".")).get(switch):
            raise ValueError(f"{part}.{switch} is on; streamlink moves the models "
                             "itself, whole and in windows: turn it off")  # fmt: skip

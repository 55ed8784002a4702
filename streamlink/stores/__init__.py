"""Where models live: in memory, as safetensors files, or in one compressed file.

``open_model`` reads the model at a path, whatever kind of store it is; ``open_store`` returns a
store whose model can be replaced; ``as_model`` wraps arrays or tensors that a program already has.
``empty_bytes`` is memory for a large array that goes back to the system when it is freed.
``streamlink.model`` has the protocols for a store of your own.
"""

from typing import TYPE_CHECKING, Any

from streamlink.stores.coercion import SourceLike, Target, TargetLike, TorchModule, as_model
from streamlink.stores.compressed import CompressedSource, CompressedStore
from streamlink.stores.compressed.sink import CompressedSink
from streamlink.stores.memory import Array, ArrayModel, MemorySink, MemoryStore
from streamlink.stores.pages import empty_bytes
from streamlink.stores.registry import open_model, open_store
from streamlink.stores.safetensors import SafetensorsSource, SafetensorsStore
from streamlink.stores.safetensors.sink import SafetensorsSink
from streamlink.stores.versions import KeptVersion, Versions, VersionWriter

__all__ = [
    "Array",
    "ArrayModel",
    "CompressedSink",
    "CompressedSource",
    "CompressedStore",
    "KeptVersion",
    "MemorySink",
    "MemoryStore",
    "SafetensorsSink",
    "SafetensorsSource",
    "SafetensorsStore",
    "SourceLike",
    "Target",
    "TargetLike",
    "TorchModel",
    "TorchModule",
    "VersionWriter",
    "Versions",
    "as_model",
    "empty_bytes",
    "open_model",
    "open_store",
]

if TYPE_CHECKING:
    from streamlink.stores.torch.model import TorchModel


def __getattr__(name: str) -> Any:
    if name == "TorchModel":  # PyTorch is an extra, and takes seconds to import
        from streamlink.stores.torch.model import TorchModel

        return TorchModel
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

"""Where models live: in memory, as safetensors files, or in one compressed file.

``open_model`` reads the model at a path, whatever kind of store it is; ``open_store`` returns a
store whose model can be replaced; ``as_model`` wraps arrays or tensors that a program already has.
"""

from streamlink.stores.coercion import as_model
from streamlink.stores.compressed import CompressedSource, CompressedStore
from streamlink.stores.memory import ArrayModel, MemoryStore
from streamlink.stores.registry import open_model, open_store
from streamlink.stores.safetensors import SafetensorsSource, SafetensorsStore

__all__ = [
    "ArrayModel",
    "CompressedSource",
    "CompressedStore",
    "MemoryStore",
    "SafetensorsSource",
    "SafetensorsStore",
    "as_model",
    "open_model",
    "open_store",
]

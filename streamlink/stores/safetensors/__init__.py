"""A directory of safetensors files, which any tool of the Hugging Face ecosystem can read.

``source`` reads it, ``store`` replaces the model in it, ``sink`` writes the next one. Of the files:
``header`` is the beginning of each shard, ``index`` says which shards are the model and keeps its
block hashes, ``layout`` maps logical bytes to shards, ``journal`` records an unfinished transfer.
"""

from streamlink.stores.safetensors.source import SafetensorsSource
from streamlink.stores.safetensors.store import KIND, SafetensorsStore

__all__ = ["KIND", "SafetensorsSource", "SafetensorsStore"]

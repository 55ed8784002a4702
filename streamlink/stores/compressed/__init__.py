"""One compressed file for each model.

``store`` reads it and replaces it, ``sink`` writes the next one, ``format`` is the layout of its
bytes.
"""

from streamlink.stores.compressed.store import KIND, CompressedSource, CompressedStore

__all__ = ["KIND", "CompressedSource", "CompressedStore"]

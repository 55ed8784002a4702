"""The model that is moved: its spec, its digest, and sources and sinks that need no disk."""

"""What is being moved: specs, digests, and sources and sinks that need no disk."""

"""Gathering in lockstep: the server aggregates while the updates arrive, and needs every client."""

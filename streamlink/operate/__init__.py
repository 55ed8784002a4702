"""For whoever operates a process: its status and orders over a Unix socket, and its metrics.

``control`` is the socket, ``status`` what is said over it of a job or a transfer, ``metrics`` what
Prometheus reads, and ``http`` over what. Nothing of the rest of the package knows that it is
watched.
"""

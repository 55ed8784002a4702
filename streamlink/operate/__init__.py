"""Operating a process: status and commands over a Unix socket, and metrics for Prometheus.

``control`` is the socket, ``status`` answers its requests, ``metrics`` collects what Prometheus
scrapes, and ``http`` is the server for that. No other package depends on this one.
"""

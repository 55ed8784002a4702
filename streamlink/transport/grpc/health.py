"""The two messages of gRPC's standard health check (grpc.health.v1), as bytes.

    HealthCheckRequest  { string service = 1; }
    HealthCheckResponse { ServingStatus status = 1; }   1: SERVING, 2: NOT_SERVING

Only ``Check`` is answered. ``Watch`` would keep a worker for each who watches; one who finds it
unimplemented takes the server for healthy, as the standard says, and so asks ``Check``.
"""

from __future__ import annotations

SERVICE = "grpc.health.v1.Health"

SERVING, NOT_SERVING = b"\x08\x01", b"\x08\x02"

_SERVICE_FIELD = 0x0A  # field 1, with a length
_LONGEST_NAME = 127  # so that a length is one byte


def service_in(request: bytes) -> str:
    """Return which service a request asks for; empty: the whole server.

    Raises:
        ValueError: it is no such request.
    """
    if not request:
        return ""
    is_whole = len(request) >= 2 and len(request) == 2 + request[1]
    if request[0] != _SERVICE_FIELD or not is_whole or request[1] > _LONGEST_NAME:
        raise ValueError("this is no health check of one service")
    return request[2:].decode("utf-8")

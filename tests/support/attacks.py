"""A server, a client that behaves, and one that does not."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from streamlink.config import LimitsConfig
from streamlink.link.peer_request import PeerRequest
from streamlink.protocol import frames as f
from streamlink.stores.memory import MemoryStore
from tests.support.hostile import HostileClient
from tests.support.machines import KiB, zeros
from tests.support.models import content, float_spec, pattern_model
from tests.support.peers import Federation, config, echo, exchange_models

__all__ = [
    "CONFIG",
    "FIRST",
    "LIMITS",
    "SPEC",
    "TOTAL",
    "Attack",
    "a_chunk",
    "an_open",
    "in_thread",
]

SPEC = float_spec(10_001)
TOTAL = SPEC.nbytes
FIRST = f.Attempt("job", 0, 1)
LIMITS = LimitsConfig(max_tensors=50, max_silent_calls=4, frames_per_second=20, max_name_bytes=100)
CONFIG = config(open_timeout=60.0, stream={"max_spec_bytes": 64 * KiB}).model_copy(
    update={"limits": LIMITS}
)


class Attack:
    """A server, a client that behaves, and one that does not."""

    def __init__(self, federation: Federation, hostile: HostileClient) -> None:
        self.federation = federation
        self.hostile = hostile
        self.evil, welcome = hostile.greeted("evil")
        self.session_id = welcome.session_id
        federation.link("good", echo)

    def ask(self) -> PeerRequest:
        """Ask the hostile client for something; it has heard of it then."""
        exchange = self.federation.peer("evil").request("echo", SPEC, attempt=FIRST)
        self.asked = self.evil.hear(f.Request)
        return exchange

    def finish(self, name: str = "good") -> None:
        """Let the client that behaves do its work, and look at every byte of it."""
        store = MemoryStore()
        exchange = self.federation.peer(name).request("echo", SPEC, attempt=FIRST)
        exchange_models(exchange, pattern_model(SPEC), store)
        assert content(store.open()) == content(pattern_model(SPEC))
        exchange.close()


def an_open(stream_id: int, **changes: Any) -> f.Open:
    fields: dict[str, Any] = {"attempt": FIRST, "total_bytes": TOTAL, "spec_digest": SPEC.digest}
    return f.Open(stream_id, **{**fields, "spec_pages": 1, "chunk_bytes": 4 * KiB, **changes})


def a_chunk(number: int, **changes: Any) -> f.Chunk:
    fields: dict[str, Any] = {"sequence": number, "offset": number * 4 * KiB}
    return f.Chunk(**{**fields, "payload": zeros(4 * KiB), **changes})


def in_thread(work: Callable[[], Any]) -> Future[Any]:
    pool = ThreadPoolExecutor(1)
    outcome = pool.submit(work)
    pool.shutdown(wait=False)
    return outcome

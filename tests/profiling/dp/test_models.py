"""Models that cannot be had: the error names the remedy, and a token reaches only the Hub."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.util import find_spec

import pytest

from streamlink.profiling.dp.experiment import Experiment, Mode
from streamlink.profiling.dp.launch import run_experiment

pytestmark = [
    pytest.mark.skipif(find_spec("opacus") is None, reason="needs streamlink-fl[dp]"),
    pytest.mark.timeout(600),
    pytest.mark.processes,
]


@contextmanager
def gated_hub() -> Iterator[tuple[str, list[str | None]]]:
    """Serve a Hub on which all models are gated; yield its address and the credentials it saw."""
    seen: list[str | None] = []

    class Hub(BaseHTTPRequestHandler):
        def do_HEAD(self) -> None:
            seen.append(self.headers["Authorization"])
            self.send_response(403)
            self.send_header("X-Error-Code", "GatedRepo")
            self.send_header("Content-Length", "0")
            self.end_headers()

        do_GET = do_HEAD  # noqa: N815

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Hub) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}", seen
        finally:
            server.shutdown()
            thread.join()


def test_a_gated_model_is_reported_with_what_opens_it(monkeypatch: pytest.MonkeyPatch) -> None:
    with gated_hub() as (address, seen):
        monkeypatch.setenv("HF_ENDPOINT", address)
        monkeypatch.setenv("NO_PROXY", "127.0.0.1")
        result = run_experiment(
            Experiment(mode=Mode.NO_DP, seq_length=16, model_name="someone/gated"), token="hf_mine"
        )
    assert result.failure is not None
    assert "someone/gated is gated: accept its license" in result.failure.text
    assert "--token" in result.failure.text
    assert "Bearer hf_mine" in seen
    assert "hf_mine" not in result.model_dump_json()

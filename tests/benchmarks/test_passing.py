"""One model through a line: if the receiver cannot listen, its error ends the transfer at once."""

from __future__ import annotations

from pathlib import Path

import pytest

import streamlink
from benchmarks.models import GrowingStore, Layout
from benchmarks.passing import pass_model

LAYOUT = Layout(1, 1000)


@pytest.mark.slow
@pytest.mark.parametrize("carrier", ["grpc", "tcp"])
def test_a_receiver_that_fails_before_it_listens_is_raised(tmp_path: Path, carrier: str) -> None:
    security = streamlink.SecurityConfig(tokens=tmp_path / "no-such-file.yaml")
    with pytest.raises(streamlink.StreamlinkError, match=r"no-such-file\.yaml"):
        pass_model(
            LAYOUT.model(2.0),
            GrowingStore(LAYOUT, 1.0),
            streamlink.LinkConfig(security=security),
            carrier=carrier,
        )

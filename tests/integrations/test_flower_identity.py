"""Who may connect to the grid of a Flower run; needs no Flower."""

from __future__ import annotations

import json
import stat
import sys
from hashlib import sha256
from pathlib import Path

import numpy as np
import pytest

import streamlink.integrations.flower
from streamlink import LinkConfig, SecurityConfig
from streamlink.errors import AuthenticationFailed, SecurityError
from streamlink.integrations.flower.identity import Admission, dialled, with_security
from streamlink.objects import ObjectClient, ObjectServer


def hashes(admission: Admission) -> dict[str, str]:
    path = admission.config.security.tokens
    assert path is not None
    found: dict[str, str] = json.loads(path.read_text())
    return found


def test_the_package_imports_nothing_of_flower() -> None:
    assert "StreamlinkGrid" in streamlink.integrations.flower.__all__
    assert "flwr" not in sys.modules


def test_a_name_counts_from_the_next_publish_until_it_is_dismissed(tmp_path: Path) -> None:
    admission = Admission(tmp_path, LinkConfig())
    name, token = admission.admit(7)
    assert name not in hashes(admission)
    admission.publish()
    assert hashes(admission)[name] == sha256(token.encode()).hexdigest()
    admission.dismiss(name)
    admission.publish()
    assert name not in hashes(admission)


def test_names_of_one_node_differ(tmp_path: Path) -> None:
    admission = Admission(tmp_path, LinkConfig())
    assert admission.admit(7) != admission.admit(7)


def test_the_tokens_hashes_are_for_this_user_only(tmp_path: Path) -> None:
    admission = Admission(tmp_path, LinkConfig())
    assert admission.config.security.tokens is not None
    assert stat.S_IMODE(admission.config.security.tokens.stat().st_mode) == 0o600


def test_settings_that_name_the_clients_are_refused(tmp_path: Path) -> None:
    security = SecurityConfig(ca=tmp_path / "ca.pem")
    with pytest.raises(ValueError, match="a name and a token of its own"):
        Admission(tmp_path, LinkConfig(security=security))


def test_only_the_token_of_a_message_opens_the_server(tmp_path: Path) -> None:
    admission = Admission(tmp_path, LinkConfig())
    name, token = admission.admit(7)
    admission.publish()
    right, wrong = tmp_path / "right", tmp_path / "wrong"
    right.write_text(token)
    wrong.write_text("x" * len(token))
    with ObjectServer("127.0.0.1:0", config=admission.config) as server:
        reference = server.put({"w": np.ones(3, np.float32)})
        into = {"w": np.zeros(3, np.float32)}
        config = with_security(LinkConfig(), token=right)
        with ObjectClient(server.address, name=name, config=config) as client:
            client.get(reference, into)
        config = with_security(LinkConfig(), token=wrong)
        with pytest.raises(AuthenticationFailed):
            ObjectClient(server.address, name=name, config=config).start()
    assert into["w"].tolist() == [1, 1, 1]


@pytest.mark.parametrize(
    ("server", "address"),
    [
        ("fl.example.org", "fl.example.org:8443"),
        ("fl.example.org:8000-9000", "fl.example.org:8443"),
        ("[::1]:8000-9000", "[::1]:8443"),
        ("gate:99", "gate:99"),
    ],
)
def test_a_node_dials_what_is_configured_there(server: str, address: str) -> None:
    assert dialled(server, 8443) == address


def test_a_node_dials_no_port_beyond_its_range() -> None:
    with pytest.raises(SecurityError, match="may dial gate:1-2 only"):
        dialled("gate:1-2", 8443)

"""Who may connect to the grid of a Flower run; needs no Flower."""

from __future__ import annotations

import json
import sys
from hashlib import sha256
from pathlib import Path

import numpy as np
import pytest

import streamlink.integrations.flower
from streamlink import LinkConfig, SecurityConfig
from streamlink.errors import AuthenticationFailed
from streamlink.integrations.flower.identity import Admission
from streamlink.integrations.tokens import SecretFile, with_security
from streamlink.objects import ObjectClient, ObjectServer
from tests.support.code_lines import lines_of_code


def hashes(admission: Admission) -> dict[str, list[str]]:
    found: dict[str, list[str]] = json.loads(admission.path.read_text())
    return found


def test_the_package_imports_nothing_of_flower() -> None:
    assert "StreamlinkGrid" in streamlink.integrations.flower.__all__
    assert "flwr" not in sys.modules


def test_the_integration_is_short() -> None:
    """Lines of code: without those that are empty, comments or docstrings."""
    package = Path(streamlink.integrations.flower.__file__).parent
    assert sum(lines_of_code(path) for path in package.glob("*.py")) <= 400


def test_a_name_counts_from_the_next_publish_until_it_is_dismissed() -> None:
    admission = Admission(LinkConfig())
    name, token = admission.entry(7, {})
    assert name not in hashes(admission)
    admission.publish()
    assert hashes(admission)[name] == [sha256(token.encode()).hexdigest()]
    admission.dismiss(name, token)
    admission.publish()
    assert name not in hashes(admission)


def test_names_of_one_node_differ() -> None:
    admission = Admission(LinkConfig())
    assert admission.entry(7, {}) != admission.entry(7, {})


def test_a_node_with_a_certificate_connects_by_the_name_it_is_registered_with() -> None:
    admission = Admission(LinkConfig(security=SecurityConfig(ca=Path("ca.pem"))))
    assert admission.entry(7, {7: "hospital-a"})[0] == "hospital-a"
    assert admission.entry(8, {})[0] == "8"


def test_settings_that_have_tokens_already_are_refused(tmp_path: Path) -> None:
    security = SecurityConfig(tokens=tmp_path / "tokens.yaml")
    with pytest.raises(ValueError, match="each message brings a token of its own"):
        Admission(LinkConfig(security=security))


def test_only_the_token_of_a_message_opens_the_server() -> None:
    admission = Admission(LinkConfig())
    name, token = admission.entry(7, {})
    admission.publish()
    right, wrong = SecretFile(token), SecretFile("x" * len(token))
    with ObjectServer("127.0.0.1:0", config=admission.config) as server:
        reference = server.put({"w": np.ones(3, np.float32)})
        into = {"w": np.zeros(3, np.float32)}
        config = with_security(LinkConfig(), token=right.path)
        with ObjectClient(server.address, name=name, config=config) as client:
            client.get(reference, into)
        config = with_security(LinkConfig(), token=wrong.path)
        with pytest.raises(AuthenticationFailed):
            ObjectClient(server.address, name=name, config=config).start()
    assert into["w"].tolist() == [1, 1, 1]

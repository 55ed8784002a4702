"""Each carrier that is registered is held to the contract of its kind."""

from __future__ import annotations

from pathlib import Path

import pytest

from streamlink.transport.carrier_modules import CONTROL_CARRIERS, DATA_CARRIERS, data_module

ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize("name", CONTROL_CARRIERS)
def test_every_carrier_of_sessions_has_a_contract_test(name: str) -> None:
    text = contract_test(CONTROL_CARRIERS[name])
    assert "(ControlCarrierContract, DataCarrierContract)" in text


@pytest.mark.parametrize("name", DATA_CARRIERS)
def test_every_carrier_of_streams_alone_has_a_contract_test(name: str) -> None:
    text = contract_test(DATA_CARRIERS[name])
    assert "(DataCarrierContract)" in text
    assert "Line.offering(" in text, "without it streams may fall back unseen"
    assert f'"{name}://' in text


def contract_test(module: str) -> str:
    """Return the text of the module's test, which has the same place below ``tests``."""
    _, *folders, last = module.split(".")
    return ROOT.joinpath(*folders, f"test_{last}.py").read_text("utf-8")


def test_a_carrier_that_a_newer_server_offers_is_no_error() -> None:
    assert data_module("of tomorrow") is None

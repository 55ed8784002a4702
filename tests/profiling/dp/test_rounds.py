"""Clients that train privately in rounds."""

from importlib.util import find_spec

import pytest

from streamlink.profiling.dp.experiment import Mode
from streamlink.profiling.dp.rounds import Rounds, run_rounds

pytestmark = [
    pytest.mark.skipif(find_spec("opacus") is None, reason="needs streamlink-fl[dp]"),
    pytest.mark.timeout(600),
    pytest.mark.processes,
]


def states_what_it_did(mode: Mode, found: Rounds) -> None:
    """Check what each client has told of each round, and that there is no more."""
    for facts in found.facts:
        for each in facts.values():
            assert each["dp.mode"] == mode.value
            assert ("dp.sigma" in each) is mode.is_private
            assert ("dp.max_grad_norm" in each) is mode.is_private
    # No loss where training is private: epsilon does not cover it.
    for metrics in found.metrics:
        assert [set(each) for each in metrics.values()] == 2 * [
            {"epsilon"} if mode.is_private else {"loss"}
        ]
    assert len(found.clients) == 2
    for client in found.clients.values():
        assert client["peak_bytes"] > client["base_bytes"]


# One run for each mode, since two clients take half a minute to start.


def test_without_privacy_a_client_states_its_loss_and_no_noise() -> None:
    states_what_it_did(Mode.NO_DP, run_rounds(Mode.NO_DP))


def test_a_client_states_noise_and_bound_and_its_epsilon_grows_over_the_rounds() -> None:
    found = run_rounds(Mode.GHOST)
    states_what_it_did(Mode.GHOST, found)
    first, second = found.metrics
    assert first.keys() == second.keys() == {"site-1", "site-2"}
    for name, spent in first.items():
        assert 0 < spent["epsilon"] < second[name]["epsilon"]


def test_with_flash_clipping_a_client_states_the_same_and_its_peak_is_as_computed() -> None:
    found = run_rounds(Mode.FLASH, seq_length=256)
    states_what_it_did(Mode.FLASH, found)
    for client in found.clients.values():
        held, computed = (
            client["peak_bytes"] - client["base_bytes"],
            sum(client["computed"].values()),
        )
        assert computed / 2 < held <= computed

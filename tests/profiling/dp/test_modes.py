"""One private step of all ranks against the explicit gradients of each sample."""

from importlib.util import find_spec
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.support.private_training import batches, explicit_step, trained

pytestmark = [
    pytest.mark.skipif(find_spec("opacus") is None, reason="needs streamlink-fl[dp]"),
    pytest.mark.timeout(600),
]

LENGTH, SAMPLES = 24, 2
PRIVATE = ("ghost_fsdp", "flash_fsdp")
SOME_CLIPPED = 13.0  # the norms here are 11 to 14, about
BOUNDS = {1: SOME_CLIPPED, 2: 0.7}
"""Of the gradients, by the number of ranks."""


def difference(ours: dict[str, Tensor], theirs: dict[str, Tensor]) -> float:
    """Return the largest difference of a tensor, relative to the tensor's norm."""
    assert ours.keys() == theirs.keys()
    return max(
        float((ours[name] - each).norm() / each.norm().clamp(min=1e-12))
        for name, each in theirs.items()
    )


@pytest.fixture(scope="module")
def steps(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Tensor]]:
    """Take all steps of this module in two processes: to start one costs seconds."""
    named: dict[str, dict[str, Any]] = {
        f"{mode} {world}": {"mode": mode, "bound": bound, "ranks": [*range(world)]}
        for world, bound in BOUNDS.items()
        for mode in PRIVATE
    }
    noisy = {"mode": "flash_fsdp", "sigma": 1.0}
    named["first"] = {**noisy, "seed": 1, "ranks": [0]}
    named["again"] = {**noisy, "seed": 1, "ranks": [1]}
    named["other"] = {**noisy, "seed": 2, "ranks": [1]}
    found = trained(tmp_path_factory.mktemp("steps"), *named.values(), world=2)
    return dict(zip(named, found, strict=True))


@pytest.mark.processes
@pytest.mark.parametrize("world", BOUNDS)
def test_both_modes_clip_and_sum_as_explicit_gradients_do(
    steps: dict[str, dict[str, Tensor]], world: int
) -> None:
    expected = explicit_step(LENGTH, batches(world, SAMPLES, LENGTH), BOUNDS[world])
    for mode in PRIVATE:
        assert difference(steps[f"{mode} {world}"], expected) < 1e-5, mode


@pytest.mark.processes
def test_the_same_seed_gives_the_same_bits_and_another_one_does_not(
    steps: dict[str, dict[str, Tensor]],
) -> None:
    first, again, other = (steps[name] for name in ("first", "again", "other"))
    assert all(torch.equal(first[name], again[name]) for name in first)
    assert not any(torch.equal(first[name], other[name]) for name in first)


@pytest.mark.slow
def test_tied_weights_are_refused_with_the_names_of_both_layers() -> None:
    from streamlink.profiling.dp.experiment import ExperimentError
    from streamlink.profiling.dp.modes import refuse_tied

    model = torch.nn.ModuleDict({"embed": torch.nn.Embedding(5, 3), "head": torch.nn.Linear(3, 5)})
    refuse_tied(model)
    model["head"].weight = model["embed"].weight
    with pytest.raises(ExperimentError, match=r"embed\.weight and head\.weight are one weight"):
        refuse_tied(model)

"""One private step of all ranks against the explicit gradients of each sample."""

from importlib.util import find_spec
from pathlib import Path

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


def difference(ours: dict[str, Tensor], theirs: dict[str, Tensor]) -> float:
    """Return the largest difference of a tensor, relative to the tensor's norm."""
    assert ours.keys() == theirs.keys()
    return max(
        float((ours[name] - each).norm() / each.norm().clamp(min=1e-12))
        for name, each in theirs.items()
    )


@pytest.mark.processes
@pytest.mark.parametrize(("world", "bound"), [(1, SOME_CLIPPED), (2, 0.7)])
def test_both_modes_clip_and_sum_as_explicit_gradients_do(
    tmp_path: Path, world: int, bound: float
) -> None:
    expected = explicit_step(LENGTH, batches(world, SAMPLES, LENGTH), bound)
    steps = [{"mode": mode, "bound": bound} for mode in PRIVATE]
    for mode, found in zip(PRIVATE, trained(tmp_path, *steps, world=world), strict=True):
        assert difference(found, expected) < 1e-5, mode


@pytest.mark.processes
def test_the_same_seed_gives_the_same_bits_and_another_one_does_not(tmp_path: Path) -> None:
    step = {"mode": "flash_fsdp", "sigma": 1.0}
    (first,) = trained(tmp_path / "first", {**step, "seed": 1})
    again, other = trained(tmp_path / "again", {**step, "seed": 1}, {**step, "seed": 2})
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

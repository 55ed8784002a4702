"""The noise is as large as it was asked to be."""

from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import torch

pytestmark = [
    pytest.mark.skipif(find_spec("opacus") is None, reason="needs streamlink-fl[dp]"),
    pytest.mark.slow,
    pytest.mark.timeout(600),
]
SIGMA, BOUND, SAMPLES, REPEATS = 1.3, 0.7, 2, 200


@pytest.mark.parametrize("mode", ["ghost_fsdp", "flash_fsdp"])
def test_sigma_estimated_from_200_repeats_is_what_was_asked(mode: str, tmp_path: Path) -> None:
    """The gradients are the same in each repeat, so what varies is the noise."""
    import torch.distributed as dist

    from streamlink.profiling.dp.experiment import Mode
    from streamlink.profiling.dp.modes import Privacy, trainer
    from tests.support.private_training import batches, initial

    torch.set_num_threads(1)
    small: Any = initial(8)
    small.model.layers = small.model.layers[:1]  # what a step costs is FSDP's work for each layer
    dist.init_process_group("gloo", f"file://{tmp_path / 'ranks'}", rank=0, world_size=1)
    try:
        made = trainer(
            Mode(mode),
            small,
            SAMPLES,
            learning_rate=1e-30,  # the weights stay
            privacy=Privacy(SIGMA, BOUND, seed=11),
            dtype=torch.float32,
        )
        (batch,) = batches(1, SAMPLES, 8)
        seen = []
        for _ in range(REPEATS):
            made.step(batch)
            (weight,) = [p for n, p in made.model.named_parameters() if "score" in n]
            assert weight.grad is not None
            seen.append(weight.grad.to_local().flatten() * SAMPLES)
    finally:
        dist.destroy_process_group()
    estimated = float(torch.stack(seen).std(dim=0).square().mean().sqrt())
    assert estimated == pytest.approx(SIGMA * BOUND, rel=0.05)

"""``flash_fsdp``: ghost clipping under FSDP2 whose norms are computed in tiles.

A clipping module of Opacus' own kind: the same hooks, the same two passes backwards, other norms.
Each rank holds whole samples, so a norm is complete where it was computed and never reduced.
"""

from __future__ import annotations

from typing import Any, ClassVar

from opacus.grad_sample.grad_sample_module_fast_gradient_clipping_fsdp import (
    GradSampleModuleFastGradientClippingFSDP,
)
from torch import Tensor, nn
from transformers.models.llama.modeling_llama import LlamaRMSNorm

from streamlink.profiling.dp.norms import (
    NormSampler,
    embedding_norms,
    linear_norms,
    rms_norm_norms,
)

__all__ = ["FlashClipping"]


class FlashClipping(GradSampleModuleFastGradientClippingFSDP):
    """Computes norms in tiles where it knows the layer, and as Opacus does where it does not."""

    TILED: ClassVar[dict[type[nn.Module], NormSampler]] = {
        nn.Linear: linear_norms,
        nn.Embedding: embedding_norms,
        LlamaRMSNorm: rms_norm_norms,
    }

    def capture_backprops_hook(
        self,
        module: nn.Module,
        _forward_input: Any,
        forward_output: Any,
        loss_reduction: str,
        batch_first: bool,
    ) -> None:
        """Compute the norms of one layer; called by autograd when its gradient is known."""
        sampler = self.TILED.get(self._get_module_type(module)) if batch_first else None
        if sampler is None or not self.hooks_enabled:
            super().capture_backprops_hook(
                module, _forward_input, forward_output, loss_reduction, batch_first
            )
            return
        module._forward_counter -= 1
        inputs: Tensor = module.activations.pop()[0]
        norms = sampler(module, inputs, forward_output[0].detach())
        # The mean loss divides each gradient by the number of samples. The norms are multiplied,
        # not the gradient of the layer's output: that would be a second copy of it.
        scale = len(inputs) if loss_reduction == "mean" else 1
        module.norm_sample = [norm * scale for norm in norms]

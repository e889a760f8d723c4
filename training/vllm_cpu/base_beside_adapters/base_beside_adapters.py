"""Keeps calls without an adapter free of others' adapters, in vLLM 0.31 on the CPU.

A batch holds a slot number for each token, and -1 for tokens without an adapter. The GPU's kernels skip those; the
CPU's plain torch code takes -1 as an index, which is the last slot: a call of the base model that shares a batch with
calls of adapters is computed with whichever adapter lies there (vllm-project/vllm#48421). Every adapter first shrinks
its input to its rank; here the shrunk rows of such tokens become zero, so that nothing is added to the base model's
output.
"""

from collections.abc import Callable
from typing import Any


def register() -> None:
    """Wrap the function that vLLM's CPU code shrinks inputs with. vLLM calls this in each of its processes."""
    from vllm.lora.ops import torch_ops
    from vllm.lora.ops.torch_ops import lora_ops
    from vllm.lora.punica_wrapper import punica_cpu

    wrapped = _without_missing(lora_ops.bgmv_shrink)
    for module in (lora_ops, torch_ops, punica_cpu):
        module.bgmv_shrink = wrapped


def _without_missing(shrink: Callable[..., None]) -> Callable[..., None]:
    def bgmv_shrink(inputs: Any, weights: Any, output: Any, slots: Any, scaling: float = 1.0) -> None:
        shrink(inputs, weights, output, slots, scaling)
        output.masked_fill_((slots < 0).unsqueeze(1), 0)

    return bgmv_shrink

"""How long do operations that are written as kernels run on a CPU, beside the reference's functions for the same?

`ragged_dot` is by kernels here; attention is `flash_attention` here, and `nn.dot_product_attention` in the reference, which has the matrix of
logits in memory.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import numpy as np
from versus import Target, compare, per_call

RAGGED, ATTENTION, BACK = (
    "ragged_dot, 4,096 rows, 256 x 256, 32 groups",
    "causal attention, 4 heads, 2,048 x 64",
    "its gradient",
)
TARGETS = {RAGGED: Target(0.2, "ms"), ATTENTION: Target(0.5, "ms"), BACK: Target(0.7, "ms")}


def attention(library: Any) -> Callable[[Any], Any]:
    """Attention of [batch, length, heads, size] to itself."""
    if library.__name__ == "jax":
        return lambda x: library.nn.dot_product_attention(x, x, x, is_causal=True)
    flash = importlib.import_module("pellucid.experimental.pallas.ops.tpu.flash_attention")

    def attend(x: Any) -> Any:
        x = library.numpy.swapaxes(x, 1, 2)
        result = flash.flash_attention(x, x, x, causal=True, sm_scale=x.shape[-1] ** -0.5)
        return library.numpy.swapaxes(result, 1, 2)

    return attend


def measurements(library: Any) -> dict[str, Callable[[], float]]:
    """Seconds of one jitted call of each."""
    rng, jnp = np.random.default_rng(0), library.numpy
    rows, matrices = [
        jnp.asarray(rng.standard_normal(s, np.float32)) for s in ((4096, 256), (32, 256, 256))
    ]
    sizes = np.full(32, 128, np.int32)
    sizes[:2] += np.array([-5, 5], np.int32)
    x, attend = jnp.asarray(rng.standard_normal((1, 2048, 4, 64), np.float32)), attention(library)

    def seconds(function: Callable[..., Any], *operands: Any) -> Callable[[], float]:
        jitted = library.jit(function)
        return lambda: per_call(lambda: library.block_until_ready(jitted(*operands)))

    return {
        RAGGED: seconds(library.lax.ragged_dot, rows, matrices, jnp.asarray(sizes)),
        ATTENTION: seconds(attend, x),
        BACK: seconds(library.grad(lambda x: (attend(x) ** 2).sum()), x),
    }


if __name__ == "__main__":
    compare(__file__, TARGETS)

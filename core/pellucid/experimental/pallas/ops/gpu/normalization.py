"""What layer_norm and rms_norm have in common: rows of numbers, scaled by a weight and moved by a bias for each place.

With z the normalized row, y = z w + b. From cotangents g of y come those of w, the sum over rows of g z, and of b, the sum over rows of g.
These sums run over blocks of rows in a kernel, and over the blocks outside.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import pellucid.numpy as jnp
from pellucid._machine.base import ArgumentValueError, ShapeError
from pellucid._machine.ir import shaped_array
from pellucid._machine.tracing import type_of
from pellucid.experimental.pallas.ops.online_softmax import wide
from pellucid.kernels.grid import program_id
from pellucid.kernels.inside import cdiv, next_power_of_2
from pellucid.kernels.kernel_call import pallas_call
from pellucid.kernels.specs import BlockSpec
from pellucid.kernels.triton.language import CompilerParams

from .rows import inside

_ROWS, _COLUMNS = 32, 128
"""The largest block of cotangents that one program adds up."""


def check_operands(caller: str, x: Any, weight: Any, bias: Any) -> None:
    """Raise ShapeError unless weight and bias have one element for each place of the last axis of `x`."""
    size = x.shape[-1:]
    if not size or weight.shape != size or bias.shape != size:
        raise ShapeError(
            f"{caller} needs a weight and a bias for each place of the last axis.",
            got=[
                f"{name}: {type_of(a).text()}"
                for name, a in (("x", x), ("weight", weight), ("bias", bias))
            ],
        )


def check_backward(caller: str, implementation: str) -> None:
    """Raise ArgumentValueError for an implementation of the derivative that isn't known."""
    if implementation not in ("triton", "xla"):
        raise ArgumentValueError(
            f'{caller}: `backward_pass_impl` must be "triton", a kernel, or "xla", the derivative of the formula.',
            got=f"got {implementation!r}",
        )


def sums_over_rows(rows: Any, cotangents: Any, statistics: Any, normalized: Any) -> tuple[Any, Any]:
    """The cotangents of weight and bias, from those of the result.

    `statistics` are numbers for each row, in columns; `normalized` gives z from a block of rows and theirs.
    """
    count, size = rows.shape
    block = (min(_ROWS, next_power_of_2(count)), min(_COLUMNS, next_power_of_2(size)))
    n_blocks = cdiv(count, block[0])
    dtype = wide(rows.dtype)

    def kernel(x_ref: Any, g_ref: Any, *refs: Any) -> None:
        *statistics_refs, dw_ref, db_ref = refs
        places = program_id(0) * block[0] + jnp.arange(block[0], dtype=np.int32)
        # Rows behind the last one are undefined.
        is_row = jnp.broadcast_to((places < count)[:, None], block)
        g = jnp.where(is_row, g_ref[...].astype(dtype), 0)
        z = normalized(x_ref[...].astype(dtype), *[ref[...] for ref in statistics_refs])
        dw_ref[...] = (g * jnp.where(is_row, z, 0)).sum(axis=0)
        db_ref[...] = g.sum(axis=0)

    tile = BlockSpec(block, lambda i, j: (i, j))
    partial_sums = BlockSpec((None, block[1]), lambda i, j: (i, j))
    sums = pallas_call(
        kernel,
        [shaped_array((n_blocks, size), dtype)] * 2,
        grid=(n_blocks, cdiv(size, block[1])),
        in_specs=[tile, tile, *[BlockSpec((block[0], 1), lambda i, j: (i, 0))] * len(statistics)],
        out_specs=[partial_sums] * 2,
        compiler_params=CompilerParams(num_warps=4),
        name="sums_over_rows",
    )(rows, cotangents, *statistics)
    dw, db = [x.sum(axis=0) for x in sums]
    return dw, db


def moments(x: Any, size: int) -> tuple[Any, Any]:
    """(mean, mean square around it) of a row with zeros behind `size`."""
    mean = x.sum() / size
    centred = inside(x - mean, size, 0)
    return mean, (centred * centred).sum() / size

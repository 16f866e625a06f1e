"""Softmax along an axis, one row for a program."""

from __future__ import annotations

import functools
from typing import Any

import pellucid.numpy as jnp
from pellucid._machine.higher_order.custom_jvp import custom_jvp
from pellucid._machine.higher_order.jitted import jit
from pellucid.experimental.pallas.ops.online_softmax import wide
from pellucid.kernels.kernel_call import pallas_call
from pellucid.kernels.triton.language import CompilerParams

from .rows import as_rows, inside, row


@functools.partial(jit, static_argnames=("axis", "num_warps", "interpret", "debug"))
def softmax(
    x: Any, *, axis: int = -1, num_warps: int = 4, interpret: bool = False, debug: bool = False
) -> Any:
    """`exp(x_i - m) / sum_j exp(x_j - m)` along `axis`, with m the largest element: a row is read once and written once.

    The result has the shape and dtype of `x`; exponentials are in float32 or wider. `num_warps` is for GPUs; `interpret` and `debug`
    change nothing. Raises: AxisError for an axis that `x` lacks.

    >>> softmax(jnp.log(jnp.array([1.0, 1.0, 2.0]))).round(3)
    Array([0.25, 0.25, 0.5 ], dtype=float32)
    >>> softmax(jnp.ones((2, 3)), axis=0)[0]
    Array([0.5, 0.5, 0.5], dtype=float32)
    """
    x = jnp.moveaxis(jnp.asarray(x), axis, -1)
    rows = as_rows(x)
    result = _softmax(rows, num_warps) if rows.size else rows
    return jnp.moveaxis(result.reshape(x.shape), -1, axis)


def _forward(rows: Any, num_warps: int) -> Any:
    count, size = rows.shape

    def kernel(x_ref: Any, o_ref: Any) -> None:
        x = inside(x_ref[...].astype(wide(x_ref.dtype)), size, -jnp.inf)
        exponentials = jnp.exp(x - x.max())
        o_ref[...] = (exponentials / exponentials.sum()).astype(o_ref.dtype)

    return pallas_call(
        kernel,
        rows,
        grid=count,
        in_specs=[row(size)],
        out_specs=row(size),
        compiler_params=CompilerParams(num_warps=num_warps),
        name="softmax",
    )(rows)


_softmax = custom_jvp(_forward, nondiff_argnums=(1,))


@_softmax.defjvp
def _derivative(num_warps: int, primals: Any, tangents: Any) -> tuple[Any, Any]:
    """The tangent of y is `y (dx - sum_j y_j dx_j)`."""
    (rows,), (tangent,) = primals, tangents
    y = _softmax(rows, num_warps)
    return y, y * (tangent - (y * tangent).sum(axis=-1, keepdims=True))


__all__ = ["softmax"]

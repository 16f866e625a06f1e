"""Normalization by the root mean square (Zhang and Sennrich, 2019), one row for a program, with a kernel for its derivative."""

from __future__ import annotations

import functools
from typing import Any

import pellucid.numpy as jnp
from pellucid._machine.higher_order.custom_vjp import custom_vjp
from pellucid._machine.higher_order.jitted import jit
from pellucid._machine.ir import shaped_array
from pellucid._machine.transforms.gradient import vjp
from pellucid.experimental.pallas.ops.online_softmax import wide
from pellucid.experimental.pallas.ops.sizes import vary_alike
from pellucid.kernels.kernel_call import pallas_call
from pellucid.kernels.triton.language import CompilerParams

from .normalization import check_backward, check_operands, sums_over_rows
from .rows import as_rows, element, inside, row, vector


@functools.partial(
    jit, static_argnames=("num_warps", "num_stages", "eps", "backward_pass_impl", "interpret")
)
def rms_norm(
    x: Any,
    weight: Any,
    bias: Any,
    num_warps: int | None = None,
    num_stages: int = 3,
    eps: float = 1e-5,
    backward_pass_impl: str = "triton",
    interpret: bool = False,
) -> Any:
    """`x / sqrt(mean(x^2) + eps) * weight + bias` over the last axis, in float32 or wider; result like `x`.

    `weight` and `bias` have one element for each place of the last axis. `backward_pass_impl`: "triton", a kernel, or "xla", the
    derivative of the formula. `num_warps` and `num_stages` are for GPUs; `interpret` changes nothing.

    Raises: ShapeError for operands that don't fit.

    >>> rms_norm(jnp.array([[3.0, 3.0], [-2.0, 2.0]]), jnp.ones(2), jnp.zeros(2)).round(3)
    Array([[ 1.,  1.],
           [-1.,  1.]], dtype=float32)
    """
    x, weight, bias = map(jnp.asarray, (x, weight, bias))
    check_operands("rms_norm", x, weight, bias)
    check_backward("rms_norm", backward_pass_impl)
    if not x.size:
        return x
    operands = vary_alike(x, weight, bias)
    return _rms_norm(num_warps, num_stages, eps, backward_pass_impl, interpret, *operands)


def rms_norm_forward(
    x: Any,
    weight: Any,
    bias: Any,
    num_warps: int | None = None,
    num_stages: int = 3,
    eps: float = 1e-5,
    backward_pass_impl: str = "triton",
    interpret: bool = False,
) -> tuple[Any, tuple[Any, ...]]:
    """(result, what `rms_norm_backward` needs): x, weight, bias, and for each row 1 / sqrt(mean(x^2) + eps).

    >>> y, (x, weight, bias, rstd) = rms_norm_forward(jnp.array([[1.0, 7.0]]), jnp.ones(2), jnp.zeros(2))
    >>> rstd.round(3)
    Array([0.2], dtype=float32)
    """
    rows = as_rows(x)
    (count, size), dtype = rows.shape, wide(rows.dtype)

    def kernel(x_ref: Any, weight_ref: Any, bias_ref: Any, o_ref: Any, rstd_ref: Any) -> None:
        x = inside(x_ref[...].astype(dtype), size, 0)
        rstd = 1 / jnp.sqrt((x * x).sum() / size + eps)
        scale, offset = weight_ref[...].astype(dtype), bias_ref[...].astype(dtype)
        o_ref[...] = (x * rstd * scale + offset).astype(o_ref.dtype)
        rstd_ref[...] = jnp.broadcast_to(rstd, rstd_ref.shape)

    result, rstd = pallas_call(
        kernel,
        [shaped_array(rows.shape, rows.dtype), shaped_array((count, 1), dtype)],
        grid=count,
        in_specs=[row(size), vector(size), vector(size)],
        out_specs=[row(size), element()],
        compiler_params=CompilerParams(num_warps, num_stages),
        name="rms_norm",
    )(rows, weight, bias)
    return result.reshape(x.shape), (x, weight, bias, rstd.reshape(x.shape[:-1]))


def rms_norm_backward(
    num_warps: int | None,
    num_stages: int,
    eps: float,
    backward_pass_impl: str,
    interpret: bool,
    res: tuple[Any, ...],
    do: Any,
) -> tuple[Any, Any, Any]:
    """Cotangents of x, weight and bias, from those of the result, `do`, and what `rms_norm_forward` kept.

    With z the normalized row, h = do weight, and r = 1 / sqrt(mean(x^2) + eps): `dx = r (h - z mean(h z))`.

    >>> x = jnp.array([[2.0, 2.0, 2.0]])
    >>> y, kept = rms_norm_forward(x, jnp.ones(3), jnp.zeros(3))
    >>> dx, dweight, dbias = rms_norm_backward(None, 3, 1e-5, "triton", False, kept, jnp.ones((1, 3)))
    >>> dx.round(3) + 0, dbias
    (Array([[0., 0., 0.]], dtype=float32), Array([1., 1., 1.], dtype=float32))
    """
    x, weight, bias, rstd = res
    if backward_pass_impl == "xla":
        return vjp(functools.partial(rms_norm_reference, eps=eps), x, weight, bias)[1](do)
    rows, cotangents = as_rows(x), as_rows(do)
    (count, size), dtype = rows.shape, wide(rows.dtype)
    rstd = rstd.reshape((count, 1))

    def kernel(x_ref: Any, weight_ref: Any, g_ref: Any, rstd_ref: Any, dx_ref: Any) -> None:
        rstd = rstd_ref[...]
        z = inside(x_ref[...].astype(dtype) * rstd, size, 0)
        h = inside(g_ref[...].astype(dtype) * weight_ref[...].astype(dtype), size, 0)
        dx = rstd * (h - z * (h * z).sum() / size)
        dx_ref[...] = dx.astype(dx_ref.dtype)

    dx = pallas_call(
        kernel,
        shaped_array(rows.shape, rows.dtype),
        grid=count,
        in_specs=[row(size), vector(size), row(size), element()],
        out_specs=row(size),
        compiler_params=CompilerParams(num_warps, num_stages),
        name="rms_norm_backward",
    )(rows, weight, cotangents, rstd)
    dweight, dbias = sums_over_rows(rows, cotangents, [rstd], lambda x, rstd: x * rstd)
    return dx.reshape(x.shape), dweight.astype(weight.dtype), dbias.astype(bias.dtype)


def _forward(
    num_warps: Any, num_stages: Any, eps: Any, backward: Any, interpret: Any, *operands: Any
) -> Any:
    x, weight, bias = operands
    return rms_norm_forward(x, weight, bias, num_warps, num_stages, eps, backward, interpret)


def _result(*settings_and_operands: Any) -> Any:
    return _forward(*settings_and_operands)[0]


_rms_norm = custom_vjp(_result, nondiff_argnums=(0, 1, 2, 3, 4))
_rms_norm.defvjp(_forward, rms_norm_backward)


def rms_norm_reference(x: Any, weight: Any, bias: Any, *, eps: float = 1e-5) -> Any:
    """The plain form of `rms_norm`.

    >>> rms_norm_reference(jnp.array([-2.0, 2.0]), jnp.ones(2), jnp.zeros(2)).round(3)
    Array([-1.,  1.], dtype=float32)
    """
    x = jnp.asarray(x)
    values = x.astype(wide(x.dtype))
    square = (values * values).mean(axis=-1, keepdims=True)
    return (values / jnp.sqrt(square + eps) * weight + bias).astype(x.dtype)


__all__ = ["rms_norm", "rms_norm_backward", "rms_norm_forward", "rms_norm_reference"]

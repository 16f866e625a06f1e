"""Activation functions, element by element."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from pellucid import numpy as jnp
from pellucid._machine.base import (
    ArgumentValueError,
    ArrayLike,
    DTypeLike,
    dtypes,
    library_code,
    public_functions,
)
from pellucid._machine.higher_order.custom_jvp import custom_jvp
from pellucid._machine.primitives.creation import checked_shape
from pellucid._machine.primitives.error_functions import erfc
from pellucid._machine.primitives.movement import canonical_axis
from pellucid._machine.primitives.transcendental import logistic
from pellucid._machine.tracing import type_of
from pellucid._machine.tracing.tracer import concrete_or_error
from pellucid._machine.xla.arrays import Array
from pellucid.numpy.compiled import numpy_function
from pellucid.numpy.promotion import aval_of, promote_dtypes_inexact

_SELU_ALPHA = 1.6732632423543772848170429916717
_SELU_SCALE = 1.0507009873554804934193349852946


def identity(x: ArrayLike) -> Array:
    """`x`.

    The result has the shape and dtype of `x`.
    Raises: ArgumentTypeError for lists and strings.

    >>> identity(jnp.array([1.0]))
    Array([1.], dtype=float32)
    """
    aval_of("nn.identity", x)
    return jnp.asarray(x)


def _zero_like(x: Array) -> Array:
    return jnp.zeros_like(x)


@custom_jvp
def _relu(x: Array) -> Array:
    return jnp.maximum(x, 0)


_relu.defjvps(library_code(lambda t, y, x: jnp.where(x > 0, t, _zero_like(t))))


@numpy_function
def relu(x: ArrayLike) -> Array:
    """`max(x, 0)`, with derivative 0 at 0.

    The result has the shape and dtype of `x`, int32 for bool.
    Raises: DtypeError for PRNG keys, ArgumentTypeError for lists and strings.

    >>> relu(jnp.array([-1.0, 2.0]))
    Array([0., 2.], dtype=float32)
    """
    aval_of("nn.relu", x)
    return _relu(x)


@custom_jvp
def _relu6(x: Array) -> Array:
    return jnp.minimum(jnp.maximum(x, 0), 6.0)


_relu6.defjvps(library_code(lambda t, y, x: jnp.where((x > 0) & (x < 6), t, _zero_like(t))))


@numpy_function
def relu6(x: ArrayLike) -> Array:
    """`min(max(x, 0), 6)`, with derivative 0 at 0 and 6.

    The result has the shape of `x`, and its dtype if that is floating-point or complex, else the default floating
    dtype.
    Raises: DtypeError for PRNG keys, ArgumentTypeError for lists and strings.

    >>> relu6(jnp.array([-1.0, 2.0, 7.0]))
    Array([0., 2., 6.], dtype=float32)
    """
    aval_of("nn.relu6", x)
    return _relu6(x)


@numpy_function
def softplus(x: ArrayLike) -> Array:
    """`log(1 + exp(x))`.

    The result has the shape of `x`, and its dtype if that is floating-point or complex, else the default floating
    dtype.
    Raises: DtypeError for PRNG keys, ArgumentTypeError for lists and strings.

    >>> softplus(jnp.array([0.0]))
    Array([0.6931472], dtype=float32)
    """
    return jnp.logaddexp(x, 0)


@numpy_function
def sparse_plus(x: Any) -> Array:
    """0 below -1, `x` above 1, and `(x + 1)² / 4` between.

    The result has the shape of `x`, and its dtype if that is floating-point or complex, else the default floating
    dtype.
    Raises: DtypeError for PRNG keys, ArgumentTypeError for lists and strings.

    >>> sparse_plus(jnp.array([-2.0, 0.0, 2.0]))
    Array([0.  , 0.25, 2.  ], dtype=float32)
    """
    aval_of("nn.sparse_plus", x)
    return jnp.where(x <= -1, 0.0, jnp.where(x >= 1, x, 0.25 * (x + 1) ** 2))


@numpy_function
def soft_sign(x: ArrayLike) -> Array:
    """`x / (|x| + 1)`.

    The result has the shape of `x`, and its dtype if that is floating-point or complex, else the default floating
    dtype.
    Raises: DtypeError for PRNG keys, ArgumentTypeError for lists and strings.

    >>> soft_sign(jnp.array([1.0]))
    Array([0.5], dtype=float32)
    """
    [x] = promote_dtypes_inexact("nn.soft_sign", x)
    return x / (jnp.abs(x) + 1)


@numpy_function
def sigmoid(x: ArrayLike) -> Array:
    """`1 / (1 + exp(-x))`.

    The result has the shape of `x`, and its dtype if that is floating-point or complex, else the default floating
    dtype.
    Raises: DtypeError for PRNG keys, ArgumentTypeError for lists and strings.

    >>> sigmoid(jnp.array([0.0]))
    Array([0.5], dtype=float32)
    """
    [x] = promote_dtypes_inexact("nn.sigmoid", x)
    return logistic(x)


@numpy_function
def sparse_sigmoid(x: ArrayLike) -> Array:
    """0 below -1, 1 above 1, and `(x + 1) / 2` between.

    The result has the shape of `x`, and its dtype if that is floating-point, else the default floating dtype.
    Raises: ArgumentValueError for complex numbers, DtypeError for PRNG keys, ArgumentTypeError for strings.

    >>> sparse_sigmoid(jnp.array([0.0]))
    Array([0.5], dtype=float32)
    """
    return 0.5 * jnp.clip(jnp.asarray(x) + 1.0, 0.0, 2.0)


@numpy_function
def silu(x: ArrayLike) -> Array:
    """`x * sigmoid(x)`, also called swish.

    The result has the shape of `x`, and its dtype if that is floating-point or complex, else the default floating
    dtype.
    Raises: DtypeError for PRNG keys, ArgumentTypeError for lists and strings.

    >>> silu(jnp.array([0.0]))
    Array([0.], dtype=float32)
    """
    [promoted] = promote_dtypes_inexact("nn.silu", x)
    return promoted * logistic(promoted)


swish = silu


@numpy_function
def mish(x: ArrayLike) -> Array:
    """`x * tanh(softplus(x))`.

    The result has the shape of `x`, and its dtype if that is floating-point or complex, else the default floating
    dtype.
    Raises: DtypeError for PRNG keys, ArgumentTypeError for lists and strings.

    >>> mish(jnp.array([0.0]))
    Array([0.], dtype=float32)
    """
    [value] = promote_dtypes_inexact("nn.mish", x)
    return value * jnp.tanh(softplus(value))


@numpy_function
def log_sigmoid(x: Any) -> Array:
    """`log(sigmoid(x))`, without underflow.

    The result has the shape of `x`, and its dtype if that is floating-point or complex, else the default floating
    dtype.
    Raises: DtypeError for PRNG keys, ArgumentTypeError for lists and strings.

    >>> log_sigmoid(jnp.array([0.0]))
    Array([-0.6931472], dtype=float32)
    """
    [x] = promote_dtypes_inexact("nn.log_sigmoid", x)
    return -softplus(-x)


@numpy_function
def elu(x: Any, alpha: ArrayLike = 1.0) -> Array:
    """`x` where it is positive, else `alpha * (exp(x) - 1)`.

    The result has the shape of `x`, and its dtype if that is floating-point or complex, else the default floating
    dtype. `alpha` is broadcast with `x`.
    Raises: DtypeError for PRNG keys, ShapeError for an `alpha` that does not fit, ArgumentTypeError for lists and
    strings. Source: Clevert, Unterthiner and Hochreiter, Fast and accurate deep network learning by exponential linear
    units, 2015.

    >>> elu(jnp.array([1.0, 0.0]))
    Array([1., 0.], dtype=float32)
    """
    aval_of("nn.elu", x)
    return jnp.where(x > 0, x, alpha * jnp.expm1(jnp.where(x > 0, 0.0, x)))


@numpy_function
def leaky_relu(x: Any, negative_slope: ArrayLike = 1e-2) -> Array:
    """`x` where it isn't negative, else `negative_slope * x`.

    The result has the shape of `x`, and its dtype if that is floating-point or complex, else the default floating
    dtype. `negative_slope` is broadcast with `x`.
    Raises: DtypeError for PRNG keys, ValueError for a slope that does not fit, ArgumentTypeError for lists and strings.

    >>> leaky_relu(jnp.array([1.0, -1.0]))
    Array([ 1.  , -0.01], dtype=float32)
    """
    aval_of("nn.leaky_relu", x)
    return jnp.where(x >= 0, x, negative_slope * x)


@numpy_function
def hard_tanh(x: Any) -> Array:
    """`x` cut to between -1 and 1.

    The result has the shape and dtype of `x`, int32 for bool.
    Raises: DtypeError for PRNG keys, ArgumentTypeError for lists and strings.

    >>> hard_tanh(jnp.array([-2.0, 0.5]))
    Array([-1. ,  0.5], dtype=float32)
    """
    aval_of("nn.hard_tanh", x)
    x = jnp.asarray(x)
    return jnp.where(x > 1, 1, jnp.where(x < -1, -1, x))


@numpy_function
def celu(x: ArrayLike, alpha: ArrayLike = 1.0) -> Array:
    """`max(x, 0) + alpha * (exp(min(x, 0) / alpha) - 1)`.

    The result has the shape of `x`, and its dtype if that is floating-point or complex, else the default floating
    dtype. `alpha` is broadcast with `x`.
    Raises: DtypeError for PRNG keys, ShapeError for an `alpha` that does not fit, ArgumentTypeError for lists and
    strings. Source: Barron, Continuously differentiable exponential linear units, 2017.

    >>> celu(jnp.array([1.0, 0.0]))
    Array([1., 0.], dtype=float32)
    """
    aval_of("nn.celu", x)
    return jnp.maximum(x, 0.0) + alpha * jnp.expm1(jnp.minimum(x, 0.0) / alpha)


@numpy_function
def selu(x: ArrayLike) -> Array:
    """`scale * elu(x, alpha)` with the constants that keep mean 0 and variance 1 (Klambauer et al., 2017).

    The result has the shape of `x`, and its dtype if that is floating-point or complex, else the default floating
    dtype.
    Raises: DtypeError for PRNG keys, ArgumentTypeError for lists and strings.

    >>> selu(jnp.array([0.0]))
    Array([0.], dtype=float32)
    """
    return _SELU_SCALE * elu(x, _SELU_ALPHA)


@numpy_function(static="approximate")
def gelu(x: Any, approximate: bool = True) -> Array:
    """`x` times the normal distribution's probability of at most `x`; with `approximate` by a tanh.

    The result has the shape of `x`, and its dtype if that is floating-point or complex, else the default floating
    dtype.
    Raises: DtypeError for PRNG keys, ArgumentTypeError for lists and strings.
    Source: Hendrycks and Gimpel, "Gaussian error linear units", 2016.

    >>> gelu(jnp.array([0.0]))
    Array([0.], dtype=float32)
    """
    [x] = promote_dtypes_inexact("nn.gelu", x)
    dtype = type_of(x).dtype
    if approximate:
        root = np.asarray(math.sqrt(2 / math.pi), dtype)[()]
        return x * (0.5 * (1.0 + jnp.tanh(root * (x + 0.044715 * x**3))))
    return jnp.asarray(0.5 * x * erfc(-x * np.asarray(math.sqrt(0.5), dtype)[()]), dtype=dtype)


def glu(x: ArrayLike, axis: int = -1) -> Array:
    """The first half of `x` along `axis` times the sigmoid of the second half.

    Raises: ArgumentValueError for an axis of odd size.

    The result has the shape of `x` but half its size along `axis`, and its dtype if that is floating-point or complex.
    Raises, too: AxisError for an axis out of bounds, DtypeError for PRNG keys, ArgumentTypeError for lists and strings.

    >>> glu(jnp.array([3.0, 0.0]))
    Array([1.5], dtype=float32)
    """
    aval = aval_of("nn.glu", x)
    axis = canonical_axis(axis, aval.ndim)
    if aval.shape[axis] % 2:
        raise ArgumentValueError("nn.glu needs an axis of even size.", got=f"got {aval.text()}")
    return _glu(x, axis)


@numpy_function(static="axis")
def _glu(x: ArrayLike, axis: int) -> Array:
    first, second = jnp.split(x, 2, axis)
    return first * sigmoid(second)


@numpy_function
def squareplus(x: ArrayLike, b: ArrayLike = 4) -> Array:
    """`(x + sqrt(x² + b)) / 2`.

    The result has the shape of `x`, and its dtype if that is floating-point or complex, else the default floating
    dtype. `b` is broadcast with `x`.
    Raises: DtypeError for PRNG keys, ValueError for a `b` that does not fit, ArgumentTypeError for lists and strings.

    >>> squareplus(jnp.array([0.0]))
    Array([1.], dtype=float32)
    """
    [value] = promote_dtypes_inexact("nn.squareplus", x)
    return 0.5 * (value + jnp.sqrt(value * value + b))


@numpy_function
def hard_sigmoid(x: ArrayLike) -> Array:
    """`relu6(x + 3) / 6`.

    The result has the shape of `x`, and its dtype if that is floating-point or complex, else the default floating
    dtype.
    Raises: DtypeError for PRNG keys, ArgumentTypeError for lists and strings.

    >>> hard_sigmoid(jnp.array([0.0]))
    Array([0.5], dtype=float32)
    """
    aval_of("nn.hard_sigmoid", x)
    return relu6(jnp.asarray(x) + 3.0) / 6.0


@numpy_function
def hard_silu(x: ArrayLike) -> Array:
    """`x * hard_sigmoid(x)`, also called hard swish.

    The result has the shape of `x`, and its dtype if that is floating-point or complex, else the default floating
    dtype.
    Raises: DtypeError for PRNG keys, ArgumentTypeError for lists and strings.

    >>> hard_silu(jnp.array([3.0]))
    Array([3.], dtype=float32)
    """
    aval_of("nn.hard_silu", x)
    x = jnp.asarray(x)
    return x * hard_sigmoid(x)


hard_swish = hard_silu


@custom_jvp
def _log1mexp(x: Array) -> Array:
    return jnp.where(x < math.log(2), jnp.log(-jnp.expm1(-x)), jnp.log1p(-jnp.exp(-x)))


_log1mexp.defjvps(library_code(lambda t, y, x: t / jnp.expm1(x)))


@numpy_function
def log1mexp(x: ArrayLike) -> Array:
    """`log(1 - exp(-x))` of positive `x`, exact for small and large ones (Mächler, 2012).

    The result has the shape of `x`, and its dtype if that is floating-point or complex, else the default floating
    dtype.
    Raises: DtypeError for PRNG keys, ArgumentTypeError for lists and strings.

    >>> log1mexp(jnp.array([1.0]))
    Array([-0.45867515], dtype=float32)
    """
    [x] = promote_dtypes_inexact("nn.log1mexp", x)
    return _log1mexp(x)


def one_hot(
    x: ArrayLike, num_classes: int, *, dtype: DTypeLike | None = None, axis: int = -1
) -> Array:
    """Vectors of `num_classes` with a 1 at the numbers `x`, along the new `axis`; of numbers out of range all 0.

    The result has the shape of `x` with the new axis, and `dtype`, by default the default floating one.
    Raises: ShapeError for a `num_classes` that isn't an integer from 0, AxisError for an axis out of bounds, DtypeError
    for bool and PRNG keys, ArgumentTypeError for strings.

    >>> one_hot(jnp.array([0, 2]), 3)
    Array([[1., 0., 0.],
           [0., 0., 1.]], dtype=float32)
    """
    x = jnp.asarray(x) if isinstance(x, (list, tuple)) else x
    aval = aval_of("nn.one_hot", x)
    chosen = dtypes.default_float_dtype() if dtype is None else dtype
    position = canonical_axis(axis, aval.ndim + 1)
    along = tuple(-1 if i == position else 1 for i in range(aval.ndim + 1))
    num_classes = concrete_or_error(None, num_classes, "nn.one_hot needs `num_classes` as an int.")
    [size] = checked_shape((num_classes,), "nn.one_hot")
    numbers = jnp.arange(size, dtype=aval.dtype).reshape(along)
    return (jnp.expand_dims(x, position) == numbers).astype(chosen)


tanh = jnp.tanh


__all__ = [
    "celu", "elu", "gelu", "glu", "hard_sigmoid", "hard_silu", "hard_swish", "hard_tanh", "identity", "leaky_relu",
    "log1mexp", "log_sigmoid", "mish", "one_hot", "relu", "relu6", "selu", "sigmoid", "silu", "soft_sign", "softplus",
    "sparse_plus", "sparse_sigmoid", "squareplus", "swish", "tanh",
]  # fmt: skip

public_functions(__all__, globals())

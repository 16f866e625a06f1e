"""Initial values of parameters, under the names of `jax.nn.initializers`.

An initializer is a function `(key, shape, dtype, out_sharding) -> array`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np

from pellucid import numpy as jnp, random
from pellucid._machine.base import (
    ArgumentValueError,
    ArrayLike,
    DtypeError,
    DTypeLike,
    dtypes,
    public_functions,
)
from pellucid._machine.base.errors import expecting
from pellucid._machine.primitives.movement import canonical_axis
from pellucid._machine.sharding import PartitionSpec, Sharding
from pellucid._machine.xla.arrays import Array

Axes = int | Sequence[int]

_TRUNCATED_DEVIATION = 0.87962566103423978
"""Standard deviation of normal numbers cut to between -2 and 2."""
_TRUNCATED_COMPLEX_DEVIATION = 0.95311164380491208
"""Standard deviation of complex normal numbers with absolute values cut to 2."""


class Initializer(Protocol):
    """A function that returns initial values.

    `key` is a random key, `shape` the shape of the result and `dtype` its dtype, by default that of the initializer.

    >>> init: Initializer = variance_scaling(1.0, "fan_in", "normal")
    >>> init(pl.random.key(0), (3, 2), "float16").dtype
    dtype('float16')
    """

    def __call__(
        self,
        key: Array,
        shape: Sequence[int],
        dtype: DTypeLike | None = None,
        out_sharding: Sharding | PartitionSpec | None = None,
    ) -> Array:
        """An array of `shape` and `dtype`."""
        ...


def _dtype(dtype: Any, default: Any) -> Any:
    chosen = default if dtype is None else dtype
    return dtypes.default_float_dtype() if chosen is None else dtypes.canonicalize(np.dtype(chosen))


def zeros(
    key: Array,
    shape: Sequence[int],
    dtype: DTypeLike | None = None,
    out_sharding: Sharding | PartitionSpec | None = None,
) -> Array:
    """Zeros; the key isn't used.

    The result has the given `shape` and `dtype`, by default the default floating one.
    Raises: ShapeError for negative sizes, ArgumentTypeError for sizes that aren't integers, TypeError for what is no
    dtype.

    >>> zeros(pl.random.key(0), (2,))
    Array([0., 0.], dtype=float32)
    """
    return jnp.zeros(shape, _dtype(dtype, None), out_sharding=out_sharding)


def ones(
    key: Array,
    shape: Sequence[int],
    dtype: DTypeLike | None = None,
    out_sharding: Sharding | PartitionSpec | None = None,
) -> Array:
    """Ones; the key isn't used.

    The result has the given `shape` and `dtype`, by default the default floating one.
    Raises: ShapeError for negative sizes, ArgumentTypeError for sizes that aren't integers, TypeError for what is no
    dtype.

    >>> ones(pl.random.key(0), (2,))
    Array([1., 1.], dtype=float32)
    """
    return jnp.ones(shape, _dtype(dtype, None), out_sharding=out_sharding)


def constant(value: ArrayLike, dtype: DTypeLike | None = None) -> Initializer:
    """An initializer that gives `value` everywhere.

    Called with (key, shape, dtype, out_sharding), it gives an array of that shape, and of that dtype or else of
    `dtype`, by default the default floating one. The call raises ShapeError for negative sizes and for a `value` that
    does not broadcast to the shape, ArgumentTypeError for sizes that aren't integers.

    >>> constant(3.0)(pl.random.key(0), (2,))
    Array([3., 3.], dtype=float32)
    """

    def init(key: Any, shape: Any, dtype: Any = dtype, out_sharding: Any = None) -> Any:
        return jnp.full(shape, value, _dtype(dtype, None), out_sharding=out_sharding)

    return init


def _times_factor(samples: Array, factor: Any) -> Array:
    return samples * jnp.asarray(factor, dtype=samples.dtype)


def uniform(scale: ArrayLike = 1e-2, dtype: DTypeLike | None = None) -> Initializer:
    """An initializer of uniform numbers from 0 to before `scale`.

    Called with (key, shape, dtype, out_sharding), it gives an array of that shape, and of that dtype or else of
    `dtype`, by default the default floating one. The call raises ArgumentTypeError for anything that isn't a key, ShapeError for a
    `shape` of anything but integers from 0, and ArgumentValueError for a dtype that is not floating-point.

    >>> uniform()(pl.random.key(0), (2, 3)).shape
    (2, 3)
    """

    def init(key: Any, shape: Any, dtype: Any = dtype, out_sharding: Any = None) -> Any:
        chosen = _dtype(dtype, None)
        return _times_factor(random.uniform(key, shape, chosen, out_sharding=out_sharding), scale)

    return init


def normal(stddev: ArrayLike = 1e-2, dtype: DTypeLike | None = None) -> Initializer:
    """An initializer of normal numbers of standard deviation `stddev`.

    Called with (key, shape, dtype, out_sharding), it gives an array of that shape, and of that dtype or else of
    `dtype`, by default the default floating one. The call raises ArgumentTypeError for anything that isn't a key, ShapeError for a
    `shape` of anything but integers from 0, and ArgumentValueError for a dtype that is not floating-point or complex.

    >>> normal()(pl.random.key(0), (2, 3)).shape
    (2, 3)
    """

    def init(key: Any, shape: Any, dtype: Any = dtype, out_sharding: Any = None) -> Any:
        chosen = _dtype(dtype, None)
        return _times_factor(random.normal(key, shape, chosen, out_sharding=out_sharding), stddev)

    return init


def truncated_normal(
    stddev: ArrayLike = 1e-2,
    dtype: DTypeLike | None = None,
    lower: ArrayLike = -2.0,
    upper: ArrayLike = 2.0,
) -> Initializer:
    """An initializer of normal numbers cut to between `lower` and `upper`, then multiplied by `stddev`.

    Called with (key, shape, dtype, out_sharding), it gives an array of that shape, and of that dtype or else of
    `dtype`, by default the default floating one. The call raises ArgumentTypeError for anything that isn't a key, ShapeError for a
    `shape` of anything but integers from 0, and ArgumentValueError for a dtype that is not floating-point.

    >>> truncated_normal()(pl.random.key(0), (2, 3)).shape
    (2, 3)
    """

    def init(key: Any, shape: Any, dtype: Any = dtype, out_sharding: Any = None) -> Any:
        chosen = _dtype(dtype, None)
        samples = random.truncated_normal(
            key, lower, upper, shape, chosen, out_sharding=out_sharding
        )
        return _times_factor(samples, stddev)

    return init


def _size(shape: Sequence[int], axes: Axes) -> int:
    with expecting("an initializer needs axes as integers, or tuples of these", axes):
        listed = (axes,) if isinstance(axes, int) else tuple(axes)
        return math.prod(shape[canonical_axis(axis, len(shape))] for axis in listed)


def _fans(
    shape: Sequence[int], in_axis: Axes, out_axis: Axes, batch_axis: Axes
) -> tuple[float, float]:
    """(number of inputs of an output, number of outputs of an input) of weights of `shape`."""
    if len(shape) < 2 or min(shape) < 1:
        raise ArgumentValueError(
            "variance_scaling needs a shape of at least two dimensions, and sizes from 1.",
            got=f"shape: {tuple(shape)}, in_axis={in_axis}, out_axis={out_axis}",
        )
    inputs, outputs = _size(shape, in_axis), _size(shape, out_axis)
    field = math.prod(shape) / inputs / outputs / _size(shape, batch_axis)
    return inputs * field, outputs * field


def variance_scaling(
    scale: ArrayLike,
    mode: str,
    distribution: str,
    in_axis: Axes = -2,
    out_axis: Axes = -1,
    batch_axis: Axes = (),
    dtype: DTypeLike | None = None,
) -> Initializer:
    """An initializer of numbers of variance `scale / n`, where n follows from the shape of the weights.

    `mode`: n is the number of inputs ("fan_in"), of outputs ("fan_out"), their mean ("fan_avg") or their geometric
    mean ("fan_geo_avg"). `distribution`: "normal", "truncated_normal" or "uniform". Axes that are neither `in_axis`,
    `out_axis` nor `batch_axis` are a receptive field.
    Raises: ArgumentValueError for another mode or distribution.

    >>> variance_scaling(1.0, "fan_in", "normal")(pl.random.key(0), (2, 3)).shape
    (2, 3)
    """

    def init(key: Any, shape: Any, dtype: Any = dtype, out_sharding: Any = None) -> Any:
        chosen = _dtype(dtype, None)
        if not dtypes.is_inexact(chosen):
            raise DtypeError(
                "variance_scaling needs a floating or complex dtype.", got=f"dtype: {chosen}"
            )
        fan_in, fan_out = _fans(shape, in_axis, out_axis, batch_axis)
        counts = {
            "fan_in": fan_in, "fan_out": fan_out, "fan_avg": (fan_in + fan_out) / 2,
            "fan_geo_avg": math.sqrt(fan_in * fan_out),
        }  # fmt: skip
        if mode not in counts:
            raise ArgumentValueError(
                "variance_scaling has no such mode.",
                got=f"got {mode!r}",
                do=f"Use one of {', '.join(counts)}.",
            )
        variance = jnp.asarray(scale / counts[mode], dtype=chosen)
        if distribution == "normal":
            return random.normal(key, shape, chosen, out_sharding=out_sharding) * jnp.sqrt(variance)
        is_real = dtypes.issubdtype(chosen, np.floating)
        if distribution == "uniform":
            samples = (
                random.uniform(key, shape, chosen, -1, out_sharding=out_sharding)
                if is_real
                else _complex_uniform(key, shape, chosen)
            )
            return samples * jnp.sqrt((3 if is_real else 2) * variance)
        if distribution == "truncated_normal":
            if not is_real:
                deviation = jnp.sqrt(variance) / jnp.asarray(
                    _TRUNCATED_COMPLEX_DEVIATION, dtype=chosen
                )
                return _complex_truncated_normal(key, 2, shape, chosen) * deviation
            deviation = jnp.sqrt(variance) / jnp.asarray(_TRUNCATED_DEVIATION, dtype=chosen)
            samples = random.truncated_normal(key, -2, 2, shape, chosen, out_sharding=out_sharding)
            return samples * deviation
        raise ArgumentValueError(
            'variance_scaling has the distributions "normal", "truncated_normal" and "uniform".',
            got=f"got {distribution!r}",
        )

    return init


def _draw_on_disc(key: Array, shape: Any, dtype: np.dtype, radius: Any) -> Array:
    """Complex numbers with absolute values `radius(uniform numbers)` and uniform angles."""
    key_radius, key_angle = random.split(key)
    real = dtypes.to_floating_dtype(np.dtype(dtype))
    lengths = radius(random.uniform(key_radius, shape, real)).astype(dtype)
    angles = (2 * math.pi * random.uniform(key_angle, shape, real)).astype(dtype)
    return lengths * jnp.exp(1j * angles)


def _complex_uniform(key: Array, shape: Any, dtype: np.dtype) -> Array:
    """Complex numbers, uniform on the disc of radius 1."""
    return _draw_on_disc(key, shape, dtype, jnp.sqrt)


def _complex_truncated_normal(key: Array, upper: Any, shape: Any, dtype: np.dtype) -> Array:
    """Complex normal numbers whose absolute values are at most `upper`."""
    share = 1 - math.exp(-(upper**2))
    return _draw_on_disc(key, shape, dtype, lambda u: jnp.sqrt(-jnp.log(1 - share * u)))


def _family(
    name: str, scale: float, mode: str, distribution: str, source: str, number: str
) -> Callable[..., Initializer]:
    """A maker of initializers with a fixed scale, mode and distribution; `number` is the result of its example."""

    def initializer(
        in_axis: Axes = -2, out_axis: Axes = -1, batch_axis: Axes = (), dtype: Any = None
    ) -> Initializer:
        return variance_scaling(scale, mode, distribution, in_axis, out_axis, batch_axis, dtype)

    initializer.__name__ = initializer.__qualname__ = name
    initializer.__doc__ = f"""{source}: `variance_scaling({scale}, {mode!r}, {distribution!r})` with these axes.

    The initializer gives an array of the shape that it is called with, of `dtype` or the default floating one. Its
    call raises ArgumentValueError for fewer than two dimensions and for sizes below 1, DtypeError for a dtype that is
    neither floating-point nor complex, and ArgumentTypeError for what is no key.

    >>> print(f"{{{name}()(pl.random.key(0), (8, 4))[0, 0]:.4f}}")
    {number}
    """
    return initializer


glorot_uniform = xavier_uniform = _family(
    "glorot_uniform", 1.0, "fan_avg", "uniform", "Glorot and Bengio (2010)", "0.6331"
)
glorot_normal = xavier_normal = _family(
    "glorot_normal", 1.0, "fan_avg", "truncated_normal", "Glorot and Bengio (2010)", "0.6757"
)
lecun_uniform = _family("lecun_uniform", 1.0, "fan_in", "uniform", "LeCun et al. (1998)", "0.5483")
lecun_normal = _family(
    "lecun_normal", 1.0, "fan_in", "truncated_normal", "LeCun et al. (1998)", "0.5852"
)
he_uniform = kaiming_uniform = _family(
    "he_uniform", 2.0, "fan_in", "uniform", "He et al. (2015)", "0.7754"
)
he_normal = kaiming_normal = _family(
    "he_normal", 2.0, "fan_in", "truncated_normal", "He et al. (2015)", "0.8276"
)


def orthogonal(
    scale: ArrayLike = 1.0, column_axis: int = -1, dtype: DTypeLike | None = None
) -> Initializer:
    """An initializer of matrices with orthonormal columns or rows, times `scale`; `column_axis` has the columns.

    Raises: ArgumentValueError for fewer than two dimensions.

    >>> orthogonal()(pl.random.key(0), (3, 2)).shape
    (3, 2)
    """

    def init(key: Any, shape: Any, dtype: Any = dtype, out_sharding: Any = None) -> Any:
        if len(shape) < 2:
            raise ArgumentValueError(
                "orthogonal needs a shape of at least two dimensions.", got=f"got {tuple(shape)}"
            )
        chosen = _dtype(dtype, None)
        if not math.prod(shape):
            return jnp.zeros(shape, chosen)
        columns = _size(shape, column_axis)
        rows = math.prod(shape) // columns
        matrix = random.orthogonal(key, rows, (), chosen, m=columns)
        rest = [n for i, n in enumerate(shape) if i != column_axis % len(shape)]
        result = jnp.moveaxis(matrix.reshape((*rest, columns)), -1, column_axis)
        return _times_factor(result, scale)

    return init


def delta_orthogonal(
    scale: ArrayLike = 1.0, column_axis: int = -1, dtype: DTypeLike | None = None
) -> Initializer:
    """An initializer of convolutions that are 0 but for an orthogonal matrix in the middle (Xiao et al., 2018).

    Shapes have three to five dimensions: one to three of space, inputs, outputs.
    Raises: ArgumentValueError for other shapes, and for more inputs than outputs.

    >>> delta_orthogonal()(pl.random.key(0), (3, 2, 2)).shape
    (3, 2, 2)
    """

    def init(key: Any, shape: Any, dtype: Any = dtype, out_sharding: Any = None) -> Any:
        if len(shape) not in (3, 4, 5) or shape[-1] < shape[-2]:
            raise ArgumentValueError(
                "delta_orthogonal needs a shape of 3 to 5 dimensions with at least as many outputs as inputs.",
                got=f"got {tuple(shape)}",
            )
        chosen = _dtype(dtype, None)
        matrix = orthogonal(scale, column_axis, chosen)(key, shape[-2:])
        middle = tuple((n - 1) // 2 for n in shape[:-2])
        return jnp.zeros(shape, chosen).at[middle].set(matrix)

    return init


__all__ = [
    "Initializer", "constant", "delta_orthogonal", "glorot_normal", "glorot_uniform", "he_normal", "he_uniform",
    "kaiming_normal", "kaiming_uniform", "lecun_normal", "lecun_uniform", "normal", "ones", "orthogonal",
    "truncated_normal", "uniform", "variance_scaling", "xavier_normal", "xavier_uniform", "zeros",
]  # fmt: skip

public_functions(__all__, globals())

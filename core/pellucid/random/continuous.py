"""Continuous distributions that are functions of uniform or normal numbers."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from pellucid import numpy as jnp
from pellucid._machine.base import ArrayLike, DTypeLike, Ints, dtypes, public_functions
from pellucid._machine.primitives.arithmetic import (
    abs as absolute,
    integer_pow,
    log,
    neg,
    sign,
    sqrt,
)
from pellucid._machine.primitives.conversion import convert_element_type
from pellucid._machine.primitives.families import FLOATING, constant_like
from pellucid._machine.primitives.movement import broadcast_to
from pellucid._machine.primitives.transcendental import exp, log1p, tan
from pellucid._machine.sharding import PartitionSpec, Sharding
from pellucid._machine.xla.arrays import Array

from .keys import split_keys
from .sampling import (
    Shape,
    check_parameters,
    checked_dtype,
    laid_out,
    sampler,
    shape_of_result,
    single_key,
)
from .uniform import default_float, normal_numbers, signs, smallest_normal, uniform_between


def _one(dtype: np.dtype) -> Any:
    return np.ones((), dtype)[()]


def draw(
    caller: str, function: Any, key: Array, parameters: dict[str, Any], shape: int | Ints | None, dtype: DTypeLike | None,
    out_sharding: Sharding | PartitionSpec | None = None,
) -> Any:  # fmt: skip
    """`function(key, shape, dtype, *parameters)` with checked arguments, laid out as `out_sharding` says."""
    typed = single_key(caller, key)
    dtype = checked_dtype(caller, dtype, FLOATING, default_float())
    operands = check_parameters(caller, **parameters)
    shape = shape_of_result(caller, shape, *operands)
    return laid_out(out_sharding, function, typed, shape, dtype, *operands)


def broadcast_parameters(dtype: Any, shape: Shape, *parameters: Any) -> list[Any]:
    """`parameters` converted to `dtype` and broadcast to `shape`."""
    return [broadcast_to(convert_element_type(p, dtype), shape) for p in parameters]


# Of one uniform number --------------------------------------------------------------------------------


@sampler("shape", "dtype")
def _exponential(key: Array, shape: Shape, dtype: np.dtype) -> Array:
    return neg(log1p(neg(uniform_between(key, shape, dtype))))


def exponential(
    key: Array,
    shape: int | Ints = (),
    dtype: DTypeLike | None = None,
    *,
    out_sharding: Sharding | PartitionSpec | None = None,
) -> Array:
    """Numbers of the exponential distribution, with density exp(-x) for x ≥ 0.

    The result has the given `shape` and `dtype`, by default the default floating one.
    Raises: ArgumentTypeError for anything that isn't a key, ShapeError for a batch of keys and for a `shape` of anything but
    integers from 0, ArgumentValueError for a dtype that is not floating-point.

    >>> pl.random.exponential(pl.random.key(0), (2,)).shape
    (2,)
    """
    return draw("exponential", _exponential, key, {}, shape, dtype, out_sharding)


@sampler("shape", "dtype")
def _cauchy(key: Array, shape: Shape, dtype: np.dtype) -> Array:
    numbers = uniform_between(
        key, shape, dtype, np.asarray(dtypes.finfo(dtype).eps, dtype)[()], _one(dtype)
    )
    return tan(constant_like(numbers, math.pi) * (numbers - constant_like(numbers, 0.5)))


def cauchy(
    key: Array,
    shape: int | Ints = (),
    dtype: DTypeLike | None = None,
    *,
    out_sharding: Sharding | PartitionSpec | None = None,
) -> Array:
    """Numbers of the Cauchy distribution, with density 1 / (π (1 + x²)).

    The result has the given `shape` and `dtype`, by default the default floating one.
    Raises: ArgumentTypeError for anything that isn't a key, ShapeError for a batch of keys and for a `shape` of anything but
    integers from 0, ArgumentValueError for a dtype that is not floating-point.

    >>> pl.random.cauchy(pl.random.key(0), (2,)).shape
    (2,)
    """
    return draw("cauchy", _cauchy, key, {}, shape, dtype, out_sharding)


@sampler("shape", "dtype")
def _laplace(key: Array, shape: Shape, dtype: np.dtype) -> Array:
    low = np.asarray(-1, dtype) + np.asarray(dtypes.finfo(dtype).epsneg, dtype)
    numbers = uniform_between(key, shape, dtype, low[()], _one(dtype))
    return sign(numbers) * log1p(neg(absolute(numbers)))


def laplace(
    key: Array,
    shape: int | Ints = (),
    dtype: DTypeLike | None = None,
    *,
    out_sharding: Sharding | PartitionSpec | None = None,
) -> Array:
    """Numbers of the Laplace distribution, with density ½ exp(-|x|).

    The result has the given `shape` and `dtype`, by default the default floating one.
    Raises: ArgumentTypeError for anything that isn't a key, ShapeError for a batch of keys and for a `shape` of anything but
    integers from 0, ArgumentValueError for a dtype that is not floating-point.

    >>> pl.random.laplace(pl.random.key(0), (2,)).shape
    (2,)
    """
    return draw("laplace", _laplace, key, {}, shape, dtype, out_sharding)


@sampler("shape", "dtype")
def _logistic(key: Array, shape: Shape, dtype: np.dtype) -> Array:
    numbers = uniform_between(key, shape, dtype, smallest_normal(dtype), _one(dtype))
    return log(numbers) - log1p(neg(numbers))


def logistic(
    key: Array,
    shape: int | Ints = (),
    dtype: DTypeLike | None = None,
    *,
    out_sharding: Sharding | PartitionSpec | None = None,
) -> Array:
    """Numbers of the logistic distribution, with density exp(-x) / (1 + exp(-x))².

    The result has the given `shape` and `dtype`, by default the default floating one.
    Raises: ArgumentTypeError for anything that isn't a key, ShapeError for a batch of keys and for a `shape` of anything but
    integers from 0, ArgumentValueError for a dtype that is not floating-point.

    >>> pl.random.logistic(pl.random.key(0), (2,)).shape
    (2,)
    """
    return draw("logistic", _logistic, key, {}, shape, dtype, out_sharding)


@sampler("shape", "dtype")
def _pareto(key: Array, shape: Shape, dtype: np.dtype, b: Array) -> Array:
    [b] = broadcast_parameters(dtype, shape, b)
    return exp(_exponential(key, shape, dtype) / b)


def pareto(
    key: Array,
    b: ArrayLike,
    shape: int | Ints | None = None,
    dtype: DTypeLike | None = None,
    *,
    out_sharding: Sharding | PartitionSpec | None = None,
) -> Array:
    """Numbers of the Pareto distribution, with density b / x^(b + 1) for x ≥ 1.

    The result has the given `shape`, by default that of the parameters, which broadcast to it, and `dtype`, by default
    the default floating one.
    Raises: ArgumentTypeError for anything that isn't a key, ShapeError for a batch of keys, for a `shape` of anything but integers
    from 0 and for parameters that do not fit it, ArgumentValueError for a dtype that is not floating-point,
    ArgumentTypeError for parameters that are lists or strings.

    >>> pl.random.pareto(pl.random.key(0), 2.0, (2,)).shape
    (2,)
    """
    return draw("pareto", _pareto, key, {"b": b}, shape, dtype, out_sharding)


@sampler("shape", "dtype")
def _rayleigh(key: Array, shape: Shape, dtype: np.dtype, scale: Array) -> Array:
    logarithm = log(uniform_between(key, shape, dtype))
    [scale] = broadcast_parameters(dtype, shape, scale)
    return scale * sqrt(logarithm * constant_like(logarithm, -2))


def rayleigh(
    key: Array,
    scale: ArrayLike,
    shape: int | Ints | None = None,
    dtype: DTypeLike | None = None,
    *,
    out_sharding: Sharding | PartitionSpec | None = None,
) -> Array:
    """Numbers of the Rayleigh distribution, with density x / s² exp(-x² / 2s²) for x ≥ 0 and scale s.

    The result has the given `shape`, by default that of the parameters, which broadcast to it, and `dtype`, by default
    the default floating one.
    Raises: ArgumentTypeError for anything that isn't a key, ShapeError for a batch of keys, for a `shape` of anything but integers
    from 0 and for parameters that do not fit it, ArgumentValueError for a dtype that is not floating-point,
    ArgumentTypeError for parameters that are lists or strings.

    >>> pl.random.rayleigh(pl.random.key(0), 2.0, (2,)).shape
    (2,)
    """
    return draw("rayleigh", _rayleigh, key, {"scale": scale}, shape, dtype, out_sharding)


@sampler("shape", "dtype")
def _weibull_min(
    key: Array, shape: Shape, dtype: np.dtype, scale: Array, concentration: Array
) -> Array:
    scale, concentration = broadcast_parameters(dtype, shape, scale, concentration)
    power = constant_like(concentration, 1) / concentration
    return jnp.power(_exponential(key, shape, dtype), power) * scale


def weibull_min(
    key: Array,
    scale: ArrayLike,
    concentration: ArrayLike,
    shape: int | Ints = (),
    dtype: DTypeLike | None = None,
) -> Array:
    """Numbers of the Weibull distribution, with density c / s (x / s)^(c - 1) exp(-(x / s)^c) for x ≥ 0.

    The result has the given `shape`, to which parameters broadcast, and `dtype`, by default the default floating one.
    Raises: ArgumentTypeError for anything that isn't a key, ShapeError for a batch of keys, for a `shape` of anything but integers
    from 0 and for parameters that do not fit it, ArgumentValueError for a dtype that is not floating-point,
    ArgumentTypeError for parameters that are lists or strings.

    >>> pl.random.weibull_min(pl.random.key(0), 1.0, 2.0, (2,)).shape
    (2,)
    """
    parameters = {"scale": scale, "concentration": concentration}
    return draw("weibull_min", _weibull_min, key, parameters, shape, dtype)


@sampler("shape", "dtype")
def _triangular(
    key: Array, shape: Shape, dtype: np.dtype, left: Array, mode: Array, right: Array
) -> Array:
    left, mode, right = broadcast_parameters(dtype, shape, left, mode, right)
    numbers = uniform_between(key, shape, dtype)
    below = left + sqrt(numbers * (right - left) * (mode - left))
    rest = constant_like(numbers, 1) - numbers
    above = right - sqrt(rest * (right - left) * (right - mode))
    return jnp.where(numbers < (mode - left) / (right - left), below, above)


def triangular(
    key: Array, left: ArrayLike, mode: ArrayLike, right: ArrayLike, shape: int | Ints | None = None, dtype: DTypeLike | None = None, *, out_sharding: Sharding | PartitionSpec | None = None
) -> Array:  # fmt: skip
    """Numbers between `left` and `right` whose density rises linearly up to `mode`, and falls beyond it.

    The result has the given `shape`, by default that of the parameters, which broadcast to it, and `dtype`, by default
    the default floating one.
    Raises: ArgumentTypeError for anything that isn't a key, ShapeError for a batch of keys, for a `shape` of anything but integers
    from 0 and for parameters that do not fit it, ArgumentValueError for a dtype that is not floating-point,
    ArgumentTypeError for parameters that are lists or strings.

    >>> pl.random.triangular(pl.random.key(0), 0.0, 1.0, 3.0, (2,)).shape
    (2,)
    """
    parameters = {"left": left, "mode": mode, "right": right}
    return draw("triangular", _triangular, key, parameters, shape, dtype, out_sharding)


# Of normal numbers ------------------------------------------------------------------------------------


@sampler("shape", "dtype")
def _lognormal(key: Array, shape: Shape, dtype: np.dtype, sigma: Array) -> Array:
    [sigma] = broadcast_parameters(dtype, shape, sigma)
    return exp(normal_numbers(key, shape, dtype) * sigma)


def lognormal(
    key: Array,
    sigma: ArrayLike = 1.0,
    shape: int | Ints | None = None,
    dtype: DTypeLike | None = None,
    *,
    out_sharding: Sharding | PartitionSpec | None = None,
) -> Array:
    """Exponentials of normal numbers with standard deviation `sigma`.

    The result has the given `shape`, by default that of the parameters, which broadcast to it, and `dtype`, by default
    the default floating one.
    Raises: ArgumentTypeError for anything that isn't a key, ShapeError for a batch of keys, for a `shape` of anything but integers
    from 0 and for parameters that do not fit it, ArgumentValueError for a dtype that is not floating-point,
    ArgumentTypeError for parameters that are lists or strings.

    >>> pl.random.lognormal(pl.random.key(0), 2.0, (2,)).shape
    (2,)
    """
    return draw("lognormal", _lognormal, key, {"sigma": sigma}, shape, dtype, out_sharding)


@sampler("shape", "dtype")
def _maxwell(key: Array, shape: Shape, dtype: np.dtype) -> Array:
    numbers = normal_numbers(key, (*shape, 3), dtype)
    return sqrt(jnp.sum(numbers * numbers, axis=-1))


def maxwell(
    key: Array,
    shape: int | Ints = (),
    dtype: DTypeLike | None = None,
    *,
    out_sharding: Sharding | PartitionSpec | None = None,
) -> Array:
    """Numbers of the Maxwell distribution: lengths of vectors of three normal numbers.

    The result has the given `shape` and `dtype`, by default the default floating one.
    Raises: ArgumentTypeError for anything that isn't a key, ShapeError for a batch of keys and for a `shape` of anything but
    integers from 0, ArgumentValueError for a dtype that is not floating-point.

    >>> pl.random.maxwell(pl.random.key(0), (2,)).shape
    (2,)
    """
    return draw("maxwell", _maxwell, key, {}, shape, dtype, out_sharding)


@sampler("shape", "dtype")
def _double_sided_maxwell(
    key: Array, shape: Shape, dtype: np.dtype, loc: Array, scale: Array
) -> Array:
    first, second = split_keys(key)
    loc, scale = convert_element_type(loc, dtype), convert_element_type(scale, dtype)
    return signs(second, shape, dtype) * _maxwell(first, shape, dtype) * scale + loc


def double_sided_maxwell(
    key: Array,
    loc: ArrayLike,
    scale: ArrayLike,
    shape: int | Ints = (),
    dtype: DTypeLike | None = None,
) -> Array:
    """Numbers of the double-sided Maxwell distribution: `loc` plus or minus `scale` times one of Maxwell's.

    Their shape is `shape` with that of `loc` and `scale` after it.

    Their dtype is `dtype`, by default the default floating one.
    Raises: ArgumentTypeError for anything that isn't a key, ShapeError for a batch of keys, for a `shape` of anything but integers
    from 0 and for parameters that do not broadcast, ArgumentValueError for a dtype that is not floating-point,
    ArgumentTypeError for parameters that are lists or strings.

    >>> pl.random.double_sided_maxwell(pl.random.key(0), 0.0, 2.0, (2,)).shape
    (2,)
    """
    operands = check_parameters("double_sided_maxwell", loc=loc, scale=scale)
    together = shape_of_result("double_sided_maxwell", None, *operands)
    shape = (*shape_of_result("double_sided_maxwell", shape), *together)
    parameters = {"loc": loc, "scale": scale}
    return draw("double_sided_maxwell", _double_sided_maxwell, key, parameters, shape, dtype)


@sampler("shape", "dtype")
def _wald(key: Array, shape: Shape, dtype: np.dtype, mean: Array) -> Array:
    first, second = split_keys(key)
    [mean] = broadcast_parameters(dtype, shape, mean)
    square = integer_pow(normal_numbers(first, shape, dtype), 2)
    numbers = uniform_between(second, shape, dtype)
    mean_square, four, two = integer_pow(mean, 2), constant_like(mean, 4), constant_like(mean, 2)
    root = sqrt(four * mean * square + mean_square * integer_pow(square, 2))
    x = mean + mean_square * square / two - mean / two * root
    return jnp.where(numbers <= mean / (mean + x), x, mean_square / x)


def wald(
    key: Array,
    mean: ArrayLike,
    shape: int | Ints | None = None,
    dtype: DTypeLike | None = None,
    *,
    out_sharding: Sharding | PartitionSpec | None = None,
) -> Array:
    """Numbers of the Wald (inverse Gaussian) distribution with scale 1.

    The result has the given `shape`, by default that of the parameters, which broadcast to it, and `dtype`, by default
    the default floating one.
    Raises: ArgumentTypeError for anything that isn't a key, ShapeError for a batch of keys, for a `shape` of anything but integers
    from 0 and for parameters that do not fit it, ArgumentValueError for a dtype that is not floating-point,
    ArgumentTypeError for parameters that are lists or strings.
    Source: Michael, Schucany and Haas, Generating Random Variates Using Transformations with Multiple Roots, 1976.

    >>> pl.random.wald(pl.random.key(0), 2.0, (2,)).shape
    (2,)
    """
    return draw("wald", _wald, key, {"mean": mean}, shape, dtype, out_sharding)


__all__ = [
    "cauchy", "double_sided_maxwell", "exponential", "laplace", "logistic", "lognormal", "maxwell", "pareto",
    "rayleigh", "triangular", "wald", "weibull_min",
]  # fmt: skip

public_functions(__all__, globals())

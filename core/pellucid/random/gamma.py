"""The gamma distribution, and distributions built from it: beta, Dirichlet, χ², t, F, generalized normal, balls."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from pellucid import numpy as jnp
from pellucid._machine.base import (
    ArgumentValueError,
    ArrayLike,
    DtypeError,
    DTypeLike,
    Ints,
    ShapeError,
    public_functions,
)
from pellucid._machine.higher_order.loops import map as map_each, while_loop
from pellucid._machine.ir import Zero, shaped_array, words
from pellucid._machine.primitives.arithmetic import abs as absolute, log, max as larger, sqrt
from pellucid._machine.primitives.conversion import convert_element_type, stop_gradient
from pellucid._machine.primitives.families import FLOATING, constant_like, full_as, kind_of, zero_of
from pellucid._machine.primitives.movement import broadcast_to, move_axis, reshape
from pellucid._machine.primitives.special import random_gamma_grad
from pellucid._machine.primitives.transcendental import exp
from pellucid._machine.sharding import PartitionSpec, Sharding
from pellucid._machine.tracing import bind1, type_of
from pellucid._machine.transforms.vmap import vmap
from pellucid._machine.xla.arrays import Array

from .continuous import _exponential, broadcast_parameters, draw
from .generators import threefry_prng_impl
from .key_primitives import OnKeys, generator_of_aval, map_over_leading
from .keys import split_keys
from .sampling import (
    Shape,
    check_parameters,
    checked_dtype,
    laid_out,
    sampler,
    shape_of_result,
    single_key,
    wrap_words,
)
from .uniform import default_float, normal_numbers, signs, smallest_normal, uniform_between

# random_gamma -----------------------------------------------------------------------------------------


class RandomGammaParams(NamedTuple):
    log_space: bool


class RandomGamma(OnKeys[RandomGammaParams]):
    """Samples of gamma distributions, or their logarithms: for each key an array."""

    name = "random_gamma"

    def abstract_eval(self, avals, params):
        keys, alpha = avals
        generator_of_aval(self.name, keys)
        if kind_of(alpha.dtype) != "floating":
            raise DtypeError("random_gamma needs floating parameters.", got=alpha.text())
        if alpha.shape[: keys.ndim] != keys.shape:
            raise ShapeError(
                "random_gamma needs parameters for each key.", got=[keys.text(), alpha.text()]
            )
        return [shaped_array(alpha.shape, alpha.dtype)]

    def factors(self, avals, results, params):
        dims = words(avals[1].ndim)
        return [dims[: avals[0].ndim], dims], [dims]

    def batch(self, axis, operands, dims, params):
        keys, alpha = [
            broadcast_to(x, (axis.size, *type_of(x).shape)) if d is None else move_axis(x, d, 0)
            for x, d in zip(operands, dims, strict=True)
        ]
        return [bind1(self, keys, alpha, params=params)], [0]

    def jvp(self, primals, tangents, params):
        keys, alpha = primals
        samples = bind1(self, keys, alpha, params=params)
        tangent = tangents[1]
        if type(tangent) is Zero:
            return [samples], [zero_of(samples)]
        # Implicit differentiation of the distribution function: Figurnov, Mohamed and Mnih, 2018.
        if not params.log_space:
            return [samples], [tangent * random_gamma_grad(alpha, samples)]
        tiny = full_as(samples, smallest_normal(type_of(samples).dtype))
        numbers = exp(samples)
        numbers = jnp.where(numbers == full_as(samples, 0), tiny, numbers)
        return [samples], [tangent * (random_gamma_grad(alpha, numbers) / numbers)]

    def on_words(self, keys, alpha, generator, ndim, params):
        def number(key: Any, alpha: Any) -> Any:
            return _gamma_number(wrap_words(key, generator), alpha, params.log_space)

        aval = type_of(alpha)
        if not aval.size:
            return alpha
        count = math.prod(aval.shape[ndim:])
        elements = map_over_leading(ndim, lambda key: generator.split(key, (count,)))(keys)
        elements = reshape(elements, (aval.size, *generator.key_shape))
        numbers = reshape(alpha, (aval.size,))
        if generator is threefry_prng_impl:
            samples = vmap(number)(elements, numbers)
        else:  # other generators draw other bits under `vmap`
            samples = map_each(lambda pair: number(*pair), (elements, numbers))
        return reshape(samples, aval.shape)


random_gamma_p = RandomGamma()


def _gamma_number(key: Array, alpha: Array, log_space: bool) -> Array:
    """One number of the gamma distribution with shape `alpha`, or its logarithm.

    Source: Marsaglia and Tsang, A Simple Method for Generating Gamma Variables, 2000. A shape below 1 is raised by 1,
    and the number multiplied by a power of a uniform one.
    """
    dtype = type_of(alpha).dtype
    one, third = constant_like(alpha, 1), constant_like(alpha, 1 / 3)
    is_large = alpha >= one
    d = jnp.where(is_large, alpha, alpha + one) - third
    c = third / sqrt(d)
    key, boost_key = split_keys(key)

    def is_rejected(state: Any) -> Any:
        _, x_square, v, u = state
        is_outside = u >= one - constant_like(u, 0.0331) * (x_square * x_square)
        bound = x_square * constant_like(u, 0.5) + d * ((one - v) + log(v))
        return is_outside & (log(u) >= bound)

    def draw_again(state: Any) -> Any:
        key, *_ = state
        key, x_key, u_key = split_keys(key, 3)

        def draw_x(state: Any) -> Any:
            key, _, _ = state
            key, subkey = split_keys(key)
            x = normal_numbers(subkey, (), dtype)
            return key, x, one + x * c

        def is_negative(state: Any) -> Any:
            return state[2] <= constant_like(alpha, 0)

        start = (x_key, constant_like(alpha, 0), constant_like(alpha, -1))
        _, x, v = while_loop(is_negative, draw_x, start)
        return key, x * x, v * v * v, uniform_between(u_key, (), dtype)

    start = (key, constant_like(alpha, 0), one, constant_like(alpha, 2))
    _, _, v, _ = while_loop(is_rejected, draw_again, start)
    if log_space:
        logarithm = -_exponential(boost_key, (), dtype)
        is_plain = is_large | (logarithm == constant_like(alpha, 0))
        boost = jnp.where(is_plain, constant_like(alpha, 0), logarithm * (one / alpha))
        return log(d) + log(v) + boost
    boost = jnp.power(one - uniform_between(boost_key, (), dtype), one / alpha)
    return d * v * jnp.where(is_large, one, boost)


@sampler("shape", "dtype", "log_space")
def _gamma(key: Array, shape: Shape, dtype: np.dtype, a: Array, log_space: bool = False) -> Array:
    [a] = broadcast_parameters(dtype, shape, a)
    return bind1(random_gamma_p, key, a, params=RandomGammaParams(log_space))


def _loggamma(key: Array, shape: Shape, dtype: np.dtype, a: Array) -> Array:
    return _gamma(key, shape, dtype, a, True)


def gamma(
    key: Array,
    a: ArrayLike,
    shape: int | Ints | None = None,
    dtype: DTypeLike | None = None,
    *,
    out_sharding: Sharding | PartitionSpec | None = None,
) -> Array:
    """Numbers of the gamma distribution, with density x^(a - 1) exp(-x) / Γ(a) for x ≥ 0.

    Differentiable by `a`. Below 1 most numbers are tiny: `loggamma` gives those that would be 0.

    The result has the given `shape`, by default that of the parameters, which broadcast to it, and `dtype`, by default
    the default floating one.
    Raises: ArgumentTypeError for anything that isn't a key, ShapeError for a batch of keys, for a `shape` of anything but integers
    from 0 and for parameters that do not fit it, ArgumentValueError for a dtype that is not floating-point,
    ArgumentTypeError for parameters that are lists or strings.

    >>> pl.random.gamma(pl.random.key(0), 2.0)
    Array(1.5897877, dtype=float32)
    """
    return draw("gamma", _gamma, key, {"a": a}, shape, dtype, out_sharding)


def loggamma(
    key: Array,
    a: ArrayLike,
    shape: int | Ints | None = None,
    dtype: DTypeLike | None = None,
    *,
    out_sharding: Sharding | PartitionSpec | None = None,
) -> Array:
    """Logarithms of numbers of the gamma distribution; differentiable by `a`.

    The result has the given `shape`, by default that of the parameters, which broadcast to it, and `dtype`, by default
    the default floating one.
    Raises: ArgumentTypeError for anything that isn't a key, ShapeError for a batch of keys, for a `shape` of anything but integers
    from 0 and for parameters that do not fit it, ArgumentValueError for a dtype that is not floating-point,
    ArgumentTypeError for parameters that are lists or strings.

    >>> pl.random.loggamma(pl.random.key(0), 2.0).shape
    ()
    """
    return draw("loggamma", _loggamma, key, {"a": a}, shape, dtype, out_sharding)


# Made of it -------------------------------------------------------------------------------------------


@sampler("shape", "dtype")
def _beta(key: Array, shape: Shape, dtype: np.dtype, a: Array, b: Array) -> Array:
    first, second = split_keys(key)
    log_a, log_b = _loggamma(first, shape, dtype, a), _loggamma(second, shape, dtype, b)
    largest = larger(log_a, log_b)
    of_a = exp(log_a - largest)
    return of_a / (of_a + exp(log_b - largest))


def beta(
    key: Array,
    a: ArrayLike,
    b: ArrayLike,
    shape: int | Ints | None = None,
    dtype: DTypeLike | None = None,
    *,
    out_sharding: Sharding | PartitionSpec | None = None,
) -> Array:
    """Numbers of the beta distribution, with density proportional to x^(a - 1) (1 - x)^(b - 1) for 0 ≤ x ≤ 1.

    Differentiable by `a` and `b`.

    The result has the given `shape`, by default that of the parameters, which broadcast to it, and `dtype`, by default
    the default floating one.
    Raises: ArgumentTypeError for anything that isn't a key, ShapeError for a batch of keys, for a `shape` of anything but integers
    from 0 and for parameters that do not fit it, ArgumentValueError for a dtype that is not floating-point,
    ArgumentTypeError for parameters that are lists or strings.

    >>> pl.random.beta(pl.random.key(0), 2.0, 3.0, (2,)).shape
    (2,)
    """
    return draw("beta", _beta, key, {"a": a, "b": b}, shape, dtype, out_sharding)


@sampler("shape", "dtype")
def _dirichlet(key: Array, shape: Shape, dtype: np.dtype, alpha: Array) -> Array:
    logarithms = _loggamma(key, shape, dtype, alpha)
    largest = stop_gradient(jnp.max(logarithms, axis=-1, keepdims=True, initial=-np.inf))
    numbers = exp(logarithms - largest)
    return numbers / jnp.sum(numbers, axis=-1, keepdims=True)


def dirichlet(
    key: Array,
    alpha: ArrayLike,
    shape: int | Ints | None = None,
    dtype: DTypeLike | None = None,
    *,
    out_sharding: Sharding | PartitionSpec | None = None,
) -> Array:
    """Vectors of the Dirichlet distribution, whose sum is 1; `alpha` has their concentrations along its last axis.

    `shape` is that of the result without its last axis. Differentiable by `alpha`.

    Raises: ShapeError for a scalar `alpha`.

    >>> pl.random.dirichlet(pl.random.key(0), np.ones(3, np.float32), (2,)).shape
    (2, 3)
    """
    typed = single_key("dirichlet", key)
    dtype = checked_dtype("dirichlet", dtype, FLOATING, default_float())
    [alpha] = check_parameters("dirichlet", alpha=alpha)
    alpha_shape = type_of(alpha).shape
    if not alpha_shape:
        raise ShapeError("dirichlet needs concentrations along an axis.", got=type_of(alpha).text())
    if shape is None:
        sizes = alpha_shape
    else:
        sizes = (*shape_of_result("dirichlet", shape), alpha_shape[-1])
        shape_of_result("dirichlet", sizes, alpha)
    return laid_out(out_sharding, _dirichlet, typed, sizes, dtype, alpha)


@sampler("shape", "dtype")
def _chisquare(key: Array, shape: Shape, dtype: np.dtype, df: Array) -> Array:
    [df] = broadcast_parameters(dtype, shape, df)
    two = constant_like(df, 2)
    return exp(_loggamma(key, shape, dtype, df / two)) * two


def chisquare(
    key: Array,
    df: ArrayLike,
    shape: int | Ints | None = None,
    dtype: DTypeLike | None = None,
    *,
    out_sharding: Sharding | PartitionSpec | None = None,
) -> Array:
    """Numbers of the χ² distribution with `df` degrees of freedom.

    The result has the given `shape`, by default that of the parameters, which broadcast to it, and `dtype`, by default
    the default floating one.
    Raises: ArgumentTypeError for anything that isn't a key, ShapeError for a batch of keys, for a `shape` of anything but integers
    from 0 and for parameters that do not fit it, ArgumentValueError for a dtype that is not floating-point,
    ArgumentTypeError for parameters that are lists or strings.

    >>> pl.random.chisquare(pl.random.key(0), 2.0, (2,)).shape
    (2,)
    """
    return draw("chisquare", _chisquare, key, {"df": df}, shape, dtype, out_sharding)


@sampler("shape", "dtype")
def _f(key: Array, shape: Shape, dtype: np.dtype, dfnum: Array, dfden: Array) -> Array:
    dfnum, dfden = broadcast_parameters(dtype, shape, dfnum, dfden)
    first, second = split_keys(key)
    numerator = _chisquare(second, shape, dtype, dfnum) / dfnum
    return numerator / (_chisquare(first, shape, dtype, dfden) / dfden)


def f(
    key: Array, dfnum: ArrayLike, dfden: ArrayLike, shape: int | Ints | None = None, dtype: DTypeLike | None = None, *, out_sharding: Sharding | PartitionSpec | None = None
) -> Array:  # fmt: skip
    """Numbers of the F distribution: quotients of two of χ², each divided by its degrees of freedom.

    The result has the given `shape`, by default that of the parameters, which broadcast to it, and `dtype`, by default
    the default floating one.
    Raises: ArgumentTypeError for anything that isn't a key, ShapeError for a batch of keys, for a `shape` of anything but integers
    from 0 and for parameters that do not fit it, ArgumentValueError for a dtype that is not floating-point,
    ArgumentTypeError for parameters that are lists or strings.

    >>> pl.random.f(pl.random.key(0), 2.0, 3.0, (2,)).shape
    (2,)
    """
    return draw("f", _f, key, {"dfnum": dfnum, "dfden": dfden}, shape, dtype, out_sharding)


@sampler("shape", "dtype")
def _t(key: Array, shape: Shape, dtype: np.dtype, df: Array) -> Array:
    [df] = broadcast_parameters(dtype, shape, df)
    first, second = split_keys(key)
    half = df / constant_like(df, 2)
    return normal_numbers(first, shape, dtype) * sqrt(half / _gamma(second, shape, dtype, half))


def t(
    key: Array,
    df: ArrayLike,
    shape: int | Ints | None = None,
    dtype: DTypeLike | None = None,
    *,
    out_sharding: Sharding | PartitionSpec | None = None,
) -> Array:
    """Numbers of Student's t distribution with `df` degrees of freedom.

    The result has the given `shape`, to which `df` broadcasts, by default that of `df`, and `dtype`, by default the default floating one.
    Raises: ArgumentTypeError for anything that isn't a key, ShapeError for a batch of keys, for a `shape` of anything but integers
    from 0 and for parameters that do not fit it, ArgumentValueError for a dtype that is not floating-point,
    ArgumentTypeError for parameters that are lists or strings.

    >>> pl.random.t(pl.random.key(0), 3.0, (2,)).shape
    (2,)
    """
    return draw("t", _t, key, {"df": df}, shape, dtype, out_sharding)


@sampler("shape", "dtype")
def _generalized_normal(key: Array, shape: Shape, dtype: np.dtype, p: Array) -> Array:
    first, second = split_keys(key)
    inverse = convert_element_type(1 / p, dtype)
    return signs(second, shape, dtype) * jnp.power(_gamma(first, shape, dtype, inverse), inverse)


def generalized_normal(
    key: Array,
    p: ArrayLike,
    shape: int | Ints = (),
    dtype: DTypeLike | None = None,
    *,
    out_sharding: Sharding | PartitionSpec | None = None,
) -> Array:
    """Numbers of the generalized normal distribution, with density proportional to exp(-|x|^p).

    The result has the given `shape`, to which parameters broadcast, and `dtype`, by default the default floating one.
    Raises: ArgumentTypeError for anything that isn't a key, ShapeError for a batch of keys, for a `shape` of anything but integers
    from 0 and for parameters that do not fit it, ArgumentValueError for a dtype that is not floating-point,
    ArgumentTypeError for parameters that are lists or strings.

    >>> pl.random.generalized_normal(pl.random.key(0), 2.0, (2,)).shape
    (2,)
    """
    return draw(
        "generalized_normal", _generalized_normal, key, {"p": p}, shape, dtype, out_sharding
    )


@sampler("shape", "dtype", "d")
def _ball(key: Array, shape: Shape, dtype: np.dtype, p: Array, d: int) -> Array:
    first, second = split_keys(key)
    vectors = _generalized_normal(first, (*shape, d), dtype, p)
    powers = jnp.sum(jnp.power(absolute(vectors), p), axis=-1)
    radius = powers + _exponential(second, shape, dtype)
    return vectors / jnp.expand_dims(jnp.power(radius, convert_element_type(1 / p, dtype)), -1)


def ball(
    key: Array,
    d: int,
    p: ArrayLike = 2,
    shape: int | Ints = (),
    dtype: DTypeLike | None = None,
    *,
    out_sharding: Sharding | PartitionSpec | None = None,
) -> Array:
    """Points in the unit ball of the p-norm in `d` dimensions, an array of shape `(*shape, d)`.

    Its dtype is `dtype`, by default the default floating one; `p` is a scalar.
    Raises: ArgumentTypeError for anything that isn't a key, ShapeError for a batch of keys, for a `p` that isn't a scalar and for a
    `shape` of anything but integers from 0, ArgumentValueError for a `d` that isn't an integer from 0 and for a dtype that
    is not floating-point.
    Source: Barthe, Guédon, Mendelson and Naor, A probabilistic approach to the geometry of the lₚⁿ-ball, 2005.

    >>> pl.random.ball(pl.random.key(0), 3, shape=(2,)).shape
    (2, 3)
    """
    typed = single_key("ball", key)
    dtype = checked_dtype("ball", dtype, FLOATING, default_float())
    [p] = check_parameters("ball", p=p)
    if not isinstance(d, int) or d < 0:
        raise ArgumentValueError(
            "ball: a number of dimensions is a positive integer.", got=f"d: {d!r}"
        )
    return laid_out(out_sharding, _ball, typed, shape_of_result("ball", shape), dtype, p, d)


__all__ = [
    "ball", "beta", "chisquare", "dirichlet", "f", "gamma", "generalized_normal", "loggamma", "random_gamma_p", "t",
]  # fmt: skip

public_functions(__all__, globals())

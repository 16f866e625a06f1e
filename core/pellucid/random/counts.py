"""Distributions of counts: Poisson, binomial, multinomial, geometric."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from pellucid import numpy as jnp
from pellucid._machine.base import (
    ArrayLike,
    DTypeLike,
    Ints,
    UnsupportedError,
    dtypes,
    public_functions,
)
from pellucid._machine.higher_order.loops import scan, while_loop
from pellucid._machine.primitives.arithmetic import abs as absolute, ceil, floor, log, neg, sqrt
from pellucid._machine.primitives.conversion import convert_element_type
from pellucid._machine.primitives.families import FLOATING, INTEGER, constant_like
from pellucid._machine.primitives.transcendental import lgamma, log1p
from pellucid._machine.sharding import PartitionSpec, Sharding
from pellucid._machine.tracing import type_of
from pellucid._machine.xla.arrays import Array

from .continuous import broadcast_parameters, draw
from .generators import threefry_prng_impl
from .keys import clone, split_keys
from .sampling import (
    Shape,
    check_parameters,
    checked_dtype,
    laid_out,
    sampler,
    shape_of_result,
    single_key,
)
from .uniform import default_float, uniform_between

# geometric --------------------------------------------------------------------------------------------


@sampler("shape", "dtype")
def _geometric(key: Array, shape: Shape, dtype: np.dtype, p: Array) -> Array:
    [p] = broadcast_parameters(default_float(), shape, p)
    numbers = uniform_between(key, shape, default_float())
    one = constant_like(numbers, 1)
    numbers = jnp.where(numbers == constant_like(numbers, 0), one, numbers)
    return convert_element_type(floor(log(numbers) / log1p(neg(p))) + one, dtype)


def geometric(
    key: Array,
    p: ArrayLike,
    shape: int | Ints | None = None,
    dtype: DTypeLike | None = None,
    *,
    out_sharding: Sharding | PartitionSpec | None = None,
) -> Array:
    """Numbers of trials up to the first success, whose probability in each is `p`.

    The result has the given `shape`, by default that of `p`, which broadcasts to it, and the integer `dtype`, by
    default int32, or int64 with 64-bit dtypes.
    Raises: ArgumentTypeError for anything that isn't a key, ShapeError for a batch of keys, for a `shape` of anything but integers
    from 0 and for parameters that do not fit it, ArgumentValueError for a dtype that is not integer, ArgumentTypeError
    for parameters that are lists or strings.

    >>> pl.random.geometric(pl.random.key(0), 0.3, (2,)).shape
    (2,)
    """
    return _draw_counts("geometric", _geometric, key, {"p": p}, shape, dtype, out_sharding)


def _draw_counts(
    caller: str, function: Any, key: Array, parameters: dict[str, Any], shape: Any, dtype: DTypeLike | None, out_sharding: Sharding | PartitionSpec | None
) -> Any:  # fmt: skip
    typed = single_key(caller, key)
    dtype = checked_dtype(caller, dtype, INTEGER, dtypes.default_int_dtype())
    operands = check_parameters(caller, **parameters)
    shape = shape_of_result(caller, shape, *operands)
    return laid_out(out_sharding, function, typed, shape, dtype, *operands)


# poisson ----------------------------------------------------------------------------------------------

_FIRST_RATE_OF_REJECTION = 10.0
"""Rate from which on rejection takes fewer rounds than the product of uniform numbers."""


@sampler("shape", "dtype")
def _poisson(key: Array, shape: Shape, dtype: np.dtype, lam: Array) -> Array:
    [lam] = broadcast_parameters(np.float32, shape, lam)
    zero = constant_like(lam, 0)
    is_small = (lam != lam) | (lam < constant_like(lam, _FIRST_RATE_OF_REJECTION))  # noqa: PLR0124
    by_product = _poisson_by_product(key, jnp.where(is_small, lam, zero), dtype)
    large = jnp.where(is_small, constant_like(lam, 1e5), lam)
    samples = jnp.where(is_small, by_product, _poisson_by_rejection(clone(key), large, dtype))
    return jnp.where(lam == zero, constant_like(samples, 0), samples)


def _poisson_by_product(key: Array, lam: Array, dtype: np.dtype) -> Array:
    """Poisson numbers: how many uniform numbers can be multiplied before their product falls to exp(-lam).

    Source: Knuth, The Art of Computer Programming, volume 2, 3.4.1.
    """
    shape, limit = type_of(lam).shape, neg(lam)
    n_rounds = np.int32(min(dtypes.iinfo(dtype).max, np.iinfo(np.int32).max))

    def is_unfinished(state: Any) -> Any:
        i, _, _, log_product = state
        return jnp.any(log_product > limit) & (i < n_rounds)

    def multiply_next(state: Any) -> Any:
        i, count, key, log_product = state
        key, subkey = split_keys(key)
        count = jnp.where(log_product > limit, count + constant_like(count, 1), count)
        return (
            i + np.int32(1),
            count,
            key,
            log_product + log(uniform_between(subkey, shape, np.dtype(np.float32))),
        )

    count = jnp.zeros(shape, dtype)
    start = (np.int32(0), count, key, jnp.zeros(shape, np.float32))
    return while_loop(is_unfinished, multiply_next, start)[1] - constant_like(count, 1)


def _poisson_by_rejection(key: Array, lam: Array, dtype: np.dtype) -> Array:
    """Poisson numbers by transformed rejection with squeeze.

    Source: Hörmann, The Transformed Rejection Method for Generating Poisson Random Variables, 1993, algorithm PTRS.
    """
    log_lam = log(lam)
    b = 0.931 + 2.53 * sqrt(lam)
    a = -0.059 + 0.02483 * b
    inverse_alpha = 1.1239 + 1.1328 / (b - 3.4)
    v_r = 0.9277 - 3.6224 / (b - 2.0)

    def propose(u: Any, v: Any) -> tuple[Any, Any]:
        us = 0.5 - absolute(u)
        k = floor((2.0 * a / us + b) * u + lam + 0.43)
        s = log(v * inverse_alpha / (a / (us * us) + b))
        t = neg(lam) + k * log_lam - lgamma(k + 1.0)
        is_squeezed = (us >= 0.07) & (v <= v_r)
        is_impossible = (k < 0) | ((us < 0.013) & (v > us))
        return k, is_squeezed | (~is_impossible & (s <= t))

    n_rounds = min(dtypes.iinfo(dtype).max, np.iinfo(np.int32).max)
    samples = _sample_by_rejection(key, type_of(lam), propose, np.int32(n_rounds))
    return convert_element_type(samples, dtype)


def _sample_by_rejection(key: Array, aval: Any, proposed: Any, n_rounds: Any) -> Array:
    """Samples of type `aval` that `proposed(u, v)` accepts, where u is uniform between -½ and ½, v between 0 and 1."""

    def is_unfinished(state: Any) -> Any:
        i, _, accepted, _ = state
        return jnp.any(~accepted) & (i < n_rounds)

    def propose_again(state: Any) -> Any:
        i, samples, accepted, key = state
        key, u_key, v_key = split_keys(key, 3)
        half = constant_like(samples, 0.5)
        u = uniform_between(u_key, aval.shape, aval.dtype) - half
        k, accept = proposed(u, uniform_between(v_key, aval.shape, aval.dtype))
        return i + np.int32(1), jnp.where(accept, k, samples), accepted | accept, key

    start = (np.int32(0), jnp.full(aval.shape, -1, aval.dtype), jnp.zeros(aval.shape, bool), key)
    return while_loop(is_unfinished, propose_again, start)[1]


def poisson(
    key: Array,
    lam: ArrayLike,
    shape: int | Ints | None = None,
    dtype: DTypeLike | None = None,
    *,
    out_sharding: Sharding | PartitionSpec | None = None,
) -> Array:
    """Integers of the Poisson distribution with rate `lam`; -1 where the rate is negative or NaN.

    Raises: UnsupportedError for keys of other generators than threefry2x32, whose bits depend on the batch.

    The result has the given `shape`, by default that of `lam`, which broadcasts to it, and the integer `dtype`, by
    default int32, or int64 with 64-bit dtypes.

    >>> pl.random.poisson(pl.random.key(0), 20.0, (2,)).shape
    (2,)
    """
    generator = single_key("poisson", key).dtype.implementation
    if generator is not threefry_prng_impl:
        raise UnsupportedError(
            "poisson needs keys of the generator threefry2x32.", got=f"key: {generator.dtype}"
        )
    return _draw_counts("poisson", _poisson, key, {"lam": lam}, shape, dtype, out_sharding)


# binomial ---------------------------------------------------------------------------------------------


@sampler("shape", "dtype")
def _binomial(key: Array, shape: Shape, dtype: np.dtype, n: Array, p: Array) -> Array:
    n, p = broadcast_parameters(dtype, shape, n, p)
    zero, half, one = (constant_like(p, x) for x in (0, 0.5, 1))
    is_below_half = p < half
    q = jnp.where(is_below_half, p, one - p)
    is_bad_n, is_infinite = jnp.isnan(n) | (n < zero), jnp.isinf(n)
    is_nan, is_negative = jnp.isnan(q), q < zero
    q = jnp.where(is_nan | is_negative, constant_like(q, 0.01), q)
    is_small = is_bad_n | (n * q <= constant_like(q, 10))
    n = floor(n)
    by_steps = _binomial_by_steps(key, jnp.where(is_small, n, zero), q)
    by_rejection = _binomial_by_rejection(
        clone(key), jnp.where(is_small, constant_like(n, 1e4), n), jnp.where(is_small, half, q)
    )
    samples = jnp.where(is_small, by_steps, by_rejection)
    is_undefined = is_negative | is_nan | is_bad_n
    samples = jnp.where(is_undefined, constant_like(n, math.nan), samples)
    samples = jnp.where(is_infinite & ~is_undefined, constant_like(n, math.inf), samples)
    is_direct = is_below_half | is_bad_n | is_nan | is_infinite
    return jnp.where(is_direct, samples, n - samples)


def _binomial_by_steps(key: Array, n: Array, p: Array) -> Array:
    """Binomial numbers: how many geometric steps fit into `n` trials. Source: Devroye, Non-Uniform Random Variate
    Generation, X.4.
    """
    aval = type_of(n)
    log_failure = log1p(neg(p))

    def is_unfinished(state: Any) -> Any:
        return jnp.any(state[1] <= n)

    def advance(state: Any) -> Any:
        count, total, key = state
        subkey, key = split_keys(key)
        count = jnp.where(total <= n, count + constant_like(count, 1), count)
        return (
            count,
            total + ceil(log(uniform_between(subkey, aval.shape, aval.dtype)) / log_failure),
            key,
        )

    zeros = jnp.zeros(aval.shape, aval.dtype)
    return while_loop(is_unfinished, advance, (zeros, zeros, key))[0] - constant_like(n, 1)


def _stirling_tail(k: int) -> float:
    """log(k!) less the first terms of Stirling's formula at k + 1."""
    return math.lgamma(k + 1) - (
        0.5 * math.log(2 * math.pi) + (k + 0.5) * math.log(k + 1) - (k + 1)
    )


_TAILS = tuple(_stirling_tail(k) for k in range(10))


def _tails(k: Array) -> Array:
    """`_stirling_tail` of whole numbers: from a table up to 9, from three terms of its series above."""
    largest = constant_like(k, len(_TAILS) - 1)
    next_k = k + constant_like(k, 1)
    square = next_k * next_k
    series = (1 / 12 - (1 / 360 - 1 / 1260 / square) / square) / next_k
    table = jnp.asarray(np.asarray(_TAILS, type_of(k).dtype))
    position = jnp.clip(k, constant_like(k, 0), largest).astype(np.int32)
    return jnp.where(k <= largest, table[position], series)


def _binomial_by_rejection(key: Array, n: Array, p: Array) -> Array:
    """Binomial numbers by transformed rejection with squeeze.

    Source: Hörmann, The Generation of Binomial Random Variates, 1993, algorithm BTRS.
    """
    root = sqrt(n * p * (1 - p))
    b = 1.15 + 2.53 * root
    a = -0.0873 + 0.0248 * b + 0.01 * p
    c = n * p + 0.5
    v_r = 0.92 - 4.2 / b
    r = p / (1 - p)
    alpha = (2.83 + 5.1 / b) * root
    m = floor((n + 1) * p)

    def propose(u: Any, v: Any) -> tuple[Any, Any]:
        us = 0.5 - absolute(u)
        is_squeezed = (us >= 0.07) & (v <= v_r)
        k = floor((2 * a / us + b) * u + c)
        is_impossible = (k < 0) | (k > n)
        v = log(v * alpha / (a / (us * us) + b))
        bound = (
            (m + 0.5) * log((m + 1) / (r * (n - m + 1)))
            + (n + 1) * log((n - m + 1) / (n - k + 1))
            + (k + 0.5) * log(r * (n - k + 1) / (k + 1))
            + _tails(m) + _tails(n - m) - _tails(k) - _tails(n - k)
        )  # fmt: skip
        return k, is_squeezed | (~is_impossible & (v <= bound))

    return _sample_by_rejection(key, type_of(n), propose, np.int32(np.iinfo(np.int32).max))


def binomial(
    key: Array,
    n: ArrayLike,
    p: ArrayLike,
    shape: int | Ints | None = None,
    dtype: DTypeLike | None = None,
) -> Array:
    """Numbers of successes in `n` trials with probability `p` each, as floating numbers.

    NaN where `n` is negative or NaN, or `p` is no probability.

    The result has the given `shape`, by default that of the parameters, which broadcast to it, and `dtype`, by default
    the default floating one.
    Raises: ArgumentTypeError for anything that isn't a key, ShapeError for a batch of keys, for a `shape` of anything but integers
    from 0 and for parameters that do not fit it, ArgumentValueError for a dtype that is not floating-point,
    ArgumentTypeError for parameters that are lists or strings.

    >>> pl.random.binomial(pl.random.key(0), 10.0, 0.3, (2,)).shape
    (2,)
    """
    return draw("binomial", _binomial, key, {"n": n, "p": p}, shape, dtype)


# multinomial ------------------------------------------------------------------------------------------


@sampler("shape", "dtype", "unroll")
def _multinomial(
    key: Array, shape: Shape, dtype: np.dtype, n: Array, p: Array, unroll: int
) -> Array:
    p = jnp.broadcast_to(convert_element_type(p, dtype), shape)
    n = jnp.broadcast_to(convert_element_type(n, dtype), shape[:-1])
    # Outcomes are drawn one after the other, each among the trials that are left.
    rest = jnp.flip(jnp.cumsum(jnp.flip(p, -1), axis=-1), -1)
    shares = p / jnp.where(rest == constant_like(rest, 0), constant_like(rest, 1), rest)
    keys = jnp.stack(split_keys(key, shape[-1]))

    def draw_next(left: Any, x: Any) -> tuple[Any, Any]:
        share, key = x
        count = _binomial(key, shape[:-1], dtype, left, jnp.clip(share, 0, 1))
        return left - count, count

    counts = scan(draw_next, n, (jnp.moveaxis(shares, -1, 0), keys), unroll=unroll)[1]
    return jnp.moveaxis(counts, 0, -1)


def multinomial(
    key: Array,
    n: ArrayLike,
    p: ArrayLike,
    *,
    shape: int | Ints | None = None,
    dtype: DTypeLike | None = None,
    unroll: int = 1,
) -> Array:
    """Numbers of each outcome in `n` trials; `p` has their probabilities along its last axis.

    `unroll` is that of the `scan` over outcomes. `shape` is that of the result.

    The result has the dtype `dtype`, by default the default floating one; without `shape`, `n` broadcasts with `p` but
    for its last axis.
    Raises: ArgumentTypeError for anything that isn't a key, ShapeError for a batch of keys and for shapes that do not fit,
    AxisError for a `p` without axes, ArgumentValueError for a dtype that is not floating-point.

    >>> pl.random.multinomial(pl.random.key(0), 10.0, np.ones(3, np.float32) / 3).shape
    (3,)
    """
    typed = single_key("multinomial", key)
    dtype = checked_dtype("multinomial", dtype, FLOATING, default_float())
    n, p = check_parameters("multinomial", n=n, p=p)
    with_axis = np.broadcast_shapes((*type_of(n).shape, 1)) if type_of(n).ndim else ()
    parameter_shape = shape_of_result("multinomial", None, np.empty(with_axis), p)
    sizes = parameter_shape if shape is None else shape_of_result("multinomial", shape)
    if shape is not None:
        shape_of_result("multinomial", sizes, np.empty(with_axis), p)
    return _multinomial(typed, sizes, dtype, n, p, unroll)


__all__ = ["binomial", "geometric", "multinomial", "poisson"]

public_functions(__all__, globals())

"""Polynomials by their coefficients, highest power first."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from pellucid._machine.base import (
    ArgumentTypeError,
    ArgumentValueError,
    ArrayLike,
    ConcretizationTypeError,
    ShapeError,
    dtypes,
    larger,
    public_functions,
)
from pellucid._machine.higher_order.loops import scan
from pellucid._machine.primitives.assembly import pad
from pellucid._machine.primitives.families import scalar
from pellucid._machine.primitives.movement import broadcast_shapes
from pellucid._machine.tracing import Tracer, operand_lines, type_of
from pellucid._machine.xla.arrays import Array

from .compiled import numpy_function
from .convolutions import convolve
from .creation import arange, asarray, eye, zeros
from .elementwise import sqrt
from .joining import concatenate
from .linalg.decompositions import eigvals
from .linalg.equations import inv, lstsq
from .manipulation import atleast_1d, broadcast_to, expand_dims
from .products import matmul, outer
from .promotion import aval_of, known_int, promote_dtypes, promote_dtypes_inexact
from .reductions import sum


def _coefficients(name: str, promote: Callable[..., list[Any]], *operands: ArrayLike) -> list[Any]:
    """`operands`, converted by `promote`; raises ShapeError unless they are vectors."""
    promoted = promote(name, *operands)
    if any(type_of(x).ndim != 1 for x in promoted):
        raise ShapeError(
            f"jnp.{name} needs vectors of coefficients.",
            got=operand_lines(promoted),
            do="Use `jnp.atleast_1d` for a constant.",
        )
    return promoted


def _pad_to_longer(a1: Array, a2: Array) -> tuple[Any, ...]:
    length = larger(type_of(a1).shape[0], type_of(a2).shape[0])
    return tuple(
        pad(a, scalar(0, a.dtype), [(length - type_of(a).shape[0], 0, 0)]) for a in (a1, a2)
    )


@numpy_function
def polyadd(a1: ArrayLike, a2: ArrayLike) -> Array:
    """Sum of two polynomials.

    Result: a vector of coefficients, the highest power first, as long as the longer of both; dtype that they promote
    to.
    Raises: ArgumentTypeError for lists and other values that aren't arrays, ShapeError for coefficients that aren't
    vectors.

    >>> polyadd(jnp.array([1, 2]), jnp.array([1, 2, 3]))
    Array([1, 3, 5], dtype=int32)
    """
    left, right = _pad_to_longer(*_coefficients("polyadd", promote_dtypes, a1, a2))
    return left + right


@numpy_function
def polysub(a1: ArrayLike, a2: ArrayLike) -> Array:
    """Difference of two polynomials.

    Result: a vector of coefficients, the highest power first, as long as the longer of both; dtype that they promote
    to.
    Raises: ArgumentTypeError for lists and other values that aren't arrays, ShapeError for coefficients that aren't
    vectors, DtypeError for bools.

    >>> polysub(jnp.array([1, 2]), jnp.array([1, 2, 3]))
    Array([-1, -1, -1], dtype=int32)
    """
    left, right = _pad_to_longer(*_coefficients("polysub", promote_dtypes, a1, a2))
    return left - right


def _trim(x: Any) -> tuple[Any, int]:
    """(`x`, which isn't traced, without leading and trailing zeros; the number of trailing ones)."""
    nonzero = np.flatnonzero(np.asarray(x))
    if not nonzero.size:
        return x[:0], 0
    stop = int(nonzero[-1]) + 1
    return x[int(nonzero[0]) : stop], type_of(x).size - stop


def _without_leading_zeros(x: Any) -> Any:
    inner, trailing = _trim(x)
    return x[type_of(x).size - trailing - type_of(inner).size :]


def polymul(a1: ArrayLike, a2: ArrayLike, *, trim_leading_zeros: bool = False) -> Array:
    """Product of two polynomials, floating; with `trim_leading_zeros` (not under a trace) without leading zeros.

    Result: a vector [n + m - 1] of coefficients, the highest power first.
    Raises: ArgumentTypeError for lists and other values that aren't arrays, ShapeError for coefficients that aren't
    vectors, TracerArrayConversionError for `trim_leading_zeros` under a trace.

    >>> polymul(jnp.array([1, 2]), jnp.array([1, 3]))
    Array([1., 5., 6.], dtype=float32)
    """
    a1, a2 = _coefficients("polymul", promote_dtypes_inexact, a1, a2)
    if trim_leading_zeros:
        a1, a2 = map(_without_leading_zeros, (a1, a2))
    a1, a2 = (x if type_of(x).size else zeros((1,), type_of(x).dtype) for x in (a1, a2))
    return convolve(a1, a2)


def polydiv(u: ArrayLike, v: ArrayLike, *, trim_leading_zeros: bool = False) -> tuple[Any, Any]:
    """(quotient, remainder) of the polynomial `u` by `v`, floating; the remainder has the length of `u`.

    With `trim_leading_zeros` (not under a trace) the remainder has no leading zeros.
    Result: vectors of coefficients, the highest power first; the quotient [max(n - m, 0) + 1].
    Raises: ArgumentTypeError for lists and other values that aren't arrays, ShapeError for coefficients that aren't
    vectors, TracerArrayConversionError for `trim_leading_zeros` under a trace, IndexingError for an empty `v`.

    >>> polydiv(jnp.array([1.0, 5.0, 6.0]), jnp.array([1.0, 2.0]))
    (Array([1., 3.], dtype=float32), Array([0., 0., 0.], dtype=float32))
    """
    u, v = _coefficients("polydiv", promote_dtypes_inexact, u, v)
    quotient, remainder = _divide(u, v)
    return quotient, _without_leading_zeros(remainder) if trim_leading_zeros else remainder


@numpy_function
def _divide(u: Any, v: Any) -> tuple[Any, Any]:
    m, n = type_of(u).shape[0] - 1, type_of(v).shape[0] - 1
    u, v = asarray(u), asarray(v)
    scale = 1.0 / v[0]
    quotient = zeros((max(m - n + 1, 1),), u.dtype)
    for k in range(m - n + 1):
        factor = scale * u[k]
        quotient = quotient.at[k].set(factor)
        u = u.at[k : k + n + 1].add(-factor * v)
    return quotient, u


def polyval(p: ArrayLike, x: ArrayLike, *, unroll: int = 16) -> Array:
    """Values at `x` of the polynomial with the coefficients `p` [n], by Horner's scheme.

    Result: shape of `x`, which broadcasts with `p.shape[1:]`; dtype that both promote to. `unroll`: how many steps of
    the loop are one step of the compiled program.
    Raises: ArgumentTypeError for lists and other values that aren't arrays and for an `unroll` that is no int,
    ShapeError for a scalar `p`, ShapeError for shapes that don't broadcast.

    >>> polyval(jnp.array([1, 2, 3]), 2)
    Array(11, dtype=int32)
    """
    return _polyval(p, x, known_int("polyval", "unroll", unroll))


@numpy_function(static="unroll")
def _polyval(p: ArrayLike, x: ArrayLike, unroll: int) -> Any:
    aval_of("polyval", x, 1)
    p, x = promote_dtypes("polyval", p, x)
    if not type_of(p).ndim:
        raise ShapeError("jnp.polyval needs a vector of coefficients.", got=operand_lines([p]))
    shape = broadcast_shapes(type_of(p).shape[1:], type_of(x).shape)
    start = broadcast_to(zeros((), type_of(p).dtype), shape)
    if not type_of(p).shape[0]:
        return start
    return scan(lambda y, c: (y * x + c, None), start, p, unroll=unroll)[0]


def polyder(p: ArrayLike, m: int = 1) -> Array:
    """Derivative number `m` of a polynomial, floating.

    Result: a vector of coefficients, the highest power first, shorter by `m`.
    Raises: ArgumentTypeError for lists and other values that aren't arrays and for an `m` that is no int,
    ArgumentValueError for a negative `m`, ShapeError for coefficients that aren't vectors.

    >>> polyder(jnp.array([1, 2, 3]))
    Array([2., 2.], dtype=float32)
    """
    [coefficients] = _coefficients("polyder", promote_dtypes_inexact, p)
    m = known_int("polyder", "m", m)
    if m < 0:
        raise ArgumentValueError("jnp.polyder needs an order that isn't negative.", got=f"m={m}")
    if not m:
        return asarray(coefficients)
    return _polyder(coefficients, m)


@numpy_function(static=("m",))
def _polyder(coefficients: Any, m: int) -> Any:
    degree = type_of(coefficients).shape[0] - 1
    factors = [math.perm(power, m) for power in range(degree, m - 1, -1)]
    dtype = type_of(coefficients).dtype
    return coefficients[: max(degree + 1 - m, 0)] * np.asarray(factors, dtype)


def polyint(p: ArrayLike, m: int = 1, k: ArrayLike | None = None) -> Array:
    """Integral number `m` of a polynomial, floating; `k` are its `m` constants, or one for all (0).

    Result: a vector of coefficients, the highest power first, longer by `m`.
    Raises: ArgumentTypeError for lists and other values that aren't arrays and for an `m` that is no int,
    ArgumentValueError for a negative `m` or another number of constants, ShapeError for coefficients that aren't
    vectors.

    >>> polyint(jnp.array([2.0, 2.0]))
    Array([1., 2., 0.], dtype=float32)
    """
    m = known_int("polyint", "m", m)
    if m < 0:
        raise ArgumentValueError("jnp.polyint needs an order that isn't negative.", got=f"m={m}")
    return _polyint(p, 0 if k is None else k, m)


@numpy_function(static="m")
def _polyint(p: ArrayLike, k: ArrayLike, m: int) -> Any:
    p, constants = _coefficients("polyint", promote_dtypes_inexact, p, atleast_1d(k))
    if type_of(constants).shape not in ((1,), (m,)):
        raise ArgumentValueError(
            "jnp.polyint needs one constant, or one for each integration.",
            got=f"m={m}, k: {type_of(constants).text()}",
        )
    if not m:
        return asarray(p)
    constants = broadcast_to(constants, (m,))
    length = type_of(p).shape[0]
    # Coefficients, then constants: the first constant is integrated m - 1 times, the last one never.
    joined = concatenate([p, constants])
    powers = np.arange(length + m - 1, -1, -1)
    divisors = [
        math.perm(int(power), m) if i < length else math.factorial(int(power))
        for i, power in enumerate(powers)
    ]
    return joined / np.asarray(divisors, type_of(joined).dtype)


def poly(seq_of_zeros: ArrayLike) -> Array:
    """Coefficients of the polynomial with these zeros, or of the characteristic polynomial of a square matrix.

    Of no zeros it is the number 1, as NumPy's.
    Raises: ArgumentValueError for other shapes.

    >>> poly(jnp.array([1, 2]))
    Array([ 1., -3.,  2.], dtype=float32)
    """
    aval = aval_of("poly", seq_of_zeros)
    [zeros_of] = promote_dtypes_inexact("poly", seq_of_zeros)
    zeros_of = atleast_1d(zeros_of)
    shape = type_of(zeros_of).shape
    if len(shape) == 2 and shape[0] == shape[1] and shape[0]:
        zeros_of = eigvals(zeros_of)
    elif len(shape) != 1:
        raise ArgumentValueError(
            "jnp.poly needs a vector or a square matrix.", got=f"got {aval.text()}"
        )
    if not type_of(zeros_of).size:
        return asarray(1, dtype=zeros_of.dtype)
    return _poly(zeros_of)


@numpy_function
def _poly(zeros_of: Any) -> Any:
    coefficients = asarray([1], dtype=zeros_of.dtype)
    for i in range(type_of(zeros_of).shape[0]):
        factor = concatenate([coefficients[:1], -zeros_of[i : i + 1]])
        coefficients = convolve(coefficients, factor)
    return coefficients


def roots(p: ArrayLike, *, strip_zeros: bool = True) -> Array:
    """Zeros of the polynomial with the coefficients `p`, complex: eigenvalues of its companion matrix.

    Leading and trailing zeros are stripped first, which needs known coefficients; under a trace pass
    `strip_zeros=False`: then a leading 0 gives NaN.
    Raises: ArgumentValueError for coefficients that are no vector, ConcretizationTypeError for traced ones to strip.

    >>> roots(jnp.array([1.0, -3.0, 2.0]))
    Array([2.+0.j, 1.+0.j], dtype=complex64)
    """
    aval = aval_of("roots", p)
    [p] = promote_dtypes_inexact("roots", p)
    p = _wide(atleast_1d(p))
    if type_of(p).ndim != 1:
        raise ArgumentValueError("jnp.roots needs a vector.", got=f"got {aval.text()}")
    result = dtypes.to_complex_dtype(type_of(p).dtype)
    if not strip_zeros:
        return _companion_roots(p) if type_of(p).size > 1 else zeros((0,), result)
    if isinstance(p, Tracer):
        raise ConcretizationTypeError(
            "jnp.roots can't strip zeros: the coefficients are traced.",
            got=f"got {aval.text()}",
            do="Pass strip_zeros=False.",
        )
    inner, trailing = _trim(p)
    nonzero_roots = _companion_roots(inner) if type_of(inner).size > 1 else zeros((0,), result)
    return concatenate([zeros((trailing,), result), nonzero_roots])


def _wide(x: ArrayLike) -> Any:
    """`x` in single precision or wider: decompositions accept no half precision."""
    return asarray(x, dtype=dtypes.promote_types(type_of(x).dtype, np.float32))


@numpy_function
def _companion_roots(p: Any) -> Any:
    n = type_of(p).size - 1
    matrix = concatenate([expand_dims(-p[1:] / p[0], 0), eye(n, dtype=type_of(p).dtype)[: n - 1]])
    return eigvals(matrix)


def polyfit(
    x: ArrayLike,
    y: ArrayLike,
    deg: int,
    rcond: float | None = None,
    full: bool = False,
    w: ArrayLike | None = None,
    cov: bool | str = False,
) -> Any:
    """Coefficients [deg + 1] of the polynomial through the points `(x, y)`, by least squares; `y` may have columns.

    `w` are weights of the points. With `full` also residuals, rank, singular values and `rcond`; with `cov` also the
    covariance matrix, scaled by the residuals unless it is "unscaled".
    Raises: ArgumentValueError for a negative degree, ArgumentTypeError for points, values and weights that don't fit.

    >>> polyfit(jnp.array([0.0, 1.0, 2.0]), jnp.array([1.0, 3.0, 5.0]), 1).round(3)
    Array([2., 1.], dtype=float32)
    """
    order = known_int("polyfit", "deg", deg) + 1
    avals = [aval_of("polyfit", each, i) for i, each in enumerate((x, y))]
    if order < 1:
        raise ArgumentValueError(
            "jnp.polyfit needs a degree that isn't negative.", got=f"deg={deg}"
        )
    if avals[0].ndim != 1 or not avals[0].size or avals[1].ndim not in (1, 2):
        raise ArgumentTypeError(
            "jnp.polyfit needs a vector of points with one or two dimensions of values.",
            got=f"x: {avals[0].text()}, y: {avals[1].text()}",
        )
    if avals[0].shape[0] != avals[1].shape[0]:
        raise ArgumentTypeError(
            "jnp.polyfit needs a value for each point.",
            got=f"x: {avals[0].text()}, y: {avals[1].text()}",
        )
    x, y = promote_dtypes_inexact("polyfit", x, y)
    dtype, n = type_of(x).dtype, avals[0].shape[0]
    x, y = _wide(x), _wide(y)
    rcond = float(n * dtypes.finfo(dtype).eps) if rcond is None else rcond
    lhs, rhs = vander(x, order), y
    if w is not None:
        if aval_of("polyfit", w, 2).shape != (n,):
            raise ArgumentTypeError(
                "jnp.polyfit needs a weight for each point.", got=type_of(w).text()
            )
        [weights] = promote_dtypes_inexact("polyfit", w)
        dtype = dtypes.promote_types(dtype, type_of(weights).dtype)
        lhs = lhs * expand_dims(weights, 1)
        rhs = rhs * (expand_dims(weights, 1) if type_of(rhs).ndim == 2 else weights)
    scale = sqrt(sum((lhs * lhs.conj()).real, axis=0))
    coefficients, residuals, rank, singular = lstsq(lhs / scale, rhs, rcond)
    coefficients = (coefficients.T / scale).T.astype(dtype)
    if full:
        return coefficients, residuals, rank, singular, asarray(rcond)
    if not cov:
        return coefficients
    scaled = lhs / scale
    base = inv(matmul(scaled.T, scaled)) / outer(scale, scale)
    if cov == "unscaled":
        factor: Any = 1
    else:
        if n <= order:
            raise ArgumentValueError(
                "jnp.polyfit needs more points than coefficients for a covariance.",
                got=f"{n} points, {order} coefficients",
            )
        factor = residuals / (n - order)
    return coefficients, (base * factor if type_of(y).ndim == 1 else base[:, :, None] * factor)


def vander(x: ArrayLike, N: int | None = None, increasing: bool = False) -> Array:
    """Vandermonde matrix [n, N] of the vector `x` [n]: column k has its powers N - 1 - k, or k if `increasing`.

    Raises: ArgumentValueError for an array that is no vector, and for a negative `N`.

    >>> vander(jnp.array([2, 3]), 3)
    Array([[4, 2, 1],
           [9, 3, 1]], dtype=int32)
    """
    aval = aval_of("vander", x)
    if aval.ndim != 1:
        raise ArgumentValueError("jnp.vander needs a vector.", got=f"got {aval.text()}")
    count = aval.shape[0] if N is None else known_int("vander", "N", N)
    if count < 0:
        raise ArgumentValueError("jnp.vander needs a number of columns.", got=f"N={count}")
    powers = arange(count, dtype=aval.dtype if aval.dtype in dtypes.KINDS["integral"] else np.int32)
    return expand_dims(asarray(x), 1) ** (powers if increasing else powers[::-1])


__all__ = [
    "poly", "polyadd", "polyder", "polydiv", "polyint", "polymul", "polyfit", "polysub", "polyval", "roots", "vander",
]  # fmt: skip

public_functions(__all__, globals())

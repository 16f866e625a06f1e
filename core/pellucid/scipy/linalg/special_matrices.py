"""Matrices of a special form."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import pellucid.numpy as jnp
from pellucid._machine.base import (
    ArgumentValueError,
    ArrayLike,
    DTypeLike,
    ShapeError,
    larger,
    public_functions,
)
from pellucid._machine.primitives.assembly import pad
from pellucid._machine.primitives.creation import checked_shape
from pellucid._machine.tracing import type_of
from pellucid._machine.xla.arrays import Array
from pellucid.numpy.compiled import numpy_function
from pellucid.numpy.promotion import aval_of, known_int, promote_dtypes


def _vectors(name: str, *operands: Any, least: int = 0) -> list[Any]:
    """`operands` as arrays whose last axes are vectors of at least `least` elements."""
    for i, x in enumerate(operands):
        aval = aval_of(f"scipy.linalg.{name}", x, i)
        if not aval.ndim or aval.shape[-1] < least:
            raise ShapeError(
                f"scipy.linalg.{name} needs vectors of at least {least} elements.",
                got=f"argument {i}: {aval.text()}",
            )
    return [jnp.asarray(x) for x in operands]


def _map_vectors(signature: str, function: Any, *operands: Any) -> Any:
    """`function` of vectors, mapped over all axes of `operands` but their last."""
    return jnp.vectorize(function, signature=signature)(*operands)


def block_diag(*arrs: ArrayLike) -> Array:
    """A matrix with the matrices `arrs` along its diagonal, and zeros elsewhere; vectors are rows.

    Raises: ShapeError above rank 2.

    >>> block_diag(np.ones((1, 2)), 3.0)
    Array([[1., 1., 0.],
           [0., 0., 3.]], dtype=float32)
    """
    arrays = [
        jnp.atleast_2d(x)
        for x in promote_dtypes(
            "scipy.linalg.block_diag", *(arrs or (np.zeros((1, 0), np.float32),))
        )
    ]
    for i, x in enumerate(arrays):
        if x.ndim != 2:
            raise ShapeError(
                "scipy.linalg.block_diag needs matrices.", got=f"argument {i}: {type_of(x).text()}"
            )
    return _block_diag(arrays)


@numpy_function
def _block_diag(arrays: list[Array]) -> Array:
    widths = [x.shape[1] for x in arrays]
    padded = []
    for i, x in enumerate(arrays):
        config = [(0, 0, 0), (sum(widths[:i]), sum(widths[i + 1 :]), 0)]
        padded.append(pad(x, x.dtype.type(0), config))
    return jnp.concatenate(padded, 0)


@numpy_function
def _toeplitz(c: Array, r: Array) -> Array:
    values = jnp.concatenate([c[::-1], r[1:]])
    m, n = c.shape[0], r.shape[0]
    return values[(m - 1) - jnp.arange(m)[:, None] + jnp.arange(n)[None, :]]


def toeplitz(c: ArrayLike, r: ArrayLike | None = None) -> Array:
    """The matrix whose element [i, j] depends on i - j: first column `c`, first row `r` (by default conj(c)).

    `c` has shape [..., m], `r` [..., n]; r[0] isn't read.

    The result has shape [..., m, n] and the dtype to which `c` and `r` promote.
    Raises: DtypeError for dtypes that do not promote, ArgumentTypeError for lists and strings.

    >>> toeplitz(np.array([1, 2]), np.array([1, 3]))
    Array([[1, 3],
           [2, 1]], dtype=int32)
    """
    operands = (c,) if r is None else (c, r)
    for i, x in enumerate(operands):
        aval_of("scipy.linalg.toeplitz", x, i)
    column, *rest = map(jnp.atleast_1d, operands)
    return _map_vectors("(m),(n)->(m,n)", _toeplitz, column, *(rest or [column.conj()]))


def hankel(c: ArrayLike, r: ArrayLike | None = None) -> Array:
    """The matrix whose element [i, j] depends on i + j: first column `c`, last row `r` (by default zeros).

    `c` has shape [..., m], `r` [..., n]; r[0] isn't read.

    The result has shape [..., m, n] and the dtype to which `c` and `r` promote.
    Raises: DtypeError for dtypes that do not promote, ArgumentTypeError for lists and strings.

    >>> hankel(np.array([1, 2]), np.array([2, 3]))
    Array([[1, 2],
           [2, 3]], dtype=int32)
    """
    c, *rest = _vectors("hankel", *((c,) if r is None else (c, r)))
    return _map_vectors("(m),(n)->(m,n)", _hankel, c, *(rest or [jnp.zeros_like(c)]))


@numpy_function
def _hankel(c: Array, r: Array) -> Array:
    values = jnp.concatenate([c, r[1:]])
    return values[jnp.arange(c.shape[0])[:, None] + jnp.arange(r.shape[0])[None, :]]


def circulant(c: ArrayLike) -> Array:
    """The matrix whose columns are `c`, each turned one further down. `c` has shape [..., n].

    The result has shape [..., n, n] and the dtype of `c`.
    Raises: ArgumentTypeError for lists and strings.

    >>> circulant(np.array([1, 2, 3]))
    Array([[1, 3, 2],
           [2, 1, 3],
           [3, 2, 1]], dtype=int32)
    """
    aval_of("scipy.linalg.circulant", c)
    column = jnp.atleast_1d(c)
    n = column.shape[-1]
    return column[..., (jnp.arange(n)[:, None] - jnp.arange(n)[None, :]) % larger(n, 1)]


def companion(a: ArrayLike) -> Array:
    """The companion matrix of the polynomial with coefficients `a` [..., n], the highest power first.

    The result has shape [..., n - 1, n - 1], and the dtype of `a`, floating-point for integers.
    Raises: ShapeError for fewer than two coefficients, DtypeError for bool and PRNG keys,
    ArgumentTypeError for lists and strings.

    >>> companion(np.array([1.0, -3.0, 2.0]))
    Array([[ 3., -2.],
           [ 1.,  0.]], dtype=float32)
    """
    return _map_vectors("(m)->(n,n)", _companion, *_vectors("companion", a, least=2))


@numpy_function
def _companion(a: Array) -> Array:
    first = -a[1:] / a[0]
    n = first.shape[0]
    return jnp.concatenate([first[None], jnp.eye(n - 1, n, dtype=first.dtype)])


def convolution_matrix(a: ArrayLike, n: int, mode: str = "full") -> Array:
    """The matrix A with A v = convolve(a, v, mode) for vectors v of `n` elements.

    `mode` is "full", "same" or "valid". Raises: ArgumentValueError for another one, or `n` below 1.

    >>> convolution_matrix(np.array([1, 2]), 2)
    Array([[1, 0],
           [2, 1],
           [0, 2]], dtype=int32)
    """
    [kernels] = _vectors("convolution_matrix", a, least=1)
    n = known_int("scipy.linalg.convolution_matrix", "n", n)
    if n < 1 or mode not in ("full", "same", "valid"):
        raise ArgumentValueError(
            "scipy.linalg.convolution_matrix: n must be positive, mode 'full', 'same' or 'valid'.",
            got=f"n: {n}, mode: {mode!r}",
        )
    m = kernels.shape[-1]
    zeros = jnp.zeros((*kernels.shape[:-1], n - 1), kernels.dtype)
    first_row = jnp.concatenate([kernels[..., :1], zeros], -1)
    full = toeplitz(jnp.concatenate([kernels, zeros], -1), first_row)
    start, size = {"full": (0, m + n - 1), "same": ((min(m, n) - 1) // 2, max(m, n)),
                   "valid": (min(m, n) - 1, max(m, n) - min(m, n) + 1)}[mode]  # fmt: skip
    return full[..., start : start + size, :]


def dft(n: int, scale: str | None = None, *, dtype: DTypeLike | None = None) -> Array:
    """The n×n matrix of the discrete Fourier transform; `scale` "sqrtn" or "n" divides by √n or n.

    The result has dtype `dtype`, by default the default complex one; it is empty for a negative `n`.
    Raises: ArgumentValueError for another `scale` and a `dtype` that isn't complex, TypeError for an `n` that isn't an integer.

    >>> dft(2).real
    Array([[ 1.,  1.],
           [ 1., -1.]], dtype=float32)
    """
    n = known_int("scipy.linalg.dft", "n", n)
    if scale not in (None, "sqrtn", "n"):
        raise ArgumentValueError(
            "scipy.linalg.dft: scale must be None, 'sqrtn' or 'n'.", got=f"scale: {scale!r}"
        )
    if dtype is not None and np.dtype(dtype).kind != "c":
        raise ArgumentValueError(
            "scipy.linalg.dft: the matrix is complex.", got=f"dtype: {np.dtype(dtype).name}"
        )
    angles = -2j * np.pi * ((np.arange(n)[:, None] * np.arange(n)[None, :]) % max(n, 1)) / max(n, 1)
    divisor = {None: 1, "sqrtn": math.sqrt(max(n, 0)), "n": n}[scale]
    return jnp.asarray(np.exp(angles) / divisor, dtype if dtype is not None else complex)


def fiedler(a: ArrayLike) -> Array:
    """The matrix of absolute differences of the elements of `a`, of shape [..., n].

    The result has shape [..., n, n], and the dtype of `a` or, for complex numbers, that of their parts.
    Raises: DtypeError for bool and PRNG keys, ArgumentTypeError for lists and strings.

    >>> fiedler(np.array([1, 4]))
    Array([[0, 3],
           [3, 0]], dtype=int32)
    """
    aval_of("scipy.linalg.fiedler", a)
    values = jnp.atleast_1d(a)
    return jnp.abs(values[..., :, None] - values[..., None, :])


def fiedler_companion(a: ArrayLike) -> Array:
    """A matrix with five diagonals whose characteristic polynomial has coefficients `a` [..., n], the highest power first.

    The result has shape [..., n - 1, n - 1], and the dtype of `a`, floating-point for integers.
    Raises: ShapeError for no coefficients, DtypeError for PRNG keys, ArgumentTypeError for lists and strings.

    >>> fiedler_companion(np.array([1.0, -3.0, 2.0]))
    Array([[ 3., -2.],
           [ 1.,  0.]], dtype=float32)
    """
    return _map_vectors(
        "(m)->(n,n)", _fiedler_companion, *_vectors("fiedler_companion", a, least=1)
    )


@numpy_function
def _fiedler_companion(a: Array) -> Array:
    if a.shape[0] <= 2:
        return -(a / a[0])[1:, None] if a.shape[0] == 2 else jnp.zeros((0, 0), a.dtype)
    coefficients = a / a[0]
    n = coefficients.shape[0] - 1
    result = jnp.zeros((n, n), coefficients.dtype)
    put = lambda rows, columns, values: result.at[rows, columns].set(values)
    result = put(np.arange(3, n, 2), np.arange(1, n - 2, 2), 1)
    result = put(np.arange(2, n, 2), np.arange(1, n - 1, 2), -coefficients[3::2])
    result = put(np.arange(0, n - 2, 2), np.arange(2, n, 2), 1)
    result = put(np.arange(0, n - 1, 2), np.arange(1, n, 2), -coefficients[2::2])
    return result.at[0, 0].set(-coefficients[1]).at[1, 0].set(1)


def hadamard(n: int, dtype: DTypeLike = int) -> Array:
    """Sylvester's Hadamard matrix, n×n, of elements 1 and -1 with orthogonal rows; `n` is a power of 2.

    Raises: ArgumentValueError for another `n`.

    >>> hadamard(2)
    Array([[ 1,  1],
           [ 1, -1]], dtype=int32)
    """
    n = known_int("scipy.linalg.hadamard", "n", n)
    if n < 1 or n & (n - 1):
        raise ArgumentValueError("scipy.linalg.hadamard: n must be a power of 2.", got=f"n: {n}")
    common = np.arange(n)[:, None] & np.arange(n)[None, :]
    return jnp.asarray(1 - 2 * (_bit_counts(common) % 2), dtype)


def _bit_counts(x: np.ndarray) -> np.ndarray:
    counts = np.zeros_like(x)
    while x.any():
        counts, x = counts + (x & 1), x >> 1
    return counts


def helmert(n: int, full: bool = False) -> Array:
    """Helmert's orthogonal matrix, n×n, without its first row unless `full`.

    The result has the default floating dtype.
    Raises: ArgumentValueError for an `n` below 1, TypeError for an `n` that isn't an integer.

    >>> helmert(2)
    Array([[ 0.70710677, -0.70710677]], dtype=float32)
    """
    n = known_int("scipy.linalg.helmert", "n", n)
    if n < 1:
        raise ArgumentValueError("scipy.linalg.helmert: n must be positive.", got=f"n: {n}")
    matrix = np.tril(np.ones((n, n)), -1) - np.diag(np.arange(n))
    matrix[0] = 1
    squares = np.arange(n) * np.arange(1, n + 1)
    squares[0] = n
    matrix /= np.sqrt(squares)[:, None]
    return jnp.asarray(matrix if full else matrix[1:], float)


def hilbert(n: int) -> Array:
    """Hilbert's matrix, n×n: 1 / (i + j + 1).

    The result has the default floating dtype.
    Raises: ShapeError for an `n` that isn't an integer from 0.

    >>> hilbert(2)
    Array([[1.        , 0.5       ],
           [0.5       , 0.33333334]], dtype=float32)
    """
    [n] = checked_shape((n,), "scipy.linalg.hilbert")
    i = np.arange(n)
    return jnp.asarray(1 / (i[:, None] + i[None, :] + 1), float)


def invhilbert(n: int) -> Array:
    """The inverse of Hilbert's matrix, n×n, whose elements are integers, rounded to the default float.

    Raises: ShapeError for a negative `n`, TypeError for an `n` that isn't an integer.

    >>> invhilbert(2)
    Array([[ 4., -6.],
           [-6., 12.]], dtype=float32)
    """
    n = known_int("scipy.linalg.invhilbert", "n", n)

    def element(i: int, j: int) -> int:
        i, j = i + 1, j + 1
        product = (i + j - 1) * math.comb(n + i - 1, n - j) * math.comb(n + j - 1, n - i)
        return (-1) ** (i + j) * product * math.comb(i + j - 2, i - 1) ** 2

    return jnp.asarray([[float(element(i, j)) for j in range(n)] for i in range(n)], float).reshape(
        n, n
    )


def leslie(f: ArrayLike, s: ArrayLike) -> Array:
    """The Leslie matrix of fecundities `f` [..., n] and survival rates `s` [..., n - 1].

    The result has shape [..., n, n] and the dtype to which `f` and `s` promote.
    Raises: ShapeError for sizes that do not fit, DtypeError for PRNG keys, ArgumentTypeError for lists and strings.

    >>> leslie(np.array([1.0, 2.0]), np.array([0.5]))
    Array([[1. , 2. ],
           [0.5, 0. ]], dtype=float32)
    """
    fecundities, survivals = map(jnp.atleast_1d, promote_dtypes("scipy.linalg.leslie", f, s))
    n = fecundities.shape[-1]
    if n < 2 or survivals.shape[-1] != n - 1:
        raise ShapeError(
            "scipy.linalg.leslie needs two fecundities or more, and one survival rate less.",
            got=[f"f: {type_of(fecundities).text()}", f"s: {type_of(survivals).text()}"],
        )
    return _map_vectors("(n),(m)->(n,n)", _leslie, fecundities, survivals)


@numpy_function
def _leslie(f: Array, s: Array) -> Array:
    below = s[:, None] * jnp.eye(s.shape[0], f.shape[0], dtype=s.dtype)
    return jnp.concatenate([f[None], below])


def _pascal(name: str, n: int, kind: str | None) -> tuple[int, str]:
    kind = "symmetric" if kind is None else kind
    if kind not in ("symmetric", "lower", "upper"):
        raise ArgumentValueError(
            f"scipy.linalg.{name}: kind must be 'symmetric', 'lower' or 'upper'.",
            got=f"kind: {kind!r}",
        )
    return known_int(f"scipy.linalg.{name}", "n", n), kind


def pascal(n: int, kind: str | None = None) -> Array:
    """Pascal's matrix, n×n, of binomial coefficients: (i + j over i), or triangular with `kind` "lower" or "upper".

    The result has the default floating dtype.
    Raises: ArgumentValueError for another `kind`, ShapeError for a negative `n`, TypeError for an `n` that is no
    integer.

    >>> pascal(3, "lower")
    Array([[1., 0., 0.],
           [1., 1., 0.],
           [1., 2., 1.]], dtype=float32)
    """
    n, kind = _pascal("pascal", n, kind)
    element = {
        "symmetric": lambda i, j: math.comb(i + j, i),
        "lower": math.comb,
        "upper": lambda i, j: math.comb(j, i),
    }[kind]
    return jnp.asarray([[float(element(i, j)) for j in range(n)] for i in range(n)], float).reshape(
        n, n
    )


def invpascal(n: int, kind: str | None = None) -> Array:
    """The inverse of Pascal's matrix, n×n, of integers in floats; see `pascal`.

    The result has the default floating dtype.
    Raises: ArgumentValueError for another `kind`, ShapeError for a negative `n`, TypeError for an `n` that is no
    integer.

    >>> invpascal(2)
    Array([[ 2., -1.],
           [-1.,  1.]], dtype=float32)
    """
    n, kind = _pascal("invpascal", n, kind)
    lower = [[(-1) ** (i + j) * math.comb(i, j) for j in range(n)] for i in range(n)]
    if kind == "symmetric":
        entries = [
            [sum(lower[k][i] * lower[k][j] for k in range(n)) for j in range(n)] for i in range(n)
        ]
    else:
        entries = (
            lower if kind == "lower" else [list(column) for column in zip(*lower, strict=True)]
        )
    return jnp.asarray([[float(x) for x in row] for row in entries], float).reshape(n, n)


__all__ = [
    "block_diag", "circulant", "companion", "convolution_matrix", "dft", "fiedler", "fiedler_companion", "hadamard",
    "hankel", "helmert", "hilbert", "invhilbert", "invpascal", "leslie", "pascal", "toeplitz",
]  # fmt: skip

public_functions(__all__, globals())

"""Functions of matrices: exponentials, roots, polar and Schur forms, Sylvester's equation."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

import pellucid.numpy as jnp
from pellucid._machine.base import (
    ArgumentValueError,
    ArrayLike,
    DtypeError,
    ShapeError,
    dtypes,
    library_code,
    public_functions,
)
from pellucid._machine.higher_order.cond import cond
from pellucid._machine.higher_order.custom_jvp import custom_jvp
from pellucid._machine.higher_order.linear_calls import custom_linear_solve
from pellucid._machine.higher_order.loops import fori_loop, scan
from pellucid._machine.linalg import reductions
from pellucid._machine.linalg.matrices import H, hermitian_part, product
from pellucid._machine.linalg.polar import qdwh
from pellucid._machine.linalg.qr import householder_product
from pellucid._machine.linalg.solve import solve
from pellucid._machine.linalg.svd import svd
from pellucid._machine.linalg.symmetric_eigen import eigh
from pellucid._machine.linalg.triangular import triangular_solve
from pellucid._machine.primitives.arithmetic import mul
from pellucid._machine.primitives.assembly import pad
from pellucid._machine.primitives.conversion import stop_gradient
from pellucid._machine.primitives.families import scalar
from pellucid._machine.tracing import type_of
from pellucid._machine.transforms.jvp import jvp
from pellucid._machine.transforms.vmap import vmap
from pellucid._machine.xla.arrays import Array
from pellucid.numpy.compiled import numpy_function
from pellucid.numpy.creation import of_sequence
from pellucid.numpy.linalg.arguments import inexact, matrices, square_matrices

# The exponential ----------------------------------------------------------------------------------

# Maps dtype of real parts to (largest 1-norm without scaling, Padé coefficients) (Higham 2005, table 2.3).
_PADE = {
    "float32": (3.925724783138660, [17297280, 8648640, 1995840, 277200, 25200, 1512, 56, 1]),
    "float64": (5.371920351148152, [
        64764752532480000, 32382376266240000, 7771770303897600, 1187353796428800, 129060195264000,
        10559470521600, 670442572800, 33522128640, 1323241920, 40840800, 960960, 16380, 182, 1,
    ]),
}  # fmt: skip


def _expm(a: Array, upper_triangular: bool, max_squarings: int) -> Array:
    """The exponential of one matrix, by scaling, a Padé approximant and squaring."""
    n = type_of(a).shape[-1]
    kind = jnp.real(a).dtype.name
    if kind not in _PADE:
        raise DtypeError(
            f"The matrix exponential of {kind} isn't implemented.",
            do="Convert the matrix to float32 or float64.",
        )
    limit, integers = _PADE[kind]
    coefficients = [scalar(n, a.dtype) for n in integers]
    norm = jnp.abs(a).sum(0).max(initial=0)
    n_squarings = jnp.maximum(0, jnp.ceil(jnp.log2(norm / limit)))
    scaled = a / (2**n_squarings).astype(a.dtype)
    identity = jnp.eye(n, dtype=a.dtype)
    squared = product(scaled, scaled)
    power, odd, even = identity, 0, 0
    for i in range(0, len(coefficients), 2):  # the common factor `scaled` of odd powers is left out
        even = even + mul(power, coefficients[i])
        if i + 1 < len(coefficients):
            odd = odd + mul(power, coefficients[i + 1])
        power = product(power, squared) if i + 2 < len(coefficients) else power
    odd = product(scaled, odd)
    if upper_triangular:
        result = triangular_solve(even - odd, even + odd, left_side=True)
    else:
        result = solve(even - odd, even + odd)

    def step(x: Any, i: Any) -> Any:
        return cond(i < n_squarings, lambda y: product(y, y), lambda y: y, x), None

    result, _ = scan(step, result, jnp.arange(max_squarings, dtype=n_squarings.dtype))
    return jnp.where(n_squarings > max_squarings, np.nan, result)


@numpy_function(static=("upper_triangular", "max_squarings"))
def _batched_expm(a: Any, upper_triangular: bool, max_squarings: int) -> Array:
    a = square_matrices("scipy.linalg.expm", a)
    shape = type_of(a).shape
    function = lambda x: _expm(x, upper_triangular, max_squarings)
    if len(shape) == 2:
        return function(a)
    return vmap(function)(a.reshape(math.prod(shape[:-2]), *shape[-2:])).reshape(shape)


def expm(A: ArrayLike, *, upper_triangular: bool = False, max_squarings: int = 16) -> Array:
    """The exponentials of matrices of shape [..., n, n].

    NaN where norms need more than `max_squarings` squarings, at a 1-norm of about 2**max_squarings * 4.
    `upper_triangular` says that matrices are. Raises: ShapeError unless matrices are square.
    Source: Higham, The scaling and squaring method for the matrix exponential revisited (2005).

    >>> expm(np.zeros((2, 2)))
    Array([[1., 0.],
           [0., 1.]], dtype=float32)
    """
    return _batched_expm(A, bool(upper_triangular), int(max_squarings))


def expm_frechet(
    A: ArrayLike, E: ArrayLike, *, method: str | None = None, compute_expm: bool = True
) -> Any:
    """(expm(A), derivative of expm at A in direction E), or the derivative alone without `compute_expm`.

    There is one `method`, the derivative of `expm`. Raises: ArgumentValueError for an unknown one.

    Both have the shape [n, n] of `A` and `E`, and the dtype to which they promote. ShapeError for matrices that are not
    square or not of one shape, DtypeError for float16 and bfloat16, ArgumentTypeError for strings.

    >>> expm_frechet(np.zeros((1, 1)), np.ones((1, 1)))[1]
    Array([[1.]], dtype=float32)
    """
    if method not in (None, "SPS", "blockEnlarge"):
        raise ArgumentValueError(
            "scipy.linalg.expm_frechet: method must be 'SPS' or 'blockEnlarge'.",
            got=f"method: {method!r}",
        )
    value, derivative = _expm_frechet(of_sequence(A), of_sequence(E))
    return (value, derivative) if compute_expm else derivative


@numpy_function
def _expm_frechet(A: ArrayLike, E: ArrayLike) -> tuple[Array, Array]:
    A, E = inexact("scipy.linalg.expm_frechet", A, E)
    square_matrices("scipy.linalg.expm_frechet", A)
    if type_of(A).shape != type_of(E).shape:
        raise ShapeError(
            "scipy.linalg.expm_frechet needs matrices of one shape.",
            got=[f"A: {type_of(A).text()}", f"E: {type_of(E).text()}"],
        )
    return jvp(expm, (A,), (E,))


# Schur and Hessenberg forms -----------------------------------------------------------------------


@numpy_function(static="is_complex")
def _schur(a: Any, is_complex: bool) -> tuple[Array, Array]:
    a = square_matrices("scipy.linalg.schur", a)
    if is_complex:
        a = a.astype(dtypes.to_complex_dtype(a.dtype))
    form, vectors = reductions.schur(a)
    return form, vectors


def schur(a: ArrayLike, output: str = "real") -> tuple[Array, Array]:
    """(T, Z) with a = Z T Zᴴ for matrices of shape [..., n, n]: Z is unitary, T upper triangular.

    T of a real matrix has 2×2 blocks for pairs of complex eigenvalues, unless `output` is "complex". CPUs have it.
    Raises: ArgumentValueError for another `output`.

    >>> schur(np.array([[1.0, 2.0], [0.0, 3.0]]))[0]
    Array([[1., 2.],
           [0., 3.]], dtype=float32)
    """
    if output not in ("real", "complex"):
        raise ArgumentValueError(
            "scipy.linalg.schur: output must be 'real' or 'complex'.", got=f"output: {output!r}"
        )
    form, vectors = _schur(a, output == "complex")
    return form, vectors


@numpy_function
def _rsf2csf(T: Any, Z: Any) -> tuple[Array, Array]:
    T, Z = inexact("scipy.linalg.rsf2csf", T, Z)
    T = square_matrices("scipy.linalg.rsf2csf", T)
    dtype = dtypes.to_complex_dtype(T.dtype)
    T, Z = T.astype(dtype), Z.astype(dtype)
    n = type_of(T).shape[-1]
    positions = np.arange(n)

    def rotate(i: Any, pair: Any) -> Any:
        """Turn rows and columns m - 1 and m so that T[m, m - 1] vanishes."""
        T, Z = pair
        m = n - 1 - i
        a, b, c, d = (T[m - 1 + j, m - 1 + k] for j in (0, 1) for k in (0, 1))
        mean, half = (a + d) / 2, (a - d) / 2
        root = jnp.sqrt(half * half + b * c)
        shift = (
            jnp.where(jnp.abs(mean + root - d) < jnp.abs(mean - root - d), mean + root, mean - root)
            - d
        )
        size = jnp.sqrt(jnp.abs(shift) ** 2 + jnp.abs(c) ** 2)
        safe = jnp.where(size == 0, 1, size)
        x, y = shift / safe, c / safe
        turn = jnp.stack([jnp.stack([x.conj(), y.conj()]), jnp.stack([-y, x])])
        keeps = c == 0
        turn = jnp.where(keeps, jnp.eye(2, dtype=dtype), turn)
        at = m - 1 + np.arange(2)
        whole = jnp.eye(n, dtype=dtype).at[at[:, None], at[None, :]].set(turn)
        T = product(whole, T, H(whole))
        T = jnp.where((positions[:, None] == m) & (positions[None, :] == m - 1), 0, T)
        return T, product(Z, H(whole))

    return fori_loop(0, n - 1, rotate, (T, Z)) if n > 1 else (T, Z)


def rsf2csf(T: ArrayLike, Z: ArrayLike, check_finite: bool = True) -> tuple[Array, Array]:
    """The complex Schur form, upper triangular, of a real one: T and Z of shape [n, n].

    Results have the shape of `T`, and a complex dtype.
    Raises: ShapeError for matrices that are not square or not of one shape, DtypeError for PRNG keys, ArgumentTypeError
    for strings.
    Source: Golub and Van Loan, Matrix Computations, 7.4: one Givens rotation for each subdiagonal element.

    >>> rsf2csf(np.array([[0.0, -1.0], [1.0, 0.0]]), np.eye(2))[0].imag.diagonal().round(3) ** 2
    Array([1., 1.], dtype=float32)
    """
    form, vectors = _rsf2csf(of_sequence(T), of_sequence(Z))
    return form, vectors


@numpy_function(static="calc_q")
def _hessenberg(a: Any, calc_q: bool) -> Any:
    a = square_matrices("scipy.linalg.hessenberg", a)
    form, taus = reductions.hessenberg(a)
    h = jnp.triu(form, -1)
    if not calc_q:
        return h
    n = type_of(a).shape[-1]
    if n < 2:
        return h, jnp.broadcast_to(jnp.eye(n, dtype=a.dtype), a.shape)
    inner = householder_product(form[..., 1:, : n - 1], taus)
    widths = [(0, 0, 0)] * (type_of(a).ndim - 2) + [(1, 0, 0)] * 2
    from_second = pad(inner, a.dtype.type(0), widths)
    return h, from_second + jnp.eye(n, dtype=a.dtype) * (np.arange(n) == 0)


def hessenberg(
    a: ArrayLike, *, calc_q: bool = False, overwrite_a: bool = False, check_finite: bool = True
) -> Any:
    """The Hessenberg form h of matrices of shape [..., n, n], zero below its subdiagonal; (h, q) with `calc_q`: a = q h qᴴ.

    CPUs have it.

    Results have the shape of `a`, and its floating-point or complex dtype.
    Raises: ShapeError for matrices that are not square, DtypeError for other dtypes than float32, float64, complex64
    and complex128 (integers count as floats), ArgumentTypeError for lists and strings.

    >>> hessenberg(np.eye(2))
    Array([[1., 0.],
           [0., 1.]], dtype=float32)
    """
    return _hessenberg(a, bool(calc_q))


# Functions of triangular matrices, column by column -----------------------------------------------


def _build_by_columns(
    n: int, start: Array, column: Callable[[Any, Any, Any], tuple[Any, Any]]
) -> Array:
    """An upper triangular matrix from `start`, a matrix of its diagonal, built by columns: column j solves a triangular
    system of its leading j rows.

    `column(result, j, before)` gives the system's matrix and right-hand side; `before` masks the rows above j.
    """
    positions = np.arange(n)

    def step(j: Any, result: Any) -> Any:
        before = positions < j
        matrix, right = column(result, j, before)
        matrix = jnp.where(
            before[:, None] & before[None, :], matrix, jnp.eye(n, dtype=matrix.dtype)
        )
        solved = triangular_solve(matrix, jnp.where(before, right, 0)[:, None], left_side=True)[
            :, 0
        ]
        return jnp.where(
            positions[None, :] == j,
            solved[:, None] + jnp.where(positions == j, result[j], 0)[:, None],
            result,
        )

    return fori_loop(0, n, step, start)


def _diagonal_at(x: Array, j: Array) -> Array:
    return x[j, j]


@numpy_function
def _sqrtm(a: Any) -> Array:
    [a] = inexact("scipy.linalg.sqrtm", a)
    a = _one_square("sqrtm", a)
    return _root(a.astype(dtypes.to_complex_dtype(a.dtype)))


def _root_of(a: Any) -> Array:
    form, vectors = reductions.schur(a)
    n = type_of(a).shape[-1]

    def column(root: Any, j: Any, before: Any) -> tuple[Any, Any]:
        return root + _diagonal_at(root, j) * jnp.eye(n, dtype=root.dtype), form[:, j]

    root = _build_by_columns(n, jnp.diag(jnp.sqrt(jnp.diagonal(form))), column)
    return product(vectors, root, H(vectors))


_root = custom_jvp(library_code(_root_of))


@library_code
def _root_jvp(primals: Any, tangents: Any) -> Any:
    # X X = A, so X dX + dX X = dA: right also where eigenvalues are equal.
    root = _root(*primals)
    return root, _sylvester(root, root, tangents[0])


_root.defjvp(_root_jvp)


def _one_square(name: str, a: Array) -> Array:
    if type_of(a).ndim != 2 or type_of(a).shape[0] != type_of(a).shape[1]:
        raise ShapeError(
            f"scipy.linalg.{name} needs a square matrix.", got=f"argument 0: {type_of(a).text()}"
        )
    return a


def sqrtm(A: ArrayLike, blocksize: int = 1) -> Array:
    """The principal square root of a matrix [n, n], complex. CPUs have it. `blocksize` has no effect.

    Derivatives are right at equal eigenvalues. Of a Hermitian matrix `jnp.linalg.hermitian_function(jnp.sqrt, A)` gives the same
    by eigenvalues, real for real ones, on all platforms, and of batches.

    Raises: ShapeError for matrices that are not square, DtypeError for PRNG keys, ArgumentTypeError for lists and
    strings.
    Source: Björck and Hammarling, A Schur method for the square root of a matrix (1983).

    >>> sqrtm(np.array([[4.0, 0.0], [0.0, 9.0]])).real
    Array([[2., 0.],
           [0., 3.]], dtype=float32)
    """
    return _sqrtm(A)


def funm(A: ArrayLike, func: Callable[[Any], Any], disp: bool = True) -> Any:
    """The function of a matrix [n, n] that `func` is of each eigenvalue, complex; (result, estimated error) without `disp`.

    Eigenvalues must differ. CPUs have it. Source: Parlett, A recurrence among the elements of functions of triangular
    matrices (1976).

    Raises: ShapeError for matrices that are not square, TypeError for a `func` that cannot be called, DtypeError for
    PRNG keys, ArgumentTypeError for lists and strings.

    >>> funm(np.array([[4.0, 0.0], [0.0, 9.0]]), lambda x: x**0.5).real
    Array([[2., 0.],
           [0., 3.]], dtype=float32)
    """
    [a] = inexact("scipy.linalg.funm", A)
    a = _one_square("funm", a)
    form, vectors = reductions.schur(a.astype(dtypes.to_complex_dtype(a.dtype)))
    eigenvalues = jnp.diagonal(form)
    result, error = _function_of_schur_form(form, vectors, jnp.asarray(func(eigenvalues)))
    return result if disp else (result, error)


@numpy_function
def _function_of_schur_form(form: Array, vectors: Array, values: Array) -> tuple[Array, Array]:
    """(a function of the matrix with this Schur form, which has `values` for its eigenvalues; the estimated error)."""
    n = type_of(form).shape[-1]
    eigenvalues = jnp.diagonal(form)

    def column(result: Any, j: Any, before: Any) -> tuple[Any, Any]:
        above = jnp.where(before, form[:, j], 0)
        leading = jnp.where(before[:, None] & before[None, :], result, 0)
        right = product(leading, above[:, None])[:, 0] - above * _diagonal_at(result, j)
        return form - _diagonal_at(form, j) * jnp.eye(n, dtype=form.dtype), right

    result = _build_by_columns(n, jnp.diag(values.astype(form.dtype)), column)
    result = product(vectors, result, H(vectors))
    gaps = jnp.abs(eigenvalues[:, None] - eigenvalues[None, :]) + jnp.where(
        jnp.eye(n, dtype=bool), np.inf, 0
    )
    strictly_upper = jnp.abs(jnp.triu(form, 1)).sum(0).max()
    precision = np.finfo(form.dtype).eps
    return result, jnp.minimum(1, jnp.maximum(precision, precision / gaps.min() * strictly_upper))


@numpy_function(static="by_eigenvalues")
def _solve_sylvester(a: Any, b: Any, c: Any, tol: Any, by_eigenvalues: bool) -> Array:
    a, b, c = inexact("scipy.linalg.solve_sylvester", a, b, c)
    a, b = _one_square("solve_sylvester", a), _one_square("solve_sylvester", b)
    m, n = type_of(a).shape[0], type_of(b).shape[0]
    if type_of(c).shape != (m, n):
        raise ShapeError(
            f"scipy.linalg.solve_sylvester needs a right-hand side of shape {(m, n)}.",
            got=f"C: {type_of(c).text()}",
        )
    dtype = dtypes.to_complex_dtype(a.dtype)
    x = _sylvester(a.astype(dtype), b.astype(dtype), c.astype(dtype), tol)
    return x if c.dtype.kind == "c" else x.real


def _sylvester(a: Any, b: Any, c: Any, tol: Any = 0) -> Array:
    """The complex solution X of A X + X B = C, differentiable by A, B and C."""
    form_of_a, form_of_b = (reductions.schur(stop_gradient(x)) for x in (a, b))

    def transpose_solve(_: Any, y: Any) -> Array:
        # The conjugate of Aᵀ Y + Y Bᵀ = C is an equation of Aᴴ and Bᴴ: the same Schur vectors, adjoint forms.
        return jnp.conj(
            _solve_by_schur_forms(form_of_a, form_of_b, jnp.conj(y), tol, is_adjoint=True)
        )

    return custom_linear_solve(
        lambda x: product(a, x) + product(x, b),
        c,
        solve=lambda _, y: _solve_by_schur_forms(form_of_a, form_of_b, y, tol),
        transpose_solve=transpose_solve,
    )


def _solve_by_schur_forms(
    of_a: Any, of_b: Any, c: Any, tol: Any, is_adjoint: bool = False
) -> Array:
    """The solution X of A X + X B = C, or of Aᴴ X + X Bᴴ = C, computed from the Schur forms of A and B."""
    (r, u), (s, v) = of_a, of_b
    right = product(H(u), c, v)
    m, n = type_of(right).shape
    positions = np.arange(n)
    rows = H(s) if is_adjoint else s
    triangle = {"left_side": True, "transpose_a": is_adjoint, "conjugate_a": is_adjoint}

    def step(i: Any, y: Any) -> Any:
        # Columns that are computed by now: those before k; of a lower triangle those after k.
        k = n - 1 - i if is_adjoint else i
        known = positions > k if is_adjoint else positions < k
        earlier_terms = product(y, jnp.where(known, rows[:, k], 0)[:, None])
        shift = jnp.conj(rows[k, k]) if is_adjoint else rows[k, k]
        matrix = r + shift * jnp.eye(m, dtype=r.dtype)
        solved = triangular_solve(matrix, right[:, k][:, None] - earlier_terms, **triangle)
        return jnp.where(positions[None, :] == k, solved, y)

    y = fori_loop(0, n, step, jnp.zeros_like(right))
    sums = jnp.abs(jnp.diagonal(r)[:, None] + jnp.diagonal(s)[None, :])
    return jnp.where(sums.min(initial=np.inf) < tol, np.nan, product(u, y, H(v)))


def solve_sylvester(
    A: ArrayLike, B: ArrayLike, C: ArrayLike, *, method: str = "schur", tol: ArrayLike = 1e-8
) -> Array:
    """The solution X of A X + X B = C, for matrices A [m, m], B [n, n] and C [m, n].

    NaN where an eigenvalue of A and one of -B are closer than `tol`. CPUs have it. There is one `method`.

    The result has shape [m, n], and the floating-point or complex dtype to which the matrices promote.
    Raises: ShapeError for shapes that do not fit, ArgumentValueError for another `method`, DtypeError for PRNG keys,
    ArgumentTypeError for lists and strings.
    Source: Bartels and Stewart, Solution of the matrix equation AX + XB = C (1972).

    >>> solve_sylvester(np.eye(1), np.eye(1), np.full((1, 1), 4.0))
    Array([[2.]], dtype=float32)
    """
    if method not in ("schur", "eigen"):
        raise ArgumentValueError(
            "scipy.linalg.solve_sylvester: method must be 'schur' or 'eigen'.",
            got=f"method: {method!r}",
        )
    return _solve_sylvester(A, B, C, tol, method == "eigen")


# Polar decomposition ------------------------------------------------------------------------------


def polar(
    a: ArrayLike,
    side: str = "right",
    *,
    method: str = "qdwh",
    eps: float | None = None,
    max_iterations: int | None = None,
) -> tuple[Array, Array]:
    """(U, P) with a = U P, or a = P U with `side` "left": U with orthonormal columns or rows, P positive semidefinite.

    `a` has shape [m, n]. `method` "qdwh" iterates (see `lax.linalg.qdwh`), with m ≥ n for the right side and m ≤ n for the
    left; "svd" decomposes, and has derivatives where singular values are equal, too. Raises: ArgumentValueError for other words.

    >>> polar(np.array([[0.0, 2.0], [-2.0, 0.0]]), method="svd")[1].round(3)
    Array([[2., 0.],
           [0., 2.]], dtype=float32)
    """
    if side not in ("left", "right") or method not in ("qdwh", "svd"):
        raise ArgumentValueError(
            "scipy.linalg.polar: side must be 'left' or 'right', method 'qdwh' or 'svd'.",
            got=f"side: {side!r}, method: {method!r}",
        )
    [a] = inexact("scipy.linalg.polar", of_sequence(a))
    unitary, positive = _polar(matrices("scipy.linalg.polar", a), side, method, eps, max_iterations)
    return unitary, positive


@numpy_function(static=("side", "method", "eps", "max_iterations"))
def _polar(a: Array, side: str, method: str, eps: Any, max_iterations: Any) -> tuple[Array, Array]:
    if method == "qdwh":
        if side == "right":
            return qdwh(a, eps=eps, max_iterations=max_iterations)[:2]
        u, h = qdwh(H(a), eps=eps, max_iterations=max_iterations)[:2]
        return H(u), h
    m, n = type_of(a).shape[-2:]
    if side == "left":
        u, h = _polar(H(a), "right", "svd", None, None)
        return H(u), h
    if m < n:
        # a = U P with Uᴴ of the taller matrix.
        u = H(_of_tall(H(a))[0])
        return u, hermitian_part(product(H(u), a))
    return _of_tall(a)


def _polar_by_svd(a: Any) -> tuple[Array, Array]:
    """(U, P) of matrices with at least as many rows as columns."""
    u, s, vh = svd(a, full_matrices=False)
    return product(u, vh), product(H(vh) * s.astype(a.dtype)[..., None, :], vh)


_of_tall = custom_jvp(library_code(_polar_by_svd))


@library_code
def _polar_jvp(primals: Any, tangents: Any) -> Any:
    # With W = Uᴴ dU, which is skew: Uᴴ dA - dAᴴ U = W P + P W, and Uᴴ dA = W P + dP. Sums of singular values divide it,
    # no differences.
    [a], [a_dot] = primals, tangents
    u, p = _of_tall(a)
    along = product(H(u), a_dot)
    turn = _solve_anticommutator(p, along - H(along))
    u_dot = product(u, turn)
    m, n = type_of(a).shape[-2:]
    if m > n:
        across = a_dot - product(u, along)
        u_dot = u_dot + H(solve(p, H(across)))
    return (u, p), (u_dot, along - product(turn, p))


_of_tall.defjvp(_polar_jvp)


def _solve_anticommutator(p: Any, c: Any) -> Array:
    """The solution X of X P + P X = C, of a Hermitian P, with derivatives by both."""
    v, w = eigh(stop_gradient(p))
    sums = (w[..., :, None] + w[..., None, :]).astype(type_of(c).dtype)
    solution = lambda y: product(v, product(H(v), y, v) / sums, H(v))
    return custom_linear_solve(
        lambda x: product(x, p) + product(p, x),
        c,
        solve=lambda _, y: solution(y),
        transpose_solve=lambda _, y: jnp.conj(solution(jnp.conj(y))),
    )


__all__ = [
    "expm", "expm_frechet", "funm", "hessenberg", "polar", "rsf2csf", "schur", "solve_sylvester", "sqrtm",
]  # fmt: skip

public_functions(__all__, globals())

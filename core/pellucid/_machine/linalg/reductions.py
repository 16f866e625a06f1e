"""Schur, Hessenberg and tridiagonal forms: simpler matrices that are unitarily similar."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, NamedTuple

from pellucid._machine.base import ArrayLike, MissingRule, UnsupportedError, larger
from pellucid._machine.ir import NoParams
from pellucid._machine.tracing import bind, type_of
from pellucid._machine.xla.arrays import Array

from .matrices import (
    PLATFORMS_OF_LIBRARIES,
    MatrixPrimitive,
    decomposition,
    matrix_aval,
    real_of,
    without_info,
)
from .native import INT32, boolean, byte, gpu_name, lapack_name, native


class SchurParams(NamedTuple):
    compute_schur_vectors: bool
    select_callable: Callable[..., Any] | None
    sort_eig_vals: bool


class Schur(MatrixPrimitive[SchurParams]):
    """Returns the Schur form T, and Z if requested."""

    name = "schur"
    traits = decomposition(25.0)

    def platforms_for(self, params):
        return ("cpu",)

    def abstract_eval(self, avals, params):
        self.check(avals, square=True)
        return [avals[0].strip_weak_type()] * (1 + params.compute_schur_vectors)

    def definition(self, operands, params, platform):
        [x] = operands
        aval = type_of(x)
        *batch, n, _ = aval.shape
        matrix, values = (aval.shape, aval.dtype), ((*batch, n), aval.dtype)
        n_values = 1 if aval.dtype.kind == "c" else 2
        results = [matrix, matrix, *[values] * n_values, (batch, INT32), (batch, INT32)]
        config = f"mode = {byte('V' if params.compute_schur_vectors else 'N')}, sort = {byte('N')}"
        parts = native(lapack_name("gees", x), [x], results, len(batch), config, [(0, 0)])
        return without_info([*parts[: 1 + params.compute_schur_vectors], parts[-1]])

    def missing(self, rule):
        if rule != "jvp":
            return super().missing(rule)
        return MissingRule(
            "`schur` has no derivative, and no function that is made of it, such as `funm`.",
            do="Functions of Hermitian matrices have all derivatives by jnp.linalg.hermitian_function(f, A), and so have expm, sqrtm "
            "and solve_sylvester.",
        )


schur_p = Schur()


def schur(
    x: ArrayLike,
    *,
    compute_schur_vectors: bool = True,
    sort_eig_vals: bool = False,
    select_callable: Callable[..., Any] | None = None,
) -> list[Array]:
    """[T, Z] with x = Z T Zᴴ for the matrices in `x`, of shape [..., n, n]: Z is unitary, T upper triangular.

    For real matrices T has 2×2 blocks on its diagonal where eigenvalues are complex. Without `compute_schur_vectors`
    T alone is given. CPUs have it. It has no derivative.

    Raises: UnsupportedError for sorted eigenvalues; ShapeError unless matrices are square. Source: LAPACK, `gees`.

    >>> schur(np.array([[1.0, 2.0], [0.0, 3.0]], np.float32))[0]
    Array([[1., 2.],
           [0., 3.]], dtype=float32)
    """
    if sort_eig_vals or select_callable is not None:
        raise UnsupportedError(
            "schur can't order eigenvalues: LAPACK would call Python.",
            do="Leave sort_eig_vals=False.",
        )
    return list(bind(schur_p, x, params=SchurParams(bool(compute_schur_vectors), None, False)))


# hessenberg ---------------------------------------------------------------------------------------


class Hessenberg(MatrixPrimitive[NoParams]):
    """Returns (H with reflections below its first subdiagonal, their factors)."""

    name = "hessenberg"
    traits = decomposition(10 / 3)

    def platforms_for(self, params):
        return ("cpu",)

    def abstract_eval(self, avals, params):
        [x] = avals
        batch = self.check(avals, square=True)
        return [x.strip_weak_type(), matrix_aval(x, *batch, larger(x.shape[-1] - 1, 0))]

    def definition(self, operands, params, platform):
        [x] = operands
        aval = type_of(x)
        *batch, n, _ = aval.shape
        results = [(aval.shape, aval.dtype), ((*batch, n - 1), aval.dtype), (batch, INT32)]
        config = f"high = {operator.index(n)} : i32, low = 1 : i32"
        parts = native(lapack_name("gehrd", x), [x], results, len(batch), config, [(0, 0)])
        return without_info(parts)


hessenberg_p = Hessenberg()


def hessenberg(a: ArrayLike) -> tuple[Array, Array]:
    """The Hessenberg form of the matrices in `a`, of shape [..., n, n], with the reflections that make it.

    Gives (h, taus): the upper triangle and the first subdiagonal of h are the form; below stand the reflections of Q,
    whose factors taus, of shape [..., n - 1], are as `householder_product` takes them. CPUs have it. It has no
    derivative. Raises: ShapeError unless matrices are square. Source: LAPACK, `gehrd`.

    >>> hessenberg(np.eye(3, dtype=np.float32))[1]
    Array([0., 0.], dtype=float32)
    """
    form, taus = bind(hessenberg_p, a, params=NoParams())
    return form, taus


# tridiagonal --------------------------------------------------------------------------------------


class TridiagonalParams(NamedTuple):
    lower: bool


class Tridiagonal(MatrixPrimitive[TridiagonalParams]):
    """Returns (reflections, diagonal, subdiagonal, factors)."""

    name = "tridiagonal"
    traits = decomposition(4 / 3)

    def platforms_for(self, params):
        return PLATFORMS_OF_LIBRARIES

    def abstract_eval(self, avals, params):
        [x] = avals
        batch = self.check(avals, square=True)
        n, real = x.shape[-1], real_of(x)
        below = max(n - 1, 0)
        return [
            x.strip_weak_type(), matrix_aval(x, *batch, n, dtype=real), matrix_aval(x, *batch, below, dtype=real),
            matrix_aval(x, *batch, below),
        ]  # fmt: skip

    def definition(self, operands, params, platform):
        [x] = operands
        aval = type_of(x)
        *batch, n, _ = aval.shape
        real = real_of(aval)
        results = [
            (aval.shape, aval.dtype), ((*batch, n), real), ((*batch, n - 1), real), ((*batch, n - 1), aval.dtype),
            (batch, INT32),
        ]  # fmt: skip
        if platform == "cpu":
            target = lapack_name("sytrd", x, "hetrd")
            config = f"uplo = {byte('L' if params.lower else 'U')}"
        else:
            target = gpu_name("cusolver_sytrd_ffi", platform)
            config = f"lower = {boolean(params.lower)}"
        return without_info(native(target, operands, results, len(batch), config, [(0, 0)]))


tridiagonal_p = Tridiagonal()


def tridiagonal(a: ArrayLike, *, lower: bool = True) -> tuple[Array, Array, Array, Array]:
    """The tridiagonal form Qᴴ a Q of the Hermitian matrices in `a`, of shape [..., n, n].

    Gives (the matrix with the reflections of Q, diagonal [..., n], subdiagonal [..., n - 1], factors [..., n - 1]);
    diagonals are real. Only the `lower` or the upper triangle is read. CPUs and GPUs have it. It has no derivative.
    Raises: ShapeError unless matrices are square. Source: LAPACK, `sytrd`.

    >>> tridiagonal(np.eye(3, dtype=np.float32))[1]
    Array([1., 1., 1.], dtype=float32)
    """
    reflections, diagonal, below, taus = bind(
        tridiagonal_p, a, params=TridiagonalParams(bool(lower))
    )
    return reflections, diagonal, below, taus


__all__ = [
    "hessenberg", "hessenberg_p", "schur", "schur_p", "tridiagonal", "tridiagonal_p",
]  # fmt: skip

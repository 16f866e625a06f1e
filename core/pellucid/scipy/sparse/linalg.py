"""`pellucid.scipy.sparse.linalg`: iterative solutions of linear equations whose operator is a function or a matrix.

Solutions are differentiated by the equation they solve, in both modes. Sources: Hestenes and Stiefel (1952); van der
Vorst, Bi-CGSTAB (1992); Saad and Schultz, GMRES (1986).
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from pellucid import numpy as jnp
from pellucid._machine.base import (
    ArgumentTypeError,
    ArgumentValueError,
    ArrayLike,
    ShapeError,
    public_functions,
    tree_leaves,
    tree_map,
    tree_structure,
)
from pellucid._machine.higher_order.linear_calls import custom_linear_solve
from pellucid._machine.higher_order.loops import fori_loop, while_loop
from pellucid._machine.primitives.precision import Precision
from pellucid._machine.tracing import is_array_like, type_of
from pellucid._machine.transforms.ravel import ravel_pytree
from pellucid.numpy.promotion import promote_dtypes_inexact

Operator = Callable[[Any], Any]
Tree = Any
_HIGHEST = Precision.HIGHEST


# Trees as vectors ---------------------------------------------------------------------------------


def _dot(x: Tree, y: Tree) -> Any:
    """The real part of the inner product of two trees of arrays."""
    products = tree_map(lambda a, b: jnp.vdot(a, b, precision=_HIGHEST).real, x, y)
    return functools.reduce(operator.add, tree_leaves(products), np.float32(0))


def _complex_dot(x: Tree, y: Tree) -> Any:
    products = tree_map(functools.partial(jnp.vdot, precision=_HIGHEST), x, y)
    return functools.reduce(operator.add, tree_leaves(products))


def _add_scaled(x: Tree, scale: Any, y: Tree) -> Tree:
    """`x + scale * y`."""
    return tree_map(lambda a, b: a + scale.astype(_wider(scale, b)) * b, x, y)


def _wider(scale: Any, x: Any) -> Any:
    """The dtype of `scale * x`: complex if `scale` is, else that of `x`."""
    dtype = type_of(x).dtype
    return np.result_type(dtype, np.complex64) if type_of(scale).dtype.kind == "c" else dtype


def _less(x: Tree, y: Tree) -> Tree:
    return tree_map(operator.sub, x, y)


# Arguments ----------------------------------------------------------------------------------------


def _operator(name: str, A: Any) -> Operator:
    """`A` as a function of vectors."""
    if callable(A):
        return A
    if is_array_like(A) or hasattr(A, "__matmul__"):
        shape = np.shape(A) if not hasattr(A, "shape") else A.shape
        if len(shape) != 2 or shape[0] != shape[1]:
            raise ShapeError(
                f"scipy.sparse.linalg.{name} needs a square matrix, or a function.",
                got=f"A: shape {tuple(shape)}",
            )
        return lambda x: A @ x
    raise ArgumentTypeError(
        f"scipy.sparse.linalg.{name} needs a square matrix, or a function.",
        got=f"A: {type(A).__name__}",
    )


def _solution(
    name: str,
    method: Callable[..., Any],
    A: Any,
    b: Any,
    x0: Any,
    M: Any,
    maxiter: int | None,
    *,
    is_symmetric: bool,
) -> tuple[Any, None]:
    """Solves A x = b by `method(A, b, x0, M, maxiter)`; derivatives come from the equation, not from the iteration."""
    for each in tree_leaves(b):
        if not is_array_like(each):
            raise ArgumentTypeError(
                f"scipy.sparse.linalg.{name} needs a right-hand side of arrays.",
                got=f"b: {type(each).__name__}",
            )
    b = tree_map(lambda x: promote_dtypes_inexact(name, jnp.asarray(x))[0], b)
    if x0 is None:
        x0 = tree_map(jnp.zeros_like, b)
    types = [
        [type_of(jnp.asarray(x)).shape for x in tree_leaves(tree)]
        for tree in (x0, b)
    ]  # fmt: skip
    if tree_structure(x0) != tree_structure(b) or types[0] != types[1]:
        raise ArgumentValueError(
            f"scipy.sparse.linalg.{name} needs x0 and b of one structure and of the same shapes.",
            got=[f"x0: {tree_structure(x0)} {types[0]}", f"b: {tree_structure(b)} {types[1]}"],
        )
    x0 = tree_map(lambda x, y: jnp.asarray(x).astype(type_of(y).dtype), x0, b)
    precondition = (lambda x: x) if M is None else _operator(name, M)
    size = sum(math.prod(type_of(x).shape) for x in tree_leaves(b))
    limit = 10 * size if maxiter is None else maxiter

    def solve(matvec: Operator, rhs: Any) -> Any:
        return method(matvec, rhs, x0, precondition, limit)

    # The transpose of a Hermitian operator is its conjugate: symmetric only if it is real.
    is_symmetric &= all(type_of(x).dtype.kind != "c" for x in tree_leaves(b))
    x = custom_linear_solve(
        _operator(name, A), b, solve=solve, transpose_solve=solve, symmetric=is_symmetric
    )
    return x, None


def _threshold(b: Tree, tol: Any, atol: Any) -> Any:
    """Squared norm below which a residual counts as converged."""
    return jnp.maximum(jnp.square(tol) * _dot(b, b), jnp.square(atol))


# Conjugate gradients ------------------------------------------------------------------------------


def cg(
    A: Any,
    b: Any,
    x0: Any = None,
    *,
    tol: ArrayLike = 1e-5,
    atol: ArrayLike = 0.0,
    maxiter: int | None = None,
    M: Any = None,
) -> tuple[Any, None]:
    """(x with A x = b, None) by conjugate gradients, for a Hermitian, positive definite `A`.

    `A` and the preconditioner `M`, an approximate inverse: functions of trees like `b`, or matrices. Ends once the norm
    of the residual is at most `max(tol * norm(b), atol)`, or after `maxiter` steps, by default ten for each element.
    Raises: ShapeError for a matrix that isn't square, ArgumentValueError for `x0` that differs from `b` in shape.

    >>> x, _ = cg(lambda v: 2 * v, jnp.array([2.0, 4.0]))
    >>> x
    Array([1., 2.], dtype=float32)
    """

    def method(A: Operator, b: Tree, x0: Tree, M: Operator, limit: int) -> Tree:
        threshold = _threshold(b, tol, atol)

        def goes_on(state: tuple[Any, ...]) -> Any:
            _, r, _, _, k = state
            return (_dot(r, r) > threshold) & (k < limit)

        def step(state: tuple[Any, ...]) -> tuple[Any, ...]:
            x, r, gamma, p, k = state
            image = A(p)
            alpha = gamma / _dot(p, image)
            x, r = _add_scaled(x, alpha, p), _add_scaled(r, -alpha, image)
            z = M(r)
            next_gamma = _dot(r, z)
            return x, r, next_gamma, _add_scaled(z, next_gamma / gamma, p), k + 1

        r = _less(b, A(x0))
        z = M(r)
        return while_loop(goes_on, step, (x0, r, _dot(r, z), z, 0))[0]

    return _solution("cg", method, A, b, x0, M, maxiter, is_symmetric=True)


# Stabilized biconjugate gradients -----------------------------------------------------------------


class _BiCGState(NamedTuple):
    x: Tree
    r: Tree
    shadow: Tree
    alpha: Any
    omega: Any
    rho: Any
    p: Tree
    image: Tree
    k: Any


def bicgstab(
    A: Any,
    b: Any,
    x0: Any = None,
    *,
    tol: ArrayLike = 1e-5,
    atol: ArrayLike = 0.0,
    maxiter: int | None = None,
    M: Any = None,
) -> tuple[Any, None]:
    """(x with A x = b, None) by stabilized biconjugate gradients, for any regular `A`. Arguments are those of `cg`.

    Ends early where the method breaks down, with the best x so far.

    The result has the structure, the shapes and the dtypes of `b`.
    Raises: ShapeError for shapes that do not fit, ArgumentTypeError for an `A` that is neither a matrix nor a function,
    ArgumentValueError for an `x0` unlike `b`.

    >>> x, _ = bicgstab(jnp.array([[2.0, 1.0], [0.0, 4.0]]), jnp.array([3.0, 4.0]))
    >>> x.round(4)
    Array([1., 1.], dtype=float32)
    """

    def method(A: Operator, b: Tree, x0: Tree, M: Operator, limit: int) -> Tree:
        threshold = _threshold(b, tol, atol)

        def goes_on(state: _BiCGState) -> Any:
            return (_dot(state.r, state.r) > threshold) & (state.k >= 0) & (state.k < limit)

        def step(state: _BiCGState) -> _BiCGState:
            rho = _complex_dot(state.shadow, state.r)
            beta = rho / state.rho * state.alpha / state.omega
            p = _add_scaled(state.r, beta, _add_scaled(state.p, -state.omega, state.image))
            direction = M(p)
            image = A(direction)
            alpha = rho / _complex_dot(state.shadow, image)
            half = _add_scaled(state.r, -alpha, image)
            is_early = _dot(half, half) < threshold
            correction = M(half)
            t = A(correction)
            omega = _complex_dot(t, half) / _complex_dot(t, t)
            x = _add_scaled(state.x, alpha, direction)
            omega = jnp.where(is_early, jnp.zeros_like(omega), omega)
            x = tree_map(
                lambda a, c: jnp.where(is_early, a, a + omega.astype(_wider(omega, c)) * c),
                x,
                correction,
            )
            r = tree_map(
                lambda s, t: jnp.where(is_early, s, s - omega.astype(_wider(omega, t)) * t), half, t
            )
            broke = ((omega == 0) & ~is_early) | (rho == 0) | ~jnp.isfinite(_dot(r, r))
            last = lambda new, old: tree_map(lambda a, b: jnp.where(broke, b, a), new, old)
            return _BiCGState(
                last(x, state.x), last(r, state.r), state.shadow, alpha, omega, rho, p, image,
                jnp.where(broke, -1, state.k + 1),
            )  # fmt: skip

        r = _less(b, A(x0))
        dtype = jnp.result_type(*tree_leaves(b))
        one = jnp.ones((), dtype)
        zeros = tree_map(jnp.zeros_like, r)
        start = _BiCGState(x0, r, r, one, one, one, zeros, zeros, np.int32(0))
        return while_loop(goes_on, step, start).x

    return _solution("bicgstab", method, A, b, x0, M, maxiter, is_symmetric=False)


# Generalized minimal residuals --------------------------------------------------------------------


def gmres(
    A: Any,
    b: Any,
    x0: Any = None,
    *,
    tol: ArrayLike = 1e-5,
    atol: ArrayLike = 0.0,
    restart: int = 20,
    maxiter: int | None = None,
    M: Any = None,
    solve_method: str = "batched",
) -> tuple[Any, Any]:
    """(x with A x = b, status) by generalized minimal residuals in Krylov spaces of `restart` dimensions.

    The status is 0, or -1 where x contains NaN.

    `maxiter` counts restarts. `solve_method` "batched" builds each space whole and solves one problem of least squares,
    faster on accelerators; "incremental" updates a QR factorization and ends within a space. Both find one solution.
    For other arguments see `cg`. Raises: ArgumentValueError for another `solve_method`.

    The result has the structure, the shapes and the dtypes of `b`. ShapeError for shapes that do not fit,
    ArgumentTypeError for an `A` that is neither a matrix nor a function, DtypeError for float16 and bfloat16.

    >>> x, _ = gmres(jnp.array([[2.0, 1.0], [0.0, 4.0]]), jnp.array([3.0, 4.0]))
    >>> x.round(4)
    Array([1., 1.], dtype=float32)
    """
    if solve_method not in ("batched", "incremental"):
        raise ArgumentValueError(
            "scipy.sparse.linalg.gmres: solve_method must be 'batched' or 'incremental'.",
            got=f"solve_method: {solve_method!r}",
        )

    def method(A: Operator, b: Tree, x0: Tree, M: Operator, limit: int) -> Tree:
        flat_b, unravel = ravel_pytree(b)
        start, _ = ravel_pytree(x0)
        apply = lambda v: ravel_pytree(M(A(unravel(v))))[0]
        preconditioned, _ = ravel_pytree(M(b))
        count = min(restart, type_of(flat_b).shape[0])
        if not count:
            return x0
        norm = jnp.linalg.norm
        # `bound` is scaled to the preconditioned equation, whose residual is compared with it.
        bound = jnp.maximum(tol * norm(flat_b), atol)
        bound = bound * norm(preconditioned) / jnp.where(norm(flat_b) == 0, 1, norm(flat_b))
        build = _solve_least_squares if solve_method == "batched" else _step_by_step

        def goes_on(state: tuple[Any, ...]) -> Any:
            _, _, size, k = state
            return (k < limit) & (size > bound)

        def again(state: tuple[Any, ...]) -> tuple[Any, ...]:
            x, r, size, k = state
            x = x + build(apply, r / size, size, count, bound)
            r = preconditioned - apply(x)
            return x, r, norm(r), k + 1

        r = preconditioned - apply(start)
        return unravel(while_loop(goes_on, again, (start, r, norm(r), 0))[0])

    x, _ = _solution("gmres", method, A, b, x0, M, maxiter, is_symmetric=False)
    is_nan = [jnp.isnan(leaf).any() for leaf in tree_leaves(x)]
    return x, jnp.where(functools.reduce(jnp.logical_or, is_nan), -1, 0)


def _arnoldi_step(apply: Operator, V: Any, k: Any) -> tuple[Any, Any]:
    """One Arnoldi step: (basis [n, m + 1] with vector k + 1, column k [m + 1] of the Hessenberg matrix),
    orthogonalized twice.
    """
    w = apply(V[:, k])
    size = jnp.linalg.norm(w)
    column = jnp.zeros(type_of(V).shape[1], type_of(V).dtype)
    for _ in range(2):
        parts = jnp.matmul(V.conj().T, w, precision=_HIGHEST)
        w = w - jnp.matmul(V, parts, precision=_HIGHEST)
        column = column + parts
    rest = jnp.linalg.norm(w)
    is_inside = rest <= jnp.finfo(type_of(V).dtype).eps * size
    w = jnp.where(is_inside, 0, w / jnp.where(is_inside, 1, rest))
    return V.at[:, k + 1].set(w), column.at[k + 1].set(jnp.where(is_inside, 0, rest))


def _solve_least_squares(apply: Operator, v: Any, size: Any, count: int, bound: Any) -> Any:
    """The correction of least residual in a Krylov space of `count` dimensions, from one problem of least squares."""
    n, dtype = type_of(v).shape[0], type_of(v).dtype
    V = jnp.zeros((n, count + 1), dtype).at[:, 0].set(v)
    H = jnp.zeros((count + 1, count), dtype)

    def step(k: Any, state: tuple[Any, Any]) -> tuple[Any, Any]:
        V, H = state
        V, column = _arnoldi_step(apply, V, k)
        return V, H.at[:, k].set(column)

    V, H = fori_loop(0, count, step, (V, H))
    target = jnp.zeros(count + 1, dtype).at[0].set(size)
    return jnp.matmul(V[:, :-1], jnp.linalg.lstsq(H, target)[0], precision=_HIGHEST)


def _step_by_step(apply: Operator, v: Any, size: Any, count: int, bound: Any) -> Any:
    """The correction of least residual by Givens rotations, column by column, until the residual is within `bound` or
    `count` columns are used.
    """
    n, dtype = type_of(v).shape[0], type_of(v).dtype
    V = jnp.zeros((n, count + 1), dtype).at[:, 0].set(v)
    R = jnp.eye(count + 1, count, dtype=dtype)
    rotations = jnp.zeros((count, 2), dtype)
    target = jnp.zeros(count + 1, dtype).at[0].set(size)

    def goes_on(state: tuple[Any, ...]) -> Any:
        *_, k, rest = state
        return (k < count) & (rest > bound)

    def rotate(pair: Any, rotation: Any) -> Any:
        c, s = rotation
        return jnp.stack([c.conj() * pair[0] + s.conj() * pair[1], c * pair[1] - s * pair[0]])

    def step(state: tuple[Any, ...]) -> tuple[Any, ...]:
        V, R, rotations, target, k, _ = state
        V, column = _arnoldi_step(apply, V, k)

        def earlier(i: Any, column: Any) -> Any:
            pair = rotate(jnp.stack([column[i], column[i + 1]]), rotations[i])
            return column.at[i].set(pair[0]).at[i + 1].set(pair[1])

        column = fori_loop(0, k, earlier, column)
        pair = jnp.stack([column[k], column[k + 1]])
        length = jnp.linalg.norm(pair)
        rotation = pair / jnp.where(length == 0, 1, length)
        rotation = jnp.where(length == 0, jnp.asarray([1, 0], dtype), rotation)
        column = column.at[k].set(length).at[k + 1].set(0)
        pair = rotate(jnp.stack([target[k], target[k + 1]]), rotation)
        target = target.at[k].set(pair[0]).at[k + 1].set(pair[1])
        return (
            V, R.at[:, k].set(column), rotations.at[k].set(rotation), target, k + 1, jnp.abs(pair[1]),
        )  # fmt: skip

    V, R, _, target, k, _ = while_loop(
        goes_on, step, (V, R, rotations, target, np.int32(0), jnp.abs(size))
    )
    # Columns that weren't computed are those of the identity; their part of the right-hand side is 0.
    rhs = jnp.where(jnp.arange(count) < k, target[:-1], 0)
    y = jnp.linalg.lstsq(R[:-1], rhs)[0]
    return jnp.matmul(V[:, :-1], y, precision=_HIGHEST)


__all__ = ["bicgstab", "cg", "gmres"]

public_functions(__all__, globals())

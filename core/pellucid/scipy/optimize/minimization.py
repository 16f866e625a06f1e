"""Minimization by quasi-Newton methods.

Source: Nocedal and Wright, Numerical Optimization (2nd ed., 2006), algorithms 6.1 (BFGS), 7.4 and 7.5 (L-BFGS).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from pellucid import numpy as jnp
from pellucid._machine.base import (
    ArgumentTypeError,
    ArgumentValueError,
    ArrayLike,
    ShapeError,
    public_functions,
    tree_map,
)
from pellucid._machine.higher_order.loops import fori_loop, while_loop
from pellucid._machine.primitives.precision import Precision
from pellucid._machine.tracing import type_of
from pellucid._machine.transforms import check_callable
from pellucid._machine.transforms.gradient import value_and_grad
from pellucid.numpy.promotion import aval_of

from .line_search import LineSearchState, dot, line_search

_CONVERGED, _TOO_MANY_STEPS, _TOO_MANY_VALUES, _TOO_MANY_GRADIENTS, _NO_PROGRESS, _NO_STEP = range(
    6
)


class OptimizeResults(NamedTuple):
    """Result of `minimize`.

    `x`: the minimum [n]. `success`: whether the method converged. `status`: 0, or a positive number for the reason why
    not. `fun`, `jac`: value and gradient at `x`. `hess_inv`: estimate [n, n] of the inverse Hessian, or None. `nfev`,
    `njev`: numbers of evaluations of the function and of its gradient. `nit`: number of steps.

    >>> minimize = pl.scipy.optimize.minimize
    >>> results = pl.eval_shape(lambda x: minimize(jnp.sum, x, method="BFGS"), np.zeros(2))
    >>> results.x.shape, results.jac.shape, results.hess_inv.shape, results.success.dtype
    ((2,), (2,), (2, 2), dtype('bool'))
    """

    x: Any
    success: Any
    status: Any
    fun: Any
    jac: Any
    hess_inv: Any
    nfev: Any
    njev: Any
    nit: Any


class _History(NamedTuple):
    """The last steps [k, n], the changes of the gradient over them, and inverses of their products, oldest first."""

    steps: Any
    changes: Any
    inverses: Any


class _State(NamedTuple):
    x: Any
    value: Any
    gradient: Any
    curvature: Any
    steps: Any
    evaluations: Any
    status: Any


class _Method(NamedTuple):
    """The update rule of a quasi-Newton method for its approximate inverse Hessian."""

    first: Callable[[Any], Any]
    """Returns the initial state for the vector x."""
    direction: Callable[[Any, Any], Any]
    """Maps (state, gradient) to a direction of descent."""
    updated: Callable[[Any, Any, Any], Any]
    """Maps (state, step, change of the gradient) to the next state."""


# BFGS ---------------------------------------------------------------------------------------------


def _matmul(*matrices: Any) -> Any:
    return jnp.linalg.multi_dot(matrices, precision=Precision.HIGHEST)


def _updated_inverse(inverse: Any, step: Any, change: Any) -> Any:
    product = dot(step, change)
    scale = jnp.where(product > 0, 1 / jnp.where(product == 0, 1, product), 0)
    factor = jnp.eye(type_of(step).shape[0], dtype=type_of(step).dtype) - scale * jnp.outer(
        step, change
    )
    result = _matmul(factor, inverse, factor.T) + scale * jnp.outer(step, step)
    return jnp.where(jnp.isfinite(scale) & (scale > 0), result, inverse)


_BFGS = _Method(
    lambda x: jnp.eye(type_of(x).shape[0], dtype=type_of(x).dtype),
    lambda inverse, gradient: -jnp.matmul(inverse, gradient, precision=Precision.HIGHEST),
    _updated_inverse,
)


# L-BFGS -------------------------------------------------------------------------------------------


def _limited_memory(count: int) -> _Method:
    """Limited-memory BFGS: keeps the last `count` steps in place of a matrix."""

    def first(x: Any) -> _History:
        empty = jnp.zeros((count, type_of(x).shape[0]), type_of(x).dtype)
        return _History(
            empty, empty, empty[:, 0] if type_of(x).shape[0] else jnp.zeros(count, type_of(x).dtype)
        )

    def direction(history: _History, gradient: Any) -> Any:
        def back(i: Any, state: tuple[Any, Any]) -> tuple[Any, Any]:
            q, weights = state
            k = count - 1 - i
            weight = history.inverses[k] * dot(history.steps[k], q)
            return q - weight * history.changes[k], weights.at[k].set(weight)

        def forth(k: Any, r: Any) -> Any:
            weight = history.inverses[k] * dot(history.changes[k], r)
            return r + (weights[k] - weight) * history.steps[k]

        q, weights = fori_loop(0, count, back, (gradient, jnp.zeros_like(history.inverses)))
        last = dot(history.changes[-1], history.changes[-1]) * history.inverses[-1]
        return -fori_loop(0, count, forth, q / jnp.where(last == 0, 1, last))

    def update(history: _History, step: Any, change: Any) -> _History:
        product = dot(step, change)
        appended = tree_map(
            lambda rows, row: jnp.concatenate([rows[1:], row[None]]),
            history, _History(step, change, 1 / jnp.where(product == 0, 1, product)),
        )  # fmt: skip
        return tree_map(lambda a, b: jnp.where(product > 0, a, b), appended, history)

    return _Method(first, direction, update)


# The loop -----------------------------------------------------------------------------------------


class _Limits(NamedTuple):
    """Termination criteria of a minimization; `ftol` and numbers that are None don't apply."""

    maxiter: int | None
    norm: Any
    gtol: Any
    ftol: Any
    maxfun: int | None
    maxgrad: int | None
    line_search_evaluations: int


def _minimize(
    fun: Callable[[Any], Any], x: Any, method: _Method, limits: _Limits
) -> OptimizeResults:
    evaluate = value_and_grad(fun)

    def is_small(gradient: Any) -> Any:
        if not type_of(gradient).shape[0]:
            return jnp.bool_(True)
        return jnp.linalg.norm(gradient, ord=limits.norm) < limits.gtol

    def step(state: _State) -> _State:
        direction = method.direction(state.curvature, state.gradient)
        descends = dot(direction, state.gradient) < 0
        direction = jnp.where(descends, direction, -state.gradient)
        # The curvature is unknown before the first step, whose first trial has norm 1 at most.
        size = jnp.sqrt(dot(state.gradient, state.gradient))
        length = jnp.where(state.steps == 0, jnp.minimum(1, 1 / size), 1).astype(
            type_of(state.value).dtype
        )
        search: LineSearchState = line_search(
            evaluate, state.x, state.value, state.gradient, direction, length, limits.line_search_evaluations
        )  # fmt: skip
        moved = search.low.length * direction
        curvature = method.updated(state.curvature, moved, search.low.gradient - state.gradient)
        steps, evaluations = state.steps + 1, state.evaluations + search.evaluations
        status = jnp.where(search.is_done, -1, _NO_STEP)
        if limits.ftol is not None:
            scale = jnp.maximum(jnp.maximum(jnp.abs(state.value), jnp.abs(search.low.value)), 1)
            status = jnp.where(
                search.is_done & (state.value - search.low.value <= limits.ftol * scale), _NO_PROGRESS, status
            )  # fmt: skip
        for count, limit, code in (
            (evaluations, limits.maxgrad, _TOO_MANY_GRADIENTS),
            (evaluations, limits.maxfun, _TOO_MANY_VALUES),
            (steps, limits.maxiter, _TOO_MANY_STEPS),
        ):
            status = (
                status
                if limit is None
                else jnp.where((count >= limit) & (status < 0), code, status)
            )
        status = jnp.where(is_small(search.low.gradient), _CONVERGED, status)
        return _State(
            state.x + moved, search.low.value, search.low.gradient, curvature, steps, evaluations,
            status.astype(np.int32),
        )  # fmt: skip

    value, gradient = evaluate(x)
    status = jnp.where(
        is_small(gradient), _CONVERGED, -1 if limits.maxiter != 0 else _TOO_MANY_STEPS
    )
    one = np.int32(1)
    start = _State(x, value, gradient, method.first(x), one - 1, one, status.astype(np.int32))
    end = while_loop(lambda state: state.status < 0, step, start)
    return OptimizeResults(
        end.x, end.status == _CONVERGED, end.status, end.value, end.gradient,
        end.curvature if method is _BFGS else None, end.evaluations, end.evaluations, end.steps,
    )  # fmt: skip


# Arguments ----------------------------------------------------------------------------------------


def _bfgs(
    fun: Callable[[Any], Any],
    x: Any,
    maxiter: int | None = None,
    norm: Any = np.inf,
    gtol: Any = 1e-5,
    line_search_maxiter: int = 10,
) -> OptimizeResults:
    maxiter = 200 * type_of(x).shape[0] if maxiter is None else maxiter
    return _minimize(
        fun, x, _BFGS, _Limits(maxiter, norm, gtol, None, None, None, 2 * line_search_maxiter)
    )


def _l_bfgs(
    fun: Callable[[Any], Any],
    x: Any,
    maxiter: int | None = None,
    norm: Any = np.inf,
    maxcor: int = 10,
    ftol: Any = 2.220446049250313e-09,
    gtol: Any = 1e-5,
    maxfun: int | None = None,
    maxgrad: int | None = None,
    maxls: int = 20,
) -> OptimizeResults:
    limits = _Limits(maxiter, norm, gtol, ftol, maxfun, maxgrad, maxls)
    return _minimize(fun, x, _limited_memory(maxcor), limits)


_METHODS = {"bfgs": _bfgs, "l-bfgs-experimental-do-not-rely-on-this": _l_bfgs}


def minimize(
    fun: Callable[..., Any],
    x0: ArrayLike,
    args: tuple[Any, ...] = (),
    *,
    method: str,
    tol: float | None = None,
    options: Mapping[str, Any] | None = None,
) -> OptimizeResults:
    """The minimum of `fun(x, *args)`, a scalar, that a quasi-Newton method reaches from the vector `x0` [n].

    `method` "BFGS" keeps a matrix [n, n]; options: `maxiter` (200 n), `norm` of the gradient (inf), `gtol` (1e-5, or
    `tol`), `line_search_maxiter` (10). "l-bfgs-experimental-do-not-rely-on-this" keeps the last steps; options also
    `maxcor` (10 steps), `ftol` (2.2e-9, least relative progress), `maxfun`, `maxgrad`, `maxls` (20), without
    `line_search_maxiter`. `status`: 0 converged, 1 too many steps, 2 and 3 too many evaluations, 4 no progress, 5 no
    acceptable step. Raises: ArgumentValueError for another method, ArgumentTypeError for `args` that are no tuple
    and for unknown options, ShapeError unless `x0` is a vector.

    >>> result = minimize(lambda x: jnp.sum((x - 3) ** 2), jnp.zeros(2), method="BFGS")
    >>> result.x.round(), bool(result.success)
    (Array([3., 3.], dtype=float32), True)
    """
    check_callable(fun, "scipy.optimize.minimize")
    if not isinstance(args, tuple):
        raise ArgumentTypeError(
            "scipy.optimize.minimize needs a tuple of arguments.",
            got=f"args: {type(args).__name__}",
        )
    function = _METHODS.get(method.lower()) if isinstance(method, str) else None
    if function is None:
        raise ArgumentValueError(
            f"scipy.optimize.minimize: method must be one of {', '.join(_METHODS)}.",
            got=f"got {method!r}",
        )
    aval = aval_of("scipy.optimize.minimize", x0, 1)
    if aval.ndim != 1:
        raise ShapeError("scipy.optimize.minimize needs a vector.", got=f"x0: {aval.text()}")
    settings = dict(options or {})
    names = function.__code__.co_varnames[2 : function.__code__.co_argcount]
    for name in settings:
        if name not in names:
            raise ArgumentTypeError(
                f"scipy.optimize.minimize: {method} has no option {name!r}.",
                do=f"Its options are {', '.join(names)}.",
            )
    if tol is not None:
        settings.setdefault("gtol", tol)
    return function(lambda x: fun(x, *args), jnp.asarray(x0), **settings)


__all__ = ["OptimizeResults", "minimize"]

public_functions(__all__, globals())

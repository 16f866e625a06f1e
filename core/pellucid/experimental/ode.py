"""Ordinary differential equations under the name of `jax.experimental.ode`.

The method is that of Dormand and Prince: fifth order with an error estimate of fourth order, and a quartic between the
ends of a step. Sources: Hairer, Norsett and Wanner, Solving Ordinary Differential Equations I (2nd ed.), sections II.4
to II.6, for the method and the size of steps; Shampine, Some Practical Runge-Kutta Formulas (1986), for the midpoint.
Reverse mode solves the adjoint equation backwards in time: Pontryagin et al. (1962); Chen et al., Neural Ordinary
Differential Equations (2018), appendix B.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from pellucid import numpy as jnp
from pellucid._machine.base import library_code, public_functions
from pellucid._machine.base.errors import ArgumentTypeError, ShapeError
from pellucid._machine.base.tree import tree_leaves, tree_map
from pellucid._machine.higher_order.custom_gradient import closure_convert
from pellucid._machine.higher_order.custom_vjp import custom_vjp
from pellucid._machine.higher_order.loops import fori_loop, scan, while_loop
from pellucid._machine.primitives.slicing import dynamic_update_index_in_dim
from pellucid._machine.tracing.operands import is_array_like, type_of
from pellucid._machine.transforms.arguments import check_callable
from pellucid._machine.transforms.gradient import vjp
from pellucid._machine.transforms.ravel import ravel_pytree
from pellucid._machine.transforms.vmap import vmap

# Butcher's table: times of the stages, their slopes' weights, weights of the result and of its error.
_TIMES = np.array([1 / 5, 3 / 10, 4 / 5, 8 / 9, 1.0, 1.0])
_STAGES = np.array([
    [1 / 5, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0],
    [3 / 40, 9 / 40, 0.0, 0.0, 0.0, 0.0, 0.0],
    [44 / 45, -56 / 15, 32 / 9, 0.0, 0.0, 0.0, 0.0],
    [19372 / 6561, -25360 / 2187, 64448 / 6561, -212 / 729, 0.0, 0.0, 0.0],
    [9017 / 3168, -355 / 33, 46732 / 5247, 49 / 176, -5103 / 18656, 0.0, 0.0],
    [35 / 384, 0.0, 500 / 1113, 125 / 192, -2187 / 6784, 11 / 84, 0.0],
])  # fmt: skip
_RESULT = (35 / 384, 0.0, 500 / 1113, 125 / 192, -2187 / 6784, 11 / 84, 0.0)
_ERROR = (
    35 / 384 - 1951 / 21600, 0.0, 500 / 1113 - 22642 / 50085, 125 / 192 - 451 / 720,
    -2187 / 6784 + 12231 / 42400, 11 / 84 - 649 / 6300, -1 / 60,
)  # fmt: skip
_MIDDLE = (
    6025192743 / 30085553152 / 2, 0.0, 51252292925 / 65400821598 / 2, -2691868925 / 45128329728 / 2,
    187940372067 / 1594534317056 / 2, -1776094331 / 19743644256 / 2, 11237099 / 235043384 / 2,
)  # fmt: skip
_SAFETY, _LARGEST_GROWTH, _LARGEST_CUT = 0.9, 10.0, 0.2


class Tolerances(NamedTuple):
    """Tolerances, and the limits of steps between two requested times."""

    rtol: float
    atol: float
    mxstep: float
    hmax: float


def odeint(
    func: Callable[..., Any],
    y0: Any,
    t: Any,
    *args: Any,
    rtol: float = 1.4e-8,
    atol: float = 1.4e-8,
    mxstep: float = math.inf,
    hmax: float = math.inf,
) -> Any:
    """The solution of dy/dt = `func(y, t, *args)` with y(t[0]) = `y0` at the increasing times `t`.

    `y0` is a tree of arrays, `func` gives one of its structure and shapes, and the result has a leading axis for the
    times. Steps are chosen so that their error stays below `atol + rtol * |y|`, are no longer than `hmax`, and at most
    `mxstep` of them lie between two times. It can be differentiated in reverse mode, by `y0`, `t`, `args` and what
    `func` captures, in memory that doesn't grow with the steps.

    Raises: ArgumentTypeError for arguments that aren't arrays, ShapeError unless `t` has one dimension and the slope
    the shapes of `y0`.

    >>> [f"{y:.4f}" for y in odeint(lambda y, t: -y, 1.0, np.array([0.0, 1.0], np.float32))]
    ['1.0000', '0.3679']
    """
    check_callable(func, "odeint")
    for what, tree in (("y0", y0), ("t", t), *((f"args[{i}]", x) for i, x in enumerate(args))):
        for leaf in tree_leaves(tree):
            if not is_array_like(leaf):
                raise ArgumentTypeError(
                    "odeint needs arrays and trees of them.",
                    got=f"{what}: {type(leaf).__name__} ({leaf!r:.60})",
                    do="Bind other values with a lambda or functools.partial.",
                )
    t = jnp.asarray(t)
    if t.ndim != 1:
        raise ShapeError(
            "odeint needs the times as an array of one dimension.", got=f"t: {type_of(t).text()}"
        )
    y0, args = tree_map(jnp.asarray, (y0, args))
    converted, captured = closure_convert(func, y0, t[0], *args)
    flat_y0, unravel = ravel_pytree(y0)
    [size] = flat_y0.shape

    def slope(y: Any, time: Any, *more: Any) -> Any:
        slopes, _ = ravel_pytree(converted(unravel(y), time, *more))
        if slopes.shape != (size,):
            raise ShapeError(
                "odeint: the slope doesn't have the shapes of y0.",
                got=f"{size} numbers in y0, {slopes.shape[0]} in what `func` returned",
            )
        return slopes

    settings = Tolerances(rtol, atol, mxstep, hmax)
    return vmap(unravel)(_solution(slope, settings, flat_y0, t, *args, *captured))


# One step -------------------------------------------------------------------------------------------------


class _State(NamedTuple):
    """The end of the last step with the slope there, the length of the next, and a quartic over the last one."""

    y: Any
    slope: Any
    time: Any
    step: Any
    last_time: Any
    quartic: Any


def _weighted_sum(weights: Any, slopes: Any) -> Any:
    """The weighted sum of the slopes, which are rows."""
    return jnp.dot(jnp.asarray(weights, slopes.real.dtype), slopes, precision="highest")


def _stages(func: Callable[..., Any], y: Any, slope: Any, time: Any, step: Any) -> Any:
    """The slopes at the seven stages of a step, as rows."""

    def stage(slopes: Any, row: tuple[Any, Any, Any]) -> tuple[Any, None]:
        number, at, weights = row
        value = func(y + step * _weighted_sum(weights, slopes), time + at * step)
        return dynamic_update_index_in_dim(slopes, value, number, 0), None

    first = jnp.zeros((len(_TIMES) + 1, *slope.shape), slope.dtype).at[0].set(slope)
    rows = (
        np.arange(1, len(_TIMES) + 1),
        _TIMES.astype(time.dtype),
        _STAGES.astype(slope.real.dtype),
    )
    return scan(stage, first, rows)[0]


def _quartic(y: Any, end: Any, middle: Any, slope: Any, end_slope: Any, step: Any) -> Any:
    """Coefficients, highest power first, of the quartic through three values with two slopes at the ends."""
    a, b = step * slope, step * end_slope
    return jnp.stack([
        -2.0 * a + 2.0 * b - 8.0 * y - 8.0 * end + 16.0 * middle,
        5.0 * a - 3.0 * b + 18.0 * y + 14.0 * end - 32.0 * middle,
        -4.0 * a + b - 11.0 * y - 5.0 * end + 16.0 * middle,
        a,
        y,
    ])  # fmt: skip


def _first_step(
    func: Callable[..., Any], time: Any, y: Any, slope: Any, settings: Tolerances
) -> Any:
    """The algorithm of Hairer, Norsett and Wanner, II.4, for the length of the first step."""
    scale = settings.atol + jnp.abs(y) * settings.rtol
    size = lambda x: jnp.sqrt(jnp.sum(jnp.abs(x / scale) ** 2))
    d0, d1 = size(y), size(slope)
    h0 = jnp.where((d0 < 1e-5) | (d1 < 1e-5), 1e-6, 0.01 * d0 / d1)
    d2 = size(func(y + h0 * slope, time + h0) - slope) / h0
    flat = (d1 <= 1e-15) & (d2 <= 1e-15)
    h1 = jnp.where(flat, jnp.maximum(1e-6, h0 * 1e-3), (0.01 / jnp.maximum(d1, d2)) ** 0.2)
    return jnp.minimum(100.0 * h0, h1).astype(slope.real.dtype)


def _advance(func: Callable[..., Any], state: _State, settings: Tolerances) -> _State:
    """The state after one more attempt at a step; it moves on only if the error is small enough."""
    y, slope, time, step = state.y, state.slope, state.time, state.step
    slopes = _stages(func, y, slope, time, step)
    end = y + step * _weighted_sum(_RESULT, slopes)
    error = step * _weighted_sum(_ERROR, slopes)
    allowed = settings.atol + settings.rtol * jnp.maximum(jnp.abs(y), jnp.abs(end))
    ratio = jnp.sqrt(jnp.mean(jnp.abs(error / allowed) ** 2))
    quartic = _quartic(y, end, y + step * _weighted_sum(_MIDDLE, slopes), slope, slopes[-1], step)
    cut = jnp.where(ratio < 1.0, 1.0, _LARGEST_CUT)
    growth = jnp.minimum(_LARGEST_GROWTH, jnp.maximum(_SAFETY * ratio**-0.2, cut))
    next_step = jnp.where(ratio == 0.0, step * _LARGEST_GROWTH, step * growth)
    next_step = jnp.minimum(next_step, settings.hmax)
    accepted = _State(end, slopes[-1], time + step, next_step, time, quartic)
    refused = state._replace(step=next_step)
    return _State(*(jnp.where(ratio <= 1.0, a, b) for a, b in zip(accepted, refused, strict=True)))


# The solution ---------------------------------------------------------------------------------------------


def _solve(func: Callable[..., Any], settings: Tolerances, y0: Any, times: Any, *args: Any) -> Any:
    """Values at all `times`, stacked; `y0` is a vector."""
    slope_at = lambda y, time: func(y, time, *args)

    def until(state: _State, target: Any) -> tuple[_State, Any]:
        def goes_on(counted: tuple[Any, _State]) -> Any:
            count, state = counted
            return (state.time < target) & (count < settings.mxstep) & (state.step > 0)

        def attempt(counted: tuple[Any, _State]) -> tuple[Any, _State]:
            return counted[0] + 1, _advance(slope_at, counted[1], settings)

        _, state = while_loop(goes_on, attempt, (0, state))
        place = (target - state.last_time) / (state.time - state.last_time)
        value = state.quartic[0]
        for coefficient in state.quartic[1:]:
            value = value * place.astype(value.dtype) + coefficient
        return state, value

    slope = slope_at(y0, times[0])
    step = jnp.minimum(_first_step(slope_at, times[0], y0, slope, settings), settings.hmax)
    start = _State(y0, slope, times[0], step.astype(times.dtype), times[0], jnp.stack([y0] * 5))
    _, ys = scan(until, start, times[1:])
    return jnp.concatenate([y0[None], ys])


_solution = custom_vjp(_solve, nondiff_argnums=(0, 1))


def _forward(
    func: Callable[..., Any], settings: Tolerances, y0: Any, times: Any, *args: Any
) -> Any:
    ys = _solution(func, settings, y0, times, *args)
    # Outside of other traces, NumPy arrays arrive unconverted.
    return ys, (ys, *tree_map(jnp.asarray, (times, args)))


def _backward(func: Callable[..., Any], settings: Tolerances, saved: Any, cotangent: Any) -> Any:
    """Cotangents of y0, of the times and of the other arguments, integrated from the last time to the first."""
    ys, times, args = saved

    def adjoint(state: Any, backwards: Any, *args: Any) -> Any:
        """Slopes, against time, of the solution and of the cotangents of y, of the time and of the arguments."""
        y, y_bar, *_ = state
        slope, pull = vjp(func, y, -backwards, *args)
        return (-slope, *pull(y_bar))

    def between(i: Any, carry: Any) -> Any:
        y_bar, time_bar, args_bar, times_bar = carry
        k = times.shape[0] - 1 - i
        at_end = jnp.sum(func(ys[k], times[k], *args) * cotangent[k])
        at_end = jnp.real(at_end).astype(times.dtype)
        start = (ys[k], y_bar, time_bar - at_end, *args_bar)
        span = jnp.stack([-times[k], -times[k - 1]])
        states = odeint(adjoint, start, span, *args, **settings._asdict())
        _, y_bar, time_bar, *args_bar = tree_map(lambda x: x[1], states)
        return y_bar + cotangent[k - 1], time_bar, args_bar, times_bar.at[k].set(at_end)

    zero = jnp.zeros((), times.dtype)
    args_bar = [tree_map(jnp.zeros_like, a) for a in args]
    first = (cotangent[-1], zero, args_bar, jnp.zeros_like(times))
    y_bar, time_bar, args_bar, times_bar = fori_loop(0, times.shape[0] - 1, between, first)
    return (y_bar, times_bar.at[0].set(time_bar), *args_bar)


_solution.defvjp(library_code(_forward), library_code(_backward))

__all__ = ["odeint"]

public_functions(__all__, globals())

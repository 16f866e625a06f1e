"""Steps along a direction of descent that satisfy the strong Wolfe conditions.

Source: Nocedal and Wright, Numerical Optimization (2nd ed., 2006), algorithms 3.5 and 3.6.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from pellucid import numpy as jnp
from pellucid._machine.base import tree_map
from pellucid._machine.higher_order.loops import while_loop
from pellucid._machine.primitives.precision import Precision

_DECREASE, _CURVATURE = 1e-4, 0.9
"""Constants of the Wolfe conditions, as fractions of the initial slope: least mean slope of a step, largest slope at
its end.
"""
_MAX_STEP_GROWTH = 2.0


def dot(a: Any, b: Any) -> Any:
    """Inner product of two vectors in full precision."""
    return jnp.vdot(a, b, precision=Precision.HIGHEST)


class Point(NamedTuple):
    """A trial step: its length, and the value, gradient and slope at its end."""

    length: Any
    value: Any
    gradient: Any
    slope: Any


class LineSearchState(NamedTuple):
    """State of a search: the end of lower value, the other end of the bracket, and whether there is one."""

    low: Point
    high: Point
    is_bracketed: Any
    is_done: Any
    evaluations: Any


def line_search(
    value_and_grad: Callable[[Any], tuple[Any, Any]],
    x: Any,
    value: Any,
    gradient: Any,
    direction: Any,
    length: Any,
    max_evaluations: int,
) -> LineSearchState:
    """Searches from `x` along `direction`, with `length` as first trial; `low` is the step, acceptable if `is_done`.

    Without an acceptable step, `low` is the one of lowest value that decreases it enough, or a step of length 0.
    """
    slope = dot(gradient, direction)
    resolution = 4 * np.finfo(np.asarray(np.zeros(0, x.dtype)).dtype).eps * jnp.abs(value)

    def at(length: Any) -> Point:
        new_value, new_gradient = value_and_grad(x + length * direction)
        return Point(length, new_value, new_gradient, dot(new_gradient, direction))

    def trial_length(state: LineSearchState) -> Any:
        grown = state.low.length + (state.high.length - state.low.length) * _MAX_STEP_GROWTH
        return jnp.where(state.is_bracketed, _cubic_minimum(state.low, state.high), grown)

    def step(state: LineSearchState) -> LineSearchState:
        is_first = state.evaluations == 0
        trial = at(jnp.where(is_first, length, trial_length(state)))
        bound = value + _DECREASE * trial.length * slope
        # Values that differ by rounding only are compared by their slopes.
        is_flat = jnp.abs(trial.value - value) <= resolution
        is_low = (trial.value <= bound) | (is_flat & (trial.slope <= (2 * _DECREASE - 1) * slope))
        is_low &= jnp.isfinite(trial.value) & (trial.value <= state.low.value + resolution)
        is_done = is_low & (jnp.abs(trial.slope) <= -_CURVATURE * slope)
        # The minimum lies between the trial and the end to which the trial's slope points.
        reaches_high = trial.slope * (state.high.length - state.low.length) >= 0
        other = _where(state.is_bracketed & ~reaches_high, state.high, state.low)
        bracketed = LineSearchState(
            _where(is_low, trial, state.low), _where(is_low, other, trial),
            jnp.bool_(True), is_done, state.evaluations + 1,
        )  # fmt: skip
        longer = LineSearchState(
            trial, _further(trial, state.low), jnp.bool_(False), is_done, state.evaluations + 1
        )
        still_descends = ~state.is_bracketed & is_low & (trial.slope < 0)
        return _where(still_descends, longer, bracketed)

    start = Point(jnp.zeros_like(value), value, gradient, slope)
    first = LineSearchState(start, start, jnp.bool_(False), jnp.bool_(False), np.int32(0))
    return while_loop(
        lambda state: ~state.is_done & (state.evaluations < max_evaluations), step, first
    )


def _further(trial: Point, low: Point) -> Point:
    """`trial` with the length of the next end of extrapolation: as far beyond `trial` as `trial` is beyond `low`."""
    return trial._replace(length=2 * trial.length - low.length)


def _where(condition: Any, a: Any, b: Any) -> Any:
    return tree_map(lambda p, q: jnp.where(condition, p, q), a, b)


def _cubic_minimum(low: Point, high: Point) -> Any:
    """Length at the minimum of the cubic with the values and slopes of both ends, at least a tenth of the width off
    them.

    The middle, where the cubic has none.
    """
    width = high.length - low.length
    mean = (high.value - low.value) / jnp.where(width == 0, 1, width)
    first = low.slope + high.slope - 3 * mean
    square = first * first - low.slope * high.slope
    root = jnp.sqrt(jnp.maximum(square, 0)) * jnp.where(width < 0, -1, 1)
    denominator = high.slope - low.slope + 2 * root
    place = 1 - (high.slope + root - first) / jnp.where(denominator == 0, 1, denominator)
    is_usable = (square >= 0) & (denominator != 0) & jnp.isfinite(place)
    return low.length + width * jnp.where(is_usable, jnp.clip(place, 0.1, 0.9), 0.5)

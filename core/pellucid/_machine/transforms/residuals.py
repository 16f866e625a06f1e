"""Residuals of a function: values kept for its backward pass, with type, origin and line."""

from __future__ import annotations

import operator
from typing import Any

from pellucid._machine.base import Function, Names, user_frame
from pellucid._machine.ir import DebugInfo, Equation, Values
from pellucid._machine.tracing import StagingTracer, source_of, stage, type_of, types_of

from .arguments import (
    argument_paths,
    check_callable,
    flat_arguments,
    is_differentiable,
    result_leaves,
)
from .linearize import linearize_flat


def saved_residuals(f: Function, *args: Any, **kwargs: Any) -> list[tuple[Any, str]]:
    """(type, origin) of each value kept when `f` is differentiated at such arguments; computes nothing.

    Raises: ArgumentTypeError if `f` isn't callable, or for results that are not arrays.

    >>> pl.introspect.saved_residuals(jnp.sin, 1.0)
    [(ShapedArray(float32[], weak_type=True), 'output of cos from ...')]
    """
    check_callable(f, "saved_residuals")
    leaves, tree = flat_arguments((args, kwargs), "saved_residuals", f, args, kwargs)
    paths = argument_paths(f, args, kwargs)
    avals = types_of(leaves)
    residuals: list[tuple[int, Any, str]] = []

    def primal(*xs: Any) -> list[Any]:
        def flat(*ys: Any) -> tuple[Values, tuple[()]]:
            inner_args, inner_kwargs = tree.unflatten(ys)
            return result_leaves(f(*inner_args, **inner_kwargs), "saved_residuals", f)[0], ()

        results, program, _ = linearize_flat(flat, xs, [is_differentiable(a) for a in avals])
        positions = {x.variable: i for i, x in enumerate(xs)}
        residuals.extend(
            _residual_row(r, positions, paths) for r in program.without_dead_code().residuals
        )
        return results

    stage(primal, avals, DebugInfo("saved_residuals", source_of(f), paths))
    return [(aval, text) for _, aval, text in sorted(residuals, key=operator.itemgetter(0))]


def _residual_row(residual: Any, positions: dict[Any, int], paths: Names) -> tuple[int, Any, str]:
    """(sort key: index of the argument that a residual is, or a larger number; type; origin)."""
    is_traced = type(residual) is StagingTracer
    equation = residual.equation if is_traced else None
    place = positions.get(residual.variable, len(paths)) if is_traced else len(paths)
    if place < len(paths):
        text = f"from the argument {paths[place]}"
    elif equation is None:
        text = "from a constant"
    else:
        kind = equation.primitive.name
        if kind == "name":
            text = f"named '{equation.params.name}'"
        elif kind == "jit":
            text = f"output of jitted function '{equation.params.name}'"
        else:
            text = f"output of {kind}"
        text += f" from {_line(equation)}"
    return place, type_of(residual), text


def _line(equation: Equation) -> str:
    frame = user_frame(equation.source)
    if frame is None:
        return "an unknown place"
    return f"{frame.file}:{frame.line}:{frame.column} ({frame.function})"


def print_saved_residuals(f: Function, *args: Any, **kwargs: Any) -> None:
    """Prints the values kept when `f` is differentiated at such arguments, one line each.

    Raises: as `saved_residuals`.

    >>> pl.ad_checkpoint.print_saved_residuals(lambda x: x * jnp.sin(x), jnp.ones(2))
    f32[2] from the argument x
    f32[2] output of cos from ...
    f32[2] output of sin from ...
    """
    for aval, text in saved_residuals(f, *args, **kwargs):
        print(f"{aval.text()} {text}")  # noqa: T201  (that is what it is for)

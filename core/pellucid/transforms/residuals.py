"""Residuals: values that the backward pass of a function keeps, each with its bytes, its origin and its line."""

from __future__ import annotations

from typing import Any, NamedTuple

from pellucid.base import Function, user_frame
from pellucid.ir import DebugInfo, Equation
from pellucid.tracing import StagingTracer, name_of, stage, type_of, types_of

from .arguments import (
    argument_paths,
    check_callable,
    flat_arguments,
    is_differentiable,
    result_leaves,
)
from .linearize import linearize_flat


class Residual(NamedTuple):
    """A value that is kept: its type, where it comes from in words, and the equation that makes it."""

    aval: Any
    text: str
    equation: Equation | None

    @property
    def nbytes(self) -> int:
        """Bytes that it takes."""
        return self.aval.nbytes


def residuals_of(function: Function, *args: Any, **kwargs: Any) -> list[Residual]:
    """Residuals of `function` at arguments of these types, without computing anything."""
    check_callable(function, "saved_residuals")
    leaves, tree = flat_arguments((args, kwargs), "saved_residuals", function, args, kwargs)
    paths = argument_paths(function, args, kwargs)
    avals = types_of(leaves)
    residuals: list[Residual] = []

    def primal(*xs: Any) -> list[Any]:
        def flat(*ys):
            inner_args, inner_kwargs = tree.unflatten(ys)
            return result_leaves(
                function(*inner_args, **inner_kwargs), "saved_residuals", function
            )[0], ()

        results, program, _ = linearize_flat(flat, xs, [is_differentiable(a) for a in avals])
        positions = {x.variable: i for i, x in enumerate(xs)}
        residuals.extend(
            _described(r, positions, paths) for r in program.without_dead_code().residuals
        )
        return results

    stage(primal, avals, DebugInfo(name_of(function), paths))
    order = {path: i for i, path in enumerate(paths)}
    return sorted(
        residuals, key=lambda r: order.get(r.text.removeprefix("from the argument "), len(order))
    )


def _described(residual, positions: dict[Any, int], paths: tuple[str, ...]) -> Residual:
    is_traced = type(residual) is StagingTracer
    equation = residual.equation if is_traced else None
    if is_traced and residual.variable in positions:
        text = f"from the argument {paths[positions[residual.variable]]}"
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
    return Residual(type_of(residual), text, equation)


def _line(equation: Equation) -> str:
    frame = user_frame(equation.source)
    if frame is None:
        return "an unknown place"
    return f"{frame.file}:{frame.line}:{frame.column} ({frame.function})"


def saved_residuals(f: Function, *args: Any, **kwargs: Any) -> list[tuple[Any, str]]:
    """(type, origin) of each value that differentiating `f` at such arguments keeps."""
    return [(r.aval, r.text) for r in residuals_of(f, *args, **kwargs)]


def print_saved_residuals(f: Function, *args: Any, **kwargs: Any) -> None:
    """Print the values that differentiating `f` at such arguments keeps, one line each."""
    for aval, text in saved_residuals(f, *args, **kwargs):
        print(f"{aval.text()} {text}")  # noqa: T201  (that is what it is for)

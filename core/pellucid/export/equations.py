"""Dimension variables from the sizes of arguments: equations that are solved by integers, by expressions, or in a program."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from pellucid._machine.base import Size, Symbol

from .errors import ExportError


class ArgumentDimension(NamedTuple):
    """One dimension of one argument."""

    argument: int
    dim: int


class Solution(NamedTuple):
    """How a variable follows from the size at `place`: (size - rest) / divisor."""

    variable: str
    place: ArgumentDimension
    rest: Size
    divisor: Size


Require = Callable[[Any, str, Any, str], None]
"""Checks that two values satisfy "==" or ">="; in the message, `{0}` and `{1}` are replaced by them."""


class ShapeEquations(NamedTuple):
    """Equations between the sizes of arguments, as they were stated, and those at run time.

    Values are whatever computes with integers: Python integers, symbolic dimensions, or scalars of a program.
    """

    names: Sequence[str]
    shapes: Sequence[Sequence[Size]]
    solutions: Sequence[Solution]
    equal: Sequence[tuple[ArgumentDimension, Size]]
    """Sizes that follow from the variables, or are integers."""
    scope: Any

    @property
    def variables(self) -> tuple[str, ...]:
        """The variables, in the order in which functions of the module take them."""
        return tuple(sorted(s.variable for s in self.solutions))

    def solve(self, size_at: Callable[[int, int], Any], require: Require) -> dict[str, Any]:
        """The value of each variable by the sizes at run time, after all that must hold of these was checked."""
        values: dict[str, Any] = {}
        stated = self._shapes_text()
        for variable, place, rest, divisor in self.solutions:
            size = size_at(*place)
            value = size if rest == 0 else size - _value(rest, values)
            if divisor != 1:
                by = _value(divisor, values)
                message = f"{self._dim(place)} must give an integer {variable}, but leaves the remainder {{0}}. {stated}"
                require(value % by, "==", 0, message)
                value = value // by
            require(value, ">=", 1, f"{variable} must be at least 1, but is {{0}}. {stated}")
            values[variable] = value
        for place, expected in self.equal:
            message = f"{self._dim(place)} must be {expected} = {{1}}, but is {{0}}. {stated}"
            require(size_at(*place), "==", _value(expected, values), message)
        for constraint in self.scope.constraints:
            sides = (constraint.left, constraint.right)
            if all(_variables(side) <= values.keys() for side in sides):
                left, right = (_value(side, values) for side in sides)
                message = f"the constraint {constraint.text} must hold, but its sides are {{0}} and {{1}}. {stated}"
                require(left, constraint.relation, right, message)
        return values

    def _dim(self, place: ArgumentDimension) -> str:
        return f"dimension {place.dim} of {self.names[place.argument]}"

    def _shapes_text(self) -> str:
        shapes = [
            f"{name}: ({', '.join(map(str, shape))}{',' if len(shape) == 1 else ''})"
            for name, shape in zip(self.names, self.shapes, strict=True)
            if any(isinstance(size, Symbol) for size in shape)
        ]
        return f"Shapes were stated as {'; '.join(shapes)}."


def _value(size: Any, values: Mapping[str, Any]) -> Any:
    return size if type(size) is int else size.evaluate(values)


def _variables(size: Any) -> set[str]:
    if type(size) is int:
        return set()
    if isinstance(size, Symbol):
        return size.variables()  # type: ignore[attr-defined]
    return set().union(*map(_variables, size.operands))


def shape_equations(
    shapes: Sequence[Sequence[Size]], names: Sequence[str], scope: Any
) -> ShapeEquations:
    """The equations that determine all variables in `shapes`, which are those of the arguments called `names`.

    Raises: ExportError where a variable doesn't follow from the sizes.
    """
    pending: list[tuple[ArgumentDimension, Size]] = []
    for i, shape in enumerate(shapes):
        pending += [
            (ArgumentDimension(i, dim), size)
            for dim, size in enumerate(shape)
            if isinstance(size, Symbol)
        ]
    solved: set[str] = set()
    solutions: list[Solution] = []
    while True:
        step = _next_solution(pending, solved)
        if step is None:
            break
        solution, equation = step
        pending.remove(equation)
        solutions.append(solution)
        solved.add(solution.variable)
    missing = set().union(*(_variables(size) for _, size in pending)) - solved
    if missing:
        raise ExportError(
            f"the dimension variable {min(missing)} doesn't follow from the shapes of the arguments.",
            got=[
                f"{names[place.argument]}: dimension {place.dim} is {size}"
                for place, size in pending
            ][:4],
            do="State a shape in which it is linear and the only unknown one, such as `(b, ...)`.",
        )
    for constraint in scope.constraints:
        sides = [side for side in (constraint.left, constraint.right) if isinstance(side, Symbol)]
        unknown = set().union(*map(_variables, sides)) - solved
        if unknown:
            raise ExportError(
                f"a constraint speaks of the dimension variable {min(unknown)}, which no argument has.",
                got=f"constraint: {constraint.text}",
                do="Leave the constraint out, or use the variable in the shape of an argument.",
            )
    return ShapeEquations(names, shapes, solutions, pending, scope)


def _next_solution(
    pending: list[tuple[ArgumentDimension, Size]], solved: set[str]
) -> tuple[Solution, tuple[ArgumentDimension, Size]] | None:
    """(a variable that an equation determines, that equation); preferably one that is solved without division."""
    best: tuple[Solution, tuple[ArgumentDimension, Size]] | None = None
    for equation in pending:
        place, size = equation
        solution = _solution(place, size, solved)
        if solution is not None and (best is None or (solution.divisor == 1 != best[0].divisor)):
            best = solution, equation
    return best


def _solution(place: ArgumentDimension, size: Any, solved: set[str]) -> Solution | None:
    unknown = _variables(size) - solved
    if len(unknown) != 1:
        return None
    [variable] = unknown
    scope, rest, divisor = size.scope, 0, 0
    alone = scope.factor(variable)
    for monomial, coefficient in size.terms:
        term = type(size)(((monomial, coefficient),), scope) if monomial else coefficient
        if variable not in _variables(term):
            rest = rest + term
            continue
        others = tuple([f for f in monomial if f != (variable, 1)])
        factor = type(size)(((others, coefficient),), scope) if others else coefficient
        if factor * alone != term or variable in _variables(factor):
            return None
        divisor = divisor + factor
    return Solution(variable, place, rest, divisor)

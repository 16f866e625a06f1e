"""Traces how mesh axes came to values, step by step back to the user's specification."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from pellucid._machine.ir import Equation, statement_of
from pellucid.introspect import schema

from .propagation import ModuleValue, Propagation
from .sites import SiteValues


class Inputs(NamedTuple):
    """The inputs of a program."""

    origins: Sequence[str]
    """For each input, the text of what specifies its sharding."""
    placed: Sequence[bool]
    """Whether each is placed before the program runs; the compiler chooses the sharding of the others."""
    token_count: int
    """Number of tokens that precede the arguments of the module, and also its results."""


class Hop(NamedTuple):
    """One step of how an axis came to a value, with the fields of `schema.WhyColumns`."""

    axis: int
    value: int = -1
    dimension: int = -1
    equation: int = -1
    origin: int = -1


def why_columns(hops: Sequence[Sequence[Hop]]) -> schema.WhyColumns:
    """The columns for the hops of each value's axes."""
    rows = [hop for each in hops for hop in each]
    columns = {name: [getattr(hop, name) for hop in rows] for name in Hop._fields}
    return schema.WhyColumns(counts=list(map(len, hops)), **columns)


class Ways:
    """Finds hops, and collects the axes and origins that they refer to."""

    def __init__(
        self, propagation: Propagation, values: SiteValues, equations: Mapping[int, Equation], inputs: Inputs
    ) -> None:  # fmt: skip
        self.axes: dict[str, int] = {}
        self.origins: list[schema.OriginRecord] = []
        self._propagation = propagation
        self._values = values
        self._equations = equations
        self._inputs = inputs
        self._known: dict[str, int] = {}

    def hop(self, value: ModuleValue, axis: str, near: range) -> Hop:
        """How `axis` came to `value`: from the next value on the way that has a number, preferably one in `near`."""
        number = self.axes.setdefault(axis, len(self.axes))
        arrival = value.arrivals.get(axis)
        place = self._input(value)
        if value.origins.get(axis) == "self" or (place is not None and self._inputs.placed[place]):
            return Hop(number, origin=self._stated_origin(value, place))
        origin = self._origin(value.origins.get(axis))
        if arrival is None:
            return Hop(number, origin=origin)
        source, equation = arrival.source, arrival.equation
        while not source.numbers and axis in source.arrivals:
            _, source, equation = source.arrivals[axis]
        row = self._values.row(equation)
        if not self._has_axis(source, axis):  # the boundary of a manual region
            return Hop(number, equation=row, origin=origin)
        dimension = next((i for i, axes in enumerate(source.layout.dims) if axis in axes), -1)
        source_number = next((each for each in source.numbers if each in near), source.numbers[0])
        return Hop(number, source_number, dimension, row, origin)

    def _has_axis(self, value: ModuleValue, axis: str) -> bool:
        """Whether the value has `axis` in the record."""
        if not value.numbers:
            return False
        return axis in self._propagation.values[value.numbers[0]][0].layout.axes

    def _input(self, value: ModuleValue) -> int | None:
        """The index of the program's input that a value is; None if it isn't an input."""
        return next((n for n in value.numbers if n < len(self._inputs.origins)), None)

    def _stated_origin(self, value: ModuleValue, place: int | None) -> int:
        """The origin of a sharding that is specified on the value itself: an argument, or a constraint."""
        if place is not None:
            return self._origin(f"input: {self._inputs.token_count + place}")
        if not value.numbers:
            return self._add("", _statement(None))
        number = value.numbers[0]
        id = self._values.maker(number)
        statement = _statement(self._equations.get(id))
        return self._add(f"value {number}", statement, number, self._values.row(id))

    def _origin(self, key: str | None) -> int:
        """The index of an origin that Shardy names; -1 for none."""
        if key is None:
            return -1
        kind, _, number = key.partition(": ")
        place = int(number or 0) - self._inputs.token_count
        if kind == "input":
            text = f"{self._inputs.origins[place]} `{self._values.name(place)}`"
            return self._add(key, text, place)
        if kind == "output":
            return self._add(key, f"out_shardings of result {place}")
        region = kind.removesuffix("_input").removesuffix("_output")
        id = self._propagation.equations.get(region)
        row = self._values.row(id)
        if region == kind:
            return self._add(key, _statement(self._equations.get(id or -1)), -1, row)
        specs = "in_specs" if kind.endswith("_input") else "out_specs"
        return self._add(key, f"{specs} of shard_map", -1, row)

    def _add(self, key: str, text: str, value: int = -1, equation: int = -1) -> int:
        index = self._known.get(key)
        if index is None:
            index = self._known[key] = len(self.origins)
            self.origins.append(schema.OriginRecord(text=text, value=value, equation=equation))
        return index


def _statement(equation: Equation | None) -> str:
    """The name of the function with which the user specified the sharding of an equation's result."""
    if equation is None:
        return "the program"
    by_type = f"the type of what {equation.primitive.name} gives, over Explicit axes"
    return statement_of(equation.primitive) or by_type

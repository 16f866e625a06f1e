"""Shardy's propagation, run separately: the sharding of each value, and how its axes came to it.

When the module is lowered, each operation that computes a variable of the program is marked with the variable's number
at the site. Shardy then propagates shardings, and records from which operand or result each mesh axis came to a value,
and its origin. The result is plain data, so that later passes may change the module.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from pellucid._machine.compilation.pipeline import run_pass
from pellucid._machine.ir import Jaxpr, Operands
from pellucid._machine.lowering.module import lower_module
from pellucid._machine.xla.mlir import ir, run_passes
from pellucid.introspect.lineage import equation_at

from .layouts import AXIS, DeclaredMesh, ValueLayout, layout_of, meshes_in, per_value, strip_quotes
from .sites import ProgramSite, Sites

_RESULTS = "pellucid.results"
_ARGUMENTS = "pellucid.arguments"
_PROPAGATE = (
    "sdy-import-pipeline,"
    "sdy-user-priority-propagate{debug-sharding-origins=true debug-propagation-edge-sharding=true}"
)
_EXCHANGES = "sdy-export-pipeline{enable-insert-explicit-collectives=true}"

# What is read ---------------------------------------------------------------------------------------


class Arrival(NamedTuple):
    """How a mesh axis came to a value: it was propagated from `source` by the operation of an equation."""

    step: int
    source: ModuleValue
    equation: int | None
    """Id of the equation."""


class ModuleValue:
    """A value of the module, with its sharding."""

    __slots__ = ("arrivals", "layout", "numbers", "origins")

    def __init__(self, rank: int = 0) -> None:
        self.numbers: list[int] = []
        """Its numbers at sites, if it is the value of a variable; that of the site that computes it comes first."""
        self.layout = ValueLayout(((),) * rank)
        self.origins: dict[str, str] = {}
        """Maps each axis to Shardy's name of its origin; `self` if the user specified it."""
        self.arrivals: dict[str, Arrival] = {}
        """Maps each axis to its first arrival."""

    def arrive(self, axis: str, arrival: Arrival) -> None:
        earliest = self.arrivals.get(axis)
        if earliest is None or arrival.step < earliest.step:
            self.arrivals[axis] = arrival


class Propagation(NamedTuple):
    """The result of Shardy's propagation for one program."""

    sites: list[ProgramSite]
    values: list[list[ModuleValue]]
    """Values by number; several for a constant that is recreated for each use."""
    equations: dict[str, int | None]
    """Maps Shardy's names of constraints and manual regions to ids of equations."""
    meshes: dict[str, DeclaredMesh]
    """Meshes by name; a program may use several."""
    module: Any
    """The module, including the collectives that Shardy inserts."""
    context: Any
    """The MLIR context, which must live as long as the module."""

    def numbers_of(self, result: Any) -> Iterator[int]:
        """The numbers of the value that is this result of an operation."""
        owner, position = result.owner, ir.OpResult(result).result_number
        if _RESULTS in owner.attributes:
            for number, place in _tuples(owner.attributes[_RESULTS], 2):
                if place == position:
                    yield number


def propagate(lowered: Any, shardings: Any, bodies: Mapping[Jaxpr, int]) -> Propagation:
    """Runs Shardy's propagation on a `CompilationUnit`.

    `shardings` writes Shardy attributes, as in `lower_module`; `bodies` maps programs, whose values are reported, to
    numbers.
    """
    sites = Sites(bodies)
    parsed = run_pass(
        "lower for Shardy", lower_module, lowered.jaxpr, lowered.options, shardings, sites
    )
    with parsed.context:
        _mark(sites.noted)
        run_pass("propagate shardings", run_passes, parsed.module, _PROPAGATE)
        reader = _Reader(sites.value_count)
        reader.read(parsed.module)
        run_pass("insert exchanges", run_passes, parsed.module, _EXCHANGES)
        meshes = meshes_in(parsed.module)
    return Propagation(
        sites.found, reader.of_numbers, reader.equations, meshes, parsed.module, parsed.context
    )


def _mark(noted: Sequence[tuple[int, Any]]) -> None:
    """Attach the number of each value to its operation, as an attribute that passes keep."""
    results: dict[Any, list[int]] = {}
    arguments: dict[Any, list[int]] = {}
    for number, value in noted:
        if isinstance(value.owner, ir.Block):
            block, position = value.owner, ir.BlockArgument(value).arg_number
            owner = block.owner.operation
            region = [r.blocks[0] for r in owner.regions].index(block)
            arguments.setdefault(owner, []).extend((number, region, position))
        else:
            position = ir.OpResult(value).result_number
            results.setdefault(value.owner, []).extend((number, position))
    for name, table in ((_RESULTS, results), (_ARGUMENTS, arguments)):
        for operation, numbers in table.items():
            operation.attributes[name] = ir.DenseI64ArrayAttr.get(numbers)


def _tuples(attribute: Any, size: int) -> list[tuple[int, ...]]:
    """The numbers in an attribute, grouped by `size`."""
    numbers = list(attribute)
    return list(zip(*[iter(numbers)] * size, strict=True))


_STEPS = re.compile(r"step-(\d+) = \[((?:[^\[\]\"]|" + AXIS + r"|\[[^\]]*\])*)\]")
_EDGE = re.compile(r"(" + AXIS + r") = (\w+)-(\d+) -> \[([^\]]*)\]")


class _Reader:
    """Reads a module after propagation."""

    def __init__(self, value_count: int) -> None:
        self.values: dict[Any, ModuleValue] = {}
        self.of_numbers: list[list[ModuleValue]] = [[] for _ in range(value_count)]
        self.equations: dict[str, int | None] = {}
        self.layouts: dict[Any, ValueLayout] = {}
        self.edges: dict[Any, list[tuple[int, str, str, list[str]]]] = {}

    def read(self, module: Any) -> None:
        for op in module.body.operations:
            if op.operation.name == "func.func":
                self.function(op.operation)

    def value(self, value: Any) -> ModuleValue:
        entry = self.values.get(value)
        if entry is None:
            entry = self.values[value] = ModuleValue(getattr(value.type, "rank", 0))
        return entry

    def function(self, op: Any) -> None:
        block = op.regions[0].blocks[0]
        if "arg_attrs" in op.attributes:
            for argument, attributes in zip(
                block.arguments, op.attributes["arg_attrs"], strict=True
            ):
                self.describe(self.value(argument), attributes)
        self.add_result_numbers(op)
        last = self.block(block)
        if "res_attrs" in op.attributes:
            for returned, attributes in zip(last.operands, op.attributes["res_attrs"], strict=True):
                result = ModuleValue()
                self.describe(result, attributes)
                ends = {"operand": _Ends(self, [returned]), "result": [result]}
                self.arrive(attributes, ends, None)

    def describe(self, value: ModuleValue, attributes: Any) -> None:
        """Records the layout and the origins in the attributes of an argument or a result."""
        if "sdy.sharding" in attributes:
            value.layout = self.layout(attributes["sdy.sharding"])
        if "sdy.sharding_origins" in attributes:
            value.origins = _attribute_texts(attributes["sdy.sharding_origins"])

    def layout(self, attribute: Any) -> ValueLayout:
        parsed = self.layouts.get(attribute)
        if parsed is None:
            parsed = self.layouts[attribute] = layout_of(attribute)
        return parsed

    def block(self, block: Any) -> Any:
        """Reads the operations of a block and returns the last one."""
        last = None
        for op in block.operations:
            last = op.operation
            self.operation(last)
        return last

    def operation(self, op: Any) -> None:
        name, attributes = op.name, op.attributes
        if name == "sdy.data_flow_edge":
            self.data_flow_edge(op)
            return
        results = [self.value(result) for result in op.results]
        if "sdy.sharding_origin_name" in attributes:
            self.equations[attributes["sdy.sharding_origin_name"].value] = equation_of(op)
        if name in ("sdy.sharding_constraint", "sdy.reshard"):
            self.record_stated_shardings(results, [attributes["sharding"]])
        elif name == "sdy.manual_computation":
            self.record_stated_shardings(results, per_value(attributes["out_shardings"]))
        elif "sdy.sharding" in attributes:
            # An operation without results, such as a callback, has a sharding itself.
            shardings = per_value(attributes["sdy.sharding"])
            for value, sharding in zip(results, shardings, strict=False):
                value.layout = self.layout(sharding)
        if "sdy.sharding_origins" in attributes and name != "sdy.sharding_constraint":
            for value, origins in zip(results, attributes["sdy.sharding_origins"], strict=False):
                value.origins = _attribute_texts(origins)
        ends = {"operand": _Ends(self, op.operands), "result": results}
        self.arrive(attributes, ends, equation_of(op))
        if name == "stablehlo.while":
            # The sharding of a result also applies to the arguments of both regions.
            for region in op.regions:
                for argument, value in zip(region.blocks[0].arguments, results, strict=True):
                    self.values[argument] = value
        self.add_result_numbers(op)
        if not name.startswith("stablehlo.") or name in _WITH_PROGRAMS:
            for region in op.regions:
                self.block(region.blocks[0])

    def record_stated_shardings(
        self, results: Sequence[ModuleValue], shardings: Sequence[Any]
    ) -> None:
        """Record shardings that the program itself specifies."""
        for value, sharding in zip(results, shardings, strict=True):
            value.layout = self.layout(sharding)
            value.origins = dict.fromkeys(value.layout.axes, "self")

    def data_flow_edge(self, op: Any) -> None:
        """Record an edge: an operation that represents the value flowing through it into or out of regions."""
        value = self.values[op.results[0]] = self.value(op.operands[0])
        if "sharding" in op.attributes:
            value.layout = self.layout(op.attributes["sharding"])
        if "sdy.sharding_origins" in op.attributes:
            value.origins |= _attribute_texts(op.attributes["sdy.sharding_origins"])
        ends = {"operand": _Ends(self, _flowing_into(op.operands[0])), "result": [value]}
        self.arrive(op.attributes, ends, equation_of(op))

    def arrive(
        self, attributes: Any, ends: Mapping[str, Sequence[ModuleValue]], equation: int | None
    ) -> None:
        """Record the edges along which axes came to values; `ends` maps an edge's names to values."""
        if "sdy.propagation_edges" not in attributes:
            return
        attribute = attributes["sdy.propagation_edges"]
        edges = self.edges.get(attribute)
        if edges is None:
            edges = self.edges[attribute] = list(_edges(str(attribute)))
        for step, axis, source, targets in edges:
            came_from = _end(ends, source)
            for target in targets:
                value = _end(ends, target)
                if value is not None and came_from is not None and value is not came_from:
                    value.arrive(axis, Arrival(step, came_from, equation))

    def add_result_numbers(self, op: Any) -> None:
        """Record the numbers of an operation's results."""
        if _RESULTS in op.attributes:
            for number, position in _tuples(op.attributes[_RESULTS], 2):
                self.add_number(number, self.value(op.results[position]))
        if _ARGUMENTS in op.attributes:
            for number, region, position in _tuples(op.attributes[_ARGUMENTS], 3):
                argument = op.regions[region].blocks[0].arguments[position]
                self.add_number(number, self.value(argument))

    def add_number(self, number: int, value: ModuleValue) -> None:
        self.of_numbers[number].append(value)
        value.numbers.append(number)


_WITH_PROGRAMS = frozenset({"stablehlo.while", "stablehlo.case", "stablehlo.if"})
"""Operations whose regions are programs; regions of other operations combine scalars."""


class _Ends(Sequence[ModuleValue]):
    """The values of operands, looked up when an edge names them."""

    def __init__(self, reader: _Reader, operands: Operands) -> None:
        self._reader = reader
        self._operands = operands

    def __len__(self) -> int:
        return len(self._operands)

    def __getitem__(self, index: Any) -> Any:
        return self._reader.value(self._operands[index])


def _end(ends: Mapping[str, Sequence[ModuleValue]], text: str) -> ModuleValue | None:
    kind, _, number = text.partition("-")
    values, index = ends[kind], int(number)
    if len(values) == 1:
        return values[0]
    return values[index] if index < len(values) else None


def _flowing_into(value: Any) -> list[Any]:
    """The values that flow into a result of an operation with regions, in Shardy's order."""
    if isinstance(value.owner, ir.Block):
        owner = value.owner.owner.operation
        position = ir.BlockArgument(value).arg_number
        return [owner.operands[position]] if position < len(owner.operands) else []
    owner, position = value.owner, ir.OpResult(value).result_number
    returned = [
        list(region.blocks[0].operations)[-1].operation.operands
        for region in owner.regions
        if len(region.blocks)
    ]
    if owner.name == "stablehlo.while":
        return [owner.operands[position], returned[1][position]]
    if returned:
        return [operands[position] for operands in returned]
    return [owner.operands[position]] if position < len(owner.operands) else []


def _attribute_texts(attributes: Any) -> dict[str, str]:
    return {
        attribute.name: ir.StringAttr(attribute.attr).value
        for attribute in (attributes[i] for i in range(len(attributes)))
    }


def _edges(text: str) -> Iterator[tuple[int, str, str, list[str]]]:
    """(step, axis, source, targets) for each edge in the text of an attribute.

    >>> list(_edges('<[{step-2 = [{"x" = operand-0 -> [operand-1, result-0]}]}]>'))
    [(2, 'x', 'operand-0', ['operand-1', 'result-0'])]
    """
    for step, edges in _STEPS.findall(text):
        for axis, kind, number, targets in _EDGE.findall(edges):
            yield int(step), strip_quotes(axis), f"{kind}-{number}", targets.split(", ")


def equation_of(op: Any) -> int | None:
    """The id of the equation from which an operation was lowered."""
    return equation_at(op.location)

"""What Shardy infers of a program when it runs by itself: the layout of each value, and how it came about.

A module is lowered with a mark on each operation that gives a variable of the program its value. Shardy then
propagates shardings and notes from which operand or result each mesh axis came to a value, and where it began. What is
read from the module is plain data, so that further passes may change the module.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from pellucid.compilation.pipeline import run_pass
from pellucid.introspect.lineage import equation_ids
from pellucid.ir.jaxpr import DropVar
from pellucid.lowering.module import lower_module
from pellucid.sharding.partition_spec import PartitionSpec
from pellucid.xla.mlir import ir, run_passes, sdy

_RESULTS = "pellucid.results"
_ARGUMENTS = "pellucid.arguments"
_PROPAGATE = (
    "sdy-import-pipeline,"
    "sdy-user-priority-propagate{debug-sharding-origins=true debug-propagation-edge-sharding=true}"
)
_EXCHANGES = "sdy-export-pipeline{enable-insert-explicit-collectives=true}"

Sizes = Mapping[str, int]
"""Size of each axis of a mesh."""


# Layouts --------------------------------------------------------------------------------------------


class Layout(NamedTuple):
    """How a value is laid out: for each dimension its mesh axes, major first; `x:(2)4` is a part of the axis `x`."""

    dims: tuple[tuple[str, ...], ...]
    unreduced: tuple[str, ...] = ()

    @property
    def axes(self) -> tuple[str, ...]:
        """All axes, in the order in which the type shows them."""
        return (*[axis for dim in self.dims for axis in dim], *self.unreduced)

    def parts(self, sizes: Sizes) -> int:
        """Into how many parts the value is cut."""
        return math.prod(size_of(axis, sizes) for dim in self.dims for axis in dim)

    @property
    def text(self) -> str:
        """As the user would write it.

        >>> Layout((("data",), (), ("x", "y"))).text
        "P('data', None, ('x', 'y'))"
        """
        entries = [dim[0] if len(dim) == 1 else dim or None for dim in self.dims]
        while entries and entries[-1] is None:
            entries.pop()
        return str(PartitionSpec(*entries, unreduced=frozenset(self.unreduced)))


_SUB_AXIS = re.compile(r"(.*):\((\d+)\)(\d+)", re.DOTALL)


def size_of(axis: str, sizes: Sizes) -> int:
    """How many positions an axis, or a part of one, has.

    >>> size_of("x", {"x": 8}), size_of("x:(2)4", {"x": 8})
    (8, 4)
    """
    part = None if axis in sizes else _SUB_AXIS.fullmatch(axis)
    return sizes[axis] if part is None else int(part.group(3))


def whole_axis(axis: str, sizes: Sizes) -> str:
    """The axis that `axis` is, or is a part of."""
    part = None if axis in sizes else _SUB_AXIS.fullmatch(axis)
    return axis if part is None else part.group(1)


# What is read ---------------------------------------------------------------------------------------


class Arrival(NamedTuple):
    """How a mesh axis came to a value: from `source`, by the operation of an equation."""

    step: int
    source: Value
    equation: int | None
    """Its id."""


class Value:
    """A value of the module."""

    __slots__ = ("arrivals", "layout", "origins", "variable")

    def __init__(self) -> None:
        self.variable: int | None = None
        """Number of the variable that it is the value of, if it is one's."""
        self.layout: Layout | None = None
        """None where it is laid out over another mesh."""
        self.origins: dict[str, str] = {}
        """For each axis what Shardy calls its origin; `self` where the user put it."""
        self.arrivals: dict[str, Arrival] = {}
        """For each axis the first time that it came."""

    def arrive(self, axis: str, arrival: Arrival) -> None:
        known = self.arrivals.get(axis)
        if known is None or arrival.step < known.step:
            self.arrivals[axis] = arrival


class Propagation(NamedTuple):
    """What Shardy inferred of one program."""

    values: list[list[Value]]
    """For each variable its values: several where the equation that gives it runs in several places."""
    named: dict[str, int | None]
    """Constraints and manual regions by Shardy's name for them: the id of the equation."""
    meshes: dict[str, Sizes]
    """The meshes of the module, by name; one program may speak of several."""
    module: Any
    """The module with the exchanges that Shardy would insert."""
    context: Any
    """What must live as long as the module."""

    def values_of(self, result: Any) -> Iterator[Value]:
        """What was inferred of the value that a result of an operation of the module is."""
        owner, position = result.owner, ir.OpResult(result).result_number
        if _RESULTS in owner.attributes:
            for number, place in _tuples(owner.attributes[_RESULTS], 2):
                if place == position:
                    yield from self.values[number]


def propagate(lowered: Any, sizes: Sizes, shardings: Any) -> tuple[Propagation, list[Any]]:
    """What Shardy infers of a `LoweredProgram`, and the variables that it speaks of by number.

    `shardings` writes Shardy attributes, as for `lower_module`; `sizes` are those of the axes of its mesh.
    """
    marks = _Marks()
    made = run_pass(
        "lower for Shardy", lower_module, lowered.jaxpr, lowered.options, shardings, marks.note
    )
    with made.context:
        marks.write()
        run_pass("propagate shardings", run_passes, made.module, _PROPAGATE)
        reader = _Reader(sizes, len(marks.variables))
        reader.read(made.module)
        run_pass("insert exchanges", run_passes, made.module, _EXCHANGES)
    found = Propagation(
        reader.of_variables, reader.named, meshes_in(made.module), made.module, made.context
    )
    return found, list(marks.variables)


class _Marks:
    """Notes which variable each value is, on the operations, where passes keep it."""

    def __init__(self) -> None:
        self.variables: dict[Any, int] = {}
        self._noted: list[tuple[int, ir.Value]] = []

    def note(self, variables: Sequence[Any], values: Sequence[ir.Value]) -> None:
        for variable, value in zip(variables, values, strict=True):
            if type(variable) is not DropVar:
                number = self.variables.setdefault(variable, len(self.variables))
                self._noted.append((number, value))

    def write(self) -> None:
        results: dict[Any, list[int]] = {}
        arguments: dict[Any, list[int]] = {}
        for number, value in self._noted:
            if isinstance(value.owner, ir.Block):
                block, position = value.owner, ir.BlockArgument(value).arg_number
                owner = block.owner.operation
                region = [r.blocks[0] for r in owner.regions].index(block)
                arguments.setdefault(owner, []).extend((number, region, position))
            else:
                position = ir.OpResult(value).result_number
                results.setdefault(value.owner, []).extend((number, position))
        self._noted.clear()
        for name, table in ((_RESULTS, results), (_ARGUMENTS, arguments)):
            for operation, numbers in table.items():
                operation.attributes[name] = ir.DenseI64ArrayAttr.get(numbers)


def _tuples(attribute: Any, size: int) -> list[tuple[int, ...]]:
    """The numbers of an attribute, `size` at a time."""
    numbers = list(attribute)
    return list(zip(*[iter(numbers)] * size, strict=True))


_AXIS = r'"(?:[^"\\]|\\.)*"(?::\(\d+\)\d+)?'
_STEPS = re.compile(r"step-(\d+) = \[((?:[^\[\]\"]|" + _AXIS + r"|\[[^\]]*\])*)\]")
_EDGE = re.compile(r"(" + _AXIS + r") = (\w+)-(\d+) -> \[([^\]]*)\]")


class _Reader:
    """Reads a module after propagation."""

    def __init__(self, sizes: Sizes, variable_count: int) -> None:
        self.values: dict[Any, Value] = {}
        self.of_variables: list[list[Value]] = [[] for _ in range(variable_count)]
        self.named: dict[str, int | None] = {}
        self.meshes: frozenset[str] = frozenset()
        self.sizes = sizes
        self.layouts: dict[Any, Layout | None] = {}
        self.edges: dict[Any, list[tuple[int, str, str, list[str]]]] = {}

    def read(self, module: Any) -> None:
        operations = [op.operation for op in module.body.operations]
        own = list(self.sizes.items())
        meshes = meshes_in(module).items()
        self.meshes = frozenset(name for name, sizes in meshes if list(sizes.items()) == own)
        for op in operations:
            if op.name == "func.func":
                self.function(op)

    def value(self, value: Any) -> Value:
        found = self.values.get(value)
        if found is None:
            found = self.values[value] = Value()
            rank = getattr(value.type, "rank", 0)
            found.layout = Layout(((),) * rank)
        return found

    def function(self, op: Any) -> None:
        block = op.regions[0].blocks[0]
        if "arg_attrs" in op.attributes:
            for argument, attributes in zip(
                block.arguments, op.attributes["arg_attrs"], strict=True
            ):
                self.describe(self.value(argument), attributes)
        self.marked(op)
        last = self.block(block)
        if "res_attrs" in op.attributes:
            for returned, attributes in zip(last.operands, op.attributes["res_attrs"], strict=True):
                result = Value()
                self.describe(result, attributes)
                ends = {"operand": _Ends(self, [returned]), "result": [result]}
                self.arrive(attributes, ends, None)

    def describe(self, value: Value, attributes: Any) -> None:
        """Note the layout and the origins that the attributes of an argument or a result tell."""
        if "sdy.sharding" in attributes:
            value.layout = self.layout(attributes["sdy.sharding"])
        if "sdy.sharding_origins" in attributes:
            value.origins = _origins(attributes["sdy.sharding_origins"])

    def layout(self, attribute: Any) -> Layout | None:
        if attribute not in self.layouts:
            self.layouts[attribute] = layout_of(attribute, self.meshes)
        return self.layouts[attribute]

    def block(self, block: Any) -> Any:
        """Read the operations of a block; the last of them."""
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
            self.named[attributes["sdy.sharding_origin_name"].value] = equation_of(op)
        if name in ("sdy.sharding_constraint", "sdy.reshard"):
            self.describe_stated(results, [attributes["sharding"]])
        elif name == "sdy.manual_computation":
            self.describe_stated(results, per_value(attributes["out_shardings"]))
        elif "sdy.sharding" in attributes:
            for value, sharding in zip(results, per_value(attributes["sdy.sharding"]), strict=True):
                value.layout = self.layout(sharding)
        if "sdy.sharding_origins" in attributes and name != "sdy.sharding_constraint":
            for value, origins in zip(results, attributes["sdy.sharding_origins"], strict=False):
                value.origins = _origins(origins)
        ends = {"operand": _Ends(self, op.operands), "result": results}
        self.arrive(attributes, ends, equation_of(op))
        if name == "stablehlo.while":
            # What is noted of a result holds for the arguments of both regions.
            for region in op.regions:
                for argument, value in zip(region.blocks[0].arguments, results, strict=True):
                    self.values[argument] = value
        self.marked(op)
        if not name.startswith("stablehlo.") or name in _WITH_PROGRAMS:
            for region in op.regions:
                self.block(region.blocks[0])

    def describe_stated(self, results: Sequence[Value], shardings: Sequence[Any]) -> None:
        """Note layouts that the program itself states."""
        for value, sharding in zip(results, shardings, strict=True):
            value.layout = self.layout(sharding)
            if value.layout is not None:
                value.origins = dict.fromkeys(value.layout.axes, "self")

    def data_flow_edge(self, op: Any) -> None:
        """An edge stands for the value that flows through it into, or out of, regions."""
        value = self.values[op.results[0]] = self.value(op.operands[0])
        if "sharding" in op.attributes:
            value.layout = self.layout(op.attributes["sharding"])
        if "sdy.sharding_origins" in op.attributes:
            value.origins |= _origins(op.attributes["sdy.sharding_origins"])
        ends = {"operand": _Ends(self, _flowing_into(op.operands[0])), "result": [value]}
        self.arrive(op.attributes, ends, equation_of(op))

    def arrive(
        self, attributes: Any, ends: Mapping[str, Sequence[Value]], equation: int | None
    ) -> None:
        """Note along which edges axes came to values, which `ends` has by what an edge calls them."""
        if "sdy.propagation_edges" not in attributes:
            return
        attribute = attributes["sdy.propagation_edges"]
        found = self.edges.get(attribute)
        if found is None:
            found = self.edges[attribute] = list(_edges(str(attribute)))
        for step, axis, source, targets in found:
            came_from = _end(ends, source)
            for target in targets:
                value = _end(ends, target)
                if value is not None and came_from is not None and value is not came_from:
                    value.arrive(axis, Arrival(step, came_from, equation))

    def marked(self, op: Any) -> None:
        """Note the variables whose values an operation gives."""
        if _RESULTS in op.attributes:
            for number, position in _tuples(op.attributes[_RESULTS], 2):
                self.found(number, self.value(op.results[position]))
        if _ARGUMENTS in op.attributes:
            for number, region, position in _tuples(op.attributes[_ARGUMENTS], 3):
                argument = op.regions[region].blocks[0].arguments[position]
                self.found(number, self.value(argument))

    def found(self, number: int, value: Value) -> None:
        self.of_variables[number].append(value)
        if value.variable is None:
            value.variable = number


_WITH_PROGRAMS = frozenset({"stablehlo.while", "stablehlo.case", "stablehlo.if"})
"""Operations whose regions are programs; those of others combine scalars."""


class _Ends(Sequence[Value]):
    """The values of operands, looked up when an edge names them."""

    def __init__(self, reader: _Reader, operands: Sequence[Any]) -> None:
        self._reader = reader
        self._operands = operands

    def __len__(self) -> int:
        return len(self._operands)

    def __getitem__(self, index: Any) -> Any:
        return self._reader.value(self._operands[index])


def _end(ends: Mapping[str, Sequence[Value]], text: str) -> Value | None:
    kind, _, number = text.partition("-")
    values, index = ends[kind], int(number)
    if len(values) == 1:
        return values[0]
    return values[index] if index < len(values) else None


def _flowing_into(value: Any) -> list[Any]:
    """The values that flow into one that an operation with regions gives, as Shardy counts them."""
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


def meshes_in(module: Any) -> dict[str, Sizes]:
    """Sizes of the axes of the meshes that a module declares, by name, those with named axes."""
    found = {}
    for op in module.body.operations:
        if op.operation.name == "sdy.mesh":
            axes = map(sdy.MeshAxisAttr, sdy.MeshAttr(op.operation.attributes["mesh"]).axes)
            found[op.operation.attributes["sym_name"].value] = {a.name: a.size for a in axes}
    return found


def layout_of(attribute: Any, meshes: frozenset[str] | None = None) -> Layout | None:
    """The layout that a sharding attribute says; None if `meshes` are given and it is over none of them."""
    sharding = sdy.TensorShardingAttr(attribute)
    dims = tuple(
        tuple(_axis_text(axis) for axis in sdy.DimensionShardingAttr(dim).axes)
        for dim in sharding.dimension_shardings
    )
    found = Layout(dims, tuple(map(_axis_text, sharding.unreduced_axes)))
    if meshes is None or not found.axes:
        return found
    return found if mesh_of(attribute) in meshes else None


def mesh_of(attribute: Any) -> str:
    """The name of the mesh that a sharding attribute is over."""
    return getattr(sdy.TensorShardingAttr(attribute).mesh_or_ref, "value", "")


def _axis_text(attribute: Any) -> str:
    axis = sdy.AxisRefAttr(attribute)
    part = axis.sub_axis_info
    if part is None:
        return axis.name
    part = sdy.SubAxisInfoAttr(part)
    return f"{axis.name}:({part.pre_size}){part.size}"


def per_value(attribute: Any) -> list[Any]:
    """The shardings in an attribute with one for each value."""
    return list(sdy.TensorShardingPerValueAttr(attribute).shardings)


def _origins(attributes: Any) -> dict[str, str]:
    return {
        named.name: ir.StringAttr(named.attr).value
        for named in (attributes[i] for i in range(len(attributes)))
    }


def _edges(text: str) -> Iterator[tuple[int, str, str, list[str]]]:
    """(step, axis, source, targets) for each edge in the text of an attribute.

    >>> list(_edges('<[{step-2 = [{"x" = operand-0 -> [operand-1, result-0]}]}]>'))
    [(2, 'x', 'operand-0', ['operand-1', 'result-0'])]
    """
    for step, edges in _STEPS.findall(text):
        for axis, kind, number, targets in _EDGE.findall(edges):
            yield int(step), _unquoted(axis), f"{kind}-{number}", targets.split(", ")


def axes_in(text: str) -> list[str]:
    """The axes, and parts of axes, in the text of an attribute.

    >>> axes_in('[{"x"}, {"y":(2)4}]')
    ['x', 'y:(2)4']
    """
    return [_unquoted(axis) for axis in re.findall(_AXIS, text)]


def _unquoted(axis: str) -> str:
    name, _, part = axis.rpartition('"')
    return re.sub(r"\\(.)", r"\1", name[1:]) + part


def equation_of(op: Any) -> int | None:
    """The id of the equation that an operation was lowered from."""
    ids = equation_ids(getattr(op.location, "name_str", ""))
    return ids[-1] if ids else None

"""Recorded layouts and exchanges of programs agree with XLA's."""

import itertools
import math
import operator
import re

import numpy as np
import pytest

import pellucid as pl
from pellucid import analysis
from pellucid._machine.compilation.pipeline import compile_lowered, shardy_attributes
from pellucid._machine.compilation.shardy import sharding_inside
from pellucid._machine.ir.jaxpr import Literal
from pellucid._machine.lowering.module import lower_module
from pellucid._machine.xla.hlo import encode_inspection
from pellucid._machine.xla.mlir import ir
from pellucid.analysis import propagation
from pellucid.analysis.sites import Sites, place_of
from pellucid.introspect.program import read_jaxpr
from tests.introspect.sharded_cases import cases, told

# Axes in factors ------------------------------------------------------------------------------------


def factors(size):
    """Prime factors, with which any part of an axis can be named."""
    for prime in range(2, size + 1):
        if size % prime == 0:
            return [prime, *factors(size // prime)]
    return []


def in_factors(mesh):
    """The names and sizes of a finer mesh, and for each axis, or part of one, those of its axes that it is."""
    finer = {
        name: factors(size) for name, size in zip(mesh.axis_names, mesh.axis_sizes, strict=True)
    }
    sizes = {(name, i): n for name, parts in finer.items() for i, n in enumerate(parts)}

    def named(axis):
        name, _, part = axis.partition(":")
        before, size = map(int, re.findall(r"\d+", part)) if part else (1, math.prod(finer[name]))
        ends = list(itertools.accumulate(finer[name], operator.mul, initial=1))
        first, last = ends.index(before), ends.index(before * size)
        return [(name, i) for i in range(first, last)]

    return sizes, named


def as_sharding(record, spec):
    """The sharding that a spec of a record says."""
    mesh = record.meshes[spec.mesh]
    sizes, factors_of = in_factors(mesh)
    by_id = {device.id: device for device in pl.devices()}
    devices = np.array([by_id[id] for id in mesh.device_ids])
    names = {axis: f"{axis[0]}.{axis[1]}" for axis in sizes}
    finer = pl.sharding.Mesh(devices.reshape(tuple(sizes.values())), tuple(names.values()))
    dims = [
        tuple(names[part] for axis in dim for part in factors_of(axis)) for dim in spec.dim_axes
    ]
    return pl.NamedSharding(finer, pl.P(*dims))


# Layouts --------------------------------------------------------------------------------------------


class Inspected(Sites):
    """Has the partitioner report the layout of each value that depends on arguments."""

    def __init__(self, bodies):
        super().__init__(bodies)
        self.tiles = {}
        self.avals = {}
        self.callbacks = []
        self._known = []

    def begin(self, jaxpr, values):
        super().begin(jaxpr, values)
        self._known.append(set(jaxpr.invars))

    def lowered(self, equation, values):
        number = None if self._open[-1] is None else self._open[-1].next
        super().lowered(equation, values)
        names = self._known[-1]
        depends = any(type(a) is not Literal and a in names for a in equation.operands)
        if depends:
            names.update(equation.results)
        if number is None or not depends:
            return
        for variable, value in zip(equation.results, values, strict=True):
            if isinstance(value.type, ir.RankedTensorType):
                self.inspect(number, variable.aval, value)
            number += 1

    def end(self):
        super().end()
        self._known.pop()

    def inspect(self, number, aval, value):
        def note(tiles):
            self.tiles[number] = tiles

        self.avals[number] = aval
        self.callbacks.append(note)
        attributes = {
            "call_target_name": ir.StringAttr.get("InspectSharding"),
            "api_version": ir.IntegerAttr.get(ir.IntegerType.get_signless(32), 1),
            "has_side_effect": ir.BoolAttr.get(True),
            "backend_config": ir.StringAttr.get(encode_inspection(note)),
        }
        ir.Operation.create(
            "stablehlo.custom_call", results=[value.type], operands=[value], attributes=attributes
        )


def inspections(lowered):
    """The compiler's layouts of the values of a lowered program."""
    inspected = Inspected(read_jaxpr(lowered.jaxpr).bodies)
    shardings = shardy_attributes(lowered.request)
    module = lower_module(lowered.jaxpr, lowered.options, shardings, inspected)
    compile_lowered(lowered._replace(module=module))
    return inspected


ALTERED = {"fully_sharded": 1, "rematerialized": 1, "indexing_with_a_stated_layout": 1}
"""Numbers of values whose layout changes by the inspection itself: these are not compared.

Looking is a use, and Shardy gives a value the layout of a constraint that is its only use. The partitioner, which meets
the use in another form, decides so of the last one alone; in its program without the look the value has the recorded layout.
"""


@pytest.mark.parametrize("program", cases())
def test_each_value_lies_where_the_compiler_puts_it(program, monkeypatch, request):
    def altered(jitted, *args):
        """How many values lie otherwise when they are inspected."""
        lowered = jitted.trace(*args).lower()._lowered
        if not lowered.request.is_partitioned:
            return 0
        actual = inspections(lowered)
        assert actual.tiles.keys() == actual.avals.keys()
        plain = analysis.sharding(jitted, *args)
        with monkeypatch.context() as patch:
            patch.setattr(propagation, "Sites", Inspected)
            record = analysis.sharding(jitted, *args)
        return sum(
            layout_at(plain, number) != layout_at(record, number)
            or not lies_as(actual, number, record, lowered.options.replicated)
            for number in actual.tiles
        )

    assert sum(told(program, altered)) == ALTERED.get(request.node.callspec.id, 0)


def layout_at(record, number):
    return record.shardings[record.layouts.sharding[number]]


def lies_as(actual, number, record, replicated):
    """Whether the compiler says of a value what the record says."""
    aval = actual.avals[number]
    chosen = sharding_inside(actual.tiles[number], aval, replicated)
    stated = as_sharding(record, layout_at(record, number))
    if record.sites.manual_axes[place_of(actual.found, number)]:
        return chosen.shard_shape(aval.shape) == stated.shard_shape(aval.shape)
    return chosen.is_equivalent_to(stated, aval.ndim)


# Exchanges ------------------------------------------------------------------------------------------

OPERATIONS = "all-gather|all-reduce|reduce-scatter|all-to-all|ragged-all-to-all|collective-permute"
INSTRUCTION = re.compile(rf"%(\S+) = (.+?) ({OPERATIONS})(?:-start)?\((.*?)\), (.*)")
SENT = {
    "all-gather": lambda n: n - 1,
    "all-reduce": lambda n: 2 * (n - 1) / n,
    "reduce-scatter": lambda n: (n - 1) / n,
    "all-to-all": lambda n: (n - 1) / n,
    "ragged-all-to-all": lambda n: (n - 1) / n,
    "collective-permute": lambda n: 1,
}
"""Part of its operand that one of n devices sends, on a ring."""
BITS = {"pred": 8, "s4": 4, "u4": 4}


def type_bytes(text):
    actual = re.findall(r"([a-z]+\d*)\[([\d,]*)\]", text)
    return sum(
        math.prod(map(int, filter(None, dims.split(","))))
        * BITS.get(dtype, int(re.sub(r"\D", "", dtype) or 8)) / 8
        for dtype, dims in actual
    )  # fmt: skip


def numbers(text):
    return [int(n) for n in re.findall(r"\d+", text)]


def groups_of(text):
    """The groups of devices in the text of an instruction, or its pairs."""
    pairs = re.search(r"source_target_pairs=\{(.*?)\}\}", text)
    if pairs:
        return [numbers(pair) for pair in pairs[1].split("},")]
    listed = re.search(r"replica_groups=\{(\{.*?\})\}", text)
    if listed:
        return [numbers(group) for group in listed[1].split("},")]
    iota = re.search(r"replica_groups=\[([\d,]+)\]<=\[([\d,]+)\](?:T\(([\d,]+)\))?", text)
    if iota:
        grid = np.arange(math.prod(numbers(iota[2]))).reshape(numbers(iota[2]))
        return (
            grid.transpose(numbers(iota[3]) if iota[3] else None).reshape(numbers(iota[1])).tolist()
        )
    mesh = re.search(
        r"replica_groups=mesh\[(.*?)\](?:, device_ids=\(\[(.*?)\]T\((.*?)\)\))? \{(.*?)\}", text
    )
    sizes = dict(re.findall(r"'(\w+)'=(\d+)", mesh[1]))
    order = np.arange(math.prod(map(int, sizes.values())))
    if mesh[2]:
        order = order.reshape(numbers(mesh[2])).transpose(numbers(mesh[3]))
    grid, along = order.reshape([int(n) for n in sizes.values()]), re.findall(r"'(\w+)'", mesh[4])
    assert ":" not in mesh[4]
    grid = np.moveaxis(grid, [list(sizes).index(axis) for axis in along], range(-len(along), 0))
    return grid.reshape(-1, math.prod(int(sizes[axis]) for axis in along)).tolist()


def in_text(text):
    """The exchanges in the text of an optimized program: operation, bytes that a device sends, groups."""
    types = dict(re.findall(r"%(\S+) = (\(.*?\)|\S+) ", text))
    for _, _, operation, operands, attributes in INSTRUCTION.findall(text):
        groups = groups_of(attributes)
        size = len(groups[0])
        if size > 1:
            total = sum(type_bytes(types[name]) for name in re.findall(r"%([^\s,()]+)", operands))
            yield operation, math.ceil(total * SENT[operation](size)), groups


def in_record(record, each):
    """The groups of an exchange, from its axes."""
    sizes, factors_of = in_factors(record.meshes[each.mesh])
    along = [part for axis in each.axes for part in factors_of(axis)]
    grid = np.arange(math.prod(sizes.values())).reshape(tuple(sizes.values()))
    grid = np.moveaxis(grid, [list(sizes).index(part) for part in along], range(-len(along), 0))
    return grid.reshape(-1, math.prod(sizes[part] for part in along))


def crossed(groups, pairs):
    """Whether each pair is within one of the groups, and no smaller part would do."""
    group_of = {device: i for i, group in enumerate(groups) for device in group}
    return all(group_of[a] == group_of[b] for a, b in pairs)


@pytest.mark.parametrize("program", cases())
def test_exchanges_are_those_of_the_optimized_program(program):
    def compare(jitted, *args):
        record = analysis.sharding(jitted, *args)
        text = jitted.lower(*args).compile().as_text()
        running = sorted(in_text(text), key=str)
        recorded = list(record.collectives)
        assert len(recorded) == len(running)
        for operation, sent, groups in running:
            same = [
                each
                for each in recorded
                if (each.operation, each.bytes_per_device) == (operation, sent)
                and fits(in_record(record, each), groups, operation)
            ]
            assert same, (operation, sent, groups, recorded)
            recorded.remove(same[0])
        for each in record.collectives:
            span = record.program.equations.span[each.equation]
            source = record.program.sources[record.program.spans.source[span]]
            assert source.name.startswith(("tests/", "benchmarks/")), (each, source.name)

    told(program, compare)


def fits(groups, derived, operation):
    """Whether an exchange of an optimized program is along these groups."""
    if operation == "collective-permute":
        return crossed(groups, derived)
    return {frozenset(group) for group in groups.tolist()} == {
        frozenset(group) for group in derived
    }

"""Estimates of a run's time from the record of a function's shardings.

Each equation takes the time of its arithmetic or of its memory traffic, whichever is longer (the roofline model of
Williams, Waterman and Patterson, 2009). Elementwise operations are fused with those that use their results, so only
values at the ends of such chains are read and written. Collectives take the time of their bytes over the slowest link
between their devices, and don't overlap with computation. Latencies are ignored.
"""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from collections.abc import Sequence

from pellucid.introspect.schema import CollectiveRecord, FunctionShardingRecord

from .costs import is_branch
from .layouts import size_of, whole_axis
from .machines import Machine

_FUSED = frozenset({"elementwise", "creation", "movement"})
"""Kinds of operations whose results stay in registers if only such operations and reductions use them."""


def compute_seconds(record: FunctionShardingRecord, machine: Machine) -> float:
    """Time of arithmetic and memory traffic of a run on one device; a loop of unknown length counts once."""
    return _Clock(record, machine).at(0)


def exchange_seconds(
    each: CollectiveRecord, record: FunctionShardingRecord, machine: Machine
) -> float:
    """Time of one run of a collective."""
    mesh = record.meshes[each.mesh]
    sizes = dict(zip(mesh.axis_names, mesh.axis_sizes, strict=True))
    major = min((mesh.axis_names.index(whole_axis(axis, sizes)) for axis in each.axes), default=0)
    return each.bytes_per_device / machine.link_bytes_per_second(
        math.prod(list(sizes.values())[major:])
    )


class _Clock:
    """Times of a program's equations at the sites where they run."""

    def __init__(self, record: FunctionShardingRecord, machine: Machine) -> None:
        self.record = record
        self.machine = machine
        program = record.program
        equations = program.equations
        self.costs = {column.name: column.values for column in program.costs}
        self.operands = _slices(equations.operand_counts)
        self.results = _slices(equations.result_counts)
        self.uses = _slices(equations.body_counts)
        self.kinds = [
            program.kinds.get(program.strings[name], "control") for name in equations.primitive
        ]
        self.within: dict[tuple[int, int], list[int]] = defaultdict(list)
        for place, (parent, row) in enumerate(
            zip(record.sites.parent, record.sites.equation, strict=True)
        ):
            self.within[parent, row].append(place)
        self.values = [self._values_of(index) for index in range(len(program.bodies))]
        self.stored = [self._stored_values(index) for index in range(len(program.bodies))]
        counts = [len(self.values[body]) for body in record.sites.body]
        self.first = list(itertools.accumulate(counts, initial=0))
        self.parts = [
            [(axis, size_of(axis, _sizes(record, spec.mesh))) for dim in spec.dim_axes for axis in dim]
            for spec in record.shardings
        ]  # fmt: skip

    def _rows(self, body: int) -> range:
        columns = self.record.program.bodies[body]
        return range(columns.first_equation, columns.first_equation + columns.equation_count)

    def _values_of(self, index: int) -> dict[int, int]:
        """Maps each value of a body to its position among the numbers of a site."""
        body, equations = self.record.program.bodies[index], self.record.program.equations
        results = (equations.results[self.results[row]] for row in self._rows(index))
        values = [*body.constants, *body.inputs, *itertools.chain.from_iterable(results)]
        return {value: place for place, value in enumerate(values)}

    def _stored_values(self, index: int) -> set[int]:
        """The values of a body that are written to memory."""
        body, equations = self.record.program.bodies[index], self.record.program.equations
        stored = {*body.constants, *body.inputs, *body.outputs}
        for row in self._rows(index):
            kind = self.kinds[row]
            if kind not in _FUSED:
                stored.update(equations.results[self.results[row]])
                if kind != "reduction":
                    stored.update(equations.operands[self.operands[row]])
        return stored

    def at(self, place: int) -> float:
        """Time of one run of the program at a site."""
        return sum(self.equation(place, row) for row in self._rows(self.record.sites.body[place]))

    def equation(self, place: int, row: int) -> float:
        """Time of one run of an equation at a site."""
        sites = self.within.get((place, row))
        # A program that combines elements is included in the equation's own row, which counts each pair.
        if sites is None or self.kinds[row] != "control":
            return self.own(place, row)
        program = self.record.program
        roles, trips = dict[int, str](), dict[int, int | None]()
        for use in range(*self.uses[row].indices(len(program.equations.bodies))):
            body = program.equations.bodies[use]
            roles[body] = program.strings[program.equations.body_roles[use]]
            trips[body] = program.equations.body_trips[use]
        bodies = [(self.record.sites.body[site], self.at(site)) for site in sites]
        # As in `costs.CostTable.least`: the most expensive branch counts, and loops of unknown length count once.
        if all(is_branch(roles.get(body, "")) for body, _ in bodies):
            return max(seconds for _, seconds in bodies)
        counts = [(trips.get(body), seconds) for body, seconds in bodies]
        return sum((1 if count is None else count) * seconds for count, seconds in counts)

    def own(self, place: int, row: int) -> float:
        """Time of an equation that runs no program."""
        equations, layouts = self.record.program.equations, self.record.layouts
        body = self.record.sites.body[place]
        operands = set(equations.operands[self.operands[row]])
        results = set(equations.results[self.results[row]])
        numbers = {
            value: self.first[place] + self.values[body][value]
            for value in operands | results
            if value in self.values[body]
        }
        axes = {
            axis
            for number in numbers.values()
            if layouts.sharding[number] >= 0
            for axis in self.parts[layouts.sharding[number]]
        }
        parts = math.prod(size for _, size in axes)
        flops = (self.costs["flops"][row] or 0) / parts
        moved_bytes = self.costs["bytes"][row] or 0
        # Such an operation reads a part of an operand, or writes in place.
        if moved_bytes < self._total_bytes(operands):
            n_bytes = moved_bytes / parts
        else:
            # An operation that only moves elements reads no more than its results contain.
            most = math.inf
            if self.kinds[row] == "movement":
                most = sum(layouts.device_bytes[numbers[value]] for value in results)
            n_bytes = sum(
                min(most, layouts.device_bytes[number])
                for value, number in numbers.items()
                if value in self.stored[body]
            )
        is_half = self.kinds[row] == "contraction" and self._bits(operands) <= 16
        rate = self.machine.half_flops_per_second if is_half else self.machine.flops_per_second
        return max(flops / rate, n_bytes / self.machine.memory_bytes_per_second)

    def _total_bytes(self, values: set[int]) -> int:
        """Bytes of values on all devices together; each value counts once."""
        program = self.record.program
        types = (program.types[program.values.type[value]] for value in values if value >= 0)
        return sum(each.bytes or 0 for each in types)

    def _bits(self, operands: set[int]) -> float:
        """Bits per element of the widest operand."""
        program = self.record.program
        types = (program.types[program.values.type[value]] for value in operands if value >= 0)
        widths = [
            8 * each.bytes / max(1, math.prod(size for size in each.shape if isinstance(size, int)))
            for each in types
            if each.bytes and each.shape is not None
        ]
        return max(widths, default=32)


def _slices(counts: Sequence[int]) -> list[slice]:
    ends = list(itertools.accumulate(counts, initial=0))
    return [slice(start, stop) for start, stop in itertools.pairwise(ends)]


def _sizes(record: FunctionShardingRecord, mesh: int) -> dict[str, int]:
    names, sizes = record.meshes[mesh].axis_names, record.meshes[mesh].axis_sizes
    return dict(zip(names, sizes, strict=True))

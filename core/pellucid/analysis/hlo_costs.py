"""Costs of optimized HLO modules: the cost of each instruction, and the table that adds them up."""

from __future__ import annotations

import math
import re
import weakref
from collections.abc import Sequence

from pellucid._machine.xla.hlo_text import RUNS_PROGRAMS, Computation, Instruction
from pellucid.kernels.lowering.costs import COST_ATTRIBUTE

from .costs import Cost, CostTable, EquationCost
from .hlo import Module
from .opcodes import Details, operation_cost, operation_of
from .shapes import Shape, hlo_shapes

_SAME = frozenset({"bitcast", "reshape"})
"""Instructions whose result shares the buffer of their operand."""
_ONE_BY_ONE = _SAME | {"convert", "copy", "transpose"}
"""Instructions that a fused kernel computes only for the elements that are used."""


class ModuleCosts:
    """The costs of a module's instructions by name."""

    def __init__(self, module: Module) -> None:
        self._module = module
        self.shapes = {
            each.name: hlo_shapes(each.type)
            for computation in module.computations
            for each in computation.instructions
        }
        """Maps each instruction to the shapes of the arrays in its result."""
        numbers = {computation.name: i for i, computation in enumerate(module.computations)}
        self.table = CostTable([
            [self._row(each, numbers) for each in computation.instructions]
            for computation in module.computations
        ])  # fmt: skip
        self.rows = {name: row for row, name in enumerate(self.shapes)}
        """Maps each instruction to its row of the table."""

    def _row(self, instruction: Instruction, numbers: dict[str, int]) -> EquationCost:
        uses = [(numbers[name], instruction.trips) for _, name in instruction.called]
        if instruction.opcode == "fusion":
            return EquationCost(self._of_kernel(instruction), "fused", uses)
        if instruction.opcode in RUNS_PROGRAMS:
            if instruction.runs_programs:
                return EquationCost(Cost(0, 0, 0), operation_of(instruction.opcode).bodies, uses)
            return EquationCost(self._of_kernel(instruction), "fused", uses)
        return EquationCost(self.own(instruction), operation_of(instruction.opcode).bodies, uses)

    def own(self, instruction: Instruction) -> Cost:
        """Cost of one run of an instruction without the computations it runs."""
        stated = _stated_cost(instruction)
        if stated is not None:
            return stated
        operands = [shape for name in instruction.operands for shape in self.shapes[name]]
        details = _details(instruction, operands)
        return operation_cost(
            operation_of(instruction.opcode), operands, self.shapes[instruction.name], details
        )

    def _of_kernel(self, instruction: Instruction) -> Cost:
        """Bytes that a fused kernel reads and writes: of its operands, only the used parts."""
        read = [_bytes(self.shapes[name]) for name in instruction.operands]
        written = _bytes(self.shapes[instruction.name])
        called = self._module.called(instruction)
        if instruction.opcode == "fusion" and len(called) == 1:
            parts = _Parts(called[0], self.shapes)
            read = [parts.read(number, whole) for number, whole in enumerate(read)]
            written = parts.written_bytes()
        return Cost(0, 0, sum(read) + written)


class _Parts:
    """The bytes of its parameters that a fused computation reads, and those of its results that it writes."""

    def __init__(self, computation: Computation, shapes: dict[str, tuple[Shape, ...]]) -> None:
        self._shapes = shapes
        self._by_name = {each.name: each for each in computation.instructions}
        self._users: dict[str, list[Instruction]] = {}
        for each in computation.instructions:
            for operand in dict.fromkeys(each.operands):
                self._users.setdefault(operand, []).append(each)
        self._parameters = {
            int(each.payload): each.name
            for each in computation.instructions
            if each.opcode == "parameter"
        }
        [self._root] = [each for each in computation.instructions if each.is_root]

    def read(self, number: int, whole: float) -> float:
        """Bytes that are read of a parameter of `whole` bytes."""
        name = self._parameters.get(number)
        return whole if name is None else min(whole, self._read_of(name))

    def _read_of(self, name: str) -> float:
        total = 0.0
        for user in self._users.get(name, ()):
            row = operation_of(user.opcode)
            is_first = user.operands[0] == name and name not in user.operands[1:]
            if row.touches == "part" and is_first:
                total += _bytes(self._shapes[user.name])
            elif row.touches == "in place" and is_first and self._is_given(user):
                continue  # the result reuses its buffer
            elif user.opcode in _ONE_BY_ONE and not user.is_root:
                total += self._read_of(user.name)
            else:
                return math.inf
        return total

    def _is_given(self, instruction: Instruction) -> bool:
        """Whether an instruction is the kernel's result, or one of its results."""
        if instruction.is_root:
            return True
        return any(
            self._is_given(user)
            for user in self._users.get(instruction.name, ())
            if user.opcode in _SAME or (user.opcode == "tuple" and user.is_root)
        )

    def written_bytes(self) -> float:
        """Bytes that are written: of a result that is updated in place, only the updated part."""
        root = self._root
        names = root.operands if root.opcode == "tuple" else [root.name]
        return sum(map(self._bytes_written, names))

    def _bytes_written(self, name: str) -> float:
        made = self._behind(name)
        # An array that the kernel creates itself is written as a whole.
        if operation_of(made.opcode).touches == "in place" and (
            self._behind(made.operands[0]).opcode == "parameter"
        ):
            n_parts = len(self._shapes[made.name])
            parts = made.operands[-n_parts:] if made.opcode == "scatter" else made.operands[1:2]
            return sum(_bytes(self._shapes[part]) for part in parts)
        return _bytes(self._shapes[name])

    def _behind(self, name: str) -> Instruction:
        """The instruction that computes the buffer of the instruction `name`."""
        made = self._by_name[name]
        while made.opcode in _SAME:
            made = self._by_name[made.operands[0]]
        return made


_costs: weakref.WeakKeyDictionary[Module, ModuleCosts] = weakref.WeakKeyDictionary()


def costs_of(module: Module) -> ModuleCosts:
    """The costs of a module; cached."""
    costs = _costs.get(module)
    if costs is None:
        costs = _costs[module] = ModuleCosts(module)
    return costs


_STATED = re.compile(rf'{COST_ATTRIBUTE}="([^"]*)"')


def _stated_cost(instruction: Instruction) -> Cost | None:
    """The cost that the call of a device's kernel states; None for other instructions."""
    if instruction.opcode != "custom-call":
        return None
    stated = _STATED.search(instruction.attributes.get("frontend_attributes", ""))
    if stated is None:
        return None
    return Cost(*[None if text == "?" else float(text) for text in stated[1].split()])


def _bytes(shapes: Sequence[Shape]) -> float:
    return sum(shape.bytes for shape in shapes)


def _details(instruction: Instruction, operands: Sequence[Shape]) -> Details:
    attributes = instruction.attributes
    if instruction.opcode == "dot":
        axes = re.findall(r"\d+", attributes.get("lhs_contracting_dims", ""))
        return Details(summed=math.prod(operands[0].dims[int(d)] for d in axes))
    if instruction.opcode == "convolution":
        kernel = attributes["dim_labels"].split("->")[0].split("_")[1]
        return Details(summed=operands[1].size / max(1, operands[1].dims[kernel.index("o")]))
    if instruction.opcode == "sort":
        axes = re.findall(r"\d+", attributes.get("dimensions", ""))
        return Details(lengths=tuple([operands[0].dims[int(d)] for d in axes]))
    if instruction.opcode == "fft":
        lengths = tuple(map(int, re.findall(r"\d+", attributes["fft_length"])))
        return Details(lengths=lengths, is_real="RFFT" in attributes["fft_type"])
    window = re.search(r"size=([\dx]+)", attributes.get("window", ""))
    return Details(window=math.prod(map(int, window.group(1).split("x")))) if window else Details()

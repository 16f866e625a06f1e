"""Kernels of an optimized program: what each computes, from which of the user's lines, and what it costs."""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Container, Iterator, Sequence
from typing import Literal, NamedTuple

from .costs import FREE, UNKNOWN, Cost
from .exchanges import Exchange, exchange_of
from .hlo import RUNS_PROGRAMS, Computation, Instruction, Module
from .layouts import DeclaredMesh
from .opcodes import Details, is_exchange, is_free, opcode_of, operation_cost, operation_of
from .shapes import Shape

Category = Literal["fusion", "library", "custom", "copy", "collective", "other"]
Attribution = Literal["own", "inferred", "none"]
"""Where the lines of a kernel come from: its own instructions, kernels beside it, or nowhere."""

TRANSCENDENTAL_FLOPS = 10.0
"""Operations that one transcendental function counts for in the shares of a fusion's members."""
MAX_INFERENCE_STEPS = 6
"""Number of operands or users away that a kernel without a line looks for one."""

_LIBRARY_OPCODES = frozenset(
    {"dot", "convolution", "fft", "sort", "cholesky", "triangular-solve", "topk"}
)
_LIBRARY_TARGETS = (
    "__onednn$",
    "__cublas$",
    "__cudnn$",
    "lapack_",
    "cusolver",
    "TopK",
    "Eigen",
    "ducc_",
    "__ynn$",
)


_SMALL_CALL = 'xla_cpu_small_call="true"'


class Member(NamedTuple):
    """An instruction within a kernel."""

    path: str
    """Its operation's name in StableHLO, `jit(f)/vmap(g)/mul`."""
    equation: int | None
    frame: int
    """Its number in `Module.frames`; 0 for none."""
    share: float
    """Estimated share of the kernel's time; the shares of a kernel add up to 1."""


class Kernel(NamedTuple):
    """An instruction that is executed as one.

    >>> module = pl.analysis.HloModule(pl.jit(lambda x: x @ x).lower(np.ones((4, 4))).compile().as_text())
    >>> root = module.computations[0].instructions[-1].name
    >>> pl.analysis.kernels(module, {root})[root].category
    'library'
    """

    name: str
    opcode: str
    category: Category
    members: Sequence[Member]
    attribution: Attribution
    cost: Cost
    """Of one run. Of a fusion, operations of its members, and bytes of its own operands and results."""
    runs_programs: bool
    """Whether it is a loop, branch or call, whose parts are kernels themselves."""
    exchange: Exchange | None
    """Data sent to other devices; None where it sends nothing."""
    target: str = ""
    """The native function that a custom call calls."""


def kernels(
    module: Module, names: Container[str], meshes: Sequence[DeclaredMesh] = ()
) -> dict[str, Kernel]:
    """The instructions of a module that are called one of `names`, by name.

    Exchanges are named by the axes of one of `meshes`, if any has them.

    >>> module = pl.analysis.HloModule(pl.jit(jnp.sin).lower(np.ones(4)).compile().as_text())
    >>> root = module.computations[0].instructions[-1].name
    >>> kernels(module, {root})[root].cost
    Cost(flops=0.0, transcendentals=4.0, bytes=32)
    """
    return {
        kernel.name: kernel
        for computation in module.computations
        for kernel in _Reader(module, computation, meshes).kernels(names)
    }


def category_of(instruction: Instruction) -> Category:
    """The kind of kernel that an instruction becomes."""
    opcode = opcode_of(instruction.opcode)
    if opcode == "fusion" or (opcode == "call" and not is_program(instruction)):
        return "fusion"
    if is_exchange(opcode):
        return "collective"
    if opcode == "custom-call":
        return "library" if _target_of(instruction).startswith(_LIBRARY_TARGETS) else "custom"
    if opcode in _LIBRARY_OPCODES:
        return "library"
    return "copy" if opcode in ("copy", "transpose") else "other"


def _target_of(instruction: Instruction) -> str:
    return instruction.attributes.get("custom_call_target", "").strip('"')


def is_program(instruction: Instruction) -> bool:
    """Whether an instruction runs computations whose instructions are kernels themselves.

    XLA's backend for CPUs compiles loops of little work, with all that they call, into one kernel: a marked call.
    """
    is_small_call = _SMALL_CALL in instruction.attributes.get("frontend_attributes", "")
    return instruction.opcode in RUNS_PROGRAMS and not is_small_call


def instructions_within(
    module: Module, instruction: Instruction, count: int | None = 1
) -> Iterator[tuple[Computation, Instruction, int | None]]:
    """(computation, instruction, executions in one run) of the instructions that a kernel consists of, itself left out.

    Executions are None within branches, and within loops whose number of iterations isn't known.
    """
    if instruction.opcode != "fusion" and instruction.opcode not in RUNS_PROGRAMS:
        return
    trips = instruction.trips
    count = None if count is None or trips is None else count * trips
    for computation in module.called(instruction):
        for each in computation.instructions:
            if each.opcode == "fusion" or each.opcode in RUNS_PROGRAMS:
                yield from instructions_within(module, each, count)
            else:
                yield computation, each, count


def instruction_cost(instruction: Instruction, shapes: dict[str, tuple[Shape, ...]]) -> Cost:
    """Cost of one run of an instruction without the programs inside it; `shapes` has those of its operands."""
    operands = [shape for name in instruction.operands for shape in shapes[name]]
    details = _details(instruction, operands)
    return operation_cost(
        operation_of(instruction.opcode), operands, shapes[instruction.name], details
    )


def _details(instruction: Instruction, operands: Sequence[Shape]) -> Details:
    attributes = instruction.attributes
    if instruction.opcode == "dot":
        axes = re.findall(r"\d+", attributes.get("lhs_contracting_dims", ""))
        return Details(summed=math.prod(operands[0].dims[int(d)] for d in axes))
    if instruction.opcode == "convolution":
        kernel = attributes["dim_labels"].split("->")[0].split("_")[1]
        return Details(summed=operands[1].size / max(1, operands[1].dims[kernel.index("o")]))
    window = re.search(r"size=([\dx]+)", attributes.get("window", ""))
    return Details(window=math.prod(map(int, window.group(1).split("x")))) if window else Details()


class _Reader:
    """Reads the kernels of one computation."""

    def __init__(
        self, module: Module, computation: Computation, meshes: Sequence[DeclaredMesh]
    ) -> None:
        self.module = module
        self.meshes = meshes
        self.by_name = {each.name: each for each in computation.instructions}
        self.shapes = shapes_of(computation)
        self._users: dict[str, list[str]] | None = None

    def kernels(self, names: Container[str]) -> Iterator[Kernel]:
        for instruction in self.by_name.values():
            if instruction.name in names:
                yield self.kernel(instruction)

    def kernel(self, instruction: Instruction) -> Kernel:
        weights, cost = self.members(instruction)
        attribution: Attribution = "own"
        if not any(member.frame for member in weights):
            near = self.members_near(instruction)
            if near:
                weights, attribution = near, "inferred"
            elif not weights:
                attribution = "none"
        total = sum(weights.values())
        return Kernel(
            instruction.name, instruction.opcode, category_of(instruction),
            [member._replace(share=weight / total) for member, weight in weights.items()],
            attribution, cost, is_program(instruction),
            exchange_of(instruction, self.by_name, self.meshes) if is_exchange(instruction.opcode) else None,
            _target_of(instruction),
        )  # fmt: skip

    def members(self, instruction: Instruction) -> tuple[dict[Member, float], Cost]:
        """(weights of the origins of a kernel's instructions, cost of one run of it)."""
        weights: dict[Member, float] = defaultdict(float)
        if instruction.opcode != "fusion" and (
            instruction.opcode not in RUNS_PROGRAMS or is_program(instruction)
        ):
            if instruction.path:
                weights[Member(instruction.path, instruction.equation, instruction.frame, 0)] = 1.0
            return weights, instruction_cost(instruction, self.shapes)
        total = FREE
        shapes: dict[str, dict[str, tuple[Shape, ...]]] = {}
        for computation, each, count in instructions_within(self.module, instruction):
            if is_free(each.opcode):
                continue
            if computation.name not in shapes:
                shapes[computation.name] = shapes_of(computation)
            shapes_within = shapes[computation.name]
            member_cost = instruction_cost(each, shapes_within)
            total = total.plus(UNKNOWN if count is None else member_cost.times(count))
            if each.path:
                flops, transcendentals = member_cost.flops or 0, member_cost.transcendentals or 0
                elements = sum(shape.size for shape in shapes_within[each.name])
                weights[Member(each.path, each.equation, each.frame, 0)] += (count or 1) * (
                    flops + TRANSCENDENTAL_FLOPS * transcendentals + elements
                )
        bytes_moved = sum(
            shape.bytes
            for name in (*instruction.operands, instruction.name)
            for shape in self.shapes[name]
        )
        return weights, total._replace(bytes=bytes_moved)

    def members_near(self, instruction: Instruction) -> dict[Member, float]:
        """Weights of the nearest instruction with a line: an operand, a user, theirs, and so on; empty if there is none.

        Of those equally near it is one named after the same operation, if there is any: where XLA replaces an operation,
        the bitcast of its result may keep the name, as that of `dot_general` in the fusion that takes a vector's product.
        """
        opcode = opcode_of(instruction.opcode)
        seen, ring = {instruction.name}, [instruction.name]
        for _ in range(MAX_INFERENCE_STEPS):
            ring = [
                name
                for each in ring
                for name in (*self.by_name[each].operands, *self.users.get(each, ()))
                if name not in seen and not seen.add(name)
            ]
            nearest: Instruction | None = None
            for each in (self.by_name[name] for name in ring):
                within = (one for _, one, _ in instructions_within(self.module, each))
                with_lines = [one for one in (each, *within) if one.frame]
                if not with_lines or is_program(each):
                    continue
                nearest = nearest or each
                for one in with_lines:
                    if opcode_of(one.path.rpartition("/")[2]) == opcode:
                        return {Member(one.path, one.equation, one.frame, 0): 1.0}
            if nearest is not None:
                return self.members(nearest)[0]
        return {}

    @property
    def users(self) -> dict[str, list[str]]:
        """For each instruction, those that take it as operand."""
        if self._users is None:
            self._users = defaultdict(list)
            for each in self.by_name.values():
                for operand in each.operands:
                    self._users[operand].append(each.name)
        return self._users


def shapes_of(computation: Computation) -> dict[str, tuple[Shape, ...]]:
    """The arrays of each instruction's result."""
    return {each.name: each.shapes for each in computation.instructions}


__all__ = ["Attribution", "Category", "Kernel", "Member", "kernels"]

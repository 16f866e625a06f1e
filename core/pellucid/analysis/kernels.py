"""The kernels of an optimized program: what each computes, for which of the user's lines, at what cost."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Container, Iterator, Sequence
from typing import Literal, NamedTuple

from pellucid._machine.xla.hlo_text import RUNS_PROGRAMS, Computation, Instruction

from .costs import Cost
from .exchanges import Exchange, exchange_of
from .hlo import Module
from .hlo_costs import costs_of
from .layouts import DeclaredMesh
from .opcodes import is_exchange, is_free, opcode_of

Category = Literal["fusion", "library", "custom", "copy", "collective", "other"]
Attribution = Literal["own", "inferred", "none"]
"""Source of a kernel's lines: its own instructions, neighbouring kernels, or none."""

TRANSCENDENTAL_FLOPS = 10.0
"""FLOPs assumed for one transcendental function when a fusion's time is divided among its instructions."""
MAX_INFERENCE_STEPS = 6
"""Maximum distance, in operands or users, at which a kernel without a line looks for one."""

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


class FusedInstruction(NamedTuple):
    """An instruction that is part of a kernel, or is the kernel."""

    path: str
    """Name of the operation in StableHLO, `jit(f)/vmap(g)/mul`."""
    equation: int | None
    frame: int
    """Number of its source position in `Module.frames`; 0 for none."""
    share: float
    """Estimated share of the kernel's time; the shares of a kernel add up to 1."""


class Kernel(NamedTuple):
    """An instruction that the device executes as a unit.

    >>> module = pl.analysis.HloModule(pl.jit(lambda x: x @ x).lower(np.ones((4, 4))).compile().as_text())
    >>> root = module.computations[0].instructions[-1].name
    >>> pl.analysis.kernels(module, {root})[root].category
    'library'
    """

    name: str
    opcode: str
    category: Category
    members: Sequence[FusedInstruction]
    attribution: Attribution
    cost: Cost
    """Cost of one run. For a fusion: the FLOPs of its instructions, and the bytes of its own operands and results."""
    runs_programs: bool
    """Whether it is a loop, branch or call, whose instructions are kernels themselves."""
    exchange: Exchange | None
    """The collective that it performs; None if it sends no data."""
    target: str = ""
    """Name of the native function that a custom call calls."""


def kernels(
    module: Module, names: Container[str], meshes: Sequence[DeclaredMesh] = ()
) -> dict[str, Kernel]:
    """Maps `names` to the instructions of a module with these names.

    Axes of collectives belong to the first of `meshes` that fits.

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
    """The category of the kernel that executes an instruction."""
    opcode = opcode_of(instruction.opcode)
    if opcode == "fusion" or (opcode == "call" and not instruction.runs_programs):
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


def instructions_within(
    module: Module, instruction: Instruction, count: int | None = 1
) -> Iterator[tuple[Instruction, int | None]]:
    """(instruction, executions per run) for each instruction that a kernel contains, without the kernel itself.

    Executions are None within branches and within loops of unknown length.
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
                yield each, count


class _Reader:
    """Reads the kernels of one computation."""

    def __init__(
        self, module: Module, computation: Computation, meshes: Sequence[DeclaredMesh]
    ) -> None:
        self.module = module
        self.meshes = meshes
        self.by_name = {each.name: each for each in computation.instructions}
        self.costs = costs_of(module)
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
            attribution, cost, instruction.runs_programs,
            exchange_of(instruction, self.by_name, self.meshes) if is_exchange(instruction.opcode) else None,
            _target_of(instruction),
        )  # fmt: skip

    def members(self, instruction: Instruction) -> tuple[dict[FusedInstruction, float], Cost]:
        """(weight of each source of a kernel's instructions, cost of one run)."""
        weights: dict[FusedInstruction, float] = defaultdict(float)
        row = self.costs.rows[instruction.name]
        if instruction.opcode != "fusion" and (
            instruction.opcode not in RUNS_PROGRAMS or instruction.runs_programs
        ):
            if instruction.path:
                weights[
                    FusedInstruction(instruction.path, instruction.equation, instruction.frame, 0)
                ] = 1.0
            # An instruction that runs programs has no cost of its own, as their instructions are kernels.
            table = self.costs.table
            is_own = instruction.runs_programs
            return weights, table.rows[row].cost if is_own else table.whole(row)
        for each, count in instructions_within(self.module, instruction):
            if each.path and not is_free(each.opcode):
                cost = self.costs.own(each)
                flops, transcendentals = cost.flops or 0, cost.transcendentals or 0
                elements = sum(shape.size for shape in self.costs.shapes[each.name])
                weights[FusedInstruction(each.path, each.equation, each.frame, 0)] += (
                    count or 1
                ) * (flops + TRANSCENDENTAL_FLOPS * transcendentals + elements)
        return weights, self.costs.table.whole(row)

    def members_near(self, instruction: Instruction) -> dict[FusedInstruction, float]:
        """Weights of the nearest instruction with a line, found among operands and users, then theirs; empty if there
        is none.

        At equal distance, one named after the same operation is preferred. When XLA replaces an operation, the bitcast
        of its result may keep the name, for example `dot_general` in the fusion that computes a vector's product.
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
                within = (one for one, _ in instructions_within(self.module, each))
                with_lines = [one for one in (each, *within) if one.frame]
                if not with_lines or each.runs_programs:
                    continue
                nearest = nearest or each
                for one in with_lines:
                    if opcode_of(one.path.rpartition("/")[2]) == opcode:
                        return {FusedInstruction(one.path, one.equation, one.frame, 0): 1.0}
            if nearest is not None:
                return self.members(nearest)[0]
        return {}

    @property
    def users(self) -> dict[str, list[str]]:
        """Maps each instruction to the instructions that use it as an operand."""
        if self._users is None:
            self._users = defaultdict(list)
            for each in self.by_name.values():
                for operand in each.operands:
                    self._users[operand].append(each.name)
        return self._users


__all__ = ["Attribution", "Category", "Kernel", "FusedInstruction", "kernels"]

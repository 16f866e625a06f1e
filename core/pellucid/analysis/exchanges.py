"""Collectives between devices: those that Shardy inserts, with their reasons, and those of an optimized program.

Bytes are what one of n devices sends with ring algorithms (Patarasu and Yuan, 2009). Gather: its part to n - 1 others.
Reduce-scatter and all-to-all: n - 1 of the n parts of its operand. All-reduce: reduce-scatter, then gather. Permute:
its whole operand.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np

from pellucid._machine.ir import Equation, statement_of
from pellucid._machine.xla.hlo_text import Instruction
from pellucid._machine.xla.mlir import ir
from pellucid.introspect.bodies import bodies_of

from .device_groups import axes_along, axes_of_pairs, first_group, lacking, pairs_in
from .hlo import Module
from .layouts import (
    DeclaredMesh,
    Sizes,
    ValueLayout,
    axes_in,
    layout_of,
    mesh_of,
    per_value,
    size_of,
    whole_axis,
)
from .opcodes import is_exchange, opcode_of
from .propagation import Propagation, equation_of
from .shapes import hlo_shapes, tensor_type
from .sites import calls_to

Reason = Literal["written", "contraction", "reshard", "full_replication", "unknown"]


class Exchange(NamedTuple):
    """One collective operation between devices."""

    operation: str
    axes: tuple[str, ...]
    group_size: int
    bytes: float
    """Bytes that one device sends per run."""
    runs: int | None
    equation: int | None
    """Id of the equation that causes it."""
    calls: tuple[int, ...] = ()
    """Ids of the equations that lead to its site, in no particular order, as far as known."""
    mesh: str = ""
    """Name in the module of the mesh that has the axes."""
    moved: int | None = None
    """Id of the equation whose result is moved, if another one causes it."""
    reason: Reason = "unknown"
    note: str = ""


def sent_bytes(operation: str, operand_bytes: float, group_size: int) -> float:
    """Bytes that one device sends, if its part of the operand has `operand_bytes`.

    >>> sent_bytes("all-gather", 100, 4), sent_bytes("all-reduce", 100, 4)
    (300, 150.0)
    """
    others = group_size - 1
    if operation == "all-gather":
        return operand_bytes * others
    if operation == "all-reduce":
        return 2 * operand_bytes * others / group_size
    if operation in ("reduce-scatter", "all-to-all", "ragged-all-to-all"):
        return operand_bytes * others / group_size
    return operand_bytes


# What Shardy plans ----------------------------------------------------------------------------------

_PLANNED = {
    "sdy.all_gather": "all-gather",
    "sdy.all_reduce": "all-reduce",
    "sdy.all_to_all": "all-to-all",
    "sdy.collective_permute": "collective-permute",
    "sdy.reduce_scatter": "reduce-scatter",
}
_MOVES = frozenset({*_PLANNED, "sdy.all_slice"})
"""Collectives that Shardy inserts; `all_slice` sends nothing."""
_AXES_OF = {
    "sdy.all_gather": "gathering_axes",
    "sdy.all_reduce": "reduction_axes",
    "sdy.all_to_all": "params",
    "sdy.reduce_scatter": "reduce_scatter_axes",
}
"""The attribute of each operation that names the axes."""


def planned_exchanges(
    propagation: Propagation,
    mesh: str,
    equations: Mapping[int, Equation],
    stated_results: Sequence[bool],
) -> list[Exchange]:
    """The collectives that Shardy inserted.

    `mesh` is the name of the program's mesh, and `equations` are its equations by id. `stated_results` tells for each
    result whether the user specified its sharding.
    """
    collector = _ExchangeCollector(propagation, equations, stated_results)
    for op in propagation.module.body.operations:
        if op.operation.name == "func.func":
            collector.block(op.operation.regions[0].blocks[0], 1, mesh)
    return collector.exchanges


class _ExchangeCollector:
    def __init__(
        self, propagation: Propagation, equations: Mapping[int, Equation], stated: Sequence[bool]
    ) -> None:
        self.propagation = propagation
        self.equations = equations
        self.stated_results = stated
        self.exchanges: list[Exchange] = []

    def block(self, block: Any, runs: int | None, mesh: str) -> None:
        """Record the collectives of a block that runs `runs` times, in a manual region over `mesh`."""
        for view in block.operations:
            op = view.operation
            name = op.name
            if name in _PLANNED:
                self.add_inserted_collective(op, runs)
            elif name == "sdy.reshard":
                self.between_meshes(op, runs)
            elif name.startswith("stablehlo.") and is_exchange(name):
                self.add_user_collective(op, runs, mesh)
            elif len(op.regions):
                inner, over = self.inner_runs(op, runs), _manual_mesh(op) or mesh
                for region in op.regions:
                    for each in region.blocks:
                        self.block(each, inner, over)

    def inner_runs(self, op: Any, runs: int | None) -> int | None:
        """Number of runs of the regions of `op`; unknown for branches."""
        if op.name in ("stablehlo.case", "stablehlo.if"):
            return None
        if op.name != "stablehlo.while":
            return runs
        equation = self.equations.get(equation_of(op) or -1)
        bodies = [] if equation is None else bodies_of(equation)
        trips = bodies[0].trips if len(bodies) == 1 else None
        return None if trips is None or runs is None else runs * trips

    def add_user_collective(self, op: Any, runs: int | None, mesh: str) -> None:
        """Record a collective of the user's program, in a manual region over `mesh`."""
        operation = opcode_of(op.name)
        declared = self.propagation.meshes[mesh]
        if "source_target_pairs" in op.attributes:
            pairs = np.array(op.attributes["source_target_pairs"]).reshape(-1, 2)
            axes = axes_of_pairs(pairs.tolist(), declared)
            group_size = math.prod(declared.sizes[axis] for axis in axes)
        else:
            group = np.array(op.attributes["replica_groups"])[0]
            group_size = int((group >= 0).sum())
            axes = axes_along(group[group >= 0], declared)
        sent = sent_bytes(operation, sum(map(_bytes, op.operands)), group_size)
        calls = self.calls_to(op.results[0]) or ()
        equation = equation_of(op)
        self.add(
            Exchange(
                operation, axes, group_size, sent, runs, equation, calls, mesh, reason="written"
            )
        )

    def add_inserted_collective(self, op: Any, runs: int | None) -> None:
        """Record a collective that Shardy inserted."""
        operation = _PLANNED[op.name]
        mesh = mesh_of(op.attributes["out_sharding"])
        target, source = layout_of(op.attributes["out_sharding"]), _layout_of(op.operands[0])
        sizes = self.propagation.meshes[mesh].sizes
        axes = _moved_axes(op, source, target, sizes)
        group_size = math.prod(size_of(axis, sizes) for axis in axes)
        operand_bytes = _bytes(op.operands[0]) / source.parts(self.propagation.meshes)
        sent = sent_bytes(operation, operand_bytes, group_size)
        self.add(
            self.with_cause(
                Exchange(operation, axes, group_size, sent, runs, None, (), mesh),
                op,
                source,
                target,
            )
        )

    def between_meshes(self, op: Any, runs: int | None) -> None:
        """Record a change of mesh; the collectives for it are chosen later by the partitioner."""
        target, source = layout_of(op.attributes["sharding"]), _layout_of(op.operands[0])
        dims, _, bits = tensor_type(str(op.operands[0].type))
        meshes = self.propagation.meshes
        if source.mesh == target.mesh or dims is None or bits is None:
            return
        layout = target if target.mesh else source
        sent = lacking(source, target, dims, meshes) * bits / 8
        if sent:
            size = meshes[layout.mesh].size
            each = Exchange("reshard", layout.axes, size, sent, runs, None, (), layout.mesh)
            self.add(self.with_cause(each, op, source, target))

    def with_cause(
        self, each: Exchange, op: Any, source: ValueLayout, target: ValueLayout
    ) -> Exchange:
        """`each`, completed with the equation that causes it and the reason."""
        moved_value = _before(op.operands[0])
        equation, reason, note = self.cause(op, moved_value, each.operation, source, target)
        moved = None if moved_value is None else equation_of(moved_value.owner)
        user, _ = _after(op)
        near = [
            *(() if user is None else user.results),
            *(() if moved_value is None else (moved_value,)),
        ]
        near = reversed(near) if equation == moved else near
        calls = next(
            (call_ids for call_ids in map(self.calls_to, near) if call_ids is not None), ()
        )
        return each._replace(equation=equation, reason=reason, note=note, moved=moved, calls=calls)

    def calls_to(self, result: Any) -> tuple[int, ...] | None:
        """Ids of the equations that lead to the site of a result; None if the result has no number."""
        number = next(self.propagation.numbers_of(result), None)
        return None if number is None else calls_to(self.propagation.sites, number)

    def cause(
        self, op: Any, moved_value: Any, operation: str, source: ValueLayout, target: ValueLayout
    ) -> tuple[int | None, Reason, str]:
        """The equation that causes a collective on `moved_value`, and the reason."""
        equation = equation_of(op)
        made_by = None if moved_value is None else equation_of(moved_value.owner)
        if operation in ("all-reduce", "reduce-scatter"):
            return (
                equation,
                "contraction",
                "" if moved_value is None else self.combined_dims(op, moved_value.owner),
            )
        was, target_text = self.texts(source, target)
        if equation != made_by and self.asks(equation):
            return (
                equation,
                "written",
                f"{self.primitive(equation)} asks for {target_text}, which was {was}",
            )
        request = None if moved_value is None else self.reason_for_move(moved_value, target)
        if request is not None:
            return request
        user, position = _after(op)
        change = f"from {was} to {target_text}"
        if user is None:
            return equation, "reshard", change
        if user.name == "func.return":
            if position < len(self.stated_results) and self.stated_results[position]:
                return made_by, "written", f"out_shardings ask for {target_text}, which was {was}"
            return made_by, "reshard", f"{change}, to give result {position}"
        cause = equation_of(user)
        if cause is None:  # the terminator of a region
            cause = equation_of(user.parent)
        name = self.primitive(cause)
        if self.asks(cause):
            return cause, "written", f"{name} asks for {target_text}, which was {was}"
        if not target.axes:
            return cause, "full_replication", f"{change}: {name} takes it whole on every device"
        return cause, "reshard", f"{change}, as {name} takes it"

    def combined_dims(self, op: Any, combining: Any) -> str:
        """The dimensions that `combining` combines in values that are partitioned along them, as a text."""
        axes = set(axes_in(str(op.attributes[_AXES_OF[op.name]])))
        for place, operand in enumerate(combining.operands):
            divided = [
                f"dimension {dim} by {', '.join(by)}"
                for dim, by in enumerate(_layout_of(operand).dims)
                if axes.intersection(by)
            ]
            if divided:
                name = self.primitive(equation_of(combining))
                return f"operand {place} of {name} is divided along {' and '.join(divided)}"
        return ""

    def reason_for_move(
        self, result: Any, target: ValueLayout
    ) -> tuple[int | None, Reason, str] | None:
        """Why a result that was computed with another sharding is moved to `target`; None if no one requests that."""
        numbers = self.propagation.numbers_of(result)
        for value in itertools.chain(*(self.propagation.values[number] for number in numbers)):
            if value.layout == target and target.axes:
                arrival = min(value.arrivals.values(), key=lambda each: each.step, default=None)
                asking = None if arrival is None else arrival.equation
                producer = equation_of(result.owner)
                if self.asks(asking):
                    return asking, "written", f"{self.primitive(asking)} asks for {target.text}"
                computed = f"{self.primitive(producer)} computes {_layout_of(result).text}"
                return producer, "reshard", f"{computed}, its result is wanted as {target.text}"
        return None

    def primitive(self, equation: int | None) -> str:
        equation_of_id = self.equations.get(-1 if equation is None else equation)
        return "the program" if equation_of_id is None else equation_of_id.primitive.name

    def asks(self, equation: int | None) -> bool:
        """Whether the equation is a user's request for a sharding."""
        equation_of_id = self.equations.get(-1 if equation is None else equation)
        return equation_of_id is not None and bool(statement_of(equation_of_id.primitive))

    def texts(self, *layouts: ValueLayout) -> list[str]:
        """Shardings in the user's notation, with their meshes if these differ."""
        if len({each.mesh for each in layouts if each.mesh}) < 2:
            return [each.text for each in layouts]
        sizes = (self.propagation.meshes[each.mesh].sizes.items() for each in layouts)
        mesh_texts = (", ".join(f"{name}={size}" for name, size in each) for each in sizes)
        return [f"{each.text} over {mesh}" for each, mesh in zip(layouts, mesh_texts, strict=True)]

    def add(self, each: Exchange) -> None:
        if each.group_size > 1:
            self.exchanges.append(each)


def _manual_mesh(op: Any) -> str:
    """The mesh of a manual region; empty for other operations, and for regions without operands and results."""
    if op.name != "sdy.manual_computation":
        return ""
    shardings = [
        *per_value(op.attributes["in_shardings"]),
        *per_value(op.attributes["out_shardings"]),
    ]
    return next(map(mesh_of, shardings), "")


def _moved_axes(op: Any, source: ValueLayout, target: ValueLayout, sizes: Sizes) -> tuple[str, ...]:
    """The axes along which a collective moves data."""
    attribute = _AXES_OF.get(op.name)
    if attribute is not None:
        return tuple(axes_in(str(op.attributes[attribute])))
    before, after = ({(i, axes) for i, axes in enumerate(x.dims)} for x in (source, target))
    moved = {whole_axis(axis, sizes) for _, axes in before ^ after for axis in axes}
    return tuple(axis for axis in sizes if axis in moved)


def _bytes(value: Any) -> float:
    dims, _, bits = tensor_type(str(value.type))
    return 0.0 if dims is None or bits is None else math.prod(dims) * bits / 8


def _layout_of(value: Any) -> ValueLayout:
    """The sharding of a value in a module whose shardings are closed."""
    nothing = ValueLayout(((),) * getattr(value.type, "rank", 0))
    if isinstance(value.owner, ir.Block):
        return _layout_of_argument(ir.BlockArgument(value)) or nothing
    attributes, position = value.owner.attributes, ir.OpResult(value).result_number
    if "out_sharding" in attributes:
        return layout_of(attributes["out_sharding"])
    for name in ("sdy.sharding", "out_shardings"):
        if name in attributes:
            return layout_of(per_value(attributes[name])[position])
    return nothing


def _layout_of_argument(argument: Any) -> ValueLayout | None:
    owner, position = argument.owner.owner.operation, argument.arg_number
    attributes = owner.attributes
    if owner.name == "func.func" and "arg_attrs" in attributes:
        argument_attributes = attributes["arg_attrs"][position]
        return (
            layout_of(argument_attributes["sdy.sharding"])
            if "sdy.sharding" in argument_attributes
            else None
        )
    if owner.name == "stablehlo.while" and "sdy.sharding" in attributes:
        return layout_of(per_value(attributes["sdy.sharding"])[position])
    if owner.name == "sdy.manual_computation":
        manual = set(axes_in(str(attributes["manual_axes"])))
        whole = layout_of(per_value(attributes["in_shardings"])[position])
        return ValueLayout(tuple(tuple(a for a in dim if a not in manual) for dim in whole.dims))
    return None


def _before(value: Any) -> Any:
    """The result of the operation before Shardy's collectives that lead to `value`; None for an argument."""
    while not isinstance(value.owner, ir.Block):
        if value.owner.name not in _MOVES:
            return value
        value = value.owner.operands[0]
    return None


def _after(op: Any) -> tuple[Any, int]:
    """(the operation after Shardy's collectives, index of the operand); None if there is none."""
    for use in op.results[0].uses:
        user = use.owner.operation
        return _after(user) if user.name in _MOVES else (user, use.operand_number)
    return None, 0


# What runs ------------------------------------------------------------------------------------------


_COMBINED = frozenset({"all-gather", "all-reduce", "reduce-scatter"})
"""Collectives that XLA combines, so that one of them has several operands."""


def running(
    module: Module,
    meshes: Mapping[str, DeclaredMesh],
    plan: Sequence[Exchange],
) -> list[Exchange]:
    """The collectives of an optimized program.

    Axes belong to the mesh for which `plan` has a collective of the same equation, the program's own mesh first.
    """
    main_mesh = next(iter(meshes))
    planned_over = {each.equation: each.mesh for each in reversed(plan)}
    exchanges: list[Exchange] = []
    for computation, runs, around in module.runs():
        instructions = {each.name: each for each in computation.instructions}
        for instruction in computation.instructions:
            operation = opcode_of(instruction.opcode)
            if not is_exchange(instruction.opcode):
                continue
            cause, operand_bytes, note = _moves_of(instruction, operation, instructions)
            origin = _origin_of(cause, instructions)
            equation = instruction.equation if origin is None else origin
            mesh = planned_over.get(equation, main_mesh)
            axes, size = _group_of(instruction, operation, meshes[mesh])
            sent = sent_bytes(operation, operand_bytes, size)
            if size > 1:
                exchanges.append(
                    Exchange(
                        operation, axes, size, sent, runs, equation, around, mesh,
                        note=note,
                    )
                )  # fmt: skip
    return exchanges


def exchange_of(
    instruction: Instruction,
    instructions: Mapping[str, Instruction],
    meshes: Sequence[DeclaredMesh],
) -> Exchange:
    """The collective that an instruction performs per run, without its cause.

    Axes belong to the first of `meshes` along whose axes the device groups lie, else to the
    last; empty without meshes.
    """
    operation = opcode_of(instruction.opcode)
    _, operand_bytes, note = _moves_of(instruction, operation, instructions)
    axes: tuple[str, ...] = ()
    size = 1
    for mesh in meshes:
        axes, size = _group_of(instruction, operation, mesh)
        if axes and math.prod(mesh.sizes.get(axis, size) for axis in axes) == size:
            break
    return Exchange(
        operation, axes, size, sent_bytes(operation, operand_bytes, size), 1, instruction.equation,
        note=note,
    )  # fmt: skip


def _moves_of(
    instruction: Instruction, operation: str, instructions: Mapping[str, Instruction]
) -> tuple[Instruction, float, str]:
    """(the instruction from which its equation is found, the bytes of all operands, a note).

    That is the collective itself or, if XLA combined several, its largest operand.
    """
    operands = [instructions[name] for name in instruction.operands]
    sizes = [sum(shape.bytes for shape in hlo_shapes(each.type)) for each in operands]
    if len(operands) == 1 or operation not in _COMBINED:
        return instruction, sum(sizes), ""
    others = len(operands) - 1
    note = f"{others} more {'value goes' if others == 1 else 'values go'} along"
    return operands[sizes.index(max(sizes))], sum(sizes), note


def _origin_of(instruction: Instruction, instructions: Mapping[str, Instruction]) -> int | None:
    """The equation of an instruction; for one that the partitioner inserted, that of its operand."""
    while instruction.equation is None and instruction.operands:
        instruction = instructions[instruction.operands[0]]
    return instruction.equation


def _group_of(
    instruction: Instruction, operation: str, mesh: DeclaredMesh
) -> tuple[tuple[str, ...], int]:
    """(the axes along which devices communicate, the size of each group)."""
    attributes = instruction.attributes
    if operation == "collective-permute":
        axes = axes_of_pairs(pairs_in(attributes["source_target_pairs"]), mesh)
        return axes, math.prod(mesh.sizes[axis] for axis in axes)
    groups = attributes.get("replica_groups", "")
    if "device_ids" in attributes:  # the mesh's device order follows after a comma
        groups = f"{groups}, device_ids={attributes['device_ids']}"
    group = first_group(groups, mesh.size)
    return ((), mesh.size) if group is None else (axes_along(group, mesh), len(group))


def explain_collectives(
    running: Sequence[Exchange],
    plan: Sequence[Exchange],
    equations: Mapping[int, Equation],
    device_count: int,
) -> list[Exchange]:
    """The collectives that run, each with the reason of a planned one for the same equation, or of the same kind."""
    by_kinship: dict[Any, list[Exchange]] = {}
    for owner in ("equation", "moved"):
        for each in plan:
            by_kinship.setdefault((getattr(each, owner), each.operation), []).append(each)
    for each in plan:
        by_kinship.setdefault((each.operation, each.axes, each.mesh), []).append(each)
    explanations: Counter[int] = Counter()
    """Number of collectives that each planned one explains. For calls that XLA inlined, they are in the plan's order."""
    exchanges: list[Exchange] = []
    for each in running:
        equation = each.equation if each.equation in equations else None
        alike = _ALIKE.get(each.operation, each.operation)
        kinships = ((equation, each.operation), (equation, alike), (equation, "reshard"))
        kinships = (
            *(kinships if equation is not None else ()),
            (each.operation, each.axes, each.mesh),
        )
        candidates = next((by_kinship[key] for key in kinships if key in by_kinship), None)
        if candidates is None:
            note = "the partitioner's own: Shardy's plan has no such exchange"
            reason = _likely_reason(each, device_count)
            exchanges.append(
                each._replace(equation=equation, reason=reason, note=_joined_notes(note, each.note))
            )
            continue
        nearest = max(
            candidates, key=lambda it: (len({*each.calls} & {*it.calls}), -explanations[id(it)])
        )
        explanations[id(nearest)] += 1
        if equation is None:
            each = each._replace(equation=nearest.equation)
        if {*each.calls} < {*nearest.calls}:
            each = each._replace(calls=nearest.calls)
        note = _joined_notes(nearest.note, each.note)
        exchanges.append(each._replace(reason=nearest.reason, note=note))
    return exchanges


_ALIKE = {"all-reduce": "reduce-scatter", "reduce-scatter": "all-reduce"}
"""Maps a planned collective to one that the partitioner may use instead."""


def _joined_notes(*notes: str) -> str:
    return ", ".join(filter(None, notes))


def _likely_reason(each: Exchange, device_count: int) -> Reason:
    """The probable reason of a collective that wasn't planned."""
    if each.operation in ("all-reduce", "reduce-scatter"):
        return "contraction"
    gathers_all = each.operation == "all-gather" and each.group_size == device_count
    return "full_replication" if gathers_all else "reshard"


def differences(plan: Sequence[Exchange], running: Sequence[Exchange]) -> list[str]:
    """A sentence for each kind of collective that occurs more or less often in the optimized program than was planned."""
    counts = [
        Counter((each.operation, each.axes) for each in exchanges) for exchanges in (plan, running)
    ]
    sentences: list[str] = []
    for operation, axes in counts[0] | counts[1]:
        before, after = (count[operation, axes] for count in counts)
        if before != after:
            along = f" over {', '.join(axes)}" if axes else ""
            sentences.append(
                f"{operation}{along}: {before} planned, {after} in the optimized program"
            )
    return sentences

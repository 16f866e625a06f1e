"""Exchanges between devices: those that Shardy plans, with their reasons, and those of an optimized program.

Bytes are what one device sends with algorithms on a ring (Patarasu and Yuan, 2009): to gather, each of n devices sends
its part to n - 1 others; to scatter sums or to transpose, n - 1 of n parts of what it has; to sum, both one after the
other; to permute, all that it has.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np

from pellucid.introspect.compiled import COLLECTIVES
from pellucid.introspect.costs import bodies_of
from pellucid.introspect.hlo import shapes_of, trips_of
from pellucid.introspect.hlo_text import Computation, Instruction
from pellucid.introspect.lineage import equation_ids
from pellucid.introspect.op_costs import Shape
from pellucid.introspect.propagation import (
    Layout,
    Propagation,
    Sizes,
    axes_in,
    equation_of,
    layout_of,
    mesh_of,
    per_value,
    size_of,
    whole_axis,
)
from pellucid.introspect.stablehlo import parsed_type
from pellucid.ir.jaxpr import Equation
from pellucid.xla.mlir import ir

Reason = Literal["written", "contraction", "reshard", "full_replication", "unknown"]


class Exchange(NamedTuple):
    """One exchange between devices."""

    operation: str
    axes: tuple[str, ...]
    group_size: int
    bytes: float
    """Bytes that one device sends in one run."""
    runs: int | None
    equation: int | None
    """Id of the equation that causes it."""
    reason: Reason = "unknown"
    note: str = ""


def sent_bytes(operation: str, operand_bytes: float, group_size: int) -> float:
    """Bytes that one device sends, which has `operand_bytes` of the operand.

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


# Groups ---------------------------------------------------------------------------------------------

_LISTS = re.compile(r"\{([\d, ]*)\}")
_IOTA = re.compile(r"\[([\d,]+)\]<=\[([\d,]+)\](?:T\(([\d,]+)\))?")
_ALONG_MESH = re.compile(r"mesh\[([^\]]*)\](?:, device_ids=\((.*?\)?)\))? ?\{([^}]*)\}")
_ORDER = re.compile(r"\[([\d,]+)\]T\(([\d,]+)\)")
_MESH_AXIS = re.compile(r"'([^']*)'=(\d+)")
_MESH_AXIS_USE = re.compile(r"'([^']*)'(?::\((\d+)\)(\d+))?")


def first_group(text: str, device_count: int) -> np.ndarray | None:
    """The first of the groups in HLO's text, as positions of devices; None for a text of another form.

    >>> first_group("{{0,1},{2,3}}", 4), first_group("[2,2]<=[2,2]T(1,0)", 4)
    (array([0, 1]), array([0, 2]))
    >>> first_group("mesh['a'=2,'b'=4] {'a','b':(2)2}", 8)
    array([0, 1, 4, 5])
    >>> first_group("mesh['a'=4,'b'=2], device_ids=([2,4]T(1,0)) {'a'}", 8)
    array([0, 1, 2, 3])
    """
    if text in ("", "{}"):
        return np.arange(device_count)
    along = _ALONG_MESH.fullmatch(text)
    if along:
        axes, order, uses = along.groups()
        group = _group_along(_MESH_AXIS.findall(axes), _MESH_AXIS_USE.findall(uses))
        return group if order is None else _in_order(order)[group]
    iota = _IOTA.fullmatch(text)
    if iota:
        shape, dims, axes = iota.groups()
        return _transposed(dims, axes).reshape(-1, _numbers(shape)[-1])[0]
    lists = _LISTS.findall(text)
    return np.array(_numbers(lists[0])) if lists else None


def _numbers(text: str) -> list[int]:
    return [int(n) for n in text.split(",")]


def _transposed(dims: str, axes: str | None) -> np.ndarray:
    """0, 1, 2, … in the shape `dims`, read in the order of `axes`."""
    numbers = np.arange(math.prod(_numbers(dims))).reshape(_numbers(dims))
    return (numbers if axes is None else numbers.transpose(_numbers(axes))).ravel()


def _in_order(text: str) -> np.ndarray:
    """The devices of a mesh in HLO's text, major axis first."""
    transposed = _ORDER.fullmatch(text)
    return _transposed(*transposed.groups()) if transposed else np.array(_numbers(text))


def _group_along(
    axes: Sequence[tuple[str, str]], uses: Sequence[tuple[str, str, str]]
) -> np.ndarray:
    """The positions that differ from the first along axes, or parts of axes, of a mesh in HLO's text."""
    sizes = {name: int(size) for name, size in axes}
    strides, stride = {}, 1
    for name, size in reversed(sizes.items()):
        strides[name] = stride
        stride *= size
    group = np.zeros(1, int)
    for name, outer, part in uses:
        size = int(part) if part else sizes[name]
        step = strides[name] * (sizes[name] // (int(outer) * size) if part else 1)
        group = (group[:, None] + step * np.arange(size)).ravel()
    return group


def axes_along(positions: np.ndarray, sizes: Sizes) -> tuple[str, ...]:
    """The axes along which devices at these positions of the mesh differ.

    >>> axes_along(np.array([0, 2]), {"x": 2, "y": 2})
    ('x',)
    """
    if math.prod(sizes.values()) <= positions.max(initial=0):
        return ()
    places = np.unravel_index(positions, tuple(sizes.values())) if sizes else ()
    return tuple(
        axis for axis, along in zip(sizes, places, strict=True) if (along != along[0]).any()
    )


def _axes_of_pairs(pairs: Sequence[Sequence[int]], sizes: Sizes) -> tuple[str, ...]:
    """The axes along which some device sends to another."""
    found = {axis for pair in pairs for axis in axes_along(np.array(pair), sizes)}
    return tuple(axis for axis in sizes if axis in found)


# What Shardy plans ----------------------------------------------------------------------------------

_PLANNED = {
    "sdy.all_gather": "all-gather",
    "sdy.all_reduce": "all-reduce",
    "sdy.all_to_all": "all-to-all",
    "sdy.collective_permute": "collective-permute",
    "sdy.reduce_scatter": "reduce-scatter",
}
_MOVES = frozenset({*_PLANNED, "sdy.all_slice"})
"""What Shardy inserts; to take a slice, nothing is sent."""
_AXES_OF = {
    "sdy.all_gather": "gathering_axes",
    "sdy.all_reduce": "reduction_axes",
    "sdy.all_to_all": "params",
    "sdy.reduce_scatter": "reduce_scatter_axes",
}
"""The attribute that names the axes."""
_ASKING = frozenset({"sharding_constraint", "reshard", "device_put", "shard_map"})
"""Primitives by which the user asks for a layout."""


def planned(
    propagation: Propagation,
    sizes: Sizes,
    equations: Mapping[int, Equation],
    stated_results: Sequence[bool],
) -> list[Exchange]:
    """The exchanges that Shardy inserted.

    `sizes` are those of the axes of the program's mesh, `equations` its equations by id; `stated_results` says which results have a placement that was asked for.
    """
    plan = _Plan(propagation, sizes, equations, stated_results)
    for op in propagation.module.body.operations:
        if op.operation.name == "func.func":
            plan.block(op.operation.regions[0].blocks[0], 1)
    return plan.exchanges


class _Plan:
    def __init__(
        self, propagation: Propagation, sizes: Sizes, equations: Mapping[int, Equation],
        stated: Sequence[bool],
    ) -> None:  # fmt: skip
        self.propagation = propagation
        self.sizes = sizes
        self.equations = equations
        self.stated_results = stated
        self.exchanges: list[Exchange] = []

    def block(self, block: Any, runs: int | None) -> None:
        for view in block.operations:
            op = view.operation
            name = op.name
            if name in _PLANNED:
                self.inserted(op, runs)
            elif name.removeprefix("stablehlo.").replace("_", "-") in COLLECTIVES:
                self.written(op, runs)
            elif len(op.regions):
                inner = self.inner_runs(op, runs)
                for region in op.regions:
                    for each in region.blocks:
                        self.block(each, inner)

    def inner_runs(self, op: Any, runs: int | None) -> int | None:
        """How often what is inside `op` runs."""
        if op.name != "stablehlo.while":
            return runs
        equation = self.equations.get(equation_of(op) or -1)
        bodies = [] if equation is None else bodies_of(equation)
        trips = bodies[0].trips if len(bodies) == 1 else None
        return None if trips is None or runs is None else runs * trips

    def written(self, op: Any, runs: int | None) -> None:
        """A collective of the user's, in a manual region."""
        operation = op.name.removeprefix("stablehlo.").replace("_", "-")
        operand_bytes = sum(_bytes(x) for x in op.operands)
        if "source_target_pairs" in op.attributes:
            pairs = np.array(op.attributes["source_target_pairs"]).reshape(-1, 2)
            axes = _axes_of_pairs(pairs.tolist(), self.sizes)
            group_size = math.prod(self.sizes[axis] for axis in axes)
        else:
            group = np.array(op.attributes["replica_groups"])[0]
            group_size = int((group >= 0).sum())
            axes = axes_along(group[group >= 0], self.sizes)
        sent = operation, axes, group_size, operand_bytes, runs
        self.add(*sent, equation_of(op), "written", "")

    def inserted(self, op: Any, runs: int | None) -> None:
        """An exchange that Shardy inserted."""
        operation = _PLANNED[op.name]
        target, source = _layout(op.attributes["out_sharding"]), _layout_of(op.operands[0])
        sizes = self.propagation.meshes[mesh_of(op.attributes["out_sharding"])]
        axes = _axes_moved(op, source, target, sizes)
        group_size = math.prod(size_of(axis, sizes) for axis in axes)
        operand_bytes = _bytes(op.operands[0]) / source.parts(sizes)
        sent = operation, axes, group_size, operand_bytes, runs
        self.add(*sent, *self.cause(op, operation, source, target))

    def cause(
        self, op: Any, operation: str, source: Layout, target: Layout
    ) -> tuple[int | None, Reason, str]:
        """Which equation an exchange is for, and why."""
        own, made = equation_of(op), _before(op.operands[0])
        made_by = None if made is None else equation_of(made.owner)
        if operation in ("all-reduce", "reduce-scatter"):
            return own, "contraction", ""
        if own != made_by and self.primitive(own) in _ASKING:
            return own, "written", f"{self.primitive(own)} asks for {target.text}, which was {source.text}"  # fmt: skip
        asked = None if made is None else self.asked(made, target)
        if asked is not None:
            return asked
        user, position = _after(op)
        change = f"from {source.text} to {target.text}"
        if user is None:
            return own, "reshard", change
        if user.name == "func.return":
            if position < len(self.stated_results) and self.stated_results[position]:
                return made_by, "written", f"out_shardings ask for {target.text}, which was {source.text}"  # fmt: skip
            return made_by, "reshard", f"{change}, to give result {position}"
        cause = equation_of(user)
        if cause is None:  # the end of a region
            cause = equation_of(user.parent)
        name = self.primitive(cause)
        if name in _ASKING:
            return cause, "written", f"{name} asks for {target.text}, which was {source.text}"
        if not target.axes:
            return cause, "full_replication", f"{change}: {name} takes it whole on every device"
        return cause, "reshard", f"{change}, as {name} takes it"

    def asked(self, made: Any, target: Layout) -> tuple[int | None, Reason, str] | None:
        """Why the result `made` of an operation, computed otherwise, is moved to `target`; None if it isn't wanted so."""
        for value in self.propagation.values_of(made):
            if value.layout == target and target.axes:
                arrival = min(value.arrivals.values(), key=lambda each: each.step, default=None)
                asking = None if arrival is None else arrival.equation
                name, own = self.primitive(asking), equation_of(made.owner)
                if name in _ASKING:
                    return asking, "written", f"{name} asks for {target.text}"
                computed = f"{self.primitive(own)} computes {_layout_of(made).text}"
                return own, "reshard", f"{computed}, its result is wanted as {target.text}"
        return None

    def primitive(self, equation: int | None) -> str:
        found = self.equations.get(-1 if equation is None else equation)
        return "the program" if found is None else found.primitive.name

    def add(
        self, operation: str, axes: Sequence[str], group_size: int, operand_bytes: float,
        runs: int | None, equation: int | None, reason: Reason, note: str,
    ) -> None:  # fmt: skip
        if group_size > 1:
            sent = sent_bytes(operation, operand_bytes, group_size)
            self.exchanges.append(
                Exchange(operation, tuple(axes), group_size, sent, runs, equation, reason, note)
            )


def _axes_moved(op: Any, source: Layout, target: Layout, sizes: Sizes) -> tuple[str, ...]:
    """The axes along which an exchange moves data."""
    named = _AXES_OF.get(op.name)
    if named is not None:
        return tuple(axes_in(str(op.attributes[named])))
    before, after = ({(i, axes) for i, axes in enumerate(x.dims)} for x in (source, target))
    moved = {whole_axis(axis, sizes) for _, axes in before ^ after for axis in axes}
    return tuple(axis for axis in sizes if axis in moved)


def _bytes(value: Any) -> float:
    dims, _, bits = parsed_type(str(value.type))
    return 0.0 if dims is None or bits is None else math.prod(dims) * bits / 8


def _layout(attribute: Any) -> Layout:
    return layout_of(attribute) or Layout(())


def _layout_of(value: Any) -> Layout:
    """The layout of a value of a module whose shardings are closed."""
    nothing = Layout(((),) * getattr(value.type, "rank", 0))
    if isinstance(value.owner, ir.Block):
        return _layout_of_argument(ir.BlockArgument(value)) or nothing
    attributes, position = value.owner.attributes, ir.OpResult(value).result_number
    if "out_sharding" in attributes:
        return _layout(attributes["out_sharding"])
    for name in ("sdy.sharding", "out_shardings"):
        if name in attributes:
            return _layout(per_value(attributes[name])[position])
    return nothing


def _layout_of_argument(argument: Any) -> Layout | None:
    owner, position = argument.owner.owner.operation, argument.arg_number
    attributes = owner.attributes
    if owner.name == "func.func" and "arg_attrs" in attributes:
        told = attributes["arg_attrs"][position]
        return _layout(told["sdy.sharding"]) if "sdy.sharding" in told else None
    if owner.name == "stablehlo.while" and "sdy.sharding" in attributes:
        return _layout(per_value(attributes["sdy.sharding"])[position])
    if owner.name == "sdy.manual_computation":
        manual = set(axes_in(str(attributes["manual_axes"])))
        whole = _layout(per_value(attributes["in_shardings"])[position])
        return Layout(tuple(tuple(a for a in dim if a not in manual) for dim in whole.dims))
    return None


def _before(value: Any) -> Any:
    """The result of an operation that Shardy moves to be `value`; None for an argument."""
    while not isinstance(value.owner, ir.Block):
        if value.owner.name not in _MOVES:
            return value
        value = value.owner.operands[0]
    return None


def _after(op: Any) -> tuple[Any, int]:
    """The operation that takes what exchanges give, and as which operand; None where nothing does."""
    for use in op.results[0].uses:
        user = use.owner.operation
        return _after(user) if user.name in _MOVES else (user, use.operand_number)
    return None, 0


# What runs ------------------------------------------------------------------------------------------


def running(
    computations: Sequence[Computation], sizes: Sizes, equation_of_id: Callable[[int], int]
) -> list[Exchange]:
    """The exchanges of an optimized program, the entry first among its `computations`.

    `equation_of_id` gives the id that an equation has in this process.
    """
    by_name = {computation.name: computation for computation in computations}
    found: list[Exchange] = []
    for computation, runs in _with_runs(computations[0], by_name, 1):
        types = {each.name: each.type for each in computation.instructions}
        for instruction in computation.instructions:
            operation = instruction.opcode.removesuffix("-start")
            if operation in COLLECTIVES:
                operands = [
                    shape for name in instruction.operands for shape in shapes_of(types[name])
                ]
                ids = equation_ids(instruction.path)
                equation = equation_of_id(ids[-1]) if ids else None
                found += _running(instruction, operation, operands, sizes, runs, equation)
    return found


def _with_runs(
    computation: Computation, by_name: Mapping[str, Computation], runs: int | None
) -> Iterator[tuple[Computation, int | None]]:
    """A computation and all that it calls, with how often each runs."""
    yield computation, runs
    for instruction in computation.instructions:
        inner = runs
        if instruction.opcode == "while":
            trips = trips_of(instruction)
            inner = None if runs is None or trips is None else runs * trips
        for _, name in instruction.called:
            yield from _with_runs(by_name[name], by_name, inner)


def _running(
    instruction: Instruction, operation: str, operands: Sequence[Shape], sizes: Sizes,
    runs: int | None, equation: int | None,
) -> Iterator[Exchange]:  # fmt: skip
    attributes = dict(instruction.attributes)
    if operation == "collective-permute":
        pairs = [
            [int(n) for n in pair.split(",")]
            for pair in _LISTS.findall(attributes["source_target_pairs"])
        ]
        axes = _axes_of_pairs(pairs, sizes)
        group_size = math.prod(sizes[axis] for axis in axes)
    else:
        device_count = math.prod(sizes.values())
        groups = attributes.get("replica_groups", "")
        if "device_ids" in attributes:  # the order of a mesh's devices follows behind a comma
            groups = f"{groups}, device_ids={attributes['device_ids']}"
        group = first_group(groups, device_count)
        axes = () if group is None else axes_along(group, sizes)
        group_size = device_count if group is None else len(group)
    if group_size > 1:
        sent = sent_bytes(operation, sum(shape.bytes for shape in operands), group_size)
        yield Exchange(operation, axes, group_size, sent, runs, equation)


def explained(
    running: Sequence[Exchange],
    plan: Sequence[Exchange],
    equations: Mapping[int, Equation],
    device_count: int,
) -> list[Exchange]:
    """The exchanges that run, each with the reason that the plan has for one of the same equation or kind."""
    by_equation = {(each.equation, each.operation): each for each in reversed(plan)}
    by_kind = {(each.operation, each.axes): each for each in reversed(plan)}
    found = []
    for each in running:
        known = by_equation.get((each.equation, each.operation))
        if known is None:
            known = by_kind.get((each.operation, each.axes))
        equation = each.equation if each.equation in equations else None
        if known is None:
            note = "the partitioner's own: Shardy's plan has no such exchange"
            reason = _likely_reason(each, device_count)
            found.append(each._replace(equation=equation, reason=reason, note=note))
        else:
            equation = known.equation if equation is None else equation
            found.append(each._replace(equation=equation, reason=known.reason, note=known.note))
    return found


def _likely_reason(each: Exchange, device_count: int) -> Reason:
    """What an exchange is for that nobody planned."""
    if each.operation in ("all-reduce", "reduce-scatter"):
        return "contraction"
    gathers_all = each.operation == "all-gather" and each.group_size == device_count
    return "full_replication" if gathers_all else "reshard"


def differences(plan: Sequence[Exchange], running: Sequence[Exchange]) -> list[str]:
    """A sentence for each kind of exchange of which the optimized program has more or fewer than was planned."""
    kinds = dict.fromkeys((each.operation, each.axes) for each in (*plan, *running))
    found = []
    for operation, axes in kinds:
        counts = [
            sum((each.operation, each.axes) == (operation, axes) for each in exchanges)
            for exchanges in (plan, running)
        ]
        if counts[0] != counts[1]:
            along = f" over {', '.join(axes)}" if axes else ""
            found.append(
                f"{operation}{along}: {counts[0]} planned, {counts[1]} in the optimized program"
            )
    return found

"""Estimated costs of a run for other placements of a function's arguments, on meshes that needn't exist."""

from __future__ import annotations

import contextlib
import math
import re
from collections.abc import Callable, Generator, Mapping, Sequence
from typing import Any, NamedTuple

from pellucid._machine.base import ArgumentTypeError, ArgumentValueError, by_tool, tree_flatten
from pellucid._machine.base.narrowing import is_mapping
from pellucid._machine.higher_order.jitted import jit
from pellucid._machine.higher_order.shape_dtype_struct import ShapeDtypeStruct
from pellucid._machine.higher_order.stages import Compiled, Traced
from pellucid._machine.sharding import (
    AbstractMesh,
    AxisType,
    Mesh,
    NamedSharding,
    PartitionSpec,
    set_mesh,
    use_abstract_mesh,
)
from pellucid._machine.tracing import FunctionSpec, name_of, type_of
from pellucid.introspect import schema

from .exchanges import Reason
from .function_sharding import planned_sharding
from .machines import Machine, machine_of
from .step_time import compute_seconds, exchange_seconds
from .uncounted import Uncounted, uncounted_text

Axes = tuple[str, ...]
"""Mesh axes that partition a dimension, major first."""
Dims = tuple[Axes, ...]
"""Mesh axes of each dimension."""
Plan = tuple[schema.FunctionShardingRecord, list[Uncounted]]
"""The record that Shardy plans, and the operations whose exchanges it lacks."""
Specs = Mapping[str, PartitionSpec]
"""Specs by path of an argument, in which `*` matches any text."""

MAX_DEVICES = 4096
REMARKS = (
    "Everything but the bytes of arguments is an estimate: nothing was compiled.",
    "Exchanges are those that Shardy plans. XLA's partitioner may combine or replace some of them: of the programs that tests compile over other placements, most send 0.3 to 3 times the bytes.",
    "Times are rooflines without latencies, and exchanges overlap with nothing.",
    "Peak memory is that of values by their lifetimes, without donation, fusion and scratch space: it may be too low, too.",
)


class Argument(NamedTuple):
    """An array among the arguments."""

    path: str
    shape: tuple[int, ...]
    dtype: Any
    weak_type: bool
    nbytes: int
    dims: Dims
    """Its current placement; of one that has no sharding, the one that the program gives it."""
    is_placed: bool
    """Whether it has a sharding now; the function may specify those of others."""


class Placement(NamedTuple):
    """A mesh, and the mesh axes of each dimension of each array among the arguments.

    >>> WhatIf(lambda x: x, pl.ShapeDtypeStruct((4,), "float32")).today
    Placement(mesh=AbstractMesh('device': 1, axis_types=(Auto,)), dims=(((),),))
    """

    mesh: AbstractMesh
    dims: tuple[Dims, ...]


class Estimate(NamedTuple):
    """Estimated costs of a run for one placement."""

    placement: Placement
    argument_bytes: int
    peak_bytes: int
    compute_seconds: float
    exchanges: list[schema.ExchangeCostRecord]
    """Collectives, those that take longest first."""
    uncounted: list[Uncounted]
    """Operations for which devices exchange something else, of which nothing is known."""

    @property
    def exchange_seconds(self) -> float:
        """Time of all collectives."""
        return sum(each.seconds for each in self.exchanges)

    @property
    def seconds(self) -> float:
        """Time of a run."""
        return self.compute_seconds + self.exchange_seconds

    def record(self, groups: Sequence[Sequence[int]]) -> schema.PlacementRecord:
        """The record of the estimate; each of `groups` has the positions of arguments with the same placement."""
        mesh, dims = self.placement
        return schema.PlacementRecord(
            axis_names=list(map(str, mesh.axis_names)),
            axis_sizes=list(mesh.axis_sizes),
            dim_axes=[list(map(list, dims[group[0]])) for group in groups],
            argument_bytes=self.argument_bytes,
            peak_bytes=self.peak_bytes,
            sent_bytes=sum(each.sent_bytes for each in self.exchanges),
            exchange_count=sum(each.count for each in self.exchanges),
            compute_seconds=self.compute_seconds,
            exchange_seconds=self.exchange_seconds,
        )


class WhatIf:
    """A function and its arguments, for which other placements are estimated.

    Arguments are arrays or ShapeDtypeStructs; their shardings, all on one mesh, are the current placement. `device` is
    the kind of device, or a `Machine`, for which times are estimated.

    Raises: ArgumentTypeError if `function` isn't callable; ArgumentValueError for an unknown kind of device, and for
    arguments on several meshes.

    >>> x = pl.ShapeDtypeStruct((64, 32), "float32")
    >>> what_if = WhatIf(lambda x: x.sum(), x)
    >>> record = what_if.record(what_if.placement({"data": 16}, {"x": pl.P("data")}))
    >>> record.placement.argument_bytes, [(each.operation, each.axes) for each in record.exchanges]
    (512, [('all-reduce', ['data'])])
    """

    @by_tool
    def __init__(
        self, function: Callable[..., Any], *args: Any, device: str | Machine = "H100"
    ) -> None:
        if isinstance(function, Compiled) or not callable(function):
            raise ArgumentTypeError(
                "what_if needs a function and its arguments.",
                got=f"got {type(function).__name__}",
                do="Write pl.viz.what_if(f)(*args).",
            )
        self.machine = machine_of(device)
        self.jitted: Any = function if hasattr(function, "trace") else jit(function)
        self.name = name_of(function)
        self._leaves, self._tree = tree_flatten(args)
        paths = FunctionSpec(function, self.name).argument_paths(args, {})
        mesh = _mesh_of(self._leaves)
        with contextlib.nullcontext() if mesh is None else _current(mesh.abstract_mesh):
            traced = self.jitted.trace(*args)
        mesh = self._mesh = mesh or _mesh_of_program(traced)
        stated = _stated_in_shardings(traced, len(self._leaves))
        self._places = [i for i, leaf in enumerate(self._leaves) if hasattr(leaf, "dtype")]
        self.arguments = [_argument(paths[i], self._leaves[i], stated[i]) for i in self._places]
        self.today = Placement(mesh.abstract_mesh, tuple(each.dims for each in self.arguments))
        self._estimates: dict[Placement, Estimate] = {}
        self._today_plan: Plan | None = None
        if mesh.size > 1 and not all(each.is_placed for each in self.arguments):
            self._place_as_planned()

    def _place_as_planned(self) -> None:
        """Give the arguments without shardings the placements that the program gives them."""
        traced, self._today_plan = self._plan_of(self.today)
        given = _dims_of_inputs(traced, self._today_plan[0], len(self._leaves))
        for i, (place, each) in enumerate(zip(self._places, self.arguments, strict=True)):
            dims = given.get(place)
            if not each.is_placed and dims and _is_even(each.shape, dims, self.today.mesh):
                self.arguments[i] = each._replace(dims=dims)
        self.today = self.today._replace(dims=tuple(each.dims for each in self.arguments))

    # Placements -----------------------------------------------------------------------------------

    def placement(
        self, mesh: Any = None, specs: Specs | None = None, start: Placement | None = None
    ) -> Placement:
        """`start` (by default the current placement) with another mesh, and with other `specs` for some arguments.

        `mesh` is a Mesh, an AbstractMesh, or sizes by axis name. Axes that it lacks no longer partition any dimension.

        Raises: ArgumentTypeError for another kind of mesh or spec; ArgumentValueError for paths that match no argument,
        for axes that the mesh lacks, and for more than 4,096 devices.
        """
        start = start or self.today
        over = start.mesh if mesh is None else _abstract(mesh, start.mesh)
        dims = [
            tuple(tuple(axis for axis in axes if axis in over.shape) for axes in each)
            for each in start.dims
        ]
        for pattern, spec in (specs or {}).items():
            places = self._matching(pattern)
            for place in places:
                dims[place] = self._dims_of(self.arguments[place], spec, over)
        return Placement(over, tuple(dims))

    def placement_of(
        self,
        axis_sizes: Mapping[str, int],
        dims: Sequence[Sequence[Sequence[str]]],
        start: Placement,
        search: Search | None = None,
    ) -> Placement:
        """The placement that gives each group of the record of `start` and `search` the axes in `dims`."""
        mesh = _abstract(axis_sizes, start.mesh)
        placed = list(start.dims)
        for group, axes_by_dim in zip(self._groups_of(start, search), dims, strict=True):
            for i in group:
                placed[i] = tuple(map(tuple, axes_by_dim))
        return Placement(mesh, tuple(placed))

    def _groups_of(self, placement: Placement, search: Search | None) -> list[list[int]]:
        best = [] if search is None else search.best
        return self.groups([self.estimate(self.today), self.estimate(placement), *best])

    def _matching(self, pattern: str) -> list[int]:
        expression = re.compile(re.escape(pattern).replace(r"\*", ".*"))
        places = [i for i, each in enumerate(self.arguments) if expression.fullmatch(each.path)]
        if not places:
            paths = list(dict.fromkeys(each.path for each in self.arguments))
            more = f", … ({len(paths)} in all)" if len(paths) > 8 else ""
            raise ArgumentValueError(
                "what_if: no argument has this path.",
                got=f"specs[{pattern!r}], arguments are {', '.join(paths[:8])}{more}",
                do="Write the path as shown; `*` stands for any text.",
            )
        return places

    def _dims_of(self, argument: Argument, spec: Any, mesh: AbstractMesh) -> Dims:
        if not isinstance(spec, PartitionSpec):
            raise ArgumentTypeError(
                f"what_if: the spec of {argument.path} is no PartitionSpec.",
                got=f"got {type(spec).__name__}",
                do="Write pl.P('data', None), with one entry for each dimension.",
            )
        # NamedSharding checks that axes exist and aren't used twice; the rank is the argument's.
        NamedSharding(mesh, spec)
        rank = len(argument.shape)
        if len(spec.axes_per_dim) > rank:
            raise ArgumentValueError(
                f"what_if: the spec of {argument.path} has more entries than it has dimensions.",
                got=f"{spec} for shape {argument.shape}",
            )
        dims = tuple(tuple(map(str, axes)) for axes in spec.axes_per_dim)
        return dims + ((),) * (rank - len(dims))

    # Estimates ------------------------------------------------------------------------------------

    def argument_bytes(self, placement: Placement) -> int:
        """Bytes of the arguments on one device."""
        return sum(
            each.nbytes // parts_of(dims, placement.mesh)
            for each, dims in zip(self.arguments, placement.dims, strict=True)
        )

    @by_tool
    def estimate(self, placement: Placement) -> Estimate:
        """Costs of a run with this placement; cached.

        Raises: ShardingError if a dimension isn't divided evenly; UnsupportedError if the function itself names another
        mesh; errors of the function while it is traced.
        """
        if placement not in self._estimates:
            plan = self._today_plan if placement == self.today else None
            record, uncounted = plan or self._plan_of(placement)[1]
            self._estimates[placement] = Estimate(
                placement,
                self.argument_bytes(placement),
                max(record.device_peak_bytes, default=0),
                compute_seconds(record, self.machine),
                exchange_costs(record, self.machine),
                uncounted,
            )
        return self._estimates[placement]

    def _plan_of(self, placement: Placement) -> tuple[Traced, Plan]:
        """(the function traced with its arguments placed so, Shardy's plan for it)."""
        mesh = placement.mesh
        # A function may name the mesh of the current placement.
        over = self._mesh if mesh is self.today.mesh else mesh
        leaves = list(self._leaves)
        for i, argument, dims in zip(self._places, self.arguments, placement.dims, strict=True):
            is_free = mesh is self.today.mesh and dims == argument.dims
            leaves[i] = ShapeDtypeStruct(
                argument.shape, argument.dtype, weak_type=argument.weak_type,
                sharding=None if is_free and not argument.is_placed else NamedSharding(over, _spec(dims)),
            )  # fmt: skip
        with _current(mesh):
            traced = self.jitted.trace(*self._tree.unflatten(leaves))
            return traced, planned_sharding(traced, mesh)

    def record(self, placement: Placement, search: Search | None = None) -> schema.WhatIfRecord:
        """The record of a placement and of the current one, with the results of a search."""
        search = search or Search([], 0, 0, 0, self.machine.memory_bytes)
        today, now = self.estimate(self.today), self.estimate(placement)
        groups = self._groups_of(placement, search)
        return schema.WhatIfRecord(
            name=self.name,
            device_kind=self.machine.kind,
            memory_limit_bytes=search.memory_limit_bytes,
            arguments=[self._group_record(group, placement) for group in groups],
            today=today.record(groups),
            placement=now.record(groups),
            exchanges=now.exchanges,
            best=[each.record(groups) for each in search.best],
            examined_count=search.examined_count,
            excluded_count=search.excluded_count,
            remaining_count=search.remaining_count,
            remarks=[*_remarks_on(now, search), *REMARKS],
            refusal="",
        )

    def groups(self, estimates: Sequence[Estimate] = ()) -> list[list[int]]:
        """Positions of arguments of one type whose paths differ only in indices, and that have the same placement in
        all `estimates`.
        """
        groups: dict[Any, list[int]] = {}
        for i, each in enumerate(self.arguments):
            placed = tuple(estimate.placement.dims[i] for estimate in estimates)
            groups.setdefault(
                (_star_indices(each.path), each.shape, each.dtype, placed), []
            ).append(i)
        return list(groups.values())

    def _group_record(
        self, group: Sequence[int], placement: Placement
    ) -> schema.PlacedArgumentRecord:
        first = self.arguments[group[0]]
        return schema.PlacedArgumentRecord(
            name=_joined_path([self.arguments[i].path for i in group]),
            count=len(group),
            type=type_of(ShapeDtypeStruct(first.shape, first.dtype)).text(),
            dim_sizes=list(first.shape),
            device_bytes=sum(
                self.arguments[i].nbytes // parts_of(placement.dims[i], placement.mesh)
                for i in group
            ),
        )


def _remarks_on(now: Estimate, search: Search) -> list[str]:
    """What is unknown of a placement, and of the fastest that a search found."""
    remarks = [uncounted_text(now.uncounted)] if now.uncounted else []
    count = sum(bool(each.uncounted) for each in search.best)
    if count:
        remarks.append(
            f"{count} of the {len(search.best)} fastest placements have exchanges that nothing here counts: choose one to see which."
        )
    return remarks


@contextlib.contextmanager
def _current(mesh: AbstractMesh) -> Generator[None]:
    """Make `mesh` current instead of the surrounding mesh, which may have another number of devices."""
    with set_mesh(None), use_abstract_mesh(mesh):
        yield


class Search(NamedTuple):
    """Result of a search for fast placements, as returned by `fastest`.

    >>> what_if = WhatIf(lambda x: x + 1.0, pl.ShapeDtypeStruct((4,), "float32"))
    >>> pl.analysis.fastest(what_if, what_if.today).examined_count
    1
    """

    best: list[Estimate]
    """Fastest first."""
    examined_count: int
    excluded_count: int
    """Number of placements that don't fit into memory or don't divide dimensions evenly."""
    remaining_count: int
    """Number of placements that the search had no time for."""
    memory_limit_bytes: int


def exchange_costs(
    record: schema.FunctionShardingRecord, machine: Machine
) -> list[schema.ExchangeCostRecord]:
    """Planned collectives by operation, axes and line, those that take longest first."""
    program = record.program
    kinds: dict[
        tuple[str, tuple[str, ...], tuple[int, int], Reason], list[schema.CollectiveRecord]
    ] = {}
    for each in record.planned:
        span = program.equations.span[each.equation] if each.equation >= 0 else -1
        place = (program.spans.source[span], program.spans.line[span]) if span >= 0 else (-1, 0)
        kinds.setdefault((each.operation, tuple(each.axes), place, each.reason), []).append(each)
    costs = [
        schema.ExchangeCostRecord(
            operation=operation,
            axes=list(axes),
            reason=reason,
            count=sum(each.runs or 1 for each in exchanges),
            sent_bytes=sum(each.bytes_per_device * (each.runs or 1) for each in exchanges),
            seconds=sum(
                exchange_seconds(each, record, machine) * (each.runs or 1) for each in exchanges
            ),
            source=program.sources[source] if source >= 0 else None,
            line=line,
            primitive=""
            if exchanges[0].equation < 0
            else program.strings[program.equations.primitive[exchanges[0].equation]],
        )
        for (operation, axes, (source, line), reason), exchanges in kinds.items()
    ]
    return sorted(costs, key=lambda each: each.seconds, reverse=True)


def parts_of(dims: Dims, mesh: AbstractMesh) -> int:
    """Number of parts into which an array is partitioned."""
    return math.prod(mesh.shape[axis] for axes in dims for axis in axes)


def _spec(dims: Dims) -> PartitionSpec:
    return PartitionSpec(*(axes[0] if len(axes) == 1 else axes or None for axes in dims))


def _mesh_of_program(traced: Traced) -> Mesh | AbstractMesh:
    """The mesh that a function itself names, or the current mesh; one device if there is none."""
    return traced.lower()._lowered.request.mesh or AbstractMesh((1,), ("device",))  # pyright: ignore[reportPrivateUsage]  # what users don't see of a stage


def _stated_in_shardings(traced: Traced, count: int) -> list[Any]:
    """The `in_shardings` of `count` arguments; None for all of them if there are static arguments, or none is given."""
    program = traced._program  # pyright: ignore[reportPrivateUsage]  # what users don't see of a stage
    stated = program.values.of_inputs(program.in_shardings) or ()
    return list(stated) if len(stated) == count else [None] * count


def _dims_of_inputs(
    traced: Traced, record: schema.FunctionShardingRecord, count: int
) -> dict[int, Dims]:
    """The mesh axes of each dimension that a plan gives to those of `count` arguments that the program uses, by position."""
    lowered = traced.lower()._lowered  # pyright: ignore[reportPrivateUsage]  # what users don't see of a stage
    if len(lowered.used) != count:  # some arguments are static
        return {}
    body = record.program.bodies[0]
    # Constants come before the arguments.
    first = len(body.constants) + len(lowered.consts)
    numbers = record.layouts.sharding[first : len(body.constants) + len(body.inputs)]
    used = [place for place, is_used in enumerate(lowered.used) if is_used]
    specs = {
        place: record.shardings[number]
        for place, number in zip(used, numbers, strict=True)
        if number >= 0
    }
    return {
        place: tuple(map(tuple, spec.dim_axes)) for place, spec in specs.items() if spec.mesh == 0
    }


def _is_even(shape: Sequence[int], dims: Dims, mesh: AbstractMesh) -> bool:
    """Whether whole axes of `mesh` cut each dimension evenly."""
    sizes = mesh.shape
    return all(
        all(axis in sizes for axis in axes) and size % math.prod(sizes[axis] for axis in axes) == 0
        for size, axes in zip(shape, dims, strict=True)
    )


def _argument(path: str, leaf: Any, stated: Any) -> Argument:
    aval = type_of(leaf)
    placed = _named_sharding(leaf)
    spec = getattr(placed or stated, "spec", None)
    dims = () if spec is None else tuple(tuple(map(str, axes)) for axes in spec.axes_per_dim)
    dims += ((),) * (len(aval.shape) - len(dims))
    return Argument(
        path, tuple(aval.shape), aval.dtype, aval.weak_type, aval.nbytes, dims, placed is not None
    )


def _named_sharding(leaf: Any) -> NamedSharding | None:
    sharding = getattr(leaf, "sharding", None)
    return sharding if isinstance(sharding, NamedSharding) else None


def _mesh_of(leaves: Sequence[Any]) -> Mesh | AbstractMesh | None:
    """The mesh of the arguments' shardings; None if they are on one device."""
    meshes: dict[AbstractMesh, Mesh | AbstractMesh] = {}
    for leaf in leaves:
        sharding = getattr(leaf, "sharding", None)
        if isinstance(sharding, NamedSharding):
            meshes[sharding.mesh.abstract_mesh] = sharding.mesh
        elif sharding is not None and sharding.num_devices > 1:
            raise ArgumentValueError(
                "what_if: an argument lies over several devices without a mesh.",
                got=f"got {sharding}",
                do="Place it with NamedSharding(mesh, spec).",
            )
    if len(meshes) > 1:
        raise ArgumentValueError(
            "what_if: arguments lie over several meshes.",
            got=[str(mesh) for mesh in meshes],
            do="Place them over one mesh.",
        )
    return next(iter(meshes.values()), None)


def _abstract(mesh: Any, today: AbstractMesh) -> AbstractMesh:
    """The mesh that a user specifies; axes with the name of a current axis keep its axis type."""
    if is_mapping(mesh):
        types = [today.axis_type_by_name.get(name, AxisType.Auto) for name in mesh]
        for name, size in mesh.items():
            if not isinstance(size, int) or size < 1:
                raise ArgumentValueError(
                    "what_if: the size of a mesh axis must be a positive int.",
                    got=f"mesh[{name!r}] is {size!r}",
                )
        mesh = AbstractMesh(tuple(mesh.values()), tuple(mesh), tuple(types))
    if not isinstance(mesh, (Mesh, AbstractMesh)):
        raise ArgumentTypeError(
            "what_if: `mesh` must be a mesh, or sizes by axis name.",
            got=f"got {type(mesh).__name__}",
            do="Write mesh={'data': 64, 'model': 8}.",
        )
    if not 0 < mesh.size <= MAX_DEVICES:
        raise ArgumentValueError(
            f"what_if needs meshes of 1 to {MAX_DEVICES} devices.",
            got=f"got {mesh.size} devices: {dict(mesh.shape)}",
        )
    return mesh.abstract_mesh


_INDEX = re.compile(r"\[\d+\]")


def _star_indices(path: str) -> str:
    return _INDEX.sub("[*]", path)


def _joined_path(paths: Sequence[str]) -> str:
    """One path for several, with `*` for the indices in which they differ.

    >>> _joined_path(["p[0][1]", "p[0][2]"])
    'p[0][*]'
    """
    pieces = [re.split(r"(?<=\[)(\d+)(?=\])", path) for path in paths]
    return "".join(texts[0] if len(set(texts)) == 1 else "*" for texts in zip(*pieces, strict=True))

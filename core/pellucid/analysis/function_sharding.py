"""Records of the shardings of a function's intermediates: where they are, why, and which data moves between devices."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from pellucid._machine.base import ArgumentTypeError, UnsupportedError, by_tool
from pellucid._machine.base.source import user_frame
from pellucid._machine.compilation.pipeline import compile_without_devices, shardy_attributes
from pellucid._machine.higher_order.jitted import jit
from pellucid._machine.higher_order.stages import Compiled, Traced
from pellucid._machine.ir import Literal
from pellucid._machine.lowering.module import ordered_effects_of
from pellucid._machine.sharding import AbstractMesh, Mesh
from pellucid._machine.sharding.errors import AbstractPlacementError
from pellucid._machine.sharding.shardy import describe_mesh
from pellucid._machine.xla.compile import peak_bytes
from pellucid.introspect import schema
from pellucid.introspect.lineage import equations_by_id
from pellucid.introspect.placement import mesh_record
from pellucid.introspect.program import JaxprReading, read_jaxpr

from .exchanges import Exchange, differences, explain_collectives, planned_exchanges, running
from .hlo import module_of
from .layouts import DeclaredMesh, ValueLayout, meshes_in, size_of
from .peak import estimated_peak_bytes
from .programs import with_costs
from .propagation import Propagation, propagate
from .sites import SiteValues
from .uncounted import Uncounted, exchanges_elements, is_planned_otherwise
from .uneven_cuts import uneven_cuts_of
from .ways import Inputs, Ways, why_columns


@by_tool
def sharding(function: Callable[..., Any], *args: Any) -> schema.FunctionShardingRecord:
    """The record of the shardings of a function's intermediates for `args`; it needn't be jitted.

    It contains the sharding of every intermediate, the origin of each mesh axis, the collectives, and the memory of a
    run. Arguments are arrays or ShapeDtypeStructs with shardings. The function is traced and lowered but doesn't run.
    It is compiled if its devices exist. On an abstract mesh, figures are estimates, except for GPUs of a known kind,
    for which it is compiled too if the CUDA plugin is installed.

    Raises: ArgumentTypeError if `function` isn't callable, or is compiled, as an executable doesn't contain its
    program; errors of the function while it is traced.

    >>> mesh = pl.sharding.AbstractMesh((2, 4), ("data", "model"))
    >>> rows = pl.ShapeDtypeStruct((8, 4), "float32", sharding=pl.NamedSharding(mesh, pl.P("data")))
    >>> record = sharding(lambda x: x.sum(), rows)
    >>> [(each.operation, each.axes, each.bytes_per_device) for each in record.collectives]
    [('all-reduce', ['data'], 4)]
    """
    if isinstance(function, Compiled):
        raise ArgumentTypeError(
            "sharding: a compiled function doesn't tell where its intermediates lie, and why.",
            got="got Compiled",
            do="Pass the function that was compiled, with its arguments.",
        )
    # A Mesh is callable too, as a decorator.
    if not callable(function) or isinstance(function, Mesh | AbstractMesh):
        raise ArgumentTypeError(
            f"sharding: a {type(function).__name__} is no function.",
            do="For an array, a sharding or a mesh, use introspect.sharding.",
        )
    jitted: Any = function if hasattr(function, "trace") else jit(function)
    return traced_sharding(jitted.trace(*args))


def traced_sharding(traced: Traced) -> schema.FunctionShardingRecord:
    """The record of the shardings of a traced function's intermediates."""
    lowered = traced.lower()
    writer = _writer(traced, lowered)
    if lowered._lowered.request.placement.abstract_mesh is not None:  # pyright: ignore[reportPrivateUsage]  # what users don't see of a stage
        return writer.record(*_compile_without_devices(lowered))
    # The executable may be shared. While the stage is alive, it is associated with this program's equations.
    stage = lowered.compile()
    return writer.record(stage.runtime_executable(), "")


def planned_sharding(
    traced: Traced, mesh: AbstractMesh
) -> tuple[schema.FunctionShardingRecord, list[Uncounted]]:
    """(record of the shardings that Shardy chooses on `mesh`, operations whose exchanges it lacks), without compilation and
    without texts of the program.

    Raises: UnsupportedError if the function itself names another mesh.
    """
    lowered = traced.lower()
    writer = _writer(traced, lowered, has_texts=False)
    mesh_of_program = writer.mesh
    if mesh_of_program.size > 1 and mesh_of_program.shape_tuple != mesh.shape_tuple:
        raise UnsupportedError(
            f"`{traced.fun_name}` can't be laid out over another mesh: it names one itself.",
            got=f"it names {mesh_of_program.shape_tuple}, asked for {mesh.shape_tuple}",
            do="Write constraints, shard_map and out_shardings with PartitionSpecs alone: the mesh is current meanwhile.",
        )
    record = writer.record(None, "the program wasn't compiled.")
    return record, [*dict.fromkeys(writer.uncounted())]


def _writer(traced: Traced, lowered: Any, has_texts: bool = True) -> _Writer:
    """The writer of the record of a lowered program, after propagation; `has_texts` includes its listing and source
    lines.
    """
    program = lowered._lowered
    mesh = program.request.mesh or _mesh_of_devices(program)
    reading = read_jaxpr(
        program.jaxpr, name=traced.fun_name, listing=has_texts, source_lines=has_texts, value_names=has_texts
    )  # fmt: skip
    bodies = {**reading.bodies, program.jaxpr: 0}
    propagation = propagate(program, shardy_attributes(program.request), bodies)
    return _Writer(traced, program, mesh, reading, propagation)


def _compile_without_devices(lowered: Any) -> tuple[Any, str]:
    """(XLA's executable, empty text), or (None, why it couldn't be compiled)."""
    try:
        return compile_without_devices(lowered._lowered), ""
    except AbstractPlacementError as error:
        return None, error.what


def _mesh_of_devices(program: Any) -> Mesh:
    """The mesh of a program that names none: the first one derived from the placements of its values."""
    devices = np.array(program.request.placement.devices)
    for declared in meshes_in(program.module.module).values():
        if declared.size == devices.size > 1:
            return _mesh_of(declared, devices)
    return Mesh(devices, ("device",)) if devices.size > 1 else Mesh(devices.reshape(()), ())


def _mesh_of(declared: DeclaredMesh, devices: np.ndarray) -> Mesh:
    """The mesh that a module declares, with the program's `devices`."""
    order = devices[list(declared.device_ids)] if declared.device_ids else devices
    return Mesh(order.reshape(tuple(declared.sizes.values())), tuple(declared.sizes))


def _name_in(meshes: Mapping[str, DeclaredMesh], mesh: DeclaredMesh) -> str:
    """Name of a mesh in a module; empty if the module doesn't declare it."""
    return next((name for name, each in meshes.items() if each.is_same(mesh)), "")


class _Writer:
    """Assembles the record of one program."""

    def __init__(
        self, traced: Any, lowered: Any, mesh: Mesh | AbstractMesh, reading: JaxprReading,
        propagation: Propagation,
    ) -> None:  # fmt: skip
        self.traced = traced
        self.lowered = lowered
        self.mesh = mesh
        self.programs = list(reading.bodies)
        self.program = with_costs(reading)
        self.propagation = propagation
        self.sites = propagation.sites
        self.values = SiteValues(reading.record, propagation.sites)
        self.equations = equations_by_id(self.programs[0])
        self.token_count = len(ordered_effects_of(self.programs[0].effects))
        """Number of tokens, which precede the program's arguments and results in the module."""
        self.meshes = self.named_meshes()
        self.mesh_records = {next(iter(self.meshes)): mesh_record(mesh)}

    def record(self, compiled: Any, why_not: str) -> schema.FunctionShardingRecord:
        """The record; `compiled` is None if the program couldn't be compiled, for the reason `why_not`."""
        values_by_number = self.propagation.values
        layouts = [values[0].layout if values else None for values in values_by_number]
        device_bytes = list(map(self.device_bytes, range(len(values_by_number)), layouts))
        specs = {layout: i for i, layout in enumerate(dict.fromkeys(filter(None, layouts)))}
        ways = self.ways()
        why = [
            [ways.hop(values[0], axis, numbers) for axis in values[0].layout.axes] if values else []
            for numbers in map(self.values.numbers, self.sites)
            for values in (values_by_number[number] for number in numbers)
        ]
        plan = self.planned_exchanges()
        runs = plan if compiled is None else self.running(compiled, plan)
        peak = self.peak(compiled, device_bytes)
        return schema.FunctionShardingRecord(
            name=self.traced.fun_name,
            program=self.program,
            sites=self.site_columns(),
            shardings=list(map(self.spec, specs)),
            layouts=schema.LayoutColumns(
                sharding=[-1 if each is None else specs[each] for each in layouts],
                device_bytes=list(map(math.ceil, device_bytes)),
                count=[len({each.layout for each in values}) for values in values_by_number],
            ),
            axes=list(ways.axes),
            why=why_columns(why),
            origins=ways.origins,
            planned=list(map(self.collective, plan)),
            collectives=list(map(self.collective, runs)),
            differences=differences(plan, runs),
            device_peak_bytes=[peak] * self.mesh.size,
            basis="estimate" if compiled is None else "compiler",
            not_compiled=why_not,
            uneven=[*self.uneven_cuts()],
            meshes=list(self.mesh_records.values()),
        )

    def ways(self) -> Ways:
        """The object that traces back how axes came to values."""
        kept_arguments = [place for place, is_kept in enumerate(self.lowered.used) if is_kept]
        program = self.traced._program
        in_shardings = program.values.of_inputs(program.in_shardings)
        n_consts = len(self.lowered.consts)
        origins = ["the constant"] * n_consts + [
            "in_shardings of" if in_shardings and in_shardings[place] is not None else "argument"
            for place in kept_arguments
        ]
        placed = [each is not None for each in self.lowered.options.argument_shardings]
        inputs = Inputs(origins, placed or [False] * len(origins), self.token_count)
        return Ways(self.propagation, self.values, self.equations, inputs)

    # Meshes and sites -------------------------------------------------------------------------------

    def named_meshes(self) -> dict[str, DeclaredMesh]:
        """The meshes of the module by name, the program's own mesh first."""
        meshes = self.propagation.meshes
        declared = self.declared_mesh(self.mesh)
        return {_name_in(meshes, declared): declared} | meshes

    def declared_mesh(self, mesh: Mesh | AbstractMesh) -> DeclaredMesh:
        """A mesh in the form in which the module declares it."""
        description = describe_mesh(mesh, self.lowered.request.placement.device_list)
        return DeclaredMesh(dict(description.axes), description.device_ids or ())

    def mesh_row(self, name: str) -> int:
        """The index of a mesh of the module; a value that is replicated everywhere is assigned the program's own mesh."""
        name = name or next(iter(self.meshes))
        if name not in self.mesh_records:
            declared, placement = self.meshes[name], self.lowered.request.placement
            if placement.abstract_mesh is None:
                mesh = _mesh_of(declared, np.array(placement.devices))
            else:
                device = placement.abstract_mesh.abstract_device
                mesh = AbstractMesh(
                    tuple(declared.sizes.values()), tuple(declared.sizes), abstract_device=device
                )
            self.mesh_records[name] = mesh_record(mesh)
        return list(self.mesh_records).index(name)

    def spec(self, layout: ValueLayout) -> schema.SpecRecord:
        return schema.SpecRecord(
            text=layout.text,
            mesh=self.mesh_row(layout.mesh),
            dim_axes=list(map(list, layout.dims)),
            unreduced_axes=list(layout.unreduced),
            memory_kind=None,
        )

    def site_columns(self) -> schema.SiteColumns:
        manual: list[list[str]] = []
        meshes: list[int] = []
        for site in self.sites:
            params: Any = getattr(self.equations.get(site.equation or -1), "params", None)
            around = manual[site.parent] if site.parent >= 0 else []
            axes = getattr(params, "newly_manual_axes", ())
            manual.append([*around, *sorted(map(str, axes))])
            if axes:
                meshes.append(self.mesh_row(_name_in(self.meshes, self.declared_mesh(params.mesh))))
            else:
                meshes.append(meshes[site.parent] if site.parent >= 0 else 0)
        return schema.SiteColumns(
            body=[site.body for site in self.sites],
            parent=[site.parent for site in self.sites],
            equation=[self.values.row(site.equation) for site in self.sites],
            manual_axes=manual,
            mesh=meshes,
        )

    def uneven_cuts(self) -> Iterator[schema.UnevenCutRecord]:
        """Constraints with more parts along a dimension than it can be cut into evenly, at each site."""
        for number, site in enumerate(self.sites):
            for equation in self.programs[site.body].equations:
                for cut in uneven_cuts_of(equation):
                    yield schema.UnevenCutRecord(
                        equation=self.values.row(equation.id),
                        site=number,
                        device_bytes=cut.device_bytes,
                        whole_bytes=cut.whole_bytes,
                        padded=cut.padded,
                        note=cut.note,
                    )

    def uncounted(self) -> Iterator[Uncounted]:
        """The operations for which XLA exchanges elements, without those for which that is planned."""
        # The number of parts that are brought together before an operation, or that it combines.
        planned = dict[int | None, int]()
        for each in self.planned_exchanges():
            if each.moved != each.equation or each.reason == "contraction":
                size = max(each.group_size, planned.get(each.equation, 1))
                planned[each.equation] = size
        for site in self.sites:
            program, numbers = self.programs[site.body], self.values.numbers(site)
            made = [v for e in program.equations for v in e.results]
            number_of = dict(
                zip([*program.constvars, *program.invars, *made], numbers, strict=True)
            )

            def cut_dims(operand: Any, number_of: dict[Any, int] = number_of) -> dict[int, int]:
                number = -1 if isinstance(operand, Literal) else number_of.get(operand, -1)
                values = self.propagation.values[number] if number >= 0 else []
                parts = self.parts_by_dim(values[0].layout) if values else []
                return {d: n for d, n in enumerate(parts) if n > 1}

            for equation in program.equations:
                cut = [cut_dims(a) for a in equation.operands]
                parts = max((n for dims in cut for n in dims.values()), default=1)
                is_planned = planned.get(equation.id, 1) >= parts > 1
                if is_planned and not is_planned_otherwise(equation, cut, parts):
                    continue
                if exchanges_elements(equation, cut, [cut_dims(v) for v in equation.results]):
                    yield Uncounted(equation.primitive.name, user_frame(equation.source))

    def parts_by_dim(self, layout: ValueLayout) -> list[int]:
        """The number of parts in which each dimension of a value lies."""
        if not layout.mesh:
            return [1] * len(layout.dims)
        sizes = self.meshes[layout.mesh].sizes
        return [math.prod(size_of(axis, sizes) for axis in axes) for axes in layout.dims]

    # Bytes ----------------------------------------------------------------------------------------

    def device_bytes(self, number: int, layout: ValueLayout | None) -> float:
        """Bytes of a value on one device; the whole value if its sharding is unknown."""
        program = self.program
        total = program.types[program.values.type[self.values.value(number)]].bytes or 0
        return total if layout is None else total / layout.parts(self.meshes)

    def peak(self, compiled: Any, device_bytes: Sequence[float]) -> int:
        """Peak memory of a run on each device."""
        if compiled is None:
            return math.ceil(estimated_peak_bytes(self.sites, self.programs, device_bytes))
        return peak_bytes(compiled.get_compiled_memory_stats())

    # Exchanges ------------------------------------------------------------------------------------

    def planned_exchanges(self) -> list[Exchange]:
        results = self.lowered.request.result_shardings or [None] * len(self.programs[0].outvars)
        stated = [False] * self.token_count + [each is not None for each in results]
        with self.propagation.context:
            return planned_exchanges(
                self.propagation, next(iter(self.meshes)), self.equations, stated
            )

    def running(self, compiled: Any, plan: list[Exchange]) -> list[Exchange]:
        module, _ = module_of(compiled)
        exchanges = running(module, self.meshes, plan)
        return explain_collectives(exchanges, plan, self.equations, self.mesh.size)

    def collective(self, each: Exchange) -> schema.CollectiveRecord:
        equation = self.values.row(each.equation)
        return schema.CollectiveRecord(
            operation=each.operation,
            axes=list(each.axes),
            mesh=self.mesh_row(each.mesh),
            group_count=self.mesh.size // max(1, each.group_size),
            group_size=each.group_size,
            bytes_per_device=math.ceil(each.bytes),
            runs=each.runs,
            equation=equation,
            site=self.values.site_at(equation, each.calls),
            reason=each.reason,
            note=each.note,
        )

"""Where every intermediate of a function lies, why, and what is moved between devices, as a record."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from pellucid.compilation.pipeline import compile_without_devices, shardy_attributes
from pellucid.higher_order.jitted import jit
from pellucid.introspect import schema
from pellucid.introspect.columns import array_bytes
from pellucid.introspect.exchanges import Exchange, differences, explained, planned, running
from pellucid.introspect.hlo_text import parse
from pellucid.introspect.lineage import equations_by_id
from pellucid.introspect.peak import peak_bytes
from pellucid.introspect.placement import mesh_record
from pellucid.introspect.program import JaxprReading, read_jaxpr
from pellucid.introspect.propagation import (
    Layout,
    Propagation,
    Sizes,
    Value,
    meshes_in,
    propagate,
)
from pellucid.ir.avals import ShapedArray
from pellucid.ir.jaxpr import DebugInfo, Equation, Jaxpr, Var
from pellucid.lowering.module import ordered
from pellucid.sharding.errors import AbstractPlacementError
from pellucid.sharding.mesh import AbstractMesh, Mesh
from pellucid.sharding.shardy import axis_texts
from pellucid.xla import hlo as xla_hlo


def function_sharding(function: Any, *args: Any) -> schema.FunctionShardingRecord:
    """The record of how `function` lays out its intermediates for `args`, which may be ShapeDtypeStructs.

    The function is traced, lowered and, where its devices exist, compiled; it doesn't run. Over an abstract mesh of
    GPUs of a known kind it is compiled too, if the CUDA plugin is installed.
    """
    traced = (function if hasattr(function, "trace") else jit(function)).trace(*args)
    lowered = traced.lower()
    request = lowered._lowered.request
    mesh = request.mesh or _mesh_of_devices(lowered._lowered)
    sizes = dict(zip(axis_texts(mesh).values(), mesh.shape.values(), strict=True))
    propagation, variables = propagate(lowered._lowered, sizes, shardy_attributes(request))
    writer = _Writer(traced, lowered._lowered, mesh, sizes, propagation, variables)
    return writer.record(*_compiled(lowered))


class _Executable(NamedTuple):
    """What the compiler made of a program."""

    loaded: Any
    equation_ids: dict[int, int]
    """The ids of this process for those in the executable that another process gave."""


def _compiled(lowered: Any) -> tuple[_Executable | None, str]:
    """The compiled program, or None and the reason why there is none."""
    program = lowered._lowered
    if program.request.placement.abstract_mesh is None:
        executable = lowered.compile()._executable
        return _Executable(executable.loaded, executable.equation_ids or {}), ""
    try:
        return _Executable(compile_without_devices(program), {}), ""
    except AbstractPlacementError as error:
        return None, error.what


def _mesh_of_devices(program: Any) -> Mesh:
    """The mesh of a program whose user speaks of none: the first that its placements amount to."""
    devices = np.array(program.request.placement.devices)
    for sizes in meshes_in(program.module.module).values():
        if math.prod(sizes.values()) == devices.size > 1:
            return Mesh(devices.reshape(tuple(sizes.values())), tuple(sizes))
    return Mesh(devices, ("device",)) if devices.size > 1 else Mesh(devices.reshape(()), ())


class _Hop(NamedTuple):
    """How one axis came to a value, as `schema.WhyColumns` has it."""

    axis: int
    value: int = -1
    dimension: int = -1
    equation: int = -1
    origin: int = -1


def _why_columns(hops: Sequence[Sequence[_Hop]]) -> schema.WhyColumns:
    """The ways of the axes of each value."""
    rows = [hop for each in hops for hop in each]
    columns = {name: [getattr(hop, name) for hop in rows] for name in _Hop._fields}
    return schema.WhyColumns(counts=list(map(len, hops)), **columns)


class _Writer:
    """Puts together what is known of one program."""

    def __init__(
        self, traced: Any, lowered: Any, mesh: Mesh | AbstractMesh, sizes: Sizes,
        propagation: Propagation, variables: Sequence[Var],
    ) -> None:  # fmt: skip
        self.traced = traced
        self.lowered = lowered
        self.mesh = mesh
        self.sizes = sizes
        self.propagation = propagation
        self.variables = variables
        self.jaxpr = _named(lowered)
        self.equations = equations_by_id(self.jaxpr)
        self.makers = {v: each for each in self.equations.values() for v in each.results}
        self.inputs = {variable: place for place, variable in enumerate(self.jaxpr.invars)}
        self.kept = [place for place, is_kept in enumerate(lowered.kept) if is_kept]
        self.placements = lowered.options.argument_shardings
        """For each input where it lies; None where the compiler decides."""
        self.token_count = len(ordered(self.jaxpr.effects))
        """Arguments and results of the module that come before the program's."""
        self.reading: JaxprReading = read_jaxpr(self.jaxpr, name=traced.fun_name)
        self.program = self.reading.record
        self.rows = {id: row for row, id in enumerate(self.program.equations.id)}
        self.values = {
            variable: values
            for variable, values in zip(variables, propagation.values, strict=True)
            if variable in self.reading.values and values
        }
        self.specs: dict[Layout, int] = {}
        self.axes: dict[str, int] = {}
        self.origins: dict[str, int] = {}
        self.origin_records: list[schema.OriginRecord] = []

    def record(self, compiled: _Executable | None, why_not: str) -> schema.FunctionShardingRecord:
        """The record; `compiled` is None where the program can't be compiled, for the reason `why_not`."""
        count = len(self.program.values.name)
        shardings = [-1] * count
        device_bytes: list[int | None] = [None] * count
        layout_counts = [0] * count
        why: list[list[_Hop]] = [[] for _ in range(count)]
        for variable, values in self.values.items():
            index = self.reading.values[variable]
            layout = values[0].layout
            layout_counts[index] = len({each.layout for each in values})
            if layout is not None:
                shardings[index] = self.specs.setdefault(layout, len(self.specs))
                device_bytes[index] = math.ceil(self.device_bytes(variable))
                why[index] = [self.why(values[0], axis) for axis in layout.axes]
        plan = self.planned()
        runs = plan if compiled is None else self.running(compiled, plan)
        return schema.FunctionShardingRecord(
            name=self.traced.fun_name,
            program=self.program,
            mesh=mesh_record(self.mesh),
            shardings=[_spec_record(layout) for layout in self.specs],
            value_shardings=shardings,
            value_device_bytes=device_bytes,
            value_layout_counts=layout_counts,
            axes=list(self.axes),
            why=_why_columns(why),
            origins=self.origin_records,
            planned=list(map(self.collective, plan)),
            collectives=list(map(self.collective, runs)),
            differences=differences(plan, runs),
            device_peak_bytes=[self.peak(compiled)] * math.prod(self.sizes.values()),
            basis="estimate" if compiled is None else "compiler",
            not_compiled=why_not,
        )

    # Bytes ----------------------------------------------------------------------------------------

    def device_bytes(self, variable: Var) -> float:
        """Bytes of a variable's value on one device; of one whose layout isn't known, all of it."""
        aval = variable.aval
        total = (array_bytes(aval) or 0) if isinstance(aval, ShapedArray) else 0
        values = self.values.get(variable)
        layout = None if values is None else values[0].layout
        return total if layout is None else total / layout.parts(self.sizes)

    def peak(self, compiled: _Executable | None) -> int:
        """The most bytes that a run needs on each device."""
        if compiled is None:
            return math.ceil(peak_bytes(self.jaxpr, self.device_bytes))
        # What XLA itself calls the peak leaves temporaries out on some platforms; they are allocated as one.
        stats = compiled.loaded.get_compiled_memory_stats()
        return (
            stats.argument_size_in_bytes
            + stats.output_size_in_bytes
            + stats.temp_size_in_bytes
            - stats.alias_size_in_bytes
        )

    # Exchanges ------------------------------------------------------------------------------------

    def planned(self) -> list[Exchange]:
        results = self.lowered.request.result_shardings or [None] * len(self.jaxpr.outvars)
        stated = [False] * self.token_count + [each is not None for each in results]
        with self.propagation.context:
            return planned(self.propagation, self.sizes, self.equations, stated)

    def running(self, compiled: _Executable, plan: list[Exchange]) -> list[Exchange]:
        [module, *_] = compiled.loaded.hlo_modules()
        ids = compiled.equation_ids
        computations = parse(xla_hlo.full_text(module))
        found = running(computations, self.sizes, lambda id: ids.get(id, id))
        return explained(found, plan, self.equations, math.prod(self.sizes.values()))

    def collective(self, each: Exchange) -> schema.CollectiveRecord:
        return schema.CollectiveRecord(
            operation=each.operation,
            axes=list(each.axes),
            group_count=math.prod(self.sizes.values()) // max(1, each.group_size),
            group_size=each.group_size,
            bytes_per_device=math.ceil(each.bytes),
            runs=each.runs,
            equation=self.row(each.equation),
            reason=each.reason,
            note=each.note,
        )

    def row(self, equation: int | None) -> int:
        return -1 if equation is None else self.rows.get(equation, -1)

    # Why ------------------------------------------------------------------------------------------

    def why(self, value: Value, axis: str) -> _Hop:
        """How `axis` came to `value`: from the next value on the way that is a variable's."""
        number = self.axes.setdefault(axis, len(self.axes))
        arrival = value.arrivals.get(axis)
        if self.is_placed(value) or value.origins.get(axis) == "self":
            return _Hop(number, origin=self.stated(value))
        origin = self.origin(value.origins.get(axis))
        if arrival is None:
            return _Hop(number, origin=origin)
        source, equation = arrival.source, arrival.equation
        while self.index(source) < 0 and axis in source.arrivals:
            _, source, equation = source.arrivals[axis]
        if not self.has_axis(source, axis):  # the edge of a manual region
            return _Hop(number, equation=self.row(equation), origin=origin)
        dims = () if source.layout is None else source.layout.dims
        dimension = next((i for i, axes in enumerate(dims) if axis in axes), -1)
        return _Hop(number, self.index(source), dimension, self.row(equation), origin)

    def has_axis(self, value: Value, axis: str) -> bool:
        """Whether the record has `axis` among those of the value's variable."""
        if value.variable is None:
            return False
        values = self.values.get(self.variables[value.variable])
        layout = None if values is None else values[0].layout
        return layout is not None and axis in layout.axes

    def is_placed(self, value: Value) -> bool:
        """Whether it is an argument that was placed before the program runs."""
        place = None if value.variable is None else self.inputs.get(self.variables[value.variable])
        return place is not None and self.placements[place] is not None

    def index(self, value: Value) -> int:
        """Which value of the program it is; -1 for none."""
        if value.variable is None:
            return -1
        return self.reading.values.get(self.variables[value.variable], -1)

    def name(self, index: int) -> str:
        values, strings = self.program.values, self.program.strings
        return strings[values.user_name[index]] or strings[values.name[index]]

    def stated(self, value: Value) -> int:
        """The origin that is the value itself: an argument, or what an equation asks for."""
        index = self.index(value)
        variable = None if value.variable is None else self.variables[value.variable]
        if variable in self.inputs:
            return self.origin(f"input: {self.token_count + self.inputs[variable]}")
        equation = None if variable is None else self.makers.get(variable)
        return self.add_origin(f"value {index}", _statement(equation), index, equation)

    def origin(self, named: str | None) -> int:
        """The index of an origin that Shardy names; -1 for none."""
        if named is None:
            return -1
        kind, _, number = named.partition(": ")
        if kind == "input":
            variable = self.jaxpr.invars[int(number) - self.token_count]
            index = self.reading.values[variable]
            return self.add_origin(named, f"{self.asker(variable)} `{self.name(index)}`", index)
        if kind == "output":
            return self.add_origin(
                named, f"out_shardings of result {int(number) - self.token_count}"
            )
        region = kind.removesuffix("_input").removesuffix("_output")
        equation = self.equations.get(self.propagation.named.get(region) or -1)
        if region == kind:
            return self.add_origin(named, _statement(equation), -1, equation)
        specs = "in_specs" if kind.endswith("_input") else "out_specs"
        return self.add_origin(named, f"{specs} of shard_map", -1, equation)

    def asker(self, variable: Var) -> str:
        """Who says where an argument lies."""
        place = self.inputs[variable] - len(self.lowered.consts)
        if place < 0:
            return "the constant"
        asked = self.traced._program.argument_shardings
        return "in_shardings of" if asked and asked[self.kept[place]] is not None else "argument"

    def add_origin(
        self, key: str, text: str, value: int = -1, equation: Equation | None = None
    ) -> int:
        found = self.origins.get(key)
        if found is None:
            found = self.origins[key] = len(self.origin_records)
            row = self.row(None if equation is None else equation.id)
            self.origin_records.append(schema.OriginRecord(text=text, value=value, equation=row))
        return found


def _named(lowered: Any) -> Jaxpr:
    """The lowered program, with names for the arguments that it kept."""
    jaxpr = lowered.jaxpr
    if jaxpr.debug is None:
        return jaxpr
    kept = [
        name
        for name, is_kept in zip(jaxpr.debug.argument_names, lowered.kept, strict=False)
        if is_kept
    ]
    return jaxpr.replace(debug=DebugInfo(jaxpr.debug.name, kept))


def _statement(equation: Equation | None) -> str:
    """What an equation says of its result's layout, as the user would call it."""
    name = "" if equation is None else equation.primitive.name
    if name == "sharding_constraint":
        return "with_sharding_constraint"
    if name == "shard_map":
        return "out_specs of shard_map"
    if name in ("reshard", "device_put"):
        return name
    return f"the type of what {name} gives, over Explicit axes" if name else "the program"


def _spec_record(layout: Layout) -> schema.SpecRecord:
    return schema.SpecRecord(
        text=layout.text,
        mesh=0,
        dim_axes=list(map(list, layout.dims)),
        unreduced_axes=list(layout.unreduced),
        memory_kind=None,
    )

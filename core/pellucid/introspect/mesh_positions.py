"""Positions along the mesh axes of a `shard_map`: values at all positions, and programs on such values."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from pellucid._machine.ir import ClosedJaxpr, Jaxpr, Values, Var
from pellucid._machine.parallel.manual import ShardMapParams, shard_map_p, whole_type
from pellucid._machine.primitives.movement import broadcast, reshape
from pellucid._machine.primitives.placement import device_put
from pellucid._machine.primitives.varying import (
    marks_of,
    recast,
    reduced_p,
    reduced_same_cast_p,
    unreduced_vary_cast_p,
    vary_unreduced_cast_p,
)
from pellucid._machine.sharding import AxisType, Mesh, NamedSharding, PartitionSpec
from pellucid._machine.sharding.explicit_types import shown_sharding
from pellucid._machine.tracing import bind, replay
from pellucid._machine.transforms import Derived, cache_on_program, stage_open


class MeshPosition(NamedTuple):
    """One position along the mesh axes of a `shard_map`."""

    index: int  # pyright: ignore[reportIncompatibleMethodOverride]  # hides tuple.index
    """Its index among all positions in row-major order."""
    coordinates: tuple[tuple[Any, int], ...]
    """An (axis, index along it) pair for each axis."""
    devices: tuple[int, ...]
    """Ids of the devices there. Several if the mesh has axes over which the program doesn't run; none for an abstract
    mesh.
    """

    def __str__(self) -> str:
        axes = ", ".join(f"{axis}={i}" for axis, i in self.coordinates)
        name = "device" if len(self.devices) == 1 else "devices"
        devices = ", ".join(map(str, self.devices))
        return f"position {axes}{f' ({name} {devices})' if devices else ''}"


class MeshPositions:
    """All positions at which the program of a `shard_map` runs together, so that its collectives work as in the
    program.

    A value at the positions is one array `[n, *shape]`. Axis 0 is sharded and contains the value's parts along the axes
    over which its type varies (all axes if types don't record it). Unreduced summands are such parts too. If this
    `shard_map` is within another, at positions `outer`, the array is `[n of outer, n, *shape]`.
    """

    def __init__(self, params: ShardMapParams, outer: MeshPositions | None = None) -> None:
        self.params = params
        self.levels: tuple[MeshPositions, ...] = (*(outer.levels if outer else ()), self)
        """The positions of each `shard_map` around the program, outermost first."""
        self.own_axes = tuple([a for a in params.mesh.axis_names if a in params.newly_manual_axes])
        self.axes = tuple([axis for level in self.levels for axis in level.own_axes])

    def __len__(self) -> int:
        return len(self.all())

    @property
    def are_typed(self) -> bool:
        """Whether types say over which axes values vary."""
        return any(level.params.check_vma for level in self.levels)

    def without_types(self) -> MeshPositions:
        """The same positions for programs whose types don't say over which axes values vary, as those of kernels."""
        found = None
        for level in self.levels:
            found = MeshPositions(level.params._replace(check_vma=False), found)
        assert found is not None
        return found

    def convert(self, avals: Sequence[Any], values: Sequence[Any], to: MeshPositions) -> list[Any]:
        """Values of these types at these positions as they are at the same positions with types, or without them."""
        n = range(len(self))
        return [
            to.join(aval, [self.part(aval, x, position) for position in n])
            for aval, x in zip(avals, values, strict=True)
        ]

    @property
    def n_axes(self) -> int:
        """Number of leading axes that index positions."""
        return len(self.levels)

    def scope(self) -> contextlib.AbstractContextManager[Any]:
        """The context in which programs that run at the positions are traced."""
        stack = contextlib.ExitStack()
        for level in self.levels:
            stack.enter_context(level.params.scope())
        return stack

    def all(self) -> list[MeshPosition]:
        """The positions, the last axis changing fastest."""
        sizes = [range(level.params.mesh.shape[a]) for level in self.levels for a in level.own_axes]
        return [
            MeshPosition(i, tuple(zip(self.axes, each, strict=True)), self._devices(each))
            for i, each in enumerate(itertools.product(*sizes))
        ]

    def _devices(self, coordinates: Sequence[int]) -> tuple[int, ...]:
        meshes = [level.params.mesh for level in self.levels]
        mesh = next((mesh for mesh in meshes if isinstance(mesh, Mesh)), None)
        if mesh is None:
            return ()
        where = dict(zip(self.axes, coordinates, strict=True))
        index = tuple([where.get(axis, slice(None)) for axis in mesh.axis_names])
        return tuple([device.id for device in np.ravel(mesh.devices[index])])

    # Values ---------------------------------------------------------------------------------------------------

    def part(self, aval: Any, value: Any, position: int | None) -> Any:
        """The part at one position of a value of type `aval`; for None the whole array over positions, if it varies."""
        if position is None and self.varying(aval):
            return value
        plain = of_auto_axes(value)
        part = plain[self._index(aval, position or 0)]
        if plain is value:
            return part
        spec = PartitionSpec(*value.sharding.spec[self.n_axes :])
        return device_put(part, NamedSharding(value.sharding.mesh, spec))

    def replace_part(self, aval: Any, value: Any, part: Any, position: int | None) -> Any:
        """A value with its part at one position replaced; all parts if `position` is None or the type doesn't vary."""
        if position is None or not self.varying(aval):
            return broadcast(part, value.shape[: self.n_axes])
        return of_auto_axes(value).at[self._index(aval, position)].set(np.asarray(part))

    def join(self, aval: Any, parts: Sequence[Any]) -> Any:
        """The value of type `aval` with these parts, one for each position."""
        sizes = [
            int(np.prod([level.params.mesh.shape[a] for a in level._varying(aval)], dtype=np.int64))
            for level in self.levels
        ]
        array = np.empty((*sizes, *aval.shape), aval.dtype)
        for position, part in enumerate(parts):
            array[self._index(aval, position)] = np.asarray(part)
        mesh = self.levels[0].params.mesh
        if not isinstance(mesh, Mesh):
            return array
        spec = [tuple(level._varying(aval)) or None for level in self.levels]
        return device_put(array, NamedSharding(mesh, PartitionSpec(*spec)))

    def _index(self, aval: Any, position: int) -> tuple[int, ...]:
        """The index along the leading axes of the part at a position, for a value of type `aval`."""
        where = dict(self.all()[position].coordinates)
        index: list[int] = []
        for level in self.levels:
            sizes = {axis: level.params.mesh.shape[axis] for axis in level._varying(aval)}
            row = np.ravel_multi_index([where[a] for a in sizes], [*sizes.values()]) if sizes else 0
            index.append(int(row))
        return tuple(index)

    def spread(self, value: Any) -> Any:
        """Broadcast a constant to the positions."""
        return np.asarray(value)[(None,) * self.n_axes]

    def varying(self, aval: Any) -> list[Any]:
        """The axes over which a value of the type varies."""
        return [axis for level in self.levels for axis in level._varying(aval)]

    def _varying(self, aval: Any) -> list[Any]:
        """The varying axes of a type over which this `shard_map` itself is manual."""
        axes = aval.varying | marks_of(aval).unreduced
        return [a for a in self.own_axes if not self.params.check_vma or a in axes]

    def _spec(self, aval: Any) -> PartitionSpec:
        return PartitionSpec(tuple(self._varying(aval)) or None)

    # Programs -------------------------------------------------------------------------------------------------

    def obstacle(self, jaxpr: Jaxpr) -> str:
        """Why arrays can't represent all values of a program, such as tokens or sums over other axes; empty if they
        can.
        """
        for variable in [*jaxpr.invars, *[v for e in jaxpr.equations for v in e.results]]:
            aval: Any = variable.aval
            if not hasattr(aval, "shape"):
                return f"its program has a value that is no array, {aval.text()}"
            others = frozenset[Any]().union(*marks_of(aval)).difference(self.axes)
            if others:
                axes = ", ".join(sorted(map(str, others)))
                return f"its program has addends over {axes}, along which it doesn't run"
        return ""

    def on_all(self, program: ClosedJaxpr) -> ClosedJaxpr:
        """The program that applies `program`, written for one position, at all positions. Neither may have constants."""
        return self._cached_map(program.jaxpr, "at positions", True, True)

    def cut(self) -> ClosedJaxpr:
        """The program from operands of the `shard_map`, as they are around it, to the inputs of its body at the positions."""
        return self._cached_map(self._identity("in_avals"), "cut", False, True)

    def joined_program(self) -> ClosedJaxpr:
        """The program from results of the body at the positions to results of the `shard_map`, as they are around it."""
        return self._cached_map(self._identity("out_avals"), "joined", True, False)

    def _identity(self, avals: str) -> Jaxpr:
        """The identity on values with the types of the `shard_map`'s inputs or results; cached with it."""
        jaxpr = self.params.jaxpr.jaxpr
        key = "identity", avals
        if key not in jaxpr.memo:
            variables: Any = [Var(aval) for aval in getattr(jaxpr, avals)]
            jaxpr.memo[key] = Jaxpr((), variables, (), variables)
        return jaxpr.memo[key]

    def _cached_map(self, jaxpr: Jaxpr, name: str, takes: bool, gives: bool) -> ClosedJaxpr:
        outer = self.levels[:-1]
        key = (name, self.params._replace(jaxpr=None, in_specs=(), out_specs=()))  # type: ignore[arg-type]
        with outer[-1].scope() if outer else contextlib.nullcontext():
            program = cache_on_program(jaxpr, key, lambda: self._map(jaxpr, takes, gives)).program
        return outer[-1].on_all(program) if outer else program

    def _map(self, jaxpr: Jaxpr, takes: bool, gives: bool) -> Derived:
        """`jaxpr` in a `shard_map`; `takes` and `gives`: whether operands and results are values at the positions."""
        params, mesh = self.params, self.params.mesh
        in_avals: list[Any] = [*jaxpr.in_avals]
        out_avals: list[Any] = [*jaxpr.out_avals]
        in_specs = [*map(self._spec, in_avals)] if takes else params.in_specs
        out_specs = [*map(self._spec, out_avals)] if gives else params.out_specs
        avals = [_stored_type(a) if takes else a for a in in_avals]

        def run_at_position(*parts: Any) -> Values:
            if takes:
                parts = tuple(
                    [_recast(reshape(x, a.shape), a) for x, a in zip(parts, in_avals, strict=True)]
                )
            results = replay(jaxpr, (), *parts)
            if not gives:
                return results
            return [
                reshape(_plain(y, a), (1, *a.shape))
                for y, a in zip(results, out_avals, strict=True)
            ]

        with params.scope():
            program, consts = stage_open(run_at_position, avals, jaxpr.debug)
        assert not consts
        called = params.on(program, in_specs, out_specs)
        whole = [
            whole_type(aval, mesh, spec, params.newly_manual_axes)
            for aval, spec in zip(avals, in_specs, strict=True)
        ]
        run: Callable[..., Values] = lambda *operands: bind(shard_map_p, *operands, params=called)
        return Derived(*stage_open(run, whole, jaxpr.debug), ())


def of_auto_axes(value: Any) -> Any:
    """A value as seen with all mesh axes automatic, so that any index is allowed; no data moves."""
    sharding = getattr(value, "sharding", None)
    if not isinstance(sharding, NamedSharding) or AxisType.Explicit not in sharding.mesh.axis_types:
        return value
    mesh = Mesh(sharding.mesh.devices, sharding.mesh.axis_names)
    return device_put(value, NamedSharding(mesh, sharding.spec))


def _stored_type(aval: Any) -> Any:
    """The type `[1, *shape]` that stores one position's part of a value of type `aval`; unreduced summands are stored
    as parts.
    """
    marks, shown = marks_of(aval), aval.shown_sharding
    if shown is not None:
        spec = PartitionSpec(None, *shown.spec.padded(aval.ndim).partitions)
        shown = shown_sharding(shown.mesh, spec)
    varying = aval.varying | marks.unreduced
    return aval.update(shape=(1, *aval.shape), varying=varying, shown_sharding=shown)


def _recast(x: Any, aval: Any) -> Any:
    """Convert a value from its stored type to the type `aval`."""
    unreduced, reduced = marks_of(aval)
    return recast(reduced_p, recast(vary_unreduced_cast_p, x, unreduced), reduced)


def _plain(x: Any, aval: Any) -> Any:
    """Convert a value of type `aval` to its stored type."""
    unreduced, reduced = marks_of(aval)
    return recast(reduced_same_cast_p, recast(unreduced_vary_cast_p, x, unreduced), reduced)

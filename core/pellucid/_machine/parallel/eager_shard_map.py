"""Values at all positions of an eagerly run `shard_map`, on demand while the function is traced.

A body is traced as usual, and compiled as one program. When Python prints one of its arrays, or branches on it, the
program traced so far is compiled and run over the mesh, so that the actual values on the devices are shown.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from pellucid._machine.base import PellucidError, strict_zip
from pellucid._machine.ir import Jaxpr, Literal, Operands, ShapedArray, Var, no_effects
from pellucid._machine.primitives import marks_of, reshape
from pellucid._machine.sharding import mesh_context
from pellucid._machine.sharding.mesh import AnyMesh
from pellucid._machine.sharding.partition_spec import AxisSet
from pellucid._machine.tracing import (
    StagingTrace,
    StagingTracer,
    bind,
    bottom,
    replay,
    unbound_axes,
    use_trace,
)
from pellucid._machine.transforms import stage_open

from .manual import REPLICATED, ShardMapParams, Specs, leading_spec, shard_map_p

_MAX_SHOWN_POSITIONS = 16


class Part(NamedTuple):
    """The value at one position, on a device of this process."""

    coordinates: tuple[int, ...]
    device: Any
    value: np.ndarray


class Looking:
    """Computes values of a body's trace on demand.

    `arrays` are the body's arguments, sharded by `specs`; `outer` is the abstract mesh around the call.
    """

    def __init__(
        self, mesh: AnyMesh, manual: AxisSet, check_vma: bool, arrays: Operands, specs: Specs, outer: Any
    ) -> None:  # fmt: skip
        self._mesh, self._manual, self._check_vma = mesh, manual, check_vma
        self._arrays, self._specs, self._outer = arrays, specs, outer
        self._axes = tuple([name for name in mesh.axis_names if name in manual])
        self._parts: dict[Var, list[Part] | None] = {}

    def text(self, x: StagingTracer) -> str | None:
        """The value at each position, with its coordinates; None if it can't be computed yet."""
        parts = self.parts(x)
        if parts is None:
            return None
        lines = []
        for part in parts[:_MAX_SHOWN_POSITIONS]:
            place = ", ".join(f"{a}={n}" for a, n in strict_zip(self._axes, part.coordinates))
            lines.append(f"at {place} on {part.device.platform}:{part.device.id}:\n{part.value}")
        if len(parts) > _MAX_SHOWN_POSITIONS:
            lines.append(f"and at {len(parts) - _MAX_SHOWN_POSITIONS} more positions")
        return "\n".join(lines)

    def known_value(self, x: StagingTracer) -> tuple[bool, np.ndarray | None]:
        """(whether the value can be computed, the value if all positions have the same one).

        If types record whether values vary, a varying one doesn't count as the same, even if it happens to be.
        """
        parts = self.parts(x)
        if parts is None:
            return False, None
        first = parts[0].value
        n_positions = math.prod([self._mesh.shape[axis] for axis in self._axes])
        if self._check_vma:
            may_differ = not self._manual.isdisjoint(x.aval.varying)
        else:  # the values of other processes aren't visible here
            may_differ = len(parts) < n_positions
        if may_differ and n_positions > 1:
            return True, None
        is_same = all(part.value.tobytes() == first.tobytes() for part in parts)
        return True, first if is_same else None

    def parts(self, x: StagingTracer) -> list[Part] | None:
        """The values at this process's positions, in order; None for values that depend on effects."""
        if x.variable not in self._parts:
            try:
                self._parts[x.variable] = self._compute(x)
            except PellucidError:  # the program can't run now, for example under `no_execution`
                self._parts[x.variable] = None
        return self._parts[x.variable]

    def _compute(self, x: StagingTracer) -> list[Part] | None:
        aval = x.aval
        if (
            type(aval) is not ShapedArray
            or not isinstance(aval.dtype, np.dtype)
            or any(marks_of(aval))
        ):
            return None
        program = _program_of(x)
        if program is None:
            return None
        jaxpr, consts = program

        def run(*operands: Any) -> list[Any]:
            values = replay(jaxpr, operands[: len(consts)], *operands[len(consts) :])
            return [reshape(y, (1, *y.shape)) for y in values]

        avals: list[Any] = [v.aval for v in (*jaxpr.constvars, *jaxpr.invars)]
        # Operands: constants of the new body and of the program, which are whole, then the arrays of the call, divided by its specs.
        body, more = stage_open(run, avals, None)
        specs = [*[REPLICATED] * (len(more) + len(consts)), *self._specs]
        out_specs = (leading_spec(self._mesh, self._manual),)
        params = ShardMapParams(
            self._check_vma, tuple(specs), body, self._manual, self._mesh, out_specs
        )
        with self._outside(), use_trace(bottom()):
            [whole] = bind(shard_map_p, *more, *consts, *self._arrays, params=params)
        sizes = [self._mesh.shape[axis] for axis in self._axes]
        # By position along the manual axes, the first device there: others hold copies.
        shards = {shard.index[0].start or 0: shard for shard in whole.addressable_shards[::-1]}
        return [
            Part(
                tuple([int(n) for n in np.unravel_index(position, sizes)]),
                shard.device,
                np.asarray(shard.data)[0],
            )
            for position, shard in sorted(shards.items())
        ]

    @contextlib.contextmanager
    def _outside(self) -> Iterator[None]:
        """The context of the call of `shard_map`, in which a body's program is run."""
        inner = mesh_context.abstract.swap_local(self._outer)
        try:
            with unbound_axes():
                yield
        finally:
            mesh_context.abstract.set_local(inner)


def _program_of(x: StagingTracer) -> tuple[Jaxpr, Sequence[Any]] | None:
    """(the part of a trace that computes `x`, its constants); None if it has effects, which would happen twice."""
    trace: StagingTrace = x._trace
    needed: set[Any] = {x.variable}
    equations = []
    for equation in reversed(trace.equations):
        if not needed.isdisjoint(equation.results):
            if equation.effects:
                return None
            equations.append(equation)
            needed.update([a for a in equation.operands if not isinstance(a, Literal)])
    known = [(v, value) for v, value in trace.constants.values() if type(v) is Var]
    constants = [(v, value) for v, value in known if v in needed]
    jaxpr = Jaxpr(
        [v for v, _ in constants], trace.invars, equations[::-1], [x.variable], no_effects
    )
    return jaxpr, [value for _, value in constants]

"""How a program calls the simulator: one host function, of the operands of this device or, for a kernel that reaches others, of all.

Devices that reach each other are gathered by collectives of the program itself, so XLA lets them meet: each gets all operands, the first
runs the machine with all devices in it, and sends each its results.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Generator, Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from pellucid._machine.base import Function, UnsupportedError
from pellucid._machine.base.source import capture
from pellucid._machine.callbacks.pure import HostCall
from pellucid._machine.higher_order.calls import JitParams, jit_p
from pellucid._machine.higher_order.custom_vmap import each_element
from pellucid._machine.ir import (
    ClosedJaxpr,
    DebugInfo,
    Jaxpr,
    Linearized,
    Operands,
    Values,
    debug_effect,
    programs_of,
)
from pellucid._machine.lowering.custom_calls import HostFunction, host_call
from pellucid._machine.parallel.axes import axis_index
from pellucid._machine.parallel.exchange import all_to_all
from pellucid._machine.parallel.gathering import all_gather
from pellucid._machine.primitives import zero_of
from pellucid._machine.runtime.failures import mark_error
from pellucid._machine.runtime.transfer import from_host
from pellucid._machine.sharding import get_abstract_mesh
from pellucid._machine.tracing import bind, types_of
from pellucid._machine.transforms import stage_open
from pellucid.kernels.copies import dma_start_p
from pellucid.kernels.programs import GridKernel
from pellucid.kernels.semaphores import get_barrier_semaphore_p, semaphore_signal_p
from pellucid.numpy import asarray

from .blocks import BlockSweep
from .journal import Journal
from .machine import Core, Machine
from .params import InterpretParams
from .plans import plan_of
from .sweep import Sweep

_EFFECTS = frozenset({debug_effect})


class Simulation(NamedTuple):
    """A kernel to be simulated, on devices along mesh axes of these names and sizes; `is_joint` if all take part in one machine."""

    kernel: GridKernel
    params: InterpretParams
    axes: tuple[Any, ...]
    sizes: tuple[int, ...]
    is_joint: bool
    core_axes: tuple[Any, ...] = ()
    """Names of the axes of the grid along which its programs are cores."""
    source: Any = None
    """The traceback of the call."""

    @property
    def n_devices(self) -> int:
        """The number of devices in one machine."""
        return math.prod(self.sizes) if self.is_joint else 1

    def positions(self, device: int) -> dict[Any, int]:
        """The position of a device along each axis of the mesh."""
        if not self.axes:
            return {}
        found = np.unravel_index(device, self.sizes)
        return dict(zip(self.axes, map(int, found), strict=True))

    def run(self, device: int, operands: Sequence[np.ndarray]) -> list[np.ndarray]:
        """The results for the operands of this device, or of all, along a leading axis."""
        steps = self.steps(device, operands)
        while True:
            try:
                next(steps)
            except StopIteration as end:
                return end.value

    def steps(
        self, device: int, operands: Sequence[np.ndarray], journal: Journal | None = None
    ) -> Generator[Core, None, list[np.ndarray]]:
        """The same as a run that gives each core before its next equation, if there is a `journal` of effects."""
        n, kernel = self.n_devices, self.kernel
        machine = Machine(self.params, n, kernel.name, records=bool(_records), journal=journal)
        machine.call, machine.first_device = self, 0 if self.is_joint else device
        for record in _records:
            record.append(machine)
        if kernel.within_block is not None:
            sweep = BlockSweep(machine, kernel, 0, operands, self.positions(device))
            yield from sweep.run()
            return sweep.results()
        rows = [[x[d] for x in operands] for d in range(n)] if self.is_joint else [operands]
        devices = range(n) if self.is_joint else [device]
        sweeps = []
        for own, row in zip(range(n), rows, strict=True):
            positions = self.positions(devices[own])
            sweeps.append(Sweep(machine, kernel, own, row, positions, self.core_axes))
            sweeps[-1].start()
        yield from machine.run()
        results = [sweep.results() for sweep in sweeps]
        if not self.is_joint:
            return results[0]
        return [np.stack(column) for column in zip(*results, strict=True)]


# Recording ------------------------------------------------------------------------------------------------------

_records: list[list[Machine]] = []


@contextlib.contextmanager
def recorded() -> Iterator[list[Machine]]:
    """A context that gives a list of the machines that run in it; `machine.trace` has what happened."""
    machines: list[Machine] = []
    _records.append(machines)
    try:
        yield machines
    finally:
        _records.remove(machines)


# The primitive --------------------------------------------------------------------------------------------------


class SimulateParams(NamedTuple):
    """`definition` computes the same as a program on values, of `consts` and the operands, for derivatives; None for what reaches
    other devices.
    """

    simulation: Simulation
    definition: ClosedJaxpr | None
    result_avals: tuple[Any, ...]
    consts: Sequence[Any] = ()


@dataclass(frozen=True, eq=False)
class _Simulated(HostFunction):
    """The host function of a compiled program: of the number of the device, and operands."""

    params: SimulateParams
    goes_on: bool
    failures: list[BaseException] | None = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "failures", [] if self.goes_on else None)

    @property
    def identity(self) -> Hashable:
        """The kernel, which is a distinct object for each call."""
        return "simulate", id(self.params.simulation.kernel), self.goes_on

    def __call__(self, device: Any, *operands: Any) -> tuple[Any, ...]:
        avals = self.params.result_avals
        simulation = self.params.simulation
        number = int(np.asarray(device))
        if not (simulation.is_joint and number):
            try:
                found = simulation.run(number, [*map(np.asarray, operands)])
                return tuple(
                    [
                        np.ascontiguousarray(x).reshape(a.shape)
                        for x, a in zip(found, avals, strict=True)
                    ]
                )
            except (
                Exception,
                KeyboardInterrupt,
                SystemExit,
            ) as error:  # of the user's kernel, or of a recorder
                if self.failures is None:
                    mark = mark_error(error)
                    raise RuntimeError(mark) from None
                self.failures.append(error)
        return tuple([np.zeros(a.shape, a.dtype) for a in avals])


class Simulate(Linearized, HostCall[SimulateParams]):
    """A run of a kernel in the simulator. Operands are the device's number, and those of the kernel."""

    name = "simulate_kernel"
    traits = HostCall.traits.replace(returns_list=True)

    def effects(self, avals, params):
        return _EFFECTS

    def abstract_eval(self, avals, params):
        return params.result_avals

    def run(self, operands, params):
        found = params.simulation.run(int(operands[0]), [*map(np.asarray, operands[1:])])
        return [from_host(x) for x in found]

    def lower(self, ctx, operands, params):
        function = _Simulated(params, goes_on=ctx.sharding_attributes is not None)
        return host_call(ctx, function, operands, has_side_effect=True)

    def batch(self, axis, operands, dims, params):
        results = each_element(self, axis, operands, dims, params, unrolled=False)
        return results, [0] * len(results)

    def jvp(self, primals, tangents, params):
        operands = _with_consts(params, primals, tangents)
        _, derived = jit_p.jvp(operands[0], operands[1], self._definition(params))
        return bind(self, *primals, params=params), derived

    def linearize(self, trace, primals, tangents, params):
        operands = _with_consts(params, primals, tangents)
        call = self._definition(params)
        _, derived = jit_p.linearize(trace, operands[0], operands[1], call)
        return bind(self, *primals, params=params), derived

    def _definition(self, params: SimulateParams) -> JitParams:
        """A call that computes the same on values."""
        name = params.simulation.kernel.name
        if params.definition is None:
            raise UnsupportedError(
                f"the kernel `{name}` reaches other devices or cores, and has no derivative.",
                do="Give the function around it one: `custom_vjp`.",
            )
        return JitParams(name, params.definition)


simulate_p = Simulate()


def _with_consts(params: SimulateParams, primals: Operands, tangents: Operands) -> Any:
    """The operands of the definition and their tangents, without the number of the device."""
    zeros = [zero_of(x) for x in params.consts]
    return (*params.consts, *primals[1:]), (*zeros, *tangents[1:])


def reaches_others(jaxpr: Jaxpr) -> bool:
    """Whether a kernel copies or signals to other devices."""
    for equation in jaxpr.equations:
        primitive, params = equation.primitive, equation.params
        if primitive is get_barrier_semaphore_p:
            return True
        if primitive in (dma_start_p, semaphore_signal_p) and params.has_device:
            return True
        if any(reaches_others(getattr(p, "jaxpr", p)) for p in programs_of(equation)):
            return True
    return False


def simulated(
    kernel: GridKernel,
    params: InterpretParams,
    plain: Function | None,
    operands: Operands,
    core_axes: tuple[Any, ...] = (),
) -> Values:
    """The results of a kernel on these operands, by the simulator: traced sizes of its grid, scalars, inputs.

    `plain` is what it computes as a function of values, for derivatives. Along the `core_axes` of its grid programs are cores.
    """
    mesh = get_abstract_mesh()
    axes = tuple(mesh.axis_names) if mesh.manual_axes else ()
    is_joint = reaches_others(kernel.body.jaxpr)
    if is_joint and set(mesh.manual_axes) != set(mesh.axis_names):
        raise UnsupportedError(
            f"the kernel `{kernel.name}` reaches other devices, so all axes of the mesh must be manual.",
            got=f"manual axes {tuple(mesh.manual_axes)} of {tuple(mesh.axis_names)}",
            do="Let shard_map cut along all of them.",
        )
    axes = tuple([a for a in axes if a in mesh.manual_axes])
    sizes = tuple([mesh.shape[a] for a in axes])
    simulation = Simulation(kernel, params, axes, sizes, is_joint, core_axes, capture())
    plan_of(kernel.body.jaxpr)  # compiled here, where the user's options hold
    number: Any = axis_index(axes) if axes else np.int32(0)
    avals = [m.aval for m in kernel.results]
    if not is_joint:
        definition, consts = None, ()
        if plain is not None:
            debug = DebugInfo("pallas_call", kernel.name)
            definition, consts = stage_open(plain, types_of(operands), debug)
        return bind(
            simulate_p,
            number,
            *operands,
            params=SimulateParams(simulation, definition, tuple(avals), consts),
        )
    stacked = [x[None] if not axes else all_gather(x, axes) for x in map(asarray, operands)]
    n = simulation.n_devices
    avals = [a.update(shape=(n, *a.shape)) for a in avals]
    found = bind(
        simulate_p, number, *stacked, params=SimulateParams(simulation, None, tuple(avals))
    )
    if not axes:
        return [x[0] for x in found]
    # The first device has the results of all; each takes its own from what that one sends.
    return [all_to_all(x, axes, 0, 0, tiled=True)[0] for x in found]

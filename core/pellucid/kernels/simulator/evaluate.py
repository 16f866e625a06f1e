"""How a core runs a program over references: step by step, as a generator that stops where the core waits or others may take turns."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from typing import Any, TypeAlias

import numpy as np

from pellucid._machine.base import UnsupportedError
from pellucid._machine.base.source import describe
from pellucid._machine.checks.errors import CheckError
from pellucid._machine.higher_order.cond import cond_p
from pellucid._machine.higher_order.loop_primitives import scan_p, while_p
from pellucid._machine.ir import (
    Equation,
    HigherOrderPrimitive,
    Jaxpr,
    OnReferences,
    Values,
    called_program,
)
from pellucid._machine.parallel.axes import axis_index_p
from pellucid._machine.refs.index import RefIndex
from pellucid._machine.refs.primitives import (
    addupdate_p,
    empty_ref_p,
    free_ref_p,
    freeze_p,
    get_p,
    new_ref_p,
    swap_p,
)
from pellucid._machine.tracing import ReferenceCell, bind
from pellucid.kernels import copies, semaphores
from pellucid.kernels.atomics import AtomicUpdate
from pellucid.kernels.buffering import emit_pipeline_p
from pellucid.kernels.gpu.memory import Barrier
from pellucid.kernels.specs import SemaphoreType, SharedScratch

from . import memory
from .clocks import note_access
from .copying import Window
from .machine import BARRIER, STAND, Core, Stand, Wait, Waiting, unused
from .memory import Buffer
from .phases import Barriers
from .plans import Chunk, Plan, as_numpy, assign, plan_of, values_of
from .semaphore import Semaphore, Semaphores

Run: TypeAlias = Generator[Waiting | Stand | None, None, Values]


def run(jaxpr: Jaxpr, inputs: Sequence[Any], core: Core, ids: Any = None) -> Run:
    """The results of a program on a core; references among its inputs are buffers and semaphores.

    `ids` is the position in the grid, if it is the body of the kernel.
    """
    plan = plan_of(jaxpr)
    values: dict[Any, Any] = dict(zip(jaxpr.invars, inputs, strict=True))
    if core.machine.journal is None:
        for step in plan.steps:
            if not _runs_at_once(core, plan, step, values):
                yield from _run_in_steps(core, step, values)  # pyright: ignore[reportArgumentType]  # chunks run at once
        return values_of(jaxpr.outvars, values)
    level = core.begins(jaxpr, values, ids)
    for step in plan.steps:
        # A core stands before each equation of a chunk, too, which runs as a whole when it leaves the last one.
        for equation in step.equations if isinstance(step, Chunk) else [step]:
            core.source = equation.source
            level.position = plan.positions[equation]
            yield STAND
        core.n_calls += 1
        core.call = core.n_calls
        if not _runs_at_once(core, plan, step, values):
            yield from _run_in_steps(core, step, values)  # pyright: ignore[reportArgumentType]  # chunks run at once
    level.position = len(jaxpr.equations)
    yield STAND
    # What fails leaves it where it is, to be looked at.
    core.ends()
    return values_of(jaxpr.outvars, values)


def _runs_at_once(core: Core, plan: Plan, step: Chunk | Equation, values: dict[Any, Any]) -> bool:
    """Run a step of a plan in which no other core takes a turn, and add its results to `values`; False for another one."""
    if isinstance(step, Chunk):
        core.source = step.equation.source
        assign(values, step.results, step.run(*values_of(step.operands, values)))
        core.computes(step.cost)
        return True
    rule = AT_ONCE.get(step.primitive)
    if rule is None:
        return False
    core.source = step.source
    assign(values, step.results, rule(core, step, values_of(step.operands, values), plan))
    return True


def _run_in_steps(
    core: Core, step: Equation, values: dict[Any, Any]
) -> Generator[Waiting | Stand | None, None, None]:
    """Run a step of a plan in which other cores may take turns, and add its results to `values`."""
    operands = values_of(step.operands, values)
    primitive = step.primitive
    core.source = step.source
    if (control := IN_STEPS.get(primitive)) is not None:
        found = yield from control(core, step, operands)
    else:
        body = called_program(primitive, step.params)
        if body is None and isinstance(primitive, HigherOrderPrimitive):
            raise UnsupportedError(
                f"the simulator can't run `{primitive.name}` on references.",
                where=describe(step.source),
            )
        if body is not None:
            found = yield from run(body, operands, core)
        elif isinstance(primitive, OnReferences):
            found = _on_cells(core, step, operands)
        else:
            # What has other effects, as printing, happens at once.
            found = core.machine.once(lambda: bind(primitive, *operands, params=step.params))
    assign(values, step.results, found)


# References -----------------------------------------------------------------------------------------------------


def _place(
    core: Core, what: str, buffer: Any, index: RefIndex, operands: Sequence[Any]
) -> memory.Place:
    """The place of an index in a buffer. Raises: CheckError for one outside, unless such reads are allowed."""
    if type(buffer) is Semaphores:
        raise CheckError(
            f"{core.text()} {what}s a semaphore as an array.",
            got=f"`{buffer.name}`",
            where=describe(core.source),
        )
    place = memory.place_of(index, operands)
    if place.outside is not None and (
        what != "read" or core.machine.params.out_of_bounds_reads == "raise"
    ):
        raise memory.outside_error(
            f"{core.text()}: a {what}", buffer, place.outside, describe(core.source)
        )
    return place


def note(core: Core, buffer: Buffer, region: memory.Region, *, is_write: bool) -> None:
    """Take note of an access of a core. Raises: CheckError for a race."""
    core.notes(buffer, region, is_write=is_write)
    if core.machine.finds_races:
        note_access(buffer, region, core, is_write=is_write)
    if core.machine.records:
        core.note("write" if is_write else "read", core.time, buffer.name, buffer.array.nbytes)


def _nothing(core: Core, buffer: Buffer) -> Any:
    zero = core.machine.params.uninitialized_memory == "zero"
    dtype = buffer.array.dtype
    return np.zeros((), dtype) if zero else memory.undefined_element(dtype)


def _get(core: Core, equation: Equation, operands: Values, plan: Plan) -> Values:
    buffer, *rest = operands
    place = _place(core, "read", buffer, equation.params.index, rest)
    note(core, buffer, place.region, is_write=False)
    return [memory.read(buffer.array, place, _nothing(core, buffer))]


def _swap(core: Core, equation: Equation, operands: Values, plan: Plan) -> Values:
    buffer, new, *rest = operands
    place = _place(core, "write", buffer, equation.params.index, rest)
    old: Any = None
    if equation.results[0] in plan.used:
        note(core, buffer, place.region, is_write=False)
        old = memory.read(buffer.array, place, _nothing(core, buffer))
    note(core, buffer, place.region, is_write=True)
    memory.write(buffer.array, place, as_numpy(new))
    return [old]


def _add(core: Core, equation: Equation, operands: Values, plan: Plan) -> Values:
    buffer, new, *rest = operands
    place = _place(core, "write", buffer, equation.params.index, rest)
    note(core, buffer, place.region, is_write=True)
    memory.write(buffer.array, place, as_numpy(new), add=True)
    return []


def _on_cells(core: Core, equation: Equation, operands: Values) -> Values:
    """The results of an operation on whole references, such as an atomic one, by what it does with their values."""
    cells = [ReferenceCell(np.array(x.array)) if type(x) is Buffer else x for x in operands]
    before = [x.value if type(x) is ReferenceCell else None for x in cells]
    primitive: Any = equation.primitive
    results = primitive.discharge(tuple(cells), equation.params)
    for buffer, cell, value in zip(operands, cells, before, strict=True):
        if type(cell) is ReferenceCell:
            is_written = cell.value is not value
            # Atomic operations of several cores are in some order, whatever it is.
            plain = is_written and not isinstance(primitive, AtomicUpdate)
            note(core, buffer, memory.whole_of(buffer.shape), is_write=plain)
            if is_written:
                buffer.array[...] = as_numpy(cell.value)
    return results


def _key(core: Core, equation: Equation) -> Any:
    """The key of what an equation makes for the n-th time on a core."""
    n = core.visits.get(equation.id, 0)
    core.visits[equation.id] = n + 1
    # Of arrays two are kept, as they may be large; of semaphores all, which other devices may signal later.
    place = core.device, core.core, (equation.id, n - 2)
    if isinstance(core.machine.shared.get(place), Buffer):
        del core.machine.shared[place]
    return equation.id, n


def _new_ref(core: Core, equation: Equation, operands: Values, plan: Plan) -> Values:
    of: Any = equation.results[0].aval
    space, aval = equation.params.memory_space, of.inner_aval
    line = describe(equation.source)
    kind = _SEMAPHORE_NAMES.get(space) or str(space or "reference")
    name = f"{kind} of {line}" if line else kind
    found = made(core, name, space, aval, _key(core, equation), operands[0] if operands else None)
    if type(found) is Buffer:
        found.is_named = False
    return [found]


_SEMAPHORE_NAMES = {
    SemaphoreType.REGULAR: "semaphore",
    SemaphoreType.DMA: "DMA semaphore",
    SemaphoreType.BARRIER: "barrier semaphore",
}


def made(
    core: Core, name: str, space: Any, aval: Any, key: Any, value: Any = None
) -> Buffer | Semaphores | Barriers:
    """A new buffer of a core, or new semaphores or barriers; what it holds is undefined without `value`."""
    if isinstance(space, SharedScratch):
        if key not in core.shared:
            core.shared[key] = made(core, name, space.space, aval, key, value)
        return core.shared[key]
    if isinstance(space, Barrier):
        return Barriers(name, space, core.name)
    if isinstance(space, SemaphoreType):
        is_of_copies = space is SemaphoreType.DMA
        return core.machine.semaphores(name, aval.shape, core, key, is_of_copies=is_of_copies)
    begins_at_zero = getattr(space, "begins_at_zero", False)
    array = (
        np.zeros(aval.shape, aval.dtype) if begins_at_zero else unused(aval, core.machine.params)
    )
    if value is not None and not _is_none(space, value):
        array = np.array(value)
    return core.machine.buffer(name, str(space or "memory"), array, core, key)


def _is_none(space: Any, value: Any) -> bool:
    """Whether the value that scratch begins with stands for none."""
    array = np.asarray(value)
    nothing = memory.undefined_element(array.dtype)
    same = (
        np.isnan(array)
        if array.dtype.kind not in "biu" and array.dtype.kind != "V"
        else array == nothing
    )
    return space is not None and bool(np.all(same))


def _freeze(core: Core, equation: Equation, operands: Values, plan: Plan) -> Values:
    return [np.array(operands[0].array)] if equation.results else []


# Positions ------------------------------------------------------------------------------------------------------


def _axis_index(core: Core, equation: Equation, operands: Values, plan: Plan) -> Values:
    return [np.int32(core.positions[equation.params.axis_name])]


# Semaphores -----------------------------------------------------------------------------------------------------


def _semaphore(core: Core, view: Any) -> tuple[Semaphores, tuple[int, ...]]:
    """The semaphores that a reference or a view is of, and the position of the one."""
    steps: Any = getattr(view, "steps", ())
    sems = view.ref if steps else view
    if isinstance(sems, Buffer):
        sems = _counted(core, sems)
    positions = np.arange(int(np.prod(sems.shape, dtype=np.int64))).reshape(sems.shape)
    for k, (step, operands) in enumerate(steps):
        if k == 0 and type(step) is RefIndex:
            place = memory.place_of(step, operands)
            if place.outside is not None:
                raise CheckError(
                    f"{core.text()} names a semaphore that there isn't.",
                    got=f"position {place.outside.text} of {sems.shape} in `{sems.name}`",
                    where=describe(core.source),
                )
        positions = memory.stepped(positions, step, operands)
    if positions.size != 1:
        raise CheckError(
            f"{core.text()} uses several semaphores as one.",
            got=f"{positions.size} of `{sems.name}`",
            where=describe(core.source),
        )
    position = np.unravel_index(int(positions.ravel()[0]), sems.shape) if sems.shape else ()
    return sems, tuple([int(i) for i in position])


def _counted(core: Core, buffer: Buffer) -> Semaphores:
    """The semaphores that a buffer of numbers from outside is, which begin as it holds."""
    shared, key = buffer.key
    if buffer.counts is None:
        buffer.counts = Semaphores(
            buffer.name, buffer.shape, buffer.device, buffer.owner, is_of_copies=False
        )
        buffer.counts.key = shared, (key, "semaphores")
        core.machine.shared[buffer.device, shared, (key, "semaphores")] = buffer.counts
        for position, n in np.ndenumerate(buffer.array):
            buffer.counts.at(position).count = int(n)
    return buffer.counts


def _signal(core: Core, equation: Equation, operands: Values, plan: Plan) -> Values:
    params = equation.params
    [view], others = semaphores.views_of(params, operands)
    sems, position = _semaphore(core, view)
    rest = [memory.scalar(x) for x in others]
    amount = rest.pop(0)
    device = rest.pop(0) if params.has_device else core.device
    if device != core.device or rest:
        sems = core.machine.elsewhere(core, sems, device, rest[0] if rest else None)
    core.note("signal", core.time, sems.name)
    sems.at(position).signal(amount, core.number, core.released(), core.time)
    return []


def _read_semaphore(core: Core, equation: Equation, operands: Values, plan: Plan) -> Values:
    [view], _ = semaphores.views_of(equation.params, operands)
    sems, position = _semaphore(core, view)
    return [np.int32(sems.at(position).count)]


def _barrier(core: Core, equation: Equation, operands: Values, plan: Plan) -> Values:
    return [core.machine.semaphores("barrier semaphore", (), core, BARRIER, is_of_copies=False)]


def _wait(core: Core, equation: Equation, operands: Values) -> Run:
    [view], others = semaphores.views_of(equation.params, operands)
    sems, position = _semaphore(core, view)
    value = memory.scalar(others[0])
    yield Wait(sems.at(position), value, equation.params.decrement, "semaphore_wait")
    return []


# Copies ---------------------------------------------------------------------------------------------------------


def window(
    core: Core, what: str, view: Any, *, outside: bool = False, nothing: Any = None
) -> tuple[Buffer, Window]:
    """(the buffer that a reference or a view is of, its window), which may lie `outside` if that is so stated: there is `nothing`."""
    steps: Any = getattr(view, "steps", ())
    buffer = view.ref if steps else view
    shape = buffer.array.shape if type(buffer) is Buffer else buffer.shape
    if steps and type(steps[0][0]) is RefIndex:
        (index, operands), *rest = steps
        place = (
            memory.place_of(index, operands)
            if outside
            else _place(core, what, buffer, index, operands)
        )
    else:
        place = memory.Place(tuple([slice(None)] * len(shape)), None, memory.whole_of(shape), None)
        rest = steps
    # Operands as they are now: the copy reads them later.
    steps = tuple([(s, tuple(map(as_numpy, o))) for s, o in rest])
    return buffer, Window(place, steps, nothing)


def _start(core: Core, equation: Equation, operands: Values) -> Run:
    params, machine = equation.params, core.machine
    [src, dst, send, recv], others = semaphores.views_of(params, operands)
    source, target = window(core, "read", src), window(core, "write", dst)
    device = memory.scalar(others[0]) if params.has_device else core.device
    sems: list[Semaphore | None] = []
    for view, is_there in ((send, False), (recv, True)):
        if view is None:
            sems.append(None)
            continue
        found, position = _semaphore(core, view)
        if is_there and device != core.device:
            found = machine.elsewhere(core, found, device)
        sems.append(found.at(position))
    if device != core.device:
        target = machine.elsewhere(core, target[0], device), target[1]
    machine.start(
        core, source, target, (sems[0], sems[1]), is_remote=params.has_device, add=params.add
    )
    yield None
    return []


def _wait_for_copy(core: Core, equation: Equation, operands: Values) -> Run:
    [sem, view], _ = semaphores.views_of(equation.params, operands)
    sems, position = _semaphore(core, sem)
    shape = view.shape if hasattr(view, "steps") else view.array.shape
    dtype = np.dtype(view.dtype if hasattr(view, "steps") else view.array.dtype)
    n_bytes = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
    yield Wait(sems.at(position), n_bytes, True, "dma_wait")
    return []


# Control --------------------------------------------------------------------------------------------------------


def _cond(core: Core, equation: Equation, operands: Values) -> Run:
    branches = equation.params.branches
    k = max(0, min(memory.scalar(operands[0]), len(branches) - 1))
    return (yield from run(branches[k].jaxpr, operands[1:], core))


def _scan(core: Core, equation: Equation, operands: Values) -> Run:
    params = equation.params
    consts, carry, xs = params.split(operands)
    xs = [as_numpy(x) for x in xs]
    n_stacked = len(equation.results) - params.num_carry
    rows: list[Values] = []
    order = range(params.length)
    for i in reversed(order) if params.reverse else order:
        found = yield from run(params.jaxpr.jaxpr, [*consts, *carry, *[x[i] for x in xs]], core)
        carry = found[: params.num_carry]
        rows.append(found[params.num_carry :])
    if params.reverse:
        rows.reverse()
    avals: list[Any] = [r.aval for r in equation.results[params.num_carry :]]
    columns = [
        np.stack([as_numpy(row[k]) for row in rows])
        if rows
        else np.zeros(avals[k].shape, avals[k].dtype)
        for k in range(n_stacked)
    ]
    return [*carry, *columns]


def _while(core: Core, equation: Equation, operands: Values) -> Run:
    params = equation.params
    cond_consts, body_consts, carry = params.split(operands)
    while True:
        [goes_on] = yield from run(params.cond_jaxpr.jaxpr, [*cond_consts, *carry], core)
        if not bool(np.asarray(goes_on)):
            return list(carry)
        carry = yield from run(params.body_jaxpr.jaxpr, [*body_consts, *carry], core)


def _pipeline(core: Core, equation: Equation, operands: Values) -> Run:
    """A grid within a kernel, with the buffers that it has on TPUs; where it can't have them, block by block."""
    program, own, _ = equation.params.with_buffers(operands)
    if program is None:
        program, own = equation.params.jaxpr, operands
    yield from run(program.jaxpr, own, core)
    return []


# How a primitive is run: at once, or in steps between which others take turns.
AT_ONCE: dict[Any, Callable[[Core, Equation, Values, Plan], Values]] = {
    get_p: _get,
    swap_p: _swap,
    addupdate_p: _add,
    new_ref_p: _new_ref,
    empty_ref_p: _new_ref,
    freeze_p: _freeze,
    free_ref_p: _freeze,
    axis_index_p: _axis_index,
    semaphores.semaphore_signal_p: _signal,
    semaphores.semaphore_read_p: _read_semaphore,
    semaphores.get_barrier_semaphore_p: _barrier,
}
IN_STEPS: dict[Any, Callable[[Core, Equation, Values], Run]] = {
    semaphores.semaphore_wait_p: _wait,
    copies.dma_start_p: _start,
    copies.dma_wait_p: _wait_for_copy,
    cond_p: _cond,
    scan_p: _scan,
    while_p: _while,
    emit_pipeline_p: _pipeline,
}

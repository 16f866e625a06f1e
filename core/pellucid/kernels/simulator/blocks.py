"""How kernels for GPUs run in the simulator: their blocks one after another, the threads of each beside each other."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Generator, Sequence
from typing import Any

import numpy as np

from pellucid import numpy as jnp
from pellucid._machine.base.source import describe
from pellucid._machine.checks.errors import CheckError
from pellucid._machine.higher_order.jitted import jit
from pellucid._machine.ir import Equation, Values
from pellucid._machine.tracing.current import ensure_compile_time_eval
from pellucid.kernels import semaphores
from pellucid.kernels.gpu import barriers, copies, fences, products
from pellucid.kernels.gpu.copies import OOBFillMode

from . import memory
from .copying import Copy
from .evaluate import AT_ONCE, IN_STEPS, Run, note, window
from .machine import Core, Steps
from .memory import Buffer
from .phases import Barriers, BarrierState, PhaseWait
from .plans import Plan, as_numpy
from .sweep import Sweep
from .threads import BulkCopy, MatrixProduct, Thread

_ADVICE = "Let each phase of a barrier have its arrivals, by copies and `barrier_arrive`, before the wait or in another thread; blocks run one after another here."
_MAX_TESTS = 10_000


class BlockSweep(Sweep):
    """The blocks of a kernel, and the threads and programs of each."""

    array_space = "gmem"

    def run(self) -> Steps:
        """Let the blocks run, one after another."""
        machine, kernel, grid = self.machine, self.kernel, self.grid
        machine.agents, machine.advice = "thread", _ADVICE
        within: Any = kernel.within_block
        outer = [a for a in range(len(grid)) if a not in within]
        numbers = np.arange(int(np.prod(grid, dtype=np.int64))).reshape(grid or (1,))
        now = 0.0
        for place in itertools.product(*[range(grid[a]) for a in outer]):
            index: list[Any] = [slice(None)] * numbers.ndim
            for axis, i in zip(outer, place, strict=True):
                index[axis] = i
            # The programs of the block: a row for each thread, in the order in which it runs them.
            own = numbers[tuple(index)]
            rows = [own.ravel()]
            if kernel.thread_axis is not None:
                axis = sorted(within).index(kernel.thread_axis)
                rows = [*np.moveaxis(own, axis, 0).reshape(grid[kernel.thread_axis], -1)]
            now = yield from self.block(place, rows, now)
        machine.cores = []

    def block(
        self, place: tuple[int, ...], rows: Sequence[np.ndarray], now: float
    ) -> Generator[Core, None, float]:
        """Run the threads of a block, which begin at `now`, to their ends; gives when the last one ends."""
        machine, kernel = self.machine, self.kernel
        machine.cores, shared = [], {}
        threads = []
        block = f"block {place}" if place else "the block"
        for k in range(len(rows)):
            name = block if kernel.thread_axis is None else f"{block}, thread {k}"
            thread = Thread(machine, place, k, name)
            thread.shared, thread.time = shared, now
            threads.append(thread)
        refs = self.references(threads[0])
        for ref in refs:
            if type(ref) is Buffer and ref.space == "smem":
                ref.owner = block
        for thread, row in zip(threads, rows, strict=True):
            own = [_own_registers(thread, ref) for ref in refs]
            thread.run = self._thread(thread, [*map(int, row)], own)
        yield from machine.run()
        found = [x for x in (*refs, *shared.values()) if type(x) is Barriers]
        for state in [state for barrier in found for state in barrier.states.ravel()]:
            if state.pending:
                copy: Any = state.pending[0]
                raise CheckError(
                    f"the kernel `{kernel.name}` leaves a copy to shared memory in flight that nobody has waited for.",
                    got=copy.text(),
                    where=describe(copy.source),
                    do=f"Wait for the phase of the barrier {state.name}.",
                )
        return max([thread.time for thread in threads], default=now)

    def _thread(self, thread: Thread, numbers: Sequence[int], refs: list[Any]) -> Run:
        yield from self.programs(thread, numbers, refs)
        thread.program = ""
        thread.check_end()
        return []

    def program_text(self, ids: tuple[int, ...]) -> str:
        """The position in the grid, for messages: nothing where the names of block and thread have all of it."""
        within: Any = self.kernel.within_block
        is_alone = within <= {self.kernel.thread_axis}
        return "" if is_alone or not ids else f" in program {ids}"


def _own_registers(thread: Thread, ref: Any) -> Any:
    """`ref`, or in another thread than the first one its own, if these are registers."""
    if thread.core == 0 or not isinstance(ref, Buffer) or ref.space not in ("accumulator", "regs"):
        return ref
    array = np.array(ref.array)
    return thread.machine.buffer(ref.name, ref.space, array, thread, (ref.name, "own"))


# Barriers -------------------------------------------------------------------------------------------------------


def _barrier(core: Core, view: Any) -> BarrierState:
    """The barrier that a reference or a view is."""
    steps: Any = getattr(view, "steps", ())
    found: Any = view.ref if steps else view
    positions = np.arange(found.states.size).reshape(found.shape)
    for step, operands in steps:
        place = memory.place_of(step, operands) if hasattr(step, "entries") else None
        if place is not None and place.outside is not None:
            raise CheckError(
                f"{core.text()} names a barrier that there isn't.",
                got=f"position {place.outside.text} of {found.shape} in {found}",
                where=describe(core.source),
            )
        positions = memory.stepped(positions, step, operands)
    return found.states.ravel()[int(positions.ravel()[0])]


def _views(equation: Equation, operands: Values) -> tuple[Values, Values]:
    return semaphores.views_of(equation.params, operands)


def _arrive(core: Any, equation: Equation, operands: Values) -> Run:
    [view], _ = _views(equation, operands)
    state = _barrier(core, view)
    state.arrive(core)
    core.note("signal", core.time, state.name)
    yield None
    return []


def _wait(core: Any, equation: Equation, operands: Values) -> Run:
    [view], _ = _views(equation, operands)
    yield PhaseWait(_barrier(core, view), core)
    return []


def _test(core: Any, equation: Equation, operands: Values) -> Run:
    [view], _ = _views(equation, operands)
    state = _barrier(core, view)
    found = state.is_complete(core)
    if found:
        core.tests = 0
        state.take(core, counts=False)
    else:
        core.tests += 1
        if core.tests > _MAX_TESTS:
            raise CheckError(
                f"{core.text()} has tested barrier {state.name} {_MAX_TESTS} times, and nobody completes its phase.",
                got=PhaseWait(state, core).text(),
                where=describe(core.source),
                do=_ADVICE,
            )
        if len(state.arrived) == state.num_arrivals:
            state.goes_on(core.machine.random)
    yield None
    return [np.bool_(found)]


# Copies ---------------------------------------------------------------------------------------------------------


def _ended(core: Any, state: BarrierState | None, copy: Any) -> None:
    core.machine.note_copy(
        core, copy.source, copy.program, copy.read_from[0], copy.write_to[0], copy.n_bytes, copy.time, copy.ends
    )  # fmt: skip
    if state is not None:
        state.made(copy)


def _to_shared(core: Any, equation: Equation, operands: Values) -> Run:
    params, machine = equation.params, core.machine
    [src, dst, at], _ = _views(equation, operands)
    mode = params.oob_mode
    source = window(
        core, "read", src,
        outside=mode is not OOBFillMode.PROMISE_IN_BOUNDS, nothing=0 if mode is OOBFillMode.ZEROS else None,
    )  # fmt: skip
    target, state = window(core, "write", dst), _barrier(core, at)
    copy = Copy(
        machine.next_agent(), core, source, target, (None, None), is_remote=False, add=False,
        finds_races=machine.finds_races, ended=lambda copy: _ended(core, state, copy),
    )  # fmt: skip
    state.arrive(core, copy)
    if machine.is_eager:
        copy.write()
    yield None
    return []


def _from_shared(core: Any, equation: Equation, operands: Values) -> Run:
    params, machine = equation.params, core.machine
    [src, dst], others = _views(equation, operands)
    if not others or bool(np.asarray(others[0])):
        source = window(core, "read", src)
        target = window(core, "write", dst, outside=True)
        core.check_committed(source[0], source[1].region(source[0].shape), "a copy to the device")
        copy = BulkCopy(
            machine.next_agent(), core, source, target, (None, None), is_remote=False, add=False,
            finds_races=machine.finds_races, ended=lambda copy: _ended(core, None, copy),
        )  # fmt: skip
        if params.reduction is not None:
            copy.combine = functools.partial(_combined, params.reduction)
        core.loose.append(copy)
        if machine.is_eager:
            copy.write()
    if params.commit_group:
        _commit(core)
    yield None
    return []


def _combined(reduction: str, old: Any, new: Any) -> Any:
    with ensure_compile_time_eval():
        return copies.REDUCTIONS[reduction](jnp.asarray(old), jnp.asarray(new))


def _commit(core: Any) -> None:
    core.groups.append(core.loose)
    core.loose = []


def _commit_group(core: Any, equation: Equation, operands: Values, plan: Plan) -> Values:
    _commit(core)
    return []


def _wait_for_copies(core: Any, equation: Equation, operands: Values) -> Run:
    core.finish_copies(equation.params.n, read_only=equation.params.read_only)
    yield None
    return []


def _commit_shared(core: Any, equation: Equation, operands: Values, plan: Plan) -> Values:
    core.commits()
    return []


def _nothing(core: Any, equation: Equation, operands: Values, plan: Plan) -> Values:
    return []


# Products -------------------------------------------------------------------------------------------------------


@functools.cache
def _multiply(dtype: Any) -> Any:
    """The product of two matrices with elements of `dtype`, compiled."""
    dot = jit(lambda x, y: jnp.dot(x, y, preferred_element_type=dtype))

    def run(x: Any, y: Any) -> np.ndarray:
        with ensure_compile_time_eval():
            return np.asarray(dot(x, y))

    return run


def _product(core: Any, equation: Equation, operands: Values) -> Run:
    [acc, a, b], others = _views(equation, operands)
    sides: list[Any] = []
    for view in (a, b):
        if view is None:
            sides.append(as_numpy(others[0]))
            continue
        buffer, part = window(core, "read", view)
        core.check_committed(buffer, part.region(buffer.shape), "a product")
        sides.append((buffer, part))
    product = MatrixProduct(core, acc, sides[0], sides[1], _multiply(np.dtype(acc.dtype)))
    core.products.append(product)
    if core.machine.is_eager:
        product.make()
    yield None
    return []


def _wait_for_products(core: Any, equation: Equation, operands: Values) -> Run:
    core.finish_products(equation.params.n)
    yield None
    return []


def _load_accumulator(core: Any, equation: Equation, operands: Values, plan: Plan) -> Values:
    [acc], _ = _views(equation, operands)
    n = equation.params.wait_n
    if n is not None:
        core.finish_products(n)
    left = [product for product in core.products if product.acc is acc]
    if left:
        raise CheckError(
            f"{core.text()} reads an accumulator that products in flight change.",
            got=f"{left[0].text()}, {describe(left[0].source)}",
            where=describe(core.source),
            do="Wait for them: `wgmma_accumulator_load(acc)` or `acc[...]`.",
        )
    note(core, acc, memory.whole_of(acc.shape), is_write=False)
    return [np.array(acc.array)]


AT_ONCE |= {
    fences.commit_group_p: _commit_group,
    fences.commit_smem_p: _commit_shared,
    fences.max_registers_p: _nothing,
    products.accumulator_load_p: _load_accumulator,
}
IN_STEPS |= {
    barriers.barrier_arrive_p: _arrive,
    barriers.barrier_wait_p: _wait,
    barriers.barrier_test_p: _test,
    copies.copy_gmem_to_smem_p: _to_shared,
    copies.copy_smem_to_gmem_p: _from_shared,
    fences.copy_wait_p: _wait_for_copies,
    fences.product_wait_p: _wait_for_products,
    products.wgmma_p: _product,
}

"""Semaphores: signals to this or another device, and waits.

Each operation is a primitive that is defined by a program on references: what it does in a program that runs by itself, where a wait that
nobody would ever end fails. The simulator and lowerings to devices read its operands instead.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from pellucid._machine.base import ArgumentTypeError, capture
from pellucid._machine.checks.errors import FailedCheckError
from pellucid._machine.higher_order.calls import Defined, JitParams
from pellucid._machine.ir import (
    Linearized,
    Shown,
    Values,
    abstract_ref,
    allocation_effect,
    read_effect,
    shaped_array,
    write_effect,
)
from pellucid._machine.refs.access import addupdate, get
from pellucid._machine.refs.primitives import OfReference
from pellucid._machine.tracing import ReferenceCell, bind, bind1, types_of
from pellucid._machine.transforms import stage_open
from pellucid.numpy import asarray

from .devices import logical_device, only_elsewhere
from .failures import fail_where
from .parts import Parts, parts_of
from .specs import DeviceIdType

_INT32 = np.dtype(np.int32)
_CHANGES = frozenset({read_effect, write_effect})


class OnParts(Shown, Defined[Any]):
    """Base class of primitives on parts of references. Params have `jaxpr`, the definition, and `parts`; operands begin with the
    constants of the definition, `params.n_consts` of them, then come those of the parts.
    """

    unshown = ("jaxpr", "n_consts")

    def effects(self, avals, params):
        return super().effects(avals, params) | _CHANGES

    def printed_params(self, equation):
        params = equation.params._asdict()
        return {name: x for name, x in params.items() if name not in self.unshown}


def views_of(params: Any, operands: Sequence[Any]) -> tuple[Values, Values]:
    """(the parts as references or views, None for those that there aren't; the operands behind them)."""
    own = operands[params.n_consts :]
    return params.parts.views(own), [*own[params.parts.n_operands :]]


def bound(
    primitive: Any, params: Any, caller: str, refs: Sequence[Any], others: Values, define: Any
) -> Values:
    """Bind `primitive` to parts of references and `others`; `define(views, others)` is what it does in a program that runs by itself."""
    parts, own = parts_of(caller, refs)
    operands = [*own, *others]
    params = params._replace(parts=parts)

    def run(*operands: Any) -> Values:
        return define(*views_of(params, operands))

    program, consts = stage_open(run, types_of(operands), None)
    params = params._replace(jaxpr=program, n_consts=len(consts))
    return bind(primitive, *consts, *operands, params=params)


# Signals ------------------------------------------------------------------------------------------------------


class SignalParams(NamedTuple):
    """`parts` has the semaphore. Behind it come the increment, the number of the device if it `has_device`, that of the core if it `has_core`."""

    has_device: bool
    has_core: bool
    jaxpr: Any = None
    n_consts: int = 0
    parts: Parts = Parts(0, ())

    def as_call(self) -> JitParams:
        """Params of a call that does the same in a program that runs by itself."""
        return JitParams("semaphore_signal", self.jaxpr)


class SemaphoreSignal(OnParts):
    """Adds to a semaphore of this device, or of another one."""

    name = "semaphore_signal"
    traits = OfReference.traits.replace(returns_list=True)


semaphore_signal_p = SemaphoreSignal()


def semaphore_signal(
    sem_or_view: Any,
    inc: Any = 1,
    *,
    device_id: Any = None,
    device_id_type: DeviceIdType = DeviceIdType.MESH,
    core_index: Any = None,
) -> None:
    """Add `inc` to a semaphore: of this program, or of the same kernel on the device `device_id` and the core `core_index`.

    A device is its position in the mesh of `shard_map`, one number for each axis or a dict of those that differ from here, or with
    `DeviceIdType.LOGICAL` its number. Signals to others need `interpret=tpu.InterpretParams()`, or a TPU.
    """
    _counting("semaphore_signal", sem_or_view)
    inc = np.int32(inc) if isinstance(inc, int) else inc
    device = logical_device("semaphore_signal", device_id, device_id_type)
    others = [x for x in (device, core_index) if x is not None]
    others = [np.int32(x) if isinstance(x, int) else x for x in others]
    params = SignalParams(device is not None, core_index is not None)

    def define(views: Values, others: Values) -> Values:
        inc = others[0]
        if len(others) > 1:
            inc = only_elsewhere("semaphore_signal", inc)
        addupdate(views[0], ..., inc)
        return []

    bound(semaphore_signal_p, params, "semaphore_signal", [sem_or_view], [inc, *others], define)


def _counting(caller: str, sem: Any) -> None:
    if getattr(sem, "dtype", None) != np.int32:
        raise ArgumentTypeError(
            f"{caller} takes a semaphore that counts.",
            got=f"got {sem!r:.60}",
            do="Scratch of the type `SemaphoreType.REGULAR`; those of copies are for copies alone.",
        )
    if sem.shape:
        raise ArgumentTypeError(
            f"{caller} takes one semaphore.",
            got=f"{list(sem.shape)} semaphores",
            do="Name one: `sem.at[i]`.",
        )


# Waits --------------------------------------------------------------------------------------------------------


class WaitParams(NamedTuple):
    """`parts` has the semaphore, behind which comes the value that it shall have; whether that is taken away again."""

    decrement: bool
    jaxpr: Any = None
    n_consts: int = 0
    parts: Parts = Parts(0, ())

    def as_call(self) -> JitParams:
        """Params of a call that does the same in a program that runs by itself."""
        return JitParams("semaphore_wait", self.jaxpr)


class SemaphoreWait(OnParts):
    """Waits until a semaphore has a value."""

    name = "semaphore_wait"
    traits = OfReference.traits.replace(returns_list=True)


semaphore_wait_p = SemaphoreWait()


def semaphore_wait(sem_or_view: Any, value: Any = 1, *, decrement: bool = True) -> None:
    """Wait until a semaphore has at least `value`, and take that away again.

    Raises: CheckError, when the kernel runs, where it has less and nothing can signal to it any more: outside of the simulator a
    program runs by itself.
    """
    _counting("semaphore_wait", sem_or_view)
    value = np.int32(value) if isinstance(value, int) else value

    def define(views: Values, others: Values) -> Values:
        [value] = others
        has = get(views[0])
        fail_where(has < value, FailedCheckError, _waits_forever, [has, asarray(value)])
        if decrement:
            addupdate(views[0], ..., -value)
        return []

    params = WaitParams(bool(decrement))
    bound(semaphore_wait_p, params, "semaphore_wait", [sem_or_view], [value], define)


def _waits_forever(ids: tuple[int, ...], values: Sequence[int]) -> str:
    program = f" in program {ids}" if ids else ""
    return f"semaphore_wait{program} would wait forever: the semaphore has {values[0]}, and waits for {values[1]}."


# Reading ------------------------------------------------------------------------------------------------------


class ReadParams(NamedTuple):
    """`parts` has the semaphore."""

    jaxpr: Any = None
    n_consts: int = 0
    parts: Parts = Parts(0, ())

    def as_call(self) -> JitParams:
        """Params of a call that does the same in a program that runs by itself."""
        return JitParams("semaphore_read", self.jaxpr)


class SemaphoreRead(OnParts):
    """The value of a semaphore."""

    name = "semaphore_read"


semaphore_read_p = SemaphoreRead()


def semaphore_read(sem_or_view: Any) -> Any:
    """The value of a semaphore, an int32."""
    _counting("semaphore_read", sem_or_view)
    define = lambda views, _: [get(views[0])]
    [value] = bound(semaphore_read_p, ReadParams(), "semaphore_read", [sem_or_view], [], define)
    return value


# Barriers -----------------------------------------------------------------------------------------------------


class BarrierParams(NamedTuple):
    """The user's line."""

    source: Any


class BarrierSemaphore(Linearized, Shown, OfReference[BarrierParams]):
    """The semaphore that all kernels of one `collective_id` share on a device."""

    name = "get_barrier_semaphore"
    own_effects = frozenset({allocation_effect})
    unshown = ("source",)

    def abstract_eval(self, avals, params):
        return [abstract_ref(shaped_array((), _INT32))]

    def run(self, operands, params):
        return [only_elsewhere("get_barrier_semaphore", np.int32(0), params.source)]

    def discharge(self, operands, params):
        return [ReferenceCell(*self.run(operands, params))]


get_barrier_semaphore_p = BarrierSemaphore()


def get_barrier_semaphore() -> Any:
    """The barrier semaphore of this device, by which devices wait for each other before they use each other's memory.

    It counts from 0, and must have 0 again at the end of the kernel. It needs `CompilerParams(collective_id=…)` and
    `interpret=tpu.InterpretParams()`, or a TPU.
    """
    return bind1(get_barrier_semaphore_p, params=BarrierParams(capture()))

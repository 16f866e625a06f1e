"""Memory accesses of a kernel's programs: its loads and stores, with branches and masks as far as the position
determines them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from pellucid._machine.higher_order.cond import cond_p
from pellucid._machine.higher_order.jitted import jit
from pellucid._machine.ir import (
    ClosedJaxpr,
    Equation,
    HigherOrderPrimitive,
    Jaxpr,
    Literal,
    Role,
    ShapedArray,
    Values,
    called_program,
    programs_of,
)
from pellucid._machine.primitives import broadcast_to, convert_element_type
from pellucid._machine.primitives.logical import select_n_p
from pellucid._machine.refs import index as indexing
from pellucid._machine.refs.primitives import addupdate_p, get_p, swap_p
from pellucid._machine.tracing import bind
from pellucid._machine.tracing.current import ensure_compile_time_eval
from pellucid._machine.transforms import stage_open
from pellucid._machine.transforms.vmap import vmap
from pellucid.kernels.atomics import atomic_update_p
from pellucid.kernels.mappings import INDEX
from pellucid.kernels.programs import GridKernel
from pellucid.numpy import (
    logical_and,
    max as largest,
    maximum,
    min as least,
    minimum,
    reshape,
    sum as total,
    where,
)

MAX_EVALUATED = 1 << 29
"""Maximum number of elements, over all programs, of a value that is evaluated to determine a mask."""
MAX_AT_ONCE = 1 << 25
"""Maximum number of elements of a value over the programs that are evaluated at once."""
INT32 = np.dtype(np.int32)


_N_FRONT: dict[Any, int] = {
    get_p: 1,
    swap_p: 2,
    addupdate_p: 2,
    atomic_update_p: 1 + atomic_update_p.n_values,
}
"""By operation on a reference how many operands it has before those of the index."""


class Access(NamedTuple):
    """A load or store of the body, for all programs of the grid."""

    reference: int
    """Index among the references of the kernel: scalars, inputs, results, scratch."""
    is_read: bool
    is_written: bool
    size: int
    """Number of elements in the part that is loaded or stored."""
    runs: int | None
    """Number of executions per program that reaches it; None if unknown."""
    is_exact: bool
    """Whether `active` and `used` depend only on the position; otherwise they are upper bounds."""
    active: np.ndarray
    """For each program, whether it reaches this access."""
    used: np.ndarray
    """For each program, the number of elements that masks enable."""
    low: list[np.ndarray | None]
    """For each dimension of the reference, the first accessed element in each program; None if it depends on data."""
    high: list[np.ndarray | None]
    """For each dimension, the end of the accessed part in each program; None if it depends on data."""


class _Unknown:
    """A value that the position doesn't determine."""


UNKNOWN = _Unknown()


class _Reference(NamedTuple):
    """A reference of the kernel, by its index."""

    position: int


class _Context(NamedTuple):
    """The condition under which, and the number of times that, equations are executed. `path` is None if nothing
    depends on it.
    """

    path: Any = None
    is_certain: bool = True
    runs: int | None = 1

    def within(self, condition: Any) -> _Context:
        """The context of a branch that is executed if `condition` holds."""
        if isinstance(condition, _Unknown):
            return self._replace(is_certain=False)
        path = condition if self.path is None else logical_and(self.path, condition)
        return self._replace(path=path)

    def in_loop(self, runs: int | None) -> _Context:
        """The context of a loop with `runs` runs."""
        count = None if runs is None or self.runs is None else self.runs * runs
        # A loop of unknown length may have no runs.
        return self._replace(runs=count, is_certain=self.is_certain and runs is not None)


def accessed_references(kernel: GridKernel) -> tuple[set[int], set[int]]:
    """Positions of the references that the body (reads, writes), in some branch of it."""
    found: list[Access] = []

    def run(*position: Any) -> list[Any]:
        walk = _walk_body(kernel, position, [UNKNOWN] * kernel.grid.count(None), None, 1)
        found[:] = [access for access, _ in walk.found]
        return []

    stage_open(run, [INDEX] * len(kernel.grid), None)
    return ({a.reference for a in found if a.is_read}, {a.reference for a in found if a.is_written})


def _walk_body(
    kernel: GridKernel, position: Sequence[Any], sizes: Values, scalars: Any, limit: int
) -> _Walk:
    """The walk of the body for the program at a position."""
    walk = _Walk(kernel, scalars, limit)
    references = [_Reference(i) for i in range(kernel.n_references)]
    failure = [UNKNOWN] if kernel.sites else []
    inputs: Values = [*kernel.consts, *position, *sizes, *references, *failure]
    walk.program(kernel.body.jaxpr, inputs, _Context())
    return walk


def accesses(
    kernel: GridKernel, ids: np.ndarray, bounds: Sequence[Any], scalars: Sequence[Any] | None
) -> list[Access]:
    """The loads and stores of the body of `kernel`, in order.

    `ids` are positions `[axes, programs]`; `bounds` are sizes of the grid that are operands; `scalars` are values of the prefetched
    scalars, None if unknown.
    """
    count = ids.shape[1]
    limit = max(1, MAX_EVALUATED // max(count, 1))
    found: list[Access] = []

    def run(*position: Any) -> list[Values]:
        sizes: Values = [convert_element_type(n, INT32) for n in bounds]
        walk = _walk_body(kernel, position, sizes, scalars, limit)
        found[:] = [access for access, _ in walk.found]
        return [values for _, values in walk.found]

    chunk = min(count, max(1, MAX_AT_ONCE // min(limit, _largest(kernel.body.jaxpr))))
    with ensure_compile_time_eval():
        program = jit(vmap(run, axis_size=chunk)) if len(ids) else jit(run)
        parts: list[list[list[np.ndarray]]] = []
        for start in range(0, count, chunk):
            # The last chunk is padded with the last program, so that one executable serves all chunks.
            at: Any = np.minimum(range(start, start + chunk), count - 1)
            results = program(*ids[:, at])
            parts.append([[np.asarray(x) for x in each] for each in results])
    made: list[Access] = []
    for i, access in enumerate(found):
        columns = [
            np.concatenate([np.broadcast_to(part[i][k], (chunk,)) for part in parts])[:count]
            for k in range(len(parts[0][i]))
        ]
        active, used, *ends = columns
        rest = iter(ends)
        # Dimensions with known ends have two columns each, in the order of the dimensions.
        pairs = [(next(rest), next(rest)) if known is not None else None for known in access.low]
        made.append(
            access._replace(
                active=active.astype(bool),
                used=used.astype(np.int64),
                low=[None if pair is None else pair[0] for pair in pairs],
                high=[None if pair is None else pair[1] for pair in pairs],
            )
        )
    return made


def _largest(jaxpr: Jaxpr) -> int:
    """Number of elements of the largest value in a program."""
    sizes = [1]
    for equation in jaxpr.equations:
        sizes += [r.aval.size for r in equation.results if type(r.aval) is ShapedArray]
        sizes += [_largest(program) for program in programs_of(equation)]
    return max(sizes)


class _Walk:
    """One evaluation of a kernel's body for the program at a position, as far as the position determines values."""

    def __init__(self, kernel: GridKernel, scalars: Sequence[Any] | None, limit: int) -> None:
        self.kernel, self.scalars, self.limit = kernel, scalars, limit
        self._inside: dict[int, Any] = {}
        """By store with index arrays, which of its elements lie within the reference."""
        self.found: list[tuple[Access, Values]] = []
        """Accesses, each with this program's values: whether it reaches it, number of used elements, ends of the part."""

    def program(self, jaxpr: Jaxpr, inputs: Values, context: _Context) -> Values:
        """The results of a program, as far as they are known."""
        values: dict[Any, Any] = dict(zip(jaxpr.invars, inputs, strict=True))
        values |= dict.fromkeys(jaxpr.constvars, UNKNOWN)

        def value_of(atom: Any) -> Any:
            return atom.val if type(atom) is Literal else values[atom]

        flow = _Flow(jaxpr)
        # A mask may be computed after its load, so masks are looked up when all values are known.
        waiting: list[tuple[int, Equation]] = []
        for equation in jaxpr.equations:
            operands = [value_of(atom) for atom in equation.operands]
            results: Values = [UNKNOWN] * len(equation.results)
            reference = operands[0] if operands else None
            if equation.primitive in (get_p, swap_p, addupdate_p, atomic_update_p):
                if type(reference) is _Reference and not self._is_scalar(reference):
                    if not flow.is_of_masked_store(equation):
                        waiting.append((len(self.found), equation))
                        is_read = equation.primitive is not swap_p or flow.is_used(equation)
                        self.found.append(self._access(equation, operands, context, is_read))
                elif type(reference) is _Reference and equation.primitive is get_p:
                    results = [self._scalar(equation, operands)]
            elif any(type(x) is _Reference for x in operands) or programs_of(equation):
                results = self._call(equation, operands, context)
            elif self._is_evaluated(equation, operands):
                results = bind(equation.primitive, *operands, params=equation.params)
            values.update(zip(equation.results, results, strict=True))
        for place, equation in waiting:
            masks = [(value_of(mask), is_kept) for mask, is_kept in flow.masks(equation)]
            if masks:
                self._set_masks(place, masks)
        return [value_of(atom) for atom in jaxpr.outvars]

    def _is_scalar(self, reference: _Reference) -> bool:
        return reference.position < len(self.kernel.scalars)

    def _scalar(self, equation: Equation, operands: Values) -> Any:
        """A part of a prefetched scalar, which programs can't write."""
        position = operands[0].position
        if self.scalars is None or position in self.kernel.written or _has_unknown(operands[1:]):
            return UNKNOWN
        return indexing.read(self.scalars[position], equation.params.index, operands[1:])

    def _is_evaluated(self, equation: Equation, operands: Values) -> bool:
        return (
            not _has_unknown(operands)
            and not equation.effects
            and all(
                type(r.aval) is ShapedArray and r.aval.size <= self.limit for r in equation.results
            )
        )

    # Accesses ---------------------------------------------------------------------------------------

    def _access(
        self, equation: Equation, operands: Values, context: _Context, is_read: bool
    ) -> tuple[Access, Values]:
        index, n_front = equation.params.index, _N_FRONT[equation.primitive]
        avals = [a.aval for a in equation.operands[n_front:]]
        size = math.prod(index.result_shape(avals))
        ends = _ends(index, operands[n_front:])
        access = _new_access(operands[0], is_read, equation.primitive is not get_p, size, context)
        # Dimensions whose ends are unknown have no columns.
        access = access._replace(
            low=[pair and 0 for pair in ends], high=[pair and 0 for pair in ends]
        )
        path = True if context.path is None else context.path
        used: Any = np.int32(size)
        if (
            equation.primitive is not get_p
        ):  # stores outside are dropped; loads select other values there
            shape = index.result_shape(avals)
            inside, is_known = _inside(index, operands[n_front:], shape)
            access = access._replace(is_exact=access.is_exact and is_known)
            if inside is not None:
                self._inside[len(self.found)] = inside
                used = total(convert_element_type(inside, INT32))
        columns = [convert_element_type(x, INT32) for pair in ends if pair for x in pair]
        return access, [path, used, *columns]

    def _set_masks(self, place: int, masks: Sequence[tuple[Any, bool]]) -> None:
        """Count the elements that satisfy all of `masks`, pairs (condition, value that keeps an element)."""
        access, (path, size, *ends) = self.found[place]
        kept: Any = self._inside.get(place)
        for mask, is_kept in masks:
            if isinstance(mask, _Unknown):
                access = access._replace(is_exact=False)
            else:
                keeps = mask == is_kept
                kept = keeps if kept is None else logical_and(kept, keeps)
        if kept is not None:
            shape = getattr(kept, "shape", ())
            kept = kept if shape else broadcast_to(kept, (access.size,))
            size = total(convert_element_type(kept, INT32))
        self.found[place] = access, [path, size, *ends]

    # Programs within ---------------------------------------------------------------------------------

    def _call(self, equation: Equation, operands: Values, context: _Context) -> Values:
        program = called_program(equation.primitive, equation.params)
        if program is not None:
            return self.program(_open_program(program), operands, context)
        results: Values = [UNKNOWN] * len(equation.results)
        if equation.primitive is cond_p:
            index, *rest = operands
            for i, branch in enumerate(equation.params.branches):
                is_chosen = UNKNOWN if isinstance(index, _Unknown) else index == np.int32(i)
                self.program(branch.jaxpr, rest, context.within(is_chosen))
            return results
        primitive = equation.primitive
        slots = (
            primitive.slots(equation.params)
            if isinstance(primitive, HigherOrderPrimitive)
            else None
        )
        if slots is None:
            self._touch(operands, context)
            return results
        # Within a loop, only values that are the same in each run are known; references are.
        groups = [
            [x if group.role is Role.CONSTANT or type(x) is _Reference else UNKNOWN for x in part]
            for group, part in zip(slots.operands, slots.split(operands), strict=True)
        ]
        for slot in slots.programs:
            self.program(
                slot.program.jaxpr, slots.gather_inputs(slot, groups), context.in_loop(slots.runs)
            )
        return results

    def _touch(self, operands: Values, context: _Context) -> None:
        """Record that an operation with unknown accesses may read and write its references."""
        for x in operands:
            if type(x) is _Reference and not self._is_scalar(x):
                size = math.prod(self._shape(x))
                access = _new_access(x, True, x.position in self.kernel.written, size, context)
                path = True if context.path is None else context.path
                none = [None] * len(self._shape(x))
                found = access._replace(is_exact=False, low=none, high=none)
                self.found.append((found, [path, np.int32(size)]))

    def _shape(self, reference: _Reference) -> tuple[int, ...]:
        aval: Any = self.kernel.body.jaxpr.invars[self.kernel.n_front + reference.position].aval
        return aval.shape


def _new_access(
    reference: _Reference, is_read: bool, is_written: bool, size: int, context: _Context
) -> Access:
    nothing = np.zeros(0)
    return Access(
        reference.position, is_read, is_written, size, context.runs, context.is_certain, nothing, nothing, [], [],
    )  # fmt: skip


def _has_unknown(values: Sequence[Any]) -> bool:
    return any(isinstance(x, (_Unknown, _Reference)) for x in values)


def _open_program(program: Any) -> Jaxpr:
    return program.jaxpr if isinstance(program, ClosedJaxpr) else program


def _ends(index: Any, operands: Values) -> list[Any]:
    """For each dimension, (first element, end) of a part; None if it depends on data."""
    rest = iter(operands)
    ends: list[Any] = []
    for entry, size in zip(index.entries, index.shape, strict=True):
        if entry is not None and entry.start is not None:
            ends.append((np.int32(entry.start), np.int32(entry.start + entry.span)))
            continue
        x = next(rest)
        if isinstance(x, _Unknown):
            ends.append(None)
        elif entry is not None:
            # Windows that reach beyond the end are moved inside, as in reads.
            first = minimum(maximum(_count_from_start(x, size), 0), size - entry.span)
            ends.append((first, first + entry.span))
        else:
            positions = _count_from_start(x, size)
            is_inside = logical_and(positions >= 0, positions < size)
            low, high = where(is_inside, positions, size), where(is_inside, positions, -1)
            if getattr(positions, "shape", ()):
                low, high = least(low), largest(high)
            ends.append((low, high + 1))
    return ends


def _count_from_start(x: Any, size: int) -> Any:
    """Indices, in which negative numbers count from the end."""
    return where(x < 0, x + size, x)


def _inside(index: Any, operands: Values, shape: tuple[int, ...]) -> tuple[Any, bool]:
    """(mask of the elements of a part of `shape` that are within the reference, None for all; whether no data decide it).

    Elements at positions that depend on data count as within. Slices always lie within.
    """
    rest = iter(operands)
    found: Any = None
    is_known = True
    for entry, n in zip(index.entries, index.shape, strict=True):
        if entry is None or entry.start is None:
            x = next(rest)
            if entry is None and isinstance(x, _Unknown):
                is_known = False
            elif entry is None:
                positions = _count_from_start(x, n)
                fits = logical_and(positions >= 0, positions < n)
                found = fits if found is None else logical_and(found, fits)
    if found is None:
        return None, is_known
    # Axes before: those of the index arrays. After: those of slices in front, of the index arrays, of slices behind.
    n_behind = len(index.windows) - index.position
    own = getattr(found, "shape", ())
    return broadcast_to(reshape(found, (*own, *[1] * n_behind)), shape), is_known


class _Flow:
    """The producers and users of a program's values, to find the masks of loads and stores."""

    def __init__(self, jaxpr: Jaxpr) -> None:
        self._users: dict[Any, list[Equation]] = {}
        self._makers: dict[Any, Equation] = {}
        self._results = {atom for atom in jaxpr.outvars if type(atom) is not Literal}
        for equation in jaxpr.equations:
            self._makers |= dict.fromkeys(equation.results, equation)
            for atom in equation.operands:
                if type(atom) is not Literal:
                    self._users.setdefault(atom, []).append(equation)

    def is_used(self, equation: Equation) -> bool:
        """Whether any result of an equation is used."""
        return any(r in self._users or r in self._results for r in equation.results)

    def masks(self, equation: Equation) -> list[tuple[Any, bool]]:
        """The conditions of a load or store, each with its value for the used elements.

        A load is masked if its only use is a select between its elements and others. A store is masked if its value is
        a select between the previous elements and others.
        """
        if equation.primitive is get_p:
            found: list[tuple[Any, bool]] = []
            while (choice := self._choice_of(equation)) is not None:
                found.append((choice.operands[0], choice.operands[2] is equation.results[0]))
                equation = choice
            return found
        if equation.primitive is atomic_update_p:
            is_masked = equation.params.operation != "cas"
            return [(equation.operands[2], True)] if is_masked else []
        choice = self._makers.get(equation.operands[1])
        if choice is None or choice.primitive is not select_n_p or len(choice.operands) != 3:
            return []
        for place in (1, 2):
            old = self._makers.get(choice.operands[place])
            if old is not None and self._is_same_part(old, equation):
                return [(choice.operands[0], place == 1)]
        return []

    def is_of_masked_store(self, equation: Equation) -> bool:
        """Whether a load only reads the elements that a masked store leaves unchanged."""
        choice = self._choice_of(equation) if equation.primitive is get_p else None
        if choice is None:
            return False
        users = self._users.get(choice.results[0], [])
        return (
            len(users) == 1
            and users[0].primitive is swap_p
            and self._is_same_part(equation, users[0])
        )

    def _choice_of(self, equation: Equation) -> Equation | None:
        """The select between two arrays that is the only use of an equation's result."""
        [result] = equation.results
        users = self._users.get(result, [])
        if len(users) != 1 or result in self._results or users[0].primitive is not select_n_p:
            return None
        is_case = [atom is result for atom in users[0].operands]
        return users[0] if len(is_case) == 3 and not is_case[0] and sum(is_case) == 1 else None

    @staticmethod
    def _is_same_part(load: Equation, store: Equation) -> bool:
        """Whether a load reads the same part of a reference that a store writes."""
        return (
            load.primitive is get_p
            and store.primitive is swap_p
            and load.operands[0] is store.operands[0]
            and load.params.index == store.params.index
            and all(
                a is b or (type(a) is Literal and type(b) is Literal and a.val == b.val)
                for a, b in zip(load.operands[1:], store.operands[2:], strict=True)
            )
        )

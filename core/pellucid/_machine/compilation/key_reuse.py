"""`debug_key_reuse`: follows random keys through programs, and raises if a key is used twice.

A primitive's `traits.keys` states its effect on keys. Key arrays carry a record for each key outside of programs too,
so that eager operations and compiled functions are treated alike.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from pellucid._machine.base import (
    Ints,
    KeyReuseError,
    capture,
    config,
    describe,
    dtypes,
    strict_zip,
)
from pellucid._machine.ir import (
    Avals,
    ClosedJaxpr,
    Equation,
    HigherOrderPrimitive,
    Jaxpr,
    Literal,
    Operands,
    Primitive,
    Results,
    Role,
    ShapedArray,
    Slots,
    subjaxprs,
)
from pellucid._machine.tracing import bind, bottom, use_trace
from pellucid._machine.xla import ExtendedArray

from .interception import program_of
from .launches import Launch, Listener

_state = config.debug_key_reuse.state
_MAX_LOOP_WALKS = 2
"""Number of runs of a loop's body that are followed: the second run finds keys that the first one left used."""


def is_checking() -> bool:
    """Whether key uses are followed in this thread."""
    return _state.value


class Use(NamedTuple):
    """The place where a key was used."""

    name: str
    source: Any

    def __str__(self) -> str:
        place = describe(self.source)
        return f"`{self.name}`" if place is None else f"`{self.name}` in {place}"


class TrackedKey:
    """A key with its first use, or None; later keys have larger numbers."""

    __slots__ = ("number", "use")
    numbers = itertools.count()

    def __init__(self, use: Use | None = None) -> None:
        self.number = next(TrackedKey.numbers)
        self.use = use


Keys = np.ndarray[Any, Any]
"""The records of a key array: each element is a tuple of the keys that it may be, with one entry if known."""
Records = list[Keys | None]
"""The records of several values; None for values that aren't key arrays."""


def _records(elements: Iterable[tuple[TrackedKey, ...]], shape: Ints) -> Keys:
    return np.fromiter(elements, dtype=object).reshape(tuple(shape))


def _new(shape: Ints) -> Keys:
    """Records of new keys."""
    return _records(((TrackedKey(),) for _ in range(math.prod(shape))), shape)


def _new_of(avals: Avals) -> Records:
    """Records of new values with types `avals`."""
    return [_new(aval.shape) if _is_keys(aval) else None for aval in avals]


def _members(records: Iterable[Keys | None]) -> tuple[TrackedKey, ...]:
    """All keys that elements of the records may be, without repetitions."""
    arrays = (array for array in records if array is not None)
    return tuple({key: None for array in arrays for element in array.flat for key in element})


def _is_keys(aval) -> bool:
    return type(aval) is ShapedArray and isinstance(aval.dtype, dtypes.KeyDType)


def keys_of(x: Any) -> Keys | None:
    """The records of a key array, created if it has none; None for any other value."""
    if type(x) is not ExtendedArray:
        return None
    if x.uses is None:
        x.uses = _new(x.aval.shape)
    return x.uses


def note_use(name: str, x: ExtendedArray) -> None:
    """Record that `name` uses the keys `x`; raises KeyReuseError if one was used before."""
    _Walk().use(_members([keys_of(x)]), Use(name, capture()))


def follow_program(program: ClosedJaxpr, operands: Operands, *, knows_operands: bool) -> Records:
    """The records of a program's results; records its uses of `operands`.

    Elements selected at positions that are operands are known only if `knows_operands`; otherwise they may be any.

    Raises: KeyReuseError if it uses a key for the second time.
    """
    values = operands if knows_operands else ()
    return _Walk().through(program, [keys_of(x) for x in operands], values)


def follow_operation(primitive: Primitive[Any], params: Any, operands: Operands) -> Records:
    """Like `follow_program`, for one primitive."""
    return follow_program(program_of(primitive, params, operands), operands, knows_operands=True)


def remember(results: Results, records: Sequence[Keys | None]) -> None:
    """Attach records to results, for later uses as operands."""
    for x, keys in strict_zip(results, records):
        if type(x) is ExtendedArray:
            x.uses = keys


class KeyUses(Listener):
    """Follows keys through each call of a jitted function; the bottom trace follows operations one by one.

    Elements selected at positions that are operands aren't known, as in the function's program.
    """

    def hears(self, launch: Launch) -> bool:
        return _state.value and launch.traced is not None

    def around(self, launch: Launch, run: Callable[[], Results]) -> Results:
        program: Any = launch.traced
        operands = [*launch.closed_over, *launch.arguments]
        records = follow_program(program, operands, knows_operands=not launch.is_of_user)
        launch.needs_python = True
        results = run()
        remember(results, records)
        return results


class _Values:
    """The known values of a program: `inputs`, literals, and values computed from these."""

    def __init__(self, inputs: dict[Any, Any], jaxpr: Jaxpr | None = None) -> None:
        self._values = inputs
        equations = () if jaxpr is None else jaxpr.equations
        self._origins = {v: equation for equation in equations for v in equation.results}

    def of(self, atom: Any) -> Any:
        """The value of `atom`, or None."""
        if type(atom) is Literal:
            return atom.val
        if atom in self._values or atom not in self._origins:
            return self._values.get(atom)
        equation = self._origins[atom]
        operands = [self.of(x) for x in equation.operands]
        is_known = not equation.effects and all(x is not None for x in operands)
        results = _evaluate(equation, operands) if is_known else [None] * len(equation.results)
        self._values.update(strict_zip(equation.results, results))
        return self._values[atom]


def _evaluate(equation: Equation, operands: Operands) -> Results:
    """The results of an equation for `operands`, computed eagerly."""
    with use_trace(bottom()):
        return bind(equation.primitive, *operands, params=equation.params)


class _Walk:
    """One walk through a program. `used` lists the keys that it used, in order."""

    def __init__(self) -> None:
        self.used: list[TrackedKey] = []

    def use(self, keys: Sequence[TrackedKey], use: Use) -> None:
        """Record a use of `keys`; raises KeyReuseError if one was used before."""
        for key in keys:
            if key.use is not None:
                raise KeyReuseError(
                    f"`{use.name}` uses a random key for a second time.",
                    got=f"first used by {key.use}",
                    where=describe(use.source),
                    do="Split the key first, and use each new one once; `random.clone(key)` where the same numbers are meant.",
                )
        for key in keys:
            key.use = use
        self.used += keys

    def through(self, program: ClosedJaxpr, operands: Records, values: Operands = ()) -> Records:
        """The records of the results of `program`; `values` are its operands as far as known."""
        jaxpr = program.jaxpr
        consts = dict(strict_zip(jaxpr.constvars, program.consts))
        records: dict[Any, Keys | None] = {var: keys_of(x) for var, x in consts.items()}
        records |= strict_zip(jaxpr.invars, operands)
        constants = _Values(consts | dict(zip(jaxpr.invars, values, strict=False)), jaxpr)
        for equation in jaxpr.equations:
            atoms = equation.operands
            if not any(_is_keys(x.aval) for x in (*atoms, *equation.results)) and not subjaxprs(
                equation.params
            ):
                continue
            results = self.operation(equation, [records.get(x) for x in atoms], constants)
            records.update(strict_zip(equation.results, results))
        return [records.get(atom) for atom in jaxpr.outvars]

    def operation(self, equation: Equation, keys: Records, constants: _Values) -> Records:
        """The records of an equation's results, given those of its operands."""
        primitive, params = equation.primitive, equation.params
        results: list[Any] = [var.aval for var in equation.results]
        if isinstance(primitive, HigherOrderPrimitive) and (programs := subjaxprs(params)):
            is_repeated = getattr(params, "differentiated", False)
            slots = None if is_repeated else primitive.slots(params)
            if slots is not None:
                return self.of_slots(slots, keys, results)
            self.of_programs(programs, keys, is_repeated)
        elif primitive.traits.moves_keys and any(map(_is_keys, results)):
            return self.rearrange(equation, keys, constants, results)
        elif primitive.traits.keys == "used":
            self.use(_members(keys), Use(primitive.name, equation.source))
        return _new_of(results)

    def rearrange(
        self, equation: Equation, keys: Records, constants: _Values, results: Avals
    ) -> Records:
        """Rearranged keys: the primitive is run on their indices if its other operands are known."""
        arrays = [x for x in keys if x is not None]
        values = [
            constants.of(atom) if x is None else x
            for atom, x in strict_zip(equation.operands, keys)
        ]
        if any(value is None for value in values):
            choice = _members(arrays)
            return [
                _records(itertools.repeat(choice, aval.size), aval.shape)
                if _is_keys(aval)
                else None
                for aval in results
            ]
        elements = [element for array in arrays for element in array.flat]
        ends = np.cumsum([array.size for array in arrays])
        starts = iter([0, *ends])
        positions = [
            value
            if x is None
            else next(starts) + np.arange(x.size, dtype=np.int32).reshape(x.shape)
            for x, value in strict_zip(keys, values)
        ]
        records: Records = []
        for aval, result in strict_zip(results, _evaluate(equation, positions)):
            if not _is_keys(aval):
                records.append(None)
                continue
            places = np.asarray(result)
            self.check_distinct(elements, places, ends, equation)
            moved = (
                elements[i] if 0 <= i < len(elements) else (TrackedKey(),) for i in places.flat
            )
            records.append(_records(moved, aval.shape))
        return records

    def check_distinct(
        self, elements: Sequence[tuple[TrackedKey, ...]], places: Any, ends: Any, equation: Equation
    ) -> None:
        """Raise KeyReuseError if a key reaches two `places` from two operands; `ends` are the ends of their elements."""
        origins: dict[TrackedKey, int] = {}
        for i in np.unique(places):
            operand = int(np.searchsorted(ends, i, "right"))
            if 0 <= i < len(elements) and len(elements[i]) == 1:
                [key] = elements[i]
                if origins.setdefault(key, operand) != operand:
                    raise KeyReuseError(
                        f"`{equation.primitive.name}` joins a random key with itself.",
                        got=f"operands {origins[key]} and {operand} contain the same key",
                        where=describe(equation.source),
                        do="Split the key first; `random.clone(key)` where the same numbers are meant.",
                    )

    # Programs in params -------------------------------------------------------------------------------------

    def of_programs(self, programs: Sequence[Jaxpr], keys: Records, is_repeated: bool) -> None:
        """Follow programs whose inputs are parts of the operands, in an unknown way.

        If any of them uses a key, all keys among the operands count as used; not if their uses repeat earlier ones
        (`is_repeated`), as in the backward pass of `checkpoint`.
        """
        for program in programs:
            inputs = _new_of(program.in_avals)
            self.through(ClosedJaxpr(program), inputs)
            uses = [key.use for key in _members(inputs) if key.use]
            if uses and not is_repeated:
                self.use(_members(keys), uses[0])

    def of_slots(self, slots: Slots, keys: Records, results: Avals) -> Records:
        """Follow programs whose operands have known roles."""
        if slots.choosing:
            return self.of_branches(slots, keys)
        groups = slots.split(keys)
        rows = {
            i: groups[i] for i, group in enumerate(slots.operands) if group.role is Role.STACKED
        }
        parts: dict[int, Records] = {}
        first = next(TrackedKey.numbers)
        outs: list[Records] = [[None] * group.size for group in slots.results]
        for i, j in slots.carries:
            outs[j] = groups[i]
        n_walks = _MAX_LOOP_WALKS if slots.runs is None else min(slots.runs, _MAX_LOOP_WALKS)
        for _ in range(n_walks):
            parts = {i: [None if x is None else _new(x.shape[1:]) for x in rows[i]] for i in rows}
            for slot in slots.programs:
                values = self.through(
                    slot.program, slots.gather_inputs(slot, dict(enumerate(groups)) | parts)
                )
                for j, of_group in slots.group_results(slot, values):
                    outs[j] = of_group
            for i, j in slots.carries:
                groups[i] = outs[j]
        stacks: dict[TrackedKey, Any] = {}
        for i, arrays in parts.items():
            for part, row in strict_zip(arrays, rows[i]):
                if part is not None and row is not None and len(row):
                    self._use_rows(part, row)
                    stacks |= {key: row[:, *e] for e, (key,) in np.ndenumerate(part)}
        by_result = [(group, x) for group, out in strict_zip(slots.results, outs) for x in out]
        return [
            x
            if x is None or group.role is not Role.STACKED
            else _stack_records(x, aval, stacks, first)
            for (group, x), aval in strict_zip(by_result, results)
        ]

    def _use_rows(self, part: Keys, rows: Keys) -> None:
        """Mark the keys in `rows`, stacked operands, as used if the loop's body uses `part`, one of their rows."""
        for place, (key,) in np.ndenumerate(part):
            if key.use is not None:
                self.use(_members([rows[:, *place]]), key.use)

    def of_branches(self, slots: Slots, keys: Records) -> Records:
        """Follow the branches of which one runs: a key that any of them uses counts as used."""
        groups, start = slots.split(keys), len(self.used)
        uses: dict[TrackedKey, Use] = {}
        branches = []
        for slot in slots.programs:
            branches.append(self.through(slot.program, slots.gather_inputs(slot, groups)))
            for key in self.used[start:]:
                uses.setdefault(key, key.use)  # type: ignore[arg-type]
                key.use = None
            del self.used[start:]
        for key, use in uses.items():
            key.use = use
        self.used += uses
        return [_either(values) for values in strict_zip(*branches)]


def _either(branches: Sequence[Keys | None]) -> Keys | None:
    """The records of a result that comes from one of several branches."""
    arrays = [array for array in branches if array is not None]
    if not arrays:
        return None
    elements = strict_zip(*(array.flat for array in arrays))
    merged = (tuple(dict.fromkeys(itertools.chain(*same))) for same in elements)
    return _records(merged, arrays[0].shape)


def _stack_records(body: Keys, aval, rows: dict[TrackedKey, Any], first: int) -> Keys:
    """The records of `aval.shape[0]` results of a loop's body, stacked.

    Placeholders of keys in stacked operands are replaced by these keys (`rows`). Keys numbered from `first` on were
    created in the body, and are different in each run.
    """
    records = np.empty(aval.shape, dtype=object)
    for place, element in np.ndenumerate(body):
        for i in range(aval.shape[0]):
            keys = [
                rows[key][i]
                if key in rows
                else (key if key.number < first else TrackedKey(key.use),)
                for key in element
            ]
            records[i, *place] = tuple(itertools.chain(*keys))
    return records

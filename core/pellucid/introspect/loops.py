"""Compiled programs for parts of a loop: run to the carry of a given run, count the runs, or search runs for a
condition.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Hashable, Sequence
from typing import Any, NamedTuple

import numpy as np

from pellucid._machine.base import UnsupportedError
from pellucid._machine.checks.checkify import Errors, checked_program
from pellucid._machine.checks.notes import Checked
from pellucid._machine.checks.watch import Conditions
from pellucid._machine.higher_order.loops import fori_loop, while_loop
from pellucid._machine.ir import Avals, Operands, Role, Slot, Slots, Values, shaped_array
from pellucid._machine.primitives.creation import zeros
from pellucid._machine.primitives.logical import bitwise_or, gt
from pellucid._machine.primitives.slicing import dynamic_index_in_dim, dynamic_update_index_in_dim
from pellucid._machine.primitives.varying import vary
from pellucid._machine.tracing import replay, type_of
from pellucid._machine.transforms import Derived, cache_on_program, stage_open

from .mesh_positions import MeshPositions

__all__ = ["WINDOW_RUNS", "Conditions", "PartialLoop", "LoopSearch"]

WINDOW_RUNS = 1024
"""Number of runs of a loop that one call of a compiled program searches for a condition."""


class LoopSearch(NamedTuple):
    """Conditions on the values of a loop for which its runs are searched."""

    key: Hashable
    """Cache key of the compiled programs."""
    errors: Callable[[Operands], Errors]
    """Function from the traced `values` to the conditions, as categories of errors."""
    values: Operands = ()
    """Values from outside the loop that the conditions read, in the frames' form."""
    avals: Avals = ()
    """Types of `values`."""


class PartialLoop(NamedTuple):
    """The compiled programs for parts of a loop; within a `shard_map`, they run at all positions."""

    slots: Slots
    avals: tuple[Any, ...]
    """Types of the operands."""
    positions: MeshPositions | None = None

    @property
    def body(self) -> Slot:
        """The program that the loop repeats."""
        return next(slot for slot in self.slots.programs if not slot.is_predicate)

    @property
    def predicate(self) -> Slot | None:
        """The program that decides whether the loop continues; None for a scan."""
        return next((slot for slot in self.slots.programs if slot.is_predicate), None)

    def jumping(self) -> Derived:
        """The program from (run `a`, run `b`, operands with the carry before `a`) to the carry before `b`."""

        def jump(lower: Any, upper: Any, *operands: Any) -> Values:
            groups = self.slots.split(operands)

            def step(number: Any, carry: Values) -> Values:
                return self.carry_of(self._results_of(self.body, groups, number, carry))

            return fori_loop(lower, upper, step, self._carry_of(groups))

        return self._cached_program("jump", jump, 2)

    def counting(self) -> Derived:
        """The program from the operands of a loop to the number of its runs."""
        predicate = self.predicate
        assert predicate is not None

        def count(*operands: Any) -> Values:
            groups = self.slots.split(operands)

            def goes_on(number: Any, carry: Values) -> Any:
                [holds] = self._results_of(predicate, groups, number, carry)
                return ~holds if self.slots.ends else holds

            def step(state: Any) -> Any:
                number, carry, _ = state
                carry = self.carry_of(self._results_of(self.body, groups, number, carry))
                return number + 1, carry, goes_on(number, carry)

            carry = self._carry_of(groups)
            start = np.True_ if self.slots.ends else goes_on(np.int32(0), carry)
            return [while_loop(lambda state: state[2], step, (np.int32(0), carry, start))[0]]

        return self._cached_program("count", count, 0)

    def searching(self, search: LoopSearch) -> Derived:
        """The program from (run `a`, run `b`, values of the search, operands with the carry before `a`) to flags and a
        carry.

        The flags are booleans `[WINDOW_RUNS]`: whether a condition holds in each run from `a` to `b`. The carry is that
        before `b`.
        """
        n_values = len(search.avals)

        def run(lower: Any, upper: Any, *operands: Any) -> Values:
            errors = search.errors(operands[:n_values])
            groups = self.slots.split(operands[n_values:])
            body = checked_program(self.body.program.jaxpr, errors)
            predicate = self.predicate
            checked = predicate and checked_program(predicate.program.jaxpr, errors)
            missing = [
                e
                for each in errors
                if isinstance(each, Conditions)
                for e in each.unchecked_equations()
            ]
            if missing:
                raise UnsupportedError(
                    "a condition of the loop can't be computed while it runs.",
                    got=f"before `{missing[0].primitive.name}`",
                )

            def note_run(slot: Slot, program: Checked, number: Any, carry: Values) -> Any:
                inputs = self._inputs_of(slot, groups, number, carry)
                results = replay(program.program.jaxpr, (), *program.consts, *inputs)
                return gt(results[0], np.int32(0)), results[program.n_notes :]

            def step(number: Any, state: Any) -> Any:
                flags, carry = state
                holds, results = note_run(self.body, body, number, carry)
                after = self.carry_of(results)
                if predicate and checked and checked.sites:
                    tested = after if self.slots.ends else carry
                    holds = bitwise_or(note_run(predicate, checked, number, tested)[0], holds)
                return dynamic_update_index_in_dim(flags, holds, number - lower, 0), after

            flags = zeros(shaped_array((WINDOW_RUNS,), np.dtype(np.bool_), False))
            for level in self.positions.levels if self.positions else ():
                if level.params.check_vma:
                    flags = vary(flags, level.own_axes)
            flags, carry = fori_loop(lower, upper, step, (flags, self._carry_of(groups)))
            return [flags, *carry]

        return self._cached_program(("search", search.key), run, 2, search.avals)

    def element(self) -> Derived:
        """The program from (run, stacked operands) to the elements of these that the run reads."""
        types = (type_of(np.int32(0)), *self.stacked_operands(self.slots.split(self.avals)))

        def run(number: Any, *stacked: Any) -> Values:
            return self.elements(stacked, number, 0)

        return self._derive("element", run, types)

    def stacked_operands(self, groups: Sequence[Operands]) -> Values:
        """The operands of which each run reads one element."""
        pairs = zip(self.slots.operands, groups, strict=True)
        return [x for group, xs in pairs if group.role is Role.STACKED for x in xs]

    def with_elements(self, groups: Sequence[Operands], elements: Operands) -> list[Values]:
        """Groups of operands in which stacked operands are replaced by their elements for one run."""
        rest = iter(elements)
        return [
            [next(rest) for _ in xs] if group.role is Role.STACKED else [*xs]
            for group, xs in zip(self.slots.operands, groups, strict=True)
        ]

    def carry_of(self, results: Values) -> Values:
        """The carry among the results of the body."""
        groups = self.slots.group_results(self.body, results)
        return [x for i, xs in groups if self.slots.results[i].role is Role.CARRY for x in xs]

    def elements(self, values: Operands, number: Any, axis: int) -> Values:
        """The elements along `axis` of stacked values that run `number` reads."""
        index = (self.slots.runs or 0) - 1 - number if self.slots.is_reversed else number
        return [dynamic_index_in_dim(x, index, axis, False) for x in values]

    # ----------------------------------------------------------------------------------------------------------

    def _cached_program(
        self, name: Hashable, run: Callable[..., Values], n_bounds: int, avals: Avals = ()
    ) -> Derived:
        bounds = [type_of(np.int32(0))] * n_bounds
        return self._derive(name, run, (*bounds, *avals, *self.avals))

    def _derive(self, name: Hashable, run: Callable[..., Values], types: Avals) -> Derived:
        key = (name, self.slots.operands, self.slots.runs, self.slots.is_reversed, types)
        derive = lambda: Derived(*stage_open(run, types, None), ())
        scope = contextlib.nullcontext() if self.positions is None else self.positions.scope()
        with scope:
            return cache_on_program(self.body.program.jaxpr, key, derive)

    def _carry_of(self, groups: Sequence[Values]) -> Values:
        return [x for i, _ in self.slots.carries for x in groups[i]]

    def _inputs_of(
        self, slot: Slot, groups: Sequence[Values], number: Any, carry: Operands
    ) -> Values:
        """The inputs of one run of the body or the predicate, traced."""
        inputs = [*groups]
        for i, group in enumerate(self.slots.operands):
            if group.role is Role.CARRY:
                inputs[i] = [*carry]
            elif group.role is Role.STACKED:
                inputs[i] = self.elements(groups[i], number, 0)
        return self.slots.gather_inputs(slot, inputs)

    def _results_of(
        self, slot: Slot, groups: Sequence[Values], number: Any, carry: Operands
    ) -> Values:
        return replay(slot.program.jaxpr, (), *self._inputs_of(slot, groups, number, carry))

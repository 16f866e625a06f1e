"""Traits, the facts of a primitive that readers need: costs, checks, layouts, views."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from pellucid._machine.base.narrowing import is_tuple

from .avals import ShapedArray

Kind: TypeAlias = Literal[
    "contraction",
    "elementwise",
    "reduction",
    "movement",
    "indexing",
    "control",
    "collective",
    "random",
    "creation",
    "host",
    "custom",
]
"""The kind of work that a primitive does; views colour equations by it. `custom` is what a library defines."""


CountRule: TypeAlias = Callable[[Sequence[Any], Sequence[Any], Any], float]
"""(operand avals, result avals, params) -> number of operations of one run."""


Linear: TypeAlias = Literal["all", "each"] | tuple[int, ...]
"""`"all"`: linear in all operands that are not passive, jointly. `"each"`: in each of them, the others fixed
(multilinear). A tuple: in the operands at these positions, jointly, the others fixed."""


LinearRule: TypeAlias = Callable[[Sequence[Any], Any], Linear | None]
"""(operand avals, params) -> `Linear`, where linearity depends on dtypes or params."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Traits:
    """Facts about a primitive. The class of a family gives the default; a row states what differs."""

    kind: Kind
    flops: float | CountRule | None
    """Arithmetic operations: per result element, or a rule for one run; None where they are unknown.

    Where params hold the program that combines two elements, the number of its runs.
    """
    transcendentals: float | CountRule = 0.0
    """Transcendental functions, in the same form."""
    linear: Linear | LinearRule | None = None
    """Operands in which the primitive is linear; decides which of them may be `unreduced`."""
    passive: tuple[int, ...] | Literal["others"] = ()
    """Operands that select elements (indices, predicates): never differentiated, no part of `linear`.
    `"others"`: all that a `linear` of positions doesn't name."""
    makes_nan: bool = False
    """Whether results can be NaN where no operand is."""
    cheap: bool | Literal["if one operand is small"] = False
    """Whether recomputing the result takes no longer than reading it from memory; decides what is kept for the backward
    pass. Sums of two large operands are none: with them whole polynomials would move there, a tenth of a step."""
    touches: Literal["all", "part", "in place"] = "all"
    """Memory traffic: reads all of its operands, a part of the first, or updates the first in place."""
    equalizes: bool = False
    """Whether the result is the same on all devices along the collective's axes, unless it works within groups."""
    keys: Literal["new", "used", "moved"] | None = None
    """Random keys among the results: new ones, or those of the operands, moved. `"used"`: new ones, and those of the operands
    are used up. By default keys are moved where elements are."""
    returns_list: bool = False
    """Whether `bind` returns a list of results, also when there is one (`multiple_results`)."""

    def replace(self, **changes: Any) -> Traits:
        """These traits with some fields changed."""
        return dataclasses.replace(self, **changes)

    @property
    def moves_keys(self) -> bool:
        """Whether random keys among the results are those of the operands."""
        return self.keys == "moved" or (self.keys is None and self.kind in ("movement", "indexing"))

    def linear_for(self, avals: Sequence[Any], params: Any) -> Linear | None:
        """`linear` for operands of these types."""
        return self.linear(avals, params) if callable(self.linear) else self.linear

    def passive_operands(self, n_operands: int) -> tuple[int, ...]:
        """`passive` as positions among so many operands."""
        if self.passive != "others":
            return self.passive
        linear = self.linear if is_tuple(self.linear) else ()
        return tuple([i for i in range(n_operands) if i not in linear])

    def counts(
        self, operands: Sequence[Any], results: Sequence[Any], params: Any
    ) -> tuple[float | None, float | None]:
        """(arithmetic operations, transcendental functions) of one run; None where they are unknown.

        An operation on complex numbers counts as four.
        """
        flops, transcendentals = self.flops, self.transcendentals
        if flops is None:
            return None, None
        if callable(flops):
            flops = flops(operands, results, params)
        elif flops:
            flops *= sum(size_of(r) * real_operations(r) for r in results)
        if callable(transcendentals):
            transcendentals = transcendentals(operands, results, params)
        elif transcendentals:
            transcendentals *= sum(map(size_of, results))
        return flops, transcendentals


def size_of(aval: Any) -> float:
    """Number of elements; 0 for tokens and references."""
    return float(aval.size) if isinstance(aval, ShapedArray) else 0.0


def real_operations(aval: Any) -> float:
    """Number of real operations in one on elements of this type: 4 for complex ones, else 1."""
    return 4.0 if getattr(getattr(aval, "dtype", None), "kind", "") == "c" else 1.0


ARITHMETIC = Traits(kind="elementwise", flops=1.0)
"""One operation for each element of the result."""
CHEAP_ARITHMETIC = ARITHMETIC.replace(cheap=True)
"""Such an operation whose result is computed again rather than kept."""
TRANSCENDENTAL = Traits(kind="elementwise", flops=0.0, transcendentals=1.0, makes_nan=True)
"""One transcendental function for each element of the result."""
MOVEMENT = Traits(kind="movement", flops=0.0, linear="all")
"""Elements of the operands, or zeros, in another arrangement."""
INDEXING = Traits(kind="indexing", flops=0.0)
"""Elements at positions that are values."""
COLLECTIVE = Traits(kind="collective", flops=0.0, linear="all")
"""Elements move between devices."""
CONTROL = Traits(kind="control", flops=None, returns_list=True)
"""The programs among the params do the work."""
HOST = Traits(kind="host", flops=None, returns_list=True)
"""The host does the work."""

"""Traits: facts about primitives for costs, checks, shardings and views."""

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
"""The kind of a primitive, by which views colour equations. `custom` is for primitives that libraries define."""


CountRule: TypeAlias = Callable[[Sequence[Any], Sequence[Any], Any], float]
"""(operand avals, result avals, params) -> number of operations per run."""


Linear: TypeAlias = Literal["all", "each"] | tuple[int, ...]
"""`"all"`: linear in all operands that are not passive, jointly. `"each"`: in each of them, the others fixed
(multilinear). A tuple: in the operands at these positions, jointly, the others fixed."""


Parts: TypeAlias = Literal["factors", "first", "otherwise", "none"]
"""How XLA's partitioner divides an operation among devices. `"factors"`: along all dimensions whose factors have no mark against it.
`"first"`: of these, along those by which the first operand is cut; others are gathered. `"otherwise"`: by other exchanges than a plan
has, for factors that the results lack, for example by a gather of the results of parts. `"none"`: not at all, so that operands are gathered.
"""


PartsRule: TypeAlias = Callable[[Sequence[Any], Any], Parts]
"""(operand avals, params) -> `Parts`, if it depends on them."""


LinearRule: TypeAlias = Callable[[Sequence[Any], Any], Linear | None]
"""(operand avals, params) -> `Linear`, if linearity depends on dtypes or params."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Traits:
    """Facts about a primitive. The class of a family has defaults; a row overrides some."""

    kind: Kind
    flops: float | CountRule | None
    """FLOPs per result element, or a rule for one run; None if unknown.

    If params contain the program that combines two elements, it is the number of its runs.
    """
    transcendentals: float | CountRule = 0.0
    """Transcendental functions, in the same form as `flops`."""
    linear: Linear | LinearRule | None = None
    """Operands in which the primitive is linear; determines which may be `unreduced`."""
    passive: tuple[int, ...] | Literal["others"] = ()
    """Operands that select elements (indices, predicates): they are never differentiated, and not part of `linear`.
    `"others"`: all that a `linear` tuple doesn't list.
    """
    makes_nan: bool = False
    """Whether results can be NaN if no operand is."""
    cheap: bool | Literal["if one operand is small"] = False
    """Whether recomputing the result is as fast as reading it from memory; such results aren't saved for the backward
    pass. A sum of two large operands doesn't count: whole polynomials would be recomputed, which costs a tenth of a
    training step.
    """
    touches: Literal["all", "part", "in place"] = "all"
    """Memory traffic: reads all operands, reads a part of the first, or updates the first in place."""
    parts: Parts | PartsRule = "factors"
    """How XLA divides it among devices, for what plans of exchanges lack."""
    equalizes: bool = False
    """Whether the result is the same on all devices along the collective's axes, unless it has groups."""
    keys: Literal["new", "used", "moved"] | None = None
    """Random keys among the results: `"new"` ones, or those of the operands, `"moved"`. `"used"`: new ones, and those
    of the operands are consumed. By default, keys move if elements do.
    """
    returns_list: bool = False
    """Whether `bind` returns a list of results even if there is only one (`multiple_results`)."""

    def replace(self, **changes: Any) -> Traits:
        """These traits with some fields changed."""
        return dataclasses.replace(self, **changes)

    @property
    def moves_keys(self) -> bool:
        """Whether random keys among the results are keys of the operands."""
        return self.keys == "moved" or (self.keys is None and self.kind in ("movement", "indexing"))

    def parts_for(self, avals: Sequence[Any], params: Any) -> Parts:
        """`parts` for operands of these types."""
        return self.parts(avals, params) if callable(self.parts) else self.parts

    def linear_for(self, avals: Sequence[Any], params: Any) -> Linear | None:
        """`linear` for operands of these types."""
        return self.linear(avals, params) if callable(self.linear) else self.linear

    def passive_operands(self, n_operands: int) -> tuple[int, ...]:
        """`passive` as positions among `n_operands` operands."""
        if self.passive != "others":
            return self.passive
        linear = self.linear if is_tuple(self.linear) else ()
        return tuple([i for i in range(n_operands) if i not in linear])

    def counts(
        self, operands: Sequence[Any], results: Sequence[Any], params: Any
    ) -> tuple[float | None, float | None]:
        """(FLOPs, transcendental functions) of one run; None if unknown.

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
    """Number of real operations in an operation on an element of this type: 4 if it is complex, else 1."""
    return 4.0 if getattr(getattr(aval, "dtype", None), "kind", "") == "c" else 1.0


ARITHMETIC = Traits(kind="elementwise", flops=1.0)
"""One operation for each element of the result."""
CHEAP_ARITHMETIC = ARITHMETIC.replace(cheap=True)
"""Cheap elementwise arithmetic: the backward pass recomputes the result instead of saving it."""
TRANSCENDENTAL = Traits(kind="elementwise", flops=0.0, transcendentals=1.0, makes_nan=True)
"""One transcendental function for each element of the result."""
MOVEMENT = Traits(kind="movement", flops=0.0, linear="all")
"""Rearranges elements of the operands, or zeros."""
INDEXING = Traits(kind="indexing", flops=0.0)
"""Selects elements at positions that are operands."""
COLLECTIVE = Traits(kind="collective", flops=0.0, linear="all")
"""Moves elements between devices."""
CONTROL = Traits(kind="control", flops=None, returns_list=True)
"""Runs programs in the params."""
HOST = Traits(kind="host", flops=None, returns_list=True)
"""Runs on the host."""

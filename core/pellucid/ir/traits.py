"""Traits: facts about a primitive that its readers (costs, checks, layouts, views) need."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

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
]
"""The kind of work that a primitive does; views colour equations by it."""

FlopsFormula: TypeAlias = Callable[[Sequence[Any], Sequence[Any], Any], float]
"""(operand avals, result avals, params) -> number of operations of one run."""

Linear: TypeAlias = Literal["all", "each"] | tuple[int, ...]
"""`"all"`: linear in all operands that are not passive, jointly. `"each"`: in each of them, the others fixed
(multilinear). A tuple: in the operands at these positions, jointly, the others fixed."""

LinearRule: TypeAlias = Callable[[Sequence[Any], Any], "Linear | None"]
"""(operand avals, params) -> `Linear`, where linearity depends on dtypes or params."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Traits:
    """Facts about a primitive. The class of a family gives the default; a row states what differs."""

    kind: Kind = "elementwise"
    flops: float | FlopsFormula | None = 0.0
    """Operations per result element, a formula for one run, or None where they are unknown."""
    transcendental: bool = False
    """Whether `flops` counts transcendental functions instead of arithmetic operations."""
    linear: Linear | LinearRule | None = None
    """Operands in which the primitive is linear; decides which of them may be `unreduced`."""
    passive: tuple[int, ...] = ()
    """Operands that select elements (indices, predicates): never differentiated, no part of `linear`."""
    makes_nan: bool = False
    """Whether results can be NaN where no operand is."""
    cheap: bool | Literal["if one operand is small"] = False
    """Whether recomputing the result costs less than keeping it for the backward pass."""
    touches: Literal["all", "part", "in place"] = "all"
    """Memory traffic: reads all of its operands, a part of the first, or updates the first in place."""
    equalizes: bool = False
    """Whether the result is the same on all devices along the collective's axes."""
    returns_list: bool = False
    """Whether `bind` returns a list of results, also when there is one (`multiple_results`)."""

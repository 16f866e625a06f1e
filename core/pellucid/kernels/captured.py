"""References that a kernel uses from outside: inputs that all programs see whole, and results where programs write them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import compress, pairwise
from typing import Any, NamedTuple

from pellucid._machine.ir import ClosedJaxpr, Values, rearrange_program
from pellucid._machine.tracing import discharge_program, is_reference


class Captured(NamedTuple):
    """References from outside, and whether the kernel writes each of them."""

    references: Values
    is_written: list[bool]

    @property
    def written(self) -> Values:
        """Those that the kernel writes, in the order of their results."""
        return [*compress(self.references, self.is_written)]

    def aliases(self, n_inputs: int, n_results: int) -> dict[int, int]:
        """The input that each additional result begins as, after `n_inputs` inputs, scalars included, and `n_results` results."""
        inputs = compress(range(n_inputs, n_inputs + len(self.references)), self.is_written)
        return dict(enumerate(inputs, n_results))


def with_captured(
    body: ClosedJaxpr, consts: Values, n_front: int, n_results: int
) -> tuple[ClosedJaxpr, Values, Captured]:
    """(the body of a kernel, its constants, the references from outside), which are no constants any more.

    Between the constants and the references to results the body has `n_front` inputs: the position, traced bounds, and
    references to scalars and inputs. References from outside follow these; those that are written follow the `n_results`
    references to results, too.
    """
    places = [i for i, x in enumerate(consts) if is_reference(x)]
    rest = [i for i in range(len(consts)) if i not in places]
    if not places:
        return body, consts, Captured([], [])
    all_written = discharge_program(body.jaxpr).written
    is_written = [i in all_written for i in places]
    invars, start = body.jaxpr.invars, len(consts)
    ends = [start, start + n_front, start + n_front + n_results, len(invars)]
    front, results, behind = [range(a, b) for a, b in pairwise(ends)]
    # A reference that is written is the one to its result; in its place as an input is one that nobody reads.
    as_inputs: Sequence[Any] = [
        invars[i].aval if w else i for i, w in zip(places, is_written, strict=True)
    ]
    order = [*rest, *front, *as_inputs, *results, *compress(places, is_written), *behind]
    return (
        rearrange_program(body, order),
        [consts[i] for i in rest],
        Captured([consts[i] for i in places], is_written),
    )

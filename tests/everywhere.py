"""Compares calls eagerly, under jit, under vmap and in the reference: values, types, errors.

`corpus.numpy_calls` and `corpus.lax_calls` have the calls, `corpus.numpy_outcomes` evaluates them.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import pytest
from corpus import numpy_outcomes
from corpus.numpy_calls import Row
from corpus.numpy_outcomes import Failure, Value
from oracle import Oracle
from rotation import PARTS

import pellucid

TOLERANCES = {
    "float16": 4e-3, "bfloat16": 3e-2, "float32": 2e-5, "complex64": 2e-5, "float64": 1e-11, "complex128": 1e-11,
}  # fmt: skip


class Law:
    """Rows of one API, and those for which the reference gives something else.

    `function_of` returns the function that a row is about. `otherwise` maps patterns of rows to the reason why the
    reference's answer isn't wanted; `keeps_weak` is a pattern of rows whose weak types differ.
    """

    def __init__(
        self,
        rows: list[Row],
        function_of: Callable[[Row], Any],
        otherwise: Iterable[str],
        keeps_weak: str,
    ) -> None:
        self.rows = rows
        self.otherwise = tuple(otherwise)
        self.keeps_weak = keeps_weak
        self._firsts = [*{function_of(row): row for row in reversed(rows)}.values()]

    def rows_of(self, part: int, share: int) -> list[Row]:
        """One row in `share` of all."""
        return [row for row in self.rows if zlib.crc32(str(row).encode()) % share == part]

    def is_otherwise(self, row: Row) -> bool:
        """Whether the reference gives something else for `row`."""
        return any(re.match(pattern, str(row)) for pattern in self.otherwise)

    def check_types(self, oracle: Oracle, part: int, *, weak: bool) -> None:
        """Fail unless the types of results are the reference's; `weak` as in `numpy_outcomes.types`.

        Part 0 has the first row of each function, the others one row in 16.
        """
        rows = self.rows_of(part - 1, 16) if part else self._firsts
        rows = [row for row in rows if not self.is_otherwise(row)]
        if weak:
            rows = [row for row in rows if row.operands and not re.match(self.keeps_weak, str(row))]
        ours = numpy_outcomes.types(pellucid, rows, weak)
        theirs = oracle.call(numpy_outcomes.types, rows, weak, timeout=600)
        report([
            f"{row}\n    {our}\n    {their}"
            for row, our, their in zip(rows, ours, theirs, strict=True)
            if not (same_failure(our, their) if isinstance(their, Failure) else our == their)
        ])  # fmt: skip

    def check_values(self, oracle: Oracle, part: int, share: int) -> None:
        """Fail unless values and errors are the same in all modes, and the reference's.

        The first 8 parts share the first rows of functions, the others have one row in `share`.
        """
        rows = self._firsts[part::PARTS] if part < PARTS else self.rows_of(part - PARTS, share)
        ours = numpy_outcomes.results(pellucid, rows)
        pellucid.clear_caches()
        theirs = oracle.call(numpy_outcomes.answers, rows, timeout=600)
        differences = []
        for row, our, their in zip(rows, ours, theirs, strict=True):
            # What is known when programs run only, the reference refuses under jit, too.
            may_fail = same_failure(our.jit, their.jit)
            pairs = {
                "eager, jit": (our.eager, our.jit, may_fail),
                "eager, vmap": (our.eager, our.vmap, may_fail or not row.operands),
                "jit, the reference's": (our.jit, their.jit, self.is_otherwise(row)),
                "eager, the reference's": (our.eager, their.eager, self.is_otherwise(row)),
            }
            differences += [
                f"{row}: {names}: {difference}"
                for names, (a, b, allowed) in pairs.items()
                if not allowed and (difference := difference_of(a, b, names.endswith("vmap")))
            ]
        report(differences)


def parts(count: int) -> list[Any]:
    """The numbers of parts, which rotate: as many in each run."""
    return [pytest.param(i, marks=pytest.mark.rotates(i)) for i in range(count)]


def report(differences: list[str]) -> None:
    """Fail if there are differences, and show the first ones."""
    shown = "\n".join(differences[:20])
    assert not differences, f"{len(differences)} differences:\n{shown}"


def same_failure(ours: Any, theirs: Any) -> bool:
    """Whether both failed, and ours can be caught as theirs."""
    if not (isinstance(ours, Failure) and isinstance(theirs, Failure)):
        return False
    return theirs.builtins[0] in ours.builtins


def difference_of(a: list[Value] | Failure, b: list[Value] | Failure, batched: bool) -> str | None:
    """How two outcomes differ; None if they agree. Under vmap, leaves that are no arrays become such."""
    if isinstance(a, Failure) or isinstance(b, Failure):
        return None if same_failure(a, b) or same_failure(b, a) else f"\n    {a}\n    {b}"
    if batched and any(value.array is None for value in a):
        return None
    if [type_of(value) for value in a] != [type_of(value) for value in b]:
        return f"\n    {a}\n    {b}"
    for left, right in zip(a, b, strict=True):
        if left.array is not None and not same_numbers(left.array, right.array):
            return f"\n    {left.array.tolist()}\n    {right.array.tolist()}"
    return None


def type_of(value: Value) -> tuple[Any, ...]:
    weak = value.weak_type and value.dtype != "bool"
    return value.dtype, weak, value.text, None if value.array is None else value.array.shape


def same_numbers(a: np.ndarray, b: np.ndarray) -> bool:
    """Whether arrays of one dtype are equal: numbers to the dtype's tolerance, infinities and NaN exactly."""
    tolerance = TOLERANCES.get(str(a.dtype))
    if tolerance is None:
        return bool((a == b).all())
    if a.dtype.kind == "c":
        return same_numbers(a.real, b.real) and same_numbers(a.imag, b.imag)
    with np.errstate(all="ignore"):
        return np.allclose(a.astype(float), b.astype(float), tolerance, tolerance, equal_nan=True)

"""Public functions give the same eagerly, under jit, under vmap and in the reference: values, types, errors."""

from __future__ import annotations

import re
import zlib
from typing import Any

import numpy as np
import pytest
from corpus import numpy_calls as corpus, numpy_outcomes
from corpus.numpy_calls import Row
from corpus.numpy_outcomes import Failure, Value

import pellucid
import pellucid.numpy as jnp

OTHERWISE = {
    r"jnp\.heaviside\((2\.5|-1\.0|-1|0|2|300), x\)": "the reference's weak type depends on which operand is a scalar",
    r"jnp\.(nan)?(std|var)\(x, dtype='int16'\)": "an error here; there another one, or a variance cut to integers",
    r"jnp\.(nan)?arg(max|min)\(.*complex|jnp\.(nan)?arg(max|min)\(1j": "complex numbers are ordered; there an error",
    r"jnp\.atan2\(.*int": "the same as `arctan2`; there Python integers wrap to the other operand's dtype first",
    r"jnp\.kron\(x, y\) \| bool": "NumPy's product of bools; there an error",
    r"jnp\.round\(x, -1\) \| u?int": "NumPy's rounding to tens; there an error",
    r"jnp\.repeat\(x, jnp\.array\(\[1, 2, 3\]\), axis=1\)": "repeats that are known when tracing may be an array",
    r"jnp\.repeat\(x, \[2\], axis=1\)": "repeats may be a list, as NumPy's",
    r"jnp\.repeat\(x, y, axis=\d\) \| .* \| u?int": "a ValueError for negative repeats; there a TypeError",
    r"jnp\.(true_)?divide\(x, 0\) \| complex": "the same as eagerly; there all NaN under jit",
    r"jnp\.geomspace\(.*dtype='int.* x64": "whole numbers are exact; there rounding makes 8 into 7",
    r"jnp\.tri\(3, k=x\) \| float": "a ValueError for all numbers of diagonals; there a TypeError for `tri`",
    r"jnp\.power\((x, y|-?\d+, x)\) \| (u?int|bool)|-?\d+ \*\* x \| (u?int|bool)|x \*\* y \| (u?int|bool)":
        "powers wrap as NumPy's; there only six bits of the exponent count",
}  # fmt: skip
"""Rows, as patterns, for which the reference gives something else, and why that isn't wanted."""

KEEPS_WEAK = r"(jnp|x)\.(angle|around|deg2rad|degrees|full_like|heaviside|hypot|logaddexp2?|rad2deg|radians|round|sinc)\("
"""Functions whose results are weakly typed if all operands are; in the reference it depends on which are scalars."""

ONE_IN = 192
"""The share of a part: 32 parts evaluate one row in six; the types of all rows are compared."""
TOLERANCES = {
    "float16": 4e-3, "bfloat16": 3e-2, "float32": 2e-5, "complex64": 2e-5, "float64": 1e-11, "complex128": 1e-11,
}  # fmt: skip
ROWS = corpus.all_rows()


def function_of(row: Row) -> Any:
    """What a row is about: the first function that it calls, which may have several names; or its text."""
    name = next(iter(corpus.named(row)), "")
    module, name = (jnp.fft, name[4:]) if name.startswith("fft.") else (jnp, name)
    return getattr(module, name, row.text)


FIRST = {id(row) for row in {function_of(row): row for row in reversed(ROWS)}.values()}


def rows_of(part: int, share: int) -> list[Row]:
    """The rows that a test takes: the first one of each function in part 0, and in the others one in `share`."""
    if part == 0:
        return [row for row in ROWS if id(row) in FIRST]
    return [row for row in ROWS if zlib.crc32(str(row).encode()) % share == part - 1]


def parts(count: int) -> list[Any]:
    """The numbers of parts, of which all but the first rotate."""
    return [0, *(pytest.param(i, marks=pytest.mark.rotates) for i in range(1, count))]


def is_otherwise(row: Row) -> bool:
    return any(re.match(pattern, str(row)) for pattern in OTHERWISE)


def report(differences: list[str]) -> None:
    """Fail if there are differences, and show the first ones."""
    shown = "\n".join(differences[:20])
    assert not differences, f"{len(differences)} differences:\n{shown}"


def test_every_function_has_a_row() -> None:
    public = {
        f"{prefix}{name}"
        for prefix, module, names in (("", jnp, dir(jnp)), ("fft.", jnp.fft, jnp.fft.__all__))
        for name in names
        if not name.startswith("_") and callable(getattr(module, name))
    }
    types = {name for name in public if isinstance(getattr(jnp, name, None), type)}
    printing = {"get_printoptions", "printoptions", "set_printoptions"}  # NumPy's own
    called = {name for row in ROWS for name in corpus.named(row)}
    assert not public - types - printing - called


@pytest.mark.parametrize("part", parts(17))
def test_types_are_those_of_the_reference(oracle, part: int) -> None:
    rows = [row for row in rows_of(part, 16) if not is_otherwise(row)]
    compare_types(oracle, rows, weak=False)


@pytest.mark.parametrize("part", parts(17))
def test_types_of_weakly_typed_operands_are_those_of_the_reference(oracle, part: int) -> None:
    rows = [
        row
        for row in rows_of(part, 16)
        if row.operands and not is_otherwise(row) and not re.match(KEEPS_WEAK, str(row))
    ]
    compare_types(oracle, rows, weak=True)


def compare_types(oracle, rows: list[Row], *, weak: bool) -> None:
    """Fail unless the types of results are the reference's; `weak` as in `numpy_outcomes.types`."""
    ours = numpy_outcomes.types(pellucid, rows, weak)
    theirs = oracle.call(numpy_outcomes.types, rows, weak, timeout=600)
    report([
        f"{row}\n    {our}\n    {their}"
        for row, our, their in zip(rows, ours, theirs, strict=True)
        if not (same_failure(our, their) if isinstance(their, Failure) else our == their)
    ])  # fmt: skip


@pytest.mark.parametrize("part", parts(33))
def test_values_are_the_same_everywhere(oracle, part: int) -> None:
    rows = rows_of(part, ONE_IN)
    ours = numpy_outcomes.results(pellucid, rows)
    pellucid.clear_caches()
    theirs = oracle.call(numpy_outcomes.results, rows, "failing", timeout=600)
    differences = []
    for row, our, their in zip(rows, ours, theirs, strict=True):
        # What is known when programs run only, the reference refuses under jit, too.
        may_fail = same_failure(our.jit, their.jit)
        pairs = {
            "eager, jit": (our.eager, our.jit, may_fail),
            "eager, vmap": (our.eager, our.vmap, may_fail or not row.operands),
            "jit, the reference's": (our.jit, their.jit, is_otherwise(row)),
            "eager, the reference's": (our.eager, their.eager, is_otherwise(row)),
        }
        differences += [
            f"{row}: {names}: {difference}"
            for names, (a, b, allowed) in pairs.items()
            if not allowed and (difference := difference_of(a, b, names.endswith("vmap")))
        ]
    report(differences)


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

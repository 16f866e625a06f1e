"""Public functions give the same eagerly, under jit, under vmap and in the reference: values, types, errors."""

from __future__ import annotations

import re
from typing import Any

import pytest
from corpus import numpy_calls as corpus
from corpus.numpy_calls import Row
from everywhere import Law, parts

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
    r"jnp\.delete\(x, jnp\.array|jnp\.trim_zeros|jnp\.array_str": "what is known when tracing may be an array",
    r"(.*partition\(x|jnp\.(vander|polyadd|ediff1d|gradient|pad)\(x).* \| bool": "as NumPy; there errors, or weak types",
    r"jnp\.(interp|quantile|polyfit)\(x.* \| bfloat16": "as of other floating dtypes; there errors",
    r"jnp\.sort\(abs\(jnp\.roots\((.* \| bool|x\[:3\], strip_zeros=False)": "infinite coefficients after a leading 0",
    r"jnp\.polyfit\(.* \| (u?int|bool)|jnp\.(gcd|lcm)\(x.* \| bool": "as NumPy; there errors, or strong types",
    r"jnp\.logaddexp2?\(x, y\) \| .*complex|jnp\.logaddexp2?\(.*1j": "infinite with an infinite operand; there NaN",
    r"jnp\.fmod\((True|x), [xy]\) \| bool": "0 by False, as of integers; there True is left",
    r"jnp\.spacing\(x\) \| float16": "with the number's sign, and NaN of infinity, as NumPy's",
    r"jnp\.i0\(x\)": "infinite at infinity, as its limit; there NaN",
    r"jnp\.ravel_multi_index\(.*int8": "positions of 8 bits overflow there",
}  # fmt: skip
"""Rows, as patterns, for which the reference gives something else, and why that isn't wanted."""

KEEPS_WEAK = (
    r"(jnp|x|y)\.(angle|around|deg2rad|degrees|full_like|heaviside|hypot|logaddexp2?|rad2deg|radians|round|sinc)\(|"
    r"(x|y|jnp\.sort\(x, 0\)\[:, 0\])\.(argpartition|choose|compress|searchsorted|take)\(|"
    rf"(jnp\.sort\(|x\[)*jnp\.({'|'.join(corpus.composed())})\b"
)
"""Functions whose results are weakly typed if all operands are; in the reference it depends on which are scalars, or, of
functions composed of others, on how."""

ONE_IN = 192
"""The share of a part: 32 parts evaluate one row in six; the types of all rows are compared."""
REWRITTEN = (
    r"jnp\.(float_power|power)\(x, -1(\.0)?\) \| complex|"
    r"jnp\.power\(x, y\[0\]\) \| (bool.* int8|int64.* int64)"
)
"""Rows that differ eagerly, there as well: XLA divides 1 by `x` if it knows the exponent; negative ones are errors."""
ROWS = [row for row in corpus.all_rows() if not re.match(REWRITTEN, str(row))]


def function_of(row: Row) -> Any:
    """Subject of a row: the first function that it calls, which may have several names; or its text."""
    name = next(iter(corpus.named(row)), "")
    module, name = (jnp.fft, name[4:]) if name.startswith("fft.") else (jnp, name)
    return getattr(module, name, row.text)


LAW = Law(ROWS, function_of, OTHERWISE, KEEPS_WEAK)


def test_every_function_has_a_row() -> None:
    public = {
        f"{prefix}{name}"
        for prefix, module, names in (("", jnp, dir(jnp)), ("fft.", jnp.fft, jnp.fft.__all__))
        for name in names
        if not name.startswith("_") and callable(getattr(module, name))
    }
    types = {name for name in public if isinstance(getattr(jnp, name, None), type)}
    printing = {"array_repr", "get_printoptions", "printoptions", "set_printoptions"}  # NumPy's own
    files = {"load", "save", "savez"}  # examples in their docstrings
    called = {name for row in ROWS for name in corpus.named(row)}
    assert not public - types - printing - files - called


@pytest.mark.parametrize("part", [0, *parts(17)[1:]])
def test_types_are_those_of_the_reference(oracle, part: int) -> None:
    LAW.check_types(oracle, part, weak=False)


@pytest.mark.parametrize("part", [0, *parts(17)[1:]])
def test_types_of_weakly_typed_operands_are_those_of_the_reference(oracle, part: int) -> None:
    LAW.check_types(oracle, part, weak=True)


@pytest.mark.parametrize("part", parts(40))
def test_values_are_the_same_everywhere(oracle, part: int) -> None:
    LAW.check_values(oracle, part, ONE_IN)

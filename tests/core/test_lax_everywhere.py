"""Public functions of `lax` give the same eagerly, under jit, under vmap and in the reference: values, types, errors."""

from __future__ import annotations

import re
from typing import Any

import pytest
from corpus import lax_calls as corpus
from corpus.numpy_calls import Row
from everywhere import Law, parts

from pellucid import lax

OTHERWISE = {
    r"lax\.random_gamma_grad\(": "Python numbers are taken; there an AttributeError",
    r"lax\.igamma(c|_grad_a)?\(": "right at 0 and infinity, and to the last digits at 1000; there NaN, and four digits",
    r"lax\.arg(max|min)\(.*complex": "complex numbers are ordered; there an error",
    r"lax\.clamp\(.* \| bool": "bools are clamped; there not under quick compilation",
    r"lax\.clz\(-3\)": "0; there -32, which XLA folds",
    r"lax\.slice\(x, \(0, 3\), \(3, 5\)": "an error; there eager calls cut the bounds",
    r"lax\.padtype_to_pads\(.*EQUAL": "a ValueError; there a RuntimeError",
    r"lax\.reshape\(x, \(5,\)\)": "an error; there the wrong shape is found when it is compiled",
    r"lax\.cumlogsumexp\(.*int": "an error; there a logarithm cut to an integer",
    r"lax\.rng_bit_generator\((np.uint32\(\[1, 2\]\)|x)": "an error; there only when it is compiled",
    r"lax\.reduce(_window)?\(x, (0|0\.5|1), ": "Python numbers as initial values that the dtype can hold; there an error",
    r"lax\.scaled_dot\(.*complex": "an error; there imaginary parts are dropped",
    r"jax\.vmap\(lambda a: lax\.(ppermute|pbroadcast|pcast)\(": "taken under vmap; there an error",
}
"""Rows, as patterns, for which the reference gives something else, and why that isn't wanted."""

KEEPS_WEAK = r"lax\.(associative_scan|full_like|reduce_(and|or|xor)|reduce)\(|jax\.vmap\(lambda a: lax\.p(sum|max|min)\("
"""Rows whose results are weakly typed here if the operands are, and not in the reference, or the other way round."""

REWRITTEN = r"lax\.pow\(x, -1\) \| complex"
"""Rows of which compiled values differ from eager ones, there as well: XLA divides 1 by `x` if it knows the exponent."""
ROWS = [row for row in corpus.all_rows() if not re.match(REWRITTEN, str(row))]


def function_of(row: Row) -> Any:
    """The function that a row is about: the first function of `lax` that it calls."""
    return next(iter(corpus.named(row)))


LAW = Law(ROWS, function_of, OTHERWISE, KEEPS_WEAK)


def test_every_function_has_a_row() -> None:
    public = {
        name
        for name in dir(lax)
        if not name.startswith("_") and not name.endswith("_p") and callable(getattr(lax, name))
    }
    types = {name for name in public if isinstance(getattr(lax, name), type)}
    called = {name for row in ROWS for name in corpus.named(row)}
    assert public - types - called == {"DotDimensionNumbers"}  # an alias of types


@pytest.mark.parametrize("part", [0, *parts(17)[1:]])
def test_types_are_those_of_the_reference(oracle, part: int) -> None:
    LAW.check_types(oracle, part, weak=False)


@pytest.mark.parametrize("part", [0, *parts(17)[1:]])
def test_types_of_weakly_typed_operands_are_those_of_the_reference(oracle, part: int) -> None:
    LAW.check_types(oracle, part, weak=True)


@pytest.mark.parametrize("part", parts(40))
def test_values_are_the_same_everywhere(oracle, part: int) -> None:
    LAW.check_values(oracle, part, 32)

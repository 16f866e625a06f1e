"""Products, einsum and reductions give what the reference gives: values, dtypes, weak types, errors, programs."""

import re

import pytest
from corpus import numpy_expressions as corpus
from rotation import kind_of_types, rotating

import pellucid


def ids(value) -> str:
    """The text, or the types of the operands."""
    return value if isinstance(value, str) else " ".join(f"{x.dtype}{list(x.shape)}" for x in value)


def kind(case) -> tuple:
    """Function and kind of types of a case in a grid: the first case of each kind is in every run."""
    text, operands = case
    return text.partition("(")[0], kind_of_types(x.dtype for x in operands)


ROWS = [
    *rotating([*corpus.PRODUCTS, *corpus.EINSUMS, *corpus.REDUCTIONS, *corpus.POSITIONS], kind),
    *corpus.BAD_EINSUMS,
    *corpus.TRANSFORMED,
    *corpus.PYTHON_NUMBERS,
]


@pytest.mark.parametrize(("text", "operands"), ROWS, ids=ids)
def test_agrees_with_the_reference(oracle, text, operands) -> None:
    fails = corpus.named(text, operands) in corpus.FAILING
    oracle.check(corpus.evaluate, text, *operands, library=pellucid, fails=fails)


def in_one_line(text: str) -> str:
    """A program's text without its layout, and without NumPy's types of integers."""
    text = re.sub(r"np\.int64\((-?\d+)\)", r"\1", text)
    return re.sub(r"\s+", " ", text).replace("[ ", "[").replace(" ]", "]").strip()


# Of these the reference makes programs within programs.
CALLS = ("jax.", "kron", "matvec", "vecmat", "[1, 2]")
PLAIN = [
    (text, operands)
    for text, operands in [*corpus.PRODUCTS, *corpus.EINSUMS]
    if operands and not any(name in text for name in CALLS)
]


@pytest.mark.parametrize(
    ("text", "operands"), [*rotating(PLAIN, kind), *corpus.TRANSFORMED], ids=ids
)
def test_programs_of_products_are_those_of_the_reference(oracle, text, operands) -> None:
    if oracle.run(corpus.evaluate, text, *operands).failure is not None:
        return  # an error, and the test above compares it
    theirs = oracle.call(corpus.program_text, text, *operands)
    assert in_one_line(corpus.program_text(pellucid, text, *operands)) == in_one_line(theirs)

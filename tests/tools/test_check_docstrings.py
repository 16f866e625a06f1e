"""The check of docstrings sees what one lacks, and nothing in one that is whole."""

import pytest

from tools.check_docstrings import lacks

WHOLE = """Sine of `x`, in radians.

Result: shape of `x`, floating or complex.
Raises: ArgumentTypeError for lists.

>>> sin(0.0)
"""


@pytest.mark.parametrize(
    ("docstring", "lacking"),
    [
        (WHOLE, []),
        (WHOLE.partition(">>>")[0], ["no example"]),
        (WHOLE.replace("shape of", "like"), ["no shape or dtype of its result"]),
        (WHOLE.replace("Raises", "See"), ["no error that it raises"]),
    ],
)
def test_what_a_docstring_lacks_is_named(docstring: str, lacking: list[str]) -> None:
    assert lacks(docstring, of_arrays=True) == lacking


def test_functions_that_take_no_arrays_need_an_example_only() -> None:
    assert lacks("Number of processes.", of_arrays=False) == ["no example"]

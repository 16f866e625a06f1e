"""Functions of `image` and `scipy` give what the reference's give."""

from __future__ import annotations

import builtins

import numpy as np
import pytest
from corpus import scipy_expressions as corpus
from rotation import rotating

import pellucid as pl
from pellucid.base.errors import ArgumentValueError, ShapeError

TOLERANCES = {"bfloat16": 2e-2, "float16": 2e-3}


def function(text: str) -> str:
    """The function that an expression calls first."""
    return text.partition("(")[0]


@pytest.mark.parametrize(
    "text", rotating([(text,) for text in corpus.TEXTS], lambda case: function(case[0]))
)
def test_values_and_types_are_those_of_the_reference(oracle, text) -> None:
    [expected] = oracle.call_each(corpus.answers, [text])
    if isinstance(expected, str):
        with pytest.raises(getattr(builtins, expected)):
            corpus.evaluate(pl, text)
        return
    [ours] = corpus.answers(pl, [text])
    assert not isinstance(ours, str), ours
    assert [leaf[:2] for leaf in ours] == [leaf[:2] for leaf in expected]
    for (dtype, _, a), (_, _, b) in zip(ours, expected, strict=True):
        tolerance = TOLERANCES.get(dtype, 1e-4)
        largest = np.max(np.abs(b), initial=0.1, where=np.isfinite(b))
        np.testing.assert_allclose(a, b, tolerance, 0.1 * tolerance * largest)


@pytest.mark.parametrize(
    ("call", "error"),
    [
        ("RegularGridInterpolator((np.arange(3.0), np.arange(2.0)), np.ones((2, 3)))", ShapeError),
        ("RegularGridInterpolator((np.array([0.0, 2.0, 1.0]),), np.ones(3))", ArgumentValueError),
        ("RegularGridInterpolator((np.arange(3.0),), np.ones(3))(np.ones((3, 2)))", ShapeError),
    ],
)
def test_errors_of_grids(call, error) -> None:
    with pytest.raises(error):
        eval(f"interpolate.{call}", {"np": np, "interpolate": pl.scipy.interpolate})

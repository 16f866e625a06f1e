"""Functions of `image` and `scipy` give what the reference's give."""

from __future__ import annotations

import numpy as np
import pytest
from agreement import assert_agrees, called
from corpus import scipy_expressions as corpus
from rotation import rotating

import pellucid as pl
from pellucid._machine.base.errors import ArgumentValueError, ShapeError

TOLERANCES = {"bfloat16": 2e-2, "float16": 2e-3}


def closeness(dtype: str, expected: np.ndarray) -> tuple[float, float]:
    """Tolerances by dtype, the absolute one by the largest element."""
    tolerance = TOLERANCES.get(dtype, 1e-4)
    return tolerance, 0.1 * tolerance * np.max(
        np.abs(expected), initial=0.1, where=np.isfinite(expected)
    )


@pytest.mark.parametrize(
    "text", rotating([(text,) for text in corpus.TEXTS], lambda case: called(case[0]))
)
def test_values_and_types_are_those_of_the_reference(oracle, text) -> None:
    assert_agrees(oracle, corpus, text, closeness)


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

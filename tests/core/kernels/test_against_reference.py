"""Kernels give what the reference's interpreter gives, samples by name and random ones."""

import numpy as np
import pytest
from corpus import kernels as corpus
from rotation import rotating

import pellucid as pl

N_RANDOM, N_ACCESS = 250, 250
NUMBERS = [*range(N_RANDOM), *[corpus.SECOND + i for i in range(N_ACCESS)]]
ROWS = [(sample.__name__,) for sample in corpus.SAMPLES] + [(i,) for i in NUMBERS]


def kind(row):
    """Every run takes all samples, and one random kernel of each sort in eight."""
    return row[0] if isinstance(row[0], str) else f"random {row[0] // corpus.SECOND}"


@pytest.mark.parametrize("which", rotating(ROWS, kind))
def test_results_are_those_of_the_reference(oracle, which):
    [expected] = oracle.call_each(corpus.answers, [which])
    ours = corpus.answer(pl, which)
    assert [x.dtype for x in ours] == [x.dtype for x in expected]
    for x, y in zip(ours, expected, strict=True):
        np.testing.assert_array_equal(x, y)

"""Kernels give what the reference's interpreter gives, samples by name and random ones."""

import numpy as np
import pytest
from corpus import kernels as corpus
from rotation import rotating

import pellucid as pl

N_RANDOM = 200
ROWS = [(sample.__name__,) for sample in corpus.SAMPLES] + [(i,) for i in range(N_RANDOM)]


def kind(row):
    """Every run takes all samples, and one random kernel in eight."""
    return row[0] if isinstance(row[0], str) else "random"


@pytest.mark.parametrize("which", rotating(ROWS, kind))
def test_results_are_those_of_the_reference(oracle, which):
    [expected] = oracle.call_each(corpus.answers, [which])
    ours = corpus.answer(pl, which)
    assert [x.dtype for x in ours] == [x.dtype for x in expected]
    for x, y in zip(ours, expected, strict=True):
        np.testing.assert_array_equal(x, y)

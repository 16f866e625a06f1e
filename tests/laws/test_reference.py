"""Results agree with NumPy and SciPy."""

from typing import Any

import numpy as np
import pytest

from tests.laws.compare import assert_close
from tests.laws.sample import Sample, all_samples


@pytest.mark.parametrize("sample", [s for s in all_samples() if s.reference is not None], ids=str)
def test_results_agree_with_the_reference(sample: Sample, compiled: list[Any]) -> None:
    arguments = [wide(x) for x in sample.arguments]
    with np.errstate(all="ignore"):
        expected = sample.reference(*arguments)
    expected = expected if isinstance(expected, (list, tuple)) else [expected]
    assert len(compiled) == len(expected)
    for i, (got, want) in enumerate(zip(compiled, expected, strict=True)):
        assert_close(got, want, sample.tolerance, f"result {i}")


def wide(x):
    """Floating operands in double precision; the others as they are."""
    if not isinstance(x, np.ndarray) or x.dtype.kind in "biu":
        return x
    return x.astype(np.complex128 if x.dtype.kind == "c" else np.float64)

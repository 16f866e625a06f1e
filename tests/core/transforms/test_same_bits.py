"""Programs that both libraries lower to the same StableHLO give the same bits."""

import numpy as np
import pytest
from corpus import lowered

import pellucid


@pytest.mark.rotates
def test_equal_programs_give_equal_bits(oracle):
    ours, theirs = lowered.texts(pellucid), oracle.call(lowered.texts)
    equal = {name for name, text in ours.items() if theirs.get(name) == text}
    assert len(equal) >= 60
    mine, expected = lowered.results(pellucid, equal), oracle.call(lowered.results, equal)
    for name in equal:
        for index, (x, y) in enumerate(zip(mine[name], expected[name], strict=True)):
            assert x.dtype == y.dtype
            np.testing.assert_array_equal(x, y, err_msg=f"{name}, leaf {index}", strict=True)

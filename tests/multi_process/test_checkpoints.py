"""Arrays over several processes in files: each process writes and reads its part."""

import checkpoints
import numpy as np
import pytest
from launcher import launch, results

pytestmark = pytest.mark.multi_process


def test_processes_write_their_shards_and_read_them_in_another_layout(tmp_path):
    pytest.importorskip("tensorstore")
    actual = results(launch("written_and_read", 2, module="checkpoints", folder=str(tmp_path)))
    starts = set()
    for parts, _, error in actual:
        assert "shape" in error  # of the array that is there
        for added, rows in enumerate(parts):
            for start, values in rows:
                starts.add(start)
                np.testing.assert_array_equal(values, checkpoints.X[start : start + 2] + added % 3)
    assert starts == {0, 2, 4, 6}
    assert [callers for _, callers, _ in actual] == [[0], []]

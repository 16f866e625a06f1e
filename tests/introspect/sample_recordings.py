"""Sample recordings of debugged runs."""

from __future__ import annotations

from pellucid.introspect.schema import SourceRecord
from pellucid_kernel.debug.schema import (
    RecordedFrameColumns,
    RecordedValueColumns,
    RecordingRecord,
)

CELL = """\
def layer(w, x):
    h = x @ w
    return jnp.tanh(h)

layer(w, x)"""


def run() -> RecordingRecord:
    """Two lines of a function, and the line that calls it."""
    return RecordingRecord(
        function="layer",
        sources=[
            SourceRecord(
                name="In[3]", path="<ipython-input-3>", cell_id="a4f1", execution_count=3,
                first_line=1, lines=[*CELL.splitlines()],
            ),
            SourceRecord(
                name="<b>model.py</b>", path="model.py", cell_id=None, execution_count=None,
                first_line=40, lines=None,
            ),
        ],
        frames=RecordedFrameColumns(
            function=["<module>", "layer", "layer", "Model.step"],
            source=[0, 0, 0, 1],
            line=[5, 2, 3, 42],
            run=["", "(iteration 1 of 3)", "", ""],
        ),
        values=RecordedValueColumns(
            name=["x", "w", "h"],
            text=["f32[1,2] [[0.5 -1. ]]", "f32[2,2] in [0, 1.1]", "f32[1,2] [[ 1. <i>-2</i>]]"],
        ),
        stacks=[[3, 0], [3, 0, 1], [3, 0, 2]],
        variables=[[[], [0, 1]], [[], [0, 1], [0, 1]], [[], [0, 1], [0, 1, 2]]],
        results=["f32[1,2] [[ 0.76 -0.96]]"],
        is_cut=True,
    )  # fmt: skip


def empty() -> RecordingRecord:
    """A run in which no line of the user computes anything."""
    return RecordingRecord(
        function="nothing", sources=[], stacks=[], variables=[], results=[], is_cut=False,
        frames=RecordedFrameColumns(function=[], source=[], line=[], run=[]),
        values=RecordedValueColumns(name=[], text=[]),
    )  # fmt: skip

"""Sample facts of a session: live arrays, a function's programs, why it compiled again, an error."""

from __future__ import annotations

from pellucid.introspect.schema import (
    DeviceMemoryRecord,
    DifferenceRecord,
    ErrorFrameRecord,
    ErrorRecord,
    FunctionEntryRecord,
    FunctionRecord,
    LiveArrayRecord,
    MemoryRecord,
    MissCauseRecord,
    MissesRecord,
    MissRecord,
    PhaseRecord,
    SourceRecord,
)

SOURCE = SourceRecord(
    name="In[3]", path="/tmp/In[3].py", cell_id="c3", execution_count=3, first_line=1,
    lines=["@pl.jit", "def step(params, x):", "    return params @ x  # <b>no markup</b>"],
)  # fmt: skip


def memory(count: int = 3) -> MemoryRecord:
    """Arrays on two devices, one of which has a limit."""
    devices = [
        DeviceMemoryRecord(
            device_id=i, process_index=0, platform="cpu", device_kind="cpu", in_use_bytes=4096 * (i + 1), peak_bytes=None,
            limit_bytes=None if i else 1 << 20, basis="estimate",
        )
        for i in range(2)
    ]  # fmt: skip
    arrays = [
        LiveArrayRecord(
            id=i, type="f32[32,32]", sharding="P('x',)", device_ids=[0, 1], bytes_per_device=2048, total_bytes=4096,
            owners=[f"params['layer{i}'].w"], holders=["sys.last_traceback"] if i else [], source="In[3]", line=3, age_s=1.5 * i,
        )
        for i in range(count)
    ]  # fmt: skip
    return MemoryRecord(devices=devices, arrays=arrays)


def miss(function: str = "step", entry_count: int = 2) -> MissRecord:
    """An argument that came with another shape."""
    cause = MissCauseRecord(
        part="shape",
        path="params['w']",
        before="f32[8]",
        after="f32[16]",
        advice="Pad to one size.",
    )
    phases = [
        PhaseRecord(name="trace", seconds=0.25),
        PhaseRecord(name="compile", seconds=1.5),
    ]
    return MissRecord(
        function=function, source=SOURCE, line=2, cell="In[4]", entry_count=entry_count, seconds=1.75, phases=phases,
        causes=[cause],
    )  # fmt: skip


def misses() -> MissesRecord:
    """Two functions that compiled again."""
    return MissesRecord(misses=[miss(), miss("loss", 3)])


def function() -> FunctionRecord:
    """A function with two programs."""
    entries = [
        FunctionEntryRecord(
            id=i, arguments=[f"params['w']: f32[{8 << i}]", "n: 2"], equation_count=12, executable_count=i,
            miss=miss() if i else None,
        )
        for i in range(2)
    ]  # fmt: skip
    return FunctionRecord(
        id=1,
        name="step",
        source=SOURCE,
        line=2,
        entries=entries,
        signature="(params, x, n=2), static n",
    )


def error() -> ErrorRecord:
    """Arguments whose shapes don't fit, in a function of a cell."""
    frame = ErrorFrameRecord(
        source=SOURCE, line=3, end_line=3, column=11, end_column=21, function="step"
    )
    difference = DifferenceRecord(
        path="params['w']", left_title="got", left="f32[8]", right_title="expected", right="f32[16]"
    )
    return ErrorRecord(
        name="ShapeError", what="matmul needs dimensions that fit.", got=["params['w']: f32[8]", "x: f32[16]"],
        differences=[difference], where="In[3], line 3", do="Transpose `x`.", page=None, frames=[frame],
        traceback="Traceback (most recent call last):\n  …\nShapeError: matmul needs dimensions that fit.",
    )  # fmt: skip

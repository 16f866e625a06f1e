"""Sample sessions of the profiler, made from columns: the same in every run."""

from __future__ import annotations

import numpy as np

from pellucid.introspect.schema import SourceRecord
from pellucid_profiler.callbacks import CallbackRow
from pellucid_profiler.calls import HostSpans, LaunchColumns
from pellucid_profiler.collectives import Collectives
from pellucid_profiler.comparison import Comparison
from pellucid_profiler.compilations import Compilation
from pellucid_profiler.counters import IN_USE, Counters
from pellucid_profiler.live_arrays import HeapRow, LiveArrays
from pellucid_profiler.live_buffers import LiveBuffer, ProgramMemory
from pellucid_profiler.operations import Operations
from pellucid_profiler.peaks import Peaks
from pellucid_profiler.session import Session
from pellucid_profiler.sources import InstructionInfo, ProgramInfo, Share, SourceLine
from pellucid_profiler.transfers import Transfer
from pellucid_profiler.xspace import Column

CELL = "/tmp/ipykernel_1/123.py"
TEXT = """%%profile
def layer(x, w):
    y = jnp.tanh(x @ w)  # <b>no markup</b>
    return y + x

def loss(w, x):
    return layer(layer(x, w), w).mean()

for _ in range(10):
    w = w - rate * pl.grad(loss)(w, x)"""
CATEGORIES = ("library", "fusion", "copy", "collective", "other")


def session(n_instructions: int = 12, n_runs: int = 10, n_devices: int = 2) -> Session:
    """A session with runs of one program on some devices, one after the other; instructions take 1 to 5 µs."""
    names = ["PjitFunction(step)", *(f"op.{i}" for i in range(n_instructions))]
    infos = {name: _info(i, name) for i, name in enumerate(names[1:])}
    n = n_instructions * n_runs * n_devices
    run, device, instruction = (
        np.ascontiguousarray(each.reshape(-1))
        for each in np.meshgrid(
            np.arange(n_runs), np.arange(n_devices), np.arange(n_instructions), indexing="ij"
        )
    )
    lengths = 1000 * (1 + instruction % 5)
    of_run = 1000 * (1 + np.arange(n_instructions) % 5)
    begins = np.r_[0, np.cumsum(of_run)]
    run_ns = int(begins[-1]) + 5000
    start = run * run_ns + begins[instruction] + 1000 * device
    zeros = np.zeros(n, np.int64)
    order = np.argsort(start, kind="stable")
    instruction, run, device, start, end = (
        column[order] for column in (instruction + 1, run, device, start, start + lengths)
    )
    operations = Operations(zeros, instruction, zeros, run, device, device, start, end, zeros)
    calls = np.arange(n_runs)
    call_start, call_end = calls * run_ns, calls * run_ns + 3000
    none = np.zeros(n_runs, np.int64)
    return Session(
        names=names,
        threads=["python", "tf_PjRtCompilerThreadPool/1", "tf_xla-cpu-codegen/2"],
        programs={0: ProgramInfo("jit_step", infos)},
        operations=operations,
        calls=LaunchColumns(none, none, call_start, call_end, calls),
        spans=_spans(names, call_start, call_end),
        collectives=_collectives(operations, n_devices),
        compilations=[
            Compilation("step", CELL, 10, 0.004, 0.03, 0.18, 2, ["x: f32[8,4] -> f32[9,4]"]),
            Compilation("<b>f</b>", "", 0, 0.001, 0.01, 0.04, 1, []),
        ],
        transfers=[
            Transfer(1000 * i, "host_to_device", 4_000_000, SourceLine(CELL, 9, "<module>"))
            for i in range(n_runs)
        ],
        callbacks=[CallbackRow("log_loss", SourceLine(CELL, 6, "log_loss"), 3, 0.002, 2)]
        if n
        else [],
        live_arrays=_live_arrays(n_runs * run_ns) if n else LiveArrays.none(),
        heap=_heap() if n else [],
        counters=_counters(names, n_runs * run_ns) if n else Counters.none(),
        remarks=["The ends of 2 operations were not recorded."] if n else [],
        memory={0: _memory()} if n else {},
        peaks=Peaks("cpu, 2 cores", 2e11, 2e10),
        begin_unix_ns=0,
        wall_ns=n_runs * run_ns + 300_000_000,
        sources={CELL: _source(CELL, "In[3]")} if n else {},
    )


def _spans(names: list[str], call_start: Column, call_end: Column) -> HostSpans:
    """Those of the calls, and of a compilation with a pass, a kernel and machine code; adds their names."""
    compiled = [
        ("PjRtCpuClient::Compile", 1, 0, 200, ""),
        ("fusion", 1, 10, 60, ""),
        ("CpuCompiler::RunBackend", 1, 60, 195, "jit_step"),
        ("Codegen", 1, 100, 190, ""),
        ("FusionCompiler::Compile", 2, 65, 90, "__compute_module_op.1"),
        ("TaskDispatcher::dispatch", 2, 100, 190, ""),
    ]
    count = len(call_start)
    name, thread, start, end, detail = (np.zeros(count, np.int64) for _ in range(5))
    start[:], end[:], detail[:] = call_start, call_end, -1
    if not count:
        return HostSpans(name, thread, start, end, detail)
    rows: list[list[int]] = []
    for text, number, begin, over, module in compiled:
        names.append(text)
        rows.append([len(names) - 1, number, begin * 10**6, over * 10**6, -1])
        if module:
            names.append(module)
            rows[-1][-1] = len(names) - 1
    more = np.array(rows, np.int64).T
    return HostSpans(
        *map(np.concatenate, zip((name, thread, start, end, detail), more, strict=True))
    )


def _live_arrays(end_ns: int) -> LiveArrays:
    """Arrays that grow by a megabyte from sample to sample, but for one."""
    n_bytes = 10**6 * np.array([4, 5, 6, 12, 8, 9])
    return LiveArrays(np.linspace(0, end_ns, 6).astype(np.int64), n_bytes, n_bytes // 10**6)


def _counters(names: list[str], end_ns: int) -> Counters:
    """Power and memory of a GPU; adds their names."""
    names += ["power (W)", IN_USE]
    times = np.linspace(0, end_ns, 8).astype(np.int64)
    rising = 1.0 + np.arange(8) % 3
    name = np.repeat([len(names) - 2, len(names) - 1], 8)
    return Counters(
        name, np.zeros(16, np.int64), np.r_[times, times], np.r_[300 * rising, 4e9 * rising]
    )  # fmt: skip


def _heap() -> list[HeapRow]:
    """Lines that made arrays: one that keeps its array, one that makes more and more, and none of the user's."""
    return [
        HeapRow(SourceLine(CELL, 9, "<module>"), 4_000_000, 8_000_000, 4_000_000, 1),
        HeapRow(SourceLine(CELL, 10, "<module>"), 0, 4_000_000, 5_000_000, 5),
        HeapRow(None, 0, 0, 1000, 1),
    ]


def _memory() -> ProgramMemory:
    """A program that holds most in its middle."""
    buffers = [
        LiveBuffer("op.0", "argument", 4_000_000),
        LiveBuffer("op.3", "temporary", 3_000_000),
        LiveBuffer("op.1", "result", 1_000_000),
    ]
    live = [4_000_000, 5_000_000, 5_000_000, 8_000_000, 8_000_000, 5_000_000]
    return ProgramMemory([f"op.{i}" for i in range(6)], live, 3, buffers, 8_500_000)


def _collectives(operations: Operations, n_devices: int) -> Collectives:
    """All devices meet in each collective; the last one comes so much later as it began."""
    rows = np.flatnonzero((operations.instruction - 1) % 5 == CATEGORIES.index("collective"))
    _, meeting = np.unique(
        operations.run[rows] * 100_000 + operations.instruction[rows], return_inverse=True
    )
    late = n_devices - 1 - operations.device[rows]
    return Collectives(rows, meeting.reshape(-1), 1000 * late // 2, (late == 0).astype(np.int64))


def comparison() -> Comparison:
    """The sample session and one whose second line takes twice as long."""
    before, after = session(), session()
    slow = np.isin(after.operations.instruction, [1, 3])
    after.operations.end_ns = after.operations.end_ns + np.where(slow, 3000, 0)
    return before.diff(after)


def empty() -> Session:
    """A session in which nothing ran."""
    nothing = session(0, 0, 0)
    nothing.compilations = []
    return nothing


def _source(path: str, name: str) -> SourceRecord:
    return SourceRecord(
        name=name,
        path=path,
        cell_id=None,
        execution_count=3,
        first_line=1,
        lines=[*TEXT.split("\n")],
    )


def _info(i: int, name: str) -> InstructionInfo:
    """Every fifth one is a fusion of two lines, and the last of five has none."""
    category = CATEGORIES[i % 5]
    scope = "jit(step)/transpose(jvp(loss))" if i % 3 == 2 else f"jit(step)/jvp(loss)/block{i % 4}"
    place = SourceLine(CELL, 3 if i % 2 else 4, "layer")
    shares = [Share(place, scope, "dot_general", i, 1.0)]
    if category == "fusion":
        other = Share(SourceLine(CELL, 7, "loss"), scope, "mul", 10_000 + i, 0.25)
        shares = [shares[0]._replace(share=0.75), other]
    if category == "other":
        shares = []
    attribution = "own" if shares else "none"
    return InstructionInfo(
        name,
        category,
        category,
        attribution,
        shares,
        1e5 * i,
        None,
        1e3,
        False,
        axes=("x",) if category == "collective" else (),
        group_size=2,
        sent_bytes=4e5,
    )

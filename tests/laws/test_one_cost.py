"""One cost: all views of a program agree on its flops, bytes, runs, lines, exchanges and memory, and with XLA's own totals."""

import dataclasses
import math
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from corpus import compositions, models
from example_calls import EXAMPLES, first_calls

import pellucid as pl
from pellucid import analysis, lax, numpy as jnp
from pellucid.analysis.costs import CostTable, jaxpr_costs
from pellucid.analysis.hlo import module_of
from pellucid.analysis.hlo_costs import costs_of
from pellucid.introspect.program import read_jaxpr
from pellucid.profiler import profile
from pellucid_profiler.sources import ProgramReader
from tests.introspect.sharded_cases import cases, told

X = np.full((64, 64), 1 / 64, np.float32)
FLOPS_ALONE = analysis.Machine("of arithmetic", 1, 1, 10**30, 10**30, 10**30, 8)
"""A device whose seconds are operations."""


def loop(x):
    return lax.scan(lambda c, _: (jnp.tanh(c @ x), c), x, None, length=10)


def nested_loops(x):
    inner = lambda c: lax.fori_loop(0, 3, lambda _, d: jnp.sin(d @ x), c)
    return lax.fori_loop(0, 4, lambda _, c: inner(c), x)


def derivative_of_loop(x):
    return pl.grad(lambda x: loop(x)[0].sum())(x)


def calls(x):
    layer = pl.jit(lambda a: jnp.tanh(a @ a))
    return layer(layer(layer(x)))


def branches(x):
    return lax.cond(x[0, 0] > 0, lambda x: (x @ x) @ (x.T @ x), lambda x: x + 1, x)


def loop_until(x):
    return lax.while_loop(
        lambda c: c[0] < 5 + (x[0, 0] > 2), lambda c: (c[0] + 1, c[1] @ x), (0, x)
    )[1]


def loop_of_little_work(x):
    return lax.fori_loop(0, 40, lambda _, c: jnp.sin(c) + 1, x[:8, :8])


def fused_reduction(x):
    y = x @ x
    return y.sum()


def own_function(x):
    return lax.reduce(x, np.float32(0), lambda a, b: lax.max(lax.abs(a), lax.abs(b)), (1,))


LOOPS = [loop, nested_loops, derivative_of_loop, calls, branches, loop_until, loop_of_little_work, fused_reduction, own_function]  # fmt: skip
CORPUS = [
    pytest.param(
        lambda *args, f=f: f(pl, *args), args, id=f.__name__, marks=pytest.mark.rotates(f.__name__)
    )
    for f, args in (*models.PROGRAMS, *compositions.PROGRAMS)
    if not any(isinstance(each, str) for each in args)
]
PROGRAMS = [*(pytest.param(f, (X,), id=f.__name__) for f in LOOPS), *CORPUS]


def table_of(stage: Any) -> CostTable:
    module, _ = module_of(stage.runtime_executable())
    return costs_of(module).table


def once(table: CostTable) -> Any:
    """The total as XLA counts it: a loop's body once."""
    rows = [row._replace(uses=[(body, 1) for body, _ in row.uses]) for row in table.rows]
    return CostTable([[rows[i] for i in each] for each in table.ranges]).least_total


def total_of(record: Any, name: str) -> float | None:
    """The cost of a program as its graph colours it."""
    [values] = [column.values for column in record.costs if column.name == name]
    local = values[: record.bodies[0].equation_count]
    return None if None in local else sum(local)


def flops_of_lines(record: Any) -> Counter:
    """Flops by the user's line, as the view of an executable adds them up."""
    equations, lines = record.program.equations, Counter()
    for kernel in record.kernels:
        for part in kernel.lines or [None]:
            number = kernel.hlo_equation if part is None else part.equation
            span = -1 if number < 0 else equations.span[equations.id.index(number)]
            line = record.program.spans.line[span] if span >= 0 else None
            lines[line] += (kernel.flops or 0.0) * (1.0 if part is None else part.share)
    return lines


@pytest.mark.parametrize(("function", "args"), PROGRAMS)
def test_views_of_an_executable_agree(function, args):
    check_views(pl.jit(function), args)


@pytest.mark.rotates
@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_views_of_the_steps_of_an_example_agree(path: Path) -> None:
    for jitted, args in first_calls(path, 2):
        check_views(jitted, args)
        if len({device for x in pl.tree.leaves(args) for device in _devices_of(x)}) <= 1:
            check_profile(jitted, args, jitted.__name__)


def _devices_of(x: Any) -> set[Any]:
    return x.devices() if isinstance(x, pl.Array) else set()


def check_views(jitted: Any, args: Any) -> None:
    """All views of a jitted function called with some arguments agree, and with XLA's totals."""
    lowered = jitted.lower(*args)
    stage = lowered.compile()
    record, table = analysis.compiled(stage), table_of(stage)
    cost = dataclasses.astuple(record.cost)[:3]
    # The program's overlay, the executable's totals and its kernels.
    names = ("flops", "transcendentals", "bytes")
    overlay = [total_of(record.program, name) for name in names]
    assert record.cost.is_least == (None in overlay)
    assert [a for a, b in zip(cost, overlay, strict=True) if b is not None] == pytest.approx(
        [b for b in overlay if b is not None]
    )
    if not any(each.executions is None for each in record.kernels):
        assert sum(each.flops for each in record.kernels) == pytest.approx(record.cost.flops)
        moved = sum(each.bytes_accessed for each in record.kernels)
        assert moved == pytest.approx(record.cost.bytes_accessed)
    # Memory, in all views that have it.
    sharded = analysis.sharding(jitted, *args)
    assert {*sharded.device_peak_bytes} == {record.memory.peak_bytes}
    assert pl.viz.memory(jitted)(*args).record.memory == record.memory
    check_against_xla(stage, table)
    if sharded.meshes:  # of which a device has a part, estimated for what divides evenly
        return
    # The step time that `what_if` estimates counts the operations of the program that is lowered.
    what_if = analysis.WhatIf(jitted, *args, device=FLOPS_ALONE)
    seconds = what_if.estimate(what_if.today).compute_seconds
    expected = jaxpr_costs(read_jaxpr(lowered._lowered.jaxpr)).least_total.flops
    if "platform_index" in sharded.program.strings:  # of branches by platform one is lowered
        assert seconds <= expected
    else:
        assert seconds == pytest.approx(expected, abs=1e-6)


COUNTED_OTHERWISE = frozenset({"fft", "sort", "convolution", "custom-call"})
"""XLA counts sorts over all elements, no products with padding, and native code not at all."""


def n_elements(hlo_type: str) -> int:
    """Number of elements of an array type as HLO prints it, `f32[3,4]{1,0}`."""
    sizes = hlo_type.partition("[")[2].partition("]")[0]
    return math.prod(int(size) for size in sizes.split(",") if size)


def check_against_xla(stage: Any, table: CostTable) -> None:
    """The table is XLA's cost analysis, but that this counts a loop's body once, complex numbers as real ones, and a flop for each
    element whose bits are seen as another type.

    Bytes that a fused kernel reads count once in the table, and in XLA's as often as its instructions take them.
    """
    module, _ = module_of(stage.runtime_executable())
    instructions = [each for c in module.computations for each in c.instructions]
    if any(each.opcode in COUNTED_OTHERWISE or "c64[" in each.type for each in instructions):
        return
    xla, ours = Counter(stage.cost_analysis()), once(table)
    seen_anew = sum(
        n_elements(each.type) for each in instructions if each.opcode == "bitcast-convert"
    )
    assert ours.flops == pytest.approx(xla["flops"] - seen_anew, rel=0.02, abs=8)
    assert ours.transcendentals == pytest.approx(xla["transcendentals"], rel=0.02, abs=1)
    if not any(each.opcode in ("while", "conditional", "call") for each in instructions):
        assert ours.bytes <= 1.15 * xla["bytes accessed"] + 64


@pytest.mark.parametrize("function", [loop, derivative_of_loop])
def test_xla_counts_a_loop_once_and_the_table_as_often_as_it_runs(function):
    stage = pl.jit(function).lower(X).compile()
    table = table_of(stage)
    products = 10 if function is loop else 30
    assert table.total.flops == pytest.approx(products * 2 * 64**3, rel=0.05)
    assert stage.cost_analysis()["flops"] == pytest.approx(products / 10 * 2 * 64**3, rel=0.1)


@pytest.mark.parametrize("function", LOOPS)
def test_a_profile_agrees_with_the_views(function):
    check_profile(pl.jit(function), (X,), function.__name__)


def check_profile(jitted: Any, args: Any, name: str) -> None:
    """A profile of two runs on one device agrees with the views."""
    lowered = jitted.lower(*args)
    stage = lowered.compile()
    record = analysis.compiled(stage)
    pl.block_until_ready(jitted(*args))
    with profile() as session:
        for _ in range(2):
            pl.block_until_ready(jitted(*args))
    if len({*session.operations.device.tolist()}) > 1:  # of which the views show one
        return
    [number] = {*session.operations.program.tolist()}
    kernels = {each.name: each for each in record.kernels}
    for row in session.by_operation:
        if session.infos[row.info].is_container:
            continue
        kernel = kernels[row.instruction]
        if kernel.executions is None:  # in branches and loops of unknown length the profile counts
            continue
        assert row.count == 2 * kernel.executions
        if row.flops is not None:
            assert row.flops == pytest.approx(2 * kernel.flops)
        assert row.bytes == pytest.approx(2 * kernel.bytes_accessed)
    assert session.programs[number].name.endswith(name)
    if not any(each.executions is None for each in record.kernels):
        by_line = Counter()
        for row in session.lines:  # one of each function on a line
            by_line[row.place and row.place.line] += row.flops
        for line, flops in flops_of_lines(record).items():
            if flops > 0.01 * record.cost.flops:
                assert by_line[line] == pytest.approx(2 * flops, rel=0.02)
    # The graphs of all stages have the time of the profile; before it is compiled, without that of no line.
    run = session.totals.operation_seconds * 1e6 / 2
    of_no_line = sum(row.seconds for row in session.lines if row.place is None) * 1e6 / 2
    for shown in (jitted.trace(*args), lowered, stage):
        timed = pl.viz.program(shown, profile=session).record
        [times] = [column.values for column in timed.costs if column.name == "time"]
        local = times[: timed.bodies[0].equation_count]
        missing = 0 if shown is stage else of_no_line
        assert sum(filter(None, local)) == pytest.approx(run - missing, rel=0.02)


@pytest.mark.parametrize("program", cases())
def test_exchanges_of_all_views_agree(program):
    def compare(jitted, *args):
        record = analysis.sharding(jitted, *args)
        stage = jitted.lower(*args).compile()
        module, _ = module_of(stage.runtime_executable())
        costs, names = (
            costs_of(module),
            {i.name for c in module.computations for i in c.instructions},
        )
        sent, shown = Counter(), Counter()
        meshes = [analysis.DeclaredMesh(dict(zip(m.axis_names, m.axis_sizes, strict=True))) for m in record.meshes]  # fmt: skip
        read = analysis.kernels(module, names, meshes)
        for name, kernel in read.items():
            if kernel.exchange is not None and kernel.exchange.group_size > 1:
                runs = costs.table.runs[costs.rows[name]]
                sent[kernel.exchange.operation, runs] += kernel.exchange.bytes
        for each in record.collectives:
            shown[each.operation, each.runs] += each.bytes_per_device
        assert sent == pytest.approx(shown, abs=1.0 * len(record.collectives))
        peak = analysis.compiled(stage, with_program=False).memory.peak_bytes
        assert {*record.device_peak_bytes} == {peak}

    told(program, compare)


def test_a_session_reads_the_same_shares_as_the_executable():
    stage = pl.jit(fused_reduction).lower(X).compile()
    [kernel] = [each for each in analysis.compiled(stage).kernels if each.lines]
    module, _ = module_of(stage.runtime_executable())

    class Loaded:
        name = "jit_fused_reduction"
        text = staticmethod(lambda: stage.as_text())
        origins = staticmethod(lambda: None)

    info = ProgramReader(Loaded()).info([kernel.name]).instructions[kernel.name]
    assert [each.share for each in info.shares] == pytest.approx([p.share for p in kernel.lines])
    assert max(info.shares, key=lambda each: each.share).operation == "dot_general"
    assert module.by_name

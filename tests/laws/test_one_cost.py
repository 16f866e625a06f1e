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
from pellucid.analysis.costs import CostTable, is_branch, jaxpr_costs
from pellucid.analysis.hlo import module_of
from pellucid.analysis.hlo_costs import costs_of
from pellucid.experimental import roofline
from pellucid.introspect.program import read_jaxpr
from pellucid.profiler import profile
from pellucid.sharding import AxisType, NamedSharding, PartitionSpec as P
from pellucid_profiler.calls import module_name
from pellucid_profiler.findings import findings
from pellucid_profiler.sources import ProgramReader
from pellucid_profiler.text import bytes_text, percent_text
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


def is_placed(info: Any) -> bool:
    """Whether positions of XLA's own tell the lines of a kernel. Of what the partitioner makes they tell fewer than equations do,
    by which views of a program find lines.
    """
    return (
        bool(info.shares)
        and info.attribution == "own"
        and all(share.place for share in info.shares)
    )


def flops_of_lines(record: Any, names: set[str]) -> Counter:
    """Flops by the user's line, as the view of an executable adds up those of the kernels `names` that run a known number of times."""
    equations, lines = record.program.equations, Counter()
    for kernel in record.kernels:
        if kernel.name not in names or kernel.executions is None:
            continue
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
        check_profile(jitted, args, jitted.__name__)


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
    check_roofline(jitted, args)
    what_if = analysis.WhatIf(jitted, *args, device=FLOPS_ALONE)
    estimate = what_if.estimate(what_if.today)
    check_what_if(what_if, estimate, sharded, lowered._lowered, record.memory.argument_bytes)
    if sharded.meshes:  # of which a device has a part, estimated for what divides evenly
        return
    # The step time that `what_if` estimates counts the operations of the program that is lowered.
    seconds = estimate.compute_seconds
    expected = jaxpr_costs(read_jaxpr(lowered._lowered.jaxpr)).least_total.flops
    if "platform_index" in sharded.program.strings:  # of branches by platform one is lowered
        assert seconds <= expected
    else:
        assert seconds == pytest.approx(expected, abs=1e-6)


def check_what_if(
    what_if: analysis.WhatIf, estimate: Any, sharded: Any, lowered: Any, argument_bytes: int
) -> None:
    """What `what_if` says of today's placement is what the sharding view plans, and its arguments are those of the program."""
    planned = sum(each.bytes_per_device * (each.runs or 1) for each in sharded.planned)
    assert sum(each.sent_bytes for each in estimate.exchanges) == planned
    # Each argument is an array that is passed, and nothing else is.
    if all(lowered.used) and not lowered.consts and len(what_if.arguments) == len(lowered.used):
        assert estimate.argument_bytes == argument_bytes
    figure = what_if.record(what_if.today)
    assert sum(each.device_bytes for each in figure.arguments) == estimate.argument_bytes


def check_roofline(jitted: Any, args: Any) -> None:
    """`roofline` has the operations and bytes of the table of the traced program, in whole numbers for each equation."""
    traced = jitted.trace(*args).jaxpr.jaxpr
    if len(traced.invars) != len(pl.tree.leaves(args)):  # some are static, which `roofline` traces
        return
    reading = read_jaxpr(pl.make_jaxpr(jitted)(*args).jaxpr)
    total = jaxpr_costs(reading).total
    primitives = {each.primitive for body in reading.bodies for each in body.equations}
    if None in total or any(
        each.name in SEEN_OTHERWISE or each.traits.kind == "collective" for each in primitives
    ):
        return
    _, estimated = roofline.roofline(jitted)(*args)
    has_branches = any(is_branch(role) for role in reading.record.strings)
    operations = total.flops + total.transcendentals
    # The dearest branch in flops needn't be the one in transcendentals, which `roofline` counts together.
    rounding = sum(len(body.equations) for body in reading.bodies) + 0.02 * operations
    assert estimated.unfused_flops <= operations
    assert has_branches or estimated.unfused_flops >= operations - rounding
    assert estimated.unfused_hbm_bytes == pytest.approx(total.bytes)


SEEN_OTHERWISE = frozenset({"pure_callback", "io_callback", "debug_callback", "debug_print"})
"""Calls of Python, which `roofline` counts as its reference does: their bytes, and no operations. Exchanges cost it links."""
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
    """A profile of two runs agrees with the views, on all devices together."""
    lowered = jitted.lower(*args)
    stage = lowered.compile()
    record = analysis.compiled(stage)
    runs = [_copied(args) for _ in range(3)]  # as a call may take the memory of its arguments
    pl.block_until_ready(jitted(*runs[0]))
    with profile() as session:
        for each in runs[1:]:
            pl.block_until_ready(jitted(*each))
    n = 2 * len({*session.operations.device.tolist()})
    [number] = {*session.operations.program.tolist()}
    kernels = {each.name: each for each in record.kernels}
    for row in session.by_operation:
        if session.infos[row.info].is_container:
            continue
        kernel = kernels.get(row.instruction)
        if kernel is None:  # which device it is costs nothing, and has no row in views
            assert session.infos[row.info].opcode == "partition-id"
            continue
        if kernel.executions is None:  # in branches and loops of unknown length the profile counts
            continue
        assert row.count == n * kernel.executions
        if row.flops is not None:
            assert row.flops == pytest.approx(n * kernel.flops)
        assert row.bytes == pytest.approx(n * kernel.bytes_accessed)
    assert session.programs[number].name == module_name(name)
    known = [info for info in session.infos if is_placed(info) and info.flops is not None]
    in_profile = Counter()
    for info in known:
        for share in info.shares:  # one of each function on a line
            runs = (kernels[info.name].executions or 0) if info.name in kernels else 0
            in_profile[share.place.line] += runs * share.share * info.flops
    names = {info.name for info in known}
    for line, flops in flops_of_lines(record, names).items():
        if flops > 0.01 * record.cost.flops:
            assert in_profile[line] == pytest.approx(flops, rel=0.02)
    check_findings(session, number, record)
    # The graphs of all stages have the time of the profile; before it is compiled, without that of no equation.
    run = session.totals.operation_seconds * 1e6 / n
    of_equations = sum(
        row.seconds * share.share
        for row in session.by_operation
        for share in session.infos[row.info].shares
        if share.equation is not None
    )
    of_no_equation = run - of_equations * 1e6 / n
    for shown in (jitted.trace(*args), lowered, stage):
        timed = pl.viz.program(shown, profile=session).record
        [times] = [column.values for column in timed.costs if column.name == "time"]
        local = times[: timed.bodies[0].equation_count]
        missing = 0 if shown is stage else of_no_equation
        assert sum(filter(None, local)) == pytest.approx(run - missing, rel=0.02)


def _copied(args: Any) -> Any:
    return pl.tree.map(lambda x: x.copy() if isinstance(x, pl.Array) else x, args)


def check_findings(session: Any, number: int, record: Any) -> None:
    """Findings have the figures of the views: the line's share of the time, and the largest temporary's of the peak."""
    memory = session.memory[number]
    constants = sum(each.n_bytes for each in memory.at_peak if each.kind == "constant")
    # What is allocated beyond the peak are gaps, and XLA counts no constants; buffers begin at multiples of 64 bytes.
    gaps = 64 * len(memory.at_peak)
    if not any(info.opcode == "while" for info in session.infos):
        # What a loop carries counts as live in all of its body, though a body may write before it reads.
        assert memory.peak_bytes <= memory.allocated_bytes
    assert memory.allocated_bytes == pytest.approx(record.memory.peak_bytes + constants, abs=gaps)
    for text in (each.text for each in findings(session)):
        if "of the operations' time is" in text:
            share = session.lines[0].seconds / session.totals.operation_seconds
            assert text.startswith(f"{percent_text(share)} of")
        if "needs at its peak" in text:
            assert f"of the {bytes_text(memory.peak_bytes)} that" in text


@pytest.mark.parametrize("program", cases())
def test_a_profile_over_a_mesh_agrees_with_the_views(program):
    def compare(jitted, *args):
        check_profile(jitted, args, jitted.__name__)

    told(program, compare)


def products(x, w):
    a = x @ w
    b = lax.fori_loop(0, 4, lambda _, c: c @ w, a)
    return lax.fori_loop(0, 16, lambda _, c: c @ w, b)


def derivative_of_products(x, w):
    loss = lambda x: lax.scan(lambda c, _: (c @ w, None), jnp.sin(x @ w), None, length=6)[0].sum()
    return pl.grad(loss)(x)


def products_of_positions(x, w):
    mapped = pl.shard_map(products, in_specs=(P("data"), P()), out_specs=P("data"))
    return mapped(x, w)


def calls_of_products(x, w):
    layer = pl.jit(lambda a, n: lax.fori_loop(0, n, lambda _, c: c @ w, a), static_argnums=1)
    return layer(layer(x, 2), 2) @ w


@pytest.mark.parametrize("function", [products, derivative_of_products, products_of_positions, calls_of_products])  # fmt: skip
@pytest.mark.parametrize("axes", ["Auto", "Explicit"])
def test_shares_of_the_time_over_a_mesh_are_those_of_the_table(function, axes):
    """As far as a clock tells: of products of one size, by the lower quartile of the executions of each kernel. Threads of eight devices
    wait for cores, and what they wait counts: on two busy cores shares by the quartile differed by up to 0.07, by the mean up to 0.18.
    """
    mesh = pl.make_mesh((8,), ("data",), axis_types=(getattr(AxisType, axes),))
    n = 192
    full = np.full((8 * n, n), 1 / n, np.float32)
    with pl.set_mesh(mesh):
        x = pl.device_put(full, NamedSharding(mesh, P("data")))
        w = pl.device_put(full[:n], NamedSharding(mesh, P()))
        jitted = pl.jit(function)
        record = analysis.compiled(jitted.lower(x, w).compile())
        pl.block_until_ready(jitted(x, w))
        with profile() as session:
            for _ in range(6):
                pl.block_until_ready(jitted(x, w))
    seconds = Counter()
    works = {each.name for each in record.kernels if each.flops > 0.01 * record.cost.flops}
    for i, info in enumerate(session.infos):
        if info.name in works and not info.is_container:
            each = session.seconds_of_operation[session.info_of_operation == i]
            for share in info.shares:
                seconds[share.place.line] += np.quantile(each, 0.25) * len(each) * share.share
    flops = flops_of_lines(record, works)
    assert seconds.keys() == flops.keys()
    for line, expected in flops.items():
        share = seconds[line] / seconds.total()
        assert share == pytest.approx(expected / flops.total(), abs=0.12), (line, seconds, flops)
    # The profile's own table of lines has the time of all operations, each line once.
    of_lines = sum(each.seconds for each in session.lines)
    assert of_lines == pytest.approx(session.totals.operation_seconds)


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
        name, executable = "jit_fused_reduction", None
        text = staticmethod(lambda: stage.as_text())
        origins = staticmethod(lambda: None)

    info = ProgramReader(Loaded()).info([kernel.name]).instructions[kernel.name]
    assert [each.share for each in info.shares] == pytest.approx([p.share for p in kernel.lines])
    assert max(info.shares, key=lambda each: each.share).operation == "dot_general"
    assert module.by_name

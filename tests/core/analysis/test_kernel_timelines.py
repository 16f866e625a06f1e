"""Records of runs in the simulator: what cores and copies did when."""

import contextlib
import itertools

import numpy as np
import pytest

import pellucid as pl
import pellucid.numpy as jnp
from pellucid.analysis import kernel_timelines, machine_timelines
from pellucid.analysis.kernel_timelines import MAX_EVENTS
from pellucid.errors import ArgumentTypeError, CheckError
from pellucid.experimental import pallas
from pellucid.experimental.pallas import BlockSpec, Buffered, pallas_call, tpu
from pellucid.kernels.simulator.call import recorded
from tests.introspect import sample_runs as samples

X = np.ones((4, 1024), np.float32)


def in_turn(x_ref, o_ref, buffers, sems):
    """Each row is copied, then computed."""
    for i in range(4):
        tpu.async_copy(x_ref.at[i], buffers.at[0], sems.at[0]).wait()
        o_ref[i] = jnp.sin(buffers[0])


def ahead(x_ref, o_ref, buffers, sems):
    """The next row is copied while one is computed."""

    def fetch(i):
        return tpu.make_async_copy(x_ref.at[i], buffers.at[i % 2], sems.at[i % 2])

    fetch(0).start()
    for i in range(4):
        if i < 3:
            fetch(i + 1).start()
        fetch(i).wait()
        o_ref[i] = jnp.sin(buffers[i % 2])


def run_of(kernel):
    anywhere = BlockSpec(memory_space=pallas.ANY)
    call = pallas_call(
        kernel,
        X,
        in_specs=[anywhere],
        out_specs=anywhere,
        scratch_shapes=[tpu.VMEM((2, 1024), np.float32), tpu.SemaphoreType.DMA((2,))],
        interpret=tpu.InterpretParams(detect_races=True),
    )
    [run] = kernel_timelines(call, X).kernels
    return run


def marks(run, kind):
    """(core or copy lane, begin, end) of each event of a kind."""
    events = run.events
    number = run.kinds.index(kind)
    return [
        (lane, begin, end)
        for lane, k, begin, end in zip(
            events.lane, events.kind_index, events.begin, events.end, strict=True
        )
        if k == number
    ]


def test_copies_in_turn():
    # A row of 4,096 bytes takes five steps to copy, and one to compute.
    run = run_of(in_turn)
    assert (run.steps, run.copied_bytes, run.sent_bytes, run.fault) == (24, 4 * 4096, 0, "")
    assert marks(run, "in") == [(1, 6 * i, 6 * i + 5) for i in range(4)]
    assert marks(run, "wait") == [(0, 6 * i, 6 * i + 5) for i in range(4)]
    assert marks(run, "compute") == [(0, 6 * i + 5, 6 * i + 6) for i in range(4)]
    [core] = run.cores
    assert (core.compute_steps, core.wait_steps, core.copy_steps, core.hidden_steps) == (
        4,
        20,
        20,
        0,
    )
    [wait] = run.waits
    assert (wait.what, wait.steps, wait.count, wait.core_count) == (
        "copy of x_ref in hbm to buffers in vmem", 20, 4, 1,
    )  # fmt: skip
    assert wait.share == pytest.approx(20 / 24, abs=1e-6)
    line = run.lines[wait.line]
    assert line.source is not None
    assert line.source.name.endswith("test_kernel_timelines.py")
    assert "async_copy(x_ref.at[i], buffers.at[0], sems.at[0]).wait()" in line.text


def test_copies_ahead_overlap_in_two_lanes():
    run = run_of(ahead)
    assert run.steps < 24
    assert {lane for lane, *_ in marks(run, "in")} == {1, 2}
    [core] = run.cores
    assert core.lane_count == 3
    assert core.hidden_steps > 0
    # Lanes tell copies in flight at once apart.
    for lane in (1, 2):
        own = [(b, e) for k, b, e in marks(run, "in") if k == lane]
        assert all(end <= begin for (_, end), (begin, _) in itertools.pairwise(own))
    assert "fetch(i).wait()" in run.lines[run.waits[0].line].text


def test_each_event_is_counted_once():
    run = run_of(ahead)
    n_bytes = sum(
        n
        for n, kind in zip(run.events.n_bytes, run.events.kind_index, strict=True)
        if run.kinds[kind] == "in"
    )
    assert n_bytes == run.copied_bytes == 4 * 4096
    assert len({*map(len, (getattr(run.events, f) for f in run.events.__slots__))}) == 1


def double(x_ref, o_ref):
    o_ref[...] = x_ref[...] * 2


def blocks(mode=None):
    x = np.ones((32, 128), np.float32)
    row = BlockSpec((8, 128), lambda i: (i, 0), pipeline_mode=mode)
    [run] = kernel_timelines(pallas_call(double, x, grid=4, in_specs=[row], out_specs=row), x).kernels  # fmt: skip
    return run


def test_blocks_of_a_grid_are_fetched_while_the_program_before_runs():
    two, one = blocks(), blocks(Buffered(1))
    # 4 KiB take five steps: the first two blocks come at once, the third when the second program begins.
    assert [begin for _, begin, _ in marks(two, "in")][:3] == [0, 0, 6]
    # One buffer: a block comes when the program before has ended, while that one's result is written.
    assert one.steps == 4 * (5 + 1) + 5
    assert marks(one, "in") == [(1, 6 * i, 6 * i + 5) for i in range(4)]
    assert two.steps < one.steps
    assert two.copied_bytes == one.copied_bytes == 2 * 4 * 4096
    assert {wait.what for wait in one.waits} == {"block x_ref", "block o_ref"}


def test_what_scratch_holds_at_first_takes_no_time():
    def kernel(x_ref, o_ref):
        def body(buffer):
            buffer[...] = x_ref[...]
            o_ref[...] = buffer[...]

        pallas.run_scoped(body, tpu.VMEM((4, 1024), np.float32))

    anywhere = BlockSpec(memory_space=pallas.ANY)
    call = pallas_call(kernel, X, in_specs=[anywhere], out_specs=anywhere)
    [run] = kernel_timelines(call, X).kernels
    assert run.steps == 0


def test_eight_devices():
    [run] = samples.gather().kernels
    assert run.device_count == 8
    assert [core.device for core in run.cores] == [*range(8)]
    row = 256 * 4
    assert run.sent_bytes == 8 * 7 * row
    assert run.copied_bytes == 8 * 8 * row
    sends = marks(run, "send")
    assert len(sends) == 56
    assert {lane for lane, *_ in sends} == {core.first_lane + 1 for core in run.cores}
    # Two signals of each device before the first copy.
    assert len(marks(run, "signal")) == 16
    assert [wait.count for wait in run.waits] == [56, 8]


def test_devices_that_don_t_reach_each_other_are_one_run():
    x = np.ones((32, 128), np.float32)
    mesh = pl.make_mesh((4,), ("i",), axis_types=(pl.sharding.AxisType.Auto,))
    spec = pl.P("i")
    call = pl.shard_map(pallas_call(double, x[:8]), mesh=mesh, in_specs=spec, out_specs=spec)
    record = kernel_timelines(lambda x: call(pl.jit(call)(x)), x)
    assert [kernel.device_count for kernel in record.kernels] == [4, 4]
    assert [core.device for core in record.kernels[0].cores] == [0, 1, 2, 3]


def test_a_deadlock_is_shown_up_to_there():
    [run] = samples.deadlock().kernels
    assert run.fault.startswith("a deadlock in the kernel `waits_first`")
    assert {core.stuck for core in run.cores} == {
        f"waits for 1 of semaphore `barrier semaphore` of device {i}, which has 0" for i in range(8)
    }
    stuck = marks(run, "stuck")
    assert len(stuck) == 8
    assert all(begin == 4 and end > run.steps for _, begin, end in stuck)
    assert len(marks(run, "in flight")) == 8
    assert marks(run, "fault") == []


def test_a_race_is_shown_where_it_is_found():
    [run] = samples.race().kernels
    assert run.fault.startswith("a race: nothing orders two accesses to `o_ref`")
    assert [core.stuck for core in run.cores] == [""] * 8
    assert len(marks(run, "fault")) == 1


def test_errors_of_the_function_are_raised():
    def fails(x):
        y = pallas_call(double, X)(x)
        raise KeyError("the user's")
        return y

    with pytest.raises(KeyError, match="the user's"):
        kernel_timelines(fails, X)


def test_errors_of_the_function_after_a_failure_that_it_caught_are_raised():
    def fails(x):
        with contextlib.suppress(CheckError):
            pallas_call(waits, X, scratch_shapes=[tpu.SemaphoreType.REGULAR])(x)
        raise KeyError("the user's")

    def waits(x_ref, o_ref, sem):
        o_ref[...] = x_ref[...]
        pallas.semaphore_wait(sem)

    with pytest.raises(KeyError, match="the user's"):
        kernel_timelines(fails, X)


def test_settings_are_those_of_the_simulator():
    with pytest.raises(ArgumentTypeError, match=r"params are those of the simulator.\n *got bool"):
        kernel_timelines(pallas_call(double, X), X, params=True)


def test_long_runs_join_what_lies_close_together():
    [run] = samples.long_ring().kernels
    assert run.event_count > len(run.events.lane) <= MAX_EVENTS
    assert sum(run.events.count) == run.event_count
    sent = sum(
        n
        for n, k in zip(run.events.n_bytes, run.events.kind_index, strict=True)
        if run.kinds[k] == "send"
    )
    assert sent == run.sent_bytes == 8 * 256 * 2048
    waits = sum(
        busy
        for busy, k in zip(run.events.busy, run.events.kind_index, strict=True)
        if run.kinds[k] == "wait"
    )
    assert waits == pytest.approx(sum(core.wait_steps for core in run.cores), rel=1e-3)


def test_machines_and_nothing_else():
    with recorded() as machines:
        pallas_call(double, X, interpret=tpu.InterpretParams())(X)
    [run] = machine_timelines(machines).kernels
    assert run.name == "double"
    assert machine_timelines([]).kernels == []
    message = r"machines of the simulator.\n *got ndarray\n *Write pl.viz.timeline"
    with pytest.raises(ArgumentTypeError, match=message):
        machine_timelines([X])


def test_copies_of_a_pipeline_have_the_lines_of_their_specs():
    def body(x_ref, o_ref):
        o_ref[...] = x_ref[...] * 2

    def kernel(x_ref, o_ref):
        rows_of_input = BlockSpec((8, 128), lambda i: (i, 0))
        rows_of_result = BlockSpec((8, 128), lambda i: (i, 0))
        run = tpu.emit_pipeline(
            body, grid=(4,), in_specs=[rows_of_input], out_specs=[rows_of_result]
        )
        run(x_ref, o_ref)

    anywhere = BlockSpec(memory_space=pallas.ANY)
    x = np.zeros((32, 128), np.float32)
    [run] = kernel_timelines(
        pallas_call(kernel, x, in_specs=[anywhere], out_specs=anywhere), x
    ).kernels
    texts = [run.lines[wait.line].text for wait in run.waits]
    assert any("rows_of_input =" in text for text in texts)
    assert any("rows_of_result =" in text for text in texts)

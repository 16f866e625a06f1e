"""Debugging sessions in simulated kernels: devices, cores and threads, what they wait for, and that stepping changes no result."""

import inspect
import io

import numpy as np
import pytest

import pellucid as pl
from pellucid import lax
from pellucid.errors import ArgumentValueError, CheckError
from pellucid.experimental import pallas
from pellucid.experimental.pallas import BlockSpec, mosaic_gpu, pallas_call, tpu
from pellucid.sharding import PartitionSpec as P
from pellucid_kernel.debug import Prompt, debug
from pellucid_kernel.debug.frames import View
from pellucid_kernel.debug.stops import Stop

F32 = np.float32
N = 4
X = np.arange(2 * N, dtype=F32).reshape(N, 2)
MESH = pl.make_mesh((N,), ("ring",), axis_types=(pl.sharding.AxisType.Auto,))
ANYWHERE = BlockSpec(memory_space=pallas.ANY)
DMA = tpu.SemaphoreType.DMA
PRINTED = []


def all_gather(x_ref, o_ref, local_sem, send_sem, recv_sems):
    me, n = lax.axis_index("ring"), N
    left, right = lax.rem(me + n - 1, n), lax.rem(me + 1, n)
    barrier = tpu.get_barrier_semaphore()
    for other in (left, right):
        pallas.semaphore_signal(barrier, device_id=other)
    pallas.semaphore_wait(barrier, 2)
    tpu.async_copy(x_ref, o_ref.at[pallas.ds(me, 1)], local_sem).wait()
    for step in range(n - 1):
        block = o_ref.at[lax.rem(me + n - step, n)]
        copy = tpu.make_async_remote_copy(block, block, send_sem, recv_sems.at[step], right)
        copy.start()
        copy.wait()


def stuck(x_ref, o_ref, local_sem, send_sem, recv_sems):
    barrier = tpu.get_barrier_semaphore()
    pallas.semaphore_wait(barrier)
    pallas.semaphore_signal(barrier, device_id=lax.rem(lax.axis_index("ring") + 1, N))
    o_ref[0] = x_ref[0]


def overwrites(x_ref, o_ref, local_sem, send_sem, recv_sems):
    o_ref[0] = x_ref[0]
    to = lax.rem(lax.axis_index("ring") + 1, N)
    copy = tpu.async_remote_copy(x_ref, o_ref.at[pallas.ds(0, 1)], send_sem, local_sem, to)
    copy.wait()


def gathered(kernel, **options):
    call = pallas_call(
        kernel,
        pl.ShapeDtypeStruct((N, 2), F32),
        in_specs=[ANYWHERE],
        out_specs=ANYWHERE,
        scratch_shapes=[DMA, DMA, DMA((N - 1,))],
        compiler_params=tpu.CompilerParams(collective_id=0),
        interpret=tpu.InterpretParams(**options),
    )

    @pl.jit
    def function(x):
        y = x * 3
        z = pl.shard_map(call, mesh=MESH, in_specs=P("ring"), out_specs=P("ring"))(y)
        return z + 1

    return function


def line_of(function, text):
    """The number of the line of a function that begins with a text."""
    lines, first = inspect.getsourcelines(function)
    [found] = [i for i, each in enumerate(lines) if each.strip().startswith(text)]
    return first + found


def line(session):
    return session.stack()[-1].line


def at(kernel, text, **options):
    """A session at a line of a kernel, stopped by a breakpoint on the first device that comes to it."""
    session = debug(gathered(kernel, **options))(X)
    session.break_at(line_of(kernel, text), __file__)
    return session.run()


def test_a_session_goes_into_a_kernel_on_several_devices_by_lines():
    session = debug(gathered(all_gather))(X).step()
    while not session.is_simulated:
        session.step()
    top = session.stack()[-1]
    assert (top.function, line(session)) == ("all_gather", line_of(all_gather, "me, n ="))
    assert top.run == "(device 0)"
    assert [row.state for row in session.cores()] == ["its turn", *["hasn't begun"] * 3]
    lines = [line(session.next()) for _ in range(3)]
    assert lines == [
        line_of(all_gather, each) for each in ("left, right", "barrier =", "for other")
    ]
    values = session.variables()
    assert (int(values["left"]), int(values["right"]), values["n"]) == (3, 1, N)
    np.testing.assert_array_equal(values["x_ref"], 3 * X[:1])
    assert np.isnan(values["o_ref"]).all()
    assert [each.count for each in values["recv_sems"]] == [0, 0, 0]


def test_the_call_site_is_in_the_stack():
    session = at(all_gather, "copy.start()")
    functions = [frame.function.rpartition(".")[2] for frame in session.stack()]
    assert functions[-1] == "all_gather"
    assert functions[-2] == "function"
    np.testing.assert_array_equal(session.evaluate("y"), 3 * X)


@pytest.mark.parametrize("seed", [None, 0, 3])
def test_a_stepped_run_gives_what_the_run_gives(seed):
    function = gathered(all_gather, random_seed=seed)
    session = debug(function)(X).step()
    for _ in range(9):
        session.step()
    assert session.is_simulated
    session.on_core(2).next().next().back().next()
    session.on_core(0).next()
    assert session.is_simulated
    np.testing.assert_array_equal(session.finish(), function(X))
    np.testing.assert_array_equal(function(X).reshape(N, N, 2)[1], 3 * X + 1)


def test_each_device_has_its_own_stack_and_values():
    session = at(all_gather, "copy.start()")
    session.run().run()
    rows = session.cores()
    assert [row.name for row in rows] == [f"device {i}" for i in range(N)]
    assert any(row.in_flight for row in rows)
    for i in range(N):
        if rows[i].line is not None:
            assert int(session.on_core(i).variables()["me"]) == i
            assert session.stack()[-1].run == f"(device {i})"
    with pytest.raises(ArgumentValueError, match="no such row"):
        session.on_core(N)


def test_next_steps_one_device_while_the_others_take_their_turns():
    session = at(all_gather, "pallas.semaphore_wait(barrier, 2)").on_core(0)
    assert line(session.next()) == line_of(all_gather, "tpu.async_copy")
    assert [row.is_chosen for row in session.cores()] == [True, False, False, False]
    others = [row.line.line for row in session.cores()[1:] if row.line is not None]
    assert others == [line_of(all_gather, "pallas.semaphore_wait")] * 3


def test_a_breakpoint_stops_on_any_device_and_under_a_condition_on_one():
    session = at(all_gather, "copy.wait()")
    assert session.stack()[-1].run == "(device 0)"
    assert session.run().stack()[-1].run == "(device 1)"
    session = debug(gathered(all_gather))(X)
    session.break_at(line_of(all_gather, "copy.wait()"), __file__, "me == 2 and step == 1")
    session.run()
    assert (session.stack()[-1].run, session.variables()["step"]) == ("(device 2)", 1)
    assert session.run().is_done


def test_going_back_finds_the_line_before_and_the_call():
    session = at(all_gather, "tpu.async_copy")
    assert line(session.back()) == line_of(all_gather, "pallas.semaphore_wait")
    session.breakpoints.clear()
    session.run_back()
    assert not session.is_simulated
    session.run_to(line_of(all_gather, "copy.start()"), __file__)
    assert line(session) == line_of(all_gather, "copy.start()")
    assert session.variables()["step"] == 0


def test_out_leads_to_the_line_behind_the_call():
    session = at(all_gather, "copy.start()")
    session.breakpoints.clear()
    session.out()
    assert not session.is_simulated
    assert line(session) == line_of(gathered, "return z + 1")
    np.testing.assert_array_equal(session.variables()["z"].reshape(N, N, 2)[3], 3 * X)


def test_a_deadlock_stops_with_what_each_device_waits_for():
    session = at(stuck, "pallas.semaphore_wait")
    session.breakpoints.clear()
    session.run()
    assert session.reason.startswith("a deadlock in the kernel `stuck`")
    assert all(row.state.startswith("waits for 1 of semaphore") for row in session.cores())
    assert line(session) == line_of(stuck, "pallas.semaphore_wait")
    with pytest.raises(CheckError, match="deadlock"):
        session.next()
    assert line(session.back()) == line_of(stuck, "pallas.semaphore_wait")
    assert session.reason == ""
    assert line(session.back()) == line_of(stuck, "barrier =")


def test_a_race_stops_at_its_line():
    session = at(overwrites, "to =", detect_races=True)
    session.breakpoints.clear()
    session.run()
    assert session.reason.startswith("a race: nothing orders two accesses to `o_ref`")
    [failed] = [row for row in session.cores() if row.state == "failed"]
    assert failed.is_chosen
    assert failed.line is not None
    assert line(session) == failed.line.line


def test_effects_happen_once_however_often_the_run_begins_anew():
    def kernel(x_ref, o_ref):
        pl.debug.callback(PRINTED.append, x_ref[0, 0])
        o_ref[...] = x_ref[...]
        pallas.semaphore_signal(tpu.get_barrier_semaphore())
        pallas.semaphore_wait(tpu.get_barrier_semaphore())

    PRINTED.clear()
    call = pallas_call(
        kernel,
        X,
        compiler_params=tpu.CompilerParams(collective_id=0),
        interpret=tpu.InterpretParams(),
    )
    session = debug(call)(X)
    session.break_at(line_of(kernel, "pallas.semaphore_wait"), __file__)
    session.run().back().back().next()
    session.finish()
    assert len(PRINTED) == 1


def test_a_session_goes_on_after_an_interrupt():
    interrupts = [KeyboardInterrupt()]

    def interrupt(_):
        if interrupts:
            raise interrupts.pop()

    def kernel(x_ref, o_ref):
        pallas.semaphore_signal(tpu.get_barrier_semaphore())
        pl.debug.callback(interrupt, x_ref[0, 0])
        o_ref[...] = x_ref[...] * 2
        pallas.semaphore_wait(tpu.get_barrier_semaphore())

    call = pallas_call(
        kernel,
        pl.ShapeDtypeStruct((1, 2), F32),
        compiler_params=tpu.CompilerParams(collective_id=0),
        interpret=tpu.InterpretParams(),
    )
    session = debug(pl.shard_map(call, mesh=MESH, in_specs=P("ring"), out_specs=P("ring")))(X)
    session.break_at(line_of(kernel, "pallas.semaphore_signal"), __file__)
    session.run()
    session.breakpoints.clear()
    with pytest.raises(KeyboardInterrupt):
        session.run()
    assert session.is_simulated
    np.testing.assert_array_equal(session.finish(), 2 * X)


def test_the_prompt_lists_cores_and_chooses_one():
    out = io.StringIO()
    session = at(all_gather, "copy.wait()")
    prompt = Prompt(session, io.StringIO(""), out)
    prompt.onecmd("cores")
    prompt.onecmd("core")
    prompt.onecmd("core x")
    prompt.onecmd("core 2")
    prompt.onecmd("p int(me)")
    text = out.getvalue()
    assert text.count("N is a row of this table.") == 2
    assert "ValueError" not in text
    assert "> 0  device 0  line" in text
    assert "> 2  device 2  line" in text
    assert text.rstrip().endswith("2")


def test_threads_of_a_block_show_the_phases_of_barriers():
    def kernel(x_ref, o_ref, smem, barrier):
        thread = lax.axis_index("wg")

        @pallas.when(thread == 0)
        def _():
            smem[...] = x_ref[...] * 2
            mosaic_gpu.commit_smem()
            mosaic_gpu.barrier_arrive(barrier)

        @pallas.when(thread == 1)
        def _():
            mosaic_gpu.barrier_wait(barrier)
            o_ref[...] = smem[...]

    x = np.arange(128, dtype=F32)
    call = mosaic_gpu.kernel(
        kernel,
        out_shape=x,
        scratch_shapes=[mosaic_gpu.SMEM((128,), F32), mosaic_gpu.Barrier()],
        num_threads=2,
        thread_name="wg",
        interpret=mosaic_gpu.InterpretParams(detect_races=True),
    )
    session = debug(call)(x)
    session.break_at(line_of(kernel, "mosaic_gpu.barrier_wait"), __file__)
    session.run()
    assert [row.name for row in session.cores()] == ["the block, thread 0", "the block, thread 1"]
    assert session.cores()[1].is_chosen
    [phase] = session.variables(-2)["barrier"]
    assert (phase.phases, phase.num_arrivals) in [(0, 1), (1, 1)]
    np.testing.assert_array_equal(session.finish(), 2 * x)


def test_each_device_is_a_thread_of_the_debug_protocol():
    session = at(all_gather, "copy.start()")
    view = View(Stop(session, "function", []))
    names = [thread["name"] for thread in view.threads(100)]
    assert names[:2] == ["function", "device 0: its turn"]
    assert [thread["id"] for thread in view.threads(100)] == [*range(100, 101 + N)]
    assert view.stack(2)[0]["name"] == "all_gather (device 2)"
    number = view.stack(2)[0]["id"]
    assert int(view.evaluate("me", number)) == 2
    [values, cores] = view.scopes(number)
    assert (values["name"], cores["name"]) == ("Values", "Cores")
    shown = view.references.variables(values["variablesReference"])
    assert {"me", "x_ref", "local_sem"} <= {each["name"] for each in shown}
    program = view.program(view.stack()[0]["id"], None, None)
    assert [core["isChosen"] for core in program["cores"]] == [True, False, False, False]
    assert program["path"][-1] == "all_gather"
    assert program["positions"] == []


def test_stops_in_the_body_of_a_pipeline_go_by_its_programs():
    def body(x_ref, y_ref):
        y = x_ref[...] * 2
        y_ref[...] = y

    def kernel(x_ref, o_ref):
        rows = BlockSpec((1, 2), lambda i: (i, 0))
        tpu.emit_pipeline(body, grid=(N,), in_specs=[rows], out_specs=[rows])(x_ref, o_ref)

    call = pallas_call(
        kernel, X, in_specs=[ANYWHERE], out_specs=ANYWHERE, interpret=tpu.InterpretParams()
    )
    session = debug(call)(X)
    session.break_at(line_of(body, "y_ref[...] = y"), __file__)
    seen = []
    while not session.run().is_done:
        seen.append(np.array(session.variables()["y"]))
        functions = [frame.function.rpartition(".")[2] for frame in session.stack()]
        assert functions[-1] == "body"
        assert "kernel" in functions
    np.testing.assert_array_equal(np.concatenate(seen), 2 * X)
    np.testing.assert_array_equal(session.finish(), 2 * X)


def test_devices_that_reach_nobody_are_stepped_one_after_another():
    def kernel(x_ref, o_ref, sem):
        copy = tpu.make_async_copy(x_ref, o_ref, sem)
        copy.start()
        copy.wait()

    call = pallas_call(
        kernel,
        pl.ShapeDtypeStruct((1, 2), F32),
        in_specs=[ANYWHERE],
        out_specs=ANYWHERE,
        scratch_shapes=[DMA],
        interpret=tpu.InterpretParams(),
    )
    function = pl.jit(pl.shard_map(call, mesh=MESH, in_specs=P("ring"), out_specs=P("ring")))
    session = debug(function)(X)
    session.break_at(line_of(kernel, "copy.wait()"), __file__)
    names = []
    while not session.run().is_done:
        names.append(session.stack()[-1].run)
    assert names == [f"(device {i})" for i in range(N)]
    np.testing.assert_array_equal(session.finish(), X)


@pytest.mark.parametrize(
    "leave", ["back and through", "back and in", "out and back", "over, back and in", "to the end"]
)
def test_effects_happen_once_however_a_kernel_is_left_and_entered(leave):
    happened = []

    def noisy(x_ref, o_ref, *sems):
        pl.debug.callback(lambda x: happened.append(float(x)), x_ref[0, 0])
        barrier = tpu.get_barrier_semaphore()
        pallas.semaphore_signal(barrier, device_id=lax.rem(lax.axis_index("ring") + 1, N))
        pallas.semaphore_wait(barrier)
        o_ref[0] = x_ref[0] * 2
        pl.debug.callback(lambda x: happened.append(float(x)), o_ref[0, 0])

    function = gathered(noisy)
    expected = np.asarray(function(X))
    pl.effects_barrier()
    n = len(happened)
    happened.clear()

    def enter(session):
        for _ in range(9):
            if not session.is_simulated and not session.is_done:
                session.step()
        return session

    def go_back(session):
        while session.is_simulated:
            session.back()
        return session

    session = enter(debug(function)(X))
    assert session.is_simulated
    for _ in range(5):
        session.step()
    match leave:
        case "back and through":
            go_back(session).finish()
        case "back and in":
            enter(go_back(session)).step()
            go_back(session)
            enter(session)
        case "out and back":
            session.out()
            session.back()
            enter(session)
        case "over, back and in":
            session = debug(function)(X)
            happened.clear()
            session.finish()
            for _ in range(3):
                session.back()
            enter(session)
    np.testing.assert_array_equal(np.asarray(session.finish()), expected)
    pl.effects_barrier()
    assert len(happened) == n

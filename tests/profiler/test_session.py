"""Sessions of programs whose work is known: joins, totals, files and faults."""

import sys
import threading
import types
from pathlib import Path

import numpy as np
import pytest

import pellucid as pl
from pellucid import numpy as jnp
from pellucid._machine.base.errors import ArgumentValueError, UnsupportedError
from pellucid.events import EquationEntered, Observer, add_observer, remove_observer
from pellucid.profiler import Session, load, profile
from pellucid_profiler.calls import function_name
from pellucid_profiler.report import report
from tests.profiler.undisturbed import share_without_line


def layer(carry, w):
    return jnp.tanh(carry @ w), None


def loss(weights, x):
    y, _ = pl.lax.scan(layer, x, weights)
    return (jnp.sort(y, axis=0) ** 2).sum()


@pl.jit
def train_step(weights, x):
    return weights - 0.1 * pl.grad(loss)(weights, x)


N_LAYERS, N_CALLS = 5, 4


@pytest.fixture(scope="module")
def session() -> Session:
    """Four calls of a training step; the first runs before the session."""
    weights, x = jnp.full((N_LAYERS, 64, 64), 0.01), jnp.ones((64, 64))
    weights = train_step(weights, x)
    with profile() as recorded:
        for _ in range(N_CALLS):
            weights = train_step(weights, x)
    return recorded.wait()


def test_each_call_has_its_run(session: Session) -> None:
    names = [session.names[number] for number in session.calls.name]
    assert names == ["PjitFunction(train_step)"] * N_CALLS
    runs = session.calls.run
    assert len(set(runs)) == N_CALLS
    assert list(runs) == sorted(runs)
    counts = [np.count_nonzero(session.operations.run == run) for run in runs]
    assert len(set(counts)) == 1, "all runs of a program execute the same instructions"
    assert counts[0] > 0


def test_iterations_of_loops_are_counted(session: Session) -> None:
    ops = session.operations
    executed = ops.iteration[ops.run == session.calls.run[0]]
    assert executed.max() == N_LAYERS - 1


def test_totals_add_up(session: Session) -> None:
    totals = session.totals
    parts = totals.measured_seconds + totals.estimated_seconds + totals.unattributed_seconds
    assert parts == pytest.approx(totals.operation_seconds)
    sums = {
        "operations": sum(row.seconds for row in session.by_operation),
        "lines": sum(row.seconds for row in session.lines),
        "categories": sum(session.by_category().values()),
        "scopes": sum(session.by_scope().values()),
    }
    assert sums == pytest.approx(dict.fromkeys(sums, totals.operation_seconds))
    assert 0 < totals.busy_seconds <= totals.wall_seconds


def test_nearly_all_time_is_on_lines(session: Session) -> None:
    assert share_without_line(session) <= 0.05


def test_backward_operations_are_their_forward_lines(session: Session) -> None:
    code = layer.__code__
    [row] = [
        row
        for row in session.lines
        if row.place is not None and row.place.line == code.co_firstlineno + 1
        and row.place.file == code.co_filename
    ]  # fmt: skip
    assert row.forward_seconds > 0
    assert row.backward_seconds > 0


def test_flops_of_products_are_those_of_all_iterations(session: Session) -> None:
    flops = sum(row.flops or 0 for row in session.by_operation if row.instruction.startswith("dot"))
    in_fusions = sum(row.flops or 0 for row in session.by_operation if row.category == "fusion")
    # Forward, two of the derivative, and perhaps one again: each 2 n^3 a layer.
    least = 3 * N_CALLS * N_LAYERS * 2 * 64**3
    assert least <= flops + in_fusions <= 1.5 * least


def test_a_saved_session_is_the_same(session: Session, tmp_path: Path) -> None:
    path = tmp_path / "step.plprof"
    session.save(path)
    loaded = load(path)
    assert loaded.totals == session.totals
    assert loaded.lines == session.lines
    assert loaded.by_operation == session.by_operation
    assert report(loaded) == report(session)


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04 but no archive", b"text"])
def test_foreign_files_raise(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "foreign.plprof"
    path.write_bytes(content)
    with pytest.raises(ArgumentValueError, match="no whole session"):
        load(path)


def test_reports_name_lines_and_shares(session: Session) -> None:
    text = report(session)
    assert "4 calls in" in text
    assert "return jnp.tanh(carry @ w), None" in text
    assert "% measured by line" in text


def test_an_empty_session_says_so() -> None:
    with profile() as recorded:
        pass
    assert "Nothing ran on devices" in report(recorded.wait())
    assert recorded.totals.operation_seconds == 0


def test_a_second_session_is_refused() -> None:
    with profile(), pytest.raises(ArgumentValueError, match="one at a time"):
        profile().__enter__()


def test_a_session_ends_with_an_exception() -> None:
    recorded = profile()
    with pytest.raises(ZeroDivisionError), recorded:
        _ = 1 / 0
    assert recorded.totals.wall_seconds >= 0
    with profile():
        pass


def test_calls_of_threads_have_their_runs() -> None:
    functions = [pl.jit(lambda x, i=i: jnp.sin(x) @ x + i) for i in range(3)]
    x = jnp.ones((64, 64))
    for function in functions:
        function(x).block_until_ready()
    with profile() as recorded:
        threads = [threading.Thread(target=lambda f=f: f(x).block_until_ready()) for f in functions]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert len(recorded.calls) == 3
    assert len(set(recorded.calls.run)) == 3
    assert (recorded.calls.run != -1).all()


def test_calls_whose_operands_are_not_there_yet_have_their_runs() -> None:
    # The thread that made the operand begins the program then, outside of the call that asked for it.
    slow = pl.jit(lambda x: pl.lax.fori_loop(0, 30, lambda i, x: jnp.tanh(x @ x), x))
    first, second = (pl.jit(lambda x: jnp.cos(x) @ x) for _ in range(2))  # one program
    x = jnp.full((200, 200), 0.01)
    second(first(slow(x))).block_until_ready()
    (first(x) * 3).block_until_ready()
    with profile() as recorded:
        _ = first(x).block_until_ready()
        y = first(slow(x)) * 3
        _ = (y * 3) * 3
    names = [function_name(recorded.names[number]) for number in recorded.calls.name]
    assert names == ["<lambda>", "<lambda>", "<lambda>", "multiply", "multiply", "multiply"]
    programs = [
        set(recorded.operations.program[recorded.operations.run == run])
        for run in recorded.calls.run
    ]
    assert programs[0] == programs[2] != programs[1]
    assert programs[3] == programs[4] == programs[5] != programs[2]
    assert len(set(recorded.calls.run)) == 6


@pytest.mark.parametrize("called", ["second", "both"])
def test_a_function_that_shares_anothers_program_has_its_runs(called: str) -> None:
    def first(x):
        return jnp.cos(x) @ x

    # One executable, which is shared.
    first, second = pl.jit(first), pl.jit(types.FunctionType(first.__code__, globals(), "first"))
    slow = pl.jit(lambda x: pl.lax.fori_loop(0, 30, lambda i, x: jnp.tanh(x @ x), x))
    x = jnp.full((200, 200), 0.01)
    second(first(slow(x))).block_until_ready()
    with profile() as recorded:
        # Operands that aren't there yet: no run begins within its call.
        y = [second(slow(x)), *([first(slow(x))] if called == "both" else [])]
    del y
    modules = [
        {recorded.programs[i].name for i in set(recorded.operations.program[recorded.operations.run == run])}
        for run in recorded.calls.run
    ]  # fmt: skip
    assert modules == [{"jit__lambda"}, {"jit_first"}] * (2 if called == "both" else 1)
    assert len({*recorded.calls.run}) == len(recorded.calls)


def eager(x):
    y = jnp.sin(x)
    return inner(y) + 1


def inner(y):
    return y @ y


def line(function, offset: int) -> tuple[str, int, str]:
    return __file__, function.__code__.co_firstlineno + offset, function.__qualname__


def test_eager_operations_count_for_the_lines_of_functions_that_call_them() -> None:
    x = jnp.full((64, 64), 1 / 64)
    _ = eager(x) * 3
    with profile(lines=True) as recorded:
        _ = eager(x) * 3  # here
        y = jnp.cos(x)
    y.block_until_ready()
    assert sys.gettrace() is None
    places = {row.place for row in recorded.lines}
    here = next(row.place for row in recorded.lines if row.place and row.place.function == "test_eager_operations_count_for_the_lines_of_functions_that_call_them")  # fmt: skip
    assert {line(eager, 1), line(eager, 2), line(inner, 1)} < places
    assert here.file == __file__
    assert len(places) == 5
    assert recorded.totals.unattributed_seconds == 0
    with profile() as without:
        _ = eager(x)
    assert {row.place for row in without.lines}.isdisjoint(places)


def test_what_an_eager_backward_pass_runs_counts_for_the_lines_that_it_transposes() -> None:
    def loss(x):
        y = x @ x
        return jnp.sin(y).sum()

    x = jnp.full((64, 64), 1 / 64)
    pl.grad(loss)(x)
    with profile(lines=True) as recorded:
        pl.grad(loss)(x)
    rows = {row.place: row for row in recorded.lines}
    product, value = rows[line(loss, 1)], rows[line(loss, 2)]
    assert product.forward_seconds > 0
    assert product.backward_seconds > 0
    assert value.forward_seconds > 0
    assert value.backward_seconds > 0
    # What runs in the thread of a call that has another program is of its line, too.
    assert "jit_cos" in {row.program for row in recorded.by_operation}
    assert rows.keys() <= {line(loss, 1), line(loss, 2), None}


def _backward_rule(residual, cotangent):
    return (residual * cotangent,)


def _doubled(x):
    return x * 2


def _squared(x):
    y = x * x
    return jnp.sin(y).sum()


def _differentiated(through: str):
    """A function of a square matrix that has a gradient, and the line of which the backward pass is to be found."""
    if through == "vmap":
        return pl.vmap(pl.grad(_squared)), line(_squared, 1)
    if through == "grad of grad":
        inner_gradient = lambda x: (pl.grad(_squared)(x) ** 2).sum()
        return pl.grad(inner_gradient), line(_squared, 1)
    if through == "custom_vjp":
        ruled = pl.custom_vjp(jnp.sin)
        ruled.defvjp(lambda x: (jnp.sin(x), jnp.cos(x)), _backward_rule)
        return pl.grad(lambda x: ruled(x).sum()), line(_backward_rule, 1)
    if through == "cond":
        return pl.grad(lambda x: pl.lax.cond(True, _doubled, jnp.sin, x).sum()), line(_doubled, 1)
    whole = {"jit": pl.jit, "checkpoint": pl.checkpoint}[through](eager)
    return pl.grad(lambda x: whole(x).sum()), line(inner, 1)


@pytest.mark.parametrize(
    "through", ["jit", "checkpoint", "cond", "custom_vjp", "vmap", "grad of grad"]
)
def test_backward_passes_through_transforms_count_as_such(through: str) -> None:
    x = jnp.full((64, 64), 1 / 64)
    gradient, place = _differentiated(through)
    gradient(x)
    with profile(lines=True) as recorded:
        gradient(x)
    row = next(row for row in recorded.lines if row.place == place)
    assert row.backward_seconds > 0
    if through == "custom_vjp":
        assert row.forward_seconds == 0
    else:
        assert row.forward_seconds > 0


def test_what_a_backward_pass_runs_within_leaves_only_its_own_program() -> None:
    entered = []

    class Seen(Observer):
        def equation_entered(self, event: EquationEntered, /) -> None:
            entered.append((event.transformation, event.source is not None))

    observer = Seen()
    gradient = pl.grad(lambda x: pl.lax.cond(True, _doubled, jnp.sin, x).sum())
    add_observer(observer)
    try:
        gradient(jnp.ones(3))
    finally:
        remove_observer(observer)
    first = entered.index(("transpose", True))
    assert len(entered) > first + 4
    assert set(entered[first:-1]) == {("transpose", True)}
    assert not entered[-1][1]


def test_lines_are_not_marked_under_a_debugger() -> None:
    sys.settrace(lambda *_: None)
    try:
        with profile(lines=True) as recorded:
            jnp.sin(1.0)
        assert sys.gettrace() is not None
    finally:
        sys.settrace(None)
    assert "A debugger follows this thread" in recorded.report()


def test_a_session_that_another_thread_ends_marks_no_more_lines() -> None:
    recorded = profile(lines=True).__enter__()
    thread = threading.Thread(target=recorded.__exit__, args=(None, None, None))
    thread.start()
    thread.join()
    assert sys.gettrace() is None
    assert recorded.wait().totals.wall_seconds > 0


def test_an_executable_has_the_measured_time_of_its_kernels(session: Session) -> None:
    weights, x = jnp.full((N_LAYERS, 64, 64), 0.01), jnp.ones((64, 64))
    record = pl.viz.compiled(train_step, profile=session)(weights, x).record
    seconds = {each.name: each.seconds for each in record.kernels}
    assert sum(seconds.values()) == pytest.approx(
        sum(
            row.seconds
            for row in session.by_operation
            if row.instruction in seconds and row.program == "jit_train_step"
        ) / N_CALLS
    )  # fmt: skip
    assert sum(seconds.values()) > 0.5 * session.totals.operation_seconds / N_CALLS
    plain = pl.viz.compiled(train_step)(weights, x).record
    assert {each.seconds for each in plain.kernels} == {None}
    with pytest.raises(ArgumentValueError, match="no run in the session"):
        pl.viz.compiled(pl.jit(jnp.cos), profile=session)(x)


def test_programs_whose_results_are_dropped_are_recorded() -> None:
    slow = pl.jit(lambda x: pl.lax.fori_loop(0, 20, lambda i, x: jnp.tanh(x @ x), x))
    cosine = pl.jit(lambda x: jnp.cos(x) @ x)
    x = jnp.full((200, 200), 0.01)
    cosine(slow(x)).block_until_ready()
    with profile() as recorded:
        for _ in range(5):
            cosine(slow(x))
    assert len(recorded.calls) == len({*recorded.calls.run} - {-1}) == 10
    programs = [program.name for program in recorded.programs.values()]
    assert programs == ["jit__lambda"] * 2, "what waits for the devices is no part of the session"
    assert not any("draining" in recorded.names[name] for name in recorded.spans.name)


def test_devices_are_told_apart() -> None:
    mesh = pl.make_mesh((8,), ("x",))
    x = pl.device_put(jnp.ones((64, 64)), pl.NamedSharding(mesh, pl.P("x")))
    f = pl.jit(lambda x: jnp.sin(x).sum())
    f(x).block_until_ready()
    with profile() as recorded:
        f(x).block_until_ready()
    assert set(recorded.operations.device) == set(range(8))
    assert "collective" in recorded.by_category()


def test_a_program_compiled_in_the_session_has_lines() -> None:
    with profile() as recorded:
        pl.jit(lambda x: jnp.cos(x) @ x)(jnp.ones((64, 64)))
    assert any(row.place is not None for row in recorded.lines)


def test_asking_while_recording_raises() -> None:
    with profile() as recorded, pytest.raises(ArgumentValueError, match="being recorded"):
        recorded.wait()


def test_steps_have_their_calls_and_the_time_of_their_operations(tmp_path: Path) -> None:
    function, x = pl.jit(lambda x: jnp.sin(x) @ x), jnp.ones((64, 64))
    function(x).block_until_ready()
    with profile() as recorded:
        function(x).block_until_ready()
        for i in (3, 4):
            with pl.profiler.step(i):
                y = [function(x) for _ in range(i)]  # awaited by the next, or by the session
        with pl.profiler.StepTraceAnnotation("train", step_num=7):
            pass
    del y
    recorded.save(tmp_path / "steps.plprof")
    for session in (recorded.wait(), load(tmp_path / "steps.plprof")):
        assert [(step.number, step.call_count) for step in session.steps] == [
            (3, 3),
            (4, 4),
            (7, 0),
        ]
        in_steps = np.isin(session.operations.run, session.calls.run[1:])
        assert sum(step.operation_seconds for step in session.steps) == pytest.approx(
            session.seconds_of_operation[in_steps].sum()
        )
        assert session.steps[2].operation_seconds == 0
        assert all(0 < step.seconds <= session.totals.wall_seconds for step in session.steps)
    assert "3 steps of " in recorded.report()
    with profile() as without:
        pass
    assert without.steps == []


def test_annotations_and_functions_of_python_are_spans() -> None:
    def load_batch(n: int) -> int:
        return sum(range(n))

    with profile(python=True) as recorded, pl.profiler.annotate("load", size=3):
        load_batch(10)
    spans = recorded.spans
    names = [recorded.names[i] for i in spans.name]
    load = names.index("load")
    [function] = [i for i, name in enumerate(names) if "load_batch" in name]
    assert spans.start_ns[load] <= spans.start_ns[function]
    assert spans.end_ns[function] <= spans.end_ns[load]
    assert spans.thread[function] == spans.thread[load]


def test_details_that_the_recorder_cant_encode_are_refused() -> None:
    with pytest.raises(UnsupportedError, match="can't have the characters"):
        pl.profiler.annotate("a", text="x,y")

"""Parts of a session add up to it: waiting and working of collectives, steps of compilation, the host's time, memory."""

from pathlib import Path

import numpy as np
import pytest

import pellucid as pl
from pellucid import numpy as jnp
from pellucid.introspect import recording
from pellucid.profiler import Session, load, profile
from pellucid_profiler.compile_steps import COMPILE
from pellucid_profiler.findings import findings
from pellucid_profiler.live_buffers import program_memory

N_DEVICES, N_RUNS, SLOW_DEVICE = 8, 4, 5


@pytest.fixture(scope="module")
def collective() -> Session:
    """Runs in which one device has thirty times as much to do before all add up."""
    mesh = pl.make_mesh((2, 4), ("data", "model"))

    def body(x):
        number = 4 * pl.lax.axis_index("data") + pl.lax.axis_index("model")
        n = jnp.where(number == SLOW_DEVICE, 60, 2)
        y = pl.lax.fori_loop(0, n, lambda _, y: jnp.tanh(y @ y), x)
        return pl.lax.psum(pl.lax.psum(y, "model"), "data")

    step = pl.jit(pl.shard_map(body, mesh=mesh, in_specs=pl.P("data", "model"), out_specs=pl.P()))
    x = pl.device_put(
        jnp.full((2 * 150, 4 * 150), 0.01), pl.NamedSharding(mesh, pl.P("data", "model"))
    )
    step(x).block_until_ready()
    alone = pl.jit(
        lambda x: jnp.tanh(x @ x) @ x
    )  # what one device does besides is no reason to wait
    y = jnp.full((600, 600), 0.01)
    alone(y).block_until_ready()
    with profile() as recorded:
        for _ in range(N_RUNS):
            step(x).block_until_ready()
            alone(y).block_until_ready()
    return recorded.wait()


def test_waiting_and_working_are_the_time_of_collectives(collective: Session) -> None:
    rows = collective.by_collective()
    assert sum(row.count for row in rows) == 2 * N_RUNS * N_DEVICES
    assert sum(row.seconds for row in rows) == pytest.approx(collective.by_category()["collective"])
    assert all(row.wait_seconds >= 0 and row.work_seconds >= 0 for row in rows)
    assert len(collective.collectives) == 2 * N_RUNS * N_DEVICES
    # In each meeting one device is last, and waits for nobody.
    met = collective.collectives
    sizes, last = np.bincount(met.meeting), np.bincount(met.meeting, met.is_last)
    assert sorted(sizes) == [2] * 4 * N_RUNS + [4] * 2 * N_RUNS
    assert (last == 1).all()
    assert (met.wait_ns[met.is_last == 1] == 0).all()


def test_collectives_have_axes_and_bytes(collective: Session) -> None:
    infos = [collective.infos[row.info] for row in collective.by_collective()]
    assert {(tuple(info.axes), info.group_size) for info in infos} == {
        (("data",), 2), (("model",), 4),
    }  # fmt: skip
    n_bytes = 150 * 150 * 4
    assert {info.sent_bytes for info in infos} == {2 * n_bytes * 3 / 4, 2 * n_bytes / 2}


def test_the_straggler_is_the_device_with_most_to_do(collective: Session) -> None:
    late = collective.straggler
    assert late is not None
    assert late.device == SLOW_DEVICE
    assert late.own_seconds > late.median_seconds
    [finding] = [each for each in findings(collective) if f"device {SLOW_DEVICE}" in each.text]
    assert "Collectives wait" in finding.text


@pytest.fixture(scope="module")
def first_call() -> Session:
    """A call that compiles, with an array of the host, whose result is read."""

    def layer(x, w):
        return jnp.tanh(x @ w) + 3, None

    # Runs of the tests compile without these kernels, except one in eight.
    step = pl.jit(
        lambda ws, x: jnp.sort(pl.lax.scan(layer, x, ws)[0], axis=0),
        compiler_options={"xla_cpu_use_fusion_emitters": True},
    )
    ws, x = jnp.ones((3, 40, 40)), np.ones((40, 40), np.float32)
    with profile() as recorded:
        for _ in range(2):
            pl.device_get(step(ws, x))
    return recorded.wait()


def test_steps_of_compilation_add_up_and_have_names(first_call: Session) -> None:
    steps = first_call.compile_steps
    whole = [name == COMPILE for name in first_call.names]
    spans = first_call.spans.chosen(np.flatnonzero(np.array(whole)[first_call.spans.name]))
    seconds = float((spans.end_ns - spans.start_ns).sum()) / 1e9
    assert sum(step.seconds for step in steps) == pytest.approx(seconds)
    assert sum(step.seconds for step in steps if step.is_named) >= 0.9 * seconds
    assert {step.program for step in steps} == {"jit__lambda"}
    assert {"fusion", "algsimp", "layout-assignment"} <= {
        step.name for step in steps if step.phase == "passes"
    }
    kernels = [step for step in steps if step.phase == "kernels" and step.thread_seconds]
    assert any(step.place is not None and "layer" in step.place.function for step in kernels)


def test_the_time_of_the_host_adds_up(first_call: Session) -> None:
    rows = first_call.host
    assert sum(row.seconds for row in rows) == pytest.approx(first_call.wall_ns / 1e9)
    seconds = {row.activity: row.seconds for row in rows}
    assert seconds["compilation"] > 0
    assert seconds["dispatch"] > 0
    assert seconds["Python, devices idle"] > 0


def test_transfers_have_bytes_and_lines(first_call: Session) -> None:
    rows = {row.direction: row for row in first_call.by_transfer()}
    arguments, results = rows["host_to_device"], rows["device_to_host"]
    assert (arguments.count, arguments.n_bytes) == (2, 2 * 40 * 40 * 4)
    assert (results.count, results.n_bytes) == (2, 2 * 40 * 40 * 4)
    assert arguments.place is not None
    assert arguments.place == results.place
    assert "pl.device_get(step(ws, x))" in (
        first_call.report() + _text(first_call, arguments.place)
    )


def _text(session: Session, place) -> str:
    source = session.sources[place.file]
    assert source.lines is not None
    return source.lines[place.line - source.first_line]


def test_memory_at_its_peak_is_known_by_line(first_call: Session) -> None:
    [memory] = first_call.memory.values()
    assert memory.peak_bytes == max(memory.live_bytes)
    assert sum(each.n_bytes for each in memory.at_peak) == memory.peak_bytes
    arguments = [each.n_bytes for each in memory.at_peak if each.kind == "argument"]
    assert sum(arguments) == (3 * 40 * 40 + 40 * 40) * 4


def test_peak_memory_is_that_of_programs_whose_need_is_known() -> None:
    n_bytes = 4 * 256 * 256

    @pl.jit
    def program(x):
        # Three products that live at once besides the argument, one of which the result may replace.
        y, z = x @ x, x @ x.T
        return y @ z

    x = jnp.ones((256, 256))
    compiled = program.lower(x).compile()
    executables = [compiled.runtime_executable()]
    [loaded] = recording.loaded_modules(executables, {"jit_program"}).values()
    memory = program_memory(loaded)
    assert memory is not None
    assert memory.peak_bytes <= loaded.allocated_bytes() * 1.01
    assert 3 * n_bytes <= memory.peak_bytes <= 4.05 * n_bytes


def test_parts_are_saved(collective: Session, first_call: Session, tmp_path: Path) -> None:
    for session in (collective, first_call):
        path = tmp_path / "session.plprof"
        session.save(path)
        loaded = load(path)
        assert loaded.by_collective() == session.by_collective()
        assert loaded.straggler == session.straggler
        assert loaded.compile_steps == session.compile_steps
        assert loaded.host == session.host
        assert loaded.by_transfer() == session.by_transfer()
        assert loaded.memory == session.memory

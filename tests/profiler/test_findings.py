"""Findings name what was planted: a slow line, a recompilation, waiting devices, and nothing where all is well."""

import sys
import time

import numpy as np
import pytest

import pellucid as pl
from pellucid import analysis, numpy as jnp
from pellucid.profiler import Session, profile
from pellucid_profiler.collectives import Collectives
from pellucid_profiler.compilations import Compilation
from pellucid_profiler.findings import findings
from pellucid_profiler.operations import Operations
from pellucid_profiler.peaks import Peaks
from pellucid_profiler.sources import InstructionInfo, ProgramInfo, Share, SourceLine
from tests.introspect import sample_profiles


@pytest.fixture(scope="module")
def step():
    """A step with one slow line, compiled."""

    @pl.jit
    def step(x):
        y = jnp.sin(x)
        z = jnp.linalg.matrix_power(x, 255)  # the slow line
        return y + z

    x = jnp.full((400, 400), 1 / 400)
    step(x).block_until_ready()
    return step, x


@pytest.fixture
def every_share(monkeypatch: pytest.MonkeyPatch) -> None:
    """Findings of whatever takes any time: how much it takes depends on what else runs."""
    monkeypatch.setattr(sys.modules[findings.__module__], "MIN_SHARE", 0.0)


def texts(session: Session) -> str:
    """All findings, as one text."""
    return "\n".join(f"{each.text} {each.evidence} {each.remedy}" for each in findings(session))


def test_a_slow_line_is_named(step) -> None:
    function, x = step
    with profile() as recorded:
        for _ in range(5):  # other processes may interrupt one
            function(x).block_until_ready()
    text = texts(recorded.wait())
    assert "of the operations' time is " in text
    assert "z = jnp.linalg.matrix_power(x, 255)" in text


def test_a_line_far_below_the_roofline_is_told_with_what_it_would_save(step) -> None:
    function, x = step
    with profile() as recorded:
        function(x).block_until_ready()
    session = recorded.wait()
    [slow, *_] = session.lines
    session.peaks = Peaks("cpu", slow.flops / slow.seconds * 50, 1e15)
    [finding] = [each for each in findings(session) if "operations' time is" in each.text]
    assert "It runs at 2.0 % of the roofline" in finding.remedy
    assert "that products of matrices reach" in finding.remedy
    assert finding.saved_seconds == pytest.approx(0.98 * slow.seconds)
    # The same line, on a machine whose memory is what it waits for.
    moved = sum(row.bytes or 0 for row in session.by_operation)
    session.peaks = Peaks("cpu", 1e18, moved / slow.seconds * 2)
    [finding] = [each for each in findings(session) if "operations' time is" in each.text]
    assert "GB/s that its memory reaches" in finding.remedy
    assert 0.4 * slow.seconds < finding.saved_seconds < slow.seconds


def test_a_line_whose_operands_are_transposed_is_told() -> None:
    zeros, run = np.zeros(3, np.int64), np.zeros(3, np.int64)
    start, end = 10**9 * np.array([0, 1, 3]), 10**9 * np.array([1, 3, 10])
    operations = Operations(zeros, np.arange(3), zeros, run, zeros, zeros, start, end, zeros)
    session = session_of(
        operations, {"transpose.1": "copy", "transpose.2": "copy", "dot": "library"}
    )
    place = SourceLine("model.py", 9, "f")
    program = session.programs[0]
    for name, info in program.instructions.items():
        share = Share(place, "jit(f)", "dot_general", None, 1.0)
        program.instructions[name] = info._replace(shares=[share], attribution="own", flops=1e9)
    [line, _] = sorted(findings(session), key=lambda each: "Copies" in each.text)
    assert line.text == "100 % of the operations' time is model.py, line 9."
    assert (
        "2 copies and transposes of its arrays (%transpose.2, %transpose.1) took 3 s"
        in line.evidence
    )
    assert "in the order in which it reads them" in line.remedy
    assert line.saved_seconds == pytest.approx(3.0)


def test_a_compilation_again_is_told_with_its_cause(every_share) -> None:
    @pl.jit
    def step(x):
        for _ in range(50):
            x = jnp.tanh(x) @ x
        return x

    step(jnp.ones((30, 30))).block_until_ready()
    with profile() as recorded:
        step(jnp.ones((40, 40))).block_until_ready()
    [compilation] = [each for each in recorded.compilations if each.function == "step"]
    assert compilation.entry_count == 2
    assert compilation.compile_seconds > 0
    text = texts(recorded.wait())
    assert "`step` was traced and compiled once" in text
    assert "f32[30,30]" in text
    assert "f32[40,40]" in text


def test_compilations_of_operations_called_eagerly_are_told(every_share) -> None:
    x = jnp.ones((3, 17, 29))
    function = pl.jit(lambda x: x - 2)
    with profile() as recorded:
        pl.lax.exp(pl.lax.rev(x, (0, 2)))
        function(x).block_until_ready()
    compiled = [(each.function, each.is_operation) for each in recorded.compilations]
    assert sorted(compiled) == [("<lambda>", False), ("exp", True), ("rev", True)]
    operations = [each for each in recorded.compilations if each.is_operation]
    [finding] = [each for each in findings(recorded.wait()) if "outside of `jit`" in each.text]
    assert finding.text.startswith("Compiling 2 operations called outside of `jit` took ")
    assert "test_findings.py, line" in finding.evidence
    assert finding.saved_seconds == pytest.approx(sum(each.seconds for each in operations))


def test_waiting_for_python_is_told(step, every_share) -> None:
    function, x = step
    with profile() as recorded:
        for _ in range(3):
            time.sleep(0.1)
            function(x).block_until_ready()
    [finding] = [each for each in findings(recorded.wait()) if "waited for Python" in each.text]
    assert 0.3 <= finding.saved_seconds <= recorded.totals.wall_seconds


def test_a_transfer_in_each_step_is_told_with_the_function_that_takes_it(every_share) -> None:
    # 20 MB of the host, for a function that does little.
    function, x = pl.jit(lambda x, row: x[row, 0] + 1), np.ones((5000, 1000), np.float32)
    function(x, 0).block_until_ready()
    with profile() as recorded:
        for row in range(4):
            function(x, row).block_until_ready()  # copies
    [finding] = [each for each in findings(recorded.wait()) if "copied from the host" in each.text]
    assert "devices 4 times" in finding.text
    assert "19.1 MiB each time" in finding.text
    assert "4 of them were arguments of `<lambda>`" in finding.evidence
    assert "function(x, row).block_until_ready()  # copies" in finding.evidence
    assert 0 < finding.saved_seconds <= recorded.totals.wall_seconds
    placed = pl.device_put(x)
    with profile() as recorded:
        for row in range(4):
            function(placed, row).block_until_ready()
    assert "copied from the host" not in texts(recorded.wait())


def test_python_numbers_of_first_calls_are_no_copied_arrays(every_share) -> None:
    functions = [pl.jit(lambda x, y, i=i: x * y + i) for i in range(4)]
    x = pl.device_put(np.ones(3, np.float32))
    with profile() as recorded:
        for function in functions:
            function(x, 2.0).block_until_ready()
    session = recorded.wait()
    assert len(session.live_arrays.n_bytes)
    assert "copied from the host" not in texts(session)


def session_of(operations: Operations, infos: dict[str, str]) -> Session:
    """A session of one program, whose instructions have the categories `infos`, by name."""
    instructions = {
        name: InstructionInfo(
            name, name, category, "none", [], None, None, None, is_container=False
        )
        for name, category in infos.items()
    }
    with profile() as empty:
        pass
    session = empty.wait()
    session.peaks = None
    session.names = [*infos]
    session.spans = session.spans.rows(np.zeros(0, np.int64))
    session.programs = {0: ProgramInfo("jit_f", instructions)}
    session.operations = operations
    session.wall_ns = int(operations.end_ns.max())
    return session


@pytest.mark.parametrize("category", ["collective", "other", "container"])
def test_a_straggler_is_named(category: str) -> None:
    """Also where devices meet in something else than a collective; not where it only contains what they meet in."""
    n_devices, n_runs = 4, 5
    device = np.tile(np.arange(n_devices), n_runs)
    run = np.repeat(np.arange(n_runs), n_devices)
    # Each run takes 1 s; device 2 comes to the collective half a second later than the others.
    start = run * 10**9 + np.where(device == 2, 5 * 10**8, 0)
    zeros = np.zeros(len(run), np.int64)
    end = (run + 1) * 10**9 - 1
    operations = Operations(zeros, zeros, zeros, run, device, zeros, start, end, zeros)
    session = session_of(operations, {"all-reduce": category})
    if category == "container":
        [info] = session.programs[0].instructions.values()
        session.programs = {0: ProgramInfo("jit_f", {info.name: info._replace(is_container=True)})}
    last = (device == 2).astype(np.int64)
    session.collectives = Collectives(np.arange(len(run)), run, 5 * 10**8 * (1 - last), last)
    if category == "container":
        assert not any("device 2" in each.text for each in findings(session))
        return
    [finding] = findings(session)
    assert "wait" in finding.text
    assert "device 2" in finding.text
    assert finding.saved_seconds == pytest.approx(n_runs * 0.5)


def test_a_callback_that_programs_wait_for_is_named() -> None:
    def slow(x):
        time.sleep(0.05)
        return x

    function = pl.jit(lambda x: pl.pure_callback(slow, x, x) + 1)
    function(jnp.ones(4)).block_until_ready()
    with profile() as recorded:
        for _ in range(3):
            function(jnp.ones(4)).block_until_ready()
    [finding] = [each for each in findings(recorded.wait()) if "Programs called" in each.text]
    assert "`slow` 3 times" in finding.text
    assert "def slow(x):" in finding.evidence
    assert 0.15 <= finding.saved_seconds <= recorded.totals.wall_seconds


def test_results_that_are_read_in_each_step_are_named(step) -> None:
    function, x = step
    with profile() as recorded:
        for _ in range(4):
            float(function(x)[0, 0])  # reads
    [finding] = [each for each in findings(recorded.wait()) if "Python waited" in each.text]
    assert "# reads" in finding.evidence
    assert 0 < finding.saved_seconds <= recorded.totals.wall_seconds


def test_arrays_that_become_more_are_named() -> None:
    add, x = pl.jit(lambda x: x + 1), jnp.ones((512, 512))
    add(x).block_until_ready()
    history = []
    with profile() as recorded:
        for _ in range(5):
            x = add(x).block_until_ready()  # grows
            history.append(x)
    [finding] = [
        each for each in findings(recorded.wait()) if "Arrays of one line grew" in each.text
    ]
    assert "5 MiB" in finding.text
    assert "5 buffers" in finding.text
    assert "# grows" in finding.evidence
    with profile() as recorded:
        for _ in range(5):
            x = add(x).block_until_ready()
    assert "Arrays of one line grew" not in texts(recorded.wait())


def test_a_temporary_that_is_most_of_the_memory_is_named() -> None:
    @pl.jit
    def distances(x):
        outer = (x[:, None] - x[None, :]) ** 2
        return jnp.sort(outer, axis=0)[-1] @ x  # the large one

    x = jnp.ones(1024)
    distances(x).block_until_ready()
    with profile() as recorded:
        distances(x).block_until_ready()
    [finding] = [each for each in findings(recorded.wait()) if "One temporary" in each.text]
    assert "`distances`" in finding.text
    assert "MiB" in finding.evidence
    assert "test_findings.py" in finding.evidence or "outer" in finding.evidence


def test_lowering_that_takes_longer_than_xla_is_named(every_share) -> None:
    session = sample_profiles.session()
    session.compilations = [Compilation("unrolled", "", 0, 0.3, 0.4, 0.2, 1, [])]
    [finding] = [each for each in findings(session) if "longer than compiling" in each.text]
    assert "Tracing and lowering `unrolled` took 700 ms" in finding.text
    assert finding.saved_seconds == pytest.approx(0.5)


def test_a_kernel_that_is_slow_to_generate_is_named(every_share, monkeypatch) -> None:
    monkeypatch.setattr(sys.modules[findings.__module__], "MIN_SHARE_OF_LINE", 0.2)
    session = sample_profiles.session()
    [finding] = [each for each in findings(session) if "Generating one kernel" in each.text]
    assert "In[3], line" in finding.text
    assert "%op.1 of jit_step" in finding.evidence
    assert finding.saved_seconds == pytest.approx(0.025)


def test_copies_are_told() -> None:
    zeros, run = np.zeros(2, np.int64), np.zeros(2, np.int64)
    start, end = np.array([0, 10**9]), np.array([10**9, 3 * 10**9])
    operations = Operations(zeros, np.array([0, 1]), zeros, run, zeros, zeros, start, end, zeros)
    [finding] = findings(session_of(operations, {"dot": "library", "copy.1": "copy"}))
    assert finding.text.startswith("Copies and transposes take 67 %")
    assert "%copy.1 of jit_f" in finding.evidence
    assert finding.saved_seconds == 2


def test_a_constraint_that_cannot_be_met_is_told_as_the_sharding_view_tells_it(tmp_path) -> None:
    mesh = pl.sharding.Mesh(np.array(pl.devices()), ("x",))
    rows = pl.NamedSharding(mesh, pl.P("x"))

    @pl.jit
    def step(x):
        y = pl.lax.with_sharding_constraint(x[:16], rows)
        return pl.lax.with_sharding_constraint(x * y.sum(), rows)  # uneven

    x = jnp.ones((17, 4))
    step(x).block_until_ready()
    with profile() as recorded:
        step(x).block_until_ready()
    [finding] = [each for each in findings(recorded.wait()) if "constraint" in each.text]
    assert finding.text == (
        "A constraint on f32[17,4] can't be met along dimension 0: 8 parts aren't even, so as a result it is whole on each"
        " device, 272 B instead of 48 B."
    )
    assert "# uneven" in finding.evidence
    assert finding.remedy.startswith("Pad 17 to 24 along dimension 0")
    [shown] = analysis.sharding(step, x).uneven
    assert (
        shown.note == "pad 17 to 24 along dimension 0" + finding.text[finding.text.index(":") : -1]
    )
    recorded.save(tmp_path / "session")
    assert findings(pl.profiler.load(tmp_path / "session")) == findings(recorded.wait())
    with profile() as recorded:
        pl.jit(lambda x: pl.lax.with_sharding_constraint(x[:16], rows))(x).block_until_ready()
    assert "can't be met" not in texts(recorded.wait())


def test_uneven_cuts_are_counted_by_dimension_and_cost_memory() -> None:
    mesh = pl.make_mesh((2, 4), ("a", "b"), axis_types=(pl.sharding.AxisType.Auto,) * 2)
    blocks = pl.NamedSharding(mesh, pl.P("a", "b"))
    step = pl.jit(lambda x: pl.lax.with_sharding_constraint(x * 2, blocks))
    with profile() as recorded:
        step(jnp.ones((3, 7))).block_until_ready()
    [finding] = [each for each in findings(recorded.wait()) if "constraint" in each.text]
    # Two rows of two columns on each device, if both dimensions were padded.
    assert finding.text.endswith("84 B instead of 16 B. So it is with 1 other cut.")
    with profile() as recorded:
        step(jnp.ones((1, 1))).block_until_ready()
    assert "can't be met" not in texts(recorded.wait())


def test_an_empty_session_has_no_findings() -> None:
    with profile() as recorded:
        pass
    assert findings(recorded.wait()) == []

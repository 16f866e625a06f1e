"""The reference's profiler names: directories for XProf, Perfetto traces, annotations, a server, memory profiles."""

import gzip
import json
import struct
import types
from pathlib import Path

import numpy as np
import pytest
from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as pb

import pellucid as pl
from pellucid import numpy as jnp, profiler
from pellucid._machine.base.errors import ArgumentTypeError, ArgumentValueError, UnsupportedError
from pellucid._machine.xla import compile as xla_compile
from pellucid.introspect.protobuf import fields
from pellucid_profiler.perfetto import _lanes, perfetto_trace
from tests.profiler import gpu_recordings


def slices(trace: bytes) -> dict[str, list[tuple[str, int, int]]]:
    """By track, (name, begin, end) of its slices, as begins and ends nest."""
    message = pb.Trace.FromString(trace)
    names, tracks, stacks = {}, {}, {}
    result: dict[str, list[tuple[str, int, int]]] = {}
    for packet in message.packet:
        names |= {each.iid: each.name for each in packet.interned_data.event_names}
        if packet.HasField("track_descriptor"):
            tracks[packet.track_descriptor.uuid] = (
                packet.track_descriptor.uuid,
                packet.track_descriptor.name,
            )
        if packet.HasField("track_event"):
            event, track = packet.track_event, tracks[packet.track_event.track_uuid]
            stack = stacks.setdefault(track, [])
            if event.type == pb.TrackEvent.TYPE_SLICE_BEGIN:
                stack.append((names[event.name_iid], packet.timestamp))
            else:
                name, begin = stack.pop()
                assert name == names[event.name_iid], "begins and ends nest"
                result.setdefault(track[1], []).append((name, begin, packet.timestamp))
    assert not any(stacks.values())
    return result


def test_perfetto_reads_every_slice() -> None:
    f = pl.jit(lambda x: pl.lax.fori_loop(0, 3, lambda _, c: jnp.sin(c @ c), x))
    x = jnp.ones((64, 64))
    f(x).block_until_ready()
    with profiler.profile() as recorded:
        for i in range(3):
            with profiler.step(i):
                f(x).block_until_ready()
    session = recorded.wait()
    tracks = slices(perfetto_trace(session))
    devices = [each for name, rows in tracks.items() if name.startswith("device") for each in rows]
    ops = session.operations
    expected = sorted(
        (session.names[name], int(start), int(end))
        for name, start, end in zip(ops.instruction, ops.start_ns, ops.end_ns, strict=True)
    )
    assert sorted(devices) == expected
    assert len([each for each in tracks["python"] if each[0] == "step"]) == 3


@pytest.mark.parametrize(
    ("spans", "expected"),
    [
        ([(0, 10), (2, 6), (4, 12), (20, 30), (21, 30)], [0, 0, 1, 0, 0]),
        ([(0, 20), (1, 10), (4, 12)], [0, 0, 1]),  # two that cross within a third
        ([(0, 5), (5, 9)], [0, 0]),
        ([], []),
    ],
)
def test_spans_that_cross_lie_on_lanes_of_their_own(spans, expected) -> None:
    start, end = np.array(spans, np.int64).reshape(-1, 2).T
    assert list(_lanes(start, end)) == expected


def test_a_traced_directory_has_what_xprof_opens(tmp_path: Path) -> None:
    with profiler.trace(tmp_path, create_perfetto_trace=True):
        jnp.sin(jnp.ones(8)).block_until_ready()
    [space] = tmp_path.glob("plugins/profile/*/*.xplane.pb")
    planes = [plane.name for plane in profiler.ProfileData.from_file(str(space)).planes]
    assert "/host:CPU" in planes
    [perfetto] = tmp_path.glob("plugins/profile/*/perfetto_trace.pftrace")
    assert slices(perfetto.read_bytes())
    jsons = [*tmp_path.glob("plugins/profile/*/*.trace.json.gz"), perfetto.with_suffix(".json.gz")]
    assert len(jsons) == 2
    for path in jsons:
        events = json.loads(gzip.decompress(path.read_bytes()))["traceEvents"]
        names = {e["args"]["name"] for e in events if e["name"] == "process_name"}
        assert "/host:CPU" in names
        spans = [e for e in events if e["ph"] == "X" and "sin" in e["name"]]
        assert spans
        assert all(e["dur"] >= 0 for e in spans)


def test_a_recording_has_the_name_that_its_options_give(tmp_path: Path) -> None:
    options = profiler.ProfileOptions()
    options.session_id = "first"
    with profiler.trace(tmp_path, profiler_options=options):
        jnp.sin(1.0)
    assert len([*tmp_path.glob("plugins/profile/first/*.xplane.pb")]) == 1


def test_a_step_annotation_has_its_number(tmp_path: Path) -> None:
    with profiler.trace(tmp_path), profiler.StepTraceAnnotation("train", step_num=7):
        jnp.sin(1.0)
    [space] = tmp_path.glob("plugins/profile/*/*.xplane.pb")
    events = [
        dict(event.stats)
        for plane in profiler.ProfileData.from_file(str(space)).planes
        for line in plane.lines
        for event in line.events
        if event.name == "train"
    ]
    assert [each["step_num"] for each in events] == [7]


def test_traces_that_cant_be_begun_or_ended_raise(tmp_path: Path) -> None:
    with pytest.raises(ArgumentValueError, match="no trace is being recorded"):
        profiler.stop_trace()
    with pytest.raises(UnsupportedError, match="no link"):
        profiler.start_trace(tmp_path, create_perfetto_link=True)
    with pytest.raises(ArgumentValueError, match="not to an address"):
        profiler.start_trace("gs://bucket/run")
    with profiler.trace(tmp_path), pytest.raises(ArgumentValueError, match="one at a time"):
        profiler.start_trace(tmp_path)


@pytest.mark.parametrize(
    "settings",
    [
        lambda: pl.set_mesh(pl.make_mesh((2,), ("x",))),
        lambda: pl.transfer_guard("disallow_explicit"),
        lambda: pl.debug_nans(True),
        lambda: pl.no_execution(True),
    ],
    ids=["set_mesh", "transfer_guard", "debug_nans", "no_execution"],
)
def test_settings_of_the_user_concern_no_programs_of_the_profiler(tmp_path: Path, settings) -> None:
    profiler.start_trace(tmp_path)
    with settings():
        profiler.stop_trace()
    assert len([*tmp_path.rglob("*.xplane.pb")]) == 1


def test_annotated_functions_are_named() -> None:
    @profiler.annotate_function
    def load_batch(n: int) -> int:
        """Loads."""
        return n + 1

    with profiler.profile() as recorded:
        assert load_batch(1) == 2
    assert "load_batch" in [recorded.names[number] for number in recorded.spans.name]
    assert load_batch.__doc__ == "Loads."


def test_memory_profiles_are_gzipped_pprof(tmp_path: Path) -> None:
    array = jnp.ones((1000, 1000)).block_until_ready()
    path = tmp_path / "memory.prof"
    profiler.save_device_memory_profile(str(path))
    assert b"buffer" in gzip.decompress(path.read_bytes())
    del array


def test_a_server_is_started_once() -> None:
    server = profiler.start_server(0)
    try:
        assert server is not None
        with pytest.raises(ArgumentValueError, match="runs already"):
            profiler.start_server(0)
    finally:
        profiler.stop_server()
    with pytest.raises(ArgumentValueError, match="no profiler server"):
        profiler.stop_server()


def test_costs_of_a_session_guide_the_compiler() -> None:
    function, x = pl.jit(lambda x: jnp.sin(x) @ x), jnp.ones((16, 16))
    with profiler.profile() as recorded:
        expected = function(x).block_until_ready()
    with pytest.raises(UnsupportedError, match="no costs that XLA's compiler takes"):
        profiler.guided_options(recorded)
    on_gpus = types.SimpleNamespace(recorded=gpu_recordings.two_calls)
    options = profiler.guided_options(on_gpus)
    costs = options["fdo_profile"]
    microseconds = {}
    for _, _, begin, stop in fields(costs, 0, len(costs)):
        (_, _, at, end), (_, _, bits, _) = fields(costs, begin, stop)
        [microseconds[costs[at:end].decode()]] = struct.unpack("<d", bits.to_bytes(8, "little"))
    assert microseconds == {"dot.3": 8.0, "all-reduce.1": 4.0}  # XLA's means of its kernels
    compile_options = xla_compile.compile_options(pl.devices()[:1], tuple(options.items()), is_partitioned=False)  # fmt: skip
    assert compile_options.executable_build_options.fdo_profile == options["fdo_profile"]
    guided = pl.jit(function.__wrapped__, compiler_options=options)
    np.testing.assert_allclose(guided(x), expected)
    with pytest.raises(ArgumentTypeError, match="compiler_options"):
        pl.jit(lambda x: x, compiler_options={"xla_cpu_enable_fast_math": b"1"})(x)

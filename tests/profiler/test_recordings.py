"""Recordings in files: of traces, of other processes, and queries over them."""

import socket
import subprocess
import sys
import threading
import time
import types
from pathlib import Path

import pytest

import pellucid as pl
from pellucid import numpy as jnp, profiler
from pellucid._machine.base.errors import ArgumentValueError, UnsupportedError
from pellucid_profiler import perfetto, queries
from pellucid_profiler.collect_profile import collect_profile, main
from pellucid_profiler.xspace import read_events
from tests.introspect import sample_profiles
from tests.profiler.undisturbed import share_without_line

with socket.socket() as _free:
    _free.bind(("localhost", 0))
    PORT = _free.getsockname()[1]
    """A port that no other process uses."""


def wave(x):
    return jnp.tanh(x @ x)


@pytest.fixture(scope="module")
def traced(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the trace of two calls."""
    folder = tmp_path_factory.mktemp("trace")
    function, x = pl.jit(wave), jnp.full((64, 64), 1 / 64)
    function(x).block_until_ready()
    with profiler.trace(folder):
        for _ in range(2):
            function(x).block_until_ready()
    return folder


def test_a_traced_folder_is_a_session_with_lines_and_memory(traced: Path) -> None:
    session = profiler.read_xspace(traced)
    assert len(session.calls) == 2
    places = {(row.place.file, row.place.function) for row in session.lines if row.place}
    assert (__file__, "wave") in places
    assert share_without_line(session) <= 0.05
    [memory] = [each for key, each in session.memory.items() if session.programs[key].name == "jit_wave"]  # fmt: skip
    assert memory.peak_bytes >= 2 * 64 * 64 * 4
    assert memory.peak_bytes == pytest.approx(memory.allocated_bytes, rel=0.01)


def test_a_file_that_is_no_recording_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="no file"):
        profiler.read_xspace(tmp_path)
    (tmp_path / "a.xplane.pb").write_bytes(b"\x89PNG\r\n" * 10)
    with pytest.raises(ArgumentValueError, match="no whole recording"):
        profiler.read_xspace(tmp_path)


def test_a_profile_is_written_as_xprof_reads_it(tmp_path: Path) -> None:
    function, x = pl.jit(wave), jnp.ones((16, 16))
    function(x).block_until_ready()
    with profiler.profile(programs=True) as recorded:
        function(x).block_until_ready()
    recorded.to_xspace(tmp_path / "a.xplane.pb")
    session = profiler.read_xspace(tmp_path / "a.xplane.pb")
    names = {program.name for program in session.programs.values()}
    assert "jit_wave" in names
    assert len(session.operations) >= len(recorded.operations)


def test_a_running_process_is_recorded_through_its_server(tmp_path: Path, capsys) -> None:
    function, x = pl.jit(wave), jnp.full((64, 64), 1 / 64)
    function(x).block_until_ready()
    profiler.start_server(PORT)
    try:
        status: list[int] = []
        arguments = [str(PORT), "300", "--log_dir", str(tmp_path)]
        thread = threading.Thread(target=lambda: status.append(main(arguments)))
        thread.start()
        while thread.is_alive():
            function(x).block_until_ready()
        thread.join()
    finally:
        profiler.stop_server()
    assert status == [0]
    path = Path(capsys.readouterr().out.strip())
    assert path.name == "localhost.xplane.pb"
    session = profiler.read_xspace(path)
    assert len(session.calls) >= 1
    assert any(row.place and row.place.function == "wave" for row in session.lines)


RECORDED_TOO = """
import select, sys, pellucid as pl, pellucid.numpy as jnp
pl.profiler.start_server(int(sys.argv[1]))
function, x = pl.jit(lambda x: jnp.tanh(x) @ x), jnp.ones((64, 64))
function(x).block_until_ready()
print("runs", flush=True)
while not select.select([sys.stdin], [], [], 0)[0]:
    function(x).block_until_ready()
"""


def test_a_registered_process_is_in_recordings_and_not_in_sessions() -> None:
    function, x = pl.jit(wave), jnp.full((64, 64), 1 / 64)
    function(x).block_until_ready()
    with subprocess.Popen(
        [sys.executable, "-c", RECORDED_TOO, str(PORT)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "runs\n"
            unregister = profiler.register_subprocess(process.pid, PORT)
            with profiler.profile() as recorded:
                time.sleep(0.3)
                function(x).block_until_ready()
            unregister()
        finally:
            process.communicate()
    planes = {*read_events(recorded.recorded()).planes}
    assert {"/host:CPU", f"/host:CPU [{process.pid}]"} <= planes
    assert {program.name for program in recorded.programs.values()} == {"jit_wave"}
    assert len({*recorded.operations.run}) == len(recorded.calls) == 1
    [remark] = recorded.remarks
    assert f"Events of process {process.pid} are in the recording" in remark
    with profiler.profile() as alone:
        function(x).block_until_ready()
    assert alone.wait().remarks == []


def test_a_process_without_a_server_is_an_error(capsys) -> None:
    assert main(["1", "10"]) == 1
    assert "start_server(1)" in capsys.readouterr().err
    with pytest.raises(ArgumentValueError, match="no profiler server"):
        collect_profile(1, 10)


def test_collecting_needs_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "grpc", None)
    with pytest.raises(UnsupportedError, match=r"pellucid\[collect\]"):
        collect_profile(1, 10)


class Processor:
    """Stand-in for Perfetto's Trace Processor, whose program isn't there; it keeps what it is started with."""

    started: list[tuple[bytes, str]] = []  # noqa: RUF012

    def __init__(self, trace: str, config: types.SimpleNamespace) -> None:
        self.started.append((Path(trace).read_bytes(), config.bin_path))

    def __enter__(self):
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def query(self, sql: str):
        if "select" not in sql:
            raise RuntimeError("syntax error near 'x'")
        return [types.SimpleNamespace(name="op.0", dur=5)]


def test_sql_is_answered_by_what_is_installed(monkeypatch, tmp_path: Path) -> None:
    session = sample_profiles.session()
    monkeypatch.delenv(queries.VARIABLE, raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    # Without Perfetto's program, which nobody downloads, SQLite has the same slices and tracks.
    tracks = [*perfetto.tracks_of(session)]
    counts = session.sql(
        "select name, (select count(*) from slice where track_id = track.id) as n from track"
    )
    assert counts == [{"name": each.name, "n": len(each.names)} for each in tracks]
    total = sum(int((each.end_ns - each.start_ns).sum()) for each in tracks)
    assert session.sql("select sum(dur) as ns from slice") == [{"ns": total}]
    inside = """select count(*) as n from slice join slice as around on around.id = slice.parent_id
        where slice.ts < around.ts or slice.ts + slice.dur > around.ts + around.dur or slice.depth != around.depth + 1"""
    assert session.sql(inside) == [{"n": 0}]
    assert session.sql("select max(depth) > 0 as nests from slice") == [{"nests": 1}]
    for wrong in ("x", "select * from counter", "delete from slice"):
        with pytest.raises(ArgumentValueError, match="this SQL fails"):
            session.sql(wrong)
    monkeypatch.setenv(queries.VARIABLE, str(tmp_path / "none"))
    with pytest.raises(UnsupportedError, match="unset the variable"):
        session.sql("select 1")
    program = tmp_path / queries.PROGRAM
    program.write_text("")
    monkeypatch.setenv(queries.VARIABLE, str(program))
    stand_in = types.SimpleNamespace(
        TraceProcessor=Processor, TraceProcessorConfig=types.SimpleNamespace,
        TraceProcessorException=RuntimeError,
    )  # fmt: skip
    monkeypatch.setitem(sys.modules, "perfetto.trace_processor", stand_in)
    assert session.sql("select name, dur from slice") == [{"name": "op.0", "dur": 5}]
    assert Processor.started == [(profiler.perfetto_trace(session), str(program))]
    with pytest.raises(ArgumentValueError, match="this SQL fails"):
        session.sql("x")

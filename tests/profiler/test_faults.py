"""Faults around sessions: interrupted ends, full disks, cut files, killed processes, several processes and threads."""

import contextlib
import resource
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import pellucid as pl
from pellucid import numpy as jnp
from pellucid._machine.base import events
from pellucid._machine.base.errors import ArgumentValueError
from pellucid.introspect import recording
from pellucid.profiler import (
    Session,
    load,
    profile,
    read_xspace,
    save_device_memory_profile,
    start,
    start_trace,
    stop,
    stop_trace,
    trace,
)  # fmt: skip


@pytest.fixture(scope="module")
def session() -> Session:
    function, x = pl.jit(lambda x: jnp.sin(x) @ x), jnp.ones((32, 32))
    function(x).block_until_ready()
    with profile() as recorded:
        function(x).block_until_ready()
    return recorded.wait()


def test_an_interrupted_end_is_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted() -> None:
        raise KeyboardInterrupt

    recorded = start()
    pl.jit(jnp.cos)(jnp.ones(4)).block_until_ready()
    with monkeypatch.context() as patch:
        patch.setattr(recording, "wait_for_devices", interrupted)
        with pytest.raises(KeyboardInterrupt):
            stop()
    assert len(recorded.calls) >= 1
    with profile() as following:
        pass
    assert len(following.calls) == 0


def test_sessions_of_several_threads_exclude_each_other() -> None:
    results: list[object] = []
    both = threading.Barrier(2)

    def session() -> None:
        both.wait()
        try:
            with profile() as recorded:
                both.wait(timeout=60)  # until the other has failed, and broken it
            results.append(recorded.wait())
        except (ArgumentValueError, threading.BrokenBarrierError) as error:
            results.append(error)
            both.abort()

    threads = [threading.Thread(target=session) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(isinstance(each, ArgumentValueError) for each in results) == 1
    with profile():  # and none is left
        pass


@contextlib.contextmanager
def full_disk() -> Iterator[None]:
    """Files of this process can't become longer than some bytes."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (16, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


WRITERS = {
    "save": lambda session, profile: session.save,
    "perfetto": lambda session, profile: session.to_perfetto,
    "speedscope": lambda session, profile: session.to_speedscope,
    "xspace": lambda session, profile: profile.to_xspace,
    "memory": lambda session, profile: save_device_memory_profile,
}


@pytest.mark.parametrize("writer", WRITERS)
def test_a_full_disk_keeps_the_file_that_was_there(
    session: Session, tmp_path: Path, writer: str
) -> None:
    with profile() as recorded:
        jnp.ones(4).block_until_ready()
    path, write = tmp_path / "file", WRITERS[writer](session, recorded)
    write(path)
    before = path.read_bytes()
    assert len(before) > 16
    with full_disk(), pytest.raises(OSError, match="File too large"):
        write(path)
    assert path.read_bytes() == before
    assert [each.name for each in tmp_path.iterdir()] == ["file"]


def test_a_trace_that_a_full_disk_refuses_is_written_later(tmp_path: Path) -> None:
    start_trace(tmp_path)
    jnp.ones(4).block_until_ready()
    with full_disk(), pytest.raises(OSError, match="File too large"):
        stop_trace()
    assert not [*tmp_path.rglob("*.pb*")]
    stop_trace()
    [written] = tmp_path.rglob("*.xplane.pb")
    assert len(read_xspace(written).calls) >= 1
    with pytest.raises(ArgumentValueError, match="no trace is being recorded"):
        stop_trace()


@pytest.mark.parametrize("share", [0.1, 0.5, 0.99])
def test_cut_files_raise(session: Session, tmp_path: Path, share: float) -> None:
    path = tmp_path / "session.plprof"
    session.save(path)
    content = path.read_bytes()
    path.write_bytes(content[: int(share * len(content))])
    with pytest.raises(ArgumentValueError, match="no whole session"):
        load(path)


KILLED = """
import os, pellucid as pl, pellucid.numpy as jnp
from pellucid.profiler import profile
with profile() as recorded:
    pl.jit(jnp.sin)(jnp.ones(4)).block_until_ready()
    os._exit(3)
"""
SAVED = """
import sys, pellucid as pl, pellucid.numpy as jnp
from pellucid.profiler import profile
with profile() as recorded:
    pl.jit(lambda x: jnp.sin(x) @ x)(jnp.ones((16, 16))).block_until_ready()
recorded.save(sys.argv[1])
"""


def test_a_process_that_dies_in_a_session_leaves_others_alone(tmp_path: Path) -> None:
    path = tmp_path / "other.plprof"
    with profile() as recorded:
        killed = subprocess.run([sys.executable, "-c", KILLED], check=False)
        subprocess.run([sys.executable, "-c", SAVED, path], check=True)
    assert killed.returncode == 3
    other = load(path)
    assert len(other.calls) >= 1
    assert len(recorded.calls) == 0
    # Sessions of several processes have one clock.
    begin, end = recorded.begin_unix_ns, recorded.begin_unix_ns + recorded.wall_ns
    assert begin < other.begin_unix_ns < end
    assert {*np.unique(other.operations.device)} == {0}


def test_devices_that_may_still_run_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recording, "_MAX_STEPS", 0)  # no program is long enough to count places
    function = pl.jit(jnp.cos)
    function(jnp.ones(4)).block_until_ready()
    with profile() as recorded:
        function(jnp.ones(4)).block_until_ready()
    session = recorded.wait()
    assert any("may still have run on" in remark for remark in session.remarks)
    assert "Note: Programs may still have run" in session.report()
    assert "may still have run" in session.to_html()
    assert session.record().remarks == session.remarks


def test_programs_that_are_gone_are_named_and_said(monkeypatch: pytest.MonkeyPatch) -> None:
    function = pl.jit(lambda x: jnp.sin(x) @ x)
    function(jnp.ones((16, 16))).block_until_ready()
    with monkeypatch.context() as patch:
        patch.setattr(recording, "live_executables", list)
        with profile() as recorded:
            function(jnp.ones((16, 16))).block_until_ready()
        session = recorded.wait()
    assert "jit__lambda" in {program.name for program in session.programs.values()}
    assert any("can't be read any more" in remark for remark in session.remarks)


def hooks() -> dict[str, object]:
    return {name: getattr(events.on, name) for name in dir(events.on) if not name.startswith("_")}


def test_nothing_of_a_session_is_left_when_it_is_over() -> None:
    # Without a session nothing is recorded, so that nothing is slower.
    function, x = pl.jit(jnp.cos), jnp.ones(4)
    before, threads = hooks(), {*threading.enumerate()}
    with profile(lines=True) as recorded:
        function(x).block_until_ready()
        assert hooks() != before
        assert sys.gettrace() is not None
    recorded.wait()
    assert hooks() == before
    assert sys.gettrace() is None
    left = {*threading.enumerate()} - threads
    assert not [each for each in left if each.name.startswith("pellucid")]


def test_a_complete_recording_lacks_nothing(session: Session) -> None:
    assert session.remarks == []


def test_damaged_files_raise_one_error(tmp_path):
    with profile() as session:
        jnp.sin(1.0).block_until_ready()
    session.save(tmp_path / "a.plprof")
    with trace(tmp_path / "traces"):
        jnp.sin(1.0).block_until_ready()
    [recording] = (tmp_path / "traces").rglob("*.xplane.pb")
    for path, read in ((tmp_path / "a.plprof", load), (recording, read_xspace)):
        whole = path.read_bytes()
        assert len(read(path).calls) == 1
        for bit in (
            *range(0, 8 * len(whole), 8 * len(whole) // 20),
            *range(8 * len(whole) - 320, 8 * len(whole), 17),
        ):
            damaged = bytearray(whole)
            damaged[bit // 8] ^= 1 << bit % 8
            path.write_bytes(damaged)
            with pytest.raises(ArgumentValueError, match=r"no whole session|is damaged"):
                read(path)


def test_a_trace_that_was_not_begun_or_is_begun_twice_is_a_runtime_error(tmp_path):
    with pytest.raises(RuntimeError, match="no trace is being recorded"):
        stop_trace()
    with trace(tmp_path), pytest.raises(RuntimeError, match="recorded already"):
        start_trace(tmp_path)


@pytest.mark.parametrize(
    "option",
    [
        pytest.param(lambda: pl.set_mesh(pl.make_mesh((2, 4), ("x", "y"))), id="mesh"),
        pytest.param(pl.disable_jit, id="disable_jit"),
        pytest.param(lambda: pl.transfer_guard("disallow"), id="transfer guard"),
        pytest.param(lambda: pl.numpy_dtype_promotion("strict"), id="strict promotion"),
        pytest.param(lambda: pl.enable_x64(True), id="64 bits"),
    ],
)
def test_a_session_is_recorded_whatever_is_current(option) -> None:
    function, x = pl.jit(lambda x: jnp.sin(x) @ x), jnp.ones((32, 32))
    with option(), profile() as recorded:
        y = function(x)
    assert pl.block_until_ready(y).shape == (32, 32)
    assert len(recorded.wait().operations)

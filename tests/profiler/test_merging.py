"""Sessions of several processes become one by their clocks; nothing is lost or mixed up."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from pellucid._machine.base.errors import ArgumentValueError
from pellucid.profiler import Session, load, merge, profile
from pellucid_profiler.perfetto import perfetto_trace
from tests.introspect import sample_profiles

PROCESS = """
import sys, pellucid as pl, pellucid.numpy as jnp
from pellucid.profiler import profile
def wave(x):
    return jnp.NAME(x) @ x
f, x = pl.jit(wave), jnp.ones((48, 48))
f(x).block_until_ready()
with profile() as recorded:
    for _ in range(3):
        f(x).block_until_ready()
recorded.save(sys.argv[1])
"""


@pytest.fixture(scope="module")
def sessions(tmp_path_factory: pytest.TempPathFactory) -> list[Session]:
    """Sessions of two processes that run at once, with functions of one name."""
    folder: Path = tmp_path_factory.mktemp("sessions")
    running = [
        subprocess.Popen([sys.executable, "-c", PROCESS.replace("NAME", name), folder / name])
        for name in ("sin", "cos")
    ]
    assert [process.wait() for process in running] == [0, 0]
    return [load(folder / name) for name in ("sin", "cos")]


def test_parts_of_a_merged_session_are_those_of_its_processes(sessions: list[Session]) -> None:
    merged = merge(sessions)
    assert len(merged.calls) == 6
    assert len(merged.operations) == sum(len(each.operations) for each in sessions)
    assert len(set(merged.calls.run)) == 6
    total = sum(each.totals.operation_seconds for each in sessions)
    assert merged.totals.operation_seconds == pytest.approx(total)
    assert set(merged.operations.device) == {0, 1}
    for device, session in enumerate(sessions):
        rows = merged.operations.device == device
        names = [merged.names[i] for i in merged.operations.instruction[rows]]
        assert names == [session.names[i] for i in session.operations.instruction]
        shift = session.begin_unix_ns - merged.begin_unix_ns
        starts = merged.operations.start_ns[rows] - shift
        assert (starts == session.operations.start_ns).all()
    runs = [merged.operations.device[merged.operations.run == run] for run in merged.calls.run]
    assert [set(each) for each in runs] == [{0}] * 3 + [{1}] * 3
    assert sum(row.seconds for row in merged.lines) == pytest.approx(total)


def test_a_merged_session_is_a_session(sessions: list[Session], tmp_path: Path) -> None:
    merged = merge(sessions)
    assert merged.wall_ns >= max(each.wall_ns for each in sessions)
    assert {name.split(":")[0] for name in merged.threads} == {"process 0", "process 1"}
    merged.save(tmp_path / "merged.plprof")
    assert load(tmp_path / "merged.plprof").totals == merged.totals
    assert merged.record().totals.device_count == 2
    assert perfetto_trace(merged)
    assert (np.diff(merged.live_arrays.time_ns) > 0).all()


def test_offsets_correct_clocks() -> None:
    first, second = sample_profiles.session(), sample_profiles.session()
    merged = merge([first, second], offsets_ns=[0, 10**9])
    assert merged.wall_ns == 10**9 + second.wall_ns
    late = merged.operations.device >= 2
    assert merged.operations.start_ns[late].min() == 10**9 + second.operations.start_ns.min()
    for session, base in ((first, 0), (second, 2)):
        met, device = merged.collectives, merged.operations.device[merged.collectives.operation]
        rows = (device >= base) & (device < base + 2)
        assert met.wait_ns[rows].sum() == session.collectives.wait_ns.sum()
    assert len(np.unique(merged.collectives.meeting)) == 2 * len(
        np.unique(first.collectives.meeting)
    )


def test_what_cant_be_merged_is_refused() -> None:
    with pytest.raises(ArgumentValueError, match="can't be merged"):
        merge([])
    with profile() as recorded, pytest.raises(ArgumentValueError, match="being recorded"):
        merge([recorded])
    with pytest.raises(ArgumentValueError, match="one clock offset for each"):
        merge([sample_profiles.session()], offsets_ns=[1, 2])

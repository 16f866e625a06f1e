"""Planes of GPUs fill the same tables as those of CPUs; what CUPTI hides or refuses is said."""

import numpy as np
import pytest

from pellucid_profiler.conversion import Observed, session_of
from pellucid_profiler.findings import findings
from pellucid_profiler.merging import merge
from pellucid_profiler.session import Session, load
from tests.profiler import gpu_recordings


def session(**options) -> Session:
    return session_of(gpu_recordings.two_calls(**options), lambda _: {}, Observed())


def test_kernels_are_operations_of_their_instructions() -> None:
    result = session()
    ops = result.operations
    assert len(ops) == 2 * 2 * 4
    assert set(ops.device) == {0, 1}
    names = [result.names[i] for i in ops.instruction]
    assert {name: names.count(name) for name in names} == {
        "MemcpyH2D": 4, "dot.3": 8, "all-reduce.1": 4,
    }  # fmt: skip
    assert {int(i) for i in ops.program} == {7, -1}
    assert result.programs[7].name == "jit_step"
    seconds = {row.instruction: row.seconds for row in result.by_operation}
    assert seconds["dot.3"] == pytest.approx(4 * 16e-6)
    assert result.by_category()["copy"] == pytest.approx(4 * 2e-6)
    # Counters and the driver's calls didn't run on the device.
    assert result.totals.operation_seconds == pytest.approx(4 * (2 + 10 + 6 + 4) * 1e-6)


def test_kernels_belong_to_the_call_that_launched_them() -> None:
    result = session()
    assert len(result.calls) == 2
    ops = result.operations
    for call, run in enumerate(result.calls.run):
        starts = ops.start_ns[ops.run == run]
        assert len(starts) == 2 * 4
        assert (starts >= 100_000 * call + 60_000).all()
        assert (starts < 100_000 * call + 160_000).all()


def test_tables_of_gpus_add_up() -> None:
    result = session()
    totals = result.totals
    assert sum(row.seconds for row in result.lines) == pytest.approx(totals.operation_seconds)
    assert sum(row.seconds for row in result.host) == pytest.approx(result.wall_ns / 1e9)
    record = result.record()
    lanes = {lane.name for lane in record.timeline.lanes}
    assert {"device 0", "device 1", "python"} <= lanes
    assert sum(record.device_shares.seconds) == pytest.approx(totals.operation_seconds)
    assert np.isfinite([each.saved_seconds for each in findings(result)]).all()


def test_counters_are_those_of_each_gpu_and_of_its_allocator(tmp_path) -> None:
    result = session()
    series = {
        (result.names[name], device): (time_ns.tolist(), value.tolist())
        for name, device, time_ns, value in result.counters.series()
    }
    assert series == {
        ("power", 0): ([0, 50_000, 100_000], [300.5, 301.5, 302.5]),
        ("power", 1): ([0, 50_000, 100_000], [310.5, 311.5, 312.5]),
        ("memory in use", 1): ([100, 100_100], [4096.0, 8192.0]),
    }
    records = {(each.name, each.device): each for each in result.record().counters}
    assert records["power", 1].value == [310.5, 311.5, 312.5]
    assert records["memory in use", 1].is_bytes
    assert not records["power", 1].is_bytes
    result.save(tmp_path / "gpu.plprof")
    assert load(tmp_path / "gpu.plprof").counters.value.tolist() == result.counters.value.tolist()
    both = merge([result, session()])
    devices = {device for _, device, _, _ in both.counters.series()}
    assert devices == {0, 1, 2, 3}


def test_peaks_are_those_that_the_gpu_names() -> None:
    peaks = session().peaks
    assert peaks is not None
    assert peaks.device_kind == "GPU of compute capability 9.0, 132 multiprocessors"
    # NVIDIA says 494 Tflop/s in TF32 and 3.35 TB/s for an H100 at 1.83 GHz.
    assert peaks.flops_per_second == pytest.approx(494e12, rel=0.01)
    assert peaks.bytes_per_second == 3.35e12


def test_command_buffers_say_that_they_hide_lines() -> None:
    result = session(graphs=True)
    [remark] = [each for each in result.remarks if "command buffers" in each]
    assert remark.startswith("40 µs (45 % of the time on GPUs)")
    assert "xla_gpu_enable_command_buffer" in remark
    names = {result.names[i] for i in result.operations.instruction}
    assert {"gemm_a", "ncclAllReduce", "dot.3"} <= names
    assert result.by_category()["collective"] == pytest.approx(2 * 4e-6)
    assert not [each for each in session().remarks if "command buffers" in each]


@pytest.mark.parametrize(
    ("problem", "expected"),
    [
        ("CUPTI_ERROR_INSUFFICIENT_PRIVILEGES", "NVreg_RestrictProfilingToAdminUsers=0"),
        ("CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED", "Another profiler is attached"),
        ("events were dropped: 12", "XLA's recorder says: events were dropped: 12"),
    ],
)
def test_refused_counters_are_explained(problem: str, expected: str) -> None:
    remarks = session(problems=[problem]).remarks
    assert any(expected in remark for remark in remarks)

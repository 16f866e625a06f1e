"""Measured peaks of the machine are kept, and stand in the sessions that follow."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import pellucid as pl
from pellucid import numpy as jnp
from pellucid.profiler import Peaks, measure_peaks, profile
from pellucid_profiler import peaks as peaks_module
from pellucid_profiler.peaks import measured_peaks


def test_peaks_are_kept_for_the_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(peaks_module, "MATRIX_SIZE", 64)
    monkeypatch.setattr(peaks_module, "BANDWIDTH_BYTES", 1 << 16)
    assert measured_peaks() is None
    peaks = measure_peaks()
    assert min(peaks.flops_per_second, peaks.bytes_per_second) > 0
    assert measured_peaks() == peaks
    with profile() as recorded:
        pl.jit(jnp.sin)(jnp.ones(8)).block_until_ready()
    assert recorded.peaks == peaks
    record = recorded.record()
    assert record.peaks.flops_per_second == peaks.flops_per_second
    (tmp_path / "pellucid" / "peaks.json").write_text("{broken")
    assert measured_peaks() is None


def test_options_of_users_change_no_measured_peak(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peaks_module, "MATRIX_SIZE", 8)
    monkeypatch.setattr(peaks_module, "BANDWIDTH_BYTES", 1 << 10)
    results: list[pl.Array] = []

    def run_once(run: Callable[[], pl.Array]) -> float:
        results.append(run())
        return 1.0

    monkeypatch.setattr(peaks_module, "_fastest", run_once)
    with pl.enable_x64(True), pl.numpy_dtype_promotion("strict"):
        measure_peaks(keep=False)
    product, updated = results
    assert product.dtype == np.float32
    assert updated.nbytes == 1 << 10


def test_the_share_of_the_roofline_is_that_of_its_slower_side() -> None:
    peaks = Peaks("cpu", flops_per_second=2e9, bytes_per_second=1e9)
    assert peaks.share(flops=2e6, n_bytes=1, seconds=0.01) == pytest.approx(0.1)
    assert peaks.share(flops=1, n_bytes=5e6, seconds=0.01) == pytest.approx(0.5)

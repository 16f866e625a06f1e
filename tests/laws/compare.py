"""How results are compared: by dtype, with NaN equal to NaN."""

from __future__ import annotations

from typing import Any

import numpy as np

from pellucid._machine.base import dtypes

TOLERANCES = {
    "float64": 1e-12, "complex128": 1e-12, "float32": 2e-5, "complex64": 2e-5, "float16": 4e-3, "bfloat16": 3e-2,
}  # fmt: skip


def assert_close(got: Any, expected: Any, tolerance: float | None = None, what: str = "") -> None:
    """`got` equals `expected` in shape, and in its elements up to a relative and absolute tolerance."""
    got, expected = np.asarray(got), np.asarray(expected)
    assert got.shape == expected.shape, f"{what}: shape {got.shape}, expected {expected.shape}"
    if not dtypes.is_inexact(got.dtype):
        np.testing.assert_array_equal(got, expected.astype(got.dtype), err_msg=what)
        return
    if tolerance is None:
        tolerance = TOLERANCES.get(got.dtype.name, 0.1)
    wide = np.complex128 if got.dtype.kind == "c" or expected.dtype.kind == "c" else np.float64
    np.testing.assert_allclose(
        got.astype(wide), expected.astype(wide), rtol=tolerance, atol=tolerance, err_msg=what
    )


def assert_same_bits(got: Any, expected: Any, what: str = "") -> None:
    """`got` and `expected` have equal dtypes and elements; all NaNs are one, zeros have a sign."""
    got, expected = np.asarray(got), np.asarray(expected)
    assert got.dtype == expected.dtype, f"{what}: dtype {got.dtype}, expected {expected.dtype}"
    if not dtypes.is_inexact(got.dtype):
        np.testing.assert_array_equal(got, expected, err_msg=what)
        return
    for part_got, part_expected in zip(parts(got), parts(expected), strict=True):
        np.testing.assert_array_equal(part_got, part_expected, err_msg=what)
        real = ~np.isnan(part_got)
        np.testing.assert_array_equal(
            np.signbit(part_got)[real], np.signbit(part_expected)[real], err_msg=what
        )


def parts(x: np.ndarray) -> list[np.ndarray]:
    """The real parts of `x`, in double precision, which holds them exactly."""
    if x.dtype.kind == "c":
        return [x.real.astype(np.float64), x.imag.astype(np.float64)]
    return [x.astype(np.float64)]


def pairing(xs: Any, ys: Any) -> float:
    """⟨x, y⟩ of two lists of arrays: the real part of the sum of products, without conjugation."""
    with np.errstate(all="ignore"):
        return float(
            sum(np.sum(np.asarray(x) * np.asarray(y)).real for x, y in zip(xs, ys, strict=True))
        )

"""The table of XLA's faults: each row names tests, and decides what is lowered."""

import shlex
from pathlib import Path

import numpy as np
import pytest

import pellucid as pl
from pellucid import lax
from pellucid._machine.lowering import faults
from pellucid.sharding import AxisType, NamedSharding, PartitionSpec as P

ROOT = Path(__file__).resolve().parents[3]
SOURCES = "".join(
    path.read_text(encoding="utf-8")
    for path in (ROOT / "core/pellucid").rglob("*.py")
    if path.name != "faults.py"
)


@pytest.mark.parametrize("fault", faults.FAULTS.values(), ids=lambda fault: fault.name)
def test_a_row_names_tests_and_is_asked_for(fault: faults.Fault) -> None:
    path, *_ = shlex.split(fault.evidence)
    assert (ROOT / path).is_file()
    [constant] = [name for name, value in vars(faults).items() if value is fault]
    assert constant in SOURCES


def test_a_suspended_row_changes_what_is_lowered() -> None:
    mesh = pl.make_mesh((8,), ("a",), axis_types=(AxisType.Auto,))

    def text() -> str:
        def shifted(x):
            return lax.pad(x, np.float32(0), [(-1, 1, 0)])

        lowered = pl.jit(shifted, in_shardings=NamedSharding(mesh, P("a"))).lower(
            np.ones(8, np.float32)
        )
        return lowered.as_text()

    with faults.without_workaround("negative-padding"):
        assert "stablehlo.slice" not in text()
    assert "stablehlo.slice" in text()


@pytest.mark.parametrize("dtype", ["int4", "int8", "int16", "int32", "uint8", "uint32"])
def test_leading_zeros_of_constants_are_those_of_arguments(dtype: str) -> None:
    numbers = (np.arange(7) - 3).astype(dtype)

    def from_constants():
        return [lax.clz(lax.full((), x, dtype)) for x in numbers]

    def from_positions():
        return lax.clz(lax.sub(lax.iota(dtype, 7), lax.full((7,), 3, dtype)))

    expected = [int(count) for count in lax.clz(numbers)]
    for function in (from_constants, from_positions):
        assert [int(count) for count in pl.jit(function)()] == expected


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
@pytest.mark.parametrize("axes", [(0,), (1,), (0, 1)], ids=str)
def test_large_extremes_keep_nan(dtype: str, axes: tuple[int, ...]) -> None:
    with pl.enable_x64(dtype == "float64"):
        x = np.random.default_rng(0).standard_normal((96, 1000)).astype(dtype)
        x[2, 37] = np.nan
        wide = x.astype(np.float64)
        for reduce, of_numpy in ((lax.reduce_max, np.max), (lax.reduce_min, np.min)):
            expected = of_numpy(wide, axes)
            np.testing.assert_array_equal(np.float64(reduce(x, axes)), expected)
            doubled = pl.jit(lambda x, f=reduce: f(2 * x, axes))
            np.testing.assert_array_equal(np.float64(doubled(x)), 2 * expected)


def test_clamps_of_booleans_need_no_simplifier() -> None:
    low, x, high = (np.array([i & bit > 0 for i in range(8)]) for bit in (1, 2, 4))
    clamp = pl.jit(
        lambda *xs: lax.clamp(*xs), compiler_options={"xla_disable_hlo_passes": "algsimp"}
    )
    np.testing.assert_array_equal(clamp(low, x, high), (low | x) & high)


def test_log1p_of_float64_is_accurate_between_minus_half_and_minus_a_quarter() -> None:
    numbers = np.linspace(-0.45, -0.2, 2000)
    with pl.enable_x64(True):
        result = np.asarray(pl.jit(lax.log1p)(numbers))
    np.testing.assert_allclose(result, np.log1p(numbers), rtol=2 * np.finfo("float64").eps, atol=0)


@pytest.mark.parametrize("rhs_dilation", [(1, 1), (1, 2)])
@pytest.mark.parametrize(
    "pads", [((0, 0), (-1, 1)), ((-2, 0), (-1, 1)), ((-2, 2), (0, 0)), ((0, 0), (-2, 1))]
)
def test_convolutions_with_padding_of_both_signs(pads, rhs_dilation) -> None:
    generator = np.random.default_rng(0)
    x = generator.standard_normal((2, 2, 5, 6)).astype(np.float32)
    y = generator.standard_normal((2, 2, 3, 2)).astype(np.float32)
    cut = [
        np.s_[max(0, -low) : size - max(0, -high)]
        for (low, high), size in zip(pads, (5, 6), strict=True)
    ]

    def convolved(x, y):
        return lax.conv_general_dilated(x, y, (1, 1), pads, rhs_dilation=rhs_dilation)

    def cut_before(x, y):
        positive = [(max(0, low), max(0, high)) for low, high in pads]
        return lax.conv_general_dilated(
            x[:, :, cut[0], cut[1]], y, (1, 1), positive, rhs_dilation=rhs_dilation
        )

    for function in (convolved, pl.jit(convolved)):
        np.testing.assert_allclose(function(x, y), cut_before(x, y), 1e-4, 1e-5)
    results = [
        pl.grad(lambda x, y, f=f: (f(x, y) ** 2).sum(), (0, 1))(x, y)
        for f in (convolved, cut_before)
    ]
    for a, b in zip(*results, strict=True):
        np.testing.assert_allclose(a, b, 1e-4, 1e-4)

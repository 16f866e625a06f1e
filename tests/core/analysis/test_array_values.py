"""Values of arrays at a glance, compared with NumPy's on the whole arrays."""

from __future__ import annotations

import json
import time

import ml_dtypes
import numpy as np
import pytest

import pellucid as pl
import pellucid.numpy as jnp
from pellucid._machine.base.errors import ArgumentValueError
from pellucid.analysis import array_slice, array_values

RANDOM = np.random.default_rng(7)
DTYPES = ["float32", "int32", "uint8", "bool", "complex64", ml_dtypes.bfloat16, ml_dtypes.int4]


def elements(dtype: object, size: int) -> np.ndarray:
    x = RANDOM.integers(-7, 7, size).astype(np.float32)
    if np.issubdtype(dtype, np.complexfloating):
        return (x + 1j * x[::-1]).astype(dtype)
    x = np.abs(x) if np.issubdtype(dtype, np.unsignedinteger) else x
    x = x.astype(dtype)
    if not np.issubdtype(dtype, np.inexact):
        return x
    x[3], x[5], x[size // 2] = np.nan, np.inf, -np.inf
    return x


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("size", [60, (1 << 20) + 100])
def test_figures_are_those_of_all_elements(dtype, size) -> None:
    x = elements(dtype, size)
    record = array_values(jnp.asarray(x).reshape(-1, 4))
    y = (np.abs(x) if record.is_absolute else x).astype(np.float64)
    finite = y[np.isfinite(y)]
    assert record.is_absolute == (x.dtype.kind == "c")
    assert (record.low, record.high) == (finite.min(), finite.max())
    assert record.mean == pytest.approx(finite.mean(), rel=1e-4, abs=1e-4)
    assert record.nan_count == np.isnan(y).sum()
    assert record.infinite_count == np.isinf(y).sum()
    assert record.zero_count == (y == 0).sum()
    step = -(-size // (1 << 16))
    counted = y[::step][np.isfinite(y[::step])]
    if x.dtype.kind in "biu":
        width = -(-int(finite.max() - finite.min() + 1) // 40)
        assert record.bin_width == width
        edges = np.arange(finite.min(), finite.max() + width + 1, width) - 0.5
        assert record.bins == [*np.histogram(counted, edges)[0]]
    else:
        assert record.bins == [*np.histogram(counted, 40, (record.low, record.high))[0]]
    assert record.sample_count == len(y[::step])
    assert len(record.cells) == min(size // 4, 64)
    assert json.loads(json.dumps(record.to_dict(), allow_nan=False)) == record.to_dict()


@pytest.mark.parametrize(
    ("x", "width", "bins"),
    [
        (np.array([True, False, True]), 1, [1, 2]),
        (np.array([3, 5, 5, 6], np.int8), 1, [1, 0, 2, 1]),
        (np.array([7] * 9), 1, [9]),
        (np.arange(-40, 41), 3, [3] * 27),
    ],
)
def test_bins_of_integers_hold_whole_numbers(x, width, bins) -> None:
    record = array_values(jnp.asarray(x))
    assert (record.bin_width, record.bins) == (width, bins)


def test_integers_of_32_bits_are_exact() -> None:
    for size in (8, 1 << 21):
        record = array_values(jnp.full(size, 2**31 - 1))
        assert record.low == record.high == record.mean == 2**31 - 1


def test_a_heat_map_has_means_of_blocks_of_a_slice() -> None:
    x = RANDOM.standard_normal((3, 128, 256)).astype(np.float32)
    x[2, :2, :4] = np.nan
    record = array_values(jnp.asarray(x), [2])
    means = x[2].reshape(64, 2, 64, 4).mean((1, 3))
    assert record.cells[0][0] is None
    np.testing.assert_allclose(record.cells[1], means[1], 1e-5, 1e-6)
    assert record.index == [2]
    assert array_values(jnp.arange(3)).cells == [[0.0, 1.0, 2.0]]
    for index in ([3], [0, 0]):
        with pytest.raises(ArgumentValueError, match="no such slice"):
            array_values(jnp.asarray(x), index)


@pytest.mark.parametrize("spec", [None, pl.P("x"), pl.P(None, None, "y", "x")], ids=str)
@pytest.mark.parametrize("dims", [(2, 3), (0, 2), (3, 1)], ids=str)
def test_a_slice_over_any_two_dimensions(spec, dims) -> None:
    x = RANDOM.standard_normal((4, 3, 6, 8)).astype(np.float32)
    y = jnp.asarray(x)
    if spec is not None:
        y = pl.device_put(y, pl.NamedSharding(pl.make_mesh((4, 2), ("x", "y")), spec))
    drawn = array_slice(y, [1, 2, 3, 5], dims)
    index = [slice(None) if dim in dims else (1, 2, 3, 5)[dim] for dim in range(4)]
    expected = x[tuple(index)]
    np.testing.assert_allclose(drawn.cells, expected if dims[0] < dims[1] else expected.T)
    assert (drawn.index, drawn.dims, drawn.steps) == ([1, 2, 3, 5], [*dims], [1, 1])


def test_slices_that_there_are_not() -> None:
    x = jnp.ones((2, 3, 4))
    for index, dims in [([0, 0, 0], (1, 1)), ([0, 0, 0], (0, 3)), ([2, 0, 0], (1, 2)), ([0], (0,))]:
        with pytest.raises(ArgumentValueError, match="no such slice"):
            array_slice(x, index, dims)
    x.delete()
    with pytest.raises(ArgumentValueError, match="no slice to draw"):
        array_slice(x, [0, 0, 0], (1, 2))


def test_a_slice_of_a_large_array_reads_nothing_else() -> None:
    x = jnp.zeros((64, 1024, 1024)).at[7].set(2.0)
    array_slice(x, [0, 0, 0], (1, 2))
    begin = time.perf_counter()
    assert array_slice(x, [7, 0, 0], (1, 2)).cells[0][0] == 2.0
    seconds = time.perf_counter() - begin
    begin = time.perf_counter()
    jnp.sum(x).block_until_ready()
    jnp.max(x).block_until_ready()
    assert seconds < max(0.25, time.perf_counter() - begin)


LARGE = np.float32(3e38)


@pytest.mark.parametrize("size", [100, 1 << 21])
@pytest.mark.parametrize(
    ("first", "second", "mean"),
    [(LARGE, LARGE, LARGE), (LARGE, -LARGE, 0.0), (1e20, np.nextafter(np.float32(1e20), LARGE), 1e20)],
)  # fmt: skip
def test_large_elements_neither_overflow_nor_lack_a_histogram(size, first, second, mean) -> None:
    x = np.full(size, first, np.float32)
    x[size // 2 :] = second
    record = array_values(jnp.asarray(x))
    assert record.mean == pytest.approx(mean, rel=1e-6)
    assert sum(record.bins) == record.sample_count
    assert len([n for n in record.bins if n]) == len({float(first), float(second)})
    json.dumps(record.to_dict(), allow_nan=False)


def test_large_float64_elements_have_a_histogram() -> None:
    with pl.enable_x64(True):
        record = array_values(jnp.asarray(np.array([1.7e308, -1.7e308, 1.7e308])))
    assert (record.bins[0], record.bins[-1], record.mean) == (1, 2, pytest.approx(1.7e308 / 3))


def test_parts_of_an_array_over_devices() -> None:
    mesh = pl.make_mesh((4, 2), ("x", "y"))
    x = jnp.arange(64.0).reshape(8, 8)
    record = array_values(pl.device_put(x, pl.NamedSharding(mesh, pl.P("x"))))
    assert record.parts.index == ["0:2, 0:8", "2:4, 0:8", "4:6, 0:8", "6:8, 0:8"]
    assert record.parts.low == [0.0, 16.0, 32.0, 48.0]
    assert (record.low, record.high, record.mean, sum(record.bins)) == (0.0, 63.0, 31.5, 64)


@pytest.mark.parametrize("spec", [pl.P("x"), pl.P(None, "x", "y"), pl.P("y", None, "x")], ids=str)
@pytest.mark.parametrize("shape", [(4, 40, 72), (4, 520, 1032)])
def test_a_heat_map_is_gathered_from_parts(spec, shape) -> None:
    x = RANDOM.standard_normal(shape).astype(np.float32)
    mesh = pl.make_mesh((4, 2), ("x", "y"))
    record = array_values(pl.device_put(x, pl.NamedSharding(mesh, spec)), [2])
    assert record.cells == array_values(jnp.asarray(x), [2]).cells
    assert record.steps == ([1, 1] if shape[1] < 512 else [2, 3])


def test_arrays_without_values_say_why() -> None:
    x = jnp.ones(3)
    x.delete()
    assert "deleted" in array_values(x).note
    assert "no numbers" in array_values(pl.random.key(0)).note
    empty = array_values(jnp.zeros((0, 3)))
    assert (empty.note, empty.low, empty.cells, empty.bins) == ("", None, [], [])
    assert array_values(jnp.array([np.nan, np.nan])).mean is None
    assert array_values(2.5).low == 2.5

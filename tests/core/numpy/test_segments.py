"""Reductions over segments."""

import numpy as np
import pytest

import pellucid as pl
from pellucid import ops
from pellucid._machine.base.errors import ArgumentValueError, ConcretizationTypeError, ShapeError

DATA = np.array([[1.0, 2.0], [3.0, -4.0], [5.0, 6.0], [-7.0, 8.0]], np.float32)
IDS = np.array([2, 0, 2, 5])
REDUCTIONS = {
    ops.segment_sum: (np.add, 0.0),
    ops.segment_prod: (np.multiply, 1.0),
    ops.segment_max: (np.maximum, -np.inf),
    ops.segment_min: (np.minimum, np.inf),
}


def expected(function, count):
    ufunc, start = REDUCTIONS[function]
    result = np.full((count, 2), start, np.float32)
    for row, number in zip(DATA, IDS):
        if number < count:
            result[number] = ufunc(result[number], row)
    return result


@pytest.mark.parametrize("function", REDUCTIONS)
@pytest.mark.parametrize("bucket_size", [None, 1, 3, 100])
@pytest.mark.parametrize("count", [None, 3, 9])
def test_segments_are_reduced(function, bucket_size, count):
    actual = function(DATA, IDS, count, bucket_size=bucket_size)
    np.testing.assert_array_equal(np.asarray(actual), expected(function, count or 6))


@pytest.mark.parametrize("function", REDUCTIONS)
@pytest.mark.parametrize("bucket_size", [None, 3])
def test_results_are_laid_out_as_stated(function, bucket_size):
    with pl.set_mesh(pl.make_mesh((8,), ("x",))):
        actual = function(DATA, IDS, 8, bucket_size=bucket_size, out_sharding=pl.P("x", None))
    assert actual.sharding.spec == pl.P("x", None)
    np.testing.assert_array_equal(np.asarray(actual), expected(function, 8))


def test_a_traced_call_needs_the_number_of_segments():
    jitted = pl.jit(ops.segment_sum, static_argnums=2)
    np.testing.assert_array_equal(np.asarray(jitted(DATA, IDS, 6)), expected(ops.segment_sum, 6))
    with pytest.raises(ConcretizationTypeError, match="needs num_segments"):
        pl.jit(ops.segment_sum)(DATA, IDS)


def test_the_gradient_of_a_sum_goes_back_to_each_row():
    gradient = pl.grad(lambda data: (ops.segment_sum(data, IDS, 6) ** 2).sum())(DATA)
    sums = expected(ops.segment_sum, 6)
    np.testing.assert_allclose(np.asarray(gradient), 2 * sums[IDS])


@pytest.mark.parametrize("function", REDUCTIONS)
@pytest.mark.parametrize("bucket_size", [None, 2])
@pytest.mark.parametrize("dtype", [np.int32, np.int8])
def test_rows_with_numbers_out_of_range_are_left_out(function, bucket_size, dtype):
    ids = np.array([2, -1, 6, -9], dtype)
    for count in (None, 3, 0):
        start = REDUCTIONS[function][1]
        wanted = np.full((7 if count is None else count, 2), start, np.float32)
        for row, number in ((0, 2), (2, 6)):
            wanted[number : number + 1] = DATA[row]
        actual = function(DATA, ids, count, bucket_size=bucket_size)
        np.testing.assert_array_equal(np.asarray(actual), wanted)
    clipped = function(DATA, ids, 3, mode="clip", bucket_size=bucket_size)
    ufunc = REDUCTIONS[function][0]
    np.testing.assert_array_equal(clipped[0], ufunc(DATA[1], DATA[3]))
    np.testing.assert_array_equal(clipped[2], ufunc(DATA[0], DATA[2]))
    assert function(DATA, np.full(4, -1, dtype)).shape == (0, 2)


def test_negative_counts_are_refused():
    with pytest.raises(ArgumentValueError, match="can't be negative"):
        ops.segment_sum(DATA, IDS, -1)


@pytest.mark.parametrize("function", REDUCTIONS)
def test_each_row_needs_a_number(function) -> None:
    for data, ids in (
        (DATA, 0),
        (DATA, np.zeros((4, 3), int)),
        (np.ones((2, 1)), np.zeros((2, 2), int)),
    ):
        with pytest.raises(ShapeError, match="one number for each row of `data`"):
            function(data, ids, 2)


def test_numbers_of_several_dimensions_are_those_of_the_leading_ones() -> None:
    numbers = np.array([[2, 0], [2, 5], [0, 0], [5, 5]])
    expected = np.bincount(numbers.ravel(), DATA.ravel(), 6)
    np.testing.assert_array_equal(ops.segment_sum(DATA, numbers, 6), expected)
    np.testing.assert_array_equal(ops.segment_sum(3.0, 1, 2), [0, 3])

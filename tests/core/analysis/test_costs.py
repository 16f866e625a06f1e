"""Estimated costs of equations."""

import functools

import numpy as np
import pytest

import pellucid as pl
from pellucid import analysis, lax
from pellucid.analysis.costs import Cost
from tests.introspect.costs import total_cost

F = np.float32


def cost(function, *args):
    record = analysis.program(function, *args)
    return Cost(*(total_cost(record, name) for name in Cost._fields))


@pytest.mark.parametrize(
    ("function", "args", "flops", "transcendentals"),
    [
        (lambda x: lax.add(x, x), [np.ones((3, 4), F)], 12, 0),
        (lambda x: lax.exp(x), [np.ones((3, 4), F)], 0, 12),
        (lambda x: lax.mul(x, x), [np.ones((3, 4), np.complex64)], 48, 0),
        (lambda x: lax.integer_pow(x, 8), [np.ones(5, F)], 15, 0),
        (lambda x: lax.integer_pow(x, 7), [np.ones(5, F)], 20, 0),
        (lambda x: lax.integer_pow(x, -1), [np.ones(5, F)], 5, 0),
        (lambda x: lax.reduce_sum(x, axes=(0,)), [np.ones((3, 4), F)], 8, 0),
        (lambda x, y: lax.dot(x, y), [np.ones((3, 4), F), np.ones((4, 5), F)], 2 * 3 * 4 * 5, 0),
        (lambda x, y: lax.batch_matmul(x, y), [np.ones((7, 3, 4), F), np.ones((7, 4, 5), F)], 7 * 120, 0),
        (
            lambda x, w: lax.conv(x, w, (1, 1), "SAME"),
            [np.ones((2, 3, 8, 8), F), np.ones((5, 3, 3, 3), F)],
            2 * (2 * 5) * 3 * (3 * 8 - 2) ** 2, 0,
        ),
        (lambda x: lax.fft(x, "FFT", (8,)), [np.ones((2, 8), np.complex64)], 2 * 5 * 8 * 3, 0),
        (lambda x: lax.fft(x, "RFFT", (8,)), [np.ones((2, 8), F)], 5 * 8 * 3, 0),
        (lambda x: lax.sort(x), [np.ones(8, F)], 24, 0),
        (lambda x: lax.reshape(x, (12,)), [np.ones((3, 4), F)], 0, 0),
        (lambda x: lax.cumsum(x), [np.ones(8, F)], 16, 0),
        (lambda x: lax.fori_loop(0, 4, lambda i, c: lax.sin(c), x), [np.ones(8, F)], None, 32),
    ],
)  # fmt: skip
def test_operations_are_counted(function, args, flops, transcendentals):
    actual = cost(function, *args)
    if flops is not None:
        assert actual.flops == flops
    assert actual.transcendentals == transcendentals


@pytest.mark.parametrize(
    ("options", "shapes"),
    [
        ({"window_strides": (1, 1), "padding": "SAME"}, ((2, 3, 8, 7), (5, 3, 3, 4))),
        ({"window_strides": (2, 3), "padding": [(1, 2), (4, 0)]}, ((1, 2, 6, 7), (3, 2, 2, 3))),
        ({"window_strides": (3, 2), "padding": [(2, 5), (0, 3)], "lhs_dilation": (2, 4), "rhs_dilation": (1, 3)}, ((1, 2, 5, 4), (3, 2, 3, 2))),
        ({"window_strides": (2, 1), "padding": [(-1, 2), (9, 9)], "lhs_dilation": (4, 6)}, ((1, 1, 5, 2), (1, 1, 3, 4))),
        ({"window_strides": (1, 1), "padding": "SAME", "feature_group_count": 2}, ((1, 4, 3, 3), (6, 2, 3, 3))),
        ({"window_strides": (1,), "padding": "VALID", "batch_group_count": 2}, ((4, 2, 8), (6, 2, 3))),
    ],
)  # fmt: skip
def test_convolutions_count_products_with_elements(options, shapes):
    """A convolution of ones gives for each element of its result the number of its products."""
    convolve = functools.partial(lax.conv_general_dilated, **options)
    operands = [np.ones(shape, F) for shape in shapes]
    assert cost(convolve, *operands).flops == 2 * convolve(*operands).sum()


def test_bytes_are_read_and_written_once():
    x = np.ones((100, 4), F)
    assert cost(lambda x: lax.add(x, x), x).bytes == 3 * 1600
    assert cost(lambda x: lax.dynamic_slice(x, (0, 0), (2, 4)), x).bytes < 100
    assert cost(lambda x: lax.slice(x, (0, 0), (2, 4)), x).bytes == 2 * 2 * 4 * 4
    updated = cost(lambda x: lax.dynamic_update_slice(x, np.ones((2, 4), F), (0, 0)), x)
    assert updated.bytes < 100


def test_a_branch_costs_what_the_dearest_costs():
    actual = cost(
        lambda x: lax.cond(True, lambda x: lax.sin(x), lambda x: lax.add(x, x), x), np.ones(6, F)
    )
    assert (actual.flops, actual.transcendentals) == (6, 6)


def test_what_cannot_be_known_is_none():
    actual = cost(
        lambda x: lax.while_loop(lambda c: lax.lt(c, 9.0), lambda c: lax.add(c, 1.0), x), F(0)
    )
    assert actual == (None, None, None)


def test_a_function_that_combines_elements_runs_for_each_pair():
    def largest_magnitude(a, b):
        return lax.max(lax.abs(a), lax.abs(b))

    x = np.ones((3, 4), F)
    actual = cost(lambda x: lax.reduce(x, F(0), largest_magnitude, (1,)), x)
    assert actual.flops == 3 * (3 * 4 - 3)
    assert actual.bytes == 4 * (12 + 1 + 3)
    lowered = analysis.program(
        pl.jit(lambda x: lax.reduce(x, F(0), largest_magnitude, (1,))).lower(x)
    )
    assert total_cost(lowered, "flops") == actual.flops


@pytest.mark.parametrize(
    ("function", "x", "flops"),
    [
        (lambda x: x * x, np.ones(12, np.complex64), 48),
        (lambda x: x.sum(), np.ones(12, np.complex64), 44),
        (lambda x: x @ x, np.ones((3, 3), np.complex64), 4 * 2 * 27),
        (lambda x: lax.fft(x, "FFT", (4, 8)), np.ones((3, 4, 8), np.complex64), 3 * 5 * 32 * 5),
        (lambda x: lax.sort(x, dimension=0), np.ones((8, 5), F), 40 * 3),
    ],
)
def test_all_stages_count_alike(function, x, flops):
    traced = pl.jit(function).trace(x)
    for stage in (traced, traced.lower(), traced.lower().compile()):
        assert total_cost(analysis.program(stage), "flops") == pytest.approx(flops, rel=0.03)


def test_programs_for_transformations_alone_cost_nothing():
    def solve(b):
        return lax.custom_linear_solve(lambda x: 2.0 * x, b, lambda _, b: b / 2.0, symmetric=True)

    assert cost(solve, np.ones(100, F)).flops == 100

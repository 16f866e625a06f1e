"""Sizes, integers and symbols."""

import itertools

import pytest

from pellucid._machine.base import dims
from pellucid.export import symbolic_shape

(B,) = symbolic_shape("b")


def test_integers_are_canonical_and_other_numbers_are_refused():
    assert dims.canonical_shape([3, B, True]) == (3, B, 1)
    with pytest.raises(TypeError):
        dims.canonical_size(2.0)


def test_symbols_compare_where_bounds_decide():
    assert B >= 1
    assert not B < 1
    assert B + 1 > 1
    assert dims.known_at_least(B + 2, 3)
    assert not dims.known_at_least(B, 2)
    assert dims.fits(B, 2**31 - 1)
    assert not dims.fits(B, 127)
    with pytest.raises(dims.InconclusiveDimensionOperation, match=r"State what holds.*b >= 2"):
        assert B > 1


@pytest.mark.parametrize("size", range(6))
def test_slices_of_integers_are_python_s(size):
    bounds = [None, -7, -2, 0, 1, 3, 9]
    for start, stop, step in itertools.product(bounds, bounds, [None, 1, 2, -1, -3]):
        part = slice(start, stop, step)
        first, length, by, extent = dims.slice_window(part, size)
        expected = list(range(size))[part]
        assert [first + i * by for i in range(length)] == expected
        assert length == len(range(0, extent, abs(by)))


@pytest.mark.parametrize("step", [None, 2, -1, -3, B, -B])
def test_slices_of_a_symbol_are_python_s_for_every_value(step):
    bounds = [None, -7, -2, -1, 0, 1, 3, B - 1, B // 2, -B]
    for start, stop in itertools.product(bounds, bounds):
        window = dims.slice_window(slice(start, stop, step), B)
        for n in range(1, 9):
            part = [
                x.evaluate({"b": n}) if x.__class__ is B.__class__ else x
                for x in (start, stop, step)
            ]
            first, length, by, extent = (
                x if type(x) is int else x.evaluate({"b": n}) for x in window
            )
            expected = list(range(n))[slice(*part)]
            assert [first + i * by for i in range(length)] == expected
            assert not expected or (expected[0] >= 0 and extent <= n)


@pytest.mark.parametrize(
    ("part", "expected"),
    [
        (slice(None), (0, B + 3, 1)), (slice(1, None), (1, B + 2, 1)), (slice(None, -1), (0, B + 2, 1)),
        (slice(-2, None), (B + 1, 2, 1)), (slice(None, None, -1), (B + 2, B + 3, -1)), (slice(1, 3), (1, 2, 1)),
        (slice(None, None, 2), (0, (B + 4) // 2, 2)), (slice(1, None, 2), (1, (B + 3) // 2, 2)),
    ],
)  # fmt: skip
def test_slices_of_symbols(part, expected):
    assert dims.slice_window(part, B + 3)[:3] == expected


def test_bounds_outside_end_at_the_edge():
    start, length, _, _ = dims.slice_window(slice(1, 3), B)
    assert [(start, length.evaluate({"b": n})) for n in (1, 2, 3, 9)] == [
        (1, n) for n in (0, 1, 2, 2)
    ]
    (both,) = symbolic_shape("k - 2", constraints=["k >= 1"])
    with pytest.raises(dims.InconclusiveDimensionOperation, match="either end"):
        dims.slice_window(slice(both, None), 5)


@pytest.mark.parametrize(
    "use", [int, range, bool, lambda b: [0] * b], ids=["int", "range", "bool", "repeated list"]
)
def test_values_of_symbols_are_refused_where_they_are_needed(use):
    with pytest.raises(dims.InconclusiveDimensionOperation, match=r"line \d+"):
        use(B - 1)


def test_windows_and_quotients():
    assert dims.window_count(B, 1, 1) == B
    assert dims.window_count(B + 4, 3, 1) == B + 2
    assert dims.dilated_size(B, 3) == B * 3 - 2
    assert dims.exact_quotient(B * 6, 3) == B * 2
    assert dims.exact_quotient(B, 2) is None

"""Arrays in another shape and order, by names of their dimensions."""

import numpy as np
import pytest

from pellucid._machine.base.errors import ArgumentValueError, ShapeError, UnsupportedError
from pellucid.experimental.pallas import tpu


def test_parts_and_orders():
    x = np.arange(48).reshape(2, 3, 8)
    expected = x.reshape(2, 3, 2, 4).transpose(2, 0, 1, 3)
    np.testing.assert_array_equal(tpu.einshape("ab(cd)->cabd", x, c=2), expected)
    np.testing.assert_array_equal(tpu.einshape("ab(cd) -> cabd", x, d=4), expected)
    np.testing.assert_array_equal(tpu.einshape("abc->c(ba)", x), x.transpose(2, 1, 0).reshape(8, 6))
    np.testing.assert_array_equal(tpu.einshape("ab->()ab()", x[0]), x[0][None, :, :, None])
    np.testing.assert_array_equal(tpu.einshape("->", np.int32(3)), 3)


TILES = np.zeros((4, 16, 256), np.float32)


@pytest.mark.parametrize(
    ("equation", "keeps", "sizes"),
    [
        ("abc->bac", False, {}),
        ("ab(cd)->acbd", True, {"d": 128}),
        ("ab(cd)->acbd", False, {"d": 64}),
        ("abc->(ab)c", True, {}),
        ("a(bc)d->b(ac)d", True, {"c": 8}),
        ("a(bc)d->b(ac)d", False, {"c": 4}),
        ("abc->acb", False, {}),
    ],
)
def test_whole_tiles(equation, keeps, sizes):
    expected = tpu.einshape(equation, TILES, **sizes).shape
    if keeps:
        found = tpu.einshape(equation, TILES, assert_is_tile_preserving=True, **sizes)
        assert found.shape == expected
    else:
        with pytest.raises(UnsupportedError, match="parts of tiles"):
            tpu.einshape(equation, TILES, assert_is_tile_preserving=True, **sizes)


@pytest.mark.parametrize(
    ("equation", "sizes", "error", "message"),
    [
        ("ab(cd)->cab", {"c": 2}, ArgumentValueError, "same dimensions"),
        ("abc", {}, ArgumentValueError, "same dimensions"),
        ("a(bb)c->abc", {}, ArgumentValueError, "one dimension"),
        ("ab[c]->abc", {}, ArgumentValueError, "takes an equation"),
        ("ab->ab", {}, ShapeError, "names 2 dimensions"),
        ("ab(cd)->abcd", {}, ArgumentValueError, "must be given"),
        ("ab(cd)->abcd", {"c": 3}, ShapeError, "isn't"),
        ("abc->abc", {"a": 5}, ShapeError, "isn't"),
    ],
)
def test_errors(equation, sizes, error, message):
    with pytest.raises(error, match=message):
        tpu.einshape(equation, TILES, **sizes)

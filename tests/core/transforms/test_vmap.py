"""vmap: axes, sizes and messages."""

import numpy as np
import pytest
from message_checks import check_message

import pellucid
from pellucid import jit, lax, vmap

THREE, FOUR, FOUR_TWO = np.ones(3, np.float32), np.ones(4, np.float32), np.ones((4, 2), np.float32)


def first(x, y):
    return x


def test_negative_axes():
    m = np.arange(6.0).reshape(2, 3)
    np.testing.assert_array_equal(
        vmap(lambda row: row * 2, in_axes=-1, out_axes=-1)(m), m.astype(np.float32) * 2
    )


def test_keyword_arguments_are_batched_in_front():
    assert vmap(lambda x, y: x * y)(THREE, y=THREE).shape == (3,)


def test_results_without_batch_are_repeated_or_not():
    assert vmap(lambda x: 2.0)(THREE).shape == (3,)
    assert vmap(lambda x: (x, 2.0), out_axes=(0, None))(THREE)[1] == 2.0


def test_matching_by_sum():
    assert float(vmap(lambda x: x * 2, out_axes=None, sum_match=True)(THREE)) == 6.0


def test_calls_of_one_program_are_batched_once():
    f = jit(lambda x: lax.sin(x) * 2)
    text = str(pellucid.make_jaxpr(lambda x, y: (vmap(f)(x), vmap(f)(y)))(THREE, THREE))
    assert text.count("sin") == 1


ERRORS = [
    (lambda: vmap(first, in_axes="a"), TypeError, ["in_axes must be an int", "'a'"]),
    (lambda: vmap(first, in_axes=(0, 1.5)), TypeError, ["in_axes must be ints or None", "1.5"]),
    (lambda: vmap(first, in_axes=(0,))(THREE, THREE), ValueError, ["one entry for each positional argument", "1 entries", "2 positional"]),
    (lambda: vmap(first)(THREE, FOUR_TWO), ValueError, ["x: f32[3] has size 3 along axis 0", "y: f32[4,2] has size 4 along axis 0", "None in in_axes"]),
    (lambda: vmap(first)({"a": THREE, "b": FOUR}, FOUR), ValueError, ["x['a']: f32[3]", "x['b']: f32[4]"]),
    (lambda: vmap(first, axis_size=5)(THREE, THREE), ValueError, ["axis_size: 5", "x: f32[3]"]),
    (lambda: vmap(first, in_axes=(0, [0]))(THREE, THREE), ValueError, ["args[1]", "expected list of 1"]),
    (lambda: vmap(first, in_axes=None)(THREE, THREE), ValueError, ["no argument is batched", "axis_size"]),
    (lambda: vmap(first, in_axes=2)(THREE, THREE), ValueError, ["axis 2", "1 dimensions", "x: f32[3]"]),
    (lambda: vmap(lambda x: x)(2.0), ValueError, ["axis 0", "x: f32[]"]),
    (lambda: vmap(lambda x: x, out_axes=None)(THREE), ValueError, ["result is batched, but out_axes says None"]),
    (lambda: vmap(lambda x: {"a": x}, out_axes=3)(THREE), ValueError, ['result["a"] has 1 dimensions', "says 3"]),
    (lambda: vmap(lambda x: x, out_axes=(0, 0))(THREE), ValueError, ["out_axes", "expected tuple of 2"]),
    (lambda: vmap(lambda x: "a")(THREE), TypeError, ["result: str ('a')"]),
    (lambda: vmap(first, in_axes=(0, None))("a", "b"), TypeError, ["`first`", "x: str ('a')"]),
    (lambda: vmap(lambda x, y: (x, y), (0, None), (0, None))(THREE, "b"), TypeError, ["result[1]: str ('b')"]),
]  # fmt: skip


def test_arguments_that_are_not_batched_may_be_any_objects():
    def converted(x, dtype, settings):
        return settings["scale"] * x.astype(dtype)

    batched = vmap(converted, in_axes=(0, None, {"scale": None, "name": None}))
    settings = {"scale": 2, "name": "n"}
    for call in (batched, vmap(batched, in_axes=(0, None, None))):
        ndim = 1 if call is batched else 2
        result = jit(lambda x, call=call: call(x, np.int16, settings))(np.full((3,) * ndim, 1.5))
        assert result.dtype == np.int16
        assert np.array_equal(result, np.full((3,) * ndim, 2))


def test_messages_name_only_the_objects_that_are_batched():
    with pytest.raises(TypeError) as error:
        vmap(first, in_axes=(None, 0))(object(), "b")
    assert "y: str ('b')" in str(error.value)
    assert "x:" not in str(error.value)


@pytest.mark.parametrize(("call", "error", "fragments"), ERRORS)
def test_errors_say_what_where_and_what_to_do(call, error, fragments):
    check_message(call, error, *fragments)


def test_entries_for_arguments_by_keyword_are_refused_with_what_to_do():
    add = vmap(lambda x, y: x + y, in_axes=(0, None))
    with pytest.raises(ValueError, match="Arguments by keyword have no entry"):
        add(np.ones(3), y=np.ones(3))
    with pytest.raises(ValueError, match="called with 1 positional arguments") as raised:
        add(np.ones(3))
    assert "keyword" not in str(raised.value)

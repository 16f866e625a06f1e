"""Errors of structural primitives for operands that do not fit."""

from __future__ import annotations

import numpy as np
import pytest

import pellucid
from pellucid import lax
from pellucid._machine.base.errors import (
    ArgumentTypeError,
    ArgumentValueError,
    DtypeError,
    IndexingError,
    MissingRule,
    ShapeError,
)

X = np.ones((3, 4), np.float32)
I = np.array([[0], [2]], np.int32)
ROWS = lax.GatherDimensionNumbers((1,), (0,), (0,))
PLACES = lax.ScatterDimensionNumbers((1,), (0,), (0,))
U = np.ones((2, 4), np.float32)


@pytest.mark.parametrize(
    ("call", "kind", "text"),
    [
        (lambda: lax.slice(X, (0,), (3, 4)), ShapeError, "one start, limit and stride for each of the 2 dimensions"),
        (lambda: lax.slice(X, (0, 5), (3, 6)), ShapeError, "dimension 1 has start 5, limit 6, size 4"),
        (lambda: lax.slice(X, (0, 3), (3, 2)), ShapeError, "dimension 1 has start 3, limit 2"),
        (lambda: lax.slice(X, (0, 0), (3, 4), (1, 0)), ShapeError, "positive strides; dimension 1 has 0"),
        (lambda: lax.index_in_dim(X, 3), IndexingError, "index 3 is out of bounds for axis 0 of size 3"),
        (lambda: lax.pad(X, 0, [(0, 0, 0)] * 2), DtypeError, r"np.float32\(value\)"),
        (lambda: lax.pad(X, X[0], [(0, 0, 0)] * 2), ShapeError, "scalar padding value"),
        (lambda: lax.pad(X, 0.0, [(0, 0, 0)]), ShapeError, "for each of the 2 dimensions"),
        (lambda: lax.pad(X, 0.0, [(0, 0), (0, 0)]), ArgumentValueError, r"\(low, high, interior\)"),
        (lambda: lax.pad(X, 0.0, [(0, 0, -1), (0, 0, 0)]), ShapeError, "not negative"),
        (lambda: lax.pad(X, 0.0, [(-4, 0, 0), (0, 0, 0)]), ShapeError, r"would have shape \(-1, 4\)"),
        (lambda: lax.concatenate([X, X[0]], 0), ShapeError, "one number of dimensions"),
        (lambda: lax.concatenate([X, X[:2]], 1), ShapeError, "differ at most in dimension 1"),
        (lambda: lax.concatenate([X, X.astype(int)], 0), DtypeError, "jnp.concatenate"),
        (lambda: lax.concatenate([X, X], 2), ShapeError, "dimension 2 is out of bounds"),
        (lambda: lax.concatenate([], 0), ArgumentValueError, "at least one array"),
        (lambda: lax.split(X, (1, 1)), ShapeError, "add up to 3, the size of axis 0"),
        (lambda: lax.split(X, (4, -1)), ShapeError, "not negative"),
        (lambda: lax.stack([X, X.T]), ShapeError, "one shape"),
        (lambda: lax.tile(X, (2,)), ShapeError, "2 repetitions"),
        (lambda: lax.dynamic_slice(X, (0,), (1, 1)), ShapeError, "for each of the 2 dimensions"),
        (lambda: lax.dynamic_slice(X, (0, 0), (1, 5)), ShapeError, "window that fits"),
        (lambda: lax.dynamic_slice(X, (np.int32(0), np.int8(0)), (1, 1)), DtypeError, "of one dtype"),
        (lambda: lax.dynamic_slice(X, (0.0, 1), (1, 1)), DtypeError, "integer scalars"),
        (lambda: lax.dynamic_slice(X, (-1, 0), (1, 1), allow_negative_indices=False), ArgumentValueError, "-1 is neg"),
        (lambda: lax.dynamic_update_slice(X, X.astype(int), (0, 0)), DtypeError, "of one dtype"),
        (lambda: lax.gather(X, I, ROWS, (1, 5)), ShapeError, "slice_sizes that fit"),
        (lambda: lax.gather(X, I, ROWS, (2, 4)), ShapeError, "slice_sizes of 1 along collapsed"),
        (lambda: lax.gather(X, I.astype(np.float32), ROWS, (1, 4)), DtypeError, "integer indices"),
        (lambda: lax.gather(X, I, lax.GatherDimensionNumbers((1,), (), (0,)), (1, 4)), ShapeError, "each axis of the"),
        (lambda: lax.gather(X, I, lax.GatherDimensionNumbers((1,), (0,), ()), (1, 4)), ShapeError, "elements, 1"),
        (lambda: lax.gather(X, I, ROWS, (1, 4), mode="wrap"), ArgumentValueError, "'wrap'.*\n.*'fill', 'drop', 'clip'"),
        (lambda: pellucid.jit(lambda f: lax.gather(X, I, ROWS, (1, 4), mode="fill", fill_value=f))(1.0),
         ArgumentTypeError, "known when the program is traced"),
        (lambda: lax.scatter(X, I, U.astype(int), PLACES), DtypeError, "of one dtype"),
        (lambda: lax.scatter(X, I, U[:1], PLACES), ShapeError, r"updates of shape \(2,\) along"),
        (lambda: lax.scatter_add(X > 0, I, U > 0, PLACES), DtypeError, "add does not accept bool"),
        (lambda: pellucid.grad(lambda u: lax.scatter_mul(X, I, u, PLACES).sum())(U), MissingRule, "unique_indices=True"),
        (lambda: lax.scatter_apply(X, I, lambda e: e > 0, PLACES, update_shape=(2, 4)), ArgumentTypeError, "gives bool"),
        (lambda: lax.sort(()), ArgumentValueError, "at least one array"),
        (lambda: lax.sort((X, X), num_keys=3), ArgumentValueError, "between 1 and 2 keys"),
        (lambda: lax.sort((X, X[0])), ShapeError, "one shape"),
        (lambda: lax.top_k(X, 5), ShapeError, "0 <= k <= 4, the size of axis 1, got k=5"),
        (lambda: lax.top_k(X.astype(complex), 1), ArgumentValueError, "real numbers"),
        (lambda: lax.approx_max_k(X.astype(int), 1), ArgumentValueError, "floating numbers"),
        (lambda: lax.top_k(X, "a"), ArgumentTypeError, r"^sizes must be sequences of integers.\n  got \['a'\]$"),
        (lambda: lax.slice(X, None, (3, 4)), ArgumentTypeError, "sizes must be sequences of integers"),
        (lambda: lax.transpose(X, 3), ArgumentTypeError, "^axes and other indices must be sequences of integers"),
        (lambda: lax.reshape(X, (4, 3), dimensions=-1), ArgumentTypeError, "sequences of integers"),
        (lambda: lax.argmax(X, (None,), np.int32), ArgumentTypeError, "sequences of integers"),
        (lambda: lax.cumsum(X, "a"), ArgumentTypeError, "sequences of integers"),
        (lambda: lax.concatenate([X, X], None), ArgumentTypeError, "sequences of integers"),
        (lambda: lax.map(np.sin, X, batch_size="a"), ArgumentTypeError, "sequences of integers"),
        (lambda: lax.shape_as_value((2.5,)), ArgumentTypeError, "sequences of integers"),
        (lambda: lax.padtype_to_pads((4,), (2,), (1, 1), "SAME"), ShapeError, "a window and a stride for each size"),
        (lambda: lax.full((2,), 1, pellucid.random.key(0).dtype), DtypeError, "values of an extended dtype"),
    ],
)  # fmt: skip
def test_messages_name_what_is_wrong(call, kind, text) -> None:
    with pytest.raises(kind, match=text):
        call()


@pytest.mark.parametrize(("call", "kind"), [
    (lambda: lax.unstack(X), tuple),
    (lambda: lax.approx_max_k(X, 2), list),
    (lambda: lax.top_k(X, 2), list),
    (lambda: lax.rng_bit_generator(np.zeros(4, np.uint32), (2,)), tuple),
])  # fmt: skip
def test_several_results_come_in_the_containers_of_the_reference(call, kind) -> None:
    assert type(call()) is kind

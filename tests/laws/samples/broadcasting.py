"""Rows for broadcasting, and for the sum that is its transpose."""

from tests.laws.sample import Sample, array

samples = [
    Sample("lax.broadcast_in_dim(x, (2, 3, 4), (0, 2))", (array((2, 4)),)),
    Sample("lax.broadcast_in_dim(x, (2, 3), (0, 1))", (array((1, 3)),)),
    Sample("lax.broadcast_in_dim(x, (2, 0), ())", (array((), "int32"),)),
    Sample("lax.broadcast_in_dim(x, (2, 2), (1,))", (array((2,), "complex64"),)),
    Sample("lax.broadcast(x, (2, 3))", (array((2,), "bool"),)),
    Sample("lax.expand_dims(x, (0, -1))", (array((3,)),)),
    Sample(
        "lax.reduce_sum(x, (0, 2))", (array((2, 3, 4)),), lambda x: x.sum((0, 2)), agrees="close"
    ),
    Sample("lax.reduce_sum(x, (0,))", (array((0, 3)),), lambda x: x.sum(0)),
    Sample("lax.reduce_sum(x, (1,))", (array((2, 3), "int32"),), lambda x: x.sum(1)),
    Sample(
        "lax.reduce_sum(x, (1,))", (array((2, 3), "bfloat16"),), lambda x: x.sum(1), agrees="close"
    ),
    Sample(
        "lax.reduce_sum(x, (0,))", (array((4,), "complex64"),), lambda x: x.sum(0), agrees="close"
    ),
]

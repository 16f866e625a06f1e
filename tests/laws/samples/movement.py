"""Rows for movement: reshape, transpose, squeeze, rev."""

from tests.laws.sample import Sample, array

samples = [
    Sample("lax.reshape(x, (3, 4))", (array((2, 6)),), lambda x: x.reshape(3, 4)),
    Sample("lax.reshape(x, (1, 1))", (array(()),)),
    Sample("lax.reshape(x, (0, 5))", (array((2, 0, 3)),)),
    Sample("lax.reshape(x, (24,))", (array((2, 3, 4), "bfloat16"),)),
    Sample("lax.transpose(x, (1, 0))", (array((2, 3)),), lambda x: x.T),
    Sample(
        "lax.transpose(x, (2, 0, 3, 1))", (array((2, 3, 4, 1)),), lambda x: x.transpose(2, 0, 3, 1)
    ),
    Sample("lax.transpose(x, (1, 0))", (array((2, 3), "complex64"),)),
    Sample("lax.transpose(x, (1, 0))", (array((2, 3), "bool"),)),
    Sample("lax.squeeze(x, (0, 2))", (array((1, 3, 1, 2)),)),
    Sample("lax.squeeze(x, (-1,))", (array((3, 1), "int8"),)),
    Sample("lax.rev(x, (1, 2))", (array((2, 3, 4)),), lambda x: x[:, ::-1, ::-1]),
    Sample("lax.rev(x, (0,))", (array((0, 3), "uint8"),)),
]

"""Rows for arrays made of nothing, or of one scalar."""

import numpy as np

from tests.laws.sample import Sample, array, python


def row(call: str, *operands, **more) -> Sample:
    """A row that is not batched if it has no operands."""
    return Sample(call, operands, batched=bool(operands), **more)


samples = [
    row("lax.iota('int32', 5)", reference=lambda: np.arange(5)),
    row("lax.iota('float32', 0)"),
    row("lax.iota('uint8', 300)"),
    row("lax.iota('bfloat16', 5)"),
    row("lax.broadcasted_iota('int32', (2, 3), 1)"),
    row("lax.broadcasted_iota('complex64', (2, 3, 1), 0)"),
    row("lax.broadcasted_iota(float, (2, 3), dimension=0)"),
    row("lax.empty((2, 3), np.dtype('float32'))"),
    row("lax.full((2, 3), 1.5)"),
    row("lax.full((2,), 1, 'complex64')"),
    row("lax.full((), 1.5)"),
    row("lax.full((2,), 1.5, 'int32')"),
    row("lax.full((0, 2), True)"),
    row("lax.full((2, 3), x)", array(())),
    row("lax.full((2, 3), x, 'int32')", array(()), smooth=False),
    row("lax.full((2, 3), x)", python(2.0)),
    row("lax.full_like(x, 2)", array((2, 3))),
    row("lax.full_like(x, 2.5)", array((2, 3), "int32")),
    row("lax.full_like(x, 2.5)", python(1.0)),
    row("lax.full_like(x, 2, shape=(3,))", python(1.0)),
    row("lax.full_like(x, 1, dtype='int8', shape=(2,))", array((2, 3))),
    row("lax.full_like(x, y)", array((2, 3)), array(())),
    row(
        "lax.broadcast_like(x, y)",
        array((3, 1)),
        array((2, 3, 4)),
        reference=lambda x, y: np.broadcast_to(x, y.shape),
    ),
    row("lax.broadcast_like(x, y)", python(1.0), array((2, 3))),
    row("lax.broadcast_to_rank(x, 3)", array((2,)), reference=lambda x: x.reshape(1, 1, 2)),
    row("lax.broadcast_to_rank(x, 1)", array((2, 3))),
]

"""Rows for calls of programs."""

from tests.laws.sample import Sample, array

samples = [
    Sample(
        "lax.jit(lambda a, b: (lax.mul(lax.sin(a), b), a))(x, y)", (array((2, 3)), array((2, 3))),
        jax_call="jax.jit(lambda a, b: (lax.mul(lax.sin(a), b), a))(x, y)", same_text=False,
    ),
]  # fmt: skip

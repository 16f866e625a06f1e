"""Rows for values brought to other places."""

from tests.laws.sample import Sample, array

samples = [
    Sample("lax.device_put(x)", (array((2, 3)),), jax_call="jax.device_put(x)"),
    Sample("lax.device_put((x, y), may_alias=False)", (array((2, 3)), array((), "int32")),
           jax_call="jax.device_put((x, y), may_alias=False)"),
]  # fmt: skip

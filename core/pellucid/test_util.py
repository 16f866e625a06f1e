"""Checks of derivatives under the names of `jax.test_util`."""

from pellucid._machine.transforms.derivative_checks import (
    check_grads as check_grads,
    check_jvp as check_jvp,
    check_vjp as check_vjp,
)

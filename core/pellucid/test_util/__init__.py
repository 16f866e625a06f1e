"""Checks of derivatives under the names of `jax.test_util`, and the laws that each primitive keeps."""

from pellucid._machine.transforms.derivative_checks import (
    check_grads as check_grads,
    check_jvp as check_jvp,
    check_vjp as check_vjp,
)

from .laws import (
    LawError as LawError,
    check_adjoint as check_adjoint,
    check_batching as check_batching,
    check_laws as check_laws,
    check_lowering as check_lowering,
    check_reference as check_reference,
    check_sharding as check_sharding,
    check_symbolic_sizes as check_symbolic_sizes,
    check_types as check_types,
)

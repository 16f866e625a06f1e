"""Products of operands that are quantized by blocks, and their gradients, with either library."""

from __future__ import annotations

from typing import Any

import numpy as np

CASES = [
    (("mxfp8", "mxfp8", "mxfp8"), "float32", "float32"), (("nvfp4", "nvfp4", "nvfp4"), "float32", "float32"),
    (("nvfp4", "nvfp4", "nvfp4"), "bfloat16", "float32"),
    (("mxfp8", "mxfp8", "mxfp8"), "bfloat16", "bfloat16"),
]  # fmt: skip
"""(modes of lhs, rhs and cotangent, dtype of the operands, dtype of the result)."""
GLOBAL_SCALE = 0.0625


def products(jax: Any, cases: list[Any]) -> list[Any]:
    """For each case the product over two batch elements and its gradients, as float32."""
    return [product(jax, *case) for case in cases]


def product(jax: Any, modes: tuple[str, ...], dtype: str, preferred: str) -> list[np.ndarray]:
    """Some elements of the product and of the cotangents of both operands."""
    jnp = jax.numpy
    rng = np.random.default_rng(3)
    operands = [
        rng.standard_normal(s) * np.exp(2 * rng.standard_normal(s))
        for s in ((2, 32, 64), (2, 64, 96))
    ]
    lhs, rhs = (jnp.asarray(x, dtype) for x in operands)
    cotangent = jnp.asarray(rng.standard_normal((2, 32, 96)), preferred)
    scale = jnp.array([GLOBAL_SCALE])
    configs = [
        jax.nn.get_scaled_dot_general_config(mode, *([scale] if mode == "nvfp4" else []))
        for mode in modes
    ]

    def with_gradients(lhs: Any, rhs: Any) -> Any:
        multiply = lambda *xs: jax.nn.scaled_dot_general(
            *xs, (((2,), (1,)), ((0,), (0,))), preferred, configs
        )
        result, pullback = jax.vjp(multiply, lhs, rhs)
        return [result, *pullback(cotangent)]

    if jax.__name__ == "jax":
        closed = jax.make_jaxpr(with_gradients)(lhs, rhs)
        results = interpreted(jax, closed.jaxpr, closed.consts, [lhs, rhs])
    else:
        results = jax.jit(with_gradients)(lhs, rhs)
    return [np.asarray(x.astype("float32"))[:, ::7, ::5] for x in results]


def interpreted(jax: Any, jaxpr: Any, constants: Any, operands: Any) -> list[Any]:
    """Results of a jaxpr of the reference, whose products of scaled blocks run on some devices only."""
    values = dict(zip((*jaxpr.constvars, *jaxpr.invars), (*constants, *operands), strict=True))
    read = lambda x: x.val if hasattr(x, "val") else values[x]
    for equation in jaxpr.eqns:
        inputs, params = [read(x) for x in equation.invars], equation.params
        inner = params.get("call_jaxpr", params.get("jaxpr"))
        if equation.primitive.name == "scaled_matmul_wrapper":
            results = [dequantized_product(jax, *inputs).astype(params["preferred_element_type"])]
        elif inner is not None:
            results = interpreted(jax, inner.jaxpr, inner.consts, inputs)
        else:
            results = equation.primitive.bind(*inputs, **params)
            results = results if equation.primitive.multiple_results else [results]
        values.update(zip(equation.outvars, results, strict=True))
    return [read(x) for x in jaxpr.outvars]


def dequantized_product(jax: Any, lhs: Any, rhs: Any, lhs_scales: Any, rhs_scales: Any) -> Any:
    """The product [B, M, N] of lhs [B, M, K] and rhs [B, N, K] times their scales."""
    jnp = jax.numpy
    wide = [
        x.astype("float32") * jnp.repeat(s.astype("float32"), x.shape[-1] // s.shape[-1], -1)
        for x, s in ((lhs, lhs_scales), (rhs, rhs_scales))
    ]
    return jnp.einsum("bmk,bnk->bmn", *wide)

"""Expressions over `nn`, evaluated with either library."""

from __future__ import annotations

from typing import Any

import numpy as np

ACTIVATIONS = (
    "celu", "elu", "gelu", "hard_sigmoid", "hard_silu", "hard_swish", "hard_tanh", "identity", "leaky_relu", "log1mexp",
    "log_sigmoid", "mish", "relu", "relu6", "selu", "sigmoid", "silu", "soft_sign", "softplus", "sparse_plus",
    "sparse_sigmoid", "squareplus", "swish", "tanh",
)  # fmt: skip
TAKES_NO_INTEGERS = ("sigmoid", "silu", "swish")
"""Functions that refuse integers in the reference."""


def _of_activations() -> list[str]:
    texts = []
    for name in ACTIVATIONS:
        texts += [f"nn.{name}(x)", f"nn.{name}(x.astype('bfloat16'))", f"nn.{name}(2.5)"]
        texts += [f"jax.vmap(jax.grad(nn.{name}))(x)"]
        if name not in TAKES_NO_INTEGERS:
            texts.append(f"nn.{name}(whole)")
    return texts


TEXTS = [
    *_of_activations(),
    "nn.gelu(x, approwholemate=False)",
    "nn.glu(x[:12])",
    "nn.one_hot(whole, 4)",
    "nn.one_hot(whole, 4, awholes=0, dtype=int)",
    "nn.one_hot(2, 4)",
    "nn.one_hot([0, 2], 4)",
    "nn.softmax(x[:10])",
    "nn.softmax(x[:10], where=x[:10]>0)",
    "nn.softmax(x[:10].reshape(2, 5), awholes=0)",
    "nn.softmax(whole)",
    "nn.log_softmax(x[:10])",
    "nn.log_softmax(x[:10], where=x[:10]>0)",
    "nn.softmax(x)",
    "jax.jacrev(nn.softmax)(x[1:6])",
    "jax.hessian(lambda v: nn.log_softmax(v)[0])(x[1:4])",
    "jax.grad(lambda v: nn.log_softmax(v, where=v>0)[6])(x[:10])",
    "nn.standardize(x[:10])",
    "nn.standardize(x[:10], mean=0., variance=1.)",
    "nn.standardize(whole, epsilon=0.1)",
    "nn.logsumexp(x[:10])",
    "nn.logsumexp(x)",
    "nn.logsumexp(x[:10].reshape(2, 5), awholes=1, keepdims=True)",
    "nn.logsumexp(x[:10], b=-1., return_sign=True)",
    "nn.logsumexp(x[:10], b=-1.)",
    "nn.logsumexp(jnp.array([-np.inf, -np.inf]))",
    "nn.logsumexp(x[:10], where=x[:10]>0)",
    "jax.grad(nn.logsumexp)(x[:10])",
    "nn.logmeanexp(x[:10])",
    "nn.logmeanexp(x[:10], where=x[:10]>0)",
    "nn.logsumexp(whole)",
    "nn.logsumexp(jnp.zeros((0, )))",
    "nn.dot_product_attention(q, k, v)",
    "nn.dot_product_attention(q, k, v, b, m)",
    "nn.dot_product_attention(q, k, v, is_causal=True, scale=0.5)",
    "nn.dot_product_attention(q, k, v, local_window_size=1)",
    "nn.dot_product_attention(q, k, v, local_window_size=(2, 0))",
    "nn.dot_product_attention(q, k, v, query_seq_lengths=jnp.array([3, 5]), key_value_seq_lengths=jnp.array([4, 2]))",
    "nn.dot_product_attention(q[0], k[0], v[0])",
    "nn.dot_product_attention(q[0], k[0], v[0], mask=m[0])",
    "nn.dot_product_attention(q.astype('bfloat16'), k.astype('bfloat16'), v.astype('bfloat16'))",
    "nn.dot_product_attention(q, k, v, return_residual=True)",
    "nn.dot_product_attention(q, k, v, mask=b)",
    "jax.grad(lambda q: nn.dot_product_attention(q, k, v, b, m).sum())(q)",
    "nn.initializers.uniform()(key, (3, 4))",
    "nn.initializers.normal()(key, (3, 4))",
    "nn.initializers.truncated_normal()(key, (3, 4))",
    "nn.initializers.glorot_uniform()(key, (3, 4))",
    "nn.initializers.glorot_normal()(key, (3, 4))",
    "nn.initializers.lecun_uniform()(key, (3, 4))",
    "nn.initializers.lecun_normal()(key, (3, 4))",
    "nn.initializers.he_uniform()(key, (3, 4))",
    "nn.initializers.he_normal()(key, (3, 4))",
    "nn.initializers.orthogonal()(key, (3, 4))",
    "nn.initializers.zeros(key, (2, ))",
    "nn.initializers.ones(key, (2, ), 'int32')",
    "nn.initializers.constant(3)(key, (2, ))",
    "nn.initializers.glorot_normal(in_awholes=(0, 1), out_awholes=2)(key, (2, 3, 4))",
    "nn.initializers.he_uniform(batch_awholes=0)(key, (2, 3, 4))",
    "nn.initializers.lecun_normal()(key, (3, ))",
    "nn.initializers.lecun_normal()(key, (3, 4), 'complex64')",
    "nn.initializers.lecun_uniform()(key, (3, 4), 'complex64')",
    "nn.initializers.variance_scaling(2., 'fan_out', 'normal')(key, (3, 4), 'complex64')",
    "nn.initializers.variance_scaling(2., 'x', 'normal')(key, (3, 4))",
    "nn.initializers.variance_scaling(2., 'fan_geo_avg', 'normal')(key, (3, 4))",
    "nn.initializers.orthogonal()(key, (2, 4))",
    "nn.initializers.orthogonal(2., 0)(key, (2, 3, 4))",
    "nn.initializers.delta_orthogonal()(key, (3, 2, 4))",
    "nn.initializers.delta_orthogonal()(key, (3, 2, 2, 2))",
    "nn.initializers.delta_orthogonal()(key, (3, 4, 2))",
    "nn.initializers.he_normal()(key, (3, 4), 'bfloat16')",
    "nn.initializers.orthogonal()(key, (3, ))",
]


def evaluate(jax: Any, text: str) -> Any:
    """The value of an expression."""
    jnp, random = jax.numpy, jax.random
    key = random.key(3)
    names = {
        "jax": jax, "jnp": jnp, "np": np, "random": random, "nn": jax.nn, "key": key,
        "x": jnp.array([-7.0, -1.5, -1.0, -0.0, 0.0, 0.3, 1.0, 2.5, 6.0, 9.0, np.inf, -np.inf, np.nan]),
        "whole": jnp.array([-3, 0, 2, 7]), "q": random.normal(random.key(1), (2, 5, 4, 8)),
        "k": random.normal(random.key(2), (2, 6, 2, 8)), "v": random.normal(random.key(4), (2, 6, 2, 8)),
        "b": random.normal(key, (1, 4, 5, 6)), "m": random.bernoulli(key, 0.7, (2, 1, 5, 6)),
    }  # fmt: skip
    return eval(text, names)


def answers(jax: Any, texts: list[str]) -> list[Any]:
    """For each expression (dtype, weak type, elements) of its leaves, or the class of its error."""
    results: list[Any] = []
    for text in texts:
        try:
            leaves = jax.tree.leaves(evaluate(jax, text))
            results.append([(str(x.dtype), bool(x.weak_type), widened(x)) for x in leaves])
        except Exception as error:  # the reference's own errors, too
            builtin = (c.__name__ for c in type(error).__mro__ if c.__module__ == "builtins")
            results.append(next(builtin))
    return results


def widened(x: Any) -> np.ndarray:
    """The elements in a dtype that NumPy has."""
    host = np.asarray(x)
    return host.astype(np.complex128 if host.dtype.kind == "c" else np.float64)

"""Calls of `numpy.linalg`, `random` and `nn`, as rows of `numpy_calls`."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from corpus.numpy_calls import Row, ordinary

_MATRICES = np.array([[[4, 1, 0.5], [1, 3, -1], [0.5, -1, 5]], [[2, 0, 1], [0, 6, 2], [1, 2, 4]]], np.float32)  # fmt: skip
"""Positive definite matrices [2, 3, 3] with distinct eigenvalues."""
_HERMITIAN = (_MATRICES + 1j * np.array([[0, 1, 2], [-1, 0, 0.5], [-2, -0.5, 0]])).astype(
    "complex64"
)
_TALL = ordinary(4, 3) + np.eye(4, 3, dtype=np.float32)

LINALG_SQUARE = (
    "cholesky(x)", "cholesky(x, upper=True)", "cond(x)", "cond(x, 1)", "det(x)", "abs(jnp.linalg.eig(x)[0])", "eigh(x)[0]", "eigvalsh(x)",
    "inv(x)", "lstsq(x[0], x[1])[0]", "matrix_norm(x)", "matrix_power(x, 3)", "matrix_power(x, -1)", "matrix_rank(x)", "matrix_transpose(x)",
    "multi_dot([x[0], x[1], x[0]])", "norm(x)", "norm(x, 'nuc', axis=(1, 2))", "norm(x, 2, axis=(1, 2))", "pinv(x)", "pinv(x, hermitian=True)",
    "qr(x)[1]", "qr(x, mode='r')", "slogdet(x)", "solve(x, x[::-1])", "solve(x[0], x[1, 0])", "svd(x, compute_uv=False)", "svdvals(x)",
    "tensordot(x, x, 2)", "tensorinv(x.reshape(6, 3, 2, 1)[:3])", "tensorsolve(x[0], x[1, 0])", "trace(x)", "trace(x, offset=1)", "diagonal(x)",
    "vecdot(x, x)", "vector_norm(x)", "vector_norm(x, axis=0, ord=1)", "outer(x[0, 0], x[1, 0])", "cross(x, x[::-1])", "matmul(x, x)",
    "eigvals(x).real.sum(-1)", "inv(x[0, :2])", "cholesky(x[0, 0])", "solve(x, x[0, :2])",
)  # fmt: skip
LINALG_TALL = (
    "qr(x)[1]", "qr(x, mode='complete')[1]", "svd(x)[1]", "svd(x, full_matrices=False)[1]", "lstsq(x, x)[0]", "pinv(x)", "matrix_rank(x)",
    "norm(x, 'fro')", "norm(x, 'nuc')", "norm(x, np.inf)", "norm(x, -2)", "norm(x, 1, axis=0)", "norm(x, axis=(0, 1), keepdims=True)", "cond(x)",
)  # fmt: skip
RANDOM = (
    "ball(k, 3, shape=(2,))", "bernoulli(k, 0.3, (4,))", "beta(k, 2.0, 3.0, (3,))", "binomial(k, 9.0, 0.3, (3,))", "bits(k, (3,))", "categorical(k, jnp.zeros((2, 5)))",
    "cauchy(k, (3,))", "chisquare(k, 3.0, (3,))", "choice(k, 7, (3,))", "choice(k, 7, (3,), False)", "dirichlet(k, jnp.ones(3))", "double_sided_maxwell(k, 1.0, 2.0, (3,))",
    "exponential(k, (3,))", "f(k, 2.0, 3.0, (2,))", "gamma(k, 2.0, (3,))", "generalized_normal(k, 1.5, (3,))", "geometric(k, 0.4, (3,))", "gumbel(k, (3,))", "laplace(k, (3,))",
    "loggamma(k, 0.2, (3,))", "logistic(k, (3,))", "lognormal(k, 0.7, (3,))", "maxwell(k, (3,))", "multinomial(k, 9.0, jnp.ones(3) / 3)",
    "multivariate_normal(k, jnp.zeros(2), jnp.eye(2))", "normal(k, (3,))", "normal(k, (3,), 'complex64')", "orthogonal(k, 2)", "pareto(k, 2.5, (3,))", "permutation(k, 7)",
    "poisson(k, 3.0, (3,))", "rademacher(k, (3,))", "randint(k, (3,), -5, 9)", "rayleigh(k, 1.5, (3,))", "t(k, 3.5, (3,))", "triangular(k, 1.0, 2.0, 4.0, (3,))",
    "truncated_normal(k, -1.0, 0.5, (3,))", "uniform(k, (3,), minval=-1)", "wald(k, 2.0, (3,))", "weibull_min(k, 1.5, 2.5, (3,))", "key_data(jax.random.split(k, 3))",
    "key_data(jax.random.fold_in(k, 7))", "key_data(jax.random.clone(k))", "key_data(jax.random.wrap_key_data(x))", "normal(x, (2,))", "split(x)", "fold_in(x, 3)",
    "uniform(k, (2,), int)", "gamma(k, -1.0j)", "normal(k, (-1,))", "choice(k, 3, (5,), False)", "key_data(jax.random.key(x[0]))", "PRNGKey(x[1])",
)  # fmt: skip
NN = (
    "celu(x)", "elu(x)", "gelu(x)", "gelu(x, approximate=False)", "glu(x)", "hard_sigmoid(x)", "hard_silu(x)", "hard_swish(x)", "hard_tanh(x)", "identity(x)", "leaky_relu(x)",
    "log1mexp(abs(x) + 1)", "log_sigmoid(x)", "log_softmax(x)", "logmeanexp(x, axis=-1)", "logsumexp(x, axis=0)", "mish(x)", "one_hot(jnp.int32(x[0]), 4)", "relu(x)", "relu6(x)",
    "selu(x)", "sigmoid(x)", "silu(x)", "soft_sign(x)", "softmax(x)", "softmax(x, axis=0, where=x > 0)", "softplus(x)", "sparse_plus(x)", "sparse_sigmoid(x)", "squareplus(x)",
    "standardize(x)", "swish(x)", "tanh(x)", "dot_product_attention(x[None, :, None], x[None, :, None], x[None, :, None])",
    "dot_product_attention(x[None, :, None], x[None, :, None], x[None, :, None], is_causal=True)", "scaled_matmul(x[None], x[None], jnp.ones((1, 3, 1)), jnp.ones((1, 3, 1)))", "scaled_dot_general(x, x, (((1,), (1,)), ((), ())))",
    "glu(x[:, :3])", "softmax(x, axis=5)", "one_hot(x, 2.5)", "initializers.glorot_normal()(jax.random.key(jnp.int32(x[0, 0])), (2, 3))",
)  # fmt: skip


def _row(prefix: str, text: str, *operands: Any) -> Row:
    """A row of a call of `prefix`, in which `k` is the key over the words `x`."""
    text = re.sub(r"\bk\b", "jax.random.wrap_key_data(x)", text)
    return Row(
        f"abs({prefix}{text[4:]}" if text.startswith("abs(") else f"{prefix}{text}", operands
    )


def all_rows() -> list[Row]:
    """All rows."""
    x = ordinary(3, 4) / 4
    rows = [_row("jnp.linalg.", text.replace("abs(jnp.linalg.", "abs("), m) for text in LINALG_SQUARE for m in (_MATRICES, _HERMITIAN)]  # fmt: skip
    rows += [_row("jnp.linalg.", text, _TALL) for text in LINALG_TALL]
    rows += [_row("jax.random.", text, np.array([7, 11], np.uint32)) for text in RANDOM]
    return rows + [
        _row("jax.nn.", text, operand) for text in NN for operand in (x, x.astype("float16"))
    ]

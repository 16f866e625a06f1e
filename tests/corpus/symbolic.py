"""Functions over arrays with symbolic dimensions, for tests of their types, their exported programs and their text."""

from __future__ import annotations

from typing import Any

import numpy as np

import pellucid as pl
import pellucid.numpy as jnp
from pellucid import lax, nn, random

VARIABLES = ("b", "c")
SIZES = ({"b": 2, "c": 1}, {"b": 5, "c": 3})
"""Values of the variables that programs run with."""
INDEX = ((), np.int32)


def pooled(x):
    return lax.reduce_window(x, -np.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")


def layers(x, *weights):
    for w in weights:
        x = jnp.tanh(x @ w + w[0])
    return x.mean()


def recurrence(w):
    def step(h, x):
        h = jnp.tanh(h @ w + x)
        return h, jnp.where(h > 0, h * h, jnp.log(1 + jnp.abs(h)))

    return step


def train_step(x, y, *weights):
    def loss(weights):
        return jnp.mean((jnp.tanh(x @ weights[0]) @ weights[1] - y) ** 2)

    value, gradients = pl.value_and_grad(loss)(weights)
    return value, *(w - 0.1 * g for w, g in zip(weights, gradients, strict=True))


def transformer_block(x, w):
    """One layer over x [batch, time, 8], causal, with two heads; w [8, 8]."""
    b, t, d = x.shape
    normal = nn.standardize(x)
    heads = (normal @ w).reshape(b, t, 2, d // 2)
    attended = nn.dot_product_attention(heads, heads, heads, is_causal=True).reshape(b, t, d)
    x = x + attended @ w
    return x + nn.gelu(nn.standardize(x) @ w) @ w.T


def gradient_of(function):
    return pl.grad(lambda x, *more: sum(jnp.sum(y * y) for y in pl.tree.leaves(function(x, *more))))


# name: (function, its operands' shapes as texts, or (shape, dtype))
FUNCTIONS: dict[str, tuple[Any, ...]] = {
    "slices of few elements": (lambda x: (x[-3:], x[1:-1:2], x[:: x.shape[0]], x[-1:-4:-1], x[-2::-2], x.at[: x.shape[0] - 1 : 2].set(0), x[1::2] + jnp.zeros(x.shape[0] // 2)), "(b,)"),
    "pad by a size": (lambda x: [jnp.pad(x, (x.shape[0] - 1, x.shape[0]), mode) for mode in ("constant", "edge", "wrap", "reflect", "symmetric", "mean")], "(b,)"),
    "arithmetic": (lambda x: (x + x * 2 - lax.rsqrt(x * x + 1) / x) ** 3, "(b,4)"),
    "transcendental": (lambda x: lax.logistic(lax.erf(jnp.sin(x)) + jnp.exp(x)), "(b,4)"),
    "special": (lambda x: lax.lgamma(jnp.abs(x) + 1) + lax.digamma(jnp.abs(x) + 1) + jnp.arcsinh(x), "(b,4)"),
    "max": (lambda x: jnp.maximum(x, 0.0), "(b,4)"),
    "select": (lambda x: jnp.where(x > 0, x, x.shape[0]), "(b,4)"),
    "clamp": (lambda x: lax.clamp(0.0, x, 1.0), "(b,4)"),
    "logic": (lambda x: ((x == x.T.T) & (x >= 0) | ~(x < 1), jnp.all(x > 0, 0), jnp.count_nonzero(x > 0)), "(b,4)"),
    "matmul": (lambda x, w: x @ w, "(b,4)", "(4,3)"),
    "products": (lambda x, y: (x @ y.T, jnp.tensordot(x, y, ((1,), (1,))), jnp.inner(x, y)), "(b,4)", "(c,4)"),
    "contract a symbol": (lambda x, y: lax.dot_general(x, y, (((0,), (0,)), ((), ()))), "(b,4)", "(b,2)"),
    "einsum": (lambda x, y: jnp.einsum("bi,bj->ij", x, y), "(b,4)", "(b,3)"),
    "einsum of three": (lambda x, y: jnp.einsum("bi,ci,cj->bj", x, y, y), "(b,4)", "(c,4)"),
    "outer": (lambda x, y: (jnp.outer(x[:, 0], y[:, 0]), jnp.meshgrid(x[:, 0], y[:, 0])), "(b,4)", "(c,4)"),
    "sums": (lambda x: (x.sum(), x.sum(0), x.sum(1), jnp.nansum(x, 0)), "(b,4)"),
    "extremes": (lambda x: (x.max(0), x.prod(1), jnp.argmax(x, 0), x.argmin(), jnp.ptp(x, 0)), "(b,4)"),
    "means": (lambda x: (x.mean(), x.std(0), x.var(1), jnp.average(x, axis=0)), "(b,4)"),
    "covariance": (lambda x: jnp.cov(x.T), "(b,4)"),
    "norms": (lambda x: (jnp.linalg.norm(x), jnp.linalg.norm(x, axis=0), jnp.linalg.norm(x, axis=1, ord=1)), "(b,4)"),
    "cumulative sums": (lambda x: (jnp.cumsum(x, 0), jnp.cumsum(x), lax.cumsum(x, 0, reverse=True)), "(b,4)"),
    "cumulative": (lambda x: (jnp.cumprod(x, 0), lax.cummax(x, 0), lax.cumlogsumexp(x, 0)), "(b,4)"),
    "differences": (lambda x: (jnp.diff(x, axis=0), jnp.trapezoid(x, axis=0), jnp.gradient(x, axis=0)), "(b,4)"),
    "sort": (lambda x: (jnp.sort(x, 0), jnp.argsort(x, 0)), "(b,4)"),
    "quantiles": (lambda x: (jnp.median(x, 0), jnp.quantile(x, 0.3, axis=0), jnp.percentile(x, 30.0)), "(b,4)"),
    "searchsorted": (lambda x: jnp.searchsorted(jnp.sort(x[:, 0]), x[:, 1]), "(b,4)"),
    "top_k": (lambda x: (lax.top_k(x, 2), lax.top_k(x.T, 2)), "(b,4)"),
    "sets": (lambda x: (jnp.unique(jnp.argmax(x, 1), size=2), jnp.nonzero(x[:, 0] > 0, size=2)), "(b,4)"),
    "counts": (lambda x: (jnp.bincount(jnp.argmax(x, 1), length=4), jnp.histogram(x, 4)[0]), "(b,4)"),
    "reshape": (lambda x: (x.reshape(-1), x.reshape(-1, 2), lax.reshape(x, (2 * x.shape[0], 2))), "(b,4)"),
    "transpose": (lambda x: (x.T, jnp.moveaxis(x[None], 0, -1), jnp.flip(x), jnp.rot90(x)), "(b,4)"),
    "broadcast": (lambda x: (x[:, None] + x[None], jnp.broadcast_to(x, (3, *x.shape))), "(b,4)"),
    "concatenate": (lambda x, y: (jnp.concatenate([x, y, x]), jnp.block([[x, x], [x, x]])), "(b,4)", "(c,4)"),
    "stack, split, tile": (lambda x: jnp.split(jnp.tile(jnp.stack([x, x]), (1, 1, 2)), 2, 2), "(b,4)"),
    "split a symbol": (lambda x: (jnp.split(jnp.concatenate([x, x]), 2), jnp.repeat(x, 2, 0)), "(b,4)"),
    "squeeze": (lambda x: jnp.squeeze(x[:, :1], 1), "(b,4)"),
    "slices": (lambda x: (x[1:], x[:-1], x[-1:], x[:, 1:3], x[::-1], x[::2], x[:2], x[-2:]), "(b,4)"),
    "pad": (lambda x: lax.pad(x, np.float32(0), ((1, 2, 0), (0, 0, 1))), "(b,4)"),
    "pad with elements": (lambda x: [jnp.pad(x, 1, mode=m) for m in ("edge", "wrap", "reflect", "symmetric")], "(b,4)"),
    "roll": (lambda x: (lax.rev(x, (0,)), jnp.roll(x, 1, 0)), "(b,4)"),
    "pad by a symbol": (lambda x: jnp.pad(x, ((0, x.shape[0]), (1, 0)), constant_values=((1, 2), (3, 4))), "(b,4)"),
    "pad with statistics": (lambda x: [jnp.pad(x, 1, mode=m) for m in ("mean", "maximum", "minimum", "median")], "(b,4)"),
    "roll by a symbol": (lambda x: (jnp.roll(x, x.shape[0] - 1, 0), jnp.roll(x, (1, -2), (0, 1)), jnp.fft.fftshift(x, 0), jnp.roll(x, 3)), "(b,4)"),
    "merge": (lambda x: (jnp.concatenate(x), jnp.concatenate(x, 1)), "(b,3,4)"),
    "distinct": (lambda x: jnp.unique(jnp.round(x[:, 0]), size=3, fill_value=7.0, return_index=True, return_inverse=True, return_counts=True), "(b,4)"),
    "along an axis": (lambda x: (jnp.take_along_axis(x, jnp.argsort(x, 0), 0), jnp.argsort(x, 0, descending=True), jnp.take_along_axis(x, jnp.argmax(x, 1)[:, None], 1)), "(b,4)"),
    "bits": (lambda x: jnp.packbits(x > 0, axis=0), "(b,4)"),
    "repeated to a size": (lambda x: jnp.resize(x, (2, 5)), "(b,4)"),
    "reduce by a function": (lambda x: jnp.frompyfunc(lambda a, b: a * b + a, 2, 1).reduce(x), "(b,4)"),
    "fft of a length": (lambda x: jnp.abs(jnp.fft.fft(x, 3, axis=0)), "(b,4)"),
    "fft convolution": (lambda x: pl.scipy.signal.fftconvolve(x, x, "same", axes=1), "(b,4)"),
    "matrices of shifts": (lambda x: (pl.scipy.linalg.toeplitz(x[:, 0]), pl.scipy.linalg.hankel(x[:, 0]), pl.scipy.linalg.circulant(x[:, 0])), "(b,4)"),
    "ranks": (lambda x: (pl.scipy.stats.rankdata(x, axis=0), pl.scipy.stats.sem(x, 1)), "(b,4)"),
    "triangles": (lambda x: (jnp.tril(x @ x.T), jnp.diagonal(x @ x.T), jnp.trace(x @ x.T), jnp.eye(x.shape[0])), "(b,4)"),
    "counting": (lambda x: (jnp.arange(x.shape[0]), jnp.arange(1, x.shape[0], 2), jnp.linspace(0, 1, x.shape[0])), "(b,4)"),
    "iota": (lambda x: x + lax.broadcasted_iota(np.float32, x.shape, 0), "(b,4)"),
    "creation": (lambda x: jnp.ones_like(x) * x + jnp.zeros(x.shape) + jnp.full(x.shape, 2.0), "(b,4)"),
    "sizes as values": (lambda x: (x * x.shape[0], x / x.shape[0], x.shape[0] // 2 + 1, jnp.array(x.shape)), "(b,4)"),
    "element": (lambda x: (x[0], x[-1], x[x.shape[0] - 1]), "(b,4)"),
    "dynamic element": (lambda x, i: x[i], "(b,4)", INDEX),
    "gather": (lambda x, i: (x[i], jnp.take(x, i, 0, mode="clip"), jnp.take(x, i, 0, mode="fill")), "(b,4)", ("(c,)", np.int32)),
    "scatter": (lambda x, i: (x.at[i].add(1.0), x.at[1:].multiply(2.0), x.at[:, 1].set(3.0)), "(b,4)", INDEX),
    "dynamic_slice": (lambda x, i: (lax.dynamic_slice_in_dim(x, i, 2), lax.dynamic_slice_in_dim(x, i, x.shape[0] - 1)), "(b,4)", INDEX),
    "update": (lambda x, i: lax.dynamic_update_slice(x, jnp.ones((1, 4)), (i, 0)), "(b,4)", INDEX),
    "segments": (lambda x: pl.ops.segment_sum(x, jnp.arange(x.shape[0]) % 2, 2), "(b,4)"),
    "interpolation": (lambda x: jnp.interp(x[:, 0], jnp.arange(5.0), jnp.arange(5.0) ** 2), "(b,4)"),
    "convolution": (lambda x, w: lax.conv(x, w, (2, 2), "SAME"), "(b,3,8,8)", "(5,3,3,3)"),
    "convolution along a symbol": (lambda x, w: lax.conv(x, w, (2, 1), "SAME"), "(2,3,b,8)", "(5,3,3,3)"),
    "reduce_window": (pooled, "(b,8,8,3)"),
    "windows along a symbol": (lambda x: lax.reduce_window(x, 0.0, lax.add, (1, 3), (1, 2), "SAME"), "(2,b)"),
    "convert": (lambda x: (x.astype(np.int32), lax.reduce_precision(x, 5, 2)), "(b,4)"),
    "fft": (lambda x: jnp.abs(jnp.fft.fft(x)), "(b,4)"),
    "decompositions": (lambda x: (jnp.linalg.inv(x), jnp.linalg.det(x), jnp.linalg.svd(x, compute_uv=False)), "(b,3,3)"),
    "cholesky": (lambda x: jnp.linalg.cholesky(x @ x.mT + jnp.eye(3)), "(b,3,3)"),
    "activations": (lambda x: (nn.softmax(x, 0), nn.log_softmax(x), nn.gelu(x), nn.softplus(x), nn.one_hot(jnp.argmax(x, 0), x.shape[0])), "(b,4)"),
    "resize a symbol": (lambda x: [pl.image.resize(x, (x.shape[0] * 2, 3), m) for m in ("linear", "nearest", "lanczos3")], "(b,4)"),
    "resize to a size": (lambda x: [pl.image.resize(x, (7, 4), m) for m in ("cubic", "nearest")], "(b,4)"),
    "resize": (lambda x: pl.image.resize(x, (x.shape[0], 8, 8, 1), "bilinear"), "(b,4,4,1)"),
    "random": (lambda x: random.normal(random.key(0), x.shape) + random.permutation(random.key(1), x), "(b,4)"),
    "keys": (lambda x: pl.vmap(lambda k: random.uniform(k, (4,)))(random.split(random.key(0), x.shape[0])), "(b,4)"),
    "scan": (lambda x: lax.scan(lambda s, r: (s + r, s), jnp.zeros(4), x), "(b,4)"),
    "scan backwards": (lambda x: lax.scan(lambda s, r: (s + r, s), jnp.zeros(4), x, reverse=True), "(b,4)"),
    "scan unrolled": (lambda x: lax.scan(lambda s, r: (s + r, s), jnp.zeros(2), x.reshape(-1, 2), unroll=2), "(b,4)"),
    "scan a symbol": (lambda x: lax.scan(lambda s, _: (s * 2, s.sum()), x, None, length=3), "(b,4)"),
    "map": (lambda x: lax.map(lambda r: jnp.sin(r).sum(), x), "(b,4)"),
    "cond": (lambda x: lax.cond(x.sum() > 0, lambda a: a * 2, lambda a: a, x), "(b,4)"),
    "loop": (lambda x: lax.fori_loop(0, 3, lambda i, a: a * 2, x), "(b,4)"),
    "loop to a symbol": (lambda x: lax.fori_loop(0, x.shape[0], lambda i, s: s + x[i], jnp.zeros(4)), "(b,4)"),
    "while": (lambda x: lax.stop_gradient(lax.while_loop(lambda s: s.sum() < 100, lambda s: s + jnp.abs(s) + 1, x)), "(b,4)"),
    "calls": (lambda x: pl.jit(pl.checkpoint(jnp.sin))(x), "(b,4)"),
    "batches": (lambda x, y: pl.vmap(lambda r: pl.vmap(lambda q: jnp.sort(r * q)[0])(y))(x), "(b,4)", "(c,4)"),
    "vectorize": (lambda x: jnp.vectorize(lambda r: r.sum(), signature="(n)->()")(x), "(b,4)"),
    "jacobian": (lambda x: pl.jacrev(lambda v: jnp.sin(v) * v.sum())(x[:, 0]), "(b,4)"),
    "recurrence": (lambda w, xs: lax.scan(recurrence(w), jnp.zeros(xs.shape[1:]), xs), "(4,4)", "(b,c,4)"),
    "multilayer perceptron": (layers, "(b,4)", "(4,8)", "(8,8)", "(8,2)"),
    "train step": (train_step, "(b,4)", "(b,2)", "(4,8)", "(8,2)"),
    "transformer block": (transformer_block, "(b,c,8)", "(8,8)"),
}  # fmt: skip

WITHOUT_DERIVATIVE = frozenset({"cumulative", "bits"})
"""Functions whose derivative unrolls a loop over a symbolic dimension, which is refused, or whose results are integers."""


def structs(texts, values) -> list[Any]:
    """Types of the operands where the variables have these values, integers or symbols."""
    pairs = [text if isinstance(text, tuple) else (text, np.float32) for text in texts]
    return [pl.ShapeDtypeStruct(eval(str(shape), dict(values)), dtype) for shape, dtype in pairs]


def operands(texts, values) -> list[Any]:
    """Operands where the variables have these values."""
    rng = np.random.default_rng(0)
    return [
        np.asarray(rng.normal(size=s.shape) if s.dtype == np.float32 else rng.integers(0, 2, s.shape), s.dtype)
        for s in structs(texts, values)
    ]  # fmt: skip

"""Samples of random distributions, as (text, 64-bit types on); the text's names are jax, jnp, np, random, key, keys."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

FLOATS = ("float16", "bfloat16", "float32", "float64")
INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")


def evaluate(jax: Any, text: str) -> Any:
    """The value of an expression on a key."""
    key = jax.random.key(17)
    names = {"jax": jax, "jnp": jax.numpy, "np": np, "random": jax.random, "key": key}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return eval(text, names | {"keys": jax.random.split(key, 3), "raw": jax.random.PRNGKey(5)})


def plain(jax: Any, value: Any) -> tuple[str, bool, np.ndarray]:
    """(dtype, weak type, elements as bytes) of an array; of keys their words."""
    if jax.numpy.issubdtype(value.dtype, jax.dtypes.prng_key):
        name, weak, words = plain(jax, jax.random.key_data(value))
        return f"{value.dtype}, {name}", weak, words
    host = np.asarray(value)
    return (
        str(host.dtype),
        bool(value.weak_type),
        host.view(np.uint8) if host.ndim else np.frombuffer(host.tobytes(), np.uint8),
    )


def answer(jax: Any, text: str) -> list[tuple[str, bool, np.ndarray]] | str:
    """The arrays of an expression's value as plain data, or the class of its error."""
    try:
        return [plain(jax, x) for x in jax.tree.leaves(evaluate(jax, text))]
    except Exception as error:  # the reference's own errors, too
        return next(c.__name__ for c in type(error).__mro__ if c.__module__ == "builtins")


def answers(jax: Any, texts: list[str]) -> list[Any]:
    """`answer` of each expression."""
    return [answer(jax, text) for text in texts]


def rows(texts: list[str], *, wide: bool = False) -> list[tuple[str, bool]]:
    """Rows for `texts`."""
    return [(text, wide) for text in texts]


def over_dtypes(form: str, names: tuple[str, ...]) -> list[tuple[str, bool]]:
    """A row for each dtype, whose name is put into `form`; those of 64 bits with such types on."""
    return [(form.format(repr(name)), "64" in name or "128" in name) for name in names]


KEYS = [
    *rows(
        [
            f"random.key({seed})"
            for seed in (
                "0",
                "-1",
                "2**31",
                "2**32 + 5",
                "np.uint8(3)",
                "np.int16(-2)",
                "True",
                "2**70",
                "1.5",
                "np.arange(3)",
                "key",
                "'a'",
            )
        ]
    ),
    *rows(
        [
            f"random.key({seed})"
            for seed in ("-1", "2**32 + 5", "-2**40", "np.int32(-1)", "np.uint64(2**63)")
        ],
        wide=True,
    ),
    *rows(
        [
            f"random.{call}"
            for call in (
                "PRNGKey(7)",
                "split(key)",
                "split(raw, 3)",
                "split(key, (2, 3))",
                "split(keys)",
                "split(key, -1)",
                "split(key, 1.5)",
                "fold_in(key, 3)",
                "fold_in(raw, np.int64(-1))",
                "fold_in(key, -1)",
                "fold_in(key, 2**32)",
                "fold_in(keys, 1)",
                "fold_in(key, jnp.arange(2))",
                "key_data(keys)",
                "wrap_key_data(raw)",
                "wrap_key_data(jnp.zeros(3, 'uint32'))",
                "wrap_key_data(jnp.zeros(2))",
                "clone(key)",
                "clone(raw)",
                "split(3)",
                "bits(keys)",
                "bits(None)",
                "key_data(jnp.zeros(2))",
            )
        ]
    ),
    *rows(
        [
            "keys[0]",
            "keys[1:]",
            "keys[::-1]",
            "keys[np.array([2, 0])]",
            "keys[None, :2]",
            "keys[..., 1]",
            "keys[:, None].T",
            "keys[jnp.array([True, False, True])]",
            "keys[5]",
            "keys[0, 0]",
            "keys.at[0].set(key)",
            "keys.at[jnp.array([0, 1])].set(keys[1:])",
            "keys == keys[1]",
            "keys != key",
            "keys + 1",
            "keys < keys",
            "keys.reshape(3, 1)",
            "keys.ravel()",
            "keys.flatten()",
            "keys[:, None].squeeze(1)",
            "jnp.stack([key, key])",
            "jnp.concatenate([keys, keys])",
            "jnp.where(jnp.arange(3) > 0, keys, key)",
            "jnp.broadcast_to(key, (2, 3))",
            "jnp.repeat(keys, 2)",
            "jnp.expand_dims(keys, 1)",
            "jnp.array([key, key])",
            "jnp.asarray(keys)",
            "jnp.full((2,), key)",
            "jnp.zeros(3, key.dtype)",
            "jnp.zeros_like(keys)",
            "jnp.roll(keys, 1)",
            "jnp.swapaxes(keys[None], 0, 1)",
            "np.asarray(key)",
            "bool(key)",
            "float(key)",
            "jnp.sum(keys)",
            "jnp.sin(key)",
            "keys.copy()",
            "list(keys)",
            "jax.lax.select(True, key, keys[1])",
            "jax.lax.dynamic_slice(keys, (1,), (2,))",
            "jax.lax.rev(keys, (0,))",
            "jax.lax.dynamic_update_slice(keys, keys[:1], (2,))",
            "jax.lax.cond(True, lambda k: k, lambda k: random.split(k)[0], key)",
            "jax.lax.scan(lambda k, x: (random.split(k)[0], random.normal(random.fold_in(k, x))), key, jnp.arange(3))",
            "jax.lax.scan(lambda c, k: (c, (k, random.bits(k))), jnp.int32(0), keys)",
            "jax.lax.fori_loop(0, 3, lambda i, k: random.fold_in(k, i), key)",
            "jax.lax.while_loop(lambda k: random.bits(k) > 2**30, lambda k: random.split(k)[0], key)",
            "jax.lax.map(random.bits, keys)",
            "jax.vmap(random.split)(keys)",
            "jax.vmap(random.fold_in, (None, 0))(key, jnp.arange(3))",
            "jax.vmap(random.fold_in, (0, None))(keys, 1)",
            "jax.vmap(random.fold_in)(keys, jnp.arange(3))",
            "jax.vmap(random.key)(jnp.arange(3))",
            "jax.vmap(jax.vmap(random.bits))(random.split(key, (2, 3)))",
            "jax.vmap(lambda k: k, out_axes=1)(random.split(key, (2, 3)))",
            "jax.jit(random.split)(key)",
            "jax.jit(lambda k: (k, k[0]))(keys)",
            "jax.jit(lambda: key)()",
            "jax.grad(lambda x, k: x * random.normal(k))(2.0, key)",
            "jax.grad(random.normal)(key)",
            "jax.jvp(lambda x: x * random.normal(key), (2.0,), (1.0,))",
            "jax.vjp(lambda x: x * random.normal(key), 2.0)[1](1.0)",
            "jax.device_put(keys, jax.devices()[0])",
            "jax.device_get(keys)",
            "jax.checkpoint(random.normal)(key)",
            "jax.tree.map(lambda x: x, keys)",
        ]
    ),
]
BITS = [
    *over_dtypes(
        "random.bits(key, (5,), {})", ("uint8", "uint16", "uint32", "uint64", "int32", "float32")
    ),
    *rows(
        [
            "random.bits(key)",
            "random.bits(key, (2, 3))",
            "random.bits(key, (0, 3))",
            "random.bits(raw, 4)",
            "random.bits(key, (-1,))",
            "random.bits(key, (2.5,))",
        ]
    ),
    *rows(["random.bits(key)", "random.bits(key, (2, 3))"], wide=True),
]
UNIFORM = [
    *over_dtypes("random.uniform(key, (7,), {})", (*FLOATS, "int32", "complex64")),
    *over_dtypes("random.uniform(key, (7,), {}, -3, 5.5)", FLOATS),
    *over_dtypes("random.normal(key, (7,), {})", (*FLOATS, "complex64", "complex128", "int32")),
    *over_dtypes("random.truncated_normal(key, -1.5, 0.5, (7,), {})", FLOATS),
    *rows(
        [
            "random.uniform(key)",
            "random.uniform(key, (2, 3), minval=jnp.arange(3), maxval=9)",
            "random.uniform(key, (3,), minval=jnp.zeros(2))",
            "random.uniform(raw, 1000)",
            "random.normal(key, (1000,))",
            "random.normal(key, ())",
            "random.truncated_normal(key, jnp.zeros(2), jnp.ones((3, 1)))",
            "jax.jit(lambda k: random.normal(k, (64,)))(key)",
            "jax.jit(lambda k: random.uniform(k, (64,), minval=-1, maxval=3))(key)",
            "jax.vmap(random.normal)(keys)",
            "jax.vmap(lambda k: random.uniform(k, (4,)))(keys)",
            "jax.vmap(lambda k, a: random.uniform(k, (2,), minval=a))(keys, jnp.arange(3.0))",
            "jax.grad(lambda a: random.uniform(key, maxval=a))(2.0)",
            "jax.grad(lambda a: random.truncated_normal(key, a, 2.0))(0.5)",
        ]
    ),
    *rows(
        [
            "random.normal(key, (5,))",
            "random.uniform(key, (5,))",
            "random.truncated_normal(key, -1, 1)",
        ],
        wide=True,
    ),
]
INTEGER = [
    *over_dtypes("random.randint(key, (9,), 0, 10, {})", (*INTEGERS, "float32", "bool")),
    *over_dtypes("random.randint(key, (9,), -100, 101, {})", INTEGERS),
    *over_dtypes("random.randint(key, (9,), 0, 300, {})", ("int8", "uint8", "int16")),
    *rows(
        [
            "random.randint(key, (3,), -2**31, 2**31 - 1)",
            "random.randint(key, (3,), 0, 2**31)",
            "random.randint(key, (3,), 5, 5)",
            "random.randint(key, (3,), 5, 2)",
            "random.randint(key, (), 0.0, 9.7)",
            "random.randint(key, (2, 3), 0, jnp.array([1, 10, 100]))",
            "random.randint(key, (2,), 0, jnp.arange(3))",
            "random.randint(key, (3,), jnp.int8(-5), jnp.uint32(9))",
            "random.randint(key, (3,), 0, jnp.uint32(2**32 - 1), 'uint32')",
            "random.randint(key, (3,), 0, jnp.arange(1, 4, dtype='int8'))",
            "random.randint(key, (3,), -5, jnp.uint32(2**32 - 1))",
            "jax.jit(lambda k, n: random.randint(k, (8,), 0, n))(key, 100)",
            "jax.vmap(lambda k, n: random.randint(k, (2,), 0, n))(keys, jnp.arange(1, 4))",
        ]
    ),
    *rows(
        [
            "random.randint(key, (5,), -2**40, 2**40)",
            "random.randint(key, (5,), 0, 10)",
            "random.randint(key, (5,), -2**63, 2**63 - 1)",
            "random.randint(key, (5,), 0, 2**40, 'int32')",
        ],
        wide=True,
    ),
    *rows(
        [
            "random.bernoulli(key)",
            "random.bernoulli(key, 0.3, (20,))",
            "random.bernoulli(key, jnp.array([0.1, 0.9]), (3, 2))",
            "random.bernoulli(key, 0.3, (20,), 'high')",
            "random.bernoulli(key, 1)",
            "random.bernoulli(key, jnp.float16(0.4), (9,))",
            "random.bernoulli(key, 0.5, mode='other')",
            "random.bernoulli(key, jnp.ones(3), (2,))",
            "random.rademacher(key, (9,))",
        ]
    ),
    *over_dtypes("random.rademacher(key, (9,), {})", ("int8", "float16", "complex64", "int64")),
]
CHOICES = [
    *over_dtypes("random.gumbel(key, (9,), {})", (*FLOATS, "int32")),
    *over_dtypes("random.gumbel(key, (9,), {}, 'high')", FLOATS),
    *rows(
        [
            "random.gumbel(key, mode='other')",
            "random.categorical(key, jnp.zeros(5), shape=(9,))",
            "random.categorical(key, jnp.log(jnp.array([[1.0, 2, 3], [9, 1, 1]])))",
            "random.categorical(key, jnp.zeros((2, 3)), 0)",
            "random.categorical(key, jnp.zeros((2, 3)), shape=(4, 2))",
            "random.categorical(key, jnp.zeros((2, 3)), shape=(3,))",
            "random.categorical(key, jnp.zeros(5), shape=(3,), replace=False)",
            "random.categorical(key, jnp.zeros((5, 2)), 0, (4, 2), False)",
            "random.categorical(key, jnp.zeros((2, 3)), mode='high')",
            "random.categorical(key, jnp.zeros(3, 'float16'), shape=(6,))",
            "random.categorical(key, jnp.zeros(3), shape=(4,), replace=False)",
            "jax.vmap(random.categorical)(keys, jnp.zeros((3, 4)))",
            "random.permutation(key, 10)",
            "random.permutation(key, jnp.arange(12.0).reshape(4, 3))",
            "random.permutation(key, jnp.arange(12.0).reshape(4, 3), 1)",
            "random.permutation(key, jnp.arange(12.0).reshape(4, 3), 1, independent=True)",
            "random.permutation(key, jnp.arange(3), 2)",
            "random.permutation(key, jnp.float32(3))",
            "random.permutation(key, 5000)",
            "random.permutation(key, [1, 2])",
            "random.permutation(key, 0)",
            "random.permutation(key, jnp.arange(6) > 2)",
            "random.permutation(key, jnp.arange(6) + 1j)",
            "random.permutation(key, np.arange(5))",
            "random.choice(key, 5)",
            "random.choice(key, 5, (3,))",
            "random.choice(key, 5, (2, 2), False)",
            "random.choice(key, 5, (6,), False)",
            "random.choice(key, 0)",
            "random.choice(key, 0, (0,))",
            "random.choice(key, jnp.arange(15.0).reshape(3, 5), (2, 2), axis=1)",
            "random.choice(key, jnp.arange(15.0).reshape(3, 5), (2, 2), False, axis=1)",
            "random.choice(key, 5, (20,), p=jnp.array([0.1, 0.2, 0.3, 0.4, 0.0]))",
            "random.choice(key, 5, (3,), False, p=jnp.array([0.1, 0.2, 0.3, 0.4, 0.0]))",
            "random.choice(key, 3, p=jnp.ones(2))",
            "random.choice(key, jnp.array([5, 7, 9]), (4,), p=jnp.array([1, 2, 1]))",
            "random.choice(key, [1, 2])",
            "random.choice(key, jnp.zeros((3, 2)), (2,), p=jnp.ones(3) / 3)",
        ]
    ),
    *rows(
        [
            "random.permutation(key, 10)",
            "random.choice(key, 5, (3,))",
            "random.categorical(key, jnp.zeros(5), shape=(9,))",
        ],
        wide=True,
    ),
]
_PARAMETERS = {
    "exponential": "", "cauchy": "", "laplace": "", "logistic": "", "maxwell": "", "pareto": "2.5,", "rayleigh": "1.5,", "lognormal": "0.7,",
    "wald": "2.0,", "triangular": "1.0, 2.0, 4.0,", "weibull_min": "1.5, 2.5,", "double_sided_maxwell": "1.0, 2.0,",
    "chisquare": "3.0,", "t": "3.5,", "f": "2.0, 3.0,", "generalized_normal": "1.5,", "ball": "3, 2,",
}  # fmt: skip
CONTINUOUS = [
    *rows([f"random.{name}(key, {value} (5,))" for name, value in _PARAMETERS.items()]),
    *rows([
        "random.gamma(key, jnp.array([0.3, 1.0, 30.0]), (2, 3))", "random.loggamma(key, 1e-4, (5,))", "random.beta(key, jnp.array([0.1, 2.0]), 0.5)",
        "random.dirichlet(key, jnp.array([0.5, 1.0, 4.0]), (2,))", "random.exponential(key, (3,), 'int32')", "random.gamma(key, jnp.ones(2), (3,))",
        "random.dirichlet(key, 1.0)", "random.dirichlet(key, jnp.zeros(0))", "random.beta(key, jnp.ones(2), jnp.ones(3))", "random.gamma(key, 2.0, dtype='int32')", "random.ball(key, 3, dtype=int)",
        "jax.grad(lambda a: random.gamma(key, a))(2.5)", "jax.grad(lambda a: random.loggamma(key, a))(0.01)",
        "jax.vmap(lambda k, a: random.gamma(k, a))(keys, jnp.array([0.5, 1.0, 2.0]))",
        "jax.jacobian(lambda a, b: random.beta(key, a, b), (0, 1))(2.0, 1.5)[1]",
        "jax.grad(lambda a: random.beta(key, a, 0.3).sum())(jnp.array([0.05, 1.0, 40.0]))",
        "jax.grad(lambda a: (random.dirichlet(key, a, (4,)) ** 2).sum())(jnp.array([0.5, 2.0, 3.0]))",
    ]),
]  # fmt: skip
COUNTS = rows([
    "random.poisson(key, jnp.array([0.0, 0.5, 9.0, 11.0, 1000.0, 1e6]))", "random.poisson(key, jnp.array([-1.0, jnp.nan]))", "random.poisson(key, 2.0, dtype='float32')",
    "random.poisson(random.key(0, impl='rbg'), 2.0)", "random.geometric(key, jnp.array([0.1, 1.0, 0.9]))", "random.geometric(key, 0.5, dtype='float32')",
    "random.binomial(key, jnp.array([0.0, 3.0, 50.0, 1e4]), jnp.array([[0.1], [0.5], [0.99]]))", "random.binomial(key, jnp.array([-1.0, jnp.nan, 5.0, 5.0]), jnp.array([0.5, 0.5, jnp.nan, 1.0]))",
    "random.binomial(key, 5.0, 0.5, dtype='int32')", "random.multinomial(key, 30.0, jnp.array([0.2, 0.3, 0.5]))",
])  # fmt: skip
_COUNTER_HASHES = ("'philox2x32'", "'philox4x32'", "'threefry4x32'")
GENERATORS = [
    *rows([
        form.format(impl) for impl in ("'rbg'", "'unsafe_rbg'", *_COUNTER_HASHES)
        for form in ("random.split(random.key(3, impl={}), (2, 2))", "random.fold_in(random.key(3, impl={}), 7)",
                     "random.normal(random.key(3, impl={}), (5,))", "jax.vmap(random.bits)(random.split(random.key(3, impl={}), 3))")
    ]),
    *rows([
        form.format(impl) for impl in _COUNTER_HASHES
        for form in ("random.key(-1, impl={})", "random.PRNGKey(2**31, impl={})", "jax.vmap(lambda x: random.key(x, impl={}))(jnp.arange(3))",
                     "random.bits(random.key(3, impl={}), (2, 3), 'uint8')", "random.bits(random.key(3, impl={}), (), 'uint16')",
                     "jax.vmap(lambda x: random.fold_in(random.key(3, impl={}), x))(jnp.arange(3))",
                     "jax.jit(random.uniform)(random.wrap_key_data(random.PRNGKey(3, impl={0}), impl={0}))",
                     "random.gamma(random.key(3, impl={}), 2.0, (3,))", "random.permutation(random.key(3, impl={}), 7)")
    ]),
    *rows([
        form.format(impl) for impl in _COUNTER_HASHES
        for form in ("random.key(2**33 + 5, impl={})", "random.bits(random.key(-3, impl={}), (3,), 'uint64')")
    ], wide=True),
]  # fmt: skip
_COVARIANCE = "jnp.array([[2.0, 0.5], [0.5, 1.0]])"
MATRICES = rows(
    [
        f"random.multivariate_normal(key, jnp.zeros(2), {_COVARIANCE}, (3,))",
        f"random.multivariate_normal(key, jnp.ones((3, 2)), {_COVARIANCE}, method='eigh')",
        f"random.multivariate_normal(key, jnp.zeros(2), {_COVARIANCE}, method='svd')",
        "random.orthogonal(key, 3, (2,))", "random.orthogonal(key, 2, m=4)", "random.orthogonal(key, 4, m=2)",
        "random.orthogonal(key, 3, dtype='complex64')", "random.orthogonal(key, 2, dtype=int)",
    ]
)  # fmt: skip
ROWS = [*KEYS, *BITS, *UNIFORM, *INTEGER, *CHOICES, *CONTINUOUS, *COUNTS, *GENERATORS, *MATRICES]

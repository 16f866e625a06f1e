"""Calls of public functions, gathered from the tables of other tests and from one here, in every way that a program makes them.

`answers` says in which ways a call works with either library: it traces, and runs nothing.
"""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from corpus import api_calls, numpy_calls
from corpus.numpy_calls import BINARY, NAMES, UNARY, named


class Call(NamedTuple):
    """A call: the module of this folder that evaluates its text, the text, and its operands."""

    table: str
    text: str
    operands: tuple[Any, ...] = ()

    def __str__(self) -> str:
        types = [f"{x.dtype}{list(x.shape)}" for x in self.operands]
        return " | ".join([self.text, *types])


_VECTOR = (
    "jsp.signal.detrend(x)", "jsp.signal.stft(x, nperseg=4)", "jsp.signal.welch(x, nperseg=4)",
    "jsp.signal.istft(jsp.signal.stft(x, nperseg=4)[2], nperseg=4)", "jsp.special.digamma(x)", "jsp.special.polygamma(1, x)",
    "jsp.special.expn(2, x)", "jsp.special.exp1(x)", "jsp.special.expi(x)", "jsp.special.bessel_jn(x, v=2)", "jsp.special.i0(x)",
    "jsp.special.spence(x)", "jsp.special.fresnel(x)", "jsp.special.sici(x)", "jsp.special.softmax(x)", "jsp.special.log_ndtr(x)",
    "jsp.special.ndtri(x / 3)", "jsp.special.factorial(x)", "jsp.special.gamma(x)", "jsp.special.multigammaln(x + 3, 2)",
    "jsp.special.lpmn_values(2, 2, x / 9, False)", "jsp.special.hyp1f1(0.5, 1.5, x)", "jsp.special.hyp2f1(0.5, 1.0, 1.5, x / 9)",
    "jsp.special.sph_harm_y(jnp.array([1]), jnp.array([1]), x[:1], x[:1], n_max=1)", "jsp.stats.rankdata(x)", "jsp.stats.mode(x)",
    "jsp.stats.sem(x)", "jsp.stats.gaussian_kde(x)(x)", "jsp.stats.beta.logpdf(x / 3, 2.0, 3.0)", "jsp.stats.gamma.cdf(x, 2.0)",
    "jsp.stats.t.logpdf(x, 3.0)", "jsp.stats.poisson.logpmf(x, 2.0)", "jsp.stats.truncnorm.logpdf(x, -1.0, 2.0)",
    "jsp.stats.vonmises.logpdf(x, 1.0)", "jsp.stats.poisson.entropy(x)", "jsp.stats.dirichlet.logpdf(x / x.sum(), x)",
    "jsp.fft.dct(x)", "jsp.fft.idct(x)", "jsp.ndimage.map_coordinates(x, [x], 1)", "jsp.ndimage.map_coordinates(x, [x], 0, mode='wrap')",
    "jsp.interpolate.RegularGridInterpolator((x,), x)(x)", "jsp.linalg.toeplitz(x)", "jsp.linalg.hankel(x)", "jsp.linalg.circulant(x)",
    "jsp.linalg.companion(x)", "jsp.linalg.block_diag(x, x)", "jsp.linalg.fiedler(x)", "jsp.linalg.leslie(x, x[1:])",
    "jsp.linalg.eigh_tridiagonal(x, x[1:], eigvals_only=True)", "jsp.optimize.minimize(lambda v: (v**2).sum(), x, method='BFGS').x",
    "jsp.sparse.linalg.cg(lambda v: 2 * v, x)[0]", "jsp.sparse.linalg.gmres(lambda v: 2 * v, x)[0]",
    "jsp.sparse.linalg.bicgstab(lambda v: 2 * v, x)[0]", "jnp.unique(x, size=3)", "jnp.pad(x, (2, 1))", "jnp.pad(x, 1, 'mean')",
    "jax.experimental.ode.odeint(lambda y, t: -y * t, x, jnp.array([0.0, 0.5, 1.0]))",
)  # fmt: skip
_TWO_VECTORS = (
    "jsp.signal.fftconvolve(x, y)", "jsp.signal.fftconvolve(x, y, 'same')", "jsp.signal.convolve(x, y)", "jsp.signal.correlate(x, y)",
    "jsp.signal.convolve(x, y, method='fft')", "jsp.stats.norm.logpdf(x, y)", "jsp.special.xlogy(x, y)", "jsp.special.zeta(x + 1, y)",
    "jsp.special.betainc(x, y, 0.5)", "jsp.special.gammainc(x, y)", "jsp.special.kl_div(x, y)", "jsp.special.logsumexp(x, b=y)",
    "jsp.special.beta(x, y)", "jsp.integrate.trapezoid(x, y)",
)  # fmt: skip
_SQUARE = (
    "jsp.linalg.lu(x)", "jsp.linalg.lu_factor(x)", "jsp.linalg.lu_solve(jsp.linalg.lu_factor(x), x)", "jsp.linalg.expm(x)",
    "jsp.linalg.expm_frechet(x, x)", "jsp.linalg.funm(x, jnp.sin)", "jsp.linalg.sqrtm(x)", "jsp.linalg.polar(x)", "jsp.linalg.schur(x)",
    "jsp.linalg.rsf2csf(x, x)", "jsp.linalg.hessenberg(x)", "jsp.linalg.cho_factor(x)", "jsp.linalg.cho_solve((x, True), x)",
    "jsp.linalg.solve(x, x)", "jsp.linalg.solve_triangular(x, x)", "jsp.linalg.solve_sylvester(x, x, x)", "jsp.linalg.qr(x)",
    "jsp.linalg.qr_multiply(x, x)", "jsp.linalg.svd(x)", "jsp.linalg.det(x)", "jsp.linalg.inv(x)", "jsp.linalg.eigh(x)",
    "jsp.cluster.vq.vq(x, x)", "jsp.fft.dctn(x)", "jsp.stats.multivariate_normal.logpdf(x, x[0], jnp.eye(3))",
    "jsp.sparse.linalg.cg(x, x[0])[0]", "jax.experimental.sparse.linalg.lobpcg_standard(jnp.kron(jnp.eye(5), x), jnp.eye(15, 2))[0]",
    "jsp.spatial.transform.Rotation.from_matrix(x).as_euler('xyz')", "(jsp.spatial.transform.Rotation.from_rotvec(x).inv()).as_quat()",
)  # fmt: skip
_PAD_MODES = ("constant", "edge", "wrap", "reflect", "symmetric", "mean", "maximum", "linear_ramp", "empty")  # fmt: skip
_TABLE = (
    "jax.image.resize(x, (5, 3), 'linear')", "jax.image.resize(x, (8, 6), 'cubic')", "jax.image.resize(x, (2, 3), 'nearest')",
    "jax.image.resize(x, (2, 3), 'lanczos3')", "jax.image.resize(x, (x.shape[0] * 2, 3), 'linear')",
    "jax.image.scale_and_translate(x, (4, 3), (0,), jnp.array([2.0]), jnp.array([1.0]), 'linear')",
    "jax.nn.dot_product_attention(x[None, :, None], x[None, :, None], x[None, :, None], is_causal=True)",
    "jax.nn.softmax(x, where=x > 1)", "jax.nn.logsumexp(x, where=x > 1)", "jax.nn.log_softmax(x)", "jax.nn.standardize(x)",
    "jax.ops.segment_sum(x, jnp.zeros(4, int), 2)", "jax.ops.segment_max(x, jnp.zeros(4, int), 2)", "lax.associative_scan(jnp.add, x)",
    "lax.map(jnp.sin, x)", "lax.scan(lambda c, r: (c + r, c), jnp.zeros(3), x)", "lax.cumlogsumexp(x)", "lax.top_k(x, 2)",
    "lax.reduce_window(x, 0.0, lax.add, (2, 1), (1, 1), 'SAME')", "lax.fori_loop(0, 3, lambda i, a: a * 2, x)", "lax.approx_max_k(x, 2)",
    "jnp.median(x, 0)", "jnp.median(x, 1)", "jnp.quantile(x, 0.3, axis=0)", "jnp.percentile(x, 30, axis=1)", "jnp.roll(x, 1, 0)",
    "jnp.roll(x, x.shape[0] - 1, 0)", "jnp.pad(x, ((0, x.shape[0]), (0, 0)))", "lax.top_k(x[:, 0], x.shape[0])",
    "jnp.unique(x[:, 0], size=x.shape[0])",
    *[f"jnp.pad(x, {widths}, {mode!r})" for mode in _PAD_MODES for widths in ("1", "((0, 0), (1, 2))")],
)  # fmt: skip
_BITS = ("jnp.packbits(x > 1, axis=0)", "jnp.packbits(x > 1, axis=1)")
_CHOSEN = ("jnp.take_along_axis(x, y, 1)", "jnp.take_along_axis(jax.nn.log_softmax(x), y, axis=-1)")
_DRAWN = (
    "gamma(k, y)", "beta(k, y, y)", "dirichlet(k, y)", "chisquare(k, y)", "ball(k, 3)", "orthogonal(k, 3)", "loggamma(k, y)", "f(k, y, y)",
    "gamma(k, 2.0)", "beta(k, 2.0, 3.0)", "t(k, 2.0, (3,))", "chisquare(k, 3.0)", "poisson(k, y)", "binomial(k, y, 0.3)", "categorical(k, y)",
    "choice(k, y, (2,), False)", "choice(k, y, (2,), p=y / y.sum())", "permutation(k, y)", "multivariate_normal(k, y, jnp.eye(6))",
    "truncated_normal(k, -y, y)", "generalized_normal(k, 1.5, (3,))", "wald(k, y)", "geometric(k, y / 9)", "triangular(k, 0.0, y, 9.0)",
)  # fmt: skip


def _numbers(*shape: int) -> np.ndarray:
    """Positive numbers without a pattern."""
    return np.asarray(np.arange(1, 1 + int(np.prod(shape))).reshape(shape) * 0.37 % 2.1 + 0.1, "f")


def _own() -> list[Call]:
    vector, table = _numbers(6), _numbers(4, 3)
    key = np.array([7, 11], np.uint32)
    rows = [(text, (vector,)) for text in _VECTOR] + [
        (text, (vector, vector)) for text in _TWO_VECTORS
    ]
    rows += [(text, (_numbers(3, 3),)) for text in _SQUARE] + [(text, (table,)) for text in _TABLE]
    rows += [(text, (_numbers(16, 3),)) for text in _BITS]
    rows += [(text, (table, np.array([[0], [2], [1], [0]], np.int32))) for text in _CHOSEN]
    for text in _DRAWN:
        name, _, rest = text.partition("(k")
        rows.append((f"jax.random.{name}(jax.random.wrap_key_data(x){rest}", (key, vector)))
    return [Call("library_calls", *row) for row in rows]


def all_calls() -> list[Call]:
    """Every text once: with 32-bit operands, and with those of the first row that has it."""
    rows = [
        Call("library_calls", row.text, row.operands)
        for row in (*numpy_calls.all_rows(), *api_calls.all_rows())
        # Of functions of each element, beside numbers as operands, there are many alike.
        if not row.x64
        and not (set(named(row)[:1]) & {*UNARY, *BINARY} and set("0123456789") & set(row.text))
    ]
    texts = {
        "nn_expressions": importlib.import_module("corpus.nn_expressions").TEXTS,
        "scipy_expressions": [
            *importlib.import_module("corpus.scipy_expressions").TEXTS,
            *importlib.import_module("corpus.scipy_answers").TEXTS,
        ],
        "random_samples": [
            text for text, wide in importlib.import_module("corpus.random_samples").ROWS if not wide
        ],
    }
    rows += _own()
    rows += [Call(table, text) for table, each in texts.items() for text in each]
    return list({row.text: row for row in reversed(rows)}.values())[::-1]


# Evaluation ---------------------------------------------------------------------------------------


class Library:
    """The library `jax`, under which calls are evaluated."""

    def __init__(self, jax: Any) -> None:
        self.jax = jax
        for name in ("signal", "special", "stats", "linalg", "fft", "ndimage", "integrate", "interpolate", "cluster.vq", "optimize", "sparse.linalg", "spatial.transform"):  # fmt: skip
            importlib.import_module(f"{jax.__name__}.scipy.{name}")
        for name in ("ode", "sparse.linalg"):
            importlib.import_module(f"{jax.__name__}.experimental.{name}")
        self.export = importlib.import_module(f"{jax.__name__}.export")
        self.names = {"jax": jax, "jnp": jax.numpy, "np": np, "lax": jax.lax, "jsp": jax.scipy}
        axis = jax.sharding.AxisType
        self.manual = jax.make_mesh((2,), ("d",), axis_types=(axis.Auto,))
        self.explicit = jax.make_mesh((2,), ("d",), axis_types=(axis.Explicit,))

    def function(self, call: Call) -> Callable[..., list[Any]]:
        """The arrays of the call's result, as a function of its operands."""
        if call.table == "library_calls":
            names = ", ".join(NAMES[: len(call.operands)])
            function = eval(f"lambda {names}: {call.text}", self.names)
        else:
            evaluate = importlib.import_module(f"corpus.{call.table}").evaluate
            function = lambda: evaluate(self.jax, call.text)
        return lambda *operands: [
            x for x in self.jax.tree.leaves(function(*operands)) if isinstance(x, self.jax.Array)
        ]

    def pulled_back(self, function: Callable[..., list[Any]], operands: Sequence[Any]) -> Any:
        """Cotangents of the floating ones of `operands`, for ones as those of the floating results; None without such."""
        jax, is_floating = self.jax, lambda x: self.jax.numpy.issubdtype(x.dtype, np.floating)
        places = [i for i, x in enumerate(operands) if is_floating(x)]
        if not places:
            return None

        def of_floating(*values: Any) -> list[Any]:
            every = list(operands)
            for i, value in zip(places, values, strict=True):
                every[i] = value
            return [x for x in function(*every) if jax.numpy.issubdtype(x.dtype, np.inexact)]

        results, pull = jax.vjp(of_floating, *[operands[i] for i in places])
        return pull([jax.lax.full_like(x, 1) for x in results])


Way = Callable[[Library, Callable[..., list[Any]], tuple[Any, ...]], Any]


def _types(library: Library, operands: Sequence[Any], *front: int) -> list[Any]:
    return [library.jax.ShapeDtypeStruct((*front, *x.shape), x.dtype) for x in operands]


def _plain(library: Library, function: Any, operands: tuple[Any, ...]) -> Any:
    return library.jax.eval_shape(function, *_types(library, operands))


def _strict(library: Library, function: Any, operands: tuple[Any, ...]) -> Any:
    with library.jax.numpy_dtype_promotion("strict"):
        return _plain(library, function, operands)


def _one_rank(library: Library, function: Any, operands: tuple[Any, ...]) -> Any:
    with library.jax.numpy_rank_promotion("raise"):
        return _plain(library, function, operands)


def _gradient(library: Library, function: Any, operands: tuple[Any, ...]) -> Any:
    return library.jax.eval_shape(
        lambda *xs: library.pulled_back(function, xs), *_types(library, operands)
    )


def _gradient_strict(library: Library, function: Any, operands: tuple[Any, ...]) -> Any:
    # Rules of derivatives are the library's code, too; under `jit` they run after its functions.
    with library.jax.numpy_dtype_promotion("strict"):
        return _gradient(library, library.jax.jit(function), operands)


def _gradient_of_one_rank(library: Library, function: Any, operands: tuple[Any, ...]) -> Any:
    with library.jax.numpy_rank_promotion("raise"):
        return _gradient(library, library.jax.jit(function), operands)


def _gradients_of_batch(library: Library, function: Any, operands: tuple[Any, ...]) -> Any:
    each = library.jax.vmap(lambda *xs: library.pulled_back(function, xs))
    return library.jax.eval_shape(each, *_types(library, operands, 2))


def _manual(
    library: Library, function: Any, operands: tuple[Any, ...], *, check: bool = True
) -> Any:
    over = library.jax.sharding.PartitionSpec("d")
    each = library.jax.shard_map(
        lambda *xs: [y[None] for y in function(*[x[0] for x in xs])],
        mesh=library.manual, in_specs=over, out_specs=over, check_vma=check,
    )  # fmt: skip
    return library.jax.eval_shape(each, *_types(library, operands, 2))


def _manual_unchecked(library: Library, function: Any, operands: tuple[Any, ...]) -> Any:
    return _manual(library, function, operands, check=False)


def _explicit(library: Library, function: Any, operands: tuple[Any, ...]) -> Any:
    """With the first dimension sharded, if it is even."""
    sharding = library.jax.sharding

    def type_of(x: Any) -> Any:
        names = [None] * x.ndim
        if x.ndim and x.shape[0] and x.shape[0] % 2 == 0:
            names[0] = "d"
        placed = sharding.NamedSharding(library.explicit, sharding.PartitionSpec(*names))
        return library.jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=placed)

    with library.jax.set_mesh(library.explicit):
        return library.jax.eval_shape(function, *map(type_of, operands))


def _symbolic(library: Library, function: Any, operands: tuple[Any, ...]) -> Any:
    """With a symbol for the first dimension, but for one of size 0 or 1; equal sizes are one symbol."""
    scope = library.export.SymbolicScope()

    def type_of(x: Any) -> Any:
        shape = x.shape
        if x.ndim and shape[0] > 1:
            shape = (*library.export.symbolic_shape(f"n{shape[0]}", scope=scope), *shape[1:])
        return library.jax.ShapeDtypeStruct(shape, x.dtype)

    return library.jax.make_jaxpr(function)(*map(type_of, operands))


WAYS: dict[str, Way] = {
    "plain": _plain, "strict": _strict, "one rank": _one_rank, "gradient": _gradient, "gradient, strict": _gradient_strict,
    "gradient, one rank": _gradient_of_one_rank, "gradients of a batch": _gradients_of_batch, "manual": _manual,
    "manual, unchecked": _manual_unchecked, "explicit": _explicit, "symbolic": _symbolic,
}  # fmt: skip
"""Ways to make a call, by name; calls without operands are made in the first three."""


def answers(jax: Any, calls: Sequence[Any]) -> list[tuple[str, ...]]:
    """For each call the names of the ways in which it works."""
    library = Library(jax)
    return [
        tuple(way for way, error in failures(library, Call(*call)).items() if error is None)
        for call in calls
    ]


def failures(
    library: Library, call: Call, ways: Iterable[str] = tuple(WAYS)
) -> dict[str, Exception | None]:
    """For each of `ways` to make `call` its exception, or None; calls without operands are made in the first three."""
    found: dict[str, Exception | None] = {}
    chosen = [way for way in ways if call.operands or way in list(WAYS)[:3]]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of complex numbers made real, and the like
        for name in chosen:
            found[name] = None
            try:
                WAYS[name](library, library.function(call), call.operands)
            except Exception as error:  # the call's own, whatever it is
                found[name] = error
    return found

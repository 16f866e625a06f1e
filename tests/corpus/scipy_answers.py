"""Expressions over `scipy.optimize`, `sparse.linalg`, `spatial`, `special` and `stats`, evaluated with either library."""

from __future__ import annotations

_ONE = (
    "digamma", "entr", "erf", "erfc", "erfinv", "exp1", "expi", "expit", "gamma", "gammaln", "gammasgn", "i0", "i0e", "i1",
    "i1e", "log_expit", "log_ndtr", "log_softmax", "logit", "ndtr", "ndtri", "softmax", "spence", "factorial", "sici", "fresnel", "dawsn",
)  # fmt: skip
_TWO = (
    "beta",
    "betaln",
    "gammainc",
    "gammaincc",
    "kl_div",
    "rel_entr",
    "xlog1py",
    "xlogy",
    "zeta",
    "poch",
    "boxcox",
    "boxcox1p",
)
_SPECIAL = (
    "special.bernoulli(5)", "special.bernoulli(-1)", "special.betainc(2, 3.0, jnp.array([0.0, 0.5, 1.0, 2.0]))", "special.multigammaln(jnp.array([2.5, 9.0]), 3)",
    "special.multigammaln(3, 2)", "special.multigammaln(3.0, 2.5)", "special.polygamma(1, jnp.array([0.5, 3.0]))", "special.polygamma(2, 3)", "special.expn(2, jnp.array([0.5, 3.0]))",
    "special.expn(2, 3)", "special.logsumexp(jnp.array([1, 2]))", "special.logsumexp(jnp.array([1.0, -np.inf]), b=jnp.array([2.0, 3.0]))",
    "special.sph_harm_y(jnp.array([1]), jnp.array([0]), jnp.array([0.3]), jnp.array([0.7]), n_max=1)", "special.hyp1f1(0.5, 1.5, jnp.array([-2.0, 0.3]))",
    "special.hyp2f1(0.5, 1.0, 1.5, jnp.array([-0.4, 0.3]))", "special.bessel_jn(jnp.array([0.5, 2.0]), v=2)", "special.bessel_jn(jnp.array([1, 2]), v=1)",
    "special.lpmn(1, 2, jnp.array([0.3]))", "special.xlogy(0, 0)", "special.xlogy(jnp.array([0.0, 1.0]), jnp.array([np.nan, 2.0]))", "special.erfinv(jnp.array([-1.0, 1.0, 2.0]))",
    "special.gammainc(jnp.array([1, 2]), 3)", "special.zeta(2)", "special.ndtri(jnp.array([0, 1]))", "special.erf('a')", "special.ndtr(1j)",
    "special.gammaln(jnp.array([-1.0, 0.0, 1e30]))", "special.logit(jnp.array([-0.5, 0.0, 1.0, 1.5]))", "special.entr(jnp.array([-1.0, 0.0, np.nan]))",
)  # fmt: skip
SPECIAL = [
    *[f"special.{name}(jnp.array({values}))" for name in _ONE for values in ("[0.1, 0.5, 0.9]", "[0.25, 0.75], 'bfloat16'")],
    *[f"special.{name}({value})" for name in _ONE for value in ("1", "0.5")],
    *[f"special.{name}(jnp.array([0.5, 2.0, 3.5]), {y})" for name in _TWO for y in ("2.5", "3", "jnp.float16(1.5)")],
    *_SPECIAL,
]  # fmt: skip

_DENSITIES = {
    "beta": "2.0, 3.0", "cauchy": "", "chi2": "3", "expon": "", "gamma": "2.5", "gennorm": "1.5", "gumbel_l": "", "gumbel_r": "", "laplace": "", "logistic": "",
    "norm": "", "pareto": "2", "t": "3.5", "truncnorm": "-1.0, 2.0", "uniform": "", "wrapcauchy": "0.5", "vonmises": "1.5",
}  # fmt: skip
_MASSES = {"bernoulli": "0.3", "binom": "5, 0.3", "betabinom": "5, 2.0, 3.0", "geom": "0.3", "nbinom": "4, 0.3", "poisson": "2.5"}  # fmt: skip
_X = "jnp.array([-0.5, 0.25, 1.5, np.inf])"
STATS = [
    *[f"stats.{name}.{method}({', '.join(filter(None, (x, parameters)))})" for name, parameters in _DENSITIES.items()
      for method in ("logpdf", "pdf") for x in (_X, "jnp.arange(3)", "0.5", "jnp.float16(0.25)")],
    *[f"stats.{name}.{method}({', '.join(filter(None, (_X, parameters)))})" for name, parameters in _DENSITIES.items()
      for method in ("cdf", "logcdf", "sf", "logsf")],
    *[f"stats.{name}.{method}(jnp.array([-1, 0, 2, 7]), {parameters})" for name, parameters in _MASSES.items() for method in ("logpmf", "pmf")],
    *[f"stats.norm.{method}(jnp.array([0.0, 0.3, 1.0]), 1, 2)" for method in ("ppf", "isf")],
    "stats.norm.logpdf('a')", "stats.norm.logpdf(1j)", "stats.norm.cdf(jnp.array([1, 2]), loc=1, scale=jnp.array([2.0, -1.0]))",
    "stats.dirichlet.logpdf(jnp.array([0.2, 0.3, 0.5]), jnp.array([1.0, 2.0, 3.0]))", "stats.dirichlet.pdf(jnp.array([0.2, 0.8]), jnp.ones(2))",
    "stats.multinomial.logpmf(jnp.array([1, 2]), 3, jnp.array([0.3, 0.7]))", "stats.multivariate_normal.logpdf(jnp.ones(2), jnp.zeros(2), jnp.eye(2))",
    "stats.multivariate_normal.pdf(jnp.ones((3, 2)), 0.5, 2.0)", "stats.mode(jnp.array([3, 1, 3, 2]))", "stats.mode(jnp.array([[3.0, 1], [3, 2]]), axis=1)",
    "stats.rankdata(jnp.array([3.0, 1.0, 3.0]))", "stats.rankdata(jnp.array([3, 1, 3]), 'dense')", "stats.rankdata(jnp.array([3, 1, 3]), 'other')",
    "stats.sem(jnp.array([1, 2, 4]))", "stats.sem(jnp.array([[1.0, np.nan], [2, 3]]), nan_policy='omit')", "stats.gaussian_kde(jnp.array([0.1, 0.4, 0.9]))(jnp.array([0.0, 0.5]))",
    "stats.gaussian_kde(jnp.array([[0.1, 0.4, 0.9], [1, 2, 4]])).logpdf(jnp.array([[0.5], [2]]))",
]  # fmt: skip

_VALLEY = "lambda x: jnp.sum(100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)"
OPTIMIZE = [
    *[f"jnp.round(optimize.minimize({_VALLEY}, jnp.array([0.5, 0.5]), method='{method}').x, 1)" for method in ("BFGS", "l-bfgs-experimental-do-not-rely-on-this")],
    *[f"optimize.minimize(lambda x: jnp.sum((x - 2) ** 2), jnp.zeros(2), method='BFGS').{field}" for field in ("x", "success", "status", "fun", "nfev", "nit", "jac")],
    "optimize.minimize(lambda x: x ** 2, jnp.array(1.0), method='BFGS')", "optimize.minimize(lambda x: x, jnp.zeros(2), method='BFGS')",
    "optimize.minimize(lambda x: jnp.sum(x), jnp.zeros(2), method='other')", "optimize.minimize(jnp.sum, [0.0], method='BFGS')",
    "optimize.minimize(lambda x, a: jnp.sum((x - a) ** 2), jnp.zeros(2), (3.0,), method='BFGS').x", "optimize.minimize(jnp.sum, jnp.zeros(2), 3.0, method='BFGS')",
    "optimize.minimize(lambda x: jnp.sum((x - 2) ** 2), jnp.zeros(2), method='BFGS', options={'maxiter': 1}).nit",
]  # fmt: skip
_SPD = "jnp.array([[4.0, 1.0], [1.0, 3.0]])"
COMPLEX_OR_WHOLE = [
    *[
        f"{name}({', '.join([x] * count)})"
        for name, count in (
            ("special.digamma", 1), ("special.erfc", 1), ("special.i0e", 1), ("special.gammaln", 1), ("special.betaln", 2),
            ("special.hyp2f1", 4), ("stats.poisson.pmf", 2), ("stats.gamma.logpdf", 2), ("stats.norm.cdf", 1),
        )
        for x in ("1j", "True", "2")
    ],
    "stats.mode(2)", "stats.mode(True)",
]  # fmt: skip
SPARSE_LINALG = [
    *[f"linalg.{solver}({_SPD}, jnp.array([1.0, 2.0]){options})[0]" for solver in ("cg", "bicgstab", "gmres") for options in ("", ", x0=jnp.ones(2)", ", M=lambda x: x / 3")],
    *[f"linalg.{solver}(lambda x: {{'a': 3 * x['a']}}, {{'a': jnp.ones(3)}})[0]" for solver in ("cg", "bicgstab", "gmres")],
    *[f"linalg.{solver}({_SPD}, jnp.ones({size}))" for solver in ("cg", "gmres") for size in (3, "(2, 1)")],
    *[f"linalg.cg({_SPD}, {b})[0]" for b in ("jnp.array([1, 2])", "jnp.array([1j, 2.0])", "jnp.array([1.0, 2.0], 'float16')", "[1.0, 2.0]")],
    f"linalg.gmres({_SPD}, jnp.ones(2), solve_method='incremental')[0]", f"linalg.gmres({_SPD}, jnp.ones(2), solve_method='other')",
    f"linalg.cg({_SPD}, jnp.ones(2), x0=jnp.ones(3))", "linalg.cg(jnp.ones((2, 3)), jnp.ones(2))", f"linalg.cg({_SPD}, jnp.ones(2), maxiter=1)[0]",
    f"jax.grad(lambda b: linalg.cg({_SPD}, b)[0].sum())(jnp.ones(2))", f"linalg.cg({_SPD}, jnp.ones(2))[1]",
]  # fmt: skip
_TURN = "Rotation.from_rotvec(jnp.array([0.1, -0.4, 0.3]))"
SPATIAL = [
    *[f"transform.{_TURN}.{call}" for call in (
        "as_quat()", "as_matrix()", "as_rotvec()", "as_mrp()", "as_euler('xyz')", "as_euler('ZYX', degrees=True)", "inv().as_quat()", "magnitude()",
        "apply(jnp.array([1.0, 2.0, 3.0]))", "apply(jnp.array([1, 2, 3]), inverse=True)", "as_quat(canonical=True)", "as_rotvec(degrees=True)", "apply(jnp.ones(2))", "as_euler('xy')",
    )],
    f"(transform.{_TURN} * transform.{_TURN}).as_quat()", "transform.Rotation.from_quat(jnp.array([0, 0, 0, 2])).as_quat()", "transform.Rotation.from_quat(jnp.ones(3))",
    "transform.Rotation.from_matrix(jnp.eye(3)).as_quat()", "transform.Rotation.from_euler('z', 90, degrees=True).as_matrix()", "transform.Rotation.from_euler('zyx', jnp.array([0.1, 0.2, 0.3])).as_quat()",
    "transform.Rotation.from_euler('q', 1.0)", "transform.Rotation.from_mrp(jnp.array([0.1, 0.2, 0.3])).as_quat()", "transform.Rotation.identity().as_quat()", "transform.Rotation.identity(2).as_quat()",
    "transform.Rotation.concatenate([transform.Rotation.identity(1), transform.Rotation.identity(1)]).as_quat()", "len(transform.Rotation.identity(2))", "len(transform.Rotation.identity())",
    "transform.Rotation.from_rotvec(jnp.array([[0.1, 0, 0], [0, 0.2, 0]])).mean().as_quat()", "transform.Rotation.from_rotvec(jnp.array([[0.1, 0, 0], [0, 0.2, 0]]))[1].as_quat()",
    "transform.Slerp(jnp.array([0.0, 1.0]), transform.Rotation.from_rotvec(jnp.array([[0.1, 0, 0], [0, 0.2, 0]])))(jnp.array([0.25])).as_quat()",
]  # fmt: skip
TEXTS = [*SPECIAL, *COMPLEX_OR_WHOLE, *STATS, *OPTIMIZE, *SPARSE_LINALG, *SPATIAL]

"""First and second derivatives of functions of one number against central differences, at 0, ±1 and at kinks.

Where the slopes on both sides agree, the derivative is theirs; at a kink it lies between them.
"""

from __future__ import annotations

import numpy as np
import pytest

import pellucid as pl

POINTS = np.array([0, 1, -1, 2, -2, 0.5, -0.5, 0.3, -0.3, 3.2, -3.2, 1e-3, -1e-3, 6, -6, 40, -40.0])
"""Zero, ±1, places of kinks and of removable singularities, neighbours of these, and tails."""

STEP = 1e-6

NAMES_OF = {
    "jnp": "exp exp2 expm1 log log1p log2 log10 sin cos tan arcsin arccos arctan sinh cosh tanh arcsinh arccosh arctanh sqrt "
    "cbrt absolute fabs square reciprocal sinc i0 sign floor ceil trunc rint negative nan_to_num deg2rad",
    "special": "entr erf erfc erfinv erfcx expit exp1 expi gammaln gamma digamma i0 i0e i1 i1e log_ndtr logit ndtr ndtri "
    "spence dawsn loggamma",
    "nn": "relu relu6 sigmoid softplus soft_sign silu log_sigmoid leaky_relu hard_sigmoid hard_silu hard_tanh elu celu selu "
    "gelu mish squareplus sparse_plus sparse_sigmoid log1mexp tanh identity",
    "lax": "rsqrt logistic bessel_i0e bessel_i1e digamma lgamma erf_inv",
}  # fmt: skip
"""Functions by their modules."""

OTHERS = [
    "jnp.frexp(x)[0]", "jnp.modf(x)[0]", "jnp.hypot(x, 1.0)", "jnp.hypot(x, 0.0)", "jnp.hypot(x, x)", "jnp.arctan2(x, 1.0)",
    "jnp.arctan2(1.0, x)", "jnp.logaddexp(x, 1.0)", "jnp.logaddexp(x, -jnp.inf)", "jnp.logaddexp(x, x)", "jnp.logaddexp2(x, 1.0)",
    "jnp.maximum(x, 0)", "jnp.fmin(x, 1)", "jnp.clip(x, -1, 1)", "x**2", "x**0", "x**-1", "jnp.power(x, 2.0)", "jnp.power(x, 3.0)",
    "jnp.power(2.0, x)", "jnp.mod(x, 2.0)", "jnp.fmod(x, 2.0)", "jnp.copysign(x, -1.0)", "jnp.ldexp(x, 3)", "jnp.heaviside(x, 0.5)",
    "jnp.sign(x + 1j).real", "jnp.sign(x + 1j).imag", "jnp.abs(x + 1j)", "jnp.abs(x + 0j)", "jnp.angle(x + 1j)", "jnp.sqrt(x + 1j).real",
    "jnp.log(x + 1j).imag", "jnp.kaiser(3, x[..., None])[..., 0]", "jnp.interp(x, jnp.array([-1.0, 0, 1]), jnp.array([0.0, 1, 4]))",
    "jnp.stack([x, x, x]).prod(0)", "jnp.cumprod(jnp.stack([x, x, x]), 0)[2]", "jnp.var(jnp.stack([x, 0 * x]), 0)",
    "special.sici(x)[0]", "special.sici(x)[1]", "special.fresnel(x)[0]", "special.expn(1, x)", "special.expn(2, x)",
    "special.xlogy(x, 2.0)", "special.xlogy(2.0, x)", "special.xlogy(0.0, x)", "special.xlog1py(x, 2.0)", "special.xlog1py(0.0, x)",
    "special.kl_div(x, 2.0)", "special.rel_entr(2.0, x)", "special.betaln(x, 2.0)", "special.gammainc(2.0, x)",
    "special.gammaincc(2.5, x)", "special.betainc(2.0, 3.0, x)", "special.hyp1f1(1.5, 2.5, x)", "special.polygamma(1, x)",
    "special.zeta(3.0, x)", "special.logsumexp(jnp.stack([x, 0 * x]), 0)", "special.bessel_jn(x, v=2)[0]",
    "special.bessel_jn(x, v=2)[2]", "special.owens_t(x, 0.5)", "special.multigammaln(abs(x) + 3, 2)", "nn.gelu(x, approximate=False)",
    "nn.softmax(jnp.stack([x, 0 * x]), 0)[0]", "nn.log_softmax(jnp.stack([x, 0 * x]), 0)[0]", "nn.glu(jnp.stack([x, x]), 0)[0]",
    "nn.standardize(jnp.stack([x, 0 * x, 1 + 0 * x]), 0)[0]", "lax.integer_pow(x, 3)", "lax.clamp(-1.0, x, 1.0)",
]  # fmt: skip

ROWS = [f"{m}.{name}(x)" for m, names in NAMES_OF.items() for name in names.split()] + OTHERS


@pytest.mark.parametrize("row", ROWS)
def test_derivatives_at_edges(row) -> None:
    code = compile(row, row, "eval")
    modules = {"jnp": pl.numpy, "special": pl.scipy.special, "nn": pl.nn, "lax": pl.lax}

    def f(x):
        return eval(code, modules | {"x": x})

    def slope(x):
        return pl.grad(lambda x: f(x).sum())(x)

    def values(x):
        return f(x), slope(x), pl.grad(lambda x: slope(x).sum())(x)

    steps = STEP * np.maximum(1, abs(POINTS))
    with pl.enable_x64(True):
        below, at, above = np.moveaxis(
            np.asarray(pl.jit(values)(np.stack([POINTS - steps, POINTS, POINTS + steps])))
        , 1, 0)  # fmt: skip
    with np.errstate(all="ignore"):
        for order in (1, 2):
            left, right = (at - below)[order - 1] / steps, (above - at)[order - 1] / steps
            tolerance = 1e-5 if order == 1 else 1e-4
            wrong = beside(at[order], left, right, at[order - 1], tolerance)
            assert not wrong, f"derivative {order}\n" + "\n".join(wrong)


def beside(derivative, left, right, value, tolerance) -> list[str]:
    """Where `derivative` isn't that of differences on both sides, though these and `value` are finite.

    An infinite derivative is right where the differences are steep.
    """
    is_smooth = np.isclose(left, right, 1e-3, 1e-3)
    middle, size = (left + right) / 2, abs(left) + abs(right) + abs(value)
    low = np.where(is_smooth, middle, np.minimum(left, right))
    high = np.where(is_smooth, middle, np.maximum(left, right))
    margin = tolerance * (1 + size)
    fits = (derivative >= low - margin) & (derivative <= high + margin)
    fits |= ~np.isfinite(value) | ~np.isfinite(left) | ~np.isfinite(right) | (size > 1e5)
    fits |= np.isinf(derivative) & (size > 1e3)
    rows = zip(POINTS[~fits], derivative[~fits], left[~fits], right[~fits], strict=True)
    return [f"at {x}: {d}, differences {a} and {b}" for x, d, a, b in rows]


def test_what_is_left_out_or_undefined_has_no_part_in_derivatives() -> None:
    """One number has no variance with `ddof=1`; weights of elements left out are 0 whatever the others are."""
    numbers = pl.numpy.array([3.0, np.nan])
    for function in (pl.numpy.nanvar, pl.numpy.nanstd):
        assert np.isnan(function(numbers, ddof=1))
        slope = pl.grad(lambda x, f=function: f(x, ddof=1))(numbers)
        assert slope.tolist() == [0, 0]
    kept = np.array([True, True, False])
    x = pl.numpy.array([1.0, np.nan, 2.0])
    for t in (np.ones(3), np.array([1, 1, np.inf])):
        y, slope = pl.jvp(lambda x: pl.nn.softmax(x, where=kept), (x,), (t.astype(np.float32),))
        assert (y[2], slope[2]) == (0, 0)
        assert np.isnan(slope[:2]).all()

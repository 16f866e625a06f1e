"""Computes the Chebyshev series of `pellucid.scipy.special`: core/pellucid/scipy/special/coefficients.py.

Each row below states a function of u from -1 to 1 in terms of mpmath, which this tool alone needs. Coefficients are
sums over Chebyshev nodes (Clenshaw, Chebyshev Series for Mathematical Functions, 1962) with 60 digits; a series ends
where no later coefficient exceeds 2⁻⁵⁷ of the smallest value. `--check` compares, writes nothing.
"""

# pyright: basic, reportMissingImports=false

from __future__ import annotations

import argparse
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mpmath as mp

TARGET = Path(__file__).parent.parent / "core/pellucid/scipy/special/coefficients.py"
DIGITS = 60
NODES = 96
TAIL = mp.mpf(2) ** -57
"""Largest coefficient that a series leaves out, relative to the smallest value of the function."""
NUDGE = mp.mpf(10) ** -40
"""Distance at which quotients are evaluated beside their removable singularities."""

Function = Callable[[Any], Any]
mp.mp.dps = DIGITS


def on(low: Any, high: Any, function: Function) -> Function:
    """`function` on the interval from `low` to `high`, as a function of u."""
    middle, half = (mp.mpf(high) + mp.mpf(low)) / 2, (mp.mpf(high) - mp.mpf(low)) / 2
    return lambda u: function(middle + half * u + NUDGE)


def erfcx(x: Any) -> Any:
    """exp(x²) erfc(x)."""
    return mp.hyperu(0.5, 0.5, x * x) / mp.sqrt(mp.pi)


def scaled_erfcx(u: Any) -> Any:
    """(1 + 2x) erfcx(x) at x = 4 (1 + u) / (1 - u)."""
    x = 4 * (1 + u + NUDGE) / (1 - u)
    return (1 + 2 * x) * erfcx(x)


def dawson(s: Any) -> Any:
    """(1 + 2s) D(x) / x at s = x²."""
    return (1 + 2 * s) * mp.hyp1f1(1, 1.5, -s)


EI_ZERO = mp.findroot(mp.ei, 0.3725)
CI_ZERO = mp.findroot(mp.ci, 0.6165)
CI_SECOND_ZERO = mp.findroot(mp.ci, 3.384)
PSI_ZERO = mp.findroot(mp.digamma, 1.4616)


def ei_near(x: Any) -> Any:
    """exp(-x/2) (Ei(x) - log(x / x₀)) / (x - x₀), x₀ the zero of Ei."""
    return mp.exp(-x / 2) * (mp.ei(x) - mp.log(x / EI_ZERO)) / (x - EI_ZERO)


def ei_far(v: Any) -> Any:
    """x exp(-x) Ei(x) at x = 1 / v."""
    return mp.re(mp.exp(-1 / v) * mp.ei(1 / v)) / v if v > 1e-9 else 1 + v


def e1_far(u: Any) -> Any:
    """x exp(x) E₁(x) at x = 1 + 4 (1 + u) / (1 - u)."""
    x = 1 + 4 * (1 + u) / (1 - u)
    return x * mp.hyperu(1, 1, x)


def si_near(t: Any) -> Any:
    """Si(x) / x at t = x²."""
    return mp.si(mp.sqrt(t)) / mp.sqrt(t)


def ci_near(t: Any) -> Any:
    """(Ci(x) - log(x / x₀)) / (x² - x₀²) at t = x², x₀ the first zero of Ci."""
    return (mp.ci(mp.sqrt(t)) - mp.log(t / CI_ZERO**2) / 2) / (t - CI_ZERO**2)


def auxiliary(x: Any) -> Any:
    """f(x) + i g(x) = ∫ exp(-xt) (1 + it) / (1 + t²) dt from 0 to ∞ (DLMF 6.7.13, 6.7.14), that is i exp(ix) E₁(ix)."""
    return 1j * mp.hyperu(1, 1, 1j * x)


def fresnel_auxiliary(x: Any) -> Any:
    """g(x) + i f(x), by DLMF 7.5.10."""
    z = mp.sqrt(mp.pi) / 2 * (1 - 1j) * x
    return (1 + 1j) / 2 * mp.hyperu(0.5, 0.5, z * z) / mp.sqrt(mp.pi)


def fresnel_f(v: Any) -> Any:
    """πx f(x) at v = x⁻⁴."""
    x = v ** mp.mpf(-0.25)
    return mp.pi * x * mp.im(fresnel_auxiliary(x))


def fresnel_g(v: Any) -> Any:
    """π²x³ g(x) at v = x⁻⁴."""
    x = v ** mp.mpf(-0.25)
    return mp.pi**2 * x**3 * mp.re(fresnel_auxiliary(x))


def fresnel_s(t: Any) -> Any:
    """S(x) / x³ at t = x⁴."""
    return mp.fresnels(t ** mp.mpf(0.25)) / t ** mp.mpf(0.75)


def fresnel_c(t: Any) -> Any:
    """C(x) / x at t = x⁴."""
    return mp.fresnelc(t ** mp.mpf(0.25)) / t ** mp.mpf(0.25)


def normal_middle(s: Any) -> Any:
    """The quantile of the normal distribution at 1/2 + d, over d, at s = d²."""
    d = mp.sqrt(s)
    return mp.sqrt(2) * mp.erfinv(2 * d) / d


def normal_tail(v: Any) -> Any:
    """z / r at r = 1 / v, where exp(-r²) is the probability beyond z."""
    r = 1 / v
    z = mp.sqrt(2) * r
    for _ in range(
        60
    ):  # Newton's method for the logarithm of the probability, whose slope is the hazard
        ratio = erfcx(z / mp.sqrt(2))
        step = (r * r - z * z / 2 + mp.log(ratio / 2)) / (mp.sqrt(2 / mp.pi) / ratio)
        z += step
        if abs(step) < mp.mpf(10) ** -45:
            return z / r
    raise ArithmeticError(f"no quantile for r = {r}")


SERIES: dict[str, Function] = {
    "ERFCX": scaled_erfcx,
    "DAWSON_SMALL": on(0, 1, lambda s: (1 - mp.hyp1f1(1, 1.5, -s)) / s),
    "DAWSON_NEAR": on(mp.mpf(1) / 4, 8, dawson),
    "DAWSON_FAR": on(0, mp.mpf(1) / 8, lambda v: (dawson(1 / v) / (1 + v / 2) - 1) / v),
    "EI_NEAR": on(0, 6, ei_near),
    "EI_MIDDLE": on(mp.mpf(1) / 18, mp.mpf(1) / 6, ei_far),
    "EI_FAR": on(0, mp.mpf(1) / 18, ei_far),
    "E1_NEAR": on(0, 1, lambda x: mp.hyp2f2(1, 1, 2, 2, -x)),
    "E1_FAR": e1_far,
    "SI_NEAR": on(0, 25, si_near),
    "CI_NEAR": on(0, 4, ci_near),
    "CI_MIDDLE": on(2, 5, lambda x: mp.ci(x) / (x - CI_SECOND_ZERO)),
    "SICI_F": on(0, mp.mpf(1) / 25, lambda v: mp.re(auxiliary(v ** mp.mpf(-0.5))) * v ** mp.mpf(-0.5)),
    "SICI_G": on(0, mp.mpf(1) / 25, lambda v: mp.im(auxiliary(v ** mp.mpf(-0.5))) / v),
    "FRESNEL_S": on(0, mp.mpf(1.6) ** 4, fresnel_s),
    "FRESNEL_C": on(0, mp.mpf(1.6) ** 4, fresnel_c),
    "FRESNEL_F_MIDDLE": on(mp.mpf(2.25) ** -4, mp.mpf(1.6) ** -4, fresnel_f),
    "FRESNEL_G_MIDDLE": on(mp.mpf(2.25) ** -4, mp.mpf(1.6) ** -4, fresnel_g),
    "FRESNEL_F_FAR": on(0, mp.mpf(2.25) ** -4, fresnel_f),
    "FRESNEL_G_FAR": on(0, mp.mpf(2.25) ** -4, fresnel_g),
    "LGAMMA_ONE": on(-0.5, 0.5, lambda t: mp.loggamma(1 + t) / t),
    "LGAMMA_TWO": on(1.5, 3, lambda x: mp.loggamma(x) / (x - 2)),
    "LGAMMA_FIVE": on(3, 8, lambda x: mp.loggamma(x) / (x - 2)),
    "GAMMA": on(1, 2, mp.gamma),
    "DIGAMMA_NEAR": on(1, 3, lambda x: mp.digamma(x) / (x - PSI_ZERO)),
    "DIGAMMA_FAR": on(3, 10, lambda x: mp.digamma(x) / (x - PSI_ZERO)),
    "SPENCE": on(-0.5, 0.5, lambda w: -mp.polylog(2, -w) / w),
    "NORMAL_MIDDLE": on(0, mp.mpf(0.425) ** 2, normal_middle),
    "NORMAL_TAIL": on(mp.mpf(1) / 5, mp.mpf(1) / 1.6, normal_tail),
    "NORMAL_FAR_TAIL": on(mp.mpf(1) / 28, mp.mpf(1) / 5, normal_tail),
}  # fmt: skip


def coefficients(function: Function) -> list[Any]:
    """The Chebyshev series of a function of u, without its tail; the first coefficient counts half."""
    nodes = [mp.cos(mp.pi * (k + mp.mpf(0.5)) / NODES) for k in range(NODES)]
    values = [function(u) for u in nodes]
    series = [
        2 * mp.fsum(v * mp.cos(j * mp.pi * (k + mp.mpf(0.5)) / NODES) for k, v in enumerate(values)) / NODES
        for j in range(NODES)
    ]  # fmt: skip
    limit = TAIL * min(map(abs, values))
    while abs(series[-1]) < limit:
        series.pop()
    return series


def text() -> str:
    """The module of coefficients."""
    lines = [
        '"""Chebyshev series of special functions, computed by tools/special_coefficients.py, which states the functions."""',
        "",
    ]
    for name, zero in (
        ("EI", EI_ZERO),
        ("CI", CI_ZERO),
        ("CI_SECOND", CI_SECOND_ZERO),
        ("PSI", PSI_ZERO),
    ):
        high = float(mp.mpf(int(zero * 2**20)) / 2**20)
        lines.append(f"{name}_ZERO = ({high!r}, {float(zero - high)!r})")
    lines += [
        '"""First positive zeros, of Ci also the second, as a number that float32 holds exactly plus a rest."""',
        "",
    ]
    for name, function in SERIES.items():
        series = coefficients(function)
        print(f"{name}: {len(series)} coefficients", file=sys.stderr)
        numbers = ", ".join(repr(float(c)) for c in series) + ","
        rows = textwrap.wrap(numbers, 100, break_on_hyphens=False)
        lines += [f"{name} = (", *(f"    {row}" for row in rows), ")  # fmt: skip"]
    return "\n".join([*lines, ""])


def main() -> int:
    """Write the module, or with `--check` compare it; the exit status is 1 if it differs."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--check", action="store_true", help="compare, write nothing")
    new = text()
    if arguments.parse_args().check:
        return int(TARGET.read_text(encoding="utf-8") != new)
    TARGET.write_text(new, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())

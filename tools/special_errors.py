"""Writes docs/special-functions.md: largest errors of `scipy.special` and of tails of `scipy.stats`, beside the reference's.

Each row states a function in terms of mpmath and the arguments at which it is compared: rounded to the dtype first, so
that arguments are exact. Both libraries compute in processes of their own. An error is counted in units in the last
place (ulp) of the exact value; results where exact value or argument is subnormal are left out, because XLA flushes
them. `--only NAME` renews single rows; each is printed with the argument of its largest error.
"""

# pyright: basic, reportMissingImports=false

from __future__ import annotations

import argparse
import importlib
import importlib.metadata
import itertools
import os
import pickle
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import mpmath as mp
import numpy as np
from mpmath.libmp import NoConvergence

TARGET = Path(__file__).parent.parent / "docs/special-functions.md"
LIBRARIES = ("pellucid", "jax")
DTYPES = ("float32", "float64")
DIGITS = 50
SECONDS_PER_POINT = 1
"""Time limit of one exact value; points beyond it are left out."""


class Row(NamedTuple):
    """A function, its exact value, and axes of arguments whose product is compared, `grid(dtype)` for each."""

    name: str
    exact: Callable[..., Any]
    axes: tuple[Callable[[str], np.ndarray], ...]
    one_by_one: bool = False
    """Whether arguments are evaluated one at a time: over some arrays, loops of the reference don't end."""


# Arguments ----------------------------------------------------------------------------------------


def magnitudes(
    count: int, low: float | None = None, high: float | None = None
) -> Callable[[str], np.ndarray]:
    """Positive numbers from `low` to `high`, by default all normal ones, in equal ratios."""
    return lambda dtype: np.geomspace(
        low or 4 * float(np.finfo(dtype).tiny), high or float(np.finfo(dtype).max) / 4, count
    )


def line(low: float, high: float, count: int = 121) -> Callable[[str], np.ndarray]:
    """Numbers from `low` to `high` in equal steps, which meet no whole number between."""
    return lambda _: np.linspace(low, high, count) * (1 + 1e-3 / 7)


def joined(*parts: Callable[[str], np.ndarray]) -> Callable[[str], np.ndarray]:
    """Numbers of all parts."""
    return lambda dtype: np.concatenate([part(dtype) for part in parts])


def negated(part: Callable[[str], np.ndarray]) -> Callable[[str], np.ndarray]:
    """Numbers of `part`, with the other sign."""
    return lambda dtype: -part(dtype)


def below_one(dtype: str) -> np.ndarray:
    """Numbers of (0, 1): small ones, large ones, and those next to 1."""
    eps = float(np.finfo(dtype).eps)
    return np.concatenate(
        [
            magnitudes(24, None, 0.4)(dtype),
            np.linspace(0.03, 0.97, 48),
            1 - np.geomspace(2 * eps, 0.02, 16),
        ]
    )


def values(*numbers: float) -> Callable[[str], np.ndarray]:
    """These numbers."""
    return lambda _: np.array(numbers)


ALL = joined(magnitudes(60), negated(magnitudes(60)), line(-30, 30, 241))
POSITIVE = joined(magnitudes(60), line(0.02, 40, 161))
MIDDLE = joined(magnitudes(40, 1e-6, 90), negated(magnitudes(40, 1e-6, 90)), line(-12, 12, 121))
TAIL = joined(line(-40, 12, 161), negated(magnitudes(30, 1e-4, 1e4)), magnitudes(20, 1e-4, 1e4))
FEW = magnitudes(14, 1e-3, 1e3)

# Exact values -------------------------------------------------------------------------------------


def dawsn(x: Any) -> Any:
    """Dawson's integral; by its asymptotic series where the closed form overflows."""
    if abs(x) > 1e4:
        return sum(mp.fac2(2 * k - 1) / (2 ** (k + 1) * x ** (2 * k + 1)) for k in range(8))
    return mp.sqrt(mp.pi) / 2 * mp.exp(-x * x) * mp.erfi(x)


def erfcx(x: Any) -> Any:
    """exp(x²) erfc(x); by its asymptotic series for large arguments."""
    if x > 1e4:
        return (
            sum((-1) ** k * mp.fac2(2 * k - 1) / (2 * x * x) ** k for k in range(8))
            / x
            / mp.sqrt(mp.pi)
        )
    return mp.exp(x * x) * mp.erfc(x)


def ndtr(x: Any) -> Any:
    """Distribution function of the normal distribution."""
    return mp.erfc(-x / mp.sqrt(2)) / 2


def log_ndtr(x: Any) -> Any:
    """Logarithm of `ndtr`."""
    if x < -1e3:
        return -x * x / 2 + mp.log(erfcx(-x / mp.sqrt(2)) / 2)
    return mp.log(ndtr(x)) if x < 0 else mp.log1p(-ndtr(-x))


def ndtri(p: Any) -> Any:
    """Quantile of the normal distribution."""
    if p > 0.01:
        return mp.sqrt(2) * mp.erfinv(2 * p - 1)
    start = -mp.sqrt(-2 * mp.log(p))
    return mp.findroot(lambda x: log_ndtr(x) - mp.log(p), start)


def gammaln(x: Any) -> Any:
    """Logarithm of the absolute value of the gamma function."""
    return mp.re(mp.loggamma(x)) if x > 0 else mp.log(abs(mp.gamma(x)))


def scaled_bessel(order: int) -> Callable[[Any], Any]:
    """exp(-|x|) I(x) of an order; by its asymptotic series for large arguments."""

    def exact(x: Any) -> Any:
        size = abs(x)
        if size > 1e3:
            term = total = mp.mpf(1)
            for k in range(1, 30):
                term *= -(4 * order**2 - (2 * k - 1) ** 2) / (8 * k * size)
                total += term
            value = total / mp.sqrt(2 * mp.pi * size)
        else:
            value = mp.besseli(order, size) * mp.exp(-size)
        return -value if order and x < 0 else value

    return exact


def spence(x: Any) -> Any:
    """Integral of log(t) / (1 - t) from 1 to x."""
    return mp.re(mp.polylog(2, 1 - x))


def owens_t(h: Any, a: Any) -> Any:
    """Owen's T function, by quadrature."""
    return mp.quad(
        lambda t: mp.exp(-h * h * (1 + t * t) / 2) / (1 + t * t), mp.linspace(0, a, 9)
    ) / (2 * mp.pi)


def log_of(upper: bool, function: Callable[..., Any]) -> Callable[..., Any]:
    """Logarithm of a distribution function, or of its complement, from both."""

    def exact(*arguments: Any) -> Any:
        small, large = function(*arguments)
        small, large = (large, small) if upper else (small, large)
        return mp.log1p(-large) if large < 0.5 else mp.log(small)

    return exact


def gamma_tails(x: Any, a: Any) -> tuple[Any, Any]:
    """Lower and upper tail of the gamma distribution of shape `a`."""
    return mp.gammainc(a, 0, x, regularized=True), mp.gammainc(a, x, mp.inf, regularized=True)


def beta_tails(x: Any, a: Any, b: Any) -> tuple[Any, Any]:
    """Lower and upper tail of the beta distribution."""
    return mp.betainc(a, b, 0, x, regularized=True), mp.betainc(b, a, 0, 1 - x, regularized=True)


ROWS = (
    Row("special.erf", mp.erf, (ALL,)),
    Row("special.erfc", mp.erfc, (joined(magnitudes(60, None, 1e3), negated(magnitudes(60, None, 1e3)), line(-6, 27, 241)),)),
    Row("special.erfcx", erfcx, (joined(magnitudes(60), line(-9, 30, 161)),)),
    Row("special.erfinv", mp.erfinv, (joined(below_one, negated(below_one)),)),
    Row("special.dawsn", dawsn, (ALL,)),
    Row("special.ndtr", ndtr, (joined(TAIL, magnitudes(20, None, 1.0)),)),
    Row("special.log_ndtr", log_ndtr, (joined(TAIL, negated(magnitudes(20, 1e4, 1e17))),)),
    Row("special.ndtri", ndtri, (below_one,)),
    Row("special.owens_t", owens_t, (magnitudes(8, 1e-3, 8), magnitudes(8, 1e-3, 1e2))),
    Row("special.gamma", mp.gamma, (joined(magnitudes(40, 1e-30, 30), line(-33.7, 34, 241)),)),
    Row("special.gammaln", gammaln, (joined(POSITIVE, line(-33.7, 0, 121)),)),
    Row("special.loggamma", gammaln, (POSITIVE,)),
    Row("special.digamma", mp.digamma, (joined(POSITIVE, line(-12.3, 0, 121)),)),
    *(
        Row(f"special.polygamma({n})", lambda x, n=n: mp.polygamma(n, x), (magnitudes(60, 1e-3, 1e6),))
        for n in (1, 4)
    ),
    Row("special.zeta", mp.zeta, (joined(magnitudes(30, 1.001, 1.2), line(1.03, 30, 40)), magnitudes(8, 0.1, 1e3))),
    Row("special.beta", mp.beta, (FEW, FEW)),
    Row("special.betaln", lambda a, b: gammaln(a) + gammaln(b) - gammaln(a + b), (magnitudes(20, 1e-3, 1e9), FEW)),
    Row("special.poch", mp.rf, (magnitudes(12, 1e-2, 30), magnitudes(10, 1e-2, 20))),
    Row("special.gammainc", lambda a, x: mp.gammainc(a, 0, x, regularized=True), (magnitudes(16, 1e-2, 1e4), magnitudes(22, 1e-3, 1e4))),
    Row("special.gammaincc", lambda a, x: mp.gammainc(a, x, mp.inf, regularized=True), (magnitudes(16, 1e-2, 1e4), magnitudes(22, 1e-3, 1e4))),
    Row("special.betainc", lambda a, b, x: mp.betainc(a, b, 0, x, regularized=True), (magnitudes(7, 0.05, 300), magnitudes(6, 0.05, 300), line(0.02, 0.98, 12))),
    Row("special.i0", lambda x: mp.besseli(0, x), (MIDDLE,)),
    Row("special.i1", lambda x: mp.besseli(1, x), (MIDDLE,)),
    Row("special.i0e", scaled_bessel(0), (ALL,)),
    Row("special.i1e", scaled_bessel(1), (ALL,)),
    Row("special.expi", mp.ei, (MIDDLE,), one_by_one=True),
    Row("special.exp1", mp.e1, (magnitudes(161, None, 80.0),), one_by_one=True),
    *(
        Row(f"special.expn({n})", lambda x, n=n: mp.expint(n, x), (magnitudes(60, 1e-6, 80.0),), one_by_one=True)
        for n in (1, 2, 5)
    ),
    Row("special.sici()[0]", mp.si, (joined(magnitudes(60, None, 1e4), line(0.1, 40)),)),
    Row("special.sici()[1]", mp.ci, (joined(magnitudes(60, 1e-30, 1e4), line(0.1, 40)),)),
    Row("special.fresnel()[0]", mp.fresnels, (joined(magnitudes(60, 1e-6, 1e2), line(0.1, 12)),)),
    Row("special.fresnel()[1]", mp.fresnelc, (joined(magnitudes(60, 1e-6, 1e2), line(0.1, 12)),)),
    Row("special.spence", spence, (POSITIVE,)),
    Row("special.hyp1f1", mp.hyp1f1, (values(0.3, 1.5, 6), values(0.7, 2.5, 9), line(-60, 30, 40))),
    Row("special.hyp2f1", mp.hyp2f1, (values(0.3, 1.5), values(0.6, 2.2), values(0.75, 3.4), joined(line(-30, 0.9, 24), line(0.9, 0.99, 5)))),
    Row("special.logit", lambda p: mp.log(p / (1 - p)), (below_one,)),
    Row("special.expit", lambda x: 1 / (1 + mp.exp(-x)), (MIDDLE,)),
    Row("special.entr", lambda x: -x * mp.log(x), (magnitudes(161, None, 1e30),)),
    Row("special.xlogy", lambda x, y: x * mp.log(y), (FEW, magnitudes(24))),
    Row("special.xlog1py", lambda x, y: x * mp.log1p(y), (FEW, magnitudes(24))),
    Row("special.rel_entr", lambda x, y: x * mp.log(x / y), (FEW, magnitudes(14, 1.1e-3, 1.7e3))),
    Row("special.kl_div", lambda x, y: x * mp.log(x / y) - x + y, (FEW, magnitudes(14, 1.1e-3, 1.7e3))),
    Row("special.boxcox", lambda x, l: mp.expm1(l * mp.log(x)) / l, (magnitudes(20, 1e-3, 1e3), values(-3, -0.1, 1e-6, 0.5, 2))),
    Row("special.boxcox1p", lambda x, l: mp.expm1(l * mp.log1p(x)) / l, (magnitudes(20, 1e-6, 1e3), values(-3, -0.1, 1e-6, 0.5, 2))),
    Row("stats.norm.logcdf", log_ndtr, (joined(TAIL, negated(magnitudes(20, 1e4, 1e17))),)),
    Row("stats.norm.logsf", lambda x: log_ndtr(-x), (negated(TAIL),)),
    Row("stats.norm.sf", lambda x: ndtr(-x), (line(-5, 12, 161),)),
    Row("stats.norm.isf", lambda p: -ndtri(p), (magnitudes(60, 1e-30, 0.4),)),
    Row("stats.logistic.logpdf", lambda x: -x - 2 * mp.log1p(mp.exp(-x)), (MIDDLE,)),
    Row("stats.cauchy.logcdf", lambda x: mp.log(mp.acot(-x) / mp.pi if x < 0 else 1 - mp.acot(x) / mp.pi) if x < 0 else mp.log1p(-mp.acot(x) / mp.pi), (joined(negated(magnitudes(40, 1e-3, 1e8)), magnitudes(40, 1e-3, 1e8)),)),
    Row("stats.expon.logsf", lambda x: -x, (magnitudes(40, 1e-6, 1e6),)),
    Row("stats.gumbel_r.logsf", lambda x: mp.log(-mp.expm1(-mp.exp(-x))), (line(-4, 60, 80),)),
    Row("stats.gamma.logcdf", log_of(False, gamma_tails), (magnitudes(16, 1e-2, 80), magnitudes(6, 0.3, 60))),
    Row("stats.gamma.logsf", log_of(True, gamma_tails), (magnitudes(16, 1e-2, 200), magnitudes(6, 0.3, 60))),
    Row("stats.chi2.logsf", lambda x, k: log_of(True, gamma_tails)(x / 2, k / 2), (magnitudes(16, 1e-2, 200), magnitudes(6, 0.6, 60))),
    Row("stats.beta.logcdf", log_of(False, beta_tails), (line(0.001, 0.98, 14), magnitudes(4, 0.3, 60), magnitudes(4, 0.4, 50))),
    Row("stats.beta.logsf", log_of(True, beta_tails), (line(0.001, 0.98, 14), magnitudes(4, 0.3, 60), magnitudes(4, 0.4, 50))),
    Row("stats.t.logpdf", lambda x, v: gammaln((v + 1) / 2) - gammaln(v / 2) - mp.log(v * mp.pi) / 2 - (v + 1) / 2 * mp.log1p(x * x / v), (magnitudes(14, 1e-3, 1e4), magnitudes(8, 0.5, 1e4))),
    Row("stats.gamma.logpdf", lambda x, a: (a - 1) * mp.log(x) - x - gammaln(a), (magnitudes(14, 1e-3, 1e4), magnitudes(8, 0.5, 1e4))),
    Row("stats.poisson.logpmf", lambda k, mu: k * mp.log(mu) - mu - gammaln(k + 1), (values(0, 1, 5, 40, 1000), magnitudes(8, 0.1, 1e4))),
)  # fmt: skip


# Evaluation ---------------------------------------------------------------------------------------


def operands_of(row: Row, dtype: str) -> list[np.ndarray]:
    """Arguments, one flat array for each axis of the grid."""
    axes = [np.unique(axis(dtype).astype(dtype)) for axis in row.axes]
    return [np.ravel(x) for x in np.meshgrid(*axes, indexing="ij")]


def called(library: Any, row: Row, operands: list[np.ndarray]) -> np.ndarray:
    """Results of a row's function, by its name in the table: `module.name`, `module.name(first argument)`, `module.name()[index]`."""
    path, _, rest = row.name.partition("(")
    first, _, index = rest.partition(")")
    module, function = path.rsplit(".", 1)
    callee = getattr(importlib.import_module(f"{library.__name__}.scipy.{module}"), function)

    def evaluate(*arguments: Any) -> Any:
        return callee(*([int(first)] if first else []), *arguments)

    if row.one_by_one:
        result = library.jit(lambda xs: library.lax.map(lambda x: evaluate(*x), xs))(operands)
    else:
        result = library.jit(evaluate)(*operands)
    return np.asarray(result[int(index.strip("[]"))] if index else result)


def work(library: str, names: list[str], dtype: str) -> None:
    """Write a pickled dict from names to results, or to the text of the error, to standard output."""
    chosen = importlib.import_module(library)
    chosen.config.update("jax_enable_x64", dtype == "float64")
    results: dict[str, Any] = {}
    for row in ROWS:
        if row.name in names:
            try:
                results[row.name] = called(chosen, row, operands_of(row, dtype))
            except Exception as error:
                results[row.name] = f"{type(error).__name__}: {error}"
    sys.stdout.buffer.write(pickle.dumps(results))


def evaluated(library: str, names: list[str], dtype: str) -> dict[str, Any]:
    """Results of rows by name, from a process with one library."""
    command = [sys.executable, __file__, "--worker", library, dtype, *names]
    environment = os.environ | {"JAX_PLATFORMS": "cpu", "TF_CPP_MIN_LOG_LEVEL": "2"}
    return pickle.loads(  # noqa: S301 - of this file's own process
        subprocess.run(command, check=True, stdout=subprocess.PIPE, env=environment).stdout
    )


def exact_values(row: Row, operands: list[np.ndarray]) -> list[Any]:
    """Exact values; None where there is none within the time limit."""

    def stop(*_: Any) -> None:
        raise TimeoutError

    signal.signal(signal.SIGALRM, stop)
    exact: list[Any] = []
    for arguments in zip(*operands, strict=True):
        signal.setitimer(signal.ITIMER_REAL, SECONDS_PER_POINT)
        try:
            with mp.workdps(DIGITS):
                value = row.exact(*(mp.mpf(float(x)) for x in arguments))
                exact.append(mp.re(value) if mp.isfinite(value) else None)
        except (ArithmeticError, ValueError, TimeoutError, NoConvergence):
            exact.append(None)
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
    return exact


def error_in_ulp(result: Any, exact: Any, dtype: str) -> float | None:
    """Error in units in the last place of the exact value; infinite for NaN and a wrong infinity; None if left out."""
    limits = np.finfo(dtype)
    if exact is None or abs(exact) < float(limits.tiny):
        return None
    if abs(exact) > float(limits.max):
        return 0.0 if np.isinf(result) and np.sign(result) == mp.sign(exact) else None
    if not np.isfinite(result):
        return np.inf
    exponent = int(mp.floor(mp.log(abs(exact), 2)))
    return float(abs(mp.mpf(float(result)) - exact) / mp.mpf(2) ** (exponent - limits.nmant))


def cell(results: Any, exact: list[Any], operands: list[np.ndarray], dtype: str) -> tuple[str, str]:
    """Largest error as text, with the share of infinite ones, and the argument where it is."""
    if isinstance(results, str):
        return "refused", results
    errors = [error_in_ulp(r, e, dtype) for r, e in zip(results, exact, strict=True)]
    finite = [(e, i) for i, e in enumerate(errors) if e is not None and np.isfinite(e)]
    infinite = [i for i, e in enumerate(errors) if e == np.inf]
    largest, place = max(finite, default=(0.0, 0))
    text = (
        f"{largest:.1f}"
        if largest < 100
        else f"{largest:.0e}".replace("e+0", "e").replace("e+", "e")
    )
    if infinite:
        text += f", no value at {len(infinite)} of {len(finite) + len(infinite)}"
        place = infinite[0]
    return text, ", ".join(f"{x[place]:.6g}" for x in operands)


HEAD = """# Accuracy of special functions

The largest errors of functions of `pellucid.scipy.special`, and of tails of `pellucid.scipy.stats`, over a grid of its
domain, beside that of jax {version}. An error is counted in units in the last place (ulp) of the exact value, which
mpmath computes with {digits} digits; 0.5 is the least possible. Arguments go down to the smallest and up to the largest
numbers of the dtype where a function is defined there. Large errors are digits lost to cancellation: far out, as in
`stats.cauchy.logcdf`, or near zeros of a function. "no value" counts NaN and infinities where the exact value is a number
of the dtype. `float32` is computed without 64-bit dtypes. Functions that have no row are not measured.
`python tools/special_errors.py` writes this table.

| function | float32 | jax | float64 | jax |
| --- | --- | --- | --- | --- |
"""


def main() -> None:
    """Writes the table, prints rows, or works for one library."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="*", default=[])
    parser.add_argument("--worker", nargs="+")
    options = parser.parse_args()
    if options.worker:
        library, dtype, *names = options.worker
        work(library, names, dtype)
        return
    rows = [r for r in ROWS if not options.only or r.name.partition("(")[0] in options.only]
    names = [row.name for row in rows]
    results = {
        key: evaluated(key[0], names, key[1]) for key in itertools.product(LIBRARIES, DTYPES)
    }
    lines = dict(measured_lines())
    for row in rows:
        cells = []
        for dtype in DTYPES:
            operands = operands_of(row, dtype)
            exact = exact_values(row, operands)
            for library in LIBRARIES:
                text, place = cell(results[library, dtype][row.name], exact, operands, dtype)
                cells.append(text)
                print(f"{row.name} {dtype} {library}: {text} at {place}", flush=True)
        lines[row.name] = f"| `{row.name}` | {' | '.join(cells)} |\n"
    head = HEAD.format(version=importlib.metadata.version("jax"), digits=DIGITS)
    TARGET.write_text(head + "".join(lines[row.name] for row in ROWS if row.name in lines))


def measured_lines() -> Iterator[tuple[str, str]]:
    """Rows of the table as it is, by function."""
    text = TARGET.read_text() if TARGET.exists() else ""
    for line in text.splitlines(keepends=True):
        if line.startswith("| `"):
            yield line.split("`")[1], line


if __name__ == "__main__":
    main()

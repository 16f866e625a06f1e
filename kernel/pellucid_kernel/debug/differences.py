"""How the results of a debugged run differ from those of the compiled one, and at which operation they begin to."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

import pellucid as pl
from pellucid.introspect.errors import EffectsError
from pellucid.introspect.evaluation import evaluated, where_rounding_begins
from pellucid.introspect.stepping import line_text


class Difference(NamedTuple):
    """How a result of the debugged run differs from that of the compiled one."""

    result: int
    """Its number among the results."""
    ulps: float
    """The largest distance of two elements, in units of the last place; 0 for results that are equal to the bit."""


class FirstDifference(NamedTuple):
    """The first operation whose results depend on whether it runs alone or within the compiled program."""

    primitive: str
    """Its name; empty where only results of the program differ, compiled without its other values."""
    line: str
    """The user's line."""
    ulps: float
    """The largest distance of two elements, in units of the last place."""
    is_exact_equal: bool = False
    """Whether none differs under `pl.exact_arithmetic()`."""

    def __str__(self) -> str:
        if not self.primitive:
            return "no single operation differs: the compiler rounds otherwise where it keeps no value between"
        line = f": {self.line}" if self.line else ""
        cure = "; under `pl.exact_arithmetic()` none does" if self.is_exact_equal else ""
        return f"they first differ at `{self.primitive}`, by {self.ulps:g} units of the last place{line}{cure}"


def differences(results: Sequence[Any], compiled: Sequence[Any]) -> list[Difference]:
    """How each result differs from that of the compiled program."""
    pairs = zip(results, compiled, strict=True)
    return [Difference(i, ulps(a, b)) for i, (a, b) in enumerate(pairs)]


def first_difference(
    program: Any, operands: Sequence[Any], max_equations: int | None = None
) -> FirstDifference | None:
    """The first operation of a program that rounds otherwise when it runs alone.

    The program is compiled once more, to give all its values, and run operation by operation; loops are compared by
    their results. None for a program that calls Python for values, has more than `max_equations`, or whose operands were
    donated.
    """
    if any(isinstance(x, pl.Array) and x.is_deleted() for x in operands):
        return None
    try:
        whole = evaluated(program, operands, is_compiled=True)
        if max_equations is not None and len(whole.jaxpr.equations) > max_equations:
            return None
        alone = evaluated(program, operands, is_compiled=False)
    except EffectsError:
        return None
    for equation, other in zip(whole.jaxpr.equations, alone.jaxpr.equations, strict=True):
        distance = _farthest(alone.results(other), whole.results(equation))
        if distance:
            break
    else:
        begin = where_rounding_begins(whole, alone, ulps)
        if begin is None:
            return FirstDifference("", "", 0.0)
        equation, distance = whole.jaxpr.equations[begin[0]], begin[1]
    is_equal = False
    if not pl.config.jax_exact_arithmetic:
        with pl.exact_arithmetic():
            again = first_difference(program, operands)
        is_equal = again is not None and not again.primitive
    return FirstDifference(equation.primitive.name, line_text(equation), distance, is_equal)


def _farthest(results: Sequence[Any], others: Sequence[Any]) -> float:
    return max(map(ulps, results, others), default=0.0)


def ulps(a: Any, b: Any) -> float:
    """The largest distance of two arrays' elements in units of the last place; infinite where one alone isn't finite.

    Of other dtypes than floating-point ones it is 0, or infinite where elements differ. Of keys the words are compared.

    >>> ulps(np.float32(1), np.nextafter(np.float32(1), np.float32(2)))
    1.0
    """
    x, y = map(_elements, (a, b))
    if x.dtype.kind == "c":
        return max(ulps(x.real, y.real), ulps(x.imag, y.imag))
    if not pl.numpy.issubdtype(x.dtype, pl.numpy.floating):
        return 0.0 if np.array_equal(x, y) else float("inf")
    differs = ~((x == y) | (np.isnan(x) & np.isnan(y)))
    x, y = x[differs], y[differs]
    if not x.size:
        return 0.0
    if not (np.isfinite(x) & np.isfinite(y)).all():
        return float("inf")
    m, n = _ordinals(x), _ordinals(y)
    # Those of numbers of both signs may be too far apart for 64 bits.
    distance = np.where((m < 0) == (n < 0), m - n, m.astype(np.float64) - n)
    return float(np.abs(distance).max())


def _elements(x: Any) -> Any:
    is_key = pl.numpy.issubdtype(getattr(x, "dtype", np.float32), pl.dtypes.extended)
    return np.atleast_1d(np.asarray(pl.random.key_data(x) if is_key else x))


def _ordinals(x: Any) -> Any:
    """The numbers of floating-point numbers in their order, that of zero being 0."""
    bits = x.view(f"u{x.dtype.itemsize}")
    sign = bits.dtype.type(1 << (8 * x.dtype.itemsize - 1))
    magnitude = (bits & ~sign).astype(np.int64)
    return np.where(bits & sign, -magnitude, magnitude)

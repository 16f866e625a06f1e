"""Functions of `scipy.optimize`, `sparse.linalg`, `spatial`, `special` and `stats` give what the reference's give."""

from __future__ import annotations

import builtins
import re
import zlib

import numpy as np
import pytest
from corpus.scipy_answers import TEXTS
from corpus.scipy_expressions import answers, evaluate
from everywhere import report

import pellucid as pl

OTHERWISE = {
    r"special\.(log_ndtr|ndtri?|spence)\((1\)|jnp\.array\(\[(0\.25|0, 1))": "integers and bfloat16 are taken; there TypeErrors",
    r"special\.multigammaln\(3\.0, 2\.5": "a number of dimensions that isn't whole is refused",
    r"special\.bessel_jn\(": "values; there NaN",
    r"special\.(lpmn\(|zeta\(2\))": "values; there NotImplementedErrors",
    r"stats\.(chi2|gamma|gumbel_l|vonmises)\.(log)?pdf\(jnp\.array": "0 at infinity; there NaN",
    r"stats\.truncnorm\..*float16": "float16 is taken; there a TypeError",
    r"stats\.norm\.(logpdf\(1j|cdf\(jnp\.array\(\[1, 2)": "complex numbers are refused, and scales below 0 give NaN",
    r"jnp\.round\(optimize\..*l-bfgs": "the minimum; there the search ends before it",
    r"optimize\.minimize\(jnp\.sum, \[0\.0\]": "a TypeError; there an AttributeError",
    r"optimize\.minimize\(lambda x: x \*\* 2, jnp": "a TypeError; there an IndexError",
    r"linalg\.cg\(.*jnp\.array\(\[1, 2\]\)": "integers are taken; there a TypeError",
    r"transform\.Rotation\.from_quat\(jnp\.ones\(3": "three numbers are refused as a quaternion",
    r".*Rotation\.(identity\(2|concatenate)": "several identities; there an AssertionError",
}  # fmt: skip
"""Rows, as patterns, for which the reference gives something else, and why that isn't wanted."""
TOLERANCES = {"bfloat16": 2e-2, "float16": 2e-3}
PARTS, SHARE = 16, 32
"""Parts, of which a run takes one in eight, and the share of the rows that each compares."""


def difference(text: str, expected: object) -> str | None:
    """Difference from the reference's answer in dtype, value or class of error; types may be weak in one only."""
    if isinstance(expected, str):
        try:
            evaluate(pl, text)
        except getattr(builtins, expected):
            return None
        except Exception as error:  # any: it is shown
            return f"{type(error).__name__}, the reference {expected}"
        return f"no error, the reference {expected}"
    [results] = answers(pl, [text])
    if isinstance(results, str) or [x[0] for x in results] != [x[0] for x in expected]:
        return f"{results}, the reference {expected}"
    for (dtype, _, ours), (_, _, theirs) in zip(results, expected, strict=True):
        tolerance = TOLERANCES.get(dtype, 1e-4)
        size = np.max(np.abs(theirs), initial=0.1, where=np.isfinite(theirs))
        if ours.shape != theirs.shape or not np.allclose(
            ours, theirs, tolerance, 0.1 * tolerance * size, equal_nan=True
        ):
            return f"{ours}, the reference {theirs}"
    return None


@pytest.mark.parametrize(
    "part", [pytest.param(i, marks=pytest.mark.rotates(i)) for i in range(PARTS)]
)
def test_values_and_errors_are_those_of_the_reference(oracle, part: int) -> None:
    texts = [
        text
        for text in TEXTS
        if zlib.crc32(text.encode()) % SHARE == part
        and not any(re.match(pattern, text) for pattern in OTHERWISE)
    ]
    expectations = oracle.call_each(answers, texts)
    report([
        f"{text}: {d}"
        for text, expected in zip(texts, expectations, strict=True)
        if (d := difference(text, expected)) is not None
    ])  # fmt: skip

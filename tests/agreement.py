"""Comparison of expressions with the reference: dtypes, weak types, values, and classes of errors.

A corpus is a module with `evaluate(jax, text)` and `answers(jax, texts)`, which gives for each expression (dtype, weak
type, elements) of its leaves, or the name of the built-in class of its error.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable
from types import ModuleType

import numpy as np
import pytest
from oracle import Oracle

import pellucid as pl

Closeness = Callable[[str, np.ndarray], tuple[float, float]]
"""Relative and absolute tolerance of a result with a dtype and expected elements."""


def assert_agrees(oracle: Oracle, corpus: ModuleType, text: str, closeness: Closeness) -> None:
    """Fail unless `text` gives here what it gives in the reference, or raises an error of the same built-in class."""
    [expected] = oracle.call_each(corpus.answers, [text])
    if isinstance(expected, str):
        with pytest.raises(getattr(builtins, expected)):
            corpus.evaluate(pl, text)
        return
    [results] = corpus.answers(pl, [text])
    assert not isinstance(results, str), results
    assert [leaf[:2] for leaf in results] == [leaf[:2] for leaf in expected]
    for (dtype, _, a), (_, _, b) in zip(results, expected, strict=True):
        np.testing.assert_allclose(a, b, *closeness(dtype, b), err_msg=text)


def called(text: str, module: str = "") -> str:
    """Name of the function that an expression calls first, of `module` if one is named."""
    return text.partition(module)[2].partition("(")[0] if module else text.partition("(")[0]

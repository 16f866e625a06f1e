"""Checks whether a derivative is non-finite only because of unselected values, by running it with masked gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import pellucid as pl
from pellucid.introspect.evaluation import Evaluation
from pellucid.introspect.traps import without_traps

CURE = "comes of what wasn't selected: under `pl.masked_gradients()` it is finite"


def cured_by_masks(
    function: Callable[..., Any], args: Any, kwargs: Any, run: Evaluation | None = None
) -> list[bool]:
    """For each result, whether it is non-finite, with all its non-finite elements finite under `masked_gradients`.

    `function` is a derivative; `run` is its run without the option, if already available. All False for programs with
    side effects, since these would be repeated.
    """
    with without_traps():
        return _is_cured(function, args, kwargs, run)


def _is_cured(
    function: Callable[..., Any], args: Any, kwargs: Any, run: Evaluation | None
) -> list[bool]:
    program: Any = pl.make_jaxpr(function)(*args, **kwargs) if run is None else None
    jaxpr = program.jaxpr if run is None else run.jaxpr
    if pl.config.jax_masked_gradients or jaxpr.effects:
        return [False] * len(jaxpr.outvars)
    plain = [
        _is_faulty(np.asarray(x))
        for x in (
            compiled_results(function, args, kwargs)
            if run is None
            else map(run.read, jaxpr.outvars)
        )
    ]
    if not any(map(np.any, plain)):
        return [False] * len(plain)
    with pl.masked_gradients():
        masked = [_is_faulty(np.asarray(x)) for x in compiled_results(function, args, kwargs)]
    return [bool(np.any(a) and not np.any(a & b)) for a, b in zip(plain, masked, strict=True)]


def compiled_results(function: Callable[..., Any], args: Any, kwargs: Any) -> list[Any]:
    """The results of a call that is compiled as a whole."""
    return pl.tree.leaves(pl.jit(lambda *xs, **ys: function(*xs, **ys))(*args, **kwargs))


def _is_faulty(x: Any) -> Any:
    is_inexact = pl.dtypes.issubdtype(x.dtype, np.inexact)
    return ~np.isfinite(x) if is_inexact else np.zeros(x.shape, bool)

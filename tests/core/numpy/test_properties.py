"""Properties of NumPy's functions over dtypes, shapes, axes, masks and special values: one program for many functions."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from corpus import array_api_table
from corpus.numpy_calls import ordinary, values
from hypothesis import given, settings, strategies as st

import pellucid as pl
import pellucid.numpy as jnp

DTYPES = ("bool", "int8", "int32", "int64", "uint8", "uint32", "float32", "float64", "complex64", "complex128")  # fmt: skip
ULP = 16
"""Units in the last place by which floating results may differ."""


def outcome(function: Callable[..., Any], *operands: Any) -> Any:
    """NumPy's result, or None where it refuses the operands."""
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return np.asarray(function(*operands))
        except (TypeError, ValueError):
            return None


def differs(ours: Any, theirs: np.ndarray, *, signed: bool = True) -> str | None:
    """Difference of a result from NumPy's: in dtype, shape, signs of zeros if `signed`, or by more than `ULP`."""
    mine = np.asarray(ours)
    if (mine.dtype, mine.shape) != (theirs.dtype, theirs.shape):
        return f"{mine.dtype}{mine.shape}, NumPy {theirs.dtype}{theirs.shape}"
    if theirs.dtype.kind in "biu":
        is_same = mine == theirs
    else:
        limits = np.finfo(theirs.dtype)
        with np.errstate(all="ignore"):
            is_same = np.isclose(mine, theirs, ULP * limits.eps, limits.tiny, True)
        if signed and theirs.dtype.kind == "f":
            is_same &= (np.signbit(mine) == np.signbit(theirs)) | (theirs != 0) | np.isnan(theirs)
    if is_same.all():
        return None
    i = tuple(np.argwhere(~is_same)[0])
    return f"{mine[i]!r}, NumPy {theirs[i]!r} at {i}"


SIGNS_OF_ZEROS = {"floor_divide", "maximum", "minimum", "remainder", "sign"}
"""Functions that give zeros of another sign than NumPy for some operands, as the reference does."""
ALGEBRAIC = {
    "bitwise_left_shift", "bitwise_right_shift", "conj", "floor_divide", "negative", "positive", "pow", "reciprocal",
    "remainder", "round", "square",
}  # fmt: skip
OTHERWISE = {
    "b": ALGEBRAIC,
    "i": {"reciprocal"},
    "u": {"reciprocal"},
    "c": {"divide", "pow"},
    "f": set(),
}
"""By kind of dtype, functions that the standard doesn't have for it, or that give other numbers by complex zeros, as the
reference's."""


@pytest.mark.parametrize("dtype", DTYPES)
def test_elementwise_functions_at_special_values(dtype) -> None:
    x = values(dtype)
    pairs = np.repeat(x, len(x)), np.tile(x, len(x))
    if x.dtype.kind in "biu":
        pairs = tuple([operand[pairs[1] != 0] for operand in pairs])
    differences = {}
    for n, operands in ((1, (x,)), (2, pairs)):
        names = [
            name
            for name in array_api_table.elementwise(n)
            if name not in OTHERWISE[x.dtype.kind]
            and outcome(getattr(np, name), *operands) is not None
        ]

        def program(*xs: Any, names: list[str] = names) -> list[Any]:
            return [getattr(jnp, name)(*xs) for name in names]

        with pl.enable_x64(True):
            results = pl.jit(program)(*operands)
        for name, ours in zip(names, results, strict=True):
            exact = operands
            if x.dtype.kind in "biu" and ours.dtype.kind == "f":
                exact = [operand.astype(ours.dtype) for operand in operands]
            theirs = outcome(getattr(np, name), *exact)
            difference = differs(ours, theirs, signed=name not in SIGNS_OF_ZEROS)
            if difference is not None:
                differences[name] = difference
    assert differences == {}


# Reductions -----------------------------------------------------------------------------------------------

REDUCTIONS = ("all", "any", "count_nonzero", "max", "mean", "min", "prod", "std", "sum", "var")
ONE_AXIS = (
    "argmax",
    "argmin",
    "argsort",
    "cumulative_sum",
    "diff",
    "flip",
    "roll",
    "sort",
)
MASKED = ("all", "any", "max", "mean", "min", "prod", "std", "sum", "var")
INITIAL = {"max": 0, "min": 9}
"""Values that masked extremes start with."""


@st.composite
def reductions(draw: Any) -> tuple[np.ndarray, Any, bool, bool]:
    """(operand, axes, keepdims, whether elements are masked)."""
    shape = draw(st.lists(st.sampled_from([0, 1, 2, 3, 5]), max_size=3))
    dtype = draw(st.sampled_from(["bool", "int32", "uint8", "float32", "float64"]))
    order = draw(st.permutations(range(len(shape))))[: draw(st.integers(0, len(shape)))]
    axes = tuple([a - len(shape) if draw(st.booleans()) else a for a in order])
    return ordinary(*shape, dtype=dtype), draw(st.sampled_from([None, axes])), draw(st.booleans()), draw(st.booleans())  # fmt: skip


@settings(max_examples=30, deadline=None, derandomize=True)
@given(reductions())
def test_reductions_over_shapes_axes_and_masks(case) -> None:
    x, axes, keepdims, is_masked = case
    options: dict[str, dict[str, Any]] = {}
    for name in MASKED if is_masked else REDUCTIONS:
        options[name] = {"axis": axes, "keepdims": keepdims}
        if is_masked:
            options[name] |= {"where": x.astype(bool)}
            options[name] |= {"initial": INITIAL[name]} if name in INITIAL else {}
    if axes is not None and len(axes) == 1 and not is_masked:
        options |= {name: {"axis": axes[0]} for name in ONE_AXIS}
        options["roll"]["shift"] = 2
    expected = {
        name: outcome(functools.partial(getattr(np, name), **kwargs), x)
        for name, kwargs in options.items()
    }
    names = [name for name, theirs in expected.items() if theirs is not None]
    with pl.enable_x64(True):
        for name in options.keys() - set(names):
            with pytest.raises((TypeError, ValueError)):
                pl.eval_shape(functools.partial(getattr(jnp, name), **options[name]), x)
        results = pl.jit(lambda x: [getattr(jnp, name)(x, **options[name]) for name in names])(x)
    differences = {}
    for name, ours in zip(names, results, strict=True):
        theirs = expected[name]
        if x.dtype.kind in "biu" and ours.dtype.kind == "f":
            theirs = theirs.astype(ours.dtype)
        if (difference := differs(ours, theirs, signed=False)) is not None:
            differences[name] = difference
    assert differences == {}

"""What differs between what a program gives in two libraries, and in its ways."""

from typing import Any

import numpy as np

import pellucid

LOOSE = ("vjp", "hvp", "jvp", "jvp of vmap", "vmap of vjp", "difference")
"""Ways that add up rounding."""
CLOSENESS = {
    "float16": 4e-3, "bfloat16": 3e-2, "float32": 3e-4, "float64": 3e-4, "complex64": 3e-4, "complex128": 3e-4,
}  # fmt: skip
"""Relative tolerances; absolute ones are 1/20 of them times the size of usual elements."""
SAME = (
    ("eager", "jit"),
    ("loop", "vmap"),
    ("loop", "scan"),
    ("eager", "wide"),
    ("vmap", "scan"),
    ("slope", "difference"),
)
"""Pairs of ways that give the same."""


PYTHON_NUMBERS = {"int": "int32", "TypedInt": "int32", "float": "float32"}
"""Dtypes of numbers as results of a compiled function; `TypedInt` is the reference's class of literals."""


def of_leaves(a: Any, b: Any, way: str = "", types: bool = True, weak: bool = True) -> str:
    """In what two lists of leaves differ; empty if they don't."""
    if len(a) != len(b):
        return f"{len(a)} and {len(b)} leaves"
    a, b = ([as_array(leaf) for leaf in leaves] for leaves in (a, b))
    for (dtype, is_weak, x), (other, other_weak, y) in zip(a, b, strict=True):
        if types and (dtype != other or (weak and is_weak != other_weak)):
            return f"types {dtype}{' weak' * is_weak}{list(x.shape)} and {other}{' weak' * other_weak}{list(y.shape)}"
        if x.shape != y.shape:
            return f"shapes {list(x.shape)} and {list(y.shape)}"
        if text := of_elements(dtype if types else other if "64" in dtype else dtype, x, y, way):
            return text
    return ""


def as_array(leaf: Any) -> Any:
    """A number of Python as the weakly typed array that it is as a result of a compiled function."""
    dtype, _, x = leaf
    number = PYTHON_NUMBERS.get(dtype)
    return leaf if number is None else (number, True, x)


def of_elements(dtype: str, x: np.ndarray, y: np.ndarray, way: str) -> str:
    """In what two arrays of one dtype differ."""
    if x.dtype.kind in "USO" or y.dtype.kind in "USO":
        return "" if np.array_equal(x, y) else f"{x} and {y}"
    if dtype not in CLOSENESS:
        n = int((x != y).sum()) - int(
            (np.isnan(x) & np.isnan(y)).sum() if x.dtype.kind == "f" else 0
        )
        return (
            f"{n} of {x.size} {dtype} elements: {x.ravel()[:12]} and {y.ravel()[:12]}" if n else ""
        )
    if x.dtype.kind == "c" or y.dtype.kind == "c":
        return of_elements(dtype, x.real, y.real, way) or of_elements(dtype, x.imag, y.imag, way)
    x, y = np.asarray(x, np.float64).ravel(), np.asarray(y, np.float64).ravel()
    relative = CLOSENESS[dtype] * (5 if way in LOOSE else 1)
    finite = np.isfinite(x) & np.isfinite(y)
    with np.errstate(all="ignore"):
        usual = np.median(np.abs(y[np.isfinite(y)])) if np.isfinite(y).any() else 0
        bound = relative * np.abs(y) + relative * 0.05 * min(max(usual, 1e-3), 100)
        wrong = np.where(finite, np.abs(x - y) > bound, ~((x == y) | (np.isnan(x) & np.isnan(y))))
        # Overflow may come one step earlier.
        limit = 6e4 if dtype == "float16" else 3.3e38
        wrong &= ~((np.abs(x) >= limit) & (np.abs(y) >= limit) & (np.sign(x) == np.sign(y)))
    if not wrong.any():
        return ""
    at = np.flatnonzero(wrong)[:4]
    return f"{int(wrong.sum())} of {x.size} {dtype} at {at.tolist()}: {x[at]} and {y[at]}"


def builtin_kinds(failure: str) -> list[str]:
    """Names of the built-in classes that catch an error of ours, which is a text of `drawn.programs.failure`."""
    name, nearest, _ = failure.split(" | ", 2)
    kind = getattr(pellucid.errors, name, None)
    return [nearest] if kind is None else [c.__name__ for c in kind.__mro__]


def problems(ours: Any, theirs: Any) -> list[str]:
    """A line for each way in which results differ from the reference's, or from those of another way."""
    if ours is None or theirs is None:
        return (
            [f"{'we' if ours is None else 'jax'} ended the process"] if ours is not theirs else []
        )
    texts = []
    for way, expected in theirs.items():
        if way not in ours:
            texts.append(f"{way}: only pellucid: {ours}")
            continue
        found = ours[way]
        if isinstance(expected, str) and isinstance(found, str):
            if expected.split(" | ")[1] not in ("Exception", *builtin_kinds(found)):
                texts.append(f"{way}: ERRORS {found} AND {expected}")
        elif isinstance(expected, str):
            texts.append(f"{way}: ONLY JAX RAISES {expected}")
        elif isinstance(found, str):
            texts.append(f"{way}: ONLY PELLUCID RAISES {found}")
        elif text := of_leaves(found, expected, way):
            texts.append(f"{way}: DIFFERS {text}")
    for a, b in SAME:
        x, y = ours.get(a), ours.get(b)
        if b == "difference" and isinstance(x, str):  # a rule for one mode only
            continue
        if isinstance(x, list) and isinstance(y, list):
            if text := of_leaves(x, y, b, types=b != "wide", weak=False):
                texts.append(f"{a} IS NOT {b}: {text}")
        elif (
            x is not None
            and y is not None
            and isinstance(x, str) != isinstance(y, str)
            and not any(isinstance(theirs.get(way), str) for way in (a, b))
        ):
            texts.append(
                f"{a} IS NOT {b}: {x if isinstance(x, str) else 'works'} AND {y if isinstance(y, str) else 'works'}"
            )
    if isinstance(pair := ours.get("adjoint"), list) and (
        text := of_leaves(pair[:1], pair[1:], "vjp", types=False)
    ):
        texts.append(f"ADJOINT: {text}")
    return texts

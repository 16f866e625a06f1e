"""Values of arguments by a type such as `float32[4,3]` and a kind such as `edges`, equal in every process."""

import re
from typing import Any

import ml_dtypes
import numpy as np

EDGES = (
    0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 2.0, -2.0, 1.5, -1.5, 2.5, 3.0, 0.25, np.inf, -np.inf, np.nan, 1e-3, -1e-3, 10.0, -10.0, 30.5,
    100.0, -100.0, 171.0, 1e4, 1e10, -1e10, 1e-10, 1e30, 1e-30, 1e-42, 3.3e38,
)  # fmt: skip
"""Numbers at which functions have poles, limits, ties or overflow."""


def dtype_of(name: str) -> Any:
    """The dtype of a name, those of `ml_dtypes` too."""
    return np.dtype(getattr(ml_dtypes, name, name))


def parse(text: str) -> tuple[Any, tuple[int, ...], str]:
    """(dtype, shape, kind) of an argument such as `float32[4,3] normal`."""
    match = re.fullmatch(r"(\w+)\[([\d,]*)\] ?(\w*)", text.strip())
    assert match, text
    shape = tuple(int(n) for n in match[2].split(",") if n)
    return dtype_of(match[1]), shape, match[3] or "normal"


def value(text: str, seed: int) -> np.ndarray:
    """An argument's value."""
    dtype, shape, kind = parse(text)
    generator = np.random.default_rng(seed)
    found = np.asarray(KINDS[kind](generator, shape, dtype))
    if dtype.kind == "c" and kind in ("normal", "spd", "regular", "unit"):
        found = found + 1j * generator.uniform(-1, 1, shape) * (0.3 if kind != "spd" else 0)
    with np.errstate(all="ignore"):
        return np.asarray(found).astype(dtype).reshape(shape)


def _normal(generator: Any, shape: Any, dtype: Any) -> Any:
    if dtype.kind == "b":
        return generator.random(shape) > 0.5
    if dtype.kind in "iu":
        return generator.integers(0 if dtype.kind == "u" else -9, 10, shape)
    return generator.standard_normal(shape) * 1.3


def _edges(generator: Any, shape: Any, dtype: Any) -> Any:
    if dtype.kind in "iu":
        low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
        around = [low, low + 1, high, high - 1, 0, 1, 2, 3, 7, high // 2]
        return np.array(
            [int(v) for v in generator.choice(np.array(around, object), int(np.prod(shape)))],
            object,
        )
    return generator.choice(np.array(EDGES), shape)


def _around(generator: Any, shape: Any, dtype: Any) -> Any:
    """Halves of whole numbers, and their neighbours."""
    return generator.integers(-8, 9, shape) / 2 + generator.choice([0, 0, 1e-3, -1e-6], shape)


def _spd(generator: Any, shape: Any, dtype: Any) -> Any:
    a = generator.standard_normal(shape)
    return a @ np.swapaxes(a, -1, -2) + 2 * np.eye(shape[-1])


def _regular(generator: Any, shape: Any, dtype: Any) -> Any:
    return generator.standard_normal(shape) + 3 * np.eye(*shape[-2:])


def _nans(generator: Any, shape: Any, dtype: Any) -> Any:
    special = [np.nan, -np.nan, 0.0, -0.0, np.inf, -np.inf, 1.0, 1.0, -1.0]
    found = generator.choice(special, shape)
    return np.where(generator.random(shape) < 0.4, generator.standard_normal(shape), found)


KINDS: Any = {
    "normal": _normal,
    "positive": lambda g, s, d: g.uniform(0.3, 4, s),
    "unit": lambda g, s, d: g.uniform(0.05, 0.95, s),
    "signed": lambda g, s, d: g.uniform(-0.95, 0.95, s),
    "wide": lambda g, s, d: g.choice([-1, 1], s) * np.exp(g.uniform(-12, 8, s)),
    "large": lambda g, s, d: g.uniform(5, 150, s),
    "edges": _edges,
    "around": _around,
    "nans": _nans,
    "ties": lambda g, s, d: g.integers(0, 3, s) - (d.kind != "u"),
    "ascending": lambda g, s, d: np.cumsum(g.integers(1, 4, s), -1),
    "counts": lambda g, s, d: g.integers(0, 6, s),
    "small": lambda g, s, d: g.integers(1, 4, s),
    "index": lambda g, s, d: g.integers(-6, 7, s),
    "within": lambda g, s, d: g.integers(0, 3, s),
    "spd": _spd,
    "regular": _regular,
    "seed": lambda g, s, d: g.integers(0, 2**31 - 1, s),
    "zero": lambda g, s, d: np.zeros(s),
    "sparse": lambda g, s, d: np.where(g.random(s) < 0.5, g.standard_normal(s), 0),
}  # fmt: skip
"""How values of each kind are made; floats of the normal kind are rarely near an integer."""

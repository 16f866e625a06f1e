"""Random directions in which rows are differentiated."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pellucid.base import dtypes
from pellucid.ir.rules import Zero
from pellucid.tracing.values import type_of
from pellucid.transforms.jvp import jvp_flat
from pellucid.transforms.zeros import instantiate
from tests.laws.sample import Sample


def inexact(aval: Any) -> bool:
    """Whether values of type `aval` have tangents."""
    return dtypes.is_inexact(aval.dtype)


def inexact_results(results: Sequence[Any]) -> list[Any]:
    """Those of `results` that have tangents."""
    return [r for r in results if inexact(type_of(r))]


def direction(sample: Sample, seed: int) -> list[Any]:
    """A random tangent in double precision for each operand; None for those that have none."""
    rng = np.random.default_rng(seed)
    found = []
    for x in sample.precise_arguments:
        x = np.asarray(x)
        if not dtypes.is_inexact(x.dtype):
            found.append(None)
            continue
        t = rng.uniform(0.5, 1.5, x.shape) * rng.choice([-1.0, 1.0], x.shape)
        if x.dtype.kind == "c":
            t = t + 1j * rng.uniform(-1, 1, x.shape)
        found.append(np.asarray(t, x.dtype))
    return found


def forward(sample: Sample, mask: tuple[bool, ...], points: Any, tangents: Any) -> tuple[list[Any], list[Any]]:
    """Results with floating elements, and their tangents."""
    given = [t if m else Zero(type_of(p).tangent()) for p, t, m in zip(points, tangents, mask, strict=True)]
    results, out = jvp_flat(sample.function, points, given)
    pairs = [(r, instantiate(t)) for r, t in zip(results, out, strict=True) if inexact(type_of(r))]
    return [r for r, _ in pairs], [t for _, t in pairs]

"""Derivatives of rows, and random directions for them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pellucid._machine.base import dtypes
from pellucid._machine.ir.rules import Zero
from pellucid._machine.primitives.creation import instantiate
from pellucid._machine.tracing.operands import type_of
from pellucid._machine.transforms.jvp import jvp_flat
from pellucid._machine.transforms.linearize import linearize_flat
from pellucid._machine.transforms.transpose import backward_pass
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


def tangents_of(
    function: Any, points: Sequence[Any], tangents: Sequence[Any], mask: Sequence[bool]
) -> list[Any]:
    """Tangents of the floating results of `function`, where `mask` says which operands move."""
    given = [
        t if m else Zero(type_of(p).tangent())
        for p, t, m in zip(points, tangents, mask, strict=True)
    ]
    _, found, _ = jvp_flat(lambda *xs: (inexact_results(function(*xs)), []), points, given)
    return [instantiate(t) for t in found]


def linear_program(function: Any, points: Sequence[Any], mask: Sequence[bool]) -> Any:
    """The linear program from tangents of the operands in `mask` to those of the floating results."""
    _, program, _ = linearize_flat(lambda *xs: (inexact_results(function(*xs)), []), points, mask)
    return program


def cotangents_by(program: Any, cotangents: Sequence[Any]) -> list[Any]:
    """Cotangents of the operands by the transposed program, for cotangents of all floating results."""
    live = [c for c, nonzero in zip(cotangents, program.nonzero_out, strict=True) if nonzero]
    return [instantiate(c) for c in backward_pass(program.jaxpr, program.residuals, live)]

"""Each operation for which XLA exchanges elements that Shardy doesn't plan is named: over devices, with each dimension cut alone."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest

import pellucid as pl
from pellucid import analysis
from tests.laws.sample import Sample, all_samples

P = pl.P
UNNAMED = {
    # In the operation's definition of several; those that the plan has are part of what XLA makes.
    "lax.ragged_dot", "lax.ragged_dot_general",
    # Two groups of features in six parts.
    "lax.conv_general_dilated_local",
    # Six elements in four parts.
    "lax.concatenate",
}  # fmt: skip
"""Functions with an exchange that is neither planned nor named."""
NAMED = {
    # Planned between operations of their definition.
    "lax.tile", "lax.linalg.symmetric_product", "lax.ragged_dot", "lax.ragged_dot_general",
    # The operand that the result's parts follow can be cut alone.
    "lax.linalg.tridiagonal_solve", "lax.linalg.ormqr",
    # XLA moves other operands, or as much in fewer steps.
    "lax.reduce", "lax.reshape", "lax.scatter", "lax.scatter_sub",
}  # fmt: skip
"""Functions that are named though XLA exchanges no more than is planned."""
ALWAYS = {
    "lax.fft", "lax.top_k", "lax.argmax", "lax.reshape", "lax.sort", "lax.gather", "lax.slice", "lax.rev", "lax.erf",
}  # fmt: skip


def rows() -> list[Any]:
    """The first row of each function."""
    first: dict[str, Sample] = {}
    for sample in all_samples():
        if not sample.needs_x64:
            first.setdefault(sample.function_name, sample)
    return [
        pytest.param(sample, marks=[] if name in ALWAYS else [pytest.mark.rotates], id=name)
        for name, sample in first.items()
    ]


def cuts(sample: Sample) -> list[tuple[int, int, int]]:
    """(operand, dimension, number of parts) of each dimension that some devices cut evenly."""
    return [
        (i, d, parts)
        for i, x in enumerate(sample.arguments)
        for d, size in enumerate(np.shape(x))
        if (parts := max((n for n in range(2, 9) if size % n == 0), default=1)) > 1
    ]


def exchanges(sample: Sample, operand: int, dim: int, parts: int) -> tuple[bool, bool]:
    """(whether XLA exchanges more than is planned, whether an operation is named) for operands of which one is cut."""
    mesh = pl.sharding.Mesh(np.array(pl.devices()[:parts]), ("x",))
    specs = [[None] * np.ndim(x) for x in sample.arguments]
    specs[operand][dim] = "x"
    placed = tuple(pl.NamedSharding(mesh, P(*spec)) for spec in specs)
    jitted = pl.jit(lambda *xs: tuple(sample.function(*xs)), in_shardings=placed)
    record = analysis.sharding(jitted, *sample.arguments)
    arguments = [
        pl.ShapeDtypeStruct(np.shape(x), np.asarray(x).dtype, sharding=sharding)
        for x, sharding in zip(sample.arguments, placed, strict=True)
    ]
    what_if = analysis.WhatIf(lambda *xs: tuple(sample.function(*xs)), *arguments)
    kinds = [Counter(e.operation for e in each) for each in (record.collectives, record.planned)]
    sent = [sum(e.bytes_per_device for e in each) for each in (record.collectives, record.planned)]
    is_more = bool(kinds[0] - kinds[1]) and sent[0] > sent[1]
    return is_more, bool(what_if.estimate(what_if.today).uncounted)


@pytest.mark.parametrize("sample", rows())
def test_exchanges_that_no_plan_has_are_named(sample: Sample) -> None:
    name = sample.function_name
    for cut in cuts(sample):
        is_more, is_named = exchanges(sample, *cut)
        if is_more and name not in UNNAMED:
            assert is_named, cut
        if is_named and name not in NAMED:
            assert is_more, cut

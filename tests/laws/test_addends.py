"""An operation that accepts addends gives what it gives for their sum.

Devices hold two different addends of one operand, or of all; the others are whole, or reduced over the same axis.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import pellucid
from pellucid._machine.primitives.families import kind_of
from pellucid._machine.primitives.movement import reduce_sum
from pellucid._machine.primitives.reshard import reshard
from pellucid._machine.sharding.errors import ShardingTypeError
from pellucid.sharding import AxisType, Mesh, PartitionSpec as P
from tests.laws.compare import assert_close
from tests.laws.sample import Sample, families


@pytest.fixture(scope="module")
def mesh() -> Iterator[Mesh]:
    over = pellucid.make_mesh((2, 4), ("x", "y"), axis_types=(AxisType.Explicit,) * 2)
    with pellucid.set_mesh(over):
        yield over


def rows(family: str) -> dict[str, Sample]:
    """One row for each primitive that is all of its program, with numbers to add and of 32 bits at most."""
    found: dict[str, Sample] = {}
    for sample in families()[family]:
        if not sample.needs_x64 and variants(sample):
            names = sample.primitives()
            if len(names) == 1:
                found.setdefault(names.pop(), sample)
    return found


def variants(sample: Sample) -> list[tuple[str, ...]]:
    """What each operand is: addends, reduced, or whole. Of several, one holds addends, or all that are no indices."""
    kinds = [kind_of(o.dtype) for o in sample.operands]
    can_add = [
        kind not in ("bool", "key") and not operand.python
        for kind, operand in zip(kinds, sample.operands, strict=True)
    ]
    n = len(kinds)
    others = ("whole", "reduced") if n > 1 else ("whole",)
    alone = [
        tuple("addends" if i == j else other for j in range(n))
        for i in range(n)
        if can_add[i]
        for other in others
    ]
    inexact = [kind in ("floating", "complex") for kind in kinds]
    some = inexact if any(inexact) else can_add
    together = tuple("addends" if holds else "whole" for holds in some)
    return alone if together in alone or "addends" not in together else [*alone, together]


def given(sample: Sample, variant: tuple[str, ...]) -> list[np.ndarray]:
    """For addends two parts, stacked; for others the operand."""
    rng = np.random.default_rng(0)
    operands = []
    for x, kind in zip(sample.arguments, variant, strict=True):
        x = np.asarray(x)
        if kind == "addends":
            part = (
                rng.integers(-3, 3, x.shape) if x.dtype.kind in "iu" else rng.normal(size=x.shape)
            )
            part = part.astype(x.dtype)
            x = np.stack([part, (x - part).astype(x.dtype)])
        operands.append(x)
    return operands


def of_addends(sample: Sample, variant: tuple[str, ...]) -> Callable[..., list[Any]]:
    """The row's function of operands of these kinds; its results are summed."""

    def held(x: Any, kind: str) -> Any:
        if kind == "whole":
            return x
        if kind == "reduced":
            return reshard(x, P(reduced={"x"}))
        return reduce_sum(reshard(x, P("x")), (0,), out_sharding=P(unreduced={"x"}))

    def summed(x: Any) -> Any:
        return reshard(x, pellucid.typeof(x).sharding.spec.update(unreduced=set(), reduced=set()))

    return lambda *operands: list(map(summed, sample.function(*map(held, operands, variant))))


LINEAR = {
    "arithmetic": {"neg", "add", "sub", "mul", "div"},
    "barrier": {"optimization_barrier"},
    "broadcasting": {"broadcast_in_dim", "reduce_sum"},
    "complex_parts": {"real", "imag", "conj", "complex"},
    "concatenation": {"concatenate", "stack", "split", "unstack", "tile"},
    "contraction": {"dot_general"},
    "conversion": {"convert_element_type", "copy"},
    "convolution": {"conv_general_dilated"},
    "cumulative": {"cumsum"},
    "fourier": {"fft"},
    "gather_and_scatter": {"gather", "scatter-add"},
    "movement": {"transpose", "rev", "reshape", "squeeze"},
    "padding": {"slice", "pad"},
    "slicing": {"dynamic_slice", "dynamic_update_slice"},
    "windows": {"reduce_window_sum"},
}
"""Of families in which some rows are linear, primitives that must accept addends."""


@pytest.mark.parametrize("family", sorted(families()))
def test_an_operation_on_addends_is_that_on_their_sum(family: str, mesh: Mesh) -> None:
    accepted: list[tuple[str, Sample, tuple[str, ...]]] = []
    for name, sample in rows(family).items():
        for variant in variants(sample):
            try:
                pellucid.eval_shape(of_addends(sample, variant), *given(sample, variant))
            except ShardingTypeError:
                continue
            accepted.append((name, sample, variant))
    missing = LINEAR.get(family, set()) - {name for name, *_ in accepted}
    assert not missing

    def all_of_them(operands: list[Any]) -> list[Any]:
        return [of_addends(s, v)(*xs) for (_, s, v), xs in zip(accepted, operands, strict=True)]

    operands = [given(sample, variant) for _, sample, variant in accepted]
    for (_, sample, variant), xs, results in zip(
        accepted, operands, pellucid.jit(all_of_them)(operands), strict=True
    ):
        whole = [
            x.sum(0, dtype=x.dtype) if kind == "addends" else x
            for x, kind in zip(xs, variant, strict=True)
        ]
        for got, expected in zip(results, sample.function(*whole), strict=True):
            assert_close(got, expected, sample.tolerance, f"{sample}, {variant}")

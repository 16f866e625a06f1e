"""The factors of a batched equation are those of the equation, and one more: that of the batch axis."""

from __future__ import annotations

from typing import Any

import pytest

import pellucid
from pellucid._machine.ir.avals import shaped_array
from pellucid._machine.ir.primitive import Primitive
from pellucid._machine.sharding.explicit_types import FactorRule, rule_of
from pellucid._machine.tracing.operands import type_of
from pellucid._machine.tracing.staging import stage
from tests.laws.sample import Sample, families

APART = {"conv_general_dilated"}
"""Primitives whose batch axis joins a dimension that is there."""
BATCH = 5


def only_equation(function: Any, avals: list[Any]) -> Any:
    """The equation that is all of the program of `function`, or None."""
    jaxpr, _ = stage(function, avals)
    return jaxpr.equations[0] if len(jaxpr.equations) == 1 else None


def rule_for(equation: Any) -> FactorRule | None:
    operands = tuple([atom.aval for atom in equation.operands])
    results = [var.aval for var in equation.results]
    if type(equation.primitive).factors is Primitive.factors:
        return None  # it has no rule
    factors = equation.primitive.factors(operands, results, equation.params)
    return None if factors is None else rule_of(factors)


def shape_of(rule: FactorRule) -> list[Any]:
    """The rule with factors numbered in order of appearance, so that equal shapes are equal rules."""
    numbers: dict[str, int] = {}
    return [
        [
            tuple((numbers.setdefault(f, len(numbers)), "".join(sorted(rule.marks.get(f, "")))) for f in dim)
            for dim in dims
        ]
        for side in (rule.operands, rule.results)
        for dims in side
    ]  # fmt: skip


def without(rule: FactorRule, factor: str) -> FactorRule:
    sides = [
        tuple(tuple(dim for dim in dims if dim != (factor,)) for dims in side)
        for side in (rule.operands, rule.results)
    ]
    return rule._replace(operands=sides[0], results=sides[1])


def pairs(family: str) -> list[tuple[Sample, FactorRule, FactorRule]]:
    """For one row of each primitive, the rules of its equation and of the batched one."""
    found: dict[str, tuple[Sample, FactorRule, FactorRule]] = {}
    for sample in families()[family]:
        avals = [type_of(x) for x in sample.arguments]
        if sample.needs_x64 or not sample.batched or not all(a.ndim and a.size for a in avals):
            continue
        equation = only_equation(sample.function, avals)
        if equation is None or equation.primitive.name in {*found, *APART}:
            continue
        if not all(atom.aval.ndim for atom in equation.operands):
            continue  # a scalar that is batched has dimensions of size 1 beside the batch axis
        rule = rule_for(equation)
        if rule is None:
            continue
        batched = only_equation(
            lambda *xs, f=sample.function: [*pellucid.vmap(lambda *ys: tuple(f(*ys)))(*xs)],
            [shaped_array((BATCH, *a.shape), a.dtype) for a in avals],
        )
        if batched is not None and batched.primitive is equation.primitive:
            more = rule_for(batched)
            assert more is not None
            found[equation.primitive.name] = sample, rule, more
    return list(found.values())


@pytest.mark.parametrize("family", sorted(families()))
def test_a_batch_axis_is_one_factor_more(family: str) -> None:
    for sample, rule, batched in pairs(family):
        factors = {f for dims in batched.results for dim in dims for f in dim}
        assert any(shape_of(without(batched, f)) == shape_of(rule) for f in factors), (
            f"{sample}: {rule}; batched: {batched}"
        )


def test_most_primitives_are_looked_at() -> None:
    names = (
        "arithmetic",
        "broadcasting",
        "contraction",
        "gather_and_scatter",
        "movement",
        "sorting",
    )
    assert all(pairs(family) for family in names)

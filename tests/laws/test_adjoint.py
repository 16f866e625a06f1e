"""Reverse mode is the adjoint of forward mode: ⟨J t, c⟩ = ⟨t, Jᵀ c⟩; the linear program is J."""

from typing import Any

import numpy as np
import pytest

from pellucid.ir.rules import LinearOperand, Zero
from pellucid.tracing.replay import replay
from pellucid.tracing.values import type_of
from pellucid.transforms.linearize import linearize_flat
from pellucid.transforms.transpose import backward_pass
from pellucid.transforms.zeros import instantiate
from tests.laws.compare import assert_close, pairing
from tests.laws.directions import direction, forward, inexact_results
from tests.laws.sample import Sample, differentiable_samples


def cotangents_for(sample: Sample, tangents: Any) -> list[Any]:
    """A random cotangent for each tangent of a result."""
    rng = np.random.default_rng(7)
    found = []
    for t in tangents:
        aval = type_of(t)
        value = rng.uniform(-1, 1, aval.shape)
        if aval.dtype.kind == "c":
            value = value + 1j * rng.uniform(-1, 1, aval.shape)
        found.append(np.asarray(value, aval.dtype))
    return found


def reverse_task(sample: Sample):
    """For each mask: tangents by jvp, tangents by the linear program, cotangents of results and of operands."""
    points, tangents = sample.precise_arguments, direction(sample, 1)

    def function(*points: Any) -> list[Any]:
        found: list[Any] = []
        for mask in sample.masks():
            _, by_jvp = forward(sample, mask, points, tangents)
            primals, linear = linearize_flat(lambda *xs: inexact_results(sample.function(*xs)), points, mask)
            given = [t for t, m in zip(tangents, mask, strict=True) if m]
            live = iter(replay(linear.jaxpr, linear.residuals, *given))
            by_program = [
                next(live) if nonzero else instantiate(Zero(type_of(p).tangent()))
                for p, nonzero in zip(primals, linear.nonzero_out, strict=True)
            ]
            cts = cotangents_for(sample, by_program)
            live_cts = [ct for ct, nonzero in zip(cts, linear.nonzero_out, strict=True) if nonzero]
            operands = [LinearOperand(v.aval) for v in linear.jaxpr.invars]
            back = [instantiate(ct) for ct in backward_pass(linear.jaxpr, linear.residuals, operands, live_cts)]
            assert [type_of(b).strip_weak_type() for b in back] == [
                type_of(t).strip_weak_type() for t in given
            ]
            found += [*by_jvp, *by_program, *cts, *back]
        return found

    return function, points


@pytest.mark.parametrize("sample", differentiable_samples(), ids=str)
def test_reverse_is_the_adjoint_of_forward(sample: Sample, together) -> None:
    results = [np.asarray(r) for r in together(reverse_task, lambda s: True)]
    masks = sample.masks()
    n = (len(results) - sum(map(sum, masks))) // (3 * len(masks))
    given = iter(results)
    for mask in masks:
        by_jvp, by_program, cts = ([next(given) for _ in range(n)] for _ in range(3))
        back = [next(given) for _ in range(sum(mask))]
        for a, b in zip(by_jvp, by_program, strict=True):
            assert_close(b, a, 1e-9, f"linear program, operands {mask}")
        tangents = [t for t, m in zip(direction(sample, 1), mask, strict=True) if m]
        forward_value, reverse_value = pairing(by_program, cts), pairing(tangents, back)
        assert_close(reverse_value, forward_value, 1e-9, f"⟨J t, c⟩ = ⟨t, Jᵀ c⟩, operands {mask}")

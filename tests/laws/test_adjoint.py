"""Reverse mode is the adjoint of forward mode: ⟨J t, c⟩ = ⟨t, Jᵀ c⟩; the linear program is J."""

from typing import Any

import numpy as np
import pytest

from pellucid._machine.ir.rules import Zero
from pellucid._machine.primitives.creation import instantiate
from pellucid._machine.tracing.operands import type_of
from pellucid._machine.tracing.staging import replay
from tests.laws.compare import assert_close, pairing
from tests.laws.directions import cotangents_by, direction, linear_program, tangents_of
from tests.laws.sample import Sample, differentiable_samples


def cotangents_for(tangents: Any) -> list[Any]:
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
            by_jvp = tangents_of(sample.function, points, tangents, mask)
            program = linear_program(sample.function, points, mask)
            given = [t for t, m in zip(tangents, mask, strict=True) if m]
            live = iter(replay(program.jaxpr, program.residuals, *given))
            by_program = [
                next(live) if nonzero else instantiate(Zero(type_of(t)))
                for t, nonzero in zip(by_jvp, program.nonzero_out, strict=True)
            ]
            cts = cotangents_for(by_program)
            back = cotangents_by(program, cts)
            assert [type_of(b).strip_weak_type() for b in back] == [
                type_of(t).strip_weak_type() for t in given
            ]
            found += [*by_jvp, *by_program, *cts, *back]
        return found

    return function, points


@pytest.mark.parametrize("sample", [s for s in differentiable_samples() if s.has_reverse], ids=str)
def test_reverse_is_the_adjoint_of_forward(sample: Sample, together) -> None:
    results = [np.asarray(r) for r in together(reverse_task, lambda s: True)]
    masks = sample.masks()
    n = (len(results) - sum(map(sum, masks))) // (3 * len(masks))
    given = iter(results)
    for mask in masks:
        by_jvp, by_program, cts = ([next(given) for _ in range(n)] for _ in range(3))
        back = [next(given) for _ in range(sum(mask))]
        for a, b in zip(by_jvp, by_program, strict=True):
            assert_close(b, a, sample.adjoint_tolerance, f"linear program, operands {mask}")
        tangents = [t for t, m in zip(direction(sample, 1), mask, strict=True) if m]
        forward_value, reverse_value = pairing(by_program, cts), pairing(tangents, back)
        if not np.isfinite(forward_value):
            pytest.skip("the derivative is infinite or undefined here")
        what = f"⟨J t, c⟩ = ⟨t, Jᵀ c⟩, operands {mask}"
        assert_close(reverse_value, forward_value, sample.adjoint_tolerance, what)

"""The forward derivative is the central difference, and so is the derivative of the derivative."""

from typing import Any

import numpy as np
import pytest

from tests.laws.compare import assert_close
from tests.laws.directions import direction, inexact_results, tangents_of
from tests.laws.sample import Sample, differentiable_samples

STEP = 1e-5


def moved(points: Any, tangents: Any, mask: Any, step: float) -> list[Any]:
    """Points a little further along the tangents."""
    return [p + step * t if m else p for p, t, m in zip(points, tangents, mask, strict=True)]


def difference_task(sample: Sample):
    """For each mask: tangents; results before and behind; second tangents; tangents before and behind."""
    points = sample.precise_arguments
    first, second = direction(sample, 1), direction(sample, 2)
    leaves = []
    for mask in sample.masks():
        leaves += [*points, *moved(points, second, mask, STEP), *moved(points, second, mask, -STEP)]
        leaves += [*moved(points, first, mask, STEP), *moved(points, first, mask, -STEP)]

    def function(*given: Any) -> list[Any]:
        given = iter(given)
        n = len(points)
        found: list[Any] = []
        for mask in sample.masks():
            here, after2, before2, after1, before1 = (
                [next(given) for _ in range(n)] for _ in range(5)
            )
            tangents_at = lambda *xs, mask=mask: tangents_of(sample.function, xs, first, mask)
            found += tangents_at(*here)
            found += inexact_results(sample.function(*after1)) + inexact_results(
                sample.function(*before1)
            )
            found += tangents_of(tangents_at, here, second, mask)
            found += tangents_at(*after2) + tangents_at(*before2)
        return found

    return function, leaves


@pytest.mark.parametrize("sample", [s for s in differentiable_samples() if s.smooth], ids=str)
def test_forward_derivative_is_the_central_difference(sample: Sample, together) -> None:
    results = [np.asarray(r) for r in together(difference_task, lambda s: True)]
    masks = sample.masks()
    n = len(results) // (6 * len(masks))
    for i, mask in enumerate(masks):
        part = results[6 * n * i : 6 * n * (i + 1)]
        tangents, after, before, second, after2, before2 = (
            part[n * k : n * (k + 1)] for k in range(6)
        )
        for k in range(n):
            slope = (after[k] - before[k]) / (2 * STEP)
            assert_close(tangents[k], slope, sample.derivative_tolerance, f"first, operands {mask}")
            slope = (after2[k] - before2[k]) / (2 * STEP)
            assert_close(second[k], slope, sample.derivative_tolerance, f"second, operands {mask}")

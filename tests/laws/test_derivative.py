"""The forward derivative is the central difference, and so is the derivative of the derivative."""

from typing import Any

import numpy as np
import pytest

from tests.laws.compare import assert_close
from tests.laws.directions import direction, inexact_results, tangents_of
from tests.laws.sample import Sample, differentiable_samples

STEP = 1e-5


MOVES = ((0, 0), (1, 1), (1, -1), (2, 1), (2, -1))
"""Where the program of a row is called: (number of the direction, steps along it)."""


def difference_task(sample: Sample):
    """For each mask: results, tangents along the first direction, and their tangents along the second; at each move."""
    points = sample.precise_arguments
    first, second = direction(sample, 1), direction(sample, 2)

    def function(*points_of_masks: Any) -> list[Any]:
        found: list[Any] = []
        for i, mask in enumerate(sample.masks()):
            here = points_of_masks[i * len(points) : (i + 1) * len(points)]
            tangents_at = lambda *xs, mask=mask: tangents_of(sample.function, xs, first, mask)
            found += inexact_results(sample.function(*here))
            found += tangents_at(*here) + tangents_of(tangents_at, here, second, mask)
        return found

    def moved(number: int, steps: int) -> list[Any]:
        tangents = (None, first, second)[number]
        return [
            p + STEP * steps * tangents[i] if tangents and m else p
            for mask in sample.masks()
            for i, (p, m) in enumerate(zip(points, mask, strict=True))
        ]

    return function, *(moved(*move) for move in MOVES)


@pytest.mark.parametrize("sample", [s for s in differentiable_samples() if s.smooth], ids=str)
def test_forward_derivative_is_the_central_difference(sample: Sample, together) -> None:
    results = [np.asarray(r) for r in together(difference_task, lambda s: True)]
    masks = sample.masks()
    n = len(results) // (3 * len(masks) * len(MOVES))
    # Axes: moves, masks, (results, first tangents, second tangents), results of the function.
    at = iter(results)
    values = [[[[next(at) for _ in range(n)] for _ in range(3)] for _ in masks] for _ in MOVES]
    for i, mask in enumerate(masks):
        here, ahead, behind, ahead_second, behind_second = (of_move[i] for of_move in values)
        for k in range(n):
            slope = (ahead[0][k] - behind[0][k]) / (2 * STEP)
            assert_close(here[1][k], slope, sample.derivative_tolerance, f"first, operands {mask}")
            slope = (ahead_second[1][k] - behind_second[1][k]) / (2 * STEP)
            assert_close(here[2][k], slope, sample.derivative_tolerance, f"second, operands {mask}")

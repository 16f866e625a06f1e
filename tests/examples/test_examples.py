"""Every program of examples/ runs, and its losses are those of the reference when its imports are changed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from corpus.example_runs import losses

import pellucid

FOLDER = Path(__file__).parents[2] / "examples"
STEPS = {
    "digits_from_scratch": 20, "digits_sharded": 12, "digits_with_nn": 10, "gaussian_process": 12,
    "kalman_filter": 20, "kernel_least_squares": 12, "language_model": 4, "neural_ode": 4, "private_sgd": 10,
    "variational_autoencoder": 12, "variational_inference": 12,
}  # fmt: skip
EVERY_RUN = {"kalman_filter"}


def test_every_example_has_a_row() -> None:
    assert {path.stem for path in FOLDER.glob("*.py")} == STEPS.keys()


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[] if name in EVERY_RUN else [pytest.mark.rotates])
        for name in STEPS
    ],
)
def test_losses_are_those_of_the_reference(oracle_8_devices, capsys, name: str) -> None:
    source = (FOLDER / f"{name}.py").read_text(encoding="utf-8")
    assert 'if __name__ == "__main__":' in source
    ours = losses(pellucid, source, STEPS[name])
    assert "loss" in capsys.readouterr().out
    assert len(ours) == STEPS[name]
    assert ours[-1] < ours[0]
    theirs = oracle_8_devices.call(losses, source, STEPS[name], timeout=600)
    np.testing.assert_allclose(ours, theirs, rtol=2e-4)

"""Operations that the host computes: what programs say of them, and mistakes."""

import numpy as np
import pytest

import pellucid as pl
from pellucid._machine.base.errors import ArgumentValueError, UnsupportedError
from pellucid.experimental.compute_on import compute_on


def test_operations_are_marked_and_results_stay() -> None:
    @pl.jit
    def f(x):
        with compute_on("device_host"):
            y = x * 2
            with compute_on("device"):
                y = pl.lax.sin(y)
        return y + 1

    x = np.float32(0.5)
    np.testing.assert_allclose(f(x), np.sin(1) + 1, rtol=1e-6)
    text = f.lower(x).as_text()
    marked = {
        line.split("stablehlo.")[1].split()[0]
        for line in text.splitlines()
        if "_xla_compute_type" in line
    }
    assert "multiply" in marked
    assert not {"sine", "add"} & marked


def test_streams_are_refused() -> None:
    with pytest.raises(UnsupportedError, match="gpu_stream:3"):
        compute_on("gpu_stream:3")


@pytest.mark.parametrize("unit", ["moon", 3])
def test_unknown_units(unit) -> None:
    with pytest.raises(ArgumentValueError, match="doesn't know this unit"):
        compute_on(unit)

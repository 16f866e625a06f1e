"""Operations that the host computes: what programs say of them, and mistakes."""

import numpy as np
import pytest

import pellucid as pl
from pellucid._machine.base.errors import ArgumentValueError, UnsupportedError
from pellucid.experimental.compute_on import compute_on, compute_on2


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


DEVICE, HOST = pl.memory.Space.Device, pl.memory.Space.Host


def test_results_lie_where_they_are_wanted() -> None:
    spaces = {"doubled": DEVICE, "as it was": HOST}

    @compute_on2(compute_type="device_host", out_memory_spaces=spaces)
    def f(x, y):
        return {"doubled": x * 2 + y, "as it was": x}

    results = pl.jit(f)(1.5, 1.0)
    assert {name: float(x) for name, x in results.items()} == {"doubled": 4, "as it was": 1.5}
    at = {name: pl.typeof(x).memory_space or DEVICE for name, x in f(1.5, 1.0).items()}
    assert at == spaces
    assert '_xla_compute_type = "host"' in pl.jit(f).lower(1.5, 1.0).as_text()
    assert float(pl.grad(lambda x: f(x, x)["doubled"])(1.0)) == 3
    rows = np.arange(3, dtype=np.float32)
    np.testing.assert_array_equal(pl.vmap(f)(rows, rows)["doubled"], 3 * rows)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"compute_type": "moon", "out_memory_spaces": DEVICE}, "doesn't know this unit"),
        ({"compute_type": "device", "out_memory_spaces": None}, "needs the memory spaces"),
        ({"compute_type": "device", "out_memory_spaces": {"a": "host"}}, "needs the memory spaces"),
        ({"compute_type": "device", "out_memory_spaces": DEVICE, "compiler_options": {"a": 1}}, "no compiler options"),
    ],
)  # fmt: skip
def test_what_is_no_unit_and_no_space_is_refused(options, message) -> None:
    with pytest.raises((ValueError, TypeError, UnsupportedError), match=message):
        compute_on2(np.sin, **options)

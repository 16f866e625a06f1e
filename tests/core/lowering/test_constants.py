"""Constants of a module hold exactly the elements that they were given."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from pellucid._machine.lowering.operations import OperationBuilder
from pellucid._machine.xla.mlir import ir, new_context

ELEMENTS = ([0, 1, 1], [1, 1, 1], [0], [1], [1, 0] * 5, [[0, 1], [1, 0]])


def constant_text(array: np.ndarray) -> str:
    """The attribute of `array` as a constant, as text."""
    context = new_context()
    with context, ir.Location.unknown(context):
        module = ir.Module.create()
        with ir.InsertionPoint(module.body):
            value = OperationBuilder(context, ("cpu",)).constant(array)
        return str(value.owner.attributes["value"])


@pytest.mark.parametrize("dtype", [np.int32, np.uint8, ml_dtypes.int4])
@pytest.mark.parametrize("elements", ELEMENTS, ids=str)
def test_integers_are_kept(elements, dtype) -> None:
    text = constant_text(np.array(elements).astype(dtype))
    assert spelled_out(text, np.shape(elements)) == str(elements)


@pytest.mark.parametrize("elements", ELEMENTS, ids=str)
def test_bools_are_kept(elements) -> None:
    text = constant_text(np.array(elements, bool))
    assert spelled_out(text.replace("true", "1").replace("false", "0"), np.shape(elements)) == str(
        elements
    )


@pytest.mark.parametrize(
    "dtype", [np.float32, np.float16, np.float64, ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn]
)
@pytest.mark.parametrize("elements", ELEMENTS, ids=str)
def test_floating_numbers_are_kept(elements, dtype) -> None:
    text = constant_text(np.array(elements).astype(dtype)).replace(".000000e+00", "")
    assert spelled_out(text, np.shape(elements)) == str(elements)


def spelled_out(text: str, shape: tuple[int, ...]) -> str:
    """The elements in `dense<elements> : type`; one that stands for all is repeated."""
    elements = text.removeprefix("dense<").split("> :")[0]
    return elements if elements.startswith("[") else str(np.full(shape, int(elements)).tolist())

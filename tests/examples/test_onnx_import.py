"""A network from an ONNX file computes what ONNX's own reference computes, and is differentiated."""

from __future__ import annotations

import runpy
from pathlib import Path

import numpy as np
import pytest

import pellucid as pl
import pellucid.numpy as jnp

EXAMPLE = Path(__file__).parents[2] / "examples" / "onnx_import" / "read_onnx.py"
PROGRAM = runpy.run_path(str(EXAMPLE))
# Written by the package onnx 1.23.2: Conv, BatchNormalization, Relu, MaxPool, Conv in groups, Tanh, AveragePool, GlobalAveragePool,
# Concat, Reshape, Transpose, Flatten, Gemm, Mul, Div, Softmax, Sub; a constant as numbers, the others as bytes.
FILE = Path(__file__).with_name("model.onnx").read_bytes()
X = np.array([0.875, -0.25, -0.125, 0.0, 1.0, -0.625, 0.0, -1.0, -0.125, 1.0, 0.25, -0.375, 1.0, 0.25, 1.0, -1.0, -0.125, 0.75, 0.5, -0.25, 0.0, -0.125, 0.0, -0.625, 0.625, -0.875, -0.125, -0.5, 0.5, 0.5, 0.5, 0.875], np.float32).reshape(2, 1, 4, 4)  # fmt: skip
# What onnx.reference.ReferenceEvaluator gives.
PROBABILITIES = np.array(
    [[0.01282191, 0.03834701, 0.94883108], [0.02677268, 0.05792503, 0.91530228]]
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    (tmp_path / "model.onnx").write_bytes(FILE)
    return tmp_path / "model.onnx"


@pytest.mark.parametrize("transform", [lambda f: f, pl.jit], ids=["eager", "jit"])
def test_results_are_those_of_onnx(path: Path, transform) -> None:
    network, params = PROGRAM["read"](path)
    names = {"b1", "b3", "bias", "gain", "half", "mean", "scale", "var", "w1", "w2", "w3"}
    assert {*params} == names
    probabilities, less = transform(network)(params, X)
    np.testing.assert_allclose(probabilities, PROBABILITIES, atol=1e-6)
    np.testing.assert_allclose(less, PROBABILITIES - 0.5, atol=1e-6)


def test_it_is_trained_further(path: Path) -> None:
    network, params = PROGRAM["read"](path)
    loss = pl.jit(lambda params: -jnp.sum(jnp.log(network(params, X)[0][:, 0])))
    gradients = pl.grad(loss)(params)
    step = 1e-3
    for name in ("w1", "scale", "w2", "b3"):
        along = np.sign(gradients[name])
        ahead, behind = [{**params, name: params[name] + d * along} for d in (step, -step)]
        difference = (loss(ahead) - loss(behind)) / (2 * step)
        np.testing.assert_allclose(difference, np.abs(gradients[name]).sum(), rtol=0.02)


def read_and_run(path: Path) -> None:
    network, params = PROGRAM["read"](path)
    network(params, X)


def exchanged(old: bytes, new: bytes) -> bytes:
    assert old in FILE
    return FILE.replace(old, new)


@pytest.mark.parametrize(
    ("data", "error", "message"),
    [
        (exchanged(b"Softmax", b"Softfax"), NotImplementedError, "no operator Softfax"),
        (exchanged(b"dilations", b"dilatioms"), NotImplementedError, "dilatioms"),
        (FILE[:-400], ValueError, "not whole"),
        (b"", ValueError, "no graph"),
    ],
)
def test_what_is_not_known_raises(path: Path, data, error, message) -> None:
    path.write_bytes(data)
    with pytest.raises(error, match=message):
        read_and_run(path)


def test_operators_keep_to_what_they_are_told() -> None:
    operators = PROGRAM["OPERATORS"]
    x = jnp.arange(16.0).reshape(1, 1, 4, 4)
    with pytest.raises(NotImplementedError, match="SAME_UPPER"):
        operators["Conv"](x, x, auto_pad="SAME_UPPER")
    with pytest.raises(NotImplementedError, match="integers"):
        operators["Div"](jnp.arange(3), jnp.arange(3))
    with pytest.raises(TypeError, match="unheard"):
        operators["Softmax"](x, unheard=1)
    counted = operators["AveragePool"](x, [2, 2], pads=[1, 1, 0, 0], count_include_pad=1)
    assert float(counted[0, 0, 0, 1]) == (0 + 1) / 4
    assert float(operators["AveragePool"](x, [2, 2], pads=[1, 1, 0, 0])[0, 0, 0, 1]) == (0 + 1) / 2


def test_inputs_are_counted(path: Path) -> None:
    network, params = PROGRAM["read"](path)
    with pytest.raises(TypeError, match="takes x, and got 2 arrays"):
        network(params, X, X)

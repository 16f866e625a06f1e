"""Functions as one kernel of cuDNN: plain elsewhere and transformed, a call in programs for GPUs."""

import re

import numpy as np
import pytest

import pellucid as pl
import pellucid.numpy as jnp
from pellucid._machine.compilation.pipeline import compile_without_devices
from pellucid._machine.xla import plugins
from pellucid.experimental.cudnn import cudnn_fusion

RNG = np.random.default_rng(0)
X, Y = (RNG.normal(size=shape).astype(np.float32) for shape in ((3, 32, 64), (64, 32)))
OFFSET = np.arange(32, dtype=np.float32)


@cudnn_fusion
def product(x, y, scale=2.0):
    return {"sum": x @ (y * scale) + OFFSET}


plain = lambda x, y, scale=2.0: {"sum": x @ (y * scale) + OFFSET}


def check(make, *args):
    found, expected = (pl.tree.leaves(make(f)(*args)) for f in (product, plain))
    for x, y in zip(found, expected, strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-5, atol=1e-5)


def test_values_derivatives_and_batches_are_those_of_the_function():
    check(lambda f: f, X[0], Y)
    check(lambda f: pl.jit(lambda x, y: f(x, y, scale=3.0)), X[0], Y)
    check(lambda f: pl.vmap(f, (0, None)), X, Y)
    check(lambda f: pl.grad(lambda x, y: (f(x, y)["sum"] ** 2).sum(), (0, 1)), X[0], Y)
    check(lambda f: lambda x, y: pl.jvp(f, (x, y), (x, y)), X[0], Y)
    check(lambda f: pl.jit(pl.vmap(pl.grad(lambda x, y: f(x, y)["sum"].sum()), (0, None))), X, Y)


def lowered(function, *args):
    return pl.jit(function).trace(*args).lower(lowering_platforms=("cuda",)).as_text()


def test_a_call_in_programs_for_gpus():
    text = lowered(lambda x, y: product(x, y)["sum"] @ product(x, y)["sum"], X[0], Y)
    calls = re.findall(r"custom_call @__cudnn\$fusion\((.*?)\) \{called_computations = \[@(\w+)\]\} : (.*)", text)  # fmt: skip
    constant = "tensor<32xf32>, "  # what the function closes over is an operand
    expected = f"({constant}tensor<32x64xf32>, tensor<64x32xf32>) -> tensor<32x32xf32>"
    assert [types for *_, types in calls] == [expected] * 2
    functions = {function for _, function, _ in calls}
    assert len(functions) == 2, "each call has a function of its own"
    for function in functions:
        body = text.partition(f"func.func private @{function}(")[2].partition("\n  }\n")[0]
        assert "stablehlo.dot_general" in body
    assert "custom_call" not in lowered(pl.grad(lambda x: product(x, Y)["sum"].sum()), X[0])
    assert "custom_call" not in pl.jit(product).lower(X[0], Y).as_text()


def test_effects_are_refused():
    with pytest.raises(pl.errors.EffectsError, match="side effects"):
        cudnn_fusion(lambda x: pl.debug.print("{}", x))(1.0)


@pytest.mark.skipif(plugins.cuda_plugin() is None, reason="the CUDA plugin is not installed: the extra `gpu-aot`")  # fmt: skip
def test_compilation_for_gpus():
    gpu = pl.sharding.AbstractDevice("NVIDIA H100 80GB HBM3", None, "gpu")
    placed = pl.NamedSharding(pl.sharding.AbstractMesh((1,), ("x",), abstract_device=gpu), pl.P())
    args = [pl.ShapeDtypeStruct(x.shape, jnp.bfloat16, sharding=placed) for x in (X[0], Y)]
    fused = cudnn_fusion(lambda x, y: x @ y)
    lowered = pl.jit(lambda x, y: fused(x, y) + 1).lower(*args)
    text = compile_without_devices(lowered._lowered).hlo_modules()[0].to_string()
    # Without a GPU nothing is measured, so XLA keeps one kernel of the function, and computes it by itself.
    assert re.search(r"kind=kCustom, calls=%_lambda_", text)

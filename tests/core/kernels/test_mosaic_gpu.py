"""Kernels for Hopper GPUs: their text, what they compute by an interpreter of it, what is refused, and their assembly."""

import numpy as np
import pytest

import pellucid as pl
from pellucid.kernels.kernel_call import pallas_call_p
from pellucid.kernels.lowering.launches import beginnings
from pellucid.kernels.mosaic_gpu.module import lowered
from tests.core.kernels import hopper_interpreter
from tests.core.kernels.hopper_kernels import KERNELS


def kernel_of(function, *args):
    jaxpr = pl.make_jaxpr(function)(*args).jaxpr
    [equation] = [e for e in jaxpr.equations if e.primitive is pallas_call_p]
    return equation.params.kernel


def interpreted(function, *args):
    """Results of the kernel that `function` calls, by the interpreter of its module."""
    kernel = kernel_of(function, *args)
    inputs = [np.asarray(x) for x in pl.tree.leaves(args)]
    inputs += [inputs[i] for i in beginnings(kernel)]
    results = []
    for i, m in enumerate(kernel.results):
        source = kernel.aliases.get(i)
        x = np.zeros(m.aval.shape, m.aval.dtype) if source is None else np.array(inputs[source])
        results.append(x)
    return hopper_interpreter.run(lowered(kernel), inputs, results)


@pytest.mark.parametrize("name", KERNELS)
def test_results_are_those_of_the_definition(name):
    function, args = KERNELS[name]()
    found = interpreted(function, *args)
    expected = pl.tree.leaves(function(*args))
    for x, y in zip(found, expected, strict=True):
        y = np.asarray(y)
        assert x.dtype == y.dtype
        tolerance = 1e-5 if y.dtype.itemsize > 2 else 2e-2
        np.testing.assert_allclose(
            x.astype(np.float64), y.astype(np.float64), rtol=tolerance, atol=1e-6
        )

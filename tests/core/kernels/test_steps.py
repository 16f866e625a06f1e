"""Kernels as they are stepped, program by program, give the bits that the compiled ones give."""

import numpy as np
import pytest
from corpus import kernels as corpus
from rotation import rotating

import pellucid as pl
from pellucid.experimental.pallas import BlockSpec, Element, pallas_call
from pellucid.introspect import kernel_steps
from pellucid.introspect.stepping import compiled_results, open_program
from pellucid.kernels.kernel_call import pallas_call_p

N_RANDOM = 100
ROWS = [(sample.__name__,) for sample in corpus.SAMPLES] + [(i,) for i in range(N_RANDOM)]


def assert_same_bits(ours, expected):
    for x, y in zip(pl.tree.leaves(ours), pl.tree.leaves(expected), strict=True):
        x, y = np.asarray(x), np.asarray(y)
        assert (x.dtype, x.shape, x.tobytes()) == (y.dtype, y.shape, y.tobytes())


@pytest.mark.parametrize(
    "which", rotating(ROWS, lambda row: row[0] if isinstance(row[0], str) else "random")
)
def test_stepped_kernels_give_the_same_bits(which):
    if isinstance(which, str):
        call, arrays = lambda: getattr(corpus, which)(pl), []
    else:
        call, arrays = corpus.random_kernel(pl, which)
    program = pl.make_jaxpr(call)(*arrays)
    assert_same_bits(compiled_results(program, *arrays), call(*arrays))


def copy(x_ref, o_ref):
    o_ref[...] = x_ref[...]


def kernel(call, *args):
    [equation] = [
        e for e in pl.make_jaxpr(call)(*args).jaxpr.equations if e.primitive is pallas_call_p
    ]
    return equation.params.kernel


def test_where_blocks_lie():
    x = np.zeros((5, 4), np.float32)
    spec = BlockSpec((2, None), lambda i, j: (2 - i, j))
    found = kernel(pallas_call(copy, x, grid=(3, 4), in_specs=[spec], out_specs=spec), x)
    assert kernel_steps.position_of(found, 6) == (1, 2)
    assert kernel_steps.number_of(found, (1, 2)) == 6
    assert dict(kernel_steps.block_places(found, 6)) == {
        "x_ref": ("in_specs[0]", (5, 4), (2, 1), (2, 2)),
        "o_ref": ("out_specs", (5, 4), (2, 1), (2, 2)),
    }
    [(_, place), _] = kernel_steps.block_places(found, 0)
    assert place.text == "[4:6, 0] of shape (5, 4), partly outside"
    padded = BlockSpec((Element(4, (1, 0)),), lambda i: (i * 3,))
    found = kernel(
        pallas_call(
            copy, np.zeros(8), grid=2, in_specs=[padded], out_specs=BlockSpec((4,), lambda i: (i,))
        ),
        np.zeros(7, np.float32),
    )
    [(_, place), _] = kernel_steps.block_places(found, 0)
    assert place.text == "[-1:3] of shape (7,), partly outside"


def test_programs_without_kernels_stay_what_they_are():
    jaxpr = pl.make_jaxpr(lambda x: pl.jit(pl.numpy.sin)(x))(1.0).jaxpr
    assert kernel_steps.with_kernels_in_steps(jaxpr) is jaxpr


def test_kernels_within_programs_are_stepped():
    x = np.arange(4, dtype=np.float32)
    block = BlockSpec((2,), lambda i: (i,))
    call = pallas_call(copy, x, grid=2, in_specs=[block], out_specs=block)
    program = pl.make_jaxpr(
        pl.jit(lambda x: pl.lax.scan(lambda c, _: (call(c) + 1, None), x, None, 3)[0])
    )(x)
    within = [
        e for p in kernel_steps.programs_within(open_program(program)[0]) for e in p.equations
    ]
    [equation] = [e for e in within if kernel_steps.is_kernel(e)]
    assert kernel_steps.kernel_of(equation.params.jaxpr.jaxpr) is equation.params.kernel
    assert_same_bits(compiled_results(program, x), [x + 3])

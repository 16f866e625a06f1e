"""Kernels within shard_map: values and gradients are those of a kernel for each part."""

import numpy as np
import pytest

import pellucid as pl
import pellucid.numpy as jnp
from pellucid import P
from pellucid.experimental.pallas import BlockSpec, pallas_call, program_id, tpu, when
from pellucid.experimental.pallas.ops.gpu.layer_norm import layer_norm
from pellucid.experimental.pallas.ops.gpu.rms_norm import rms_norm
from pellucid.experimental.pallas.ops.tpu.flash_attention import flash_attention
from pellucid.experimental.pallas.ops.tpu.matmul import matmul
from pellucid.experimental.pallas.ops.tpu.megablox import gmm

RNG = np.random.default_rng(0)


def array(*shape):
    return RNG.normal(size=shape).astype(np.float32)


def add_up(x):
    """[n, 4] to [4]: sums of rows, held in scratch that begins in the first program."""

    def kernel(x_ref, o_ref, sum_ref):
        @when(program_id(0) == 0)
        def _():
            sum_ref[...] = jnp.zeros(sum_ref.shape, sum_ref.dtype)

        sum_ref[...] += x_ref[0] * 3
        o_ref[...] = sum_ref[...]

    return pallas_call(
        kernel, np.zeros(4, np.float32), grid=x.shape[0], in_specs=[BlockSpec((1, 4), lambda i: (i, 0))],
        out_specs=BlockSpec((4,), lambda i: (0,)), scratch_shapes=[tpu.VMEM((4,), np.float32)],
    )(x)  # fmt: skip


SIZES = np.array([3, 6], np.int32)
attend = lambda q, k: flash_attention(q, k, k, causal=True, sm_scale=0.3)
CASES = {
    "scratch": (lambda x: add_up(x)[None], lambda x: 3 * x.reshape(4, -1, 4).sum(1), [array(8, 4)], (P("x"),), P("x")),
    "product": (lambda x, y: matmul(x, y, block_shape=(16, 16), block_k=16), jnp.matmul, [array(40, 20), array(20, 24)], (P("x"), P()), P("x")),
    "attention": (attend, attend, [array(4, 2, 20, 16), array(4, 2, 20, 16)], (P("x"), P("x")), P("x")),
    "attention, shared keys": (attend, attend, [array(1, 4, 20, 16), array(1, 4, 20, 16)], (P(None, "x"), P(None, "x")), P(None, "x")),
    "layer norm": (layer_norm, layer_norm, [array(8, 33), array(33), array(33)], (P("x"), P(), P()), P("x")),
    "rms norm": (rms_norm, rms_norm, [array(8, 33), array(33), array(33)], (P("x"), P(), P()), P("x")),
    "groups": (lambda x, y: gmm(x, y, SIZES), lambda x, y: gmm(x, y, SIZES), [array(10, 8), array(2, 8, 12)], (P(), P(None, None, "x")), P(None, "x")),
}  # fmt: skip
"""Kernels of parts, the function of whole arrays, its operands, how these are cut and how the result is."""


@pytest.mark.parametrize("check_vma", [True, False])
@pytest.mark.parametrize("name", CASES)
def test_values_and_gradients_are_those_of_the_whole(name, check_vma):
    function, whole, operands, specs, out_specs = CASES[name]
    mesh = pl.make_mesh((4,), ("x",), (pl.sharding.AxisType.Auto,))
    parts = pl.shard_map(function, mesh=mesh, in_specs=specs, out_specs=out_specs, check_vma=check_vma)  # fmt: skip
    loss = lambda f: lambda *xs: (f(*xs) ** 2).sum()
    wrt = tuple(range(len(operands)))
    found, expected = (
        pl.tree.leaves((pl.jit(f)(*operands), pl.jit(pl.grad(loss(f), wrt))(*operands)))
        for f in (parts, whole)
    )
    for x, y in zip(found, expected, strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-3, atol=1e-3)


def test_references_that_hold_what_differs_between_positions():
    """By its type a reference's content is the same along an axis; gradients through one that isn't would be sums."""
    mesh = pl.make_mesh((4,), ("x",), (pl.sharding.AxisType.Auto,))

    def triple(x, begin):
        ref = pl.new_ref(begin(jnp.zeros(x.shape)))
        ref[...] += x * 3
        return ref[...]

    def over(begin):
        return pl.shard_map(lambda x: triple(x, begin), mesh=mesh, in_specs=P("x"), out_specs=P("x"))  # fmt: skip

    x = np.arange(16, dtype=np.float32)
    np.testing.assert_array_equal(over(lambda z: z)(x), 3 * x)
    with pytest.raises(pl.errors.EffectsError, match="differs along 'x'"):
        pl.grad(lambda x: over(lambda z: z)(x).sum())(x)
    varying = over(lambda z: pl.lax.pcast(z, ("x",), to="varying"))
    np.testing.assert_array_equal(pl.grad(lambda x: varying(x).sum())(x), np.full(16, 3))

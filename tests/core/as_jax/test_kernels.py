"""Modules of hand-written kernels are imported; what pellucid has works, and other names refuse use."""

import subprocess
import sys

PROGRAM = """
import pellucid.as_jax; pellucid.as_jax.install()
import importlib, sys
import jax
from jax.experimental import pallas as pl
from jax.experimental.pallas import mosaic_gpu as plmgpu, tpu as pltpu, triton as plgpu
from jax.experimental.pallas.ops.tpu.flash_attention import flash_attention
from jax.experimental.pallas.ops.tpu import splash_attention
import jax.experimental.pallas.ops.gpu.attention, jax.experimental.mosaic.gpu
from pellucid.as_jax.kernel_names import NAMES
for module, names in NAMES.items():
    loaded = importlib.import_module(f"jax.experimental.{module}")
    assert all(hasattr(loaded, name) for name in names), module
assert jax.experimental.pallas is pl and pl.__name__ == "jax.experimental.pallas"
assert pl.cdiv(7, 2) == 4
assert not hasattr(pl, "nothing")
assert not isinstance(1, pltpu.BufferedRef)
class Mine(pltpu.BufferedRef):
    pass
def add(x_ref, y_ref, o_ref):
    o_ref[...] = x_ref[...] + y_ref[...]
x = jax.numpy.arange(8.0)
block = pl.BlockSpec((2,), lambda i: (i,))
call = pl.pallas_call(
    add, jax.ShapeDtypeStruct((8,), "float32"), grid=4, in_specs=[block, block], out_specs=block, interpret=True,
    compiler_params=pltpu.CompilerParams(dimension_semantics=("parallel",)),
)
assert (call(x, x) == 2 * x).all()
def copy(x_ref, o_ref, held, barrier):
    plmgpu.copy_gmem_to_smem(x_ref, held, barrier)
    plmgpu.barrier_wait(barrier)
    o_ref[...] = held[...]
scratch = [plmgpu.SMEM((8,), "float32"), plmgpu.Barrier()]
assert (plmgpu.kernel(copy, x, scratch_shapes=scratch)(x) == x).all()
assert flash_attention(*[jax.numpy.ones((1, 1, 16, 8))] * 3).shape == (1, 1, 16, 8)
for use in (
    lambda: pl.semaphore(), lambda: pltpu.BufferedRefBase(), lambda: pltpu.BufferType.INPUT, lambda: sys.modules["jax.experimental.pallas.ops.tpu.megablox.common"].is_tpu(),
    lambda: Mine(), lambda: pltpu.matmul_pop(0, (8, 128), "float32", 0), lambda: plmgpu.tcgen05_mma(1, 2, 3), lambda: plmgpu.TMEMLayout.SCALES_LAYOUT(),
):
    try:
        use()
    except NotImplementedError as error:
        assert "no such part of hand-written kernels" in str(error), error
    else:
        raise AssertionError
assert plgpu.atomic_max is pl.triton.atomic_max and pltpu.InterpretParams().detect_races is False
try:
    import jax.experimental.pallas.nothing
except ModuleNotFoundError as error:
    assert str(error) == "No module named 'jax.experimental.pallas.nothing'"
else:
    raise AssertionError
"""


def test_names_of_kernels_are_imported_and_work_or_refuse_use():
    process = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=120, check=False
    )
    assert process.returncode == 0, process.stderr

"""Kernels in Mosaic's dialect for TPUs: their text, what they compute by an interpreter of it, what is refused, and their call."""

import contextlib
import importlib
import json
import os
import pathlib
import re
import subprocess
import sys

import numpy as np
import pytest

import pellucid as pl
import pellucid.numpy as jnp
from pellucid import export
from pellucid._machine.base.errors import (
    ArgumentTypeError,
    ArgumentValueError,
    UnsupportedError,
)
from pellucid._machine.xla import plugins
from pellucid.experimental import pallas
from pellucid.experimental.pallas import BlockSpec, Buffered, Element, ds, pallas_call, tpu, triton
from pellucid.introspect.mosaic_text import mosaic_texts
from pellucid.kernels.kernel_call import pallas_call_p
from pellucid.kernels.mosaic_tpu.module import lowered
from pellucid.kernels.mosaic_tpu.windows import in_rows
from pellucid.kernels.targets import TPU_CHIPS
from tests.core.kernels import mosaic_interpreter, test_triton
from tests.core.kernels.compile_for_tpus import LACKING
from tests.core.kernels.tpu_kernels import (
    ANY,
    BF16,
    F32,
    I32,
    KERNELS,
    OPERATIONS,
    ROWS,
    X,
    by_rows,
    like,
    random_bits,
    ring,
)


def kernel_of(function, *args):
    jaxpr = pl.make_jaxpr(function)(*args).jaxpr
    [equation] = [e for e in jaxpr.equations if e.primitive is pallas_call_p]
    return equation.params.kernel


def copy(x_ref, o_ref):
    o_ref[...] = x_ref[...]


# Text -------------------------------------------------------------------------------------------------------

ADD_TEXT = """
module {
  func.func @add(%arg0: i32, %arg1: memref<8x256xf32, #tpu.memory_space<vmem>>, %arg2: memref<8x256xf32, #tpu.memory_space<vmem>>, %arg3: memref<8x256xf32, #tpu.memory_space<vmem>>) attributes {dimension_semantics = [#tpu.dimension_semantics<arbitrary>], iteration_bounds = array<i64: 8>, scalar_prefetch = 0 : i64, scratch_operands = 0 : i64, tpu.core_type = #tpu.core_type<tc>, window_params = [{transform_indices = @transform_0, window_bounds = array<i64: 8, 256>}, {transform_indices = @transform_1, window_bounds = array<i64: 8, 256>}, {transform_indices = @transform_2, window_bounds = array<i64: 8, 256>}]} {
    %c0 = arith.constant 0 : index
    %0 = vector.load %arg1[%c0, %c0] : memref<8x256xf32, #tpu.memory_space<vmem>>, vector<8x256xf32>
    %1 = vector.load %arg2[%c0, %c0] : memref<8x256xf32, #tpu.memory_space<vmem>>, vector<8x256xf32>
    %2 = arith.addf %0, %1 : vector<8x256xf32>
    tpu.vector_store %arg3[%c0, %c0], %2 {strides = array<i32>} : memref<8x256xf32, #tpu.memory_space<vmem>>, vector<8x256xf32>,
    return
  }
  func.func @transform_0(%arg0: i32) -> (i32, i32) {
    %c0_i32 = arith.constant 0 : i32
    return %arg0, %c0_i32 : i32, i32
  }
  func.func @transform_1(%arg0: i32) -> (i32, i32) {
    %c0_i32 = arith.constant 0 : i32
    return %arg0, %c0_i32 : i32, i32
  }
  func.func @transform_2(%arg0: i32) -> (i32, i32) {
    %c0_i32 = arith.constant 0 : i32
    return %arg0, %c0_i32 : i32, i32
  }
}
"""


def test_text():
    function, args = KERNELS["add"]()
    [found] = mosaic_texts(function, *args, chip="v5e")
    assert re.sub(r" +\n", "\n", found.text).strip() == ADD_TEXT.strip()
    assert found.vmem == {"in_specs[0]": 16384, "in_specs[1]": 16384, "out_specs": 16384}


@pytest.mark.parametrize(
    ("name", "lines"),
    [
        (
            "matmul",
            [
                "dimension_semantics = [#tpu.dimension_semantics<parallel>, #tpu.dimension_semantics<parallel>, #tpu.dimension_semantics<arbitrary>]",
                "scratch_operands = 1 : i64",
                "dimension_numbers = #tpu.dot_dimension_numbers<[1], [0], [0], [1], [0, 0, 1, 1], [], []>, transpose_lhs_hint = false",
                "scf.if",
            ],
        ),
        (
            "prefetch",
            [
                "%arg1: memref<8xi32, #tpu.memory_space<smem>>",
                "scalar_prefetch = 1 : i64",
                "func.func @transform_0(%arg0: i32, %arg1: memref<8xi32, #tpu.memory_space<smem>>) -> (i32, i32)",
                "memref.load %arg1",
            ],
        ),
        (
            "dynamic_grid",
            [
                "iteration_bounds = array<i64: -9223372036854775808>",
                "tpu.iteration_bound",
            ],
        ),
        (
            "copied_parts",
            [
                ": memref<4x8x256xf32, #tpu.memory_space<any>> -> memref<1x8x256xf32, #tpu.memory_space<any>>",
                "memref<2x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>",
                "tpu.enqueue_dma source",
                "tpu.wait_dma2 semaphore",
                "window_params = [{}, {}, {",
            ],
        ),
        (
            "pipeline",
            ["scratch_operands = 8 : i64", "memref<!tpu.dma_semaphore", "tpu.enqueue_dma source"],
        ),
        ("elements", ["window_kind = #tpu.element_window<[0, 0], [0, 0]>"]),
        ("loops", ["scf.for", "scf.while", "tpu.assume_multiple %"]),
        ("parts", ["tpu.strided_load", "strides = array<i32: 2, 1>"]),
    ],
)
def test_lines(name, lines):
    function, args = KERNELS[name]()
    [found] = mosaic_texts(function, *args)
    for line in lines:
        assert line in found.text


# What they compute --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", KERNELS)
def test_results(name):
    function, args = KERNELS[name]()
    rng = np.random.default_rng(0)
    args = [
        x
        if x.ndim == 0 or x.dtype == I32 or x.dtype.kind == "V"
        else rng.uniform(0.1, 2, x.shape).astype(x.dtype)
        for x in map(np.asarray, args)
    ]
    assert_same(function, *args)


def assert_same(function, *args):
    """The kernel in Mosaic's dialect, interpreted, gives what the compiled program gives."""
    kernel = kernel_of(function, *args)
    expected = [np.asarray(x) for x in pl.tree.leaves(pl.jit(function)(*args))]
    n_bounds, n_scalars = kernel.grid.count(None), len(kernel.scalars)
    bounds, rest = iter(args[:n_bounds]), args[n_bounds:]
    sizes = [int(next(bounds)) if n is None else n for n in kernel.grid]
    inputs = [
        x.reshape(in_rows(m, x.shape)) for x, m in zip(rest[n_scalars:], kernel.inputs, strict=True)
    ]
    starts = [
        np.full(in_rows(m, x.shape), 77).astype(x.dtype)
        for x, m in zip(expected, kernel.results, strict=True)
    ]
    module = lowered(kernel).module
    found = mosaic_interpreter.run(module, sizes, rest[:n_scalars], inputs, starts)
    found = [x.reshape(y.shape) for x, y in zip(found, expected, strict=True)]
    for x, y in zip(found, expected, strict=True):
        assert x.dtype == y.dtype
        tolerance = 2e-2 if x.dtype == BF16 else 1e-4
        np.testing.assert_allclose(x.astype(F32), y.astype(F32), rtol=tolerance, atol=1e-5)


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int16, np.uint16])
@pytest.mark.parametrize("old", [F32, BF16])
def test_numbers_that_narrow_integers_lack_become_the_nearest(old, dtype):
    def kernel(x_ref, o_ref):
        o_ref[...] = x_ref[...].astype(dtype)

    x = np.zeros((8, 128), F32)
    x[0, : len(test_triton.OUTSIDE)] = test_triton.OUTSIDE
    assert_same(pallas_call(kernel, like(x.shape, dtype)), x.astype(old))


def test_positions_outside_are_moved_inside():
    def kernel(i_ref, x_ref, o_ref):
        for k in range(4):
            o_ref[k, :] = x_ref[i_ref[k], :]
        o_ref[ds(4, 2), :] = x_ref[ds(i_ref[4], 2), :]

    x = np.arange(8 * 128, dtype=F32).reshape(8, 128)
    spec = tpu.PrefetchScalarGridSpec(1)
    call = pallas_call(kernel, like((6, 128), F32), grid_spec=spec)
    assert_same(call, np.array([3, -1, 9, -20, 7], I32), x)


def test_first_extremes_and_those_of_nan():
    x = np.zeros((16, 128), F32)
    x[0, [5, 9]], x[1, 7], x[2, 3], x[3, [4, 8]] = 2, np.nan, -np.inf, np.nan
    x[4:] = np.random.default_rng(0).integers(0, 3, (12, 128))

    def kernel(x_ref, o_ref):
        for i, function in enumerate((jnp.argmax, jnp.argmin)):
            for j, sign in enumerate((1, -1)):
                place = function(sign * x_ref[...], axis=1)[:, None]
                o_ref[i, j] = jnp.broadcast_to(place, (16, 128))

    assert_same(pallas_call(kernel, like((2, 2, 16, 128), I32)), x)


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int16, np.uint16, np.int32, np.uint32])
def test_integers(dtype):
    limits = np.iinfo(dtype)
    x = np.resize([0, 1, limits.max, limits.min, 3, limits.max // 2 + 1], (32, 128)).astype(dtype)
    y = np.resize([1, limits.max, limits.min, 2, 7], (32, 128)).astype(dtype)

    def kernel(x_ref, y_ref, o_ref):
        a, b = x_ref[...], y_ref[...]
        found = [
            a + b, a - b, a * b, jnp.maximum(a, b), jnp.minimum(a, b), jnp.where(a < b, a, b), jnp.where(a >= b, a, b),
            jnp.clip(a, 1, 5).astype(dtype), jnp.sign(a), abs(a), a & b, a.astype(F32).astype(dtype),
        ]  # fmt: skip
        for i, part in enumerate(found):
            o_ref[i] = part

    assert_same(pallas_call(kernel, like((12, 32, 128), dtype)), x // 2, y)


def test_what_programs_share():
    def kernel(x_ref, o_ref, total):
        @pallas.when(pallas.program_id(0) == 0)
        def _():
            total[...] = jnp.zeros_like(total)
            o_ref[...] = jnp.zeros_like(o_ref)

        total[...] += x_ref[...]
        o_ref[...] += total[...]

    out = BlockSpec((8, 256), lambda i: (0, 0))
    call = pallas_call(
        kernel, like((8, 256), F32), grid=8, in_specs=[ROWS], out_specs=out, scratch_shapes=[tpu.VMEM((8, 256), F32)]
    )  # fmt: skip
    assert_same(call, np.arange(64 * 256, dtype=F32).reshape(64, 256) / 256)


@pytest.mark.parametrize("name", test_triton.KERNELS)
def test_kernels_for_gpus_are_lowered_or_refused(name):
    function, *args = test_triton.KERNELS[name]()
    kernel = kernel_of(function, *args)
    # Another error fails the test.
    with contextlib.suppress(UnsupportedError):
        assert lowered(kernel).module.operation.verify()


# What is refused ----------------------------------------------------------------------------------------------


def with_block(block, x=X, **options):
    grid = tuple(-(-n // (m or 1)) for n, m in zip(x.shape, block, strict=True))
    spec = BlockSpec(block, lambda *ids: ids, **options)
    return pallas_call(copy, x, grid=grid, in_specs=[spec], out_specs=spec), (x,)


def shifted(x_ref, o_ref):
    o_ref[...] = x_ref[ds(pallas.program_id(0) + 1, 8), :]


def copying(index, *, add=False, sem=tpu.SemaphoreType.DMA):
    def kernel(x_ref, o_ref, held, sem):
        copy = tpu.make_async_copy(x_ref.at[index()], held, sem)
        copy.start(add=add)
        copy.wait()
        o_ref[...] = held[...]

    shape = jnp.zeros((64, 256))[index()].shape if index is not moving else (8, 256)
    return pallas_call(
        kernel, like(shape, F32), grid=1, in_specs=[ANY], scratch_shapes=[tpu.VMEM(shape, F32), sem], out_specs=BlockSpec()
    ), (X,)  # fmt: skip


def moving():
    return ds(pallas.program_id(0) * 4 + 1, 8)


def pipelined(shape, *, width=256, in_place=False):
    def kernel(x_ref, o_ref):
        block = BlockSpec((8, width), lambda i, j: (i, j))
        grid = (8, -(-shape[1] // width))
        run = tpu.emit_pipeline(copy, grid=grid, in_specs=[block], out_specs=[block])
        run(o_ref if in_place else x_ref, o_ref)

    x = np.ones(shape, F32)
    return pallas_call(kernel, x, in_specs=[ANY], out_specs=ANY), (x,)


REFUSED = {
    "edges of a pipeline": (
        lambda: pipelined((64, 200), width=128),
        r"and have multiples of 128 elements(.|\n)*72 elements along dimension 1",
    ),
    "a pipeline in place": (
        lambda: pipelined((64, 256), in_place=True),
        "can't write to a reference that it reads",
    ),
    "copied rows": (lambda: copying(lambda: slice(3, 11)), "copies begin at multiples of 8 there"),
    "copied rows of a tile and a half": (
        lambda: copying(lambda: slice(8, 20)),
        "and have elements up to 8, or multiples of that",
    ),
    "copied lanes": (
        lambda: copying(lambda: (slice(None), slice(0, 64))),
        r"and have multiples of 128 elements(.|\n)*64 elements along dimension 1",
    ),
    "copied steps": (lambda: copying(lambda: slice(0, 16, 2)), "copies make no steps"),
    "added copies": (
        lambda: copying(lambda: slice(0, 8), add=True),
        "replaces what its target holds",
    ),
    "rows": (lambda: with_block((4, 128)), r"no whole tiles(.|\n)*A block of \(8, 128\) fits"),
    "lanes": (lambda: with_block((8, 64)), r"no whole tiles(.|\n)*A block of \(8, 128\) fits"),
    "rows of 8 bits": (
        lambda: with_block((8, 128), X.astype(np.int8)),
        r"tiles of \(32, 128\)(.|\n)*A block of \(32, 128\) fits",
    ),
    "one dimension": (
        lambda: with_block((64,), np.ones(512, F32)),
        r"no whole tiles(.|\n)*A block of \(128,\) fits",
    ),
    "squeezed": (
        lambda: with_block((8, None), np.ones((64, 256), F32)),
        r"Move the dimension that the kernel doesn't see in front",
    ),
    "buffers": (
        lambda: with_block((8, 128), pipeline_mode=Buffered(3)),
        r"one buffer or two(.|\n)*3 buffers",
    ),
    "elements": (
        lambda: (
            pallas_call(
                copy,
                like((32, 256), F32),
                grid=4,
                in_specs=[BlockSpec((Element(8), Element(256)), lambda i: (i * 8 + 3, 0))],
                out_specs=ROWS,
            ),
            (X,),
        ),
        "multiples of 8",
    ),
    "starts": (
        lambda: (
            pallas_call(
                shifted, like((16, 256), F32), grid=2, in_specs=[BlockSpec()], out_specs=ROWS
            ),
            (X,),
        ),
        r"must be a multiple of 8 there(.|\n)*def shifted|o_ref\[...\] = x_ref",
    ),
    "float16": (
        lambda: (pallas_call(copy, like((8, 128), np.float16)), (np.ones((8, 128), np.float16),)),
        "it has no f16",
    ),
    "cumlogsumexp": (
        lambda: (
            pallas_call(lambda x, o: o.__setitem__(..., pl.lax.cumlogsumexp(x[...])), X),
            (X,),
        ),
        "no rule for `cumlogsumexp`",
    ),
    "hbm": (
        lambda: (pallas_call(copy, X, in_specs=[BlockSpec(memory_space=pallas.ANY)]), (X,)),
        r"only what is in VMEM or SMEM(.|\n)*in_specs\[0\] in the memory `any`",
    ),
    "scalar memory": (
        lambda: (pallas_call(copy, X, in_specs=[BlockSpec(memory_space=tpu.SMEM)]), (X,)),
        "one number at a time",
    ),
    "memory": (
        lambda: (
            pallas_call(
                lambda x, o, s: copy(x, o), X, scratch_shapes=[tpu.VMEM((1 << 13, 1 << 13), F32)]
            ),
            (X,),
        ),
        r"need 256 MiB of VMEM, and the largest TPU has 128 MiB(.|\n)*scratch 0",
    ),
    "stated memory": (
        lambda: by_rows(copy, X, compiler_params=tpu.CompilerParams(vmem_limit_bytes=1 << 14)),
        r"need \d+ KiB of VMEM, and `vmem_limit_bytes` allows 16 KiB",
    ),
    "aliases": (
        lambda: by_rows(
            lambda x, o: o.__setitem__(slice(0, 4), x[0:4]), X, input_output_aliases={0: 0}
        ),
        "aliased with an input",
    ),
    "inputs": (
        lambda: by_rows(lambda x, o: (x.__setitem__(..., x[...] + 1), copy(x, o))[1], X),
        "it writes to an input",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name):
    make, message = REFUSED[name]
    function, args = make()
    with pytest.raises(UnsupportedError, match="can't be lowered to TPUs") as caught:
        mosaic_texts(function, *args)
    assert re.search(message, str(caught.value))
    assert re.search(r"in (test_mosaic_tpu|tpu_kernels)\.py, line \d+", str(caught.value))


def test_a_chip_with_less_memory():
    function, args = KERNELS["add"]()
    assert mosaic_texts(function, *args, chip="v4")
    scratch = [tpu.VMEM((1 << 13, 1 << 10), F32)]
    call = pallas_call(lambda x, o, s: copy(x, o), X, scratch_shapes=scratch)
    assert mosaic_texts(call, X, chip="v5e")
    with pytest.raises(UnsupportedError, match=r"v4 has 16 MiB"):
        mosaic_texts(call, X, chip="v4")
    with pytest.raises(ArgumentValueError, match="no such TPU"):
        mosaic_texts(call, X, chip="v1")


def test_semantics_of_other_axes():
    options = {"compiler_params": tpu.CompilerParams(dimension_semantics=("parallel", "arbitrary"))}
    function, args = by_rows(copy, X, **options)
    with pytest.raises(ArgumentValueError, match="one entry for each axis"):
        mosaic_texts(function, *args)


def test_derivatives_are_plain_programs():
    function, args = KERNELS["softmax"]()
    text = lowered_text(pl.grad(lambda x: function(x).sum()), *args)
    assert "tpu_custom_call" not in text


# The call -------------------------------------------------------------------------------------------------------


def lowered_text(function, *args, platforms=("tpu",)):
    return pl.jit(function).trace(*args).lower(lowering_platforms=platforms).as_text()


def config_of(text):
    [found] = re.findall(r'backend_config = "((?:[^"\\]|\\.)*)"', text)
    return json.loads(found.replace("\\22", '"'))


def test_call():
    function, args = KERNELS["matmul"]()
    text = lowered_text(function, *args)
    assert 'kernel_name = "kernel"' in text
    config = config_of(text)
    assert config["scoped_memory_configs"] == [{"memory_space": 1, "offset": 0, "size": 1 << 21}]
    inner = config["custom_call_config"]
    assert inner["cost_estimate"] == {
        "flops": 2 * 256**3, "transcendentals": 0, "bytes_accessed": 3 << 17
    }  # fmt: skip
    assert inner["serialization_format"] == 1
    assert inner["needs_layout_passes"]
    assert "has_communication" not in inner


@pytest.mark.parametrize(
    ("name", "count"), [("flash_attention_back", 3), ("tiled_matmul", 1), ("grouped_matmul", 1)]
)
def test_kernels_of_the_library(name, count):
    function, args = OPERATIONS[name]()
    assert lowered_text(function, *args).count("@tpu_custom_call") == count


def test_calls_of_numbers_booleans_and_aliases():
    text = lowered_text(KERNELS["booleans"]()[0], X > 0, X)
    assert "(tensor<64x256xi32>, tensor<64x256xf32>) -> (tensor<64x256xf32>, tensor<64x256xi32>)" in text  # fmt: skip
    function, args = KERNELS["rank_0"]()
    assert "(tensor<1xf32>, tensor<64x256xf32>, tensor<1xf32>) ->" in lowered_text(function, *args)
    function, args = KERNELS["aliased"]()
    assert "operand_index = 0" in lowered_text(function, *args)
    function, args = KERNELS["dynamic_grid"]()
    assert "(tensor<i32>, tensor<64x256xf32>) ->" in lowered_text(function, *args)


def test_exported_for_tpus_and_for_several_platforms():
    function, args = KERNELS["add"]()
    exported = export.export(pl.jit(function), platforms=["tpu"])(*args)
    assert "tpu_custom_call" in exported.mlir_module()
    both = export.export(pl.jit(function), platforms=["cpu", "tpu"])(*args)
    assert "tpu_custom_call" in both.mlir_module()
    np.testing.assert_array_equal(both.call(*args), 2 * X)
    assert "tpu_custom_call" not in lowered_text(function, *args, platforms=("cpu",))


def test_kernels_of_gpus_run_as_programs():
    call = pallas_call(copy, X, compiler_params=triton.CompilerParams(num_warps=2))
    assert "tpu_custom_call" not in lowered_text(call, X)


def test_random_bits_of_a_core():
    function, args = random_bits()
    [found] = mosaic_texts(function, *args)
    assert "tpu.prng_set_seed_32" in found.text
    assert "tpu.prng_random_bits" in found.text
    with pytest.raises(UnsupportedError, match="runs on TPUs only"):
        pl.jit(function)()
    with pytest.raises(ArgumentTypeError, match="prng_seed takes integers"):
        tpu.prng_seed(0.5)


def test_what_kernels_print(capsys):
    function, [x] = KERNELS["printing"]()
    assert_same(function, x)
    printed = capsys.readouterr().out.splitlines()
    half = len(printed) // 2  # of the program, and of the interpreter
    assert sorted(printed[half:]) == sorted(printed[:half])
    assert "program 3 of 8" in printed[half:]
    assert "the first one is 1.0" in printed[half:]
    assert "three: 3 is a number" in printed[half:]


@pytest.mark.parametrize(
    ("message", "show"),
    [
        ("no arrays", lambda x: pallas.debug_print("{}", x)),
        ("one float32", lambda x: pallas.debug_print("{} {}", x[0, 0], x[1, 0])),
        ("one float32", lambda x: pallas.debug_print("{} is it", x[0, 0])),
        ("one float32", lambda x: pallas.debug_print("{}", x[0, 0].astype(np.uint32))),
        ("one float32", lambda x: pallas.debug_print("{}", x[0, 0] > 0)),
        ("fields", lambda x: pallas.debug_print("{:.2f}", x[0, 0])),
        ("no braces", lambda x: pallas.debug_print("{{}} {}", x[0, 0].astype(I32))),
    ],
)
def test_what_is_not_printed(message, show):
    def kernel(x_ref, o_ref):
        show(x_ref[...])
        o_ref[...] = x_ref[...]

    with pytest.raises(UnsupportedError, match=message):
        lowered_text(pallas_call(kernel, X), X)


@pytest.mark.parametrize(
    ("message", "function"),
    [
        ("power of two of elements", lambda x: jnp.sort(x[:12], axis=0)),
        ("a multiple of 128", lambda x: jnp.sort(x[:, :64], axis=1)),
        ("a multiple of 128", lambda x: jnp.cumsum(x[:, :100], axis=1)),
        ("powers of two", lambda x: x[:, :100][:, ::-1]),
        ("read, written and converted only", lambda x: (x.astype("int4") + 1).astype(I32)),
        ("along one dimension", lambda x: x[x[0].astype(I32)]),
        ("from up to 128", lambda x: jnp.take_along_axis(x, x[:, :8].astype(I32), axis=1)),
    ],
)
def test_what_does_not_change_places(message, function):
    def kernel(x_ref, o_ref):
        o_ref[...] = function(x_ref[...])

    with pytest.raises(UnsupportedError, match=message):
        lowered_text(pallas_call(kernel, pl.eval_shape(function, X)), X)


def test_operations_of_tpus_outside_of_kernels():
    x = np.arange(12, dtype=F32).reshape(3, 4)
    np.testing.assert_array_equal(tpu.roll(x, -1, 1), np.roll(x, -1, 1))
    back = tpu.bitcast(tpu.bitcast(x, np.int16), F32)
    np.testing.assert_array_equal(back, x)
    with pytest.raises(ArgumentValueError, match="whole elements of the new dtype"):
        tpu.bitcast(x.astype(np.int16), F32)
    with pytest.raises(ArgumentValueError, match="together, or neither"):
        tpu.roll(x, 1, 1, stride=2)


def test_parameters_of_the_compiler():
    params = tpu.CompilerParams(collective_id=3)
    assert (params.collective_id, params.vmem_limit_bytes, params.has_side_effects) == (
        3,
        None,
        False,
    )
    with pytest.raises(ArgumentTypeError, match="have no such parameter"):
        tpu.CompilerParams(num_warps=3)
    stated = tpu.CompilerParams(
        has_side_effects=True, disable_bounds_checks=True, internal_scratch_in_bytes=0
    )
    text = lowered_text(pallas_call(copy, X, compiler_params=stated), X)
    assert "has_side_effect = true" in text
    inner = config_of(text)["custom_call_config"]
    assert (inner["disable_bounds_checks"], inner["internal_scratch_in_bytes"]) == (True, 0)
    pure = tpu.CompilerParams(has_side_effects=tpu.SideEffectType.PURE)
    assert "has_side_effect" not in lowered_text(pallas_call(copy, X, compiler_params=pure), X)
    with pytest.raises(UnsupportedError, match="no flags"):
        lowered_text(pallas_call(copy, X, compiler_params=tpu.CompilerParams(flags={"a": 1})), X)


def test_refusals_come_before_anything_is_compiled():
    function, args = with_block((4, 128))
    with pytest.raises(UnsupportedError, match=r"test_mosaic_tpu\.py"):
        lowered_text(function, *args)


def test_names_of_scratch_that_no_result_has():
    def kernel(x_ref, o_ref, held):
        held[...] = x_ref[...]
        o_ref[...] = held[...]

    scratch = {"held": tpu.VMEM((8, 256), F32)}
    assert_same(by_rows(kernel, X, scratch_shapes=scratch)[0], X)


# Devices ------------------------------------------------------------------------------------------------------


def test_a_ring_of_devices():
    mesh = pl.sharding.Mesh(np.array(pl.devices()[:4]), ("x",))
    text = lowered_text(ring(mesh), like((32, 128), F32))
    config = config_of(text)["custom_call_config"]
    assert config["has_communication"]
    assert config["collective_id"] == 0


def test_kernels_of_several_devices_are_under_shard_map():
    mesh = pl.make_mesh((4,), ("x",))
    function, args = KERNELS["add"]()
    sharded = pl.NamedSharding(mesh, pl.P("x"))
    with pytest.raises(UnsupportedError, match="nothing divides its blocks among devices"):
        lowered_text(pl.jit(function, in_shardings=sharded), *args)


def test_a_barrier_without_an_identity():
    def kernel(x_ref, o_ref):
        pallas.semaphore_signal(tpu.get_barrier_semaphore(), 1)
        pallas.semaphore_wait(tpu.get_barrier_semaphore(), 1)
        copy(x_ref, o_ref)

    with pytest.raises(UnsupportedError, match="a `collective_id` belongs to a barrier semaphore"):
        lowered_text(pallas_call(kernel, X), X)
    stated = pallas_call(copy, X, compiler_params=tpu.CompilerParams(collective_id=3))
    with pytest.raises(UnsupportedError, match="not called"):
        lowered_text(stated, X)


# Compiled for TPUs ------------------------------------------------------------------------------------------


@pytest.mark.skipif(
    plugins.tpu_library() is None, reason="no compiler of TPUs is installed: the extra `tpu-aot`"
)
@pytest.mark.timeout(400)
@pytest.mark.parametrize("chip", TPU_CHIPS)
def test_compiled(chip):
    script = pathlib.Path(__file__).with_name("compile_for_tpus.py")
    settings = {
        "JAX_PLATFORMS": "cpu",
        "TPU_SKIP_MDS_QUERY": "1",
        "ALLOW_MULTIPLE_LIBTPU_LOAD": "1",
    }
    paths = os.environ | settings | {"PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, str(script), chip],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        env=paths,
    )
    lines = [line for line in done.stdout.splitlines() if line.startswith(("ok ", "failed "))]
    names = [
        name
        for name in (*KERNELS, *OPERATIONS, "random_bits", "random_numbers", "ring")
        if (chip, name) not in LACKING
    ]
    assert lines == [f"ok {name}" for name in names], done.stderr[-2000:]


def test_the_dialect_makes_nobody_look_into_jax():
    places = importlib.import_module("jaxlib.mlir.dialects._ods_common")._cext.globals
    assert not [place for place in places.dialect_search_modules if place.startswith("jax.")]

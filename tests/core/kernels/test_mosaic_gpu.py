"""Kernels for Hopper GPUs: their text, what they compute by an interpreter of it, what is refused, and their assembly."""

import json
import os
import pathlib
import subprocess
import sys

import numpy as np
import pytest
from rotation import rotating

import pellucid as pl
import pellucid.numpy as jnp
from pellucid import lax
from pellucid._machine.base.errors import UnsupportedError
from pellucid._machine.xla import plugins, ptxas
from pellucid.experimental import pallas
from pellucid.experimental.pallas import BlockSpec, mosaic_gpu, pallas_call
from pellucid.introspect.mosaic_gpu_text import mosaic_gpu_texts
from pellucid.kernels.kernel_call import pallas_call_p
from pellucid.kernels.lowering.launches import beginnings
from pellucid.kernels.mosaic_gpu.module import lowered
from tests.core.kernels import hopper_interpreter, test_triton
from tests.core.kernels.hopper_kernels import FUNCTIONS, KERNELS, PRODUCTS, product
from tests.core.kernels.hopper_operations import OPERATIONS, kind, rounded_product
from tests.core.kernels.hopper_threads import THREADS, plain_attention, tiles

ALL = KERNELS | PRODUCTS | THREADS | OPERATIONS
SPECIALIZED = {
    "specialized_matmul", "wide_matmul", "specialized_attention", "causal_attention", "attention_of_library",
    "product_of_library", "product_of_library_by_rows", "buffers_used_again", "product_of_groups",
}  # fmt: skip


def kernel_of(function, *args):
    jaxpr = pl.make_jaxpr(function)(*args).jaxpr
    [equation] = [e for e in jaxpr.equations if e.primitive is pallas_call_p]
    return equation.params.kernel


def interpreted(function, *args, held=()):
    """Results of the kernel that `function` calls, by the interpreter of its module; `held` are contents of references from outside."""
    kernel = kernel_of(function, *args)
    inputs = [np.asarray(x) for x in pl.tree.leaves((args, held))]
    inputs += [inputs[i] for i in beginnings(kernel)]
    results = []
    for i, m in enumerate(kernel.results):
        source = kernel.aliases.get(i)
        x = np.zeros(m.aval.shape, m.aval.dtype) if source is None else np.array(inputs[source])
        results.append(x)
    return hopper_interpreter.run(lowered(kernel), inputs, results)


@pytest.mark.parametrize("name", ALL)
def test_results_are_those_of_the_definition(name):
    function, args = ALL[name]()
    found = interpreted(function, *args)
    expected = pl.tree.leaves(function(*args))
    for x, y in zip(found, expected, strict=True):
        y = np.asarray(y)
        assert x.dtype == y.dtype
        tolerance = 1e-5 if y.dtype.itemsize > 2 else 2e-2
        np.testing.assert_allclose(
            x.astype(np.float64), y.astype(np.float64), rtol=tolerance, atol=1e-5
        )


# Text -------------------------------------------------------------------------------------------------------


def test_text():
    function, args = add_one()
    assert lowered(kernel_of(function, *args)).text == ADD_ONE


def add_one():
    def kernel(x_ref, o_ref):
        o_ref[...] = x_ref[...] + 1

    x = np.zeros(256, np.float32)
    block = BlockSpec((128,), lambda i: (i,))
    return pallas_call(kernel, x, grid=2, in_specs=[block], out_specs=block, name="add_one"), (x,)


ADD_ONE = """\
module attributes {mosaic_gpu.arch_major = 9 : i32, mosaic_gpu.arch_minor = 0 : i32} {
  llvm.mlir.global external @global_scratch() {addr_space = 4 : i32} : !llvm.array<0 x i8>
  func.func @add_one_mosaic_gpu(%arg0: !llvm.ptr, %arg1: !llvm.ptr) attributes {llvm.emit_c_interface} {
    %cst = arith.constant dense<1.000000e+00> : vector<1xf32>
    %c128_i32 = arith.constant 128 : i32
    %c0_i32 = arith.constant 0 : i32
    %c128 = arith.constant 128 : index
    %c1 = arith.constant 1 : index
    %c2 = arith.constant 2 : index
    %0 = builtin.unrealized_conversion_cast %arg0 : !llvm.ptr to !gpu.async.token
    %1 = llvm.load %arg1 : !llvm.ptr -> !llvm.ptr
    %2 = llvm.getelementptr %arg1[1] : (!llvm.ptr) -> !llvm.ptr, !llvm.ptr
    %3 = llvm.load %2 : !llvm.ptr -> !llvm.ptr
    %4 = gpu.launch async [%0] blocks(%arg2, %arg3, %arg4) in (%arg8 = %c2, %arg9 = %c1, %arg10 = %c1) threads(%arg5, %arg6, %arg7) in (%arg11 = %c128, %arg12 = %c1, %arg13 = %c1) dynamic_shared_memory_size %c0_i32 {
      %thread_id_x = gpu.thread_id x
      %5 = arith.index_cast %thread_id_x : index to i32
      %block_id_x = gpu.block_id x
      %6 = arith.index_cast %block_id_x : index to i32
      %7 = arith.muli %6, %c128_i32 : i32
      %8 = arith.addi %7, %5 : i32
      %9 = llvm.getelementptr %1[%8] : (!llvm.ptr, i32) -> !llvm.ptr, f32
      %10 = llvm.load %9 {alignment = 4 : i64} : !llvm.ptr -> f32
      %11 = vector.broadcast %10 : f32 to vector<1xf32>
      %12 = arith.addf %11, %cst : vector<1xf32>
      %13 = vector.extract %12[0] : f32 from vector<1xf32>
      %14 = llvm.getelementptr %3[%8] : (!llvm.ptr, i32) -> !llvm.ptr, f32
      llvm.store %13, %14 {alignment = 4 : i64} : f32, !llvm.ptr
      gpu.terminator
    }
    return
  }
}
"""


def test_the_call():
    function, args = add_one()
    kernel_text = pl.jit(with_params(function, args)).trace(*args)
    text = kernel_text.lower(lowering_platforms=("cuda",)).as_text()
    assert "stablehlo.custom_call @mosaic_gpu_v2(%arg0)" in text
    assert "operand_layouts = [dense<0> : tensor<1xindex>]" in text
    assert "mosaic_gpu_v2" not in pl.jit(with_params(function, args)).lower(*args).as_text()


def with_params(function, args):
    def kernel(x_ref, o_ref):
        o_ref[...] = x_ref[...] + 1

    return pallas_call(kernel, args[0], compiler_params=mosaic_gpu.CompilerParams())


def test_an_aliased_result_begins_as_its_input():
    def kernel(x_ref, o_ref):
        o_ref[0] = x_ref[1] + 10

    x = np.arange(4, dtype=np.float32)
    [found] = interpreted(pallas_call(kernel, x, input_output_aliases={0: 0}), x)
    np.testing.assert_array_equal(found, [11, 1, 2, 3])


def test_what_is_written_is_read_back_by_other_threads():
    def kernel(x_ref, o_ref):
        o_ref[...] = x_ref[...]
        o_ref[...] = o_ref[...].reshape(16, 16).T.reshape(256) * 2
        o_ref[pl.experimental.pallas.ds(3, 4)] += 1

    x = np.arange(256, dtype=np.float32)
    [found] = interpreted(pallas_call(kernel, x), x)
    expected = x.reshape(16, 16).T.ravel() * 2
    expected[3:7] += 1
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int16, np.uint16])
def test_numbers_that_narrow_integers_lack_become_the_nearest(dtype):
    def kernel(x_ref, o_ref):
        o_ref[...] = x_ref[...].astype(dtype)

    x = np.array(test_triton.OUTSIDE, np.float32)
    params = mosaic_gpu.CompilerParams()
    call = pallas_call(kernel, pl.ShapeDtypeStruct(x.shape, dtype), compiler_params=params)
    np.testing.assert_array_equal(interpreted(call, x)[0], jnp.asarray(x).astype(dtype))


def test_functions_of_narrow_elements():
    def kernel(x_ref, o_ref):
        for i, name in enumerate(FUNCTIONS):
            o_ref[i] = getattr(jnp, name)(x_ref[...]).astype(np.float32)

    x = np.linspace(0.125, 0.875, 130).astype(jnp.bfloat16)
    function = pallas_call(kernel, pl.ShapeDtypeStruct((len(FUNCTIONS), 130), np.float32))
    [found] = interpreted(function, x)
    np.testing.assert_allclose(found, function(x), rtol=2e-2, atol=1e-2)


REDUCTIONS = [
    (name, dtype, shape, axis)
    for shape, axis in [((130,), 0), ((4, 256), 1), ((6, 40), 0), ((3, 5, 7), 1)]
    for name in ("sum", "max", "min", "prod", "argmax", "argmin")
    for dtype in (np.float32, np.int8, np.uint8, np.int32, np.uint32, np.float16)
]


@pytest.mark.parametrize(
    ("name", "dtype", "shape", "axis"), rotating(REDUCTIONS, lambda row: (row[0], row[2]))
)
def test_reductions(name, dtype, shape, axis):
    def kernel(x_ref, o_ref):
        o_ref[...] = jnp.atleast_1d(getattr(jnp, name)(x_ref[...], axis=axis).astype(o_ref.dtype))

    x = np.random.default_rng(0).integers(0, 4, shape).astype(dtype)
    result = np.atleast_1d(getattr(np, name)(x, axis=axis))
    function = pallas_call(kernel, pl.ShapeDtypeStruct(result.shape, np.float32))
    [found] = interpreted(function, x)
    np.testing.assert_allclose(found, function(x))


def test_not_a_number_is_the_extreme():
    def kernel(x_ref, o_ref, i_ref):
        o_ref[0] = x_ref[...].max()
        i_ref[0] = jnp.argmin(x_ref[...])

    x = np.arange(300, dtype=np.float32)
    x[[70, 222]] = np.nan
    out = [pl.ShapeDtypeStruct((1,), np.float32), pl.ShapeDtypeStruct((1,), np.int32)]
    found, place = interpreted(pallas_call(kernel, out), x)
    assert np.isnan(found[0])
    assert place[0] == 70


# What is refused --------------------------------------------------------------------------------------------


def refusal(function, *args):
    with pytest.raises(UnsupportedError) as caught:
        lowered(kernel_of(function, *args))
    return str(caught.value)


def test_blocks_that_registers_do_not_hold():
    def kernel(x_ref, o_ref):
        o_ref[...] = x_ref[...] + 1

    x = np.zeros((512, 128), np.float32)
    text = refusal(pallas_call(kernel, x), x)
    assert "255 registers" in text
    assert "65,536 elements" in text
    assert "in test_mosaic_gpu.py, line" in text


def test_more_shared_memory_than_there_is():
    def kernel(x_ref, o_ref, smem):
        smem[0, 0] = x_ref[0, 0]
        o_ref[0, 0] = smem[0, 0]

    x = np.zeros((8, 8), np.float32)
    scratch = [mosaic_gpu.SMEM((512, 128), np.float32)]
    text = refusal(mosaic_gpu.kernel(kernel, out_type=x, scratch_types=scratch), x)
    assert "256.0 KiB of shared memory" in text
    assert "227 KiB" in text


def test_operations_without_a_rule():
    def kernel(x_ref, o_ref):
        o_ref[...] = jnp.sort(x_ref[...])

    x = np.zeros(8, np.float32)
    text = refusal(pallas_call(kernel, x), x)
    assert "there is no rule for `sort`" in text
    assert "in test_mosaic_gpu.py, line" in text


def test_blocks_that_several_programs_write():
    def kernel(x_ref, o_ref):
        o_ref[...] = x_ref[0]

    x = np.zeros((4, 8), np.float32)
    specs = {
        "in_specs": [BlockSpec((1, 8), lambda i: (i, 0))],
        "out_specs": BlockSpec((8,), lambda i: (0,)),
    }
    text = refusal(pallas_call(kernel, pl.ShapeDtypeStruct((8,), np.float32), grid=4, **specs), x)
    assert "several would write the same block" in text


def test_rows_that_copies_cannot_address():
    def kernel(x_ref, o_ref, smem, barrier):
        mosaic_gpu.copy_gmem_to_smem(x_ref, smem, barrier)
        mosaic_gpu.barrier_wait(barrier)
        o_ref[...] = smem[...]

    x = np.zeros((8, 13), np.float32)
    scratch = [mosaic_gpu.SMEM((8, 13), np.float32), mosaic_gpu.Barrier()]
    text = refusal(mosaic_gpu.kernel(kernel, out_type=x, scratch_types=scratch), x)
    assert "52 bytes" in text
    assert "Pad the last dimension to 16" in text


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"dtype": np.int8, "sums": np.int32, "n": 40}, "48 columns"),
        ({"n": 264}, "256 columns"),
        ({"dtype": np.float32, "k": 32}, "rounded to 10 bits"),
    ],
)
def test_products_that_no_instruction_has(options, message):
    options = {"dtype": jnp.bfloat16, **options}
    assert message in refusal(*flat(product(**options)))


def flat(pair):
    return pair[0], *pair[1]


def test_matrices_that_no_swizzle_fits():
    def kernel(x_ref, o_ref, a_smem):
        a_smem[...] = x_ref[...]

        def run(acc):
            mosaic_gpu.wgmma(acc, a_smem, mosaic_gpu.transpose_ref(a_smem, (1, 0)))
            return acc[...]

        o_ref[...] = pallas.run_scoped(run, mosaic_gpu.ACC((64, 64)))

    x = np.zeros((64, 24), jnp.bfloat16)
    scratch = [mosaic_gpu.SMEM((64, 24), jnp.bfloat16)]
    text = refusal(mosaic_gpu.kernel(kernel, out_type=kind((64, 64)), scratch_types=scratch), x)
    assert "32 bytes of columns" in text


def test_products_of_float32_are_rounded_for_who_asks():
    """CPUs have no such products, so NumPy's are compared with."""
    function, (a, b) = rounded_product()
    rounded = lambda x: ((x.view(np.uint32) + np.uint32(0x1000)) & np.uint32(0xFFFFE000)).view(np.float32)  # fmt: skip
    [found] = interpreted(function, a, b)
    np.testing.assert_allclose(found, rounded(a) @ rounded(b), rtol=1e-5, atol=1e-5)
    assert "tf32.tf32" in lowered(kernel_of(function, a, b)).text
    plain = lambda x, y, o: o.__setitem__(..., x[...] @ y[...])
    exact = pallas_call(plain, kind((64, 16)), compiler_params=mosaic_gpu.CompilerParams())
    assert "wgmma" not in lowered(kernel_of(exact, a, b)).text


@pytest.mark.parametrize(("name", "dtype"), [("add", np.float32), ("max", np.int32), ("or", np.uint32), ("min", np.float16)])  # fmt: skip
def test_copies_that_combine(name, dtype):
    combine = {"add": np.add, "max": np.maximum, "min": np.minimum, "or": np.bitwise_or}[name]

    def run(x):
        r = pl.new_ref(jnp.ones((8, 32), dtype))

        def body(x_ref, o_ref, held):
            i = lax.axis_index("i")
            held[...] = x_ref[i]
            mosaic_gpu.commit_smem()
            mosaic_gpu.copy_smem_to_gmem(held, r, reduction_op=name)
            mosaic_gpu.wait_smem_to_gmem(0)
            o_ref[i] = x_ref[i]

        options = {"scratch_types": [mosaic_gpu.SMEM((8, 32), dtype)], "grid": (3,), "grid_names": ("i",)}  # fmt: skip
        mosaic_gpu.kernel(body, out_type=x, **options)(x)
        return r[...]

    x = np.random.default_rng(0).integers(0, 9, (3, 8, 32)).astype(dtype)
    held = np.ones((8, 32), dtype)
    expected = combine.reduce([held, *x])
    np.testing.assert_array_equal(interpreted(run, x, held=[held])[1], expected)
    np.testing.assert_array_equal(run(x), expected)


def test_copies_that_do_not_combine():
    def body(x_ref, o_ref, held):
        held[...] = x_ref[...]
        mosaic_gpu.commit_smem()
        mosaic_gpu.copy_smem_to_gmem(held, o_ref, reduction_op="max")
        mosaic_gpu.wait_smem_to_gmem(0)

    x = np.zeros((8, 32), np.float32)
    options = {"scratch_types": [mosaic_gpu.SMEM((8, 32), np.float32)]}
    text = refusal(mosaic_gpu.kernel(body, out_type=x, **options), x)
    assert "copies combine int32" in text


def test_writes_at_arrays_of_positions():
    def body(x_ref, i_ref, o_ref):
        o_ref[...] = x_ref[...]
        o_ref[i_ref[...]] = x_ref[...]

    x, places = np.zeros(4, np.float32), np.arange(4, dtype=np.int32)
    assert "atomic_add" in refusal(pallas_call(body, kind((4,))), x, places)


def test_threads_that_write_one_part():
    def kernel(x_ref, o_ref):
        o_ref[...] = x_ref[...]

    x = np.zeros(8, np.float32)
    run = mosaic_gpu.kernel(kernel, out_type=x, num_threads=2, thread_name="wg")
    text = refusal(run, x)
    assert "all would write the same part" in text
    assert "num_threads=2" in text


def test_scratch_in_common_where_a_condition_holds():
    def kernel(x_ref, o_ref):
        i = lax.axis_index("wg")

        def run(held):
            held[...] = x_ref[...]
            o_ref[i] = held[...]

        def make():
            pallas.run_scoped(run, mosaic_gpu.SMEM((8,), np.float32), collective_axes="wg")

        pallas.when(i == 0)(make)

    x, out = np.zeros(8, np.float32), pl.ShapeDtypeStruct((2, 8), np.float32)
    run = mosaic_gpu.kernel(kernel, out_type=out, num_threads=2, thread_name="wg")
    assert "made where a condition holds" in refusal(run, x)


@pytest.mark.parametrize("start", [4, None])
def test_parts_of_swizzled_matrices_begin_at_rows_that_are_exchanged_together(start):
    def kernel(x_ref, o_ref, held, barrier):
        first = lax.axis_index("x") if start is None else start
        mosaic_gpu.copy_gmem_to_smem(x_ref, held.at[pallas.ds(first, 8)], barrier)
        mosaic_gpu.barrier_wait(barrier)
        o_ref[...] = held[pallas.ds(first, 8)]

    x = np.zeros((8, 64), jnp.bfloat16)
    scratch = [mosaic_gpu.SMEM((64, 64), jnp.bfloat16, transforms=tiles(jnp.bfloat16)), mosaic_gpu.Barrier()]  # fmt: skip
    run = mosaic_gpu.kernel(kernel, out_type=x, scratch_types=scratch, grid=(1,), grid_names=("x",))
    assert "`ds(i * 8, size)`" in refusal(run, x)


def test_a_copy_of_a_part_with_a_dimension_between():
    """Rows of one head of (rows, heads, columns), of which the columns are two panels."""

    def kernel(x_ref, o_ref, held, barrier):
        h = lax.axis_index("h")
        mosaic_gpu.copy_gmem_to_smem(x_ref.at[:, h], held, barrier)
        mosaic_gpu.barrier_wait(barrier)
        mosaic_gpu.copy_smem_to_gmem(held, o_ref.at[h])
        mosaic_gpu.wait_smem_to_gmem(0)

    x = np.random.default_rng(0).normal(size=(16, 3, 128)).astype(np.float16)
    scratch = [mosaic_gpu.SMEM((16, 128), np.float16, transforms=tiles(np.float16)), mosaic_gpu.Barrier()]  # fmt: skip
    out = pl.ShapeDtypeStruct((3, 16, 128), np.float16)
    run = mosaic_gpu.kernel(
        kernel, out_type=out, scratch_types=scratch, grid=(3,), grid_names=("h",)
    )
    np.testing.assert_array_equal(interpreted(run, x)[0], x.transpose(1, 0, 2))


def test_several_matrices_that_come_by_one_copy():
    def kernel(x_ref, o_ref, held, barrier):
        mosaic_gpu.copy_gmem_to_smem(x_ref, held, barrier)
        mosaic_gpu.barrier_wait(barrier)
        o_ref[...] = held[...] * 2

    x = np.random.default_rng(0).normal(size=(2, 16, 128)).astype(np.float16)
    scratch = [mosaic_gpu.SMEM(x.shape, x.dtype, transforms=tiles(x.dtype)), mosaic_gpu.Barrier()]
    run = mosaic_gpu.kernel(kernel, out_type=x, scratch_types=scratch)
    np.testing.assert_array_equal(interpreted(run, x)[0], x * 2)


@pytest.mark.parametrize("name", ["specialized_attention", "causal_attention"])
def test_attention_of_threads_is_attention(name):
    function, args = THREADS[name]()
    expected = plain_attention(*args, causal=name == "causal_attention")
    np.testing.assert_allclose(function(*args).astype(np.float32), expected, atol=2e-2)


# The interpreter --------------------------------------------------------------------------------------------


def without(operation):
    """The text of the copies' kernel without its operations of a name."""
    function, args = KERNELS["copies"]()
    kernel = kernel_of(function, *args)
    made = lowered(kernel)
    lines = made.text.splitlines()
    kept = [line for line in lines if not line.strip().startswith(operation)]
    assert len(kept) < len(lines)
    with made.module.context:
        module = type(made.module).parse("\n".join(kept))
    results = [np.zeros(m.aval.shape, m.aval.dtype) for m in kernel.results]
    return made._replace(module=module), [np.asarray(x) for x in args], results


@pytest.mark.parametrize(
    ("operation", "message"),
    [
        ("gpu.barrier", "threads haven't met"),
        ("nvvm.fence.proxy", "without a fence"),
        ("nvvm.mbarrier.try_wait", "a read of what nobody has written"),
        ("nvvm.cp.async.bulk.wait_group", "nobody waited for"),
    ],
)
def test_the_interpreter_finds_what_is_missing(operation, message):
    with pytest.raises(AssertionError, match=message):
        hopper_interpreter.run(*without(operation))


def handed_over(has_barrier):
    """The module of a kernel of which one thread reads what another one has written, and its operands."""

    def kernel(x_ref, o_ref, held, barrier):
        i = lax.axis_index("wg")

        @pallas.when(i == 1)
        def _():
            held[...] = x_ref[...]
            mosaic_gpu.barrier_arrive(barrier)

        @pallas.when(i == 0)
        def _():
            if has_barrier:
                mosaic_gpu.barrier_wait(barrier)
            o_ref[...] = held[...]

    x = np.arange(200, dtype=np.float32)
    scratch = [mosaic_gpu.SMEM((200,), np.float32), mosaic_gpu.Barrier()]
    run = mosaic_gpu.kernel(kernel, out_type=x, scratch_types=scratch, num_threads=2, thread_name="wg")  # fmt: skip
    return lowered(kernel_of(run, x)), [x], [np.zeros_like(x)]


def test_the_interpreter_finds_threads_that_race():
    made, inputs, results = handed_over(has_barrier=True)
    np.testing.assert_array_equal(hopper_interpreter.run(made, inputs, results)[0], inputs[0])
    with pytest.raises(AssertionError, match="another thread has written"):
        hopper_interpreter.run(*handed_over(has_barrier=False))
    lines = [x for x in made.text.splitlines() if "mbarrier.arrive" not in x]
    with made.module.context:
        module = type(made.module).parse("\n".join(lines))
    with pytest.raises(AssertionError, match="a wait without end"):
        hopper_interpreter.run(made._replace(module=module), inputs, results)


# Compiled for H100 ------------------------------------------------------------------------------------------


def compile_for_hopper(folder, *names):
    """The rows that the program of this name prints."""
    plugin = plugins.cuda_plugin()
    if (
        plugin is None
        or plugins.name_mosaic_runtime(plugin.cuda_version) is None
        or ptxas.ptxas() is None
    ):
        pytest.skip("no compiler of Mosaic for GPUs is installed: the extra `gpu-aot`")
    script = pathlib.Path(__file__).with_name("compile_for_hopper.py")
    settings = {
        "JAX_PLATFORMS": "cpu",
        "MOSAIC_GPU_DUMP_TO": str(folder),
        "PYTHONPATH": os.pathsep.join(sys.path),
    }
    done = subprocess.run(
        [sys.executable, str(script), str(folder), *names],
        capture_output=True, text=True, timeout=300, check=False, env=os.environ | settings,
    )  # fmt: skip
    rows = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    assert len(rows) == (len(names) or len(ALL)), done.stderr[-2000:]
    return rows


@pytest.fixture(scope="module")
def compiled(tmp_path_factory):
    """By kernel what compiling it for an H100 leaves."""
    return {row["name"]: row for row in compile_for_hopper(tmp_path_factory.mktemp("hopper"))}


@pytest.mark.timeout(200)
def test_programs_whose_kernels_may_fail_compile_for_a_gpu_that_is_not_there(tmp_path):
    [found] = compile_for_hopper(tmp_path, "topology")
    assert found["targets"] == ["mosaic_gpu_v2", "xla_ffi_python_gpu_callback"]


@pytest.mark.timeout(400)
@pytest.mark.parametrize("name", ALL)
def test_assembly(compiled, name):
    found = compiled[name]
    assert "error" not in found, found["error"]
    assert ".target sm_90a" in found["assembly"]
    needed = ptxas.resources_of(found["report"], "sm_90a", 0, 4)
    assert needed.spilled_bytes == 0
    assert 0 < needed.registers < 255
    # Products that registers make wait are told by the assembler.
    assert "serialized" not in found["report"]
    of_values = {x for x in OPERATIONS if "product" in x} - {"small_product", "batched_product", "inner_product"}  # fmt: skip
    products = {*PRODUCTS, "matmul", "attention", *SPECIALIZED, *of_values}
    products |= {"pipeline_without_swizzle", "blocks_without_swizzle"}
    copies = {*PRODUCTS, "matmul", "attention", *SPECIALIZED, "copies", "pipeline", "own_scratch", "pipeline_of_threads", "pipeline_of_five_threads"}  # fmt: skip
    copies |= {"tested", "product_without_swizzle", "pipeline_without_swizzle", "blocks_without_swizzle"}  # fmt: skip
    assert ("cp.async.bulk.tensor" in found["assembly"]) == (name in copies)
    assert ("wgmma.mma_async" in found["assembly"]) == (name in products)
    # The copying warpgroup gives registers to those that compute.
    for text in ("setmaxnreg.dec.sync.aligned.u32 \t40", "setmaxnreg.inc.sync.aligned.u32 \t232"):
        assert (text in found["assembly"]) == (name in {"pipeline_of_threads", *SPECIALIZED})


@pytest.mark.skipif(
    plugins.cuda_plugin() is None or ptxas.ptxas() is None,
    reason="no compiler of Mosaic for GPUs is installed: the extra `gpu-aot`",
)
def test_resources():
    [found] = mosaic_gpu_texts(*flat(KERNELS["matmul"]()))
    assert found.threads == 128
    assert found.shared_bytes > 2 * (64 * 64 + 64 * 128) * 2
    assert "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16" in found.assembly().text
    needed = found.resources()
    assert needed.shared_bytes == found.shared_bytes
    assert needed.num_warps == 4
    assert needed.spilled_bytes == 0
    assert needed.programs_at_once == min(65536 // 4 // (-(-needed.registers * 32 // 256) * 256), 228 * 1024 // (found.shared_bytes + 1024))  # fmt: skip


@pytest.mark.gpu
@pytest.mark.parametrize("name", ALL)
def test_on_a_gpu(name):
    function, args = ALL[name]()
    with pl.default_device(pl.devices("cpu")[0]):
        expected = pl.tree.leaves(function(*args))
    gpu = pl.devices("gpu")[0]
    found = pl.tree.leaves(pl.jit(function)(*[pl.device_put(x, gpu) for x in args]))
    for x, y in zip(found, expected, strict=True):
        y = np.asarray(y)
        tolerance = 1e-4 if y.dtype.itemsize > 2 else 2e-2
        np.testing.assert_allclose(
            np.asarray(x).astype(float), y.astype(float), rtol=tolerance, atol=1e-3
        )

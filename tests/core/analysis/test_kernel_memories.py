"""Records of what kernels hold in the fast memories of TPUs."""

import numpy as np
import pytest

import pellucid as pl
from pellucid.analysis import kernel_memories, lens
from pellucid.errors import ArgumentValueError
from pellucid.experimental import pallas
from pellucid.experimental.pallas import BlockSpec, Buffered, mosaic_gpu, pallas_call, tpu
from pellucid.introspect.mosaic_text import mosaic_texts
from tests.introspect import sample_grids as samples
from tests.introspect.sample_runs import matmul

X = np.ones((64, 256), np.float32)


def double(x_ref, o_ref):
    o_ref[...] = x_ref[...] * 2


def parts(record):
    [kernel] = record.kernels
    return {p.name: (p.space, p.buffer_count, p.bytes, p.needed_bytes) for p in kernel.parts}


def test_blocks_by_buffers_in_whole_tiles():
    one, row = BlockSpec((8, 256), lambda i: (i, 0), pipeline_mode=Buffered(1)), BlockSpec((8, 256), lambda i: (i, 0))  # fmt: skip
    call = pallas_call(double, X, grid=8, in_specs=[one], out_specs=row)
    assert parts(kernel_memories(call, X)) == {
        "x_ref": ("vmem", 1, 8192, 8192),
        "o_ref": ("vmem", 2, 16384, 16384),
    }


def test_scratch_scalars_and_tiles():
    record = samples.memory_of_small()
    first, second = record.kernels
    assert [(p.name, p.role, p.space) for p in first.parts] == [
        ("scalars 0", "scalars", "smem"),
        ("x_ref", "block", "vmem"),
        ("o_ref", "block", "vmem"),
    ]
    # Blocks of 8 × 100 floats take a tile of 8 × 128, twice.
    assert [(p.bytes, p.needed_bytes) for p in first.parts[1:]] == [(8192, 6400)] * 2
    # A pipeline makes two buffers for each reference.
    [made] = second.parts
    assert (made.buffer_count, made.bytes, made.role) == (4, 4 * 4096, "scratch")
    assert "tpu.emit_pipeline(double" in made.text


def test_what_is_too_large_for_a_chip_is_shown_with_its_parts():
    [kernel] = samples.memory_of_product().kernels
    assert kernel.refusal == ""
    assert sum(p.bytes for p in kernel.parts) == 28 << 20
    text = repr(pl.viz.kernel_memory(samples.product(4096, 1024), chip="v4")(*[samples.like(4096, 4096)] * 2))  # fmt: skip
    assert "! VMEM: 28 MiB, v4 has 16 MiB: too much" in text
    assert "sum_ref" in text
    limit = tpu.CompilerParams(vmem_limit_bytes=20_000)
    row = BlockSpec((8, 256), lambda i: (i, 0))
    call = pallas_call(double, X, grid=8, in_specs=[row], out_specs=row, compiler_params=limit)
    [kernel] = kernel_memories(call, X).kernels
    assert kernel.limit_bytes == 20_000
    assert "VMEM" in kernel.refusal  # it is refused on every chip
    assert len(kernel.parts) == 2


def test_kernels_that_aren_t_lowered_say_why():
    def gather(x_ref, o_ref):
        o_ref[...] = x_ref[...][np.arange(64)[::2].repeat(2)]

    [kernel] = kernel_memories(pallas_call(gather, X), X).kernels
    assert "can't be lowered to TPUs" in kernel.refusal
    assert {p.name for p in kernel.parts} == {"x_ref", "o_ref"}
    assert kernel_memories(pl.vmap(pallas_call(double, X)), np.stack([X, X])).kernels == []


def test_unknown_chips_are_refused():
    with pytest.raises(ArgumentValueError, match="no such TPU"):
        kernel_memories(pallas_call(double, X), X, chip="v99")


def test_bytes_of_references_that_a_body_makes_are_all_counted():
    x = np.ones((256, 256), np.float32)
    [found] = mosaic_texts(matmul(256, 128), x, x)
    # Two buffers of 64 KiB for each of three references, all of one name.
    assert found.vmem_bytes == 6 << 16


def test_a_lens_shows_kernels_for_tpus_by_line():
    def f(x):
        row = BlockSpec((8, 256), lambda i: (i, 0))
        params = tpu.CompilerParams()
        return pallas_call(
            double, x, grid=8, in_specs=[row], out_specs=row, compiler_params=params
        )(x)

    record = lens(f, X)
    assert [p.dialect for p in record.programs] == ["jaxpr", "stablehlo", "hlo", "mosaic"]
    assert record.notes[3] == "32 KiB of VMEM: in_specs[0] 16 KiB, out_specs 16 KiB"
    mosaic = record.programs[3]
    assert "tpu.dimension_semantics" in mosaic.listing.text
    assert any(s.name.endswith("test_kernel_memories.py") for s in mosaic.sources)
    assert record.links[3].relation == "lower"


def test_a_lens_says_why_a_kernel_is_not_shown():
    def inverts(x_ref, o_ref):
        o_ref[...] = pl.numpy.linalg.inv(x_ref[...])

    x = np.eye(128, dtype=np.float32)
    record = lens(pallas_call(inverts, x, compiler_params=tpu.CompilerParams()), x)
    assert [p.dialect for p in record.programs] == ["jaxpr", "stablehlo", "hlo"]
    assert record.notes[2].startswith("the kernel `inverts` can't be lowered to TPUs: there is no")


def test_a_lens_ties_what_a_pipeline_becomes_to_its_lines():
    def body(x_ref, o_ref):
        o_ref[...] = x_ref[...] * 2

    def kernel(x_ref, o_ref):
        block = BlockSpec((8, 128), lambda i: (i, 0))
        tpu.emit_pipeline(body, grid=(8,), in_specs=[block], out_specs=[block])(x_ref, o_ref)

    anywhere = BlockSpec(memory_space=pallas.ANY)
    x = X[:, :128]
    call = pallas_call(
        kernel, x, in_specs=[anywhere], out_specs=anywhere, compiler_params=tpu.CompilerParams()
    )
    record = lens(call, x)
    jaxpr, mosaic = record.programs[0], record.programs[-1]
    ids = {*jaxpr.equations.id}
    origins = iter(mosaic.equations.origins)
    found = [next(origins) for n in mosaic.equations.origin_counts for _ in range(n)]
    assert found
    assert {*found} <= ids
    # The product of the body is tied to the equation that the jaxpr shows.
    names = dict(zip(jaxpr.equations.id, jaxpr.equations.primitive, strict=True))
    assert "mul" in {jaxpr.strings[names[id]] for id in found}


def test_kernels_for_gpus_have_shared_memory_barriers_and_registers():
    def kernel(x_ref, o_ref, smem, barrier, acc):
        mosaic_gpu.copy_gmem_to_smem(x_ref, smem, barrier)
        mosaic_gpu.barrier_wait(barrier)
        o_ref[...] = smem[...] + acc[...]

    x = np.zeros((64, 128), np.float32)
    scratch = [
        mosaic_gpu.SMEM((64, 128), np.float32),
        mosaic_gpu.Barrier(),
        mosaic_gpu.ACC((64, 128), np.float32),
    ]
    [found] = kernel_memories(mosaic_gpu.kernel(kernel, x, scratch_shapes=scratch), x).kernels
    assert found.gpu is not None
    assert (found.gpu.name, found.gpu.shared_bytes, found.refusal) == ("H100", 227 << 10, "")
    assert [(part.name, part.space, part.bytes) for part in found.parts[:3]] == [
        ("smem", "shared", 32 << 10),
        ("barrier", "shared", 8),
        ("acc", "registers", 32 << 10),
    ]

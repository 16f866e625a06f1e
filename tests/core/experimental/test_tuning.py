"""Settings of kernels that are measured or ranked, and kept on disk."""

import inspect
from types import SimpleNamespace

import numpy as np
import pytest

import pellucid as pl
import pellucid.numpy as jnp
from pellucid._machine.compilation import disk_cache
from pellucid._machine.xla import plugins, ptxas
from pellucid.errors import ArgumentValueError
from pellucid.experimental import pallas
from pellucid.experimental.compilation_cache import compilation_cache
from pellucid.experimental.pallas import (
    BlockSpec,
    Candidate,
    mosaic_gpu,
    pallas_call,
    tpu,
    triton,
    tune,
)
from pellucid.experimental.pallas.ops.tpu.matmul import matmul
from pellucid.introspect.triton_text import TritonText

X = np.ones(64, np.float32)


def double(x, block, warps=None):
    def kernel(x_ref, o_ref):
        o_ref[...] = x_ref[...] * 2

    if block == 5:
        raise ArgumentValueError("five is none.")
    spec = BlockSpec((block,), lambda i: (i,))
    params = None if warps is None else triton.CompilerParams(num_warps=warps)
    return pallas_call(
        kernel, x, grid=-(-x.size // block), in_specs=[spec], out_specs=spec, compiler_params=params
    )(x)


@pytest.fixture
def clock(monkeypatch):
    """The first program takes 16 s, but in one round, the second 64 s; counts the measurements."""
    sizes, turns = {}, [0]

    def run(compiled, args, count):
        turns[0] += 1
        size = sizes.setdefault(id(compiled), 16 * 4 ** len(sizes))
        return size * (100.0 if turns[0] == 5 else 1.0)

    monkeypatch.setitem(inspect.unwrap(tune).__globals__, "_seconds_of", run)
    return turns


@pytest.fixture
def folder(tmp_path):
    tmp_path.chmod(0o700)
    compilation_cache.set_cache_dir(tmp_path)
    yield tmp_path
    compilation_cache.set_cache_dir(None)


def test_the_median_of_alternating_rounds_decides(clock):
    found = tune(double, {"block": [16, 64]}, keep=False)(X)
    assert found.best == {"block": 16}  # although one round of it was slow
    assert [c.seconds for c in found.candidates] == [16, 64]
    assert clock[0] == 2 * 2 + 7 * 2  # twice before, then in seven rounds
    assert found.is_measured
    assert found.device == pl.devices()[0].device_kind


def test_measured_in_truth():
    found = tune(double, {"block": [16, 64]}, rounds=2, keep=False)(X)
    assert all(c.seconds > 0 and c.spread >= 0 and not c.failure for c in found.candidates)


def test_candidates_that_fail_are_rows(clock):
    found = tune(double, [{"block": 5}, {"block": 0}, {"block": 32}], keep=False)(X)
    assert found.best == {"block": 32}
    assert [c.seconds for c in found.candidates][1:] == [None, None]
    assert "ArgumentValueError: five is none." in repr(found)
    assert "ZeroDivisionError" in repr(found)
    assert "<td>ArgumentValueError: five is none.</td>" in found._repr_html_()


def test_all_that_fail_raise():
    with pytest.raises(ArgumentValueError, match="none of 2 candidates of `double`") as caught:
        tune(double, {"block": [5], "warps": [1, 2]})(X)
    assert "five is none" in str(caught.value)


def test_ranked_by_what_the_grid_moves():
    def product(x, y, block):
        def kernel(x_ref, y_ref, o_ref):
            o_ref[...] = x_ref[...] @ y_ref[...]

        rows, columns = (
            BlockSpec((block, 32), lambda i, j: (i, 0)),
            BlockSpec((32, block), lambda i, j: (0, j)),
        )
        tile = BlockSpec((block, block), lambda i, j: (i, j))
        return pallas_call(
            kernel, x, grid=(32 // block, 32 // block), in_specs=[rows, columns], out_specs=tile
        )(x, y)

    like = pl.ShapeDtypeStruct((32, 32), np.float32)
    found = tune(product, {"block": [8, 32, 16]}, target="H100")(like, like)
    assert [c.settings["block"] for c in found.candidates] == [32, 16, 8]
    moved = [c.moved_bytes for c in found.candidates]
    # x once, y once for each block of rows, the result once.
    assert moved == [32 * 32 * 4 * (2 + n) for n in (1, 2, 4)]
    assert found.candidates[0].footprint == 2 * 3 * 32 * 32 * 4
    assert not found.is_measured
    assert "ranked for H100" in repr(found)


def test_what_a_target_can_not_take():
    found = tune(double, {"block": [16, 24], "warps": [1]}, target="H100")(X)
    assert found.best == {"block": 16, "warps": 1}
    assert "UnsupportedError" in found.candidates[1].failure

    def large(x, scratch):
        def kernel(x_ref, o_ref, sum_ref):
            sum_ref[...] = jnp.zeros_like(sum_ref)
            o_ref[...] = x_ref[...] + sum_ref[0]

        return pallas_call(kernel, x, scratch_shapes=[tpu.VMEM((scratch,), np.float32)])(x)

    found = tune(large, {"scratch": [1 << 23, 8]}, target="TPU")(X)
    assert found.best == {"scratch": 8}
    assert "of 16 MiB" in found.candidates[1].failure
    with pytest.raises(ArgumentValueError, match="it calls no kernel"):
        tune(lambda x, n: x * n, {"n": [1]}, target="TPU")(X)


def on_hopper(x, block, semantics):
    """The same by Mosaic for GPUs."""

    def kernel(x_ref, o_ref):
        o_ref[...] = x_ref[...] * 2

    spec = BlockSpec((block,), lambda i: (i,))
    params = mosaic_gpu.CompilerParams(dimension_semantics=[semantics])
    return pallas_call(kernel, x, grid=-(-x.size // block), in_specs=[spec], out_specs=spec, compiler_params=params)(x)  # fmt: skip


def test_kernels_of_mosaic_for_gpus():
    x = np.ones(512, np.float32)
    found = tune(on_hopper, {"block": [128, 256, 100], "semantics": ["parallel"]}, target="H100", keep=False)(x)  # fmt: skip
    assert found.best["block"] == 256
    with pytest.raises(ArgumentValueError, match="Mosaic's kernels are for Hopper GPUs"):
        tune(on_hopper, {"block": [128], "semantics": ["parallel"]}, target="A100")(x)


def test_occupancy_decides_between_equal_moves(monkeypatch):
    """Of kernels that move the same, the one of which more warps fit on a multiprocessor comes first."""
    shares = {1: 0.5, 2: 1.0, 4: 0.75}
    monkeypatch.setattr(TritonText, "resources", lambda text, architecture: SimpleNamespace(occupancy=shares[text.num_warps]))  # fmt: skip
    found = tune(double, {"block": [16], "warps": [1, 2, 4]}, target="A100", keep=False)(X)
    assert [c.settings["warps"] for c in found.candidates] == [2, 4, 1]
    assert "occupancy" in repr(found)
    assert "75 %" in repr(found)


@pytest.mark.skipif(
    plugins.triton_compiler() is None or ptxas.ptxas() is None,
    reason="a compiler of Triton and ptxas are not installed: the extra `gpu-aot`",
)
def test_occupancy_of_compiled_kernels():
    x = np.ones(4096, np.float32)
    found = tune(double, {"block": [1024], "warps": [1, 8]}, target="H100", keep=False)(x)
    by_warps = {c.settings["warps"]: c.occupancy for c in found.candidates}
    assert by_warps == {1: 0.5, 8: 1.0}  # 32 programs of one warp, of 64
    assert found.best["warps"] == 8
    on_gpu = tune(on_hopper, {"block": [128], "semantics": ["parallel"]}, target="H100", keep=False)(x)  # fmt: skip
    assert 0 < on_gpu.candidates[0].occupancy <= 1


def product(x, y, block, block_k):
    return matmul(x, y, block_shape=(block, block), block_k=block_k)


def test_tpus_are_modelled_by_tiles_passes_and_programs():
    like = pl.ShapeDtypeStruct((1024, 1024), jnp.bfloat16)
    space = {"block": [128, 256, 512], "block_k": [128, 512]}
    found = tune(product, space, target="v6e")(like, like)
    assert found.best == {"block": 512, "block_k": 512}
    by_settings = {(c.settings["block"], c.settings["block_k"]): c for c in found.candidates}
    # A matrix unit of 256 × 256: passes of 128 columns, or sums of 128, use half of it.
    assert {key: c.matrix_unit_use for key, c in by_settings.items()} == {
        (128, 128): 0.25, (128, 512): 0.5, (256, 128): 0.5, (256, 512): 1.0, (512, 128): 0.5, (512, 512): 1.0,
    }  # fmt: skip
    assert by_settings[512, 128].moved_bytes == by_settings[512, 512].moved_bytes
    seconds = [c.modelled_seconds for c in found.candidates]
    assert seconds == sorted(seconds)
    # 512 programs of 0.35 µs each.
    assert by_settings[128, 128].modelled_seconds > 512 * 0.35e-6
    # On 128 × 128 all of it is used.
    found = tune(product, space, target="v5e")(like, like)
    assert {c.matrix_unit_use for c in found.candidates} == {1.0}
    assert "MXU" in repr(found)


def test_tpus_move_whole_tiles():
    def rows(x, n):
        def kernel(x_ref, o_ref):
            o_ref[...] = x_ref[...] * 2

        row = BlockSpec((n, x.shape[1]), lambda i: (i, 0))
        return pallas_call(kernel, x, grid=x.shape[0] // n, in_specs=[row], out_specs=row)(x)

    def tile_use(columns):
        like = pl.ShapeDtypeStruct((64, columns), np.float32)
        [found] = tune(rows, {"n": [8]}, target="v5e")(like).candidates
        return found.tile_use

    assert tile_use(128) == 1.0
    assert tile_use(129) == pytest.approx(129 / 256)


def test_what_mosaic_does_not_take_is_no_choice_for_a_tpu():
    like = pl.ShapeDtypeStruct((256, 256), np.float32)
    found = tune(product, {"block": [100, 128], "block_k": [128]}, target="TPU")(like, like)
    assert found.best == {"block": 128, "block_k": 128}
    assert "can't be lowered to TPUs" in found.candidates[1].failure


def test_blocks_that_data_choose_come_after_those_that_are_modelled():
    def gather(rows, x, chosen):
        def kernel(rows_ref, x_ref, o_ref):
            o_ref[...] = x_ref[...]

        index = (lambda i, rows: (rows[i], 0)) if chosen else (lambda i, rows: (i, 0))
        spec = tpu.PrefetchScalarGridSpec(
            num_scalar_prefetch=1, grid=(8,), in_specs=[BlockSpec((8, 128), index)], out_specs=BlockSpec((8, 128), lambda i, rows: (i, 0))
        )  # fmt: skip
        return pallas_call(kernel, x, grid_spec=spec)(rows, x)

    like = pl.ShapeDtypeStruct((64, 128), np.float32)
    scalars = pl.ShapeDtypeStruct((8,), np.int32)
    found = tune(gather, {"chosen": [True, False]}, target="v5e")(scalars, like)
    assert [c.settings["chosen"] for c in found.candidates] == [False, True]
    assert found.candidates[1].modelled_seconds is None
    assert not found.candidates[1].failure


def in_pipeline(m, k, is_shifted=False):
    """A product of matrices by `emit_pipeline`, in blocks of (m, k) and (k, m); shifted by a value of the kernel, which is 0."""

    def product(x, y):
        def kernel(x_ref, y_ref, o_ref, sums):
            first = pallas.program_id(0) if is_shifted else 0

            def add(x_ref, y_ref, o_ref):
                @pallas.when(pallas.program_id(2) == 0)
                def _():
                    sums[...] = jnp.zeros_like(sums)

                sums[...] += x_ref[...] @ y_ref[...]

                @pallas.when(pallas.program_id(2) == pallas.num_programs(2) - 1)
                def _():
                    o_ref[...] = sums[...]

            blocks = [
                BlockSpec((m, k), lambda i, j, k: (first + i, k)),
                BlockSpec((k, m), lambda i, j, k: (k, j)),
            ]
            result = BlockSpec((m, m), lambda i, j, k: (first + i, j))
            grid = (x.shape[0] // m, y.shape[1] // m, x.shape[1] // k)
            tpu.emit_pipeline(add, grid=grid, in_specs=blocks, out_specs=[result])(
                x_ref, y_ref, o_ref
            )

        whole = BlockSpec(memory_space=pallas.ANY)
        return pallas_call(
            kernel, pl.ShapeDtypeStruct((x.shape[0], y.shape[1]), np.float32), grid=1, in_specs=[whole, whole],
            out_specs=whole, scratch_shapes=[tpu.VMEM((m, m), np.float32)],
        )(x, y)  # fmt: skip

    return product


def test_pipelines_are_modelled_as_grids():
    like = pl.ShapeDtypeStruct((512, 512), np.float32)
    space = {"m": [128, 256], "k": [128, 512]}
    found = tune(lambda x, y, m, k: in_pipeline(m, k)(x, y), space, target="v5e")(like, like)
    assert found.best == {"m": 256, "k": 512}
    for each in found.candidates:
        m, k = each.settings["m"], each.settings["k"]
        programs = (512 // m) ** 2 * (512 // k)
        assert each.modelled_seconds > programs * 0.35e-6
        # Blocks of both matrices for each program. Sums end in a branch, so the result's block is read, too.
        assert each.moved_bytes == 4 * (2 * m * k * programs + 2 * 512 * 512)
        assert each.fetches == 2 * programs + 2 * (512 // m) ** 2


def test_a_pipeline_of_plain_blocks_is_modelled_as_the_grid_of_a_kernel():
    x = pl.ShapeDtypeStruct((1024, 256), np.float32)

    def rows(x, size, piped):
        def twice(x_ref, o_ref):
            o_ref[...] = x_ref[...] * 2

        block, n = BlockSpec((size, 256), lambda i: (i, 0)), x.shape[0] // size
        if not piped:
            return pallas_call(twice, x, grid=n, in_specs=[block], out_specs=block)(x)
        pipeline = tpu.emit_pipeline(twice, grid=(n,), in_specs=[block], out_specs=[block])
        whole = BlockSpec(memory_space=pallas.ANY)
        return pallas_call(pipeline, x, in_specs=[whole], out_specs=whole)(x)

    for size in (8, 128):
        space = {"size": [size], "piped": [False, True]}
        plain, piped = tune(rows, space, target="v6e")(x).candidates
        assert not plain.settings["piped"]
        # One more program: that of the kernel around the pipeline.
        assert piped.modelled_seconds == pytest.approx(plain.modelled_seconds + 0.35e-6)
        assert (piped.moved_bytes, piped.fetches) == (plain.moved_bytes, plain.fetches)


def test_what_a_kernel_copies_by_itself_is_not_modelled():
    """Copies that it starts; blocks that values of the kernel choose."""
    like = pl.ShapeDtypeStruct((256, 256), np.float32)

    def by_hand(x, rows):
        def kernel(x_ref, o_ref, held):
            for i in range(256 // rows):
                part = pallas.ds(i * rows, rows)
                tpu.sync_copy(x_ref.at[part], held)
                tpu.sync_copy(held, o_ref.at[part])

        whole = BlockSpec(memory_space=pallas.ANY)
        scratch = [tpu.VMEM((rows, 256), np.float32)]
        return pallas_call(kernel, x, in_specs=[whole], out_specs=whole, scratch_shapes=scratch)(x)

    def chosen(x, m):
        return in_pipeline(m, 128, is_shifted=True)(x, x)

    for function, space in ((by_hand, {"rows": [64, 128]}), (chosen, {"m": [128, 256]})):
        found = tune(function, space, target="v5e")(like)
        assert not any(c.failure for c in found.candidates)
        assert [c.modelled_seconds for c in found.candidates] == [None, None]
        assert all(c.footprint for c in found.candidates)


def test_results_are_kept_beside_compiled_programs(clock, folder):
    first = tune(double, {"block": [16, 64]})(X)
    assert not first.is_from_disk
    [path] = folder.glob("*.tuning")
    turns = clock[0]
    again = tune(double, {"block": [16, 64]})(X)
    assert again.is_from_disk
    assert clock[0] == turns
    assert again.candidates == first.candidates
    assert "kept from before" in repr(again)
    # Another program, other operands, a target, or nothing kept: compared anew.
    for other in (
        lambda: tune(lambda x, block: double(x, block) + 1, {"block": [16, 64]})(X),
        lambda: tune(double, {"block": [16, 64]})(X[:32]),
        lambda: tune(double, {"block": [16, 64]}, target="TPU")(X),
        lambda: tune(double, {"block": [16, 64]}, keep=False)(X),
    ):
        assert not other().is_from_disk
    path.write_text("[{")
    assert not tune(double, {"block": [16, 64]})(X).is_from_disk


def test_spaces_and_targets_that_are_none():
    with pytest.raises(ArgumentValueError, match="needs a candidate"):
        tune(double, {"block": []})
    with pytest.raises(ArgumentValueError, match="`target`"):
        tune(double, {"block": [1]}, target="abacus")
    with pytest.raises(ArgumentValueError, match="`rounds`"):
        tune(double, {"block": [1]}, rounds=0)
    assert Candidate({"block": 1}).failure == ""


def test_times_of_another_processor_are_not_kept(clock, folder, monkeypatch):
    tune(double, {"block": [16, 64]})(X)
    monkeypatch.setattr(disk_cache, "_processor", lambda: "another")
    assert not tune(double, {"block": [16, 64]})(X).is_from_disk
    # A rank by moved bytes is the same on every machine.
    tune(double, {"block": [16, 64]}, target="TPU")(X)
    monkeypatch.setattr(disk_cache, "_processor", lambda: "a third")
    assert tune(double, {"block": [16, 64]}, target="TPU")(X).is_from_disk

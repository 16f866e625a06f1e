"""The simulator of kernels on one device: it gives what the compiled program gives."""

import itertools
from typing import Any

import numpy as np
import pytest
from corpus import kernels as corpus
from rotation import rotating

import pellucid as pl
from pellucid.debugger import debug
from pellucid.experimental import pallas
from pellucid.experimental.pallas import pallas_call, tpu, triton
from pellucid.experimental.pallas.ops.tpu.flash_attention import flash_attention
from pellucid.kernels.simulator.call import recorded
from tests.core.kernels import one_by_one as plain

PARAMS = tpu.InterpretParams(detect_races=True)
NUMBERS = [*range(250), *[corpus.SECOND + i for i in range(250)]]
ROWS = [(sample.__name__,) for sample in corpus.SAMPLES] + [(i,) for i in NUMBERS]


def kind(row):
    """Every run takes all samples, and one random kernel of each sort in eight."""
    return row[0] if isinstance(row[0], str) else f"random {row[0] // corpus.SECOND}"


def simulating(*args, **options):
    return pallas_call(*args, **options | {"interpret": PARAMS})


@pytest.mark.parametrize("which", rotating(ROWS, kind))
def test_simulated_kernels_give_what_compiled_ones_give(which, monkeypatch):
    expected = corpus.answer(pl, which)
    monkeypatch.setattr(pallas, "pallas_call", simulating)
    for x, y in zip(corpus.answer(pl, which), expected, strict=True):
        assert x.dtype == y.dtype
        if which == "softmax":  # XLA fuses the whole kernel otherwise
            np.testing.assert_allclose(x, y, rtol=1e-6)
        else:
            np.testing.assert_array_equal(x, y)


@pytest.mark.parametrize("seed", rotating([(seed,) for seed in range(64)], lambda row: "random"))
def test_simulated_kernels_give_what_their_programs_give(seed, monkeypatch):
    case, *args = plain.random_case(seed)
    expected = plain.one_by_one(case, *args)
    monkeypatch.setattr(plain, "pallas_call", simulating)
    try:
        found = plain.as_kernel(case, *args)
    except ValueError as error:  # what a device gives then depends on when it fetches blocks
        if not case.aliases or "aliased" not in str(error):
            raise
        return
    for x, y in zip(found, expected, strict=True):
        assert x.dtype == y.dtype
        np.testing.assert_allclose(x, y, rtol=1e-5, atol=1e-4)


# What the simulator shows ---------------------------------------------------------------------------------------

X = np.arange(8, dtype=np.float32)
ANYWHERE = pallas.BlockSpec(memory_space=pallas.ANY)
ROW = pallas.BlockSpec((2,), lambda i: (i,))


def run(kernel, scratch=(), *, specs=ANYWHERE, grid=(), **options):
    parameters = {k: options.pop(k) for k in ("compiler_params",) if k in options}
    return pallas_call(
        kernel, X, grid=grid, in_specs=[specs], out_specs=specs, scratch_shapes=scratch,
        interpret=tpu.InterpretParams(**options), **parameters,
    )(X)  # fmt: skip


def uses_the_buffer_too_early(x_ref, o_ref, buffer_ref, sem):
    copy = tpu.make_async_copy(x_ref, buffer_ref, sem)
    copy.start()
    o_ref[...] = buffer_ref[...]
    copy.wait()


SCRATCH = [tpu.VMEM((8,), np.float32), tpu.SemaphoreType.DMA]


def test_copies_happen_as_late_as_a_wait_allows_or_at_once():
    assert np.isnan(run(uses_the_buffer_too_early, SCRATCH)).all()
    late = run(uses_the_buffer_too_early, SCRATCH, uninitialized_memory="zero")
    np.testing.assert_array_equal(late, 0 * X)
    at_once = run(uses_the_buffer_too_early, SCRATCH, dma_execution_mode="eager")
    np.testing.assert_array_equal(at_once, X)
    for mode in ("on_wait", "eager"):
        with pytest.raises(ValueError, match="a race") as caught:
            run(uses_the_buffer_too_early, SCRATCH, detect_races=True, dma_execution_mode=mode)
        assert "o_ref[...] = buffer_ref[...]" in str(caught.value)


def test_scoped_memory_is_uninitialized():
    def kernel(x_ref, o_ref):
        pallas.run_scoped(lambda ref: o_ref.__setitem__(..., ref[...]), tpu.VMEM((8,), np.float32))

    assert np.isnan(run(kernel)).all()
    np.testing.assert_array_equal(run(kernel, uninitialized_memory="zero"), 0 * X)


def test_reads_and_writes_out_of_bounds():
    def reads(x_ref, o_ref):
        o_ref[...] = x_ref[pallas.ds(o_ref.size - 5 + x_ref[3].astype(np.int32), 8)]

    with pytest.raises(ValueError, match="a read out of bounds of `x_ref`") as caught:
        run(reads)
    assert "6:14 along axis 0 of size 8" in str(caught.value)
    assert "o_ref[...] = x_ref[" in str(caught.value)
    y = run(reads, out_of_bounds_reads="uninitialized")
    np.testing.assert_array_equal(y, [6, 7, *[np.nan] * 6])

    def writes(x_ref, o_ref):
        o_ref[pallas.ds(x_ref[1].astype(np.int32), 8)] = x_ref[...]

    with pytest.raises(ValueError, match="a write out of bounds of `o_ref`"):
        run(writes, out_of_bounds_reads="uninitialized")


def test_a_wait_without_end():
    def kernel(x_ref, o_ref, sem):
        o_ref[...] = x_ref[...]
        pallas.semaphore_signal(sem)
        pallas.semaphore_wait(sem, 2)

    with pytest.raises(ValueError, match="no device can go on") as caught:
        run(kernel, [tpu.SemaphoreType.REGULAR], grid=4, specs=ROW)
    assert "device 0 in program (0,) waits for 2 of semaphore `sem`" in str(caught.value)


def sums_up(x_ref, o_ref):
    o_ref[...] = x_ref[...] + 1


@pytest.mark.parametrize("n_cores", [1, 2])
def test_parallel_axes_run_in_any_order(n_cores):
    def order(seed, semantics):
        seen = []
        y = run(
            sums_up, grid=4, specs=ROW, random_seed=seed, num_cores_or_threads=n_cores,
            grid_point_recorder=lambda ids, core: seen.append((int(ids[0]), int(core))),
            compiler_params=tpu.CompilerParams(dimension_semantics=(semantics,)),
        )  # fmt: skip
        np.testing.assert_array_equal(y, X + 1)
        return seen

    in_order = order(None, "parallel")
    assert sorted(in_order) == [(i, i * n_cores // 4) for i in range(4)]
    orders = {tuple(order(seed, "parallel")) for seed in range(6)}
    assert len(orders) > 1
    assert order(3, "parallel") == order(3, "parallel")
    assert order(3, "arbitrary") == [(i, 0) for i in range(4)]


def test_cores_race():
    def kernel(x_ref, o_ref):
        o_ref[0] = x_ref[0]

    params = tpu.CompilerParams(dimension_semantics=("parallel",))
    with pytest.raises(ValueError, match="a race") as caught:
        run(kernel, grid=2, num_cores_or_threads=2, detect_races=True, compiler_params=params)
    assert "device 0, core 0 in program (0,) writes [0]" in str(caught.value)
    assert "device 0, core 1 in program (1,) writes [0]" in str(caught.value)


def test_transformations():
    call = pallas_call(
        lambda x_ref, o_ref: o_ref.__setitem__(..., x_ref[...] ** 2),
        X,
        grid=4,
        in_specs=[ROW],
        out_specs=ROW,
        interpret=PARAMS,
    )
    np.testing.assert_array_equal(pl.vmap(call)(np.stack([X, X + 1])), [X**2, (X + 1) ** 2])
    np.testing.assert_array_equal(pl.grad(lambda x: call(x).sum())(X), 2 * X)
    np.testing.assert_array_equal(pl.jvp(call, (X,), (X,))[1], 2 * X * X)
    kept = pl.checkpoint(call)
    np.testing.assert_array_equal(pl.grad(lambda x: kept(x).sum())(X), 2 * X)
    np.testing.assert_array_equal(pl.jit(lambda x: call(call(x)))(X), X**4)


def test_derivatives_beyond_edges_and_with_constants():
    factor = np.arange(3, dtype=np.float32)

    def logs(x_ref, o_ref):
        o_ref[...] = pl.numpy.log(x_ref[...]) * factor

    block = pallas.BlockSpec((3,), lambda i: (i,))
    call = pallas_call(logs, X, grid=3, in_specs=[block], out_specs=block, interpret=PARAMS)
    x = X + 1
    expected = np.tile(factor, 3)[:8] / x
    np.testing.assert_allclose(pl.grad(lambda x: call(x).sum())(x), expected, rtol=1e-6)
    np.testing.assert_allclose(pl.jvp(call, (x,), (np.ones_like(x),))[1], expected, rtol=1e-6)


def test_operations_on_whole_references():
    def kernel(x_ref, o_ref):
        o_ref[...] = x_ref[...]
        o_ref[1] = triton.atomic_max(o_ref, 0, np.float32(5))

    np.testing.assert_array_equal(run(kernel), [5, 0, *X[2:]])


def test_library_kernels():
    q, k, v = np.random.default_rng(0).standard_normal((3, 1, 2, 256, 128), dtype=np.float32)
    expected = flash_attention(q, k, v, causal=True)
    with tpu.force_tpu_interpret_mode(PARAMS):
        found = flash_attention(q, k, v, causal=True)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


def test_params_that_are_none():
    refused: list[dict[str, Any]] = [
        {"dma_execution_mode": "never"},
        {"num_cores_or_threads": 0},
        {"buffer_bounds": "padded"},
        {"skip_floating_point_ops": True},
    ]
    for options in refused:
        with pytest.raises((ValueError, NotImplementedError), match="InterpretParams"):
            tpu.InterpretParams(**options)


def test_kernels_that_do_not_ask_for_the_simulator():
    call = pallas_call(uses_the_buffer_too_early, X, scratch_shapes=SCRATCH)
    np.testing.assert_array_equal(call(X), X)
    with tpu.force_tpu_interpret_mode():
        assert np.isnan(call(X)).all()
        interpreted = pallas_call(
            uses_the_buffer_too_early, X, scratch_shapes=SCRATCH, interpret=True
        )
        np.testing.assert_array_equal(interpreted(X), X)
    np.testing.assert_array_equal(call(X), X)
    tpu.set_tpu_interpret_mode(tpu.InterpretParams(detect_races=True))
    try:
        with pytest.raises(ValueError, match="a race"):
            call(X)
    finally:
        tpu.set_tpu_interpret_mode(None)
    tpu.reset_tpu_interpret_mode_state()
    np.testing.assert_array_equal(call(X), X)


def test_what_happened():
    with recorded() as machines:
        run(sums_up, grid=4, specs=ROW)
    [machine] = machines
    computed = [e for e in machine.trace if e.kind == "compute"]
    assert [e.program for e in computed] == [f" in program ({i},)" for i in range(4)]
    assert all(a.end <= b.start for a, b in itertools.pairwise(computed))
    assert "x_ref[...] + 1" in str(computed[0].line)


def test_the_debugger_steps_through_kernels_beside_which_nothing_runs():
    call = pallas_call(sums_up, X, grid=4, in_specs=[ROW], out_specs=ROW, interpret=PARAMS)
    session = debug(lambda x: call(x))(X).step().jump((2,))
    assert session.blocks() == {"x_ref": "[4:6] of shape (8,)", "o_ref": "[4:6] of shape (8,)"}
    np.testing.assert_array_equal(session.variables()["x_ref"], [4, 5])

"""What kernels say beside reading and writing references."""

import numpy as np
import pytest

import pellucid as pl
import pellucid.numpy as jnp
from pellucid.experimental import checkify, pallas
from pellucid.experimental.pallas import BlockSpec, pallas_call, tpu, triton

X = np.arange(8, dtype=np.float32)


def run(kernel, *args, out=(8,), dtype=np.float32, **options):
    return pallas_call(kernel, pl.ShapeDtypeStruct(out, dtype), **options)(*args)


def test_masked_access_beyond_the_end():
    def kernel(x_ref, o_ref):
        start = pallas.program_id(0) * 3
        inside = start + jnp.arange(3) < 7
        part = pallas.ds(start, 3)
        triton.store(
            o_ref.at[part], triton.load(x_ref.at[part], mask=inside, other=5) + 1, mask=inside
        )

    y = run(kernel, X[:7], out=(7,), grid=3)
    np.testing.assert_array_equal(y, X[:7] + 1)


@pytest.mark.parametrize(("n_loaded", "n_stored"), [(10, 10), (11, 10), (10, 11)])
def test_checks_of_indices_look_at_what_masks_ask_for(n_loaded, n_stored):
    def double(x_ref, o_ref):
        index = pallas.program_id(0) * 4 + jnp.arange(4)
        x = triton.load(x_ref.at[index], mask=index < n_loaded, other=0.0)
        triton.store(o_ref.at[index], x * 2, mask=index < n_stored)

    x = np.arange(10, dtype=np.float32)
    call = pallas_call(double, pl.ShapeDtypeStruct((10,), np.float32), grid=3)
    error, y = checkify.checkify(call, errors=checkify.index_checks)(x)
    if n_loaded == n_stored == 10:
        assert error.get() is None
        np.testing.assert_array_equal(y, x * 2)
    else:
        assert "index 10 is out of bounds for axis 0 with size 10" in error.get()


def test_masked_access_of_rows_and_windows():
    x = np.arange(12, dtype=np.int32).reshape(4, 3)

    def kernel(x_ref, o_ref):
        rows = 3 - 2 * jnp.arange(3)
        mask = (rows >= 0)[:, None] & (jnp.arange(2) < 2)
        o_ref[...] = triton.load(x_ref.at[rows, pallas.ds(1, 2)], mask=mask, other=-1)

    y = run(kernel, x, out=(3, 2), dtype=np.int32)
    np.testing.assert_array_equal(y, [[10, 11], [4, 5], [-1, -1]])


def test_masked_access_of_more_than_the_reference_has():
    def kernel(x_ref, o_ref):
        wide = pallas.ds(0, 16)
        mask = jnp.arange(16) < 8
        x = triton.load(x_ref.at[wide], mask=mask, other=-1)
        triton.store(o_ref.at[wide], x + x.sum(), mask=mask)

    np.testing.assert_array_equal(run(kernel, X), X + X.sum() - 8)
    view = pl.new_ref(X).at[pallas.ds(0, 16)]
    for access in (lambda: view[...], lambda: view.set(0.0), lambda: triton.load(view)):
        with pytest.raises(ValueError, match="slice is out of bounds"):
            access()


@pytest.mark.parametrize(
    ("part", "text"),
    [(pallas.ds(6, 3), "6:9"), (pallas.ds(9, 1), "9:10"), (pallas.ds(0, 3, 4), ":12:4")],
)
def test_slices_out_of_bounds_are_named_with_their_end(part, text):
    with pytest.raises(ValueError, match=f"\n  {text} for an axis of size 8"):
        run(lambda x_ref, o_ref: o_ref.set(x_ref[part].sum()), X)


def test_a_masked_store_of_a_repeated_position_writes_what_its_mask_takes():
    def kernel(x_ref, o_ref):
        o_ref[...] = jnp.zeros_like(o_ref)
        at = jnp.zeros(4, int) + pallas.program_id(0)
        triton.store(o_ref.at[at], x_ref[...], mask=jnp.arange(4) == 2)

    y = run(kernel, X[:4], out=(2,), grid=1)
    np.testing.assert_array_equal(y, [2, 0])


def test_what_a_mask_leaves_out_is_undefined():
    mask = np.array([True, False])
    ref = pl.new_ref(X[:2])
    np.testing.assert_array_equal(tpu.load(ref, mask=mask), [0, np.nan])
    view = ref.at[0:2].reshape(2, 1)
    tpu.store(view, np.full((2, 1), 7, np.float32), mask=mask[:, None])
    np.testing.assert_array_equal(ref[...], [7, 1])


@pytest.mark.parametrize(("dtype", "least"), [("int4", -8), ("int8", -128), ("uint8", 0)])
def test_undefined_integers_are_the_least_ones(dtype, least):
    np.testing.assert_array_equal(pallas.empty(2, dtype).astype(int), [least] * 2)


def test_masks_that_do_not_fit():
    with pytest.raises(ValueError, match="mask doesn't fit"):
        triton.load(pl.new_ref(X), mask=np.ones(3, bool))
    with pytest.raises(TypeError, match="takes a reference"):
        triton.load(X, mask=np.ones(8, bool))


def test_additions_to_repeated_positions():
    def kernel(x_ref, o_ref):
        @pallas.when(pallas.program_id(0) == 0)
        def _():
            o_ref[...] = jnp.zeros_like(o_ref)

        triton.atomic_add(o_ref, jnp.arange(8) % 2, x_ref[...], mask=x_ref[...] > 1)

    y = run(kernel, X, out=(2,), grid=3)
    np.testing.assert_array_equal(y, [3 * (2 + 4 + 6), 3 * (3 + 5 + 7)])


@pytest.mark.parametrize(("lower", "upper", "step"), [(0, 5, 1), (1, 8, 3), (5, 2, 1), (0, 4, 4)])
@pytest.mark.parametrize("traced", [False, True])
def test_loops(lower, upper, step, traced):
    def total(lower, upper):
        @pallas.loop(lower, upper, step=step, init_carry=0)
        def result(i, before):
            return before + i

        return result

    ours = (pl.jit(total) if traced else total)(lower, upper)
    assert ours == sum(range(lower, upper, step))


def test_references_of_functions():
    def kernel(x_ref, o_ref):
        @pallas.with_scoped(tpu.VMEM((8,), np.float32), total=tpu.SMEM((), np.float32))
        def both(ref, scale, total):
            ref[...] = x_ref[...] * scale
            total[...] = ref[...].sum()
            return total[...]

        o_ref[...] = jnp.zeros_like(o_ref) + both(2.0)

    np.testing.assert_array_equal(run(kernel, X), np.full(8, 56))
    np.testing.assert_array_equal(pl.grad(lambda x: run(kernel, x)[0])(X), np.full(8, 2))

    def double(refs):
        refs[0][...] *= 2

    np.testing.assert_array_equal(pl.jit(pallas.run_state(double))([X])[0], 2 * X)
    with pytest.raises(TypeError, match="types of references"):
        pallas.run_scoped(lambda ref: ref, 3)


def test_copies():
    def kernel(x_ref, o_ref):
        tpu.sync_copy(x_ref, o_ref)
        tpu.sync_copy(x_ref.at[0:2], o_ref.at[2:4], add=True)

    np.testing.assert_array_equal(run(kernel, X), [0, 1, 2, 4, 4, 5, 6, 7])


def test_rolled_rows():
    x = np.arange(12).reshape(3, 4)
    expected = np.stack([np.roll(row, 1 + 2 * i) for i, row in enumerate(x)])
    np.testing.assert_array_equal(tpu.roll(x, 1, 1, stride=2, stride_axis=0), expected)
    np.testing.assert_array_equal(tpu.roll(x, 2, 0), np.roll(x, 2, 0))


def test_numbers():
    assert [pallas.next_power_of_2(n) for n in (0, 1, 5, 8)] == [1, 1, 8, 8]
    assert pallas.align_to(9, 4) == 12
    with pytest.raises(ValueError, match="no multiple"):
        pallas.multiple_of(3, 2)
    a = np.ones((2, 3), np.int8)
    assert triton.dot(a, a, trans_b=True).dtype == np.int32
    with pytest.raises(ValueError, match="not both"):
        triton.dot(a, a.T, allow_tf32=True, precision="high")


def test_a_block_whose_reads_overlap():
    spec = BlockSpec((pallas.Element(4),), lambda i: (2 * i,))

    def kernel(x_ref, o_ref):
        o_ref[...] = x_ref[...].sum(keepdims=True)

    y = run(kernel, X, out=(3,), grid=3, in_specs=[spec], out_specs=BlockSpec((1,), lambda i: (i,)))
    np.testing.assert_array_equal(y, [0 + 1 + 2 + 3, 2 + 3 + 4 + 5, 4 + 5 + 6 + 7])


@pytest.mark.parametrize(
    ("name", "combine"),
    [("and", np.bitwise_and), ("or", np.bitwise_or), ("xor", np.bitwise_xor)],
)
def test_atomic_operations_on_bits(name, combine):
    rng = np.random.default_rng(0)
    x = rng.integers(0, 256, (4, 3)).astype(np.int32)
    rows, values, mask = (
        np.array([2, 0, 2, -1, 9]),
        rng.integers(0, 256, (5, 3)),
        rng.random((5, 3)) < 0.7,
    )
    expected = x.copy()
    for row, value, holds in zip(rows[:4], values, mask, strict=False):  # 9 lies outside
        expected[row] = np.where(holds, combine(expected[row], value), expected[row])

    def kernel(rows_ref, values_ref, mask_ref, x_ref, o_ref):
        o_ref[...] = x_ref[...]
        operation = getattr(triton, f"atomic_{name}")
        operation(o_ref, (rows_ref[...], slice(None)), values_ref[...], mask=mask_ref[...])

    y = run(kernel, rows, values, mask, x, out=x.shape, dtype=np.int32)
    np.testing.assert_array_equal(y, expected)
    with pytest.raises(TypeError, match="takes integers"):
        getattr(triton, f"atomic_{name}")(pl.new_ref(X), 0, 1.0)
    with pytest.raises(TypeError, match="takes integers"):
        getattr(triton, f"atomic_{name}")(pl.new_ref(X).at[0:2], 0, 1.0)
    with pytest.raises(ValueError, match=f"atomic_{name} needs a reference"):
        getattr(triton, f"atomic_{name}")([1], 0, 1)


TWICE = np.array([0, 0, 1, 1, 9])
"""Positions of which some are repeated, and one is outside."""


@pytest.mark.parametrize(
    ("name", "values", "expected"),
    [
        ("add", [10, 20, 30, 40, 50], [30, 71, 2]),
        ("max", [10, 20, 5, 40, 50], [20, 40, 2]),
        ("min", [-1, -2, 5, -3, -9], [-2, -3, 2]),
        ("xchg", [10, 20, 30, 40, 50], [20, 40, 2]),
        ("or", [1, 2, 4, 8, 16], [3, 13, 2]),
    ],
)
def test_atomic_operations_on_views_of_repeated_elements(name, values, expected):
    operation = getattr(triton, f"atomic_{name}")
    ref = pl.new_ref(np.arange(3))
    old = operation(ref.at[TWICE].reshape(5, 1), (slice(None), 0), np.array(values))
    np.testing.assert_array_equal(old, [0, 0, 1, 1, 2])
    np.testing.assert_array_equal(ref[...], expected)
    ref = pl.new_ref(np.arange(3))
    operation(ref.at[TWICE].at[1:], ..., np.array(values[1:]), mask=np.arange(4) < 1)
    once = pl.new_ref(np.arange(3))
    operation(once, 0, values[1])
    np.testing.assert_array_equal(ref[...], once[...])


def test_atomic_operations_on_an_element_of_a_view():
    ref = pl.new_ref(np.arange(6).reshape(2, 3))
    assert triton.atomic_cas(ref.at[0].at[1], 1, 11) == 1
    assert triton.atomic_cas(ref.at[np.array([1, 1])].at[0, 2], 5, 55) == 5
    assert triton.atomic_cas(ref.at[np.array([9, 9])].at[0, 2], 55, 7) == 55  # outside: dropped
    np.testing.assert_array_equal(ref[...], [[0, 11, 2], [3, 4, 55]])
    with pytest.raises(TypeError, match=r"one element.*\n.*part of shape \[3\]"):
        triton.atomic_cas(ref.at[0], 1, 2)
    with pytest.raises(NotImplementedError, match="bits of elements that arrays of positions"):
        triton.atomic_xor(ref.at[np.array([0, 0])].bitcast(np.uint32), 0, 1)


def test_derivatives_of_atomic_operations_on_views_of_repeated_elements():
    def total(x, values):
        ref = pl.new_ref(x)
        triton.atomic_add(ref.at[TWICE].reshape(5, 1), ..., values[:, None])
        return (ref[...] * np.array([1, 10, 100], np.float32)).sum()

    x, values = np.ones(3, np.float32), np.arange(5, dtype=np.float32)
    for found in (pl.grad(total, (0, 1))(x, values), pl.jacfwd(total, (0, 1))(x, values)):
        np.testing.assert_array_equal(found[0], [1, 10, 100])
        np.testing.assert_array_equal(found[1], [1, 1, 10, 10, 0])


def test_atomic_operations_at_no_position():
    ref = pl.new_ref(X)
    for name in ("add", "max", "min", "xchg"):
        old = getattr(triton, f"atomic_{name}")(ref, np.zeros(0, np.int32), X[:0])
        assert old.shape == X[:0].shape
    np.testing.assert_array_equal(ref[...], X)


@pytest.mark.parametrize("dtype", ["float8_e4m3fn", "float8_e5m2", "float4_e2m1fn", "int4"])
@pytest.mark.parametrize(("name", "expected"), [("max", [1, 2]), ("min", [1, 1])])
def test_masked_atomic_extremes_of_small_dtypes(dtype, name, expected):
    """Of dtypes without infinite numbers, too, elements stay as they are where the mask is False."""
    dtype = getattr(jnp, dtype)
    ref = pl.new_ref(jnp.ones(2, dtype))
    values, mask = jnp.array([0, 2, 1, 0]).astype(dtype), np.array([False, True, True, False])
    getattr(triton, f"atomic_{name}")(ref, np.array([0, 1, 1, 1]), values, mask=mask)
    np.testing.assert_array_equal(ref[...].astype(np.float32), expected)


def test_names_of_the_reference_are_there():
    names = pallas.__all__
    assert all(hasattr(pallas, name) for name in names)
    with pytest.raises(NotImplementedError, match="no such part"):
        pallas.semaphore()
    with pytest.raises(NotImplementedError, match="instructions of GPUs"):
        triton.elementwise_inline_asm(
            "mov.b32 $0, $1;", args=[X], constraints="=r,r", pack=1, result_shape_dtypes=X
        )
    with pytest.raises(ValueError, match="one shape"):
        triton.elementwise_inline_asm(
            "mov.b32 $0, $1;", args=[X, X[:1]], constraints="=r,r,r", pack=1, result_shape_dtypes=X
        )
    assert "stablehlo.sine" in pallas.lower_as_mlir(jnp.sin, X, platforms=["tpu"])
    with pytest.raises(NotImplementedError, match="no dynamic_shapes"):
        pallas.lower_as_mlir(jnp.sin, X, dynamic_shapes=True)


def test_checks_of_indices_pass_over_what_masked_atomic_operations_leave_out():
    def histogram(x_ref, o_ref):
        i = x_ref[...]
        o_ref[...] = jnp.zeros_like(o_ref)
        triton.atomic_add(o_ref, i, 1, mask=i < 90)

    call = pallas.pallas_call(histogram, pl.ShapeDtypeStruct((4,), np.int32))
    checked = pl.jit(checkify.checkify(call, checkify.index_checks))
    error, y = checked(np.array([0, 3, 99, 0, 90]))
    assert error.get() is None
    np.testing.assert_array_equal(y, [2, 0, 0, 1])
    assert (
        "index 4 is out of bounds for axis 0 with size 4"
        in checked(np.array([0, 3, 99, 4]))[0].get()
    )


@pytest.mark.parametrize("name", ["add", "max", "xor", "xchg"])
@pytest.mark.parametrize("length", [1, 2])
def test_masked_atomic_operations_on_slices_that_reach_over_the_end(name, length):
    """They leave elements beyond the end out, and aren't moved, as masked loads and stores."""

    def kernel(start_ref, o_ref):
        part = o_ref.at[pallas.ds(start_ref[0], 4), :1]
        mask = jnp.arange(4)[:, None] < length
        getattr(triton, f"atomic_{name}")(part, ..., jnp.full((4, 1), 100), mask=mask)

    x = np.arange(16, dtype=np.int32).reshape(8, 2)
    call = pallas.pallas_call(
        lambda s, x, o: kernel(s, o),
        pl.ShapeDtypeStruct(x.shape, x.dtype),
        input_output_aliases={1: 0},
    )
    expected = x.copy()
    rows = slice(6, 6 + length)
    combine = {"add": np.add, "max": np.maximum, "xor": np.bitwise_xor, "xchg": lambda x, y: y}[
        name
    ]
    expected[rows, :1] = combine(x[rows, :1], 100)
    np.testing.assert_array_equal(call(np.array([6]), x), expected)
    error, y = checkify.checkify(call, checkify.index_checks)(np.array([6]), x)
    assert error.get() is None
    np.testing.assert_array_equal(y, expected)


def test_masks_of_atomic_operations_at_scalars_and_pairs_of_positions():
    x = np.zeros((3, 4), np.float32)

    def kernel(i_ref, o_ref):
        triton.atomic_add(o_ref, (i_ref[0], slice(None)), 1.0, mask=i_ref[0] < 3)
        triton.atomic_add(
            o_ref, (i_ref[...][:, None], jnp.arange(2)), 10.0, mask=(i_ref[...] < 3)[:, None]
        )

    call = pallas.pallas_call(
        lambda i, x, o: kernel(i, o),
        pl.ShapeDtypeStruct(x.shape, x.dtype),
        input_output_aliases={1: 0},
    )
    checked = checkify.checkify(call, checkify.index_checks)
    for i in ([7, 1, -1], [1, 9, 2]):
        expected = x.copy()
        if i[0] < 3:
            expected[i[0]] += 1
        for k in i:
            if k < 3:
                expected[k, :2] += 10
        error, y = checked(np.array(i), x)
        assert error.get() is None
        np.testing.assert_array_equal(y, expected)
        np.testing.assert_array_equal(call(np.array(i), x), expected)

"""References from outside in kernels: all programs see them whole, and what they write is there after the call."""

import numpy as np
import pytest

import pellucid as pl
import pellucid.numpy as jnp
from pellucid import lax
from pellucid.experimental import checkify, pallas
from pellucid.experimental.pallas import (
    BlockSpec,
    pallas_call,
    semaphore_read,
    semaphore_signal,
    tpu,
)

F32 = np.float32
X, Y = np.arange(3, dtype=F32), np.array([5, 7, 2], F32)
ONE = BlockSpec((1,), lambda i: (i,))


def carried(x, y):
    """(results, last contents of the reference) of a kernel whose programs hand on a reference from outside."""
    ref, other = pl.new_ref(x), pl.new_ref(y)

    def kernel(y_ref, o_ref):
        i = pallas.program_id(0)
        o_ref[...] = ref[pallas.ds(i, 1)] * y_ref[...] + other[0]
        ref[(i + 1) % 3] += 2 * ref[i]

    out = pallas_call(kernel, y, grid=3, in_specs=[ONE], out_specs=ONE)(y)
    return out, ref[...], other[...]


def expected(x, y):
    ref, out = x.copy(), np.zeros_like(y)
    for i in range(3):
        out[i] = ref[i] * y[i] + y[0]
        ref[(i + 1) % 3] += 2 * ref[i]
    return out, ref, y


def assert_all_equal(ours, wanted):
    for a, b in zip(ours, wanted, strict=True):
        np.testing.assert_array_equal(a, b)


def test_programs_share_what_they_write_to_a_reference_from_outside():
    assert_all_equal(carried(X, Y), expected(X, Y))
    assert_all_equal(pl.jit(carried)(X, Y), expected(X, Y))


def test_transformations_see_references_from_outside():
    batch = np.stack([X, Y]), np.stack([Y, X])
    rows = [expected(x, y) for x, y in zip(*batch, strict=True)]
    assert_all_equal(
        pl.vmap(carried)(*batch), [np.stack(column) for column in zip(*rows, strict=True)]
    )
    matrix = pl.jacrev(lambda x: carried(x, Y)[1])(X)
    np.testing.assert_array_equal(
        matrix, np.stack([expected(e, Y)[1] for e in np.eye(3, dtype=F32)], 1)
    )
    np.testing.assert_array_equal(pl.jacfwd(lambda x: carried(x, Y)[1])(X), matrix)
    error, results = checkify.checkify(carried, checkify.index_checks)(X, Y)
    assert error.get() is None
    assert_all_equal(results, expected(X, Y))


def test_calls_in_a_loop_hand_on_a_reference_from_around_it():
    @pl.jit
    def repeated(x, y):
        ref = pl.new_ref(x)

        def kernel(y_ref, o_ref):
            o_ref[...] = y_ref[...] + ref[...]
            ref[...] = ref[...] * 2

        return lax.scan(lambda c, _: (pallas_call(kernel, y)(c), None), y, length=3)[0], ref[...]

    assert_all_equal(repeated(X, Y), [Y + 7 * X, 8 * X])


def test_references_that_are_only_read_leave_programs_independent():
    ref = pl.new_ref(X)
    call = pallas_call(
        lambda o_ref: o_ref.set(ref[pallas.ds(pallas.program_id(0), 1)]), X, grid=3, out_specs=ONE
    )
    np.testing.assert_array_equal(call(), X)
    assert "scan" not in str(pl.make_jaxpr(call)())
    [equation] = [
        e for e in pl.make_jaxpr(call)().jaxpr.equations if e.primitive is pallas.pallas_call_p
    ]
    assert len(equation.params.kernel.results) == 1


def test_constants_and_views_beside_references_from_outside():
    ref = pl.new_ref(np.zeros(4, F32))
    tail = ref.at[1:]

    def kernel(y_ref, o_ref):
        o_ref[...] = y_ref[...] * X + tail[...]
        tail[...] = y_ref[...] + X

    np.testing.assert_array_equal(pallas_call(kernel, Y)(Y), X * Y)
    np.testing.assert_array_equal(ref[...], [0, *(X + Y)])


def test_figures_name_references_from_outside():
    text = str(pl.viz.grid(carried)(X, Y))
    assert "y_ref" in text
    assert "reference 1 from outside" in text


# References of a kernel -----------------------------------------------------------------------------------


def test_programs_have_global_references_in_common():
    def kernel(x_ref, o_ref):
        counter = pallas.get_global(tpu.SemaphoreType.REGULAR)
        sums = pallas.get_global(tpu.VMEM((1,), F32))

        @pallas.when(pallas.program_id(0) == 0)
        def _():
            sums[...] = jnp.zeros_like(sums)

        @pallas.loop(0, 2)
        def _(k):
            semaphore_signal(counter, k)

        semaphore_signal(pallas.get_global(tpu.SemaphoreType.REGULAR), 9)
        sums[...] += x_ref[...]
        o_ref[...] = sums[...] + 100 * semaphore_read(counter)

    call = pallas_call(kernel, X, grid=3, in_specs=[ONE], out_specs=ONE)
    wanted = np.cumsum(Y) + np.array([100, 200, 300])
    for _ in range(2):
        np.testing.assert_array_equal(call(Y), wanted)
    np.testing.assert_array_equal(pl.vmap(call)(np.stack([Y, Y])), [wanted, wanted])
    np.testing.assert_array_equal(pl.grad(lambda y: call(y).sum())(Y), [3, 2, 1])


def test_cores_have_global_references_in_common():
    def kernel(o_ref):
        counter = pallas.get_global(tpu.SemaphoreType.REGULAR((2,)))
        semaphore_signal(counter.at[1])
        o_ref[lax.axis_index("core")] = semaphore_read(counter.at[1])

    mesh = tpu.create_tensorcore_mesh("core", num_cores=3)
    np.testing.assert_array_equal(
        pallas.kernel(kernel, pl.ShapeDtypeStruct((3,), "int32"), mesh=mesh)(), [1, 2, 3]
    )


def test_global_references_have_a_meaning_only_in_kernels():
    with pytest.raises(TypeError, match="only in a kernel"):
        pallas.get_global(tpu.SemaphoreType.REGULAR)
    with pytest.raises(TypeError, match="get_global takes types of references"):
        pallas_call(lambda o_ref: pallas.get_global(print), X)()

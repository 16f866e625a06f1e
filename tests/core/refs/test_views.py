"""Parts of references as references: `ref.at[index]`, and references as inputs of the steps of a scan."""

import numpy as np
import pytest
from message_checks import check_message

import pellucid as pl
import pellucid.numpy as jnp
from pellucid import grad, jit, lax, vmap
from pellucid.base.errors import ArgumentTypeError, DeletedArrayError

X = np.arange(12, dtype=np.float32).reshape(4, 3)


def doubled(part):
    """Write twice what `part` holds, and one; gives what it holds at 1."""
    part[...] = part[...] * 2.0 + 1.0
    return part[1]


def in_scan(part):
    return lax.scan(lambda c, _: (c, doubled(part)), None, None, length=1)[1][0]


def in_while(part):
    body = lambda c: (c[0] + 1, doubled(part))
    return lax.while_loop(lambda c: c[0] < 1, body, (0, part[1]))[1]


@pytest.mark.parametrize(
    "call",
    [
        doubled,
        jit(doubled),
        jit(lambda part: jit(doubled)(part)),
        lambda part: lax.cond(True, doubled, lambda p: p[0], part),
        jit(lambda part: lax.switch(1, [lambda p: p[0], doubled], part)),
        in_scan,
        jit(in_scan),
        in_while,
        jit(in_while),
        pl.checkpoint(doubled),
        jit(pl.checkpoint(doubled)),
    ],
)
@pytest.mark.parametrize("index", [2, np.int32(2), (slice(0, 4, 2), 1), (..., np.array([2, 0]))])
def test_a_view_is_an_argument_wherever_a_reference_is(call, index):
    ref = pl.new_ref(X)
    expected = X.copy()
    expected[index] = expected[index] * 2 + 1
    assert np.array_equal(call(ref.at[index]), expected[index][1])
    assert np.array_equal(ref[...], expected)


def test_a_view_of_a_view_reads_writes_swaps_and_adds():
    ref, expected = pl.new_ref(X), X.copy()
    view = ref.at[1:3].at[:, np.array([0, 2])]
    part = expected[1:3][:, [0, 2]]
    assert (view.shape, view.dtype, view.ndim, view.size, len(view)) == ((2, 2), X.dtype, 2, 4, 2)
    assert np.array_equal(view[...], part)
    assert float(view.swap(9.0, (0, 1))) == part[0, 1]
    view.addupdate(1.0, 1)
    expected[1, 2] = 9.0
    expected[2, [0, 2]] += 1.0
    assert np.array_equal(ref[...], expected)


def test_views_of_traced_references_are_differentiated():
    def f(x):
        ref = pl.new_ref(jnp.zeros((4, 3)))
        ref.at[1][...] = jnp.full(3, x)
        doubled(ref.at[1:3].at[0])
        return (ref[...] ** 2).sum()

    for g in (f, jit(f)):
        assert float(grad(g)(2.0)) == 3 * 2 * (2 * 2.0 + 1) * 2
        assert vmap(g)(jnp.ones(2)).tolist() == [27.0, 27.0]


def test_a_view_does_not_follow_its_reference_into_batches():
    ref = pl.new_ref(X)
    check_message(
        lambda: vmap(lambda view: view[0])(ref.at[1:]),
        ArgumentTypeError,
        "take the part inside",
    )


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("wrap", [lambda f: f, jit])
def test_the_steps_of_a_scan_write_parts_of_a_reference(wrap, reverse):
    def step(total, x):
        row, y = x
        row[...] += y
        return total + row[0], row[1]

    @wrap
    def run(ref):
        return lax.scan(step, 0.0, (ref, jnp.arange(4.0)), reverse=reverse)

    ref = pl.new_ref(X)
    total, ys = run(ref)
    expected = X + np.arange(4, dtype=np.float32)[:, None]
    assert np.array_equal(ref[...], expected)
    assert float(total) == expected[:, 0].sum()
    assert np.array_equal(ys, expected[:, 1])


def test_a_scan_over_references_has_derivatives_and_batches():
    def powers(x):
        ref = pl.new_ref(jnp.zeros(4))

        def step(c, part):
            part[...] = part[...] + x * c
            return c * x, None

        lax.scan(step, x, ref)
        return ref[...]

    for f in (powers, jit(powers)):
        assert float(grad(lambda x, f=f: f(x).sum())(2.0)) == 4 + 12 + 32 + 80
        assert vmap(f)(np.arange(3.0))[2].tolist() == [4.0, 8.0, 16.0, 32.0]
    with pl.disable_jit():
        assert powers(2.0).tolist() == [4.0, 8.0, 16.0, 32.0]


def test_checkpoint_runs_the_effects_of_the_forward_pass_once():
    ref = pl.new_ref(0.0)

    @pl.checkpoint
    def counted(x):
        ref[...] += 1.0
        return jnp.sin(x) * ref[...]

    for n, f in enumerate((counted, jit(counted)), start=1):
        np.testing.assert_allclose(grad(f)(1.0), n * np.cos(1.0), rtol=1e-6)
        assert float(ref[...]) == n

    def stored(x):
        inner = pl.new_ref(0.0)
        pl.checkpoint(lambda ref, x: ref.set(jnp.sin(x)))(inner, x)
        return inner[...]

    np.testing.assert_allclose(grad(stored)(1.0), np.cos(1.0), rtol=1e-6)


def test_checkpoint_keeps_the_rule_of_a_function_that_takes_references():
    f = pl.custom_vjp(lambda x, ref: x * 2.0)

    def bwd(ref, ct):
        ref[...] += ct
        return ct * 10.0, None

    f.defvjp(lambda x, ref: (f(x, ref), ref), bwd)
    ref = pl.new_ref(0.0)
    assert float(grad(lambda x: pl.checkpoint(f)(x, ref))(2.0)) == 10.0
    assert float(ref[...]) == 1.0


def test_each_device_has_its_part_of_a_reference_in_shard_map():
    mesh = pl.make_mesh((2,), ("x",), axis_types=(pl.sharding.AxisType.Auto,))
    ref, other = pl.new_ref(X), pl.new_ref(np.ones(3, np.float32))

    def f(part, whole, x):
        part[...] = part[...] * whole[...] + x
        return part[...].sum(0, keepdims=True)

    mapped = pl.shard_map(f, mesh=mesh, in_specs=(pl.P("x"), pl.P(), pl.P()), out_specs=pl.P("x"))
    expected = X.copy()
    for call in (mapped, jit(mapped)):
        sums = call(ref, other, 2.0)
        expected += 2.0
        assert np.array_equal(ref[...], expected)
        assert np.array_equal(sums, expected.reshape(2, 2, 3).sum(1))


@pytest.mark.parametrize("give_up", [pl.ref.freeze, pl.ref.free_ref])
def test_what_was_given_up_is_not_used_in_a_compiled_function(give_up):
    @jit
    def f(x):
        ref = pl.new_ref(x)
        give_up(ref)
        return ref[...]

    check_message(lambda: f(1.0), DeletedArrayError, f"was used after `{give_up.__name__}`")

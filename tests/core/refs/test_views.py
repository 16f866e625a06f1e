"""Parts of references as references: `ref.at[index]`, and references as inputs of the steps of a scan."""

import numpy as np
import pytest
from message_checks import check_message

import pellucid as pl
import pellucid.numpy as jnp
from pellucid import grad, jit, lax, vmap
from pellucid._machine.base.errors import ArgumentTypeError, DeletedArrayError, ShapeError

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


VIEWS = {
    "reshape": (lambda ref: ref.reshape(3, -1), lambda x: x.reshape(3, 4)),
    "reshape of a part": (lambda ref: ref.at[1:3].reshape((2, 3, 1)), lambda x: x[1:3, :, None]),
    "part of a reshape": (lambda ref: ref.reshape(2, 6).at[1, ::2], lambda x: x.reshape(2, 6)[1, ::2]),
    "transpose": (lambda ref: ref.transpose(1, 0), lambda x: x.T),
    "transpose of a transpose": (lambda ref: ref.T.transpose((1, 0)).at[2], lambda x: x[2]),
    "transpose of a part": (lambda ref: ref.at[::2].T, lambda x: x[::2].T),
    "bitcast": (lambda ref: ref.bitcast(np.int32).at[1:], lambda x: x.view(np.int32)[1:]),
    "bitcast there and back": (lambda ref: ref.bitcast(np.int8).bitcast(np.float32).T, lambda x: x.T),
}  # fmt: skip


def changed(view):
    """Read, write, add to and swap parts of a view; gives all that was read."""
    before = view[...]
    view[0] = 7
    view[1] += 2
    view.addupdate(3, 1)
    return before, view.swap(5, 1), view[...]


@pytest.mark.parametrize("name", VIEWS)
def test_views_in_other_shapes_orders_and_dtypes_change_their_reference(name):
    view_of, array_of = VIEWS[name]
    expected = X.copy()
    part = array_of(expected)
    before = part.copy()
    part[0] = 7
    part[1] += 5
    old = part[1].copy()
    part[1] = 5
    for call in (changed, jit(changed)):
        ref = pl.new_ref(X)
        results = call(view_of(ref))
        for result, expected_part in zip(results, (before, old, part), strict=True):
            assert result.dtype == expected_part.dtype
            assert np.array_equal(result, expected_part)
        assert np.array_equal(ref[...], expected)
    ref = pl.new_ref(X)
    jit(lambda ref: changed(view_of(ref)))(ref)
    assert np.array_equal(ref[...], expected)


def test_rows_take_up_the_width_of_a_bitcast():
    words = pl.new_ref(np.arange(8, dtype=np.uint32).reshape(2, 4) * 0x10001)
    halves = words.bitcast(np.uint16)
    assert halves.shape == (4, 4)
    assert np.array_equal(halves[...], np.repeat(np.arange(8).reshape(2, 4), 2, axis=0))
    halves[1] = 0  # the high bits of the first row
    assert words[...].tolist() == [[0, 1, 2, 3], *[[0x10001 * i for i in range(4, 8)]]]
    octets = pl.new_ref(np.zeros((4, 2), np.uint8))
    octets.bitcast(np.uint32)[0, 1] = 0x04030201
    assert octets[...].tolist() == [[0, 1], [0, 2], [0, 3], [0, 4]]


@pytest.mark.parametrize(
    ("view_of", "text"),
    [
        (lambda ref: ref.reshape(5, 2), "another number of elements"),
        (lambda ref: ref.reshape(5, -1), "can't turn 12 elements"),
        (lambda ref: ref.transpose(0, 0), "permutation of 2 axes"),
        (lambda ref: ref.at[:3].bitcast(np.complex64), "whole rows"),
        (lambda ref: ref.at[0].bitcast(np.int16), "reshape first"),
    ],
)
def test_forms_that_do_not_fit_are_refused(view_of, text):
    for f in (view_of, jit(view_of)):
        check_message(lambda f=f: f(pl.new_ref(X)), ShapeError, text)


def test_views_within_parts_that_repeat_elements_are_written():
    ref = pl.new_ref(np.zeros(3, np.float32))
    ref.at[np.array([0, 0])].at[0][...] = 5.0
    np.testing.assert_array_equal(ref[...], [5, 0, 0])
    ref.at[np.array([2, 2, 1])].at[np.array([1, 2])][...] = np.float32([7, 8])
    np.testing.assert_array_equal(ref[...], [5, 8, 7])
    ref.at[np.array([1, 9])].reshape(1, 2)[...] = np.float32([[1, 2]])  # 9 lies outside
    np.testing.assert_array_equal(ref[...], [5, 1, 7])

    def loss(x):
        ref = pl.new_ref(pl.numpy.ones(3))
        ref.at[np.array([0, 0, 1])].at[0][...] = x * 3
        return (ref[...] ** 2).sum()

    assert pl.grad(loss)(2.0) == 36
    with pytest.raises(
        NotImplementedError, match="bits of elements that arrays of positions select"
    ):
        ref.at[np.array([0, 1])].bitcast("int32").at[0][...] = 1

"""References as boxes with arrays, outside traces and in compiled functions."""

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import pellucid as pl
import pellucid.numpy as jnp
from pellucid import lax
from pellucid._machine.base.errors import DeletedArrayError, DerivativeRuleError, EffectsError
from pellucid._machine.refs.primitives import Ref

X = np.arange(4, dtype=np.float32)


def test_a_reference_has_memory_of_its_own():
    x = jnp.asarray(X)
    ref = pl.new_ref(x)
    before = ref[...]
    pl.jit(lambda r: r.addupdate(jnp.ones(4)))(ref)
    ref[0] = 50.0
    ref[...] = x
    ref[1] = 7.0
    assert x.tolist() == before.tolist() == [0, 1, 2, 3]
    assert ref[...].tolist() == [0, 7, 2, 3]


def test_a_reference_does_not_share_memory_with_numpy():
    x = X.copy()
    ref = pl.new_ref(x)
    x[:] = 9
    assert ref[...].tolist() == [0, 1, 2, 3]


def test_a_reference_has_the_facts_of_its_array():
    ref = pl.new_ref(X)
    assert (ref.shape, ref.dtype, ref.ndim, ref.size, len(ref)) == ((4,), np.float32, 1, 4, 4)
    assert isinstance(ref, pl.Ref)
    assert not isinstance(X, pl.Ref)
    assert repr(ref) == "Ref([0., 1., 2., 3.], dtype=float32)"
    assert ref == ref  # noqa: PLR0124
    assert ref != pl.new_ref(X)
    assert [float(v) for v in ref] == [0, 1, 2, 3]


def test_what_a_reference_holds_is_never_weak():
    ref = pl.new_ref(1)
    assert not ref[...].weak_type
    ref[...] = 2
    assert not ref[...].weak_type
    assert ref[...].dtype == np.int32


def test_the_old_value_comes_back_from_a_swap():
    ref = pl.new_ref(X)
    assert float(ref.swap(9.0, 2)) == 2
    assert pl.ref.swap(ref, ..., np.zeros(4, np.float32)).tolist() == [0, 1, 9, 3]


def test_frozen_references_are_gone():
    ref = pl.new_ref(X)
    frozen = pl.freeze(ref)
    assert frozen.tolist() == [0, 1, 2, 3]
    for use in (lambda: ref[0], lambda: ref.addupdate(1.0), lambda: pl.jit(lambda r: r[0])(ref)):
        with pytest.raises(DeletedArrayError, match="after `freeze`"):
            use()
    assert "given up" in repr(ref)


def test_a_compiled_function_is_compiled_once():
    count = 0

    @pl.jit
    def step(ref, y):
        nonlocal count
        count += 1
        ref[0] += y
        return ref[...]

    ref = pl.new_ref(X)
    first = step(ref, 1.0)
    step(ref, 2.0)
    other = pl.new_ref(X)
    step(other, 5.0)
    assert count == 1
    assert first.tolist() == [1, 1, 2, 3]
    assert (float(ref[0]), float(other[0])) == (3, 5)


def test_references_from_outside_belong_to_their_function():
    refs = [pl.new_ref(np.float32(i)) for i in range(2)]

    def adding_to(ref):
        return pl.jit(lambda y: ref.addupdate(y))

    for add in map(adding_to, refs):
        add(10.0)
    assert [float(r[...]) for r in refs] == [10, 11]


def test_a_reference_in_a_compiled_stage():
    def f(ref, y):
        ref[1] = y
        return ref[...].sum()

    ref = pl.new_ref(X)
    compiled = pl.jit(f).lower(ref, 1.0).compile()
    assert float(compiled(ref, 10.0)) == 15
    assert float(compiled(ref, 20.0)) == 25
    assert ref[1] == 20


def test_references_beside_donated_arguments():
    @lambda f: pl.jit(f, donate_argnums=1)
    def step(ref, state):
        ref[...] += state
        return state * 2

    ref, state = pl.new_ref(X), jnp.ones(4)
    state = step(ref, state)
    assert ref[...].tolist() == [1, 2, 3, 4]
    assert state.tolist() == [2, 2, 2, 2]


def test_read_only_references_are_not_copied_or_given_away():
    ref = pl.new_ref(X)
    address = ref.unsafe_buffer_pointer()
    assert float(pl.jit(lambda r: r[1])(ref)) == 1
    assert ref.unsafe_buffer_pointer() == address


def test_written_references_keep_their_memory():
    ref = pl.new_ref(np.zeros(1000, np.float32))
    address = ref.unsafe_buffer_pointer()
    step = pl.jit(lambda r, i: r.addupdate(1.0, i))
    for i in range(3):
        step(ref, i)
    assert ref.unsafe_buffer_pointer() == address
    assert ref[:4].tolist() == [1, 1, 1, 0]


def test_a_scan_writes_in_place():
    big = pl.new_ref(np.zeros((256, 1024), np.float32))

    @pl.jit
    def fill(ref, xs):
        def step(i, x):
            ref[i] = ref[i] + x
            return i + 1, None

        return lax.scan(step, 0, xs)[0]

    text = fill.lower(big, np.ones(256, np.float32)).compile().as_text()
    assert "while" in text
    copies = [line for line in text.splitlines() if " copy(" in line and "f32[256,1024]" in line]
    assert not copies


def test_without_jit_it_is_the_same():
    ref = pl.new_ref(X)
    with pl.disable_jit():
        pl.jit(lambda r: r.addupdate(1.0, 0))(ref)
        lax.fori_loop(0, 2, lambda i, c: (ref.addupdate(1.0, i), c)[1], 0)
        lax.cond(True, lambda: ref.addupdate(1.0, 3), lambda: None)
    assert ref[...].tolist() == [2, 2, 2, 4]


def test_loops_and_branches_outside_traces():
    ref = pl.new_ref(np.int32(0))
    lax.while_loop(lambda i: ref[...] < 5, lambda i: (ref.addupdate(2), i + 1)[1], 0)
    assert int(ref[...]) == 6
    lax.cond(ref[...] > 5, lambda r: r.addupdate(10), lambda r: None, ref)
    assert int(ref[...]) == 16
    pl.checkpoint(lambda: ref.addupdate(1))()
    assert int(ref[...]) == 17


def test_a_failed_trace_changes_nothing():
    ref = pl.new_ref(X)

    @pl.jit
    def f():
        ref[0] = 9.0
        raise KeyError("later")

    with pytest.raises(KeyError):
        f()
    assert ref[0] == 0


def test_second_derivatives_through_references():
    def f(x):
        ref = pl.new_ref(x)
        ref[...] *= x
        return ref[...] * x

    assert float(pl.hessian(f)(2.0)) == 12
    assert float(pl.jacfwd(f)(2.0)) == float(pl.jacrev(f)(2.0)) == 12


def test_linear_functions_with_references_are_transposed():
    def f(x):
        ref = pl.new_ref(jnp.zeros(3))
        ref[1] = 2 * x[0]
        ref[:2] += x[1:]
        return ref[...]

    [ct] = pl.linear_transpose(f, np.zeros(3, np.float32))(jnp.array([1.0, 10.0, 100.0]))
    assert ct.tolist() == [20, 1, 10]


def test_cotangents_are_added_to_references():
    total, other = pl.new_ref(np.zeros(2, np.float32)), pl.new_ref(np.float32(0))
    _, backward = pl.vjp(lambda p: (p["w"] * p["b"]).sum(), {"w": jnp.array([1.0, 2.0]), "b": 3.0})
    accumulate = backward.with_refs({"w": total, "b": other})
    assert accumulate(1.0) == ({"w": None, "b": None},)
    pl.jit(lambda ct: accumulate(ct))(2.0)
    assert total[...].tolist() == [9, 9]
    assert float(other[...]) == 9


def test_cotangents_nobody_wants():
    total = pl.new_ref(np.float32(0))
    _, backward = pl.vjp(lambda x, y: x * y, 2.0, 3.0)
    backward.with_refs(None, total)(1.0)
    assert float(total[...]) == 2
    with pytest.raises(TypeError, match="an entry for each argument"):
        backward.with_refs(total)


def test_custom_rules_around_references():
    ref = pl.new_ref(np.float32(0))

    @pl.custom_jvp
    def f(x):
        ref[...] += 1
        return x * x

    f.defjvp(lambda primals, tangents: (primals[0] ** 2, 3 * tangents[0]))
    assert float(pl.jit(f)(2.0)) == 4
    assert float(pl.grad(f)(2.0)) == 3
    assert float(ref[...]) == 1


def test_references_of_many_dtypes():
    for dtype in (bool, np.int8, np.uint32, np.float16, "bfloat16", np.complex64):
        x = jnp.asarray([1, 0, 1]).astype(dtype)
        ref = pl.new_ref(x)
        ref[1] = x[0]
        assert pl.jit(lambda r: r[...])(ref).dtype == ref.dtype == x.dtype
        assert ref[...].astype(bool).all()


def test_traced_references_are_references():
    def f(ref):
        assert isinstance(ref, Ref)
        assert not isinstance(ref[...], Ref)
        assert not hasattr(ref[...], "addupdate")
        return ref.get(0)

    assert float(pl.jit(f)(pl.new_ref(X))) == 0


def test_vmap_over_a_jitted_writer():
    @pl.jit
    def write(ref, v):
        ref[0] = v
        return ref[1]

    m = pl.new_ref(np.arange(6, dtype=np.float32).reshape(3, 2))
    assert pl.vmap(write)(m, X[:3]).tolist() == [1, 3, 5]
    assert m[:, 0].tolist() == [0, 1, 2]


def test_vmap_reads_what_is_the_same_for_all():
    ref = pl.new_ref(X)
    assert pl.vmap(lambda i: ref[i])(np.array([3, 1])).tolist() == [3, 1]
    with pytest.raises(EffectsError, match="one reference for all"):
        pl.vmap(lambda v: ref.addupdate(v, 0))(X)


# Any index, as NumPy reads and writes it --------------------------------------------------------------------

SHAPE = (3, 4, 2)


@st.composite
def entries(draw, size, vectors):
    kind = draw(st.sampled_from(["slice", "slice", "int", "vector"]))
    if kind == "int":
        return draw(st.integers(-size, size - 1))
    if kind == "vector":
        return np.array(
            draw(st.lists(st.integers(-size, size - 1), min_size=vectors, max_size=vectors))
        )
    start, stop = draw(st.integers(0, size - 1)), draw(st.integers(1, size))
    return slice(start, stop, draw(st.integers(1, 3)))


@st.composite
def indices(draw):
    vectors = draw(st.integers(1, 3))
    given_ = [draw(entries(size, vectors)) for size in SHAPE[: draw(st.integers(1, 3))]]
    if draw(st.booleans()):
        given_.append(...)
    return tuple(given_)


def unique(index):
    """Whether no element is indexed twice, so that the order of writes doesn't matter."""
    counts = np.zeros(SHAPE, int)
    np.add.at(counts, index, 1)
    return counts.max(initial=0) <= 1


@given(indices(), st.sampled_from(["eager", "jit", "traced index"]))
@settings(max_examples=40, deadline=None)
def test_parts_are_those_of_numpy(index, how):
    x = np.arange(24, dtype=np.float32).reshape(SHAPE)
    expected = x.copy()
    value = np.float32(100) + np.arange(expected[index].size, dtype=np.float32).reshape(
        x[index].shape
    )
    is_unique = unique(index)
    if is_unique:
        expected[index] = value
    np.add.at(expected, index, np.float32(1))

    def use(ref, index):
        old = ref[index]
        if is_unique:
            ref[index] = value
        ref.addupdate(np.ones_like(value), index)
        return old

    ref = pl.new_ref(x)
    if how == "eager":
        old = use(ref, index)
    elif how == "jit":
        old = pl.jit(lambda r: use(r, index))(ref)
    else:
        traced = [i for i in index if not isinstance(i, slice) and i is not ...]

        def with_traced(r, given_):
            rest = iter(given_)
            return use(
                r, tuple(i if isinstance(i, slice) or i is ... else next(rest) for i in index)
            )

        old = pl.jit(with_traced)(ref, traced)
    np.testing.assert_array_equal(old, x[index])
    np.testing.assert_array_equal(ref[...], expected)


def test_moving_windows_within_batches_and_loops():
    m = np.arange(12, dtype=np.float32).reshape(3, 4)
    ref = pl.new_ref(m)
    actual = pl.vmap(lambda r: r[pl.ds(1, 2)])(ref)
    assert actual.tolist() == m[:, 1:3].tolist()
    moved = pl.jit(pl.vmap(lambda r, i: r[pl.ds(i, 2)], in_axes=(1, None)))(ref, 1)
    assert moved.tolist() == m[1:3].T.tolist()
    with pytest.raises(ValueError, match="same for the whole batch"):
        pl.vmap(lambda i: ref[pl.ds(i, 2)])(np.arange(2))

    def fill(i, _):
        ref[pl.ds(i, 1), pl.ds(i, 2)] = np.zeros((1, 2), np.float32)
        return i + 1, None

    lax.scan(fill, 0, length=3)
    assert (ref[...] == 0).tolist() == [
        [True, True, False, False],
        [False, True, True, False],
        [False, False, True, True],
    ]


def test_windows_say_what_is_wrong_with_them():
    ref = pl.new_ref(X)
    with pytest.raises(ValueError, match="out of bounds"):
        ref[pl.ds(3, 2)]
    with pytest.raises(TypeError, match="known when the function is traced"):
        pl.jit(lambda n: ref[pl.ds(0, n)])(2)
    with pytest.raises(TypeError, match="known when the function is traced"):
        pl.jit(lambda n: jnp.arange(4)[pl.ds(0, n)])(2)
    with pytest.raises(TypeError, match="scalar integer start"):
        pl.ds(1.5, 2)
    with pytest.raises(TypeError, match="scalar integer size"):
        pl.jit(lambda n: pl.ds(0, n).size)(2.0)
    assert pl.jit(lambda s: pl.tree.map(lambda x: x + 1, pl.ds(s, s)).size)(2) == 3
    with pytest.raises(ValueError, match="at least 0"):
        pl.ds(0, -1)
    assert pl.ds(None) == slice(None)
    assert repr(pl.ds(1, 2)) == "Slice(start=1, size=2, stride=1)"


# Through the backward pass ----------------------------------------------------------------------------------


@pl.custom_vjp
def stash(ref, x):
    return x


def write_back(ref, ct):
    ref[...] = ct
    return None, ct


stash.defvjp(lambda ref, x: (x, ref), write_back)


def test_cotangents_are_kept_in_branches():
    ref = pl.new_ref(np.float32(0))
    f = lambda x: lax.cond(x > 0, lambda v: stash(ref, v * 3) * 2, lambda v: v, x)
    assert float(pl.grad(f)(1.0)) == float(pl.jit(pl.grad(f))(1.0)) == 6
    assert float(ref[...]) == 2


def test_references_inside_and_outside_of_one_derivative():
    outside = pl.new_ref(np.float32(0))

    def f(x):
        inside = pl.new_ref(x)

        def step(i, _):
            inside[...] = stash(outside, inside[...] * x)
            return i + 1, None

        lax.scan(step, 0, length=2)
        return inside[...] * x

    for grad in (pl.grad(f), pl.jit(pl.grad(f))):
        assert float(grad(3.0)) == 4 * 27
        assert float(outside[...]) == 9


def test_forward_mode_does_not_know_what_is_only_written_backwards():
    ref = pl.new_ref(np.float32(0))
    with pytest.raises(TypeError, match="forward-mode"):
        pl.jvp(lambda x: stash(ref, x), (1.0,), (1.0,))


def test_references_made_in_a_part_stay_there():
    @pl.jit
    def part(x):
        return stash(pl.new_ref(0.0), x)

    assert float(pl.grad(lambda x: stash(pl.new_ref(0.0), x))(1.0)) == 1
    with pytest.raises(EffectsError, match="made in a part of a program"):
        pl.grad(part)(1.0)


def test_a_function_is_lowered_for_the_type_of_a_reference():
    def write(ref, x):
        ref[...] += x
        return ref[...] * 2

    stand_in = pl.ShapeDtypeStruct((3,), "float32", is_ref=True)
    stage = pl.jit(write).lower(stand_in, pl.ShapeDtypeStruct((3,), "float32")).compile()
    ref = pl.new_ref(jnp.ones(3))
    assert stage(ref, jnp.ones(3)).tolist() == [4.0, 4.0, 4.0]
    assert ref[...].tolist() == [2.0, 2.0, 2.0]


def both_written(a, b):
    a[...] = a[...] + 1.0
    b[...] = b[...] * 2.0
    return a[...].sum()


def with_own_derivative(f):
    g = pl.custom_vjp(f)
    g.defvjp(lambda a, b: (f(a, b), None), lambda _, ct: (None, None))
    return g


@pytest.mark.parametrize(
    "call",
    [
        lambda r: pl.vmap(both_written)(r, r),
        lambda r: pl.vmap(lambda p: both_written(p["a"], p["b"]))({"a": r, "b": r}),
        lambda r: with_own_derivative(both_written)(r, r),
        lambda r: pl.jit(lambda r: with_own_derivative(both_written)(r, r))(r),
        lambda r: pl.eval_shape(both_written, r, r),
        lambda r: pl.make_jaxpr(both_written)(r, r),
        lambda r: pl.jit(both_written).lower(r, r),
    ],
)
def test_a_reference_has_one_name(call):
    """What two names hold would depend on the order in which they are written."""
    ref = pl.new_ref(X)
    with pytest.raises(ValueError, match="got the same reference twice"):
        call(ref)
    assert ref[...].tolist() == X.tolist()


def test_rules_give_no_new_references_as_residuals():
    f = pl.custom_vjp(lambda x: x)
    f.defvjp(lambda x: (x, pl.new_ref(x)), lambda ref, ct: (ct * ref[...],))
    with pytest.raises(ValueError, match="no references but its arguments"):
        pl.grad(f)(2.0)


@pytest.mark.parametrize("transform", [lambda f: f, pl.jit], ids=["eager", "jit"])
def test_arrays_like_views_have_their_shape_and_dtype(transform):
    makers = [
        jnp.ones_like,
        jnp.zeros_like,
        jnp.empty_like,
        lambda v: jnp.full_like(v, 2),
        lambda v: lax.full_like(v, 2),
    ]
    for make, expected in zip(makers, (1, 0, 0, 2, 2), strict=True):

        def fill(ref, make=make):
            view = ref.at[1:3]
            view[...] = make(view)
            assert make(view).dtype == ref.dtype
            return ref[...]

        assert transform(fill)(pl.new_ref(X)).tolist() == [0, expected, expected, 3]


def test_shard_map_infers_how_references_are_cut():
    mesh = pl.make_mesh((4,), ("x",), axis_types=(pl.sharding.AxisType.Explicit,))

    def double(ref):
        ref[...] = ref[...] * 2

    with pl.set_mesh(mesh):
        ref = pl.new_ref(pl.device_put(X, pl.P("x")))
        pl.shard_map(double, out_specs=None)(ref)
        pl.jit(lambda ref: pl.shard_map(double, out_specs=None)(ref))(ref)
        assert ref[...].tolist() == [0, 4, 8, 12]
        assert ref[...].sharding.spec == pl.P("x")


def test_a_backward_pass_gives_cotangents_in_place_of_other_objects():
    total = pl.new_ref(jnp.zeros(()))
    _, backward = pl.vjp(lambda x, y, z: x * y * z, 2.0, 3.0, 4.0)
    assert backward.with_refs(total, object(), None)(1.0) == (None, 8.0, None)
    assert total[...] == 12


def test_functions_of_references_refuse_arrays():
    for call in (
        lambda x: pl.ref.get(x, 0),
        lambda x: pl.ref.swap(x, 0, 1.0),
        lambda x: pl.ref.addupdate(x, 0, 1.0),
    ):
        with pytest.raises(ValueError, match="needs a reference"):
            call(jnp.ones(3))


def test_a_written_reference_and_an_array_of_its_type_closed_over():
    array = pl.device_put(np.full(3, 2.0, np.float32))
    ref = pl.new_ref(pl.device_put(np.ones(3, np.float32)))
    double = pl.jit(lambda: ref.set(ref[...] * array))
    for _ in range(3):
        double()
    assert (ref[...].tolist(), array.tolist()) == ([8] * 3, [2] * 3)


@pl.custom_vjp
def product(ref, x):
    return ref[...] * x


def product_backward(factors, ct):
    value, x = factors
    return 10 * ct * x, 100 * ct * value


product.defvjp(lambda ref, x: (product(ref, x), (ref[...], x)), product_backward)


def products_in_a_loop(x):
    """x**3: in each run the derivative of c by the reference is 10 times c, by c 100 times x."""
    ref = pl.new_ref(x)
    return lax.scan(lambda c, _: (product(ref, c), None), 1.0, length=3)[0]


@pytest.mark.parametrize(
    ("f", "at", "expected"),
    [
        (lambda x: product(pl.new_ref(x), 3.0), 2.0, 30),
        (lambda x: product(pl.new_ref(2 * x), 3.0), 2.0, 60),
        (lambda x: product(pl.new_ref(x), x), 2.0, 220),
        (lambda x: lax.cond(jnp.ones(()) > 0, lambda r: product(r, 3.0), lambda r: r[...], pl.new_ref(x)), 2.0, 30),
        (pl.checkpoint(lambda x: product(pl.new_ref(x), 3.0)), 2.0, 30),
        (lambda x: lax.scan(lambda c, _: (product(pl.new_ref(c), 1.0), None), x, length=2)[0], 2.0, 100),
        (products_in_a_loop, 2.0, 10 * (200**2 + 200 * 2 + 4)),
    ],
)  # fmt: skip
@pytest.mark.parametrize("around", [lambda f: f, pl.jit], ids=["eager", "jit"])
def test_rules_have_derivatives_by_references_that_are_made_inside(f, at, expected, around):
    assert float(around(pl.grad(f))(at)) == expected
    assert float(pl.grad(around(f))(at)) == expected
    assert around(pl.vmap(pl.grad(f)))(jnp.full(2, at)).tolist() == [expected] * 2
    batched = around(lambda xs: pl.vmap(f)(xs).sum())
    assert pl.grad(batched)(jnp.full(2, at)).tolist() == [expected] * 2


def test_cotangents_of_rules_add_to_those_of_what_is_read_later():
    def f(x):
        ref = pl.new_ref(x)
        y = product(ref, 3.0)
        return y + 7 * ref[...]

    assert float(pl.grad(f)(2.0)) == 37


def test_cotangents_of_references_have_the_type_of_what_they_hold():
    f = pl.custom_vjp(lambda ref: ref[...])
    f.defvjp(lambda ref: (ref[...], None), lambda _, ct: (jnp.ones(3),))
    with pytest.raises(DerivativeRuleError, match="another type than its argument"):
        pl.grad(lambda x: f(pl.new_ref(x)))(2.0)


UNDIFFERENTIATED = {"kind": "no_grad_no_remat"}


@pytest.mark.parametrize("around", [lambda f: f, pl.jit], ids=["eager", "jit"])
def test_undifferentiated_references_take_differentiated_values(around):
    ref = pl.new_ref(np.float32(0), **UNDIFFERENTIATED)

    def f(x):
        ref[...] = x * 2
        ref.addupdate(x)
        return x * 4

    assert float(around(pl.grad(f))(3.0)) == 4
    assert float(ref[...]) == 9
    assert float(pl.grad(around(f))(5.0)) == 4
    assert float(ref[...]) == 15
    value, tangent = pl.jvp(around(f), (2.0,), (1.0,))
    assert (float(value), float(tangent), float(ref[...])) == (8, 4, 6)
    assert float(pl.grad(pl.checkpoint(f))(7.0)) == 4
    assert float(ref[...]) == 21


def test_undifferentiated_references_as_arguments_of_compiled_functions_have_programs_of_their_own():
    f = pl.jit(lambda ref, x: ref.swap(x) * x)
    plain, undifferentiated = (pl.new_ref(np.float32(2), **kind) for kind in ({}, UNDIFFERENTIATED))
    assert float(f(plain, 3.0)) == 6
    assert float(pl.grad(lambda x: f(undifferentiated, x))(3.0)) == 2
    with pytest.raises(EffectsError, match="differentiated value can't be written"):
        pl.grad(lambda x: f(plain, x))(3.0)


@pytest.mark.parametrize("around", [lambda f: f, pl.jit], ids=["eager", "jit"])
def test_undifferentiated_references_pass_no_derivatives_on(around):
    def f(x):
        ref = pl.new_ref(x, **UNDIFFERENTIATED)
        ref[...] *= x
        return pl.freeze(ref) * x

    assert float(around(pl.grad(f))(3.0)) == 9
    assert around(pl.vmap(pl.grad(f)))(jnp.arange(3.0)).tolist() == [0, 1, 4]
    assert pl.grad(lambda x: pl.vmap(around(f))(x).sum())(jnp.arange(3.0)).tolist() == [0, 1, 4]


@pytest.mark.parametrize("is_compiled", [False, True])
def test_derivatives_of_places_that_are_written_twice(is_compiled):
    places = np.array([2, 0, 2, 1])

    def swapped(x, y):
        ref = pl.new_ref(x)
        before = pl.ref.swap(ref, places, y)
        ref[places] = jnp.sin(ref[places]) * 2
        return jnp.cos(jnp.arange(5.0)) @ ref[...] + before @ y

    def without(x, y):
        for i in places:
            x = x.at[i].set(y[np.flatnonzero(places == i)[-1]])
        x = x.at[:3].set(2 * jnp.sin(x[:3]))
        return jnp.cos(jnp.arange(5.0)) @ x

    x, y = np.linspace(0.3, 1.9, 5, dtype=np.float32), np.linspace(1, 3, 4, dtype=np.float32)
    call = pl.grad(swapped, (0, 1))
    by_x, by_y = (pl.jit(call) if is_compiled else call)(x, y)
    want_x, want_y = pl.grad(without, (0, 1))(x, y)
    np.testing.assert_allclose(by_x, want_x + np.bincount(places, y, 5), 1e-5)
    np.testing.assert_allclose(by_y, want_y + x[places], 1e-5)


@pytest.mark.parametrize("wrap", [lambda f: f, pl.jit])
def test_derivatives_of_repeated_indices_are_of_the_write_that_stays(wrap):
    # Elements 0 and 2 are written, 0 twice. The reads come before both writes, so that the last one leaves
    # s[last] x[0] in element 0, whose derivative is s[last]; that which was written over is in no result.
    z, s = np.array([0, 0, 2]), np.array([2.0, 3.0, 5.0], np.float32)

    def function(x):
        ref = pl.new_ref(x)
        ref[z] = ref[z] * s
        return ref[...]

    x = np.array([1.0, 10.0, 100.0], np.float32)
    np.testing.assert_array_equal(wrap(function)(x), [3.0, 10.0, 500.0])
    expected = np.diag([3.0, 1.0, 5.0])
    np.testing.assert_array_equal(pl.jacrev(wrap(function))(x), expected)
    np.testing.assert_array_equal(pl.jacfwd(wrap(function))(x), expected)


def _halving(ref, start, stop):
    """Writes and reads `ref` in a loop whose length is `stop - start`."""

    def body(state):
        i, total = state
        ref[i % 3] = ref[(i + 1) % 3] / 2
        return i + 1, total + ref[0]

    return lax.while_loop(lambda s: s[0] < stop, body, (start, 0.0))


def _made_inside(x, stop):
    ref = pl.new_ref(x)
    return _halving(ref, 0, stop), ref[...]


def _tested_by_the_condition(x, stop):
    ref = pl.new_ref(x)
    lax.while_loop(lambda i: ref[0] < 7 * stop, lambda i: (ref.addupdate(1.5, 0), i + 1)[1], 0)
    return ref[...]


def _chosen_by_elements(x, stop):
    ref = pl.new_ref(x)

    def first():
        ref[0] = ref[1] * 5

    def rest():
        ref[1:] = ref[1:] + stop

    lax.cond(stop < 2, first, rest)
    return ref[...]


def _within_a_scan(x, stop):
    ref = pl.new_ref(x)
    out = lax.scan(lambda c, i: (c + _halving(ref, i, stop)[1], ref[i]), 0.0, jnp.arange(3))
    return out, ref[...]


@pytest.mark.parametrize("around", [lambda f: f, pl.jit])
@pytest.mark.parametrize(
    "function", [_made_inside, _tested_by_the_condition, _chosen_by_elements, _within_a_scan]
)
def test_elements_of_a_batch_write_as_if_each_were_alone(function, around):
    x, stops = np.arange(12, dtype=np.float32).reshape(4, 3), np.array([1, 5, 0, 3])
    batch = around(pl.vmap(function))(x, stops)
    alone = [function(*pair) for pair in zip(x, stops, strict=True)]
    for actual, *expected in zip(*map(pl.tree.leaves, (batch, *alone)), strict=True):
        np.testing.assert_array_equal(actual, expected)


@pytest.mark.parametrize("around", [lambda f: f, pl.jit])
def test_loops_that_end_apart_write_to_the_references_of_a_batch(around):
    def program(stops):
        ref = pl.new_ref(jnp.ones((3, 3)))
        return pl.vmap(_halving, (0, None, 0))(ref, 0, stops), ref[...]

    (steps, _), values = around(program)(np.array([0, 1, 3]))
    assert steps.tolist() == [0, 1, 3]
    assert values.tolist() == [[1, 1, 1], [0.5, 1, 1], [0.5, 0.5, 0.25]]


def test_loops_that_end_apart_read_one_reference_and_do_not_write_to_it():
    ref = pl.new_ref(X)
    read = lambda n: lax.fori_loop(0, n, lambda i, total: total + ref[i], 0.0)
    assert pl.vmap(read)(np.array([1, 4, 2])).tolist() == [0, 6, 1]
    with pytest.raises(EffectsError, match="to one reference for all"):
        pl.vmap(lambda n: _halving(ref, 0, n))(np.array([1, 2]))


def _elevenfold(v):
    """3 v + 8 v, by loops over references."""
    ref = pl.new_ref(v)

    def doubled(i, factor):
        ref[...] = ref[...] * factor
        return factor

    lax.fori_loop(0, 3, doubled, 2.0)
    return ref[...] + 3 * v


@pytest.mark.parametrize(
    "around", [lambda f: f, pl.jit, lambda f: lambda v: pl.vmap(f)(v[None])[0]]
)
def test_rules_whose_tangents_go_through_loops_over_references(around):
    function = pl.custom_jvp(_elevenfold)
    function.defjvp(lambda primals, tangents: (_elevenfold(*primals), _elevenfold(*tangents)))
    scanned = lambda v: lax.scan(lambda c, _: (function(c), None), v, None, 2)[0]
    for f, factor in (function, 11), (scanned, 121):
        squares = lambda v, f=f: (f(v) ** 2).sum()
        x = np.array([1, 2, 3], np.float32)
        np.testing.assert_allclose(around(pl.grad(squares))(x), 2 * factor**2 * x)
        np.testing.assert_allclose(around(pl.hessian(squares))(x), 2 * factor**2 * np.eye(3))
        np.testing.assert_allclose(around(lambda v, f=f: pl.jvp(f, (v,), (v,))[1])(x), factor * x)


@pytest.mark.parametrize("read", [lambda ref: ref[...], pl.ref.freeze], ids=["read", "freeze"])
def test_what_is_read_from_a_reference_has_one_type_in_eager_and_compiled_programs(read) -> None:
    """A type that only one of them takes for weak would be promoted otherwise there."""
    held = lambda x: read(pl.new_ref(x))
    added = lambda x: held(x) + jnp.ones(2, "bfloat16")
    for of in (lambda f: f, pl.jit, pl.checkpoint, lambda f: lambda x: pl.jvp(f, (x,), (x,))[0]):
        assert not of(held)(1.0).weak_type
        assert of(added)(1.0).dtype == np.float32
    assert not pl.eval_shape(held, 1.0).weak_type


@pytest.mark.parametrize("way", ["read", "written", "added"])
def test_parts_of_a_reference_differ_between_devices_as_its_content_does(way: str) -> None:
    """Cotangents of a part that is called the same everywhere would be summed over the devices."""
    mesh = pl.make_mesh((2,), ("i",), axis_types=(pl.sharding.AxisType.Auto,))
    x = jnp.arange(1.0, 13).reshape(6, 2)

    def of_device(x):
        ref = pl.new_ref(x if way == "read" else 0 * x)
        if way == "written":
            ref[1] = x[1]
        elif way == "added":
            pl.ref.addupdate(ref, np.s_[1:2], x[1:2])
        parts = ref[1], ref[1:2], ref[jnp.array([1])], ref[:, 0], ref[...]
        assert all(pl.typeof(part).varying == {"i"} for part in parts)
        return (parts[0] * x[0])[None]

    def loss(of_device, x):
        over = pl.shard_map(of_device, mesh=mesh, in_specs=pl.P("i"), out_specs=pl.P("i"))
        return (over(x) ** 2).sum()

    found = pl.grad(lambda x: loss(of_device, x))(x)
    expected = pl.grad(lambda x: loss(lambda x: (x[1] * x[0])[None], x))(x)
    np.testing.assert_array_equal(found, expected)


def test_a_carry_of_a_loop_may_be_a_part_of_a_reference_that_differs_between_devices() -> None:
    mesh = pl.make_mesh((2,), ("i",), axis_types=(pl.sharding.AxisType.Auto,))

    def of_device(x):
        ref = pl.new_ref(x)
        return pl.lax.fori_loop(0, 3, lambda i, _: ref[i], x[0])

    over = pl.shard_map(of_device, mesh=mesh, in_specs=pl.P("i"), out_specs=pl.P("i"))
    np.testing.assert_array_equal(over(jnp.arange(12.0).reshape(6, 2)), [4, 5, 10, 11])


def test_a_part_of_a_reference_varies_over_devices_as_its_content_does() -> None:
    mesh = pl.make_mesh((2,), ("i",), axis_types=(pl.sharding.AxisType.Auto,))
    x = jnp.arange(24.0).reshape(2, 3, 4)

    def doubled(x):
        ref = pl.new_ref(x[0])
        assert pl.typeof(ref[0]).varying == pl.typeof(ref[1:]).varying == {"i"}
        assert pl.typeof(pl.ref.swap(ref, 2, jnp.zeros(4))).varying == {"i"}

        def write(i, last):
            ref[i] = x[0, i] + last
            return ref[i]

        return pl.lax.fori_loop(0, 2, write, x[0, 0])

    mapped = pl.shard_map(
        doubled, mesh=mesh, in_specs=pl.sharding.PartitionSpec("i"),
        out_specs=pl.sharding.PartitionSpec("i"),
    )  # fmt: skip
    np.testing.assert_array_equal(mapped(x), (2 * x[:, 0] + x[:, 1]).reshape(8))
    alike = pl.shard_map(
        lambda x: pl.new_ref(x[0])[0], mesh=mesh, in_specs=pl.sharding.PartitionSpec("i"),
        out_specs=pl.sharding.PartitionSpec(),
    )  # fmt: skip
    with pytest.raises(pl.errors.CollectiveError, match="out_specs"):
        alike(x)

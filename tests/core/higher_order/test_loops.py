"""scan, while_loop, fori_loop, map, associative_scan: what their programs look like, caching, messages."""

import numpy as np
import pytest
from message_checks import check_message

import pellucid
import pellucid.numpy as jnp
from pellucid import grad, jit, lax, make_jaxpr

XS = np.arange(3, dtype=np.float32)


def equations(jaxpr, name):
    return [e for e in jaxpr.jaxpr.equations if e.primitive.name == name]


def test_bodies_are_traced_once_for_each_kind_of_arguments():
    traced = []

    def body(c, x):
        traced.append(1)
        return c + x, None

    for _ in range(3):
        lax.scan(body, np.float32(0), XS)
    assert len(traced) == 1
    lax.scan(body, np.float32(0), np.arange(4, dtype=np.float32))
    assert len(traced) == 1
    lax.scan(body, np.int32(0), np.arange(4))
    assert len(traced) == 2


def test_a_condition_is_traced_before_its_body():
    traced = []
    lax.while_loop(
        lambda x: traced.append("condition") or x < 3, lambda x: traced.append("body") or x + 1, 0
    )
    assert traced == ["condition", "body"]


def test_bodies_that_capture_traced_values_are_traced_again():
    def body(c, x):
        return c * body.w + x, None

    def outer(w):
        body.w = w
        return lax.scan(body, w, XS)[0]

    assert float(grad(outer)(2.0)) == 4 * 2.0**3 + 1
    assert float(jit(outer)(2.0)) == float(outer(2.0)) == 2.0**4 + 2 + 2


def test_residuals_that_do_not_change_are_computed_once():
    f = lambda w: lax.scan(lambda c, x: (c * lax.sin(w) * x, None), w, XS)[0]
    jaxpr = make_jaxpr(grad(f))(2.0)
    forward, backward = equations(jaxpr, "scan")
    assert len(equations(jaxpr, "sin")) == 1
    inner = {e.primitive.name for scan in (forward, backward) for e in scan.params.jaxpr.equations}
    assert not inner & {"sin", "cos"}


def test_inputs_and_results_are_not_saved_twice():
    f = lambda w: lax.reduce_sum(lax.scan(lambda c, x: (c * w, c * w), w, XS)[1], (0,))
    forward, _ = equations(make_jaxpr(grad(f))(2.0), "scan")
    assert (
        len(forward.results) == 3
    )  # the carry, the outputs, and the carries that the product needs


def test_carries_that_nobody_uses_are_dropped():
    f = jit(lambda x: lax.fori_loop(0, 3, lambda i, c: (c[0] * x, lax.sin(c[1])), (1.0, 2.0))[0])
    assert "sine" not in f.lower(2.0).as_text()


def test_loops_of_known_length_are_scans():
    body = lambda i, v: v * 2.0
    assert [
        e.primitive.name for e in make_jaxpr(lambda x: lax.fori_loop(0, 3, body, x))(1.0).equations
    ] == ["scan"]
    assert [
        e.primitive.name for e in make_jaxpr(lambda n: lax.fori_loop(0, n, body, 1.0))(3).equations
    ] == ["while"]
    assert float(lax.fori_loop(3, 0, body, 5.0)) == 5.0


@pytest.mark.parametrize("unroll", [1, 2, 3, 4, 7, True, 0])
@pytest.mark.parametrize("reverse", [False, True])
def test_unrolling_changes_nothing(unroll, reverse):
    step = lambda c, x: (c * 0.5 + x, c)
    xs = np.arange(7, dtype=np.float32)
    expected = lax.scan(step, 1.0, xs, reverse=reverse)
    actual = lax.scan(step, 1.0, xs, reverse=reverse, unroll=unroll)
    np.testing.assert_allclose(actual[0], expected[0], rtol=1e-6)
    np.testing.assert_allclose(actual[1], expected[1], rtol=1e-6)


def test_trees_without_arrays():
    assert lax.scan(lambda c, x: (c, None), None, None, length=2) == (None, None)
    assert lax.while_loop(lambda c: c[0] < 1, lambda c: (c[0] + 1, None), (0, None))[1] is None


def test_python_runs_while_jit_is_off():
    with pellucid.disable_jit(True):
        seen = []
        lax.scan(lambda c, x: (seen.append(float(x)) or c, x), 0.0, XS, reverse=True)
        assert seen == [2.0, 1.0, 0.0]
        assert lax.while_loop(lambda x: bool(x < 10), lambda x: x * 2, 3) == 12
        assert lax.fori_loop(0, 3, lambda i, v: v + i, 0) == 3


@pytest.mark.parametrize("is_disabled", [False, True])
def test_bodies_dont_change_arrays_of_numpy(is_disabled):
    def body(carry):
        a, b = carry
        a += 1
        return a, b + a

    value = np.array(1.0)
    with pellucid.disable_jit(is_disabled):
        results = [
            lax.while_loop(lambda c: c[0] < 10, body, (value, value)),
            lax.fori_loop(0, 9, lambda i, c: body(c), (value, value)),
            lax.scan(lambda c, _: (body(c), None), (value, value), length=9)[0],
        ]
    assert value == 1
    assert [float(b) for _, b in results] == [55, 55, 55]


def test_loops_that_a_trace_can_t_count_are_traced_while_jit_is_off():
    doubled = lambda x: lax.while_loop(lambda v: v < 10, lambda v: v * 2, x)
    cg = pellucid.scipy.sparse.linalg.cg
    with pellucid.disable_jit():
        np.testing.assert_array_equal(pellucid.vmap(doubled)(XS + 1), [16, 16, 12])
        assert pellucid.jvp(doubled, (3.0,), (1.0,)) == (12.0, 4.0)
        np.testing.assert_allclose(cg(lambda v: 2 * v, XS)[0], XS / 2)


def test_keys_of_results_follow_the_carry():
    carry, ys = lax.scan(
        lambda c, x: ({"b": c["a"], "a": c["b"] + x}, {"y": x}), {"a": 0.0, "b": 1.0}, XS
    )
    assert sorted(carry) == ["a", "b"]
    np.testing.assert_array_equal(ys["y"], XS)


ERRORS = [
    (lambda: lax.scan(3, 0.0, XS), TypeError, ["scan needs a function"]),
    (lambda: lax.scan(lambda c, x: c, 0.0, XS), TypeError, ["must return a pair (carry, y)"]),
    (lambda: lax.scan(lambda c, x: (c, x), 0.0), ValueError, ["number of steps", "Give length"]),
    (lambda: lax.scan(lambda c, x: (c, x), 0.0, (XS, np.ones(4))), ValueError, ["xs[0]: f32[3]", "xs[1]: f32[4]"]),
    (lambda: lax.scan(lambda c, x: (c, x), 0.0, XS, length=4), ValueError, ["length: 4", "xs: f32[3]"]),
    (lambda: lax.scan(lambda c, x: (c, x), 0.0, 1.0), ValueError, ["leading axis", "xs: f32[]"]),
    (lambda: lax.scan(lambda c, x: ((c, c), x), 0.0, XS), TypeError, ["carry: returned tuple of 2, taken a leaf"]),
    (lambda: lax.scan(lambda c, x: ({"a": XS}, x), {"a": 0.0}, XS), TypeError, ["carry['a']: taken f32[], returned f32[3]", "Shapes"]),
    (lambda: lax.scan(lambda c, x: ({"a": 1j * x}, x), {"a": np.float32(0)}, XS), TypeError, ["taken f32[], returned c64[]", "complex64"]),
    (lambda: lax.scan(lambda c, x: (c, x), "a", XS), TypeError, ["init: str ('a')"]),
    (lambda: lax.scan(lambda c, x: (c, x), 0.0, XS, unroll=-1), ValueError, ["unroll can't be negative"]),
    (lambda: lax.scan(lambda c, x: (c, x), 0.0, XS, unroll="a"), TypeError, ["unroll must be an int or a bool"]),
    (lambda: jit(lambda n: lax.scan(lambda c, x: (c, x), 0.0, None, length=n))(3), TypeError, ["length that is known now", "fori_loop"]),
    (lambda: lax.while_loop(lambda x: x, lambda x: x, 1.0), TypeError, ["scalar boolean", "returned f32[]"]),
    (lambda: lax.while_loop(lambda x: (x, x), lambda x: x, 1.0), TypeError, ["scalar boolean"]),
    (lambda: lax.while_loop(lambda x: x[0] < 3, lambda x: (x[0], XS), (0, 1)), TypeError, ["carry[1]: taken i32[], returned f32[3]"]),
    (lambda: lax.fori_loop(0, 3.0, lambda i, v: v, 1.0), TypeError, ["bounds of one dtype", "upper: f32[]"]),
    (lambda: lax.fori_loop(np.int32(0), np.uint8(3), lambda i, v: v, 1.0), TypeError, ["bounds of one dtype"]),
    (lambda: jit(lambda n: lax.fori_loop(0, n, lambda i, v: v, 1.0, unroll=2))(3), ValueError, ["bounds are known now"]),
    (lambda: grad(lambda x: jit(lambda n: lax.fori_loop(0, n, lambda i, v: v * x, 1.0))(3))(2.0), NotImplementedError, ["reverse mode", "`scan`"]),
    (lambda: lax.map(lax.sin, 1.0), ValueError, ["leading axis"]),
    (lambda: lax.map(lax.sin, XS, batch_size=0), ValueError, ["batch_size of at least 1"]),
    (lambda: lax.associative_scan(lax.add, (XS, np.ones(4))), ValueError, ["elems[0]: f32[3]", "elems[1]: f32[4]"]),
    (lambda: lax.associative_scan(lambda a, b: (a, b), XS), TypeError, ["the structure that it takes"]),
]  # fmt: skip


@pytest.mark.parametrize(("call", "error", "fragments"), ERRORS)
def test_errors_say_what_where_and_what_to_do(call, error, fragments):
    check_message(call, error, *fragments)


def test_values_that_escape_a_body_are_refused():
    leaked = []
    lax.scan(lambda c, x: (leaked.append(x) or c, None), 0.0, XS)
    check_message(lambda: lax.sin(leaked[0]), pellucid.errors.UnexpectedTracerError, "had ended")


def test_what_no_step_changes_is_forwarded() -> None:
    x, rows = jnp.arange(3.0), jnp.ones((2, 3))

    def step(carry, row):
        scale, total = carry
        return (scale, total + scale * row), (row, total)

    (scale, _), (same_rows, _) = lax.scan(step, (x, x), rows)
    assert scale is x
    assert same_rows is rows
    assert lax.while_loop(lambda c: c[1] < 3, lambda c: (c[0], c[1] + 1), (x, 0))[0] is x
    host = lax.fori_loop(0, 2, lambda i, c: (c[0], c[1] + i), (np.ones(3, np.float32), 0))[0]
    assert isinstance(host, pellucid.Array)
    [loop] = make_jaxpr(lambda x, rows: lax.scan(step, (x, x), rows))(x, rows).eqns
    assert (loop.params["num_consts"], loop.params["num_carry"], len(loop.outvars)) == (1, 1, 2)


def test_reverse_mode_saves_nothing_per_step_of_what_no_step_changes() -> None:
    weights = np.ones((16, 16), np.float32)

    def loss(weights, x):
        step = lambda c, _: ((c[0], jnp.sin(c[0] @ c[1])), None)
        return lax.scan(step, (weights, x), length=100)[0][1].sum()

    forward, *_ = make_jaxpr(grad(loss))(weights, np.ones(16, np.float32)).eqns
    assert (100, 16, 16) not in [v.aval.shape for v in forward.outvars]

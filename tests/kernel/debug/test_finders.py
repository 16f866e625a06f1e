"""Two ways of running a function, and explanations of gradients, on functions with planted faults."""

from __future__ import annotations

import gc
import warnings

import numpy as np
import pytest
from compilation import usual_options

import pellucid as pl
import pellucid.numpy as jnp
from pellucid import events, lax
from pellucid._machine.compilation import interception, pipeline
from pellucid.errors import ArgumentValueError
from pellucid.experimental import checkify
from pellucid_kernel.debug import (
    debug,
    diverge,
    explain_grad,
    find,
    finders,
    first_difference,
    isnan,
    post_mortem,
    record,
    repeat,
    stopping_places,
)
from pellucid_kernel.debug.differences import first_difference_of
from pellucid_kernel.debug.failures import session_at
from pellucid_viz.render.html import record_of


class Compilations(events.Observer):
    """Counts compilations."""

    count = 0

    def compilation_finished(self, event: events.CompilationFinished, /) -> None:
        self.count += 1


def powers(x):
    y = x * 300.0
    z = y * y
    return jnp.log(z).sum()


def line_of(function, offset):
    return f"line {function.__code__.co_firstlineno + offset}:"


def test_an_overflow_of_float16_is_where_two_dtypes_differ_most() -> None:
    divergence = diverge(pl.jit(powers), a=np.float16, b=np.float32)(jnp.arange(1.0, 9.0))
    first = divergence.first
    assert first is not None
    assert (first.primitive, first.error, first.growth) == ("mul", np.inf, np.inf)
    assert line_of(powers, 2) in first.line
    text = str(divergence)
    assert "float16 and float32 first differ at `mul`, by inf" in text
    assert "2 operations have no counterpart" in text


def test_a_way_of_64_bits_computes_in_64_bits() -> None:
    [row, *_] = [
        row for row in diverge(jnp.sin, a=np.float32, b=np.float64)(jnp.ones(3)).rows if row.error
    ]
    assert 0 < row.error < 1e-7
    assert row.primitive == "sin"


def test_a_wrong_order_of_a_sum_is_found_between_two_functions() -> None:
    def total(x):
        y = jnp.sin(x)
        z = y * 2
        return jnp.sum(z) + 1

    def backwards(x):
        y = jnp.sin(x)
        z = y * 2
        return lax.fori_loop(0, x.size, lambda i, c: c + z[i], jnp.float32(0)) + 1

    x = jnp.linspace(0, 1, 1000)
    divergence = diverge(total, b=backwards)(x)
    assert divergence.largest is not None
    assert divergence.largest.primitive == "add"
    assert [row.error for row in divergence.rows if row.primitive in ("sin", "mul")] == [0.0, 0.0]
    assert "have no counterpart" in str(divergence)


def test_growth_is_in_multiples_of_the_operands_error() -> None:
    def cancelling(x):
        y = jnp.sqrt(x)
        return y - jnp.floor(y)

    divergence = diverge(cancelling, a=np.float32, b=np.float64)(jnp.array([1e6 + 1.0]))
    last = divergence.rows[-1]
    assert last.primitive == "sub"
    assert 1e3 < last.growth < 1e7
    assert divergence.largest == last


def overflowing(x):
    def body(c, i):
        print_it = lambda y: pl.debug.callback(lambda _: None, y)
        print_it(c)
        squared = pl.jit(lambda y: y * y)(c)
        return squared, squared.sum()

    return lax.scan(body, jnp.sin(x) * 3, jnp.arange(6))[1]


def test_runs_are_compared_and_opened_at_the_iteration_of_a_loop() -> None:
    divergence = diverge(overflowing, a=np.float16, b=np.float32)(np.ones(2, np.float32))
    # (sin(1) * 3)² is 6.4, and its fourth square 6.4 ** 8 = 2.7e6, more than float16 has.
    largest = divergence.largest
    assert (largest.primitive, largest.error, largest.iterations) == ("mul", np.inf, (3,))
    assert f"{line_of(overflowing, 4)[:-1]}, in iteration 3: `" in str(divergence)
    assert [row.primitive for row in divergence.rows if row.iterations == (3,)] == [
        "mul", "reduce_sum",
    ]  # fmt: skip
    _, session = divergence.opened()
    assert [*session.stack()[-2].run.split()][:2] == ["(iteration", "3"]
    assert session.equation.primitive.name == "mul"
    assert session.operands()[0].dtype == np.float16
    assert np.all(np.isinf(session.step().variables()["squared"]))


def test_loops_are_compared_within_loops_and_branches() -> None:
    def looped(x, shift=0.0):
        def inner(j, c):
            return c + jnp.where(j == 2, shift, 0.0)

        def outer(i, c):
            branch = lambda c: lax.fori_loop(0, 4, inner, c)
            return lax.cond(i == 1, branch, lambda c: c * 1.0, c)

        return lax.fori_loop(0, 3, outer, x)

    divergence = diverge(looped, b=lambda x: looped(x, x - 1.0))(2.0)
    assert (divergence.first.primitive, divergence.first.iterations) == ("select_n", (1, 2))
    _, session = divergence.opened()
    assert "in iteration 2 of iteration 1" in str(divergence)
    assert [frame.run for frame in session.stack() if frame.run] == [
        "(iteration 1 of 3)", "(iteration 2 of 4)",
    ]  # fmt: skip


def test_positions_of_a_mesh_are_compared_as_a_whole() -> None:
    mesh = pl.make_mesh((8,), ("x",), axis_types=(pl.sharding.AxisType.Auto,))
    mapped = pl.shard_map(lambda x: jnp.exp(x * 12.0), mesh=mesh, in_specs=pl.P("x"), out_specs=pl.P("x"))  # fmt: skip
    divergence = diverge(mapped, a=np.float16, b=np.float32)(np.ones(8, np.float32))
    assert divergence.largest.primitive == "shard_map"
    assert divergence.opened()[1].equation.primitive.name == "shard_map"


def test_compiled_eager_flagged_and_sharded_runs_are_compared() -> None:
    x = jnp.arange(16.0).reshape(8, 2)
    f = lambda x: (x * 3).sum(axis=1)
    sharding = pl.NamedSharding(pl.make_mesh((8,), ("x",)), pl.P("x"))
    for way in ("eager", {"xla_backend_optimization_level": 0}, sharding):
        divergence = diverge(pl.jit(f), b=way)(x)
        assert [row.primitive for row in divergence.rows] == ["mul", "reduce_sum"]
        assert divergence.first is None
        assert "are equal to the bit" in str(divergence)
    with pytest.raises(TypeError, match="no such way of running"):
        diverge(f, b="quickly")(x)


def test_results_that_are_equal_cost_a_comparison_no_compilation_each() -> None:
    """As those of a training step with many parameters."""
    compilations = Compilations()
    f = pl.jit(lambda x: [x * (2.0**n) for n in range(12)])
    with pl.observe(compilations):
        divergence = diverge(f)(np.ones(3, np.float32))
    assert divergence.first is None
    # The multiplication, all values, and all results.
    assert compilations.count <= 3


def test_what_exact_arithmetic_cures_is_said(monkeypatch) -> None:
    monkeypatch.setattr(pipeline, "compile_options", usual_options)
    x = np.linspace(0.1, 3, 64, dtype=np.float32)

    def straight(x):
        y = x * 0.3
        return y - x / 7

    divergence = diverge(straight)(x)
    assert divergence.first is not None
    assert divergence.first.primitive == "sub"
    assert line_of(straight, 2) in divergence.first.line
    assert divergence.exact is not None
    assert divergence.exact.first is None
    assert "under `pl.exact_arithmetic()` they are equal to the bit" in str(divergence)
    difference = first_difference_of(pl.make_jaxpr(straight)(x), [x])
    assert difference is not None
    assert difference.primitive == "sub"
    assert difference.is_exact_equal
    assert str(difference).endswith("under `pl.exact_arithmetic()` none does")
    opened = first_difference(straight)(x)
    assert str(opened) == str(difference)
    drawn = opened.record()
    assert (drawn.function, drawn.primitive, drawn.runs) == (
        "straight",
        "sub",
        "alone and compiled",
    )
    assert drawn.values[-1].values.high == difference.ulps
    data, metadata = opened._repr_mimebundle_()
    assert data["text/plain"] == str(opened)
    name, session = stopping_places.thing_of(metadata["pellucid"]["failure"]).opened()
    assert (name, session.stack()[-1].line) == ("straight", drawn.way.line[-1])
    equal = first_difference(lambda x: x * 2.0)(x)
    assert equal.are_equal
    assert equal._repr_mimebundle_() == ({"text/plain": str(equal)}, {})


def test_prints_don_t_happen_and_calls_for_values_are_refused(capfd) -> None:
    def printing(x):
        pl.debug.print("printed {}", x)
        return x + 1

    assert diverge(printing)(1.0).first is None
    pl.effects_barrier()
    assert capfd.readouterr().out == ""
    looped = lambda x: lax.scan(lambda c, _: (printing(c), None), x, None, length=2)[0]
    for tool in (diverge, explain_grad, lambda f: find(f, isnan)):
        tool(looped)(1.0)
    pl.effects_barrier()
    assert capfd.readouterr().out == ""
    calling = lambda x: pl.experimental.io_callback(np.sin, pl.ShapeDtypeStruct((), np.float32), x)
    with pytest.raises(ValueError, match="effects that give values"):
        diverge(calling)(1.0)


# Gradients --------------------------------------------------------------------------------------------------


def rooted(x):
    y = jnp.maximum(x, 0.0)
    z = jnp.sqrt(y)
    return (z * z).sum()


@pytest.mark.parametrize("transform", [lambda f: f, pl.jit])
def test_a_nan_begins_at_the_square_root_of_zero(transform) -> None:
    explanation = explain_grad(transform(rooted))(jnp.array([-1.0, 4.0]))
    [gradient] = explanation.gradients
    assert (gradient.name, gradient.fault) == ("x", "NaN")
    assert gradient.path[0].primitive.name == "div"
    text = str(explanation)
    assert "NaN in the gradient of x begins at `div`" in text
    assert f"{line_of(rooted, 2)} `z = jnp.sqrt(y)`" in text
    assert [c.fault for c in explanation.cotangents] == ["", "NaN", "NaN"]


def network(params, x):
    h = pl.nn.relu(x @ params["w"] - params["shift"])
    out = h @ params["v"]
    return (out - 1.0).sum()


def chosen_root(x, y):
    z = jnp.where(x > 0, jnp.sqrt(x), 0.0)
    return (z * y).sum() + jnp.sqrt(y[0])


def test_a_nan_of_what_was_not_selected_is_said_to_be_one() -> None:
    x, y = jnp.array([0.0, 4.0]), jnp.array([0.0, 1.0])
    explanation = explain_grad(chosen_root, (0, 1))(x, y)
    assert explanation.cured == [True, False]  # the other root is selected, and infinite
    text = str(explanation)
    assert "this NaN in the gradient of x comes of what wasn't selected" in text
    [row] = [row for row in text.splitlines() if "wasn't selected" in row]
    assert line_of(chosen_root, 1) in row
    assert explanation.record().within == row
    found = find(pl.grad(chosen_root), isnan)(x, y)
    assert found.is_cured
    assert "under `pl.masked_gradients()` it is finite" in str(found)
    with pl.masked_gradients():
        assert explain_grad(chosen_root)(x, y).faults == []


def selected_root(x):
    return jnp.where(x > 0, jnp.sqrt(x), 0).sum()


def test_a_cure_is_proven_for_narrow_numbers_and_under_debug_nans() -> None:
    x = jnp.array([0.0, 4.0], jnp.bfloat16)
    assert explain_grad(selected_root)(x).cured == [True]
    with pl.debug_nans(True):
        assert find(pl.grad(selected_root), isnan)(x).is_cured


def test_a_cure_is_said_where_the_forward_pass_is_nan_too() -> None:
    x = jnp.array([-1.0, 4.0])
    found = find(pl.grad(selected_root), isnan)(x)
    assert not found.is_backward
    assert found.is_cured
    assert explain_grad(selected_root)(x).cured == [True]
    assert not find(selected_root, isnan)(x).is_cured
    assert not find(pl.grad(rooted), isnan)(x).is_cured


@pytest.mark.parametrize("tool", [explain_grad, diverge, record, repeat])
def test_tools_look_at_nan_under_debug_nans(tool) -> None:
    with pl.debug_nans(True):
        assert str(tool(lambda x: jnp.log(x - 1).sum())(jnp.array([0.0, 4.0])))


def test_side_effects_are_not_repeated_to_prove_a_cure() -> None:
    seen = []

    def noted(x):
        pl.debug.callback(seen.append, x)
        return selected_root(x)

    def n_seen(condition):
        seen.clear()
        assert not find(pl.grad(noted), condition)(jnp.array([0.0, 4.0])).is_cured
        pl.effects_barrier()
        return len(seen)

    assert n_seen(isnan) == n_seen(lambda x: jnp.isnan(x))  # of which no cure is asked


def test_a_nan_that_was_selected_is_not_said_to_be_cured() -> None:
    explanation = explain_grad(rooted)(jnp.array([0.0, 4.0]))
    assert explanation.cured == [False]
    assert "masked_gradients" not in str(explanation)
    assert not find(pl.grad(rooted), isnan)(jnp.array([0.0, 4.0])).is_cured


def test_a_dead_relu_is_where_a_gradient_becomes_zero() -> None:
    params = {"w": jnp.ones((3, 2)), "v": jnp.ones(2), "shift": jnp.float32(100)}
    explanation = explain_grad(network)(params, jnp.ones((4, 3)))
    faults = {each.name: each.path[0].primitive.name for each in explanation.faults}
    assert faults["params['w']"] == "select_n"
    assert faults["params['v']"] == "dot_general"
    assert set(faults) == {"params['w']", "params['v']", "params['shift']"}
    alive = explain_grad(network)(params | {"shift": jnp.float32(0)}, jnp.ones((4, 3)))
    assert not alive.faults
    [norm] = [each.norm for each in alive.gradients if each.name.endswith("['v']")]
    np.testing.assert_allclose(norm, np.sqrt(2) * 12)


def test_an_argument_that_is_not_used_has_no_path() -> None:
    explanation = explain_grad(lambda x, y: x * 2, argnums=(0, 1))(1.0, 2.0)
    [unused] = explanation.faults
    assert (unused.name, unused.path) == ("y", [])
    assert "doesn't depend on it" in str(explanation)


def test_a_fault_within_a_loop_is_found_with_its_iteration() -> None:
    def looped(x):
        return lax.scan(lambda c, y: (jnp.sqrt(c) * y, None), x, jnp.array([1.0, 0.0, 2.0]))[0]

    explanation = explain_grad(looped)(1.0)
    assert explanation.gradients[0].fault == "NaN"
    assert explanation.finding is not None
    assert explanation.finding.iterations == [1]  # in 0, it is infinite
    assert "within it: `mul` of the backward pass" in str(explanation)
    # The figure has lines, iterations and operands of the path already.
    [elements] = explanation.record().within.splitlines()
    assert elements.startswith("in the loop or branch, `mul` of the backward pass: 1 of 1 elements")


def test_a_fault_within_a_loop_is_followed_and_opened_where_it_begins() -> None:
    def looped(w):
        # Its other branch is NaN, which doesn't reach the gradient.
        selected = jnp.where(w > 0, 1.0, jnp.sqrt(w - 10))

        def body(c, i):
            root = jnp.sqrt(c - 2.0)
            return root * w + i - 0.9, root

        c, roots = lax.scan(body, w * selected, jnp.arange(4.0))
        return roots.sum() + c

    with pl.masked_gradients():
        explanation = explain_grad(looped)(2.9)
    [gradient] = explanation.faults
    assert (gradient.fault, gradient.path[0].primitive.name) == ("NaN", "sqrt")
    assert gradient.iterations == (1,)
    assert f"{line_of(looped, 5)[:-1]}, in iteration 1: `root" in str(explanation)
    assert explanation.finding.iterations == [1]
    for session in (explanation.opened()[1], explanation.finding.opened()[1]):
        # The first root is sqrt(0.9), so that the next carry is sqrt(0.9) * 2.9 - 0.9.
        assert session.equation.primitive.name == "sqrt"
        np.testing.assert_allclose(session.variables()["c"], 0.9**0.5 * 2.9 - 0.9, 1e-5)


def test_a_layer_of_a_loop_that_is_dead_is_where_a_gradient_becomes_zero() -> None:
    def network(weights, x):
        def layer(h, w):
            return jnp.maximum(h @ w, 0.0), None

        return lax.scan(layer, x, weights)[0].sum()

    weights = jnp.ones((4, 3, 3)).at[2].set(-1.0)
    explanation = explain_grad(network, (0, 1))(weights, jnp.ones((2, 3)))
    faults = {gradient.name: gradient for gradient in explanation.faults}
    # The backward pass runs the layers from the last on, so that its iteration 1 is of layer 2.
    assert (faults["x"].path[0].primitive.name, faults["x"].iterations) == ("mul", (1,))
    assert faults["weights"].iterations == (0,)
    assert explanation.finding is None
    _, metadata = explanation._repr_mimebundle_()
    _, session = session_at(metadata["pellucid"]["failure"])
    assert session.levels[-1].turn[1] == 0


# After errors -------------------------------------------------------------------------------------------------


def failing(fails, x):
    y = x + 1

    def body(c, v):
        d = c * v
        e = pl.pure_callback(fails, pl.ShapeDtypeStruct((), np.float32), d)
        return e, e

    return lax.scan(body, y, jnp.arange(1.0, 4.0))[0]


def test_a_call_of_python_that_failed_is_opened_at_its_operands() -> None:
    def fails(d):
        if d > 3:
            raise KeyError("too large")
        return d

    with pytest.raises(ValueError, match="too large") as error:
        pl.jit(failing, static_argnums=0)(fails, 1.0)
    session = post_mortem(error.value)
    assert session.equation.primitive.name == "pure_callback"
    np.testing.assert_array_equal(session.operands(), [4.0])
    assert session.stack()[-1].run == "(iteration 1 of 3)"
    assert session.variables()["d"] == 4.0
    assert "the next operation fails: " in str(session)
    assert session.back().variables()["c"] == 2.0


def test_a_trapped_nan_is_opened_at_its_operation(monkeypatch) -> None:
    with pl.debug_nans(True), pytest.raises(FloatingPointError) as error:
        pl.jit(pl.grad(rooted))(jnp.array([-1.0, 4.0]))
    monkeypatch.setattr("sys.last_value", error.value, raising=False)
    session = post_mortem()
    assert session.equation.primitive.name == "div"
    np.testing.assert_array_equal(session.operands()[1], [0.0, 2.0])


def checked(x):
    def body(c, y):
        checkify.check(y < 9, "{} isn't below 9", y)
        c = c - y
        checkify.check(c > 0, "{} isn't positive", c)
        return c, c * 2

    out, rows = pl.lax.scan(body, x, jnp.arange(5.0))
    return jnp.sqrt(out) / rows[0]


def unchecked(x):
    out, rows = pl.lax.scan(lambda c, y: (c - y, c), x, jnp.arange(5.0))
    return jnp.sqrt(out) / rows[0]


@pytest.mark.parametrize(
    ("function", "errors", "x", "primitive", "iteration"),
    [
        (checked, checkify.user_checks, 4.0, "check", "(iteration 3 of 5)"),
        (checked, checkify.float_checks, 4.0, "check", "(iteration 3 of 5)"),
        (unchecked, checkify.float_checks, 4.0, "sqrt", ""),
        (unchecked, checkify.div_checks, 0.0, "div", ""),
    ],
)
@pytest.mark.parametrize("transform", [lambda f: f, pl.jit])
def test_a_check_that_failed_is_opened_at_its_values(
    function, errors, x, primitive, iteration, transform
) -> None:
    x = jnp.float32(x)
    error, _ = checkify.checkify(transform(function), errors=errors)(x)
    with pytest.raises(ValueError, match="line") as raised:
        error.throw()
    session = post_mortem(raised.value)
    assert session.equation.primitive.name == primitive
    assert session.stack()[-1].run == iteration
    if primitive == "check":
        assert float(session.variables()["c"]) == -2.0
        with pytest.raises(ValueError, match=r"-2\.0 isn't positive"):
            session.next()


@pytest.fixture
def kept_calls(monkeypatch) -> None:
    monkeypatch.setattr(interception, "keeps_calls", True)


def opened_error(function, *args):
    """A session at the error of a later call of a function, which would go through C++ if calls weren't kept."""
    function(*args)
    error, _ = function(*args)
    with pytest.raises(ValueError, match="line") as raised:
        error.throw()
    return post_mortem(raised.value)


@pytest.mark.parametrize(
    ("function", "errors", "x", "offset", "iteration"),
    [
        (checked, checkify.user_checks, 4.0, 4, "(iteration 3 of 5)"),
        (checked, checkify.all_checks, 4.0, 4, "(iteration 3 of 5)"),
        (unchecked, checkify.float_checks, 4.0, 2, ""),
        (unchecked, checkify.div_checks, 0.0, 2, ""),
    ],
)
def test_an_error_that_left_a_compiled_program_is_opened_at_its_values(
    function, errors, x, offset, iteration, kept_calls
) -> None:
    x = jnp.float32(x)
    session = opened_error(pl.jit(checkify.checkify(function, errors=errors)), x)
    frame = session.stack()[-1]
    assert (frame.line, frame.run) == (function.__code__.co_firstlineno + offset, iteration)
    if function is checked:
        assert float(session.variables()["c"]) == -2.0
    else:
        assert session.equation.primitive.name == ("sqrt" if x else "div")


def test_an_error_is_opened_within_a_batch_and_a_call(kept_calls) -> None:
    inner = checkify.checkify(pl.jit(unchecked), errors=checkify.nan_checks)
    batched = pl.jit(lambda scale, xs: pl.vmap(inner)(xs * scale))
    session = opened_error(batched, jnp.float32(2.0), jnp.array([20.0, 2.0]))
    assert session.equation.primitive.name == "sqrt"
    np.testing.assert_array_equal(session.operands()[0], [30.0, -6.0])


def test_calls_are_kept_from_an_error_on_that_could_not_be_opened(kept_calls, monkeypatch) -> None:
    monkeypatch.setattr(interception, "keeps_calls", False)
    function = pl.jit(checkify.checkify(unchecked, errors=checkify.nan_checks))
    x = jnp.float32(4.0)
    with pytest.raises(ValueError, match="wasn't kept"):
        opened_error(function, x)
    assert opened_error(function, x).equation.primitive.name == "sqrt"
    assert function(x)[0].call.operands == [x]


def test_checks_that_hold_are_stepped_over() -> None:
    x = jnp.float32(40.0)
    assert debug(checked)(x).finish() == checkify.checkify(checked)(x)[1]
    session = debug(lambda x: checked(x) + 1)(x)
    session.break_at(checked.__code__.co_firstlineno + 4)
    assert session.run().jump(3).next().stack()[-1].run == "(iteration 3 of 5)"


def test_arguments_that_are_gone_are_said() -> None:
    error, _ = checkify.checkify(checked)(jnp.float32(3.0) + 1)
    with pytest.raises(ValueError, match="positive") as raised:
        error.throw()
    with pytest.raises(ValueError, match="arguments of `checked` are gone"):
        post_mortem(raised.value)


def test_other_errors_and_donated_operands_are_refused() -> None:
    with pytest.raises(ValueError, match="no call of a jitted function"):
        post_mortem(ValueError())
    donating = pl.jit(lambda x: jnp.log(x), donate_argnums=0)
    with pl.debug_nans(True), pytest.raises(FloatingPointError) as error:
        donating(jnp.array([-1.0]))
    with pytest.raises(ValueError, match="were donated"):
        post_mortem(error.value)


def test_comparisons_and_explanations_are_figures() -> None:
    divergence = diverge(
        lambda x: jnp.exp(x * 12.0), a=np.float16, b=np.float32
    )(np.ones(2, np.float32))  # fmt: skip
    bundle, metadata = divergence._repr_mimebundle_()
    name, session = session_at(metadata["pellucid"]["failure"])
    assert "application/vnd.pellucid.divergence.v1+json" in bundle
    record = record_of(bundle["text/html"])
    assert record["equations"]["error"][-1] is None
    [source] = record["places"]["sources"]
    line = test_comparisons_and_explanations_are_figures.__code__.co_firstlineno + 2
    assert (source["path"], record["places"]["line"][-1]) == (__file__, line)
    assert (name, session.stack()[-1].line) == ("float16 and float32", line)
    assert bundle["text/plain"] == str(divergence)
    explanation = explain_grad(lambda x: jnp.sqrt(x * 0.0), 0)(1.0)
    bundle, metadata = explanation._repr_mimebundle_()
    record = record_of(bundle["text/html"])
    _, session = session_at(metadata["pellucid"]["failure"])
    assert (session.equation.primitive.name, map_text(session)) == ("mul", "inf")
    assert explain_grad(jnp.sin)(1.0)._repr_mimebundle_()[1] == {}
    assert record["gradients"]["fault"] == ["NaN"]
    assert (record["gradients"]["norm"], record["cotangents"]["norm"][-1]) == ([None], None)
    assert len(record["places"]["line"]) == len(record["cotangents"]["line"])
    assert record["gradients"]["path"][0][-1].startswith("`mul`")
    assert record["operands"][0]


def map_text(session) -> str:
    """The largest operand of the operation that a session stands before."""
    return str(max(float(jnp.max(x)) for x in session.operands()))


def test_a_finding_is_a_figure_that_opens_its_place() -> None:
    def body(x, w):
        y = x * w
        return jnp.log(y), y

    def f(x):
        return pl.lax.scan(body, x, jnp.array([1.0, 1.0, -1.0, 1.0]))[0].sum()

    finding = find(pl.jit(f), isnan)(jnp.full((2, 3), 20.0))
    bundle, metadata = finding._repr_mimebundle_()
    record = record_of(bundle["text/html"])
    assert (record["function"], record["primitive"], record["iterations"]) == ("f", "log", [2])
    assert (record["n_elements"], record["size"], record["index"]) == (6, 6, [0, 0])
    first = test_a_finding_is_a_figure_that_opens_its_place.__code__.co_firstlineno
    assert record["way"]["line"] == [first + 8, first + 6, first + 3]
    assert record["functions"][2].startswith(
        "test_a_finding_is_a_figure_that_opens_its_place.<locals>.body"
    )
    assert [each["type"] for each in record["operands"]] == ["f32[2,3]"]
    assert record["operands"][0]["high"] < 0
    assert record["result"]["nan_count"] == 6
    # What is opened is another session: the finding's own stays where it is.
    finding.session.finish()
    name, session = session_at(metadata["pellucid"]["failure"])
    assert (name, session.equation.primitive.name) == ("f", "log")
    assert float(session.names()["y"][0, 0]) < 0
    del finding
    gc.collect()
    with pytest.raises(ArgumentValueError, match="can't be opened any more"):
        session_at(metadata["pellucid"]["failure"])


@pytest.mark.parametrize(
    ("make", "do"),
    [
        (lambda: find(3.0, isnan), "pl.debugger.find(f)(x)"),
        (lambda: find(jnp.sin, 3.0), "pl.debugger.find(f, pl.debugger.isnan)(x)"),
        (lambda: diverge(jnp.ones(3)), "pl.debugger.diverge(f)(x)"),
        (lambda: diverge(jnp.sin, (1.0,)), "diverge(f, b=g)(x)"),
        (lambda: explain_grad(None), "pl.debugger.explain_grad(f)(x)"),
        (lambda: pl.debugger.repeat(1), "pl.debugger.repeat(f)(x)"),
        (lambda: pl.debugger.debug("f"), "pl.debugger.debug(f)(x)"),
        (lambda: pl.debugger.record(jnp.ones(2)), "pl.debugger.record(f)(x)"),
        (lambda: pl.debugger.prompt(2), "pl.debugger.prompt(f)(x)"),
    ],
)
def test_a_wrong_argument_is_answered_by_what_to_write(make, do) -> None:
    with pytest.raises(TypeError) as error:
        make()
    assert do in str(error.value)


# What is found ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("uses", [lambda k, v: v.sum() + k.sum(), lambda k, v: v.sum()])
def test_of_several_results_the_one_that_meets_the_condition_is_drawn(uses) -> None:
    keys, values = jnp.array([2, 1, 3]), jnp.array([4.0, 5.0, np.nan])
    finding = find(lambda k, v: uses(*lax.sort((k, v), num_keys=1)), isnan)(keys, values)
    assert (finding.primitive, finding.number) == ("sort", 1)
    np.testing.assert_array_equal(finding.result, [5.0, 4.0, np.nan])
    np.testing.assert_array_equal(finding.elements, [[2]])
    assert "`sort`: 1 of 3 elements of result 1, first at index (2,)" in str(finding)
    drawn = finding.record()
    assert (drawn.result.shape, drawn.result.nan_count, drawn.index) == ([3], 1, [2])


def test_a_result_that_only_the_compiled_call_has_is_warned_of(monkeypatch) -> None:
    """As where XLA contracts `a * b - q` on some CPUs; here the call compiled as a whole gives something else."""
    results = [np.zeros(2, np.float32), jnp.float32([1, np.nan])]
    monkeypatch.setattr(finders, "compiled_results", lambda *_: results)
    with pytest.warns(RuntimeWarning, match="result 1 of the compiled call meets the condition"):
        assert find(lambda x: x + 1, isnan)(1.0) is None


def test_what_a_contraction_makes_is_found_or_warned_of() -> None:
    a, b = np.random.default_rng(0).random((2, 64), np.float32)
    root = lambda a, b, q: jnp.sqrt(a * b - q)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        found = find(root, isnan)(a, b, a * b)
    is_nan = bool(jnp.isnan(pl.jit(root)(a, b, a * b)).any())
    assert is_nan == (found is not None or bool(told))

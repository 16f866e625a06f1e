"""NumPy functions under a trace write again what they wrote for the same types."""

from __future__ import annotations

import numpy as np
import pytest

import pellucid as pl
import pellucid.numpy as jnp
from pellucid._machine.base.events import Observer, observe
from pellucid._machine.base.source import user_frame
from pellucid._machine.primitives import arithmetic
from pellucid._machine.primitives.families import Elementwise
from pellucid.numpy.compiled import numpy_function
from pellucid.numpy.recall import remembering

X = jnp.arange(6.0).reshape(2, 3)


def counted():
    calls = []

    def function(x, y, factor=1.0, *, axis=0):
        calls.append(axis)
        return arithmetic.add(arithmetic.mul(x, y), np.float32(factor))

    return remembering(function, (), ("axis",)), calls


def names(program):
    return [e.primitive.name for e in program.jaxpr.equations]


def test_a_call_of_a_known_kind_runs_no_python():
    function, calls = counted()
    program = pl.make_jaxpr(lambda a, b: function(function(function(a, b), b), b))(X, X)
    assert len(calls) == 2  # once because it is new, once to remember it
    assert names(program) == ["mul", "add"] * 3
    assert np.array_equal(pl.jit(lambda a, b: function(a, b))(X, X), X * X + 1)


@pytest.mark.parametrize(
    "again",
    [
        lambda f, x: f(x, x, 2.0), lambda f, x: f(x, x, axis=1), lambda f, x: f(x[0], x[0]),
        lambda f, x: f(x, 3.0), lambda f, x: f(x, x, 0.0), lambda f, x: f(x, x, -0.0),
    ],
    ids=["number", "static", "shape", "scalar", "zero", "negative zero"],
)  # fmt: skip
def test_other_kinds_run_it(again):
    function, calls = counted()
    pl.make_jaxpr(lambda a: (function(a, a), function(a, a), again(function, a)))(X)
    assert len(calls) == 3


def test_options_that_tracing_depends_on_are_part_of_the_kind():
    function, calls = counted()
    pl.make_jaxpr(lambda a: (function(a, a), function(a, a)))(X)
    with pl.enable_x64(True):
        pl.make_jaxpr(lambda a: function(a, a))(X)
    assert len(calls) == 3


def test_the_same_value_twice_and_two_values_are_one_kind():
    function, calls = counted()
    program = pl.make_jaxpr(lambda a, b: (function(a, b), function(a, a), function(a, b)))(X, X)
    products = program.jaxpr.equations[::2]
    a, b = program.jaxpr.invars
    assert [list(e.operands) for e in products] == [[a, b], [a, a], [a, b]]
    assert len(calls) == 2


def test_each_equation_has_the_line_of_its_call():
    def user(a):
        b = jnp.tanh(a) * 2.0
        c = jnp.tanh(b) * 2.0
        return jnp.tanh(c) * 2.0

    equations = pl.make_jaxpr(user)(X).jaxpr.equations
    first = user.__code__.co_firstlineno
    assert [user_frame(e.source).line - first for e in equations] == [1, 1, 2, 2, 3, 3]


def test_values_of_other_traces_and_transformations():
    function, calls = counted()
    f = lambda a: jnp.sum(function(a, jnp.sin(a)))
    expected = pl.grad(lambda a: jnp.sum(a * jnp.sin(a) + 1))(X)
    np.testing.assert_allclose(pl.grad(f)(X), expected, rtol=1e-6)
    np.testing.assert_allclose(pl.jit(pl.grad(f))(X), expected, rtol=1e-6)
    np.testing.assert_allclose(pl.vmap(pl.grad(f))(X), expected, rtol=1e-6)
    np.testing.assert_allclose(pl.jit(pl.vmap(pl.grad(f)))(X), expected, rtol=1e-6)
    assert len(calls) <= 4


def test_derivative_rules_run_once_for_each_kind_of_call(monkeypatch):
    calls, rule = [], Elementwise.jvp

    def jvp(self, *args):
        calls.append(self.name)
        return rule(self, *args)

    def function(x):
        for _ in range(10):
            x = jnp.tanh(x)
        return jnp.sum(x)

    expected = pl.grad(function)(X)
    monkeypatch.setattr(Elementwise, "jvp", jvp)
    with pl.enable_x64(True):  # no kind of call is known yet
        program = pl.make_jaxpr(pl.grad(function))(X)
    assert calls.count("tanh") <= 2
    np.testing.assert_allclose(pl.jit(pl.grad(function))(X), expected, rtol=1e-6)
    origins = {o for e in program.jaxpr.equations if e.lineage for o in e.lineage.origins}
    tanhs = {e for e in program.jaxpr.equations if e.primitive.name == "tanh"}
    assert len(tanhs) == 10
    assert tanhs < origins


@numpy_function
def same(x):
    return x


@numpy_function
def twice(x):
    y = arithmetic.mul(x, x)
    return [y, y]


@numpy_function
def whole(x):
    y = arithmetic.mul(x, np.float32(2))
    return [y, jnp.round(y)]


@pytest.mark.parametrize("transformed", [lambda f: f, pl.jit, pl.checkpoint])
def test_derivatives_of_results_that_are_operands_or_each_other_or_zero(transformed):
    def function(x):
        for _ in range(6):
            a, b = twice(same(x))
            c, d = whole(x)
            x = jnp.sin(a + 3 * b) * 0.5 + jnp.cos(c) + d + x * 0.25 + x
        return jnp.sum(x)

    def reference(x):
        for _ in range(6):
            y = 2 * x
            x = jnp.sin(4 * x * x) * 0.5 + jnp.cos(y) + jnp.round(y) + x * 0.25 + x
        return jnp.sum(x)

    np.testing.assert_allclose(
        transformed(pl.grad(function))(X), pl.grad(reference)(X), rtol=2e-4, atol=1e-4
    )


def test_an_error_is_about_the_values_of_the_call_each_time():
    def user(a):
        return jnp.add(a, jnp.ones(5))

    messages = []
    for _ in range(3):
        with pytest.raises(TypeError) as caught:
            pl.make_jaxpr(user)(X)
        messages.append(str(caught.value))
    assert len(set(messages)) == 1
    assert "f32[2,3]" in messages[0]


def test_static_arguments_that_are_traced_run_it():
    @numpy_function(static="n")
    def repeated(x, n):
        return x if isinstance(n, int) else arithmetic.mul(x, n)

    program = pl.make_jaxpr(lambda a, n: repeated.python(a, n))(X, 2.0)
    assert names(program) == ["mul"]


def test_listeners_see_each_equation_once_and_change_nothing():
    function, calls = counted()
    seen = []

    class Listener(Observer):
        def equation_staged(self, event):
            seen.append(event.equation)

    with observe(Listener()):
        program = pl.make_jaxpr(lambda a: (function(a, a), function(a, a), function(a, a)))(X)
    assert [e.id for e in seen] == [e.id for e in program.jaxpr.equations]
    assert len(calls) == 2


def test_clear_caches_forgets():
    function, calls = counted()
    pl.make_jaxpr(lambda a: (function(a, a), function(a, a)))(X)
    pl.clear_caches()
    pl.make_jaxpr(lambda a: function(a, a))(X)
    assert len(calls) == 3

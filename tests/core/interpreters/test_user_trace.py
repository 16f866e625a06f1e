"""Classes of the core that libraries derive from: primitives with rules as methods, traces that pass functions on."""

import numpy as np
import pytest

import pellucid as pl
import pellucid.numpy as jnp
from pellucid._machine.base.errors import MissingRule, UnsupportedError
from pellucid._machine.higher_order.custom_jvp import custom_jvp_call_p
from pellucid._machine.higher_order.custom_vjp import custom_vjp_call_p
from pellucid._machine.tracing import Tracer
from pellucid.custom_derivatives import SymbolicZero
from pellucid.extend.core import Primitive, set_current_trace, take_current_trace
from pellucid.extend.linear_util import wrap_init
from pellucid.interpreters.user_trace import Trace


class Scaled(Primitive):
    """A primitive whose rules are methods."""

    def impl(self, x, *, factor):
        return x * factor

    def abstract_eval(self, x, *, factor):
        return pl.core.ShapedArray(x.shape, x.dtype), pl.core.no_effects


def test_a_derived_primitive_has_its_rules_as_methods():
    scaled_p = Scaled("scaled")
    x = np.ones(2, np.float32)
    np.testing.assert_array_equal(scaled_p.bind(x, factor=3), [3, 3])
    program = str(pl.make_jaxpr(lambda x: scaled_p.bind(x, factor=3))(x))
    assert "b:f32[2] = scaled[factor=3] a" in program
    scaled_p.def_impl(lambda x, *, factor: -x)
    np.testing.assert_array_equal(scaled_p.bind(x, factor=3), [-1, -1])


def test_a_primitive_without_rules_still_says_so():
    with pytest.raises(MissingRule, match="no implementation"):
        Primitive("bare").bind(1.0)
    with pytest.raises(MissingRule, match="no abstract_eval rule"):
        pl.make_jaxpr(Primitive("bare").bind)(1.0)


class Recorded(Tracer):
    """A value of a `Recording`."""

    def __init__(self, trace, value):
        super().__init__(trace, pl.typeof(value))
        self.value = value


class Recording(Trace):
    """Notes what runs, and passes it on."""

    def __init__(self, parent):
        super().__init__()
        self.parent, self.seen = parent, []

    def _wrapped(self, results):
        return [Recorded(self, result) for result in results]

    def _passed_on(self, primitive, tracers, **params):
        self.seen.append(primitive)
        tracers = map(self.full_raise, tracers)
        values = [t.value if isinstance(t, Recorded) else t for t in tracers]
        return self._wrapped(primitive.bind_with_trace(self.parent, values, None, params))

    def process_primitive(self, primitive, tracers, params):
        values = [t.value if isinstance(t, Recorded) else t for t in tracers]
        result = primitive.bind_with_trace(self.parent, values, None, params)
        return self._wrapped(result) if primitive.multiple_results else Recorded(self, result)

    def process_custom_jvp_call(self, primitive, fun, jvp, tracers, *, symbolic_zeros):
        return self._passed_on(
            primitive, tracers, subfuns=(fun, jvp), symbolic_zeros=symbolic_zeros
        )

    def process_custom_vjp_call(
        self, primitive, fun, fwd, bwd, tracers, /, *, out_trees, symbolic_zeros
    ):  # as the reference calls it
        return self._passed_on(
            primitive, tracers, subfuns=(fun, fwd, bwd), symbolic_zeros=symbolic_zeros
        )


def recorded(function, x):
    """`function(x)` within a Recording, and what it noted."""
    with take_current_trace() as parent:
        trace = Recording(parent)
        with set_current_trace(trace):
            result = function(Recorded(trace, x))
        return result.value, trace.seen


@pl.custom_jvp
def with_jvp(x):
    return jnp.sin(x)


with_jvp.defjvp(lambda primals, tangents: (with_jvp(*primals), 10.0 * tangents[0]))


@pl.custom_vjp
def with_vjp(x):
    return jnp.sin(x)


with_vjp.defvjp(lambda x: (with_vjp(x), x), lambda x, cotangent: (7.0 * cotangent,))


@pytest.mark.parametrize(
    ("function", "primitive", "slope"),
    [(with_jvp, custom_jvp_call_p, 10.0), (with_vjp, custom_vjp_call_p, 7.0)],
)
def test_a_trace_passes_functions_with_rules_on(function, primitive, slope):
    value, seen = recorded(function, 1.0)
    assert seen == [primitive]
    assert float(value) == pytest.approx(np.sin(1.0), rel=1e-6)
    assert float(pl.grad(lambda x: recorded(function, x)[0])(1.0)) == slope
    mapped = pl.vmap(pl.grad(lambda x: recorded(function, x)[0]))(np.ones(2, np.float32))
    np.testing.assert_array_equal(mapped, [slope, slope])
    assert float(pl.jit(pl.grad(lambda x: recorded(function, x)[0]))(1.0)) == slope


def test_functions_and_rules_are_bound():
    fun = wrap_init(lambda x: [jnp.sin(x)])
    jvp = wrap_init(lambda x, t: [jnp.sin(x), 5.0 * t])

    def bound(x):
        return custom_jvp_call_p.bind(x, subfuns=(fun, jvp), symbolic_zeros=False)[0]

    assert float(bound(1.0)) == pytest.approx(np.sin(1.0), rel=1e-6)
    assert float(pl.grad(bound)(1.0)) == 5
    assert float(pl.grad(pl.jit(bound))(1.0)) == 5
    with pytest.raises(UnsupportedError, match="other rules"):
        custom_vjp_call_p.bind(1.0, subfuns=(fun, jvp, jvp), symbolic_zeros=False)


def test_a_rule_in_a_trace_has_and_gives_symbolic_zeros():
    kinds, given = [], []

    @pl.custom_jvp
    def function(x, y):
        return jnp.sin(x), jnp.ones(())

    def rule(primals, tangents):
        kinds.append([type(t) for t in tangents])
        result = function(*primals)
        return result, (3.0 * tangents[0], SymbolicZero(pl.typeof(result[1])))

    function.defjvp(rule, symbolic_zeros=True)

    class Giving(Recording):
        def process_custom_jvp_call(self, primitive, fun, jvp, tracers, *, symbolic_zeros):
            def noted(*values):
                results = jvp.call_wrapped(*values)
                given.append([type(t) for t in results[2:]])
                return results

            return super().process_custom_jvp_call(
                primitive, fun, wrap_init(noted), tracers, symbolic_zeros=symbolic_zeros
            )

    def within(x):
        with take_current_trace() as parent:
            trace = Giving(parent)
            with set_current_trace(trace):
                first, second = function(Recorded(trace, x), 1.0)
        return first.value, second.value

    results, tangents = pl.jvp(within, (1.0,), (1.0,))
    assert [float(r) for r in (*results, *tangents)] == pytest.approx([np.sin(1.0), 1, 3, 0])
    assert kinds[-1][1] is SymbolicZero
    assert given[-1][1] is SymbolicZero

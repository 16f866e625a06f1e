"""Staging: what becomes an equation, a literal, a constant; what is refused."""

import numpy as np
import pytest

import pellucid as pl
import pellucid.numpy as jnp
from pellucid import lax
from pellucid._machine.base.errors import (
    LeakError,
    TracerArrayConversionError,
    TracerBoolConversionError,
    TracerIntegerConversionError,
    UnexpectedTracerError,
)
from pellucid._machine.ir.avals import shaped_array
from pellucid._machine.primitives.arithmetic import add, mul
from pellucid._machine.primitives.transcendental import sin
from pellucid._machine.tracing.current import context
from pellucid._machine.tracing.staging import replay, stage
from pellucid.experimental import checkify

VECTOR = shaped_array((3,), np.dtype(np.float32))
SCALAR = shaped_array((), np.dtype(np.float32))


def test_scalars_become_literals_and_arrays_constants() -> None:
    weights = np.ones(3, np.float32)
    jaxpr, consts = stage(lambda x: [add(mul(x, 2.0), mul(x, weights))], [VECTOR])
    assert len(consts) == 1
    assert consts[0] is weights
    assert [type(a).__name__ for a in jaxpr.equations[0].operands] == ["Var", "Literal"]


def test_scalars_on_a_device_are_constants_as_other_arrays_there_are() -> None:
    """So that a program has as many constants when they are traced values: libraries compare such programs."""
    scalar = jnp.array(2.0)
    assert pl.make_jaxpr(lambda x: x * scalar)(1.0).consts == [scalar]
    counts = []
    pl.jit(lambda s: counts.append(len(pl.make_jaxpr(lambda x: x * s)(1.0).consts)) or s)(scalar)
    assert counts == [1]


def test_scalars_made_while_tracing_are_literals_of_that_program() -> None:
    host = np.array(2.0, np.float32)

    def function(x):
        scalars = [jnp.array(2.0), jnp.zeros(()), jnp.float32(3), jnp.asarray(host)]
        host[()] = 5  # the program has the value of its tracing
        inner, captured = stage(lambda y: [mul(y, scalars[2])], [SCALAR])
        assert len(inner.constvars) == len(captured) == 1
        return [
            mul(x, scalars[2]),
            mul(scalars[3], x),
            *scalars,
            *pl.vmap(lambda v: v * scalars[3])(x[None]),
        ]

    jaxpr, consts = stage(function, [SCALAR])
    assert consts == []
    literals = [type(v).__name__ == "Literal" for v in jaxpr.outvars]
    assert literals == [False, False, True, True, True, True, False]
    assert [float(x) for x in replay(jaxpr, (), jnp.float32(7))] == [21, 14, 2, 0, 3, 2, 14]


def test_a_scalar_made_at_once_while_tracing_is_a_constant() -> None:
    def function(x):
        with pl.ensure_compile_time_eval():
            scalar = jnp.array(2.0) + 1
        return [mul(x, scalar)]

    assert stage(function, [SCALAR])[1] == [3.0]


def test_a_zero_that_many_programs_use_is_a_literal_of_each() -> None:
    f = pl.custom_jvp(lambda x, y: x * y)
    f.defjvp(lambda primals, tangents: (primals[0], tangents[0] + 2 * tangents[1]))
    for _ in range(2):
        program = pl.make_jaxpr(lambda x: pl.jvp(lambda x: f(x, 2.0), (x,), (x,)))(1.0)
        assert program.consts == []
        assert replay(program.jaxpr, program.consts, 3.0) == [3.0, 3.0]


def test_transformations_take_scalars_of_a_device_as_constants() -> None:
    s, x = jnp.float32(3), jnp.float32(2)
    cubed = pl.custom_vjp(lambda x: x * s)
    cubed.defvjp(lambda x: (x * s, x), lambda x, g: (g * s * x,))
    loop = lambda x: lax.scan(lambda c, _: (c * s, c), x, None, 3)[0]
    branch = lambda x: lax.cond(x > s, lambda x: x, lambda x: x * s, x)
    for transformed in (lambda f: f, pl.jit, lambda f: lambda x: pl.vmap(f)(x[None])[0]):
        assert transformed(lambda x: x * s)(x) == 6
        assert transformed(pl.grad(lambda x: x * x * s))(x) == 12
        assert transformed(pl.grad(cubed))(x) == 6
        assert transformed(pl.grad(loop))(x) == 27
        assert transformed(pl.grad(branch))(x) == 3
        assert transformed(pl.hessian(lambda x: s * x**3))(x) == 36
        assert transformed(pl.grad(pl.checkpoint(lambda x: x * x * s)))(x) == 12
        assert transformed(lambda x: lax.while_loop(lambda c: c < 9, lambda c: c * s, x))(x) == 18
    out, linear = pl.linearize(lambda x: x * x * s, x)
    assert (out, linear(jnp.float32(1))) == (12, 12)
    assert pl.closure_convert(lambda x: x * s, x)[1] == []


def test_a_compiled_program_takes_the_scalar_that_it_closed_over() -> None:
    scale = jnp.float32(2)
    f = pl.jit(lambda x: x * scale)
    text = f.lower(jnp.float32(1)).as_text()
    assert "stablehlo.constant" not in text  # so that another value needs no other program
    assert f(jnp.float32(3)) == 6
    scale = jnp.float32(5)
    assert f(jnp.float32(4)) == 8  # traced before
    assert pl.jit(lambda x: x * scale)(jnp.float32(4)) == 20


def test_a_constant_used_twice_is_one_variable() -> None:
    weights = np.ones(3, np.float32)
    jaxpr, consts = stage(lambda x: [mul(mul(x, weights), weights)], [VECTOR])
    assert len(consts) == len(jaxpr.constvars) == 1


def test_operations_on_constants_are_staged_too() -> None:
    weights = pl.block_until_ready(sin(np.ones(3, np.float32)))
    jaxpr, _ = stage(lambda x: [add(x, sin(weights))], [VECTOR])
    assert [e.primitive.name for e in jaxpr.equations] == ["sin", "add"]


def test_each_equation_carries_its_four_facts() -> None:
    def function(x):
        with pl.named_scope("outer"), pl.named_scope("inner"):
            return [sin(x)]

    jaxpr, _ = stage(function, [VECTOR])
    [equation] = jaxpr.equations
    assert equation.id > 0
    assert equation.scope.path() == ("outer", "inner")
    assert equation.lineage is None
    from pellucid._machine.base.source import user_frame

    frame = user_frame(equation.source)
    assert frame.file == __file__
    assert frame.function.endswith("function")
    assert frame.text == "return [sin(x)]"
    assert frame.column >= 0


def test_the_scope_is_restored_after_an_error() -> None:
    with pytest.raises(ZeroDivisionError), pl.named_scope("a"):
        raise ZeroDivisionError
    assert context.scope is None


def test_a_failing_function_leaves_tracing_usable() -> None:
    before = context.trace

    def fail(x):
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        stage(fail, [VECTOR])
    assert context.trace is before
    assert float(sin(np.float32(0))) == 0.0


def test_a_leaked_tracer_says_where_it_was_made() -> None:
    leaked = []

    def leak(x):
        leaked.append(sin(x))
        return [x]

    stage(leak, [VECTOR])
    with pytest.raises(UnexpectedTracerError) as caught:
        stage(lambda x: [add(x, leaked[0])], [VECTOR])
    assert "leaked.append(sin(x))" in str(caught.value)
    assert "by `sin`" in str(caught.value)


def test_a_leaked_tracer_is_refused_outside_tracing() -> None:
    leaked = []
    stage(lambda x: [leaked.append(x) or x], [VECTOR])
    with pytest.raises(UnexpectedTracerError):
        sin(leaked[0])


def test_the_leak_checker_names_the_keeper() -> None:
    leaked = []
    with pl.check_tracer_leaks(), pytest.raises(LeakError) as caught:
        stage(lambda x: [leaked.append(sin(x)) or x], [VECTOR])
    assert "list" in str(caught.value)


@pytest.mark.parametrize(
    ("use", "error", "words"),
    [
        (bool, TracerBoolConversionError, "lax.cond"),
        (int, TracerIntegerConversionError, "astype"),
        (lambda x: [1, 2][x], TracerIntegerConversionError, "traced"),
        (float, TypeError, "float"),
        (np.asarray, TracerArrayConversionError, "functions of `jnp`"),
    ],
)
def test_a_tracer_used_as_a_python_value(use, error, words) -> None:
    with pytest.raises(error, match=words):
        stage(lambda x: [use(x)], [SCALAR])


def test_an_argument_is_named_in_the_error() -> None:
    @pl.jit
    def choose(flag, x):
        return x if flag else -x

    with pytest.raises(TracerBoolConversionError, match="argument flag of choose"):
        choose(True, 1.0)


def test_type_rules_run_once_for_each_kind_of_operands(monkeypatch) -> None:
    from pellucid._machine.primitives import transcendental

    calls = []
    original = type(transcendental.sin_p).abstract_eval

    def counted(self, avals, params):
        calls.append(avals)
        return original(self, avals, params)

    unusual = shaped_array((3, 1, 4, 1, 5, 9), np.dtype(np.float32))
    monkeypatch.setattr(type(transcendental.sin_p), "abstract_eval", counted)
    stage(lambda x: [sin(sin(sin(x)))], [unusual])
    assert calls == [(unusual,)]


KEPT = []


def keeps(x):
    KEPT.append(x)
    return x


@pytest.mark.parametrize(
    "call",
    [
        lambda: pl.vmap(keeps)(np.ones(3)),
        lambda: pl.jit(pl.vmap(keeps))(np.ones(3)),
        lambda: pl.vmap(pl.jit(keeps))(np.ones(3)),
        lambda: pl.grad(lambda x: pl.vmap(keeps)(x).sum())(np.ones(3)),
    ],
)
def test_values_kept_by_a_batched_function_are_leaks(call):
    with pl.check_tracer_leaks(), pytest.raises(LeakError, match="tracing `keeps` left 1"):
        call()
    KEPT.clear()


def checked(x):
    checkify.check(x > 0, "{x} is negative", x=x)
    return pl.numpy.log(x)


NO_LEAKS = {
    "check": checked,
    "jit": pl.jit(checked),
    "cond": lambda x: lax.cond(x > 0, checked, lambda x: x, x),
    "scan": lambda x: lax.scan(lambda c, _: (checked(c) + 2, None), x, None, length=2),
    "while": lambda x: lax.while_loop(lambda c: c < 3, lambda c: checked(c) + 2, x),
    "remat": pl.checkpoint(checked),
    "grad of jit": pl.grad(pl.jit(checked)),
    "vmap": lambda x: pl.vmap(checked)(x[None]),
    "vmap of grad": lambda x: pl.vmap(pl.grad(lambda y: checked(y * x)))(x[None]),
}


@pytest.mark.parametrize("name", NO_LEAKS)
@pytest.mark.parametrize("wrap", [pl.jit, lambda f: f])
def test_checked_programs_leak_nothing(name, wrap):
    with pl.check_tracer_leaks():
        error, _ = wrap(checkify.checkify(NO_LEAKS[name], checkify.all_checks))(pl.numpy.float32(1))
    assert error.get() is None


def test_a_custom_derivative_under_a_batch_leaks_nothing():
    @pl.custom_vjp
    def f(x, y):
        return x * y

    f.defvjp(
        lambda x, y: (x * y, (x, y)), lambda residuals, ct: (ct * residuals[1], ct * residuals[0])
    )
    x = np.ones(3, np.float32)
    with pl.check_tracer_leaks():
        pl.jit(pl.vmap(pl.grad(f), (0, None)))(x, 2.0)


@pl.tree_util.register_pytree_node_class
class Boxed:
    """Stands for an array, whose attributes it passes on, and is a node of trees."""

    def __init__(self, value):
        self.value = value

    def __jax_array__(self):
        return self.value

    def __getattr__(self, name):
        return getattr(self.value, name)

    def tree_flatten(self):
        return [self.value], None

    @classmethod
    def tree_unflatten(cls, _, children):
        return cls(*children)


WRAPPERS = {"eager": lambda f: f, "jit": pl.jit, "grad": lambda f: pl.grad(lambda x: f(x).sum())}


@pytest.mark.parametrize("wrapper", WRAPPERS)
def test_what_stands_for_a_traced_array_is_that_array(wrapper):
    function = WRAPPERS[wrapper](lambda x: pl.numpy.matmul(pl.numpy.sin(x), x) + pl.lax.cos(x))
    x = pl.numpy.ones((2, 2))
    np.testing.assert_array_equal(pl.numpy.asarray(function(Boxed(x))), function(x))

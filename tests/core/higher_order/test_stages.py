"""Lowered and compiled functions: what they take, and what they refuse."""

import numpy as np
import pytest

import pellucid as pl
from pellucid import lax, numpy as jnp
from pellucid.base.errors import ArgumentTypeError, DeviceError, PlatformError, TracedValueError

X = np.arange(3, dtype=np.float32)


@pl.jit
def square(x):
    return x * x


TRANSFORMED = {
    "grad": lambda f: pl.grad(lambda x: f(x).sum())(X),
    "jvp": lambda f: pl.jvp(f, (X,), (X,)),
    "vjp": lambda f: pl.vjp(f, X),
    "linearize": lambda f: pl.linearize(f, X),
    "vmap": lambda f: pl.vmap(f)(np.stack([X, X])),
    "jit": lambda f: pl.jit(f)(X),
    "scan": lambda f: lax.scan(lambda c, _: (f(c), None), X, None, length=2),
    "eval_shape": lambda f: pl.eval_shape(f, X),
}


@pytest.mark.parametrize("name", TRANSFORMED)
def test_a_compiled_function_is_not_transformed(name):
    compiled = square.lower(X).compile()
    with pytest.raises(TracedValueError, match=r"(?s)x: .*trace `square` itself"):
        TRANSFORMED[name](compiled)
    with pytest.raises(TypeError, match="`square` is compiled"):
        TRANSFORMED[name](compiled.call)


def test_a_compiled_function_runs_on_values_while_another_is_transformed():
    compiled = square.lower(X).compile()
    assert pl.grad(lambda y: (compiled(X) * y).sum())(2.0) == 5
    assert pl.jit(lambda y: (compiled(X) * y).sum())(2.0) == 10


def scaled(n, x):
    return n * x


LOWERED_WITH_SEVEN = {
    "by position": lambda: pl.jit(scaled, static_argnums=0).lower(7, 8),
    "by name": lambda: pl.jit(lambda x, n: n * x, static_argnames="n").lower(8, n=7),
    "by a name given by position": lambda: pl.jit(lambda x, n: n * x, static_argnames="n").lower(
        8, 7
    ),
    "by default": lambda: pl.jit(lambda x, n=7: n * x, static_argnames="n").lower(8),
}


@pytest.mark.parametrize("how", LOWERED_WITH_SEVEN)
def test_compiled_functions_take_the_arguments_that_are_not_static(how):
    compiled = LOWERED_WITH_SEVEN[how]().compile()
    assert compiled(5) == 35
    for args, kwargs in [((7, 5), {}), ((9, 5), {}), ((5,), {"n": 7}), ((), {}), ((5, 6, 7), {})]:
        with pytest.raises(ArgumentTypeError, match="compiled for arguments of another structure"):
            compiled(*args, **kwargs)


def test_a_static_argument_of_a_compiled_function_is_named():
    compiled = LOWERED_WITH_SEVEN["by position"]().compile()
    with pytest.raises(ArgumentTypeError) as error:
        compiled(9, 5)
    assert str(error.value).splitlines()[1:] == [
        "  args: got tuple of 2, expected tuple of 1",
        "  Call it with the arguments' containers and keys it was lowered with, and without its static arguments (n).",
    ]


def test_keywords_of_a_compiled_function_are_those_it_was_lowered_with():
    jitted = pl.jit(scaled, static_argnames="n")
    compiled = jitted.lower(x=8, n=7).compile()
    assert compiled(x=5) == 35
    for args, kwargs in [((5,), {}), ((), {"x": 5, "n": 7})]:
        with pytest.raises(ArgumentTypeError, match="kwargs: got dict with"):
            compiled(*args, **kwargs)


@pytest.mark.parametrize(
    ("platform", "operation"), [("tpu", "cosine"), ("gpu", "tan"), ("cpu", "sine")]
)
def test_a_program_is_lowered_for_a_platform_that_is_not_here(platform, operation):
    @pl.jit
    def f(x):
        return lax.platform_dependent(x, cpu=jnp.sin, tpu=jnp.cos, default=jnp.tan)

    lowered = f.trace(X).lower(lowering_platforms=(platform,))
    assert f"stablehlo.{operation}" in lowered.as_text()
    assert lowered.as_text() == f.lower(X, lowering_platforms=(platform,)).as_text()
    if platform == "cpu":
        np.testing.assert_allclose(lowered.compile()(X), np.sin(X), rtol=1e-6)
    else:
        with pytest.raises(DeviceError, match=r"(?s)lowered for another platform.*devices: cpu"):
            lowered.compile()
    assert f(X)[0] == 0


@pytest.mark.parametrize(
    ("platforms", "error"), [(("x",), PlatformError), (("cpu", "tpu"), ValueError)]
)
def test_other_platforms_are_refused(platforms, error):
    with pytest.raises(error):
        square.lower(X, lowering_platforms=platforms)


def test_modules_name_arguments_and_results():
    def step(params, x, unused):
        return {"sum": params["w"] + x, "parts": (x, params["w"])}

    lowered = pl.jit(step).lower({"w": X}, X, X)
    text = lowered.as_text()
    for name in ("result['sum']", "result['parts'][0]", "result['parts'][1]"):
        assert f'jax.result_info = "{name}"' in text
    assert "loc(\"params['w']\")" in lowered.as_text(debug_info=True)
    assert 'loc("unused")' not in lowered.as_text(debug_info=True)
    assert 'op_name="x"' in lowered.compile().as_text()
    assert "op_name" not in lowered.as_text("hlo")
    assert 'op_name="jit(step)/add"' in lowered.as_text("hlo", debug_info=True)
    unnamed = pl.jit(lambda x: x).lower(X).as_text()
    assert "module @jit__lambda " in unnamed
    assert 'jax.result_info = "result"' in unnamed


def test_results_of_classes_that_refuse_placeholders_have_no_names():
    @pl.tree_util.register_pytree_node_class
    class Matrix:
        def __init__(self, values):
            self.values, self.size = values, values.shape[0]

        def tree_flatten(self):
            return (self.values,), None

        @classmethod
        def tree_unflatten(cls, _, children):
            return cls(*children)

    assert "result_info" not in pl.jit(lambda x: Matrix(x)).lower(X).as_text()

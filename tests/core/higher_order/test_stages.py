"""Lowered and compiled functions: what they take, and what they refuse."""

import gc
import weakref

import numpy as np
import pytest

import pellucid as pl
from pellucid import lax, numpy as jnp
from pellucid._machine.base import config
from pellucid._machine.base.errors import (
    ArgumentTypeError,
    DeletedArrayError,
    DeviceError,
    ForbiddenError,
    JAXTypeError,
    NonFiniteError,
    PlatformError,
    TransferGuardError,
)
from pellucid._machine.runtime.executable import Executable

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
    with pytest.raises(JAXTypeError, match=r"(?s)x: .*trace `square` itself"):
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


def test_unknown_platforms_are_refused():
    with pytest.raises(PlatformError):
        square.lower(X, lowering_platforms=("x",))


def test_a_program_is_lowered_for_several_platforms():
    @pl.jit
    def f(x):
        return lax.platform_dependent(x * 2, cpu=jnp.sin, tpu=jnp.cos) + 1

    lowered = f.lower(X, lowering_platforms=("tpu", "cpu"))
    text = lowered.as_text()
    first, choice, last = text.index("multiply"), text.index("stablehlo.case"), text.index("add")
    assert first < choice < text.index("cosine") < text.index("stablehlo.sine") < last
    with pytest.raises(DeviceError, match="lowered for tpu, cpu, devices: cpu"):
        lowered.compile()


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


def test_results_of_classes_that_refuse_placeholders_are_numbered():
    @pl.tree_util.register_pytree_node_class
    class Matrix:
        def __init__(self, values):
            self.values, self.size = values, values.shape[0]

        def tree_flatten(self):
            return (self.values,), None

        @classmethod
        def tree_unflatten(cls, _, children):
            return cls(*children)

    text = pl.jit(lambda x: Matrix(x)).lower(X).as_text()
    assert 'jax.result_info = "result[<flat index 0>]"' in text


@pytest.fixture
def python_calls(monkeypatch):
    """The number of runs of executables that came through Python, as a list of names."""
    names = []
    run = Executable.__call__

    def recorded(executable, arguments):
        names.append(executable.name)
        return run(executable, arguments)

    monkeypatch.setattr(Executable, "__call__", recorded)
    return names


@pytest.mark.parametrize("argument", [jnp.arange(3.0), X], ids=["array", "NumPy array"])
def test_a_compiled_function_is_called_without_python(argument, python_calls):
    compiled = pl.jit(lambda t, n: {"s": t["x"] * n}, static_argnames="n")
    compiled = compiled.lower({"x": argument}, n=3).compile()
    results = [compiled({"x": argument})["s"] for _ in range(3)]
    assert len(python_calls) == 1
    for result in results:
        np.testing.assert_array_equal(result, 3 * X)


REFUSED = {
    "structure": (lambda f, x: f([x]), ArgumentTypeError, "another structure"),
    "dtype": (lambda f, x: f(X.astype(np.int32)), ArgumentTypeError, "x: compiled for f32"),
    "shape": (lambda f, x: f(jnp.ones(4)), ArgumentTypeError, r"got f32\[4\]"),
    "tracer": (lambda f, x: pl.grad(lambda x: f(x).sum())(x), JAXTypeError, "Differentiate"),
    "place": (
        lambda f, x: f(pl.device_put(x, pl.devices()[1])),
        DeviceError,
        "placed otherwise",
    ),
    "deleted": (lambda f, x: (x.delete(), f(x)), DeletedArrayError, "was deleted"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_compiled_function_refuses_after_calls_without_python_as_before(name, python_calls):
    call, error, message = REFUSED[name]
    compiled, x = square.lower(X).compile(), jnp.arange(3.0)
    compiled(x)
    for _ in range(2):
        with pytest.raises(error, match=message):
            call(compiled, x)
    python_calls.clear()
    np.testing.assert_array_equal(compiled(jnp.arange(3.0)), X * X)
    np.testing.assert_array_equal(compiled(jnp.arange(3.0)), X * X)
    assert len(python_calls) <= 1


def test_a_compiled_function_obeys_options_after_calls_without_python():
    compiled, x = pl.jit(lambda x: 1 / x).lower(X).compile(), jnp.arange(3.0)
    compiled(x)
    with config.debug_nans(True), config.debug_infs(True), pytest.raises(NonFiniteError):
        compiled(x)
    with config.no_execution(True), pytest.raises(ForbiddenError):
        compiled(x)
    with pl.transfer_guard("disallow"), pytest.raises(TransferGuardError):
        compiled(X)
    with config.disable_jit(True):
        assert compiled(x)[1] == 1


@pytest.mark.parametrize("how", ["position", "name"])
def test_a_compiled_function_takes_donated_memory_on_each_call(how):
    f = pl.jit(lambda n, x, y: n * x + y, static_argnums=0, donate_argnames="x")
    by_name = how == "name"
    compiled = (f.lower(2, x=X, y=X) if by_name else f.lower(2, X, X)).compile()
    y = jnp.ones(3)
    for _ in range(3):
        x = jnp.arange(3.0) + 0
        np.testing.assert_array_equal(compiled(x=x, y=y) if by_name else compiled(x, y), [1, 3, 5])
        with pytest.raises(DeletedArrayError, match="was donated to `<lambda>`"):
            x + 1
        with pytest.raises(DeletedArrayError, match="was donated to `<lambda>`"):
            compiled(x=x, y=y) if by_name else compiled(x, y)
        assert not y.is_deleted()


def test_a_compiled_function_with_effects_has_them_on_each_call():
    messages = []
    f = pl.jit(lambda x: (pl.debug.callback(lambda v: messages.append(int(v)), x), x + 1)[1])
    compiled, cell = f.lower(1).compile(), pl.new_ref(jnp.asarray(0.0))
    for i in range(3):
        compiled(i)
    pl.effects_barrier()
    assert sorted(messages) == [0, 1, 2]

    def count():
        cell[...] += 1

    counted = pl.jit(count).lower().compile()
    for _ in range(3):
        counted()
    assert cell[...] == 3


def test_a_compiled_function_is_freed_with_its_last_reference():
    compiled = square.lower(X).compile()
    compiled(X)
    executable = weakref.ref(compiled._executable)
    program = weakref.ref(compiled)
    gc.disable()
    try:
        del compiled
        assert program() is None
        assert executable() is None
    finally:
        gc.enable()


def test_types_and_whatever_has_a_shape_and_a_dtype_stand_for_arguments():
    class Described:
        shape = (2, 3)
        dtype = np.dtype(np.float32)

    x = pl.core.ShapedArray((4, 2), np.dtype(np.float32))
    out = pl.eval_shape(lambda x, y: x @ y["w"], x, {"w": Described()})
    assert (out.shape, out.dtype) == ((4, 3), np.float32)
    assert pl.jit(lambda x: x.T).trace(x).out_info.shape == (2, 4)
    with pytest.raises(TypeError, match="x: ShapedArray"):
        pl.jit(lambda x: x)(x)
    token = lax.create_token()
    types = pl.eval_shape(lambda token: (lax.after_all(token), 1.0), token)
    assert types == (pl.typeof(token), pl.ShapeDtypeStruct((), np.float32, weak_type=True))
    assert pl.jit(lax.after_all).trace(token).out_info is pl.typeof(token)


@pytest.mark.parametrize("wide", [np.float64, np.int64, np.uint64, np.complex128])
def test_structs_of_64_bits_stand_for_arrays_of_32_while_they_are_off(wide):
    x = np.arange(3).astype(wide)
    struct = pl.ShapeDtypeStruct(x.shape, x.dtype)
    narrow = jnp.asarray(x).dtype
    assert struct.dtype == wide
    assert pl.typeof(struct).dtype == narrow

    def double(x):
        return x * 2

    assert pl.eval_shape(double, struct).dtype == narrow
    assert pl.jit(double).lower(struct).compile()(x).tolist() == (x * 2).tolist()
    assert pl.export.export(pl.jit(double))(struct).call(x).tolist() == (x * 2).tolist()
    assert "convert_element_type" not in str(pl.make_jaxpr(double)(struct))
    assert jnp.ones_like(struct).dtype == narrow
    pl.closure_convert(double, struct)
    with pl.enable_x64(True):
        assert pl.eval_shape(double, struct).dtype == wide

    class Described:
        shape, dtype = x.shape, x.dtype

    assert pl.jit(double).lower(Described()).compile()(x).dtype == narrow


def test_make_jaxpr_is_named_as_its_function():
    assert pl.make_jaxpr(square).__qualname__ == "make_jaxpr(square)"

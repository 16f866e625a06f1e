"""The four facts survive into the optimized program."""

import re

import numpy as np

import pellucid as pl
from pellucid._machine.primitives.arithmetic import mul
from pellucid._machine.primitives.transcendental import sin

X = np.ones((4, 4), np.float32)


def test_ids_scopes_and_lines_are_in_the_compiled_program() -> None:
    @pl.jit
    def function(x):
        with pl.named_scope("block"):
            return mul(sin(x), x)

    compiled = function.lower(X).compile()
    text = compiled.as_text()
    ids = {e.id: e.primitive.name for e in function.trace(X).jaxpr.equations}
    actual = re.findall(r'op_type="e(\d+)" op_name="jit\(function\)/block/(\w+)"', text)
    assert actual
    assert all(ids[int(number)] == name for number, name in actual)
    assert __file__ in text


def test_a_shared_function_is_lowered_once() -> None:
    layer = pl.jit(lambda x: sin(mul(x, 2.0)))

    def model(x):
        for _ in range(5):
            x = layer(x)
        return x

    text = pl.jit(model).lower(X).as_text()
    assert text.count("func.func private") == 1
    assert text.count("call @") == 5


def test_a_large_constant_is_an_argument_not_text() -> None:
    weights = np.random.default_rng(0).normal(size=(256, 256)).astype(np.float32)
    lowered = pl.jit(lambda x: mul(x, weights)).lower(np.ones((256, 256), np.float32))
    assert len(lowered.as_text()) < 2000
    np.testing.assert_allclose(lowered.compile()(np.ones((256, 256), np.float32)), weights)


def test_a_donated_argument_is_aliased_to_a_result() -> None:
    function = pl.jit(lambda x, y: (sin(x), mul(y, 2.0)), donate_argnums=1)
    text = function.lower(X, X).as_text()
    assert re.search(r"%arg1: tensor<4x4xf32> \{tf.aliasing_output = 0 : i32\}", text)


def test_unused_arguments_are_dropped_unless_kept() -> None:
    assert pl.jit(lambda x, y: sin(x)).lower(X, X).as_text().count("%arg") < pl.jit(
        lambda x, y: sin(x), keep_unused=True
    ).lower(X, X).as_text().count("%arg")
    np.testing.assert_allclose(pl.jit(lambda x, y: sin(x))(X, X), np.sin(X), rtol=1e-6)


def test_programs_over_several_devices_have_ids_in_their_names() -> None:
    """XLA's partitioner drops the types of operations."""
    mesh = pl.make_mesh((8,), ("x",), axis_types=(pl.sharding.AxisType.Auto,))
    placed = pl.device_put(np.ones((8, 8), np.float32), pl.NamedSharding(mesh, pl.P("x")))
    traced = pl.jit(lambda x: pl.lax.sin(x)).trace(placed)
    [equation] = traced.jaxpr.equations
    assert f'op_name="jit(<lambda>)/sin#e{equation.id}"' in traced.lower().compile().as_text()


def test_a_function_called_within_scopes_is_named_by_each() -> None:
    inner = pl.jit(lambda x: sin(mul(x, 2.0)))

    def model(x):
        for name in ("first", "second"):
            with pl.named_scope(name):
                x = inner(x)
        return x

    text = pl.jit(model).lower(X).compile().as_text()
    paths = {path for path in re.findall(r'op_name="([^"]*)"', text) if path.endswith("/sin")}
    assert paths == {f"jit(model)/{name}/jit(<lambda>)/sin" for name in ("first", "second")}


def test_arguments_are_named_by_their_parameters() -> None:
    def function(x, y, *rest, k=1.0, **options):
        return x + rest[0] + rest[1]["a"] + k + options["z"]

    names = ("x", "rest[0]", "rest[1]['a']", "k", "options['z']")
    jitted = pl.jit(function, static_argnums=1)
    text = jitted.lower(X, 0, X, {"a": X}, k=X, z=X).as_text(debug_info=True)
    assert all(f'loc("{name}")' in text for name in names)


def test_composites_and_functions_of_one_name_are_numbered_as_in_the_reference() -> None:
    my_op = pl.lax.composite(lambda x, *, k: sin(x) * k, name="my.op")
    text = pl.jit(lambda x: my_op(x, k=1.0) + my_op(x, k=2.0) + my_op(x, k=3.0)).lower(X).as_text()
    for name in ("my.op", "my.op_0", "my.op_1"):
        assert f"decomposition = @{name}" in text
        assert f"func.func private @{name}(" in text

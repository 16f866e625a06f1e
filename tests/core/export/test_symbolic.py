"""Programs are exported for symbolic shapes, and called with arrays of several sizes and with other symbols."""

import numpy as np
import pytest
from message_checks import check_message

import pellucid as pl
import pellucid.numpy as jnp
from pellucid import export, lax
from pellucid._machine.base.dims import InconclusiveDimensionOperation
from pellucid._machine.base.errors import CompilationError, UnsupportedError
from pellucid._machine.sharding.errors import IndivisibleError
from pellucid._machine.xla.mlir import ir, module_of_artifact, new_context, with_static_shapes
from pellucid.export import ExportError, symbolic_args_specs, symbolic_shape
from pellucid.sharding import AxisType, NamedSharding, PartitionSpec, set_mesh
from tests.corpus.symbolic import (
    FUNCTIONS,
    SIZES,
    VARIABLES,
    WITHOUT_DERIVATIVE,
    gradient_of,
    operands,
    structs,
)

SYMBOLS = dict(zip(VARIABLES, symbolic_shape("b, c", constraints=["b >= 2"]), strict=True))
WITH_GRADIENT = [name for name in FUNCTIONS if name not in WITHOUT_DERIVATIVE | {
    "searchsorted", "sets", "counts", "logic", "counting"}]  # fmt: skip


def exported(function, texts):
    return export.export(pl.jit(function))(*structs(texts, SYMBOLS))


def check_calls(e, function, texts, tolerance=1e-4):
    for values in SIZES:
        xs = operands(texts, values)
        results, expected = (pl.tree.leaves(f(*xs)) for f in (e.call, pl.jit(function)))
        for x, y in zip(results, expected, strict=True):
            assert (x.shape, x.dtype) == (y.shape, y.dtype)
            np.testing.assert_allclose(x, y, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("name", [pytest.param(n, marks=pytest.mark.rotates) for n in FUNCTIONS])
def test_functions_run_with_all_sizes(name):
    function, *texts = FUNCTIONS[name]
    check_calls(exported(function, texts), function, texts)


COMPARED = {
    "polynomials": (jnp.polyadd, "(b,)", "(c,)"),
    "a diagonal": (lambda x: jnp.fill_diagonal(x, 0.0, inplace=False), "(b,c)"),
    "Q and R": (lambda x: jnp.linalg.qr(x), "(b,c)"),
    "Q, R of a part": (lambda x: jnp.linalg.qr(x[:, 1:]), "(c,b)"),
    "singular values": (lambda x: jnp.linalg.svd(x, compute_uv=False), "(b,c)"),
    "a shape": (lambda x: lax.shape_as_value((3, *x.shape)), "(b,c)"),
    "tangents of a sort": (lambda x: pl.jvp(lambda y: jnp.sort(y[2:]), (x,), (x * x,)), "(b,)"),
}  # fmt: skip
"""Functions whose sizes, or numbers among their values, depend on the variables."""


@pytest.mark.parametrize("name", COMPARED)
def test_sizes_and_values_may_depend_on_the_variables(name):
    function, *texts = COMPARED[name]
    check_calls(exported(function, texts), function, texts)


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=pytest.mark.rotates) for n in WITH_GRADIENT]
)
def test_gradients_run_with_all_sizes(name):
    function, *texts = FUNCTIONS[name]
    gradient = gradient_of(function)
    check_calls(exported(gradient, texts), gradient, texts, 1e-3)


@pytest.mark.parametrize(
    "name",
    [
        "train step",
        *(pytest.param(n, marks=pytest.mark.rotates) for n in ("transformer block", "recurrence")),
    ],
)
def test_models_run_from_files(name):
    function, *texts = FUNCTIONS[name]
    e = export.deserialize(exported(function, texts).serialize(vjp_order=1))
    check_calls(e, function, texts)
    xs = operands(texts, SIZES[1])
    gradients = [gradient_of(f)(*xs) for f in (e.call, function)]
    np.testing.assert_allclose(*gradients, rtol=1e-3, atol=1e-3)


def test_types_show_the_names():
    e = exported(lambda x, y: jnp.concatenate([x, y]), ["(b,4)", "(2*c,4)"])
    assert [a.text() for a in (*e.in_avals, *e.out_avals)] == [
        "f32[b,4]",
        "f32[2*c,4]",
        "f32[2*c + b,4]",
    ]
    again = export.deserialize(e.serialize())
    assert [a.text() for a in again.out_avals] == ["f32[2*c + b,4]"]
    assert e.uses_global_constants
    text = e.mlir_module()
    assert 'jax.global_constant = "b"' in text
    assert "@_wrapped_jax_export_main" in text
    jaxpr = pl.make_jaxpr(lambda x: x * x.shape[0])(*structs(["(b,4)"], SYMBOLS))
    assert "dim_as_value[dim=b]" in str(jaxpr)


def test_refined_modules_have_no_trace_of_symbols():
    function, *texts = FUNCTIONS["recurrence"]
    e = exported(function, texts)
    context = new_context()
    with context:
        module = module_of_artifact(e.mlir_module_serialized, context)
        types = [ir.Type.parse(f"tensor<{shape}xf32>") for shape in ("4x4", "2x3x4")]
        text = str(with_static_shapes(module, types))
    assert not any(
        part in text for part in ("?", "dynamic_reshape", "shape_assertion", "real_dynamic")
    )


def test_arguments_must_have_the_shapes_that_were_stated():
    e = exported(lambda x, y: x[: y.shape[0]] + y, ["(b + 2*c, 4)", "(c, 4)"])
    y = np.ones((2, 4), np.float32)
    assert e.call(np.ones((7, 4), np.float32), y).shape == (2, 4)
    for x, message in (
        (np.ones((5, 4), np.float32), r"constraint b >= 2 must hold, but its sides are 1 and 2"),
        (np.ones((4, 4), np.float32), r"b must be at least 1, but is 0"),
        (
            np.ones((7, 3), np.float32),
            r"args\[0\]: exported for f32\[2\*c \+ b,4\], got f32\[7,3\]",
        ),
        (np.ones(7, np.float32), r"got f32\[7\]"),
    ):
        with pytest.raises(ExportError, match=message):
            e.call(x, y)
    square = exported(lambda x: x @ x, ["(b, b)"])
    with pytest.raises(ExportError, match=r"dimension 1 of args\[0\] must be b = 3, but is 4"):
        square.call(np.ones((3, 4), np.float32))
    even = exported(lambda x: x.reshape(-1, 2), ["(2*b,)"])
    with pytest.raises(ExportError, match="leaves the remainder 1"):
        even.call(np.ones(5, np.float32))
    assert even.call(np.ones(6, np.float32)).shape == (3, 2)


def test_variables_must_follow_from_the_arguments():
    (k,) = symbolic_shape("k")
    with pytest.raises(ExportError, match="k doesn't follow from the shapes"):
        export.export(pl.jit(jnp.sin))(pl.ShapeDtypeStruct((k * k,), np.float32))


def test_calls_with_other_symbols():
    inner = exported(lambda x: jnp.cumsum(x, 0) / x.shape[0], ["(b,4)"])
    (k,) = symbolic_shape("k", constraints=["k >= 3"])
    outer = export.export(pl.jit(lambda x: inner.call(jnp.concatenate([x, x]))))(
        pl.ShapeDtypeStruct((k, 4), np.float32)
    )
    assert [a.text() for a in outer.out_avals] == ["f32[2*k,4]"]
    outer = export.deserialize(outer.serialize())
    x = np.ones((3, 4), np.float32)
    np.testing.assert_allclose(outer.call(x), np.cumsum(np.ones((6, 4)), 0) / 6, rtol=1e-6)
    with pytest.raises(ExportError, match="constraint k >= 3 must hold"):
        outer.call(x[:2])  # which only the module knows


def test_platforms_static_arguments_and_structures():
    def f(x, options, *, scale):
        y = lax.platform_dependent(x["x"], cpu=jnp.sin, tpu=jnp.cos)
        return {"y": y * scale, "n": x["x"].shape[0]}, options

    specs = symbolic_args_specs(({"x": np.ones((3, 4), np.float32)},), "b, ...")
    e = export.export(pl.jit(f, static_argnums=1), platforms=["tpu", "cpu"])(*specs, 3, scale=2.0)
    x = np.ones((5, 4), np.float32)
    result, three = e.call({"x": x}, scale=2.0)
    np.testing.assert_allclose(result["y"], 2 * np.sin(x), rtol=1e-6)
    assert (result["n"], three) == (5, 3)


def test_specs_are_a_prefix_of_the_arguments():
    x, y = np.zeros((3, 4), np.float32), np.zeros((3, 2), np.int32)
    a, b, c = symbolic_args_specs((x, x, [y]), ("b, _", None, "b, k"), constraints=["k >= 2"])
    assert str((a.shape, b.shape, c[0].shape)) == "((b, 4), (3, 4), (b, k))"
    assert a.shape[0] == c[0].shape[0]
    assert c[0].shape[1] >= 2


def test_a_symbolic_program_is_lowered_not_compiled():
    lowered = pl.jit(lambda x: x[1:] * 2).lower(*structs(["(b,4)"], SYMBOLS))
    assert "real_dynamic_slice" in lowered.as_text()
    with pytest.raises(
        CompilationError, match=r"sizes of its arguments are symbolic[\s\S]*f32\[b,4\]"
    ):
        lowered.compile()
    with pytest.raises(InconclusiveDimensionOperation, match="used where its value is needed"):
        jnp.multiply(jnp.sin(1.0), SYMBOLS["b"])
    size = SYMBOLS["b"]
    for program in (
        lambda: jnp.asarray(size),
        lambda: jnp.zeros((size, 2)),
        lambda: jnp.arange(size) + 1,
        pl.jit(lambda: jnp.ones(size).sum()),
    ):
        with pytest.raises(CompilationError, match="b has a value only in a program"):
            program()


def test_what_needs_numbers_is_refused_by_name():
    [x] = structs(["(2,b,4,4)"], SYMBOLS)
    for function, message in (
        (lambda x: lax.bitcast_convert_type(x, np.uint8), r"bitcast_convert_type[\s\S]*b"),
        (
            lambda x: pl.vmap(lambda x: lax.conv(x, x, (1, 1), "SAME"), 1)(x[:, :, None]),
            "feature_group_count",
        ),
        (lambda x: lax.associative_scan(jnp.add, x, axis=1), "associative_scan can't run along"),
        (lambda x: jnp.fft.fft(x, axis=1), "fft"),
        (
            lambda x: lax.linalg.hessenberg(x[0, :, 0] @ x[0, :, 0].T),
            "symbolic dimension b was used",
        ),
    ):
        with pytest.raises(Exception, match=message) as caught:
            export.export(pl.jit(function))(x)
        assert isinstance(caught.value, (NotImplementedError, ValueError, CompilationError))


@pytest.mark.parametrize("axis_type", [AxisType.Auto, AxisType.Explicit])
def test_programs_over_several_devices(axis_type):
    mesh = pl.make_mesh((2,), ("x",), axis_types=(axis_type,))
    rows, whole = (
        NamedSharding(mesh, PartitionSpec("x", None)),
        NamedSharding(mesh, PartitionSpec()),
    )
    n, m = symbolic_shape("2*n, m")

    def product(x, w):
        return jnp.tanh(x @ w) + x.sum(1, keepdims=True)

    function = pl.jit(product, in_shardings=(rows, whole), out_shardings=rows)
    structs = pl.ShapeDtypeStruct((n, m), np.float32), pl.ShapeDtypeStruct((m, 3), np.float32)
    again = export.deserialize(export.export(function)(*structs).serialize(vjp_order=1))
    for sizes in ((4, 5), (6, 2)):
        x, w = (
            np.linspace(-1, 1, a * b, dtype=np.float32).reshape(a, b)
            for a, b in (sizes, (sizes[1], 3))
        )
        placed = pl.device_put(x, rows), pl.device_put(w, whole)
        y = pl.jit(again.call)(*placed)
        assert y.sharding.is_equivalent_to(rows, 2)
        np.testing.assert_allclose(y, product(x, w), rtol=1e-5)
        with set_mesh(mesh):
            gradient = pl.grad(lambda x, w: again.call(x, w).sum())(*placed)
        assert gradient.sharding.is_equivalent_to(rows, 2)
        expected = pl.grad(lambda x, w: product(x, w).sum())(x, w)
        np.testing.assert_allclose(gradient, expected, rtol=1e-4, atol=1e-5)
    with pytest.raises(ExportError, match="leaves the remainder 1"):
        again.call(np.ones((5, 2), np.float32), np.ones((2, 3), np.float32))


def test_over_several_devices_a_symbolic_size_must_be_a_multiple_and_shard_map_is_refused():
    mesh = pl.make_mesh((2,), ("x",))
    rows = NamedSharding(mesh, PartitionSpec("x"))
    n, even = symbolic_shape("n, 2*k")

    def exporting(function, size):
        return lambda: export.export(pl.jit(function, in_shardings=rows))(
            pl.ShapeDtypeStruct((size,), np.float32)
        )

    check_message(
        exporting(jnp.sin, n), IndivisibleError,
        "dimension 0 of size n can't be split evenly into 2 parts over 'x'", "such as `2*n`",
    )  # fmt: skip
    mapped = pl.shard_map(jnp.sin, mesh=mesh, in_specs=rows.spec, out_specs=rows.spec)
    check_message(
        exporting(mapped, even), UnsupportedError, "shard_map", "symbolic dimensions", "f32[2*k"
    )


def test_random_numbers_of_symbolic_shapes_have_counters_of_32_bits():
    with pl.threefry_partitionable(False):
        draw = pl.jit(lambda x: pl.random.gamma(pl.random.key(0), x))
        e = export.export(draw)(pl.ShapeDtypeStruct(symbolic_shape("b"), np.float32))
        np.testing.assert_array_equal(e.call(np.ones(3, np.float32)), draw(np.ones(3, np.float32)))

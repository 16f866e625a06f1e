"""Calls of native functions: a library of handlers is compiled, registered and called in every way."""

import ctypes
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import pellucid as pl
import pellucid.numpy as pnp
from pellucid import export, ffi, lax
from pellucid._machine.base.errors import ArgumentTypeError, ArgumentValueError, PellucidError
from pellucid.experimental.layout import Layout
from pellucid.sharding import AxisType, NamedSharding, PartitionSpec as P

GXX = shutil.which("g++")
pytestmark = pytest.mark.skipif(GXX is None, reason="there is no C++ compiler g++")

F32 = np.float32
TARGETS = {
    "Normalize": 1, "Attributes": 1, "InPlace": 1, "InMemory": 1, "Sizes": 1, "Count": 1, "Older": 0,
}  # fmt: skip


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    source = Path(__file__).with_name("handlers.cc")
    built = tmp_path_factory.mktemp("ffi") / "libhandlers.so"
    command = [GXX, "-O1", "-w", "-fPIC", "-shared", "-std=c++17", f"-I{ffi.include_dir()}"]
    subprocess.run([*command, str(source), "-o", str(built)], check=True)
    library = ctypes.CDLL(str(built))
    for name, api_version in TARGETS.items():
        capsule = ffi.pycapsule(getattr(library, name))
        ffi.register_ffi_target(f"test_{name}", capsule, "cpu", api_version)
    ffi.register_ffi_target_as_batch_partitionable("test_Normalize")
    for name in ("RunsTypeId", "RunsTypeInfo"):
        getattr(library, name).restype = ctypes.c_void_p
    type_id, type_info = (
        ffi.pycapsule(ctypes.c_void_p(address))
        for address in (library.RunsTypeId(), library.RunsTypeInfo())
    )
    ffi.register_ffi_type("test_runs", {"type_id": type_id, "type_info": type_info})
    stages = {"instantiate": library.MakeRuns, "execute": library.Run}
    ffi.register_ffi_target("test_Run", {k: ffi.pycapsule(f) for k, f in stages.items()})
    library.CountedCalls.restype = ctypes.c_int64
    return library


def struct(*shape):
    return pl.ShapeDtypeStruct(shape, F32)


def normalize(x, *, vmap_method="broadcast_all", eps=0.0):
    types = (struct(*x.shape), struct(*x.shape[:-1]))
    return ffi.ffi_call("test_Normalize", types, vmap_method=vmap_method)(x, eps=F32(eps))


def normalized(x, eps=0.0):
    norms = np.sqrt(np.mean(x.astype(np.float64) ** 2, -1) + eps)
    return (x / norms[..., None]).astype(F32), norms.astype(F32)


X = np.arange(1, 13, dtype=F32).reshape(3, 4)


def test_results_of_symbolic_shapes(library):
    """The native function is called with the shapes that the exported program is called with."""
    checks = [export.DisabledSafetyCheck.custom_call("test_Normalize")]
    n, m = export.symbolic_shape("n, m")
    for function in (normalize, pl.vmap(normalize)):
        exported = export.export(pl.jit(function), disabled_checks=checks)(struct(n, m))
        program = export.deserialize(exported.serialize())
        assert "indices_of_shape_operands = dense<[1, 2]>" in program.mlir_module()
        for x in (X, X[:, :3], X[:1]):
            for result, expected in zip(program.call(x), normalized(x), strict=True):
                np.testing.assert_allclose(result, expected, rtol=1e-6)


@pytest.mark.parametrize("transform", [lambda f: f, pl.jit], ids=["eager", "jit"])
def test_several_results(library, transform):
    results = transform(normalize)(X)
    assert type(results) is tuple
    for result, expected in zip(results, normalized(X), strict=True):
        np.testing.assert_allclose(result, expected, rtol=1e-6)


def test_an_attribute_changes_the_result(library):
    for eps in (0.5, 2.0):
        np.testing.assert_allclose(normalize(X, eps=eps)[1], normalized(X, eps)[1], rtol=1e-6)


def test_results_in_a_list_or_alone(library):
    assert type(ffi.ffi_call("test_InMemory", [struct(3, 4)])(X)) is list
    assert isinstance(ffi.ffi_call("test_InMemory", struct(3, 4))(X), pl.Array)


ATTRIBUTES = {
    "flag": True, "i32": np.int32(10), "i64": 100, "f64": 1000.0, "text": "four",
    "numbers": np.array([20, 30]), "more": {"inner": F32(0.5)},
}  # fmt: skip


def test_attributes_of_every_type(library):
    call = ffi.ffi_call("test_Attributes", struct())
    assert float(call(**ATTRIBUTES)) == 1165.5
    assert float(pl.jit(lambda: call(**{**ATTRIBUTES, "numbers": np.array([1, 2, 3])}))()) == 1121.5


def test_an_attribute_of_another_type_is_another_call(library):
    call = ffi.ffi_call("test_Attributes", struct())
    call(**ATTRIBUTES)
    with pytest.raises(PellucidError, match="expected S64 but got F64"):
        call(**{**ATTRIBUTES, "i64": 100.0})  # equal to the 100 that was compiled


def test_a_missing_attribute(library):
    with pytest.raises(PellucidError, match="expected 1 but got 0"):
        ffi.ffi_call("test_Normalize", (struct(3, 4), struct(3)))(X)


def test_the_message_of_a_handler_that_fails(library):
    types = (struct(), struct())
    with pytest.raises(PellucidError, match="normalize needs a row"):
        ffi.ffi_call("test_Normalize", types)(F32(1), eps=F32(0))[0].block_until_ready()


def test_a_target_that_nobody_registered(library):
    with pytest.raises(PellucidError, match="test_absent"):
        ffi.ffi_call("test_absent", struct())()


# Transformations --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "method", ["sequential", "sequential_unrolled", "expand_dims", "broadcast_all"]
)
@pytest.mark.parametrize("in_axis", [0, 1])
def test_each_way_of_vmap(library, method, in_axis):
    f = pl.vmap(lambda x: normalize(x, vmap_method=method), in_axes=in_axis)
    for transform in (lambda f: f, pl.jit):
        for result, expected in zip(
            transform(f)(X), normalized(np.moveaxis(X, in_axis, 0)), strict=True
        ):
            np.testing.assert_allclose(result, expected, rtol=1e-6)


@pytest.mark.parametrize(
    ("method", "size"),
    [("sequential", 4), ("expand_dims", 4), ("broadcast_all", 12), ("legacy_vectorized", 4)],
)
def test_what_a_value_without_batch_axis_becomes(library, method, size):
    call = ffi.ffi_call("test_Sizes", struct(4), vmap_method=method)
    sizes = pl.vmap(call, in_axes=(0, None))(X, X[0])
    x_size = 4 if method == "sequential" else 12
    np.testing.assert_array_equal(sizes, np.full((3, 4), 100 * x_size + size))


def test_vmap_twice(library):
    x = np.arange(1, 25, dtype=F32).reshape(2, 3, 4)
    np.testing.assert_allclose(pl.vmap(pl.vmap(normalize))(x)[0], normalized(x)[0], rtol=1e-6)


def test_vmap_without_a_method(library):
    with pytest.raises(PellucidError, match=r"`?'?test_Normalize'?`? with vmap_method=None"):
        pl.vmap(lambda x: normalize(x, vmap_method=None))(X)


def test_a_derivative_by_custom_vjp(library):
    @pl.custom_vjp
    def f(x):
        return normalize(x)[0]

    def forward(x):
        y, norm = normalize(x)
        return y, (y, norm)

    def backward(residuals, ct):
        y, norm = residuals
        return ((ct - y * pnp.mean(ct * y, -1, keepdims=True)) / norm[..., None],)

    f.defvjp(forward, backward)

    def definition(x):
        return x / pnp.sqrt(pnp.mean(x * x, -1, keepdims=True))

    weights = np.linspace(-1, 1, 12, dtype=F32).reshape(3, 4)
    gradient, expected = (
        pl.jit(pl.grad(lambda x, g=g: pnp.sum(g(x) * weights)))(X) for g in (f, definition)
    )
    np.testing.assert_allclose(gradient, expected, atol=1e-6)
    batched = pl.vmap(pl.grad(lambda x, w: pnp.sum(f(x) * w)))(X, weights)
    np.testing.assert_allclose(batched, expected, atol=1e-6)


@pytest.mark.parametrize("derivative", [pl.grad, lambda f: lambda x: pl.jvp(f, (x,), (x,))])
def test_no_derivative_of_its_own(library, derivative):
    with pytest.raises(PellucidError, match="ffi_call has no derivative"):
        derivative(lambda x: pnp.sum(normalize(x)[0]))(X)


def test_in_a_loop(library):
    body = lambda x, _: (normalize(x)[0] * 2, None)
    np.testing.assert_allclose(
        lax.scan(body, X, None, length=3)[0], 2 * normalized(X)[0], rtol=1e-6
    )


# Memory -----------------------------------------------------------------------------------------


def test_an_operand_and_a_result_share_memory(library):
    call = ffi.ffi_call("test_InPlace", (struct(3, 4), struct()), input_output_aliases={0: 0})
    apart = ffi.ffi_call("test_InPlace", (struct(3, 4), struct()))
    y, shares = pl.jit(lambda x: call(x * 2))(X)
    np.testing.assert_array_equal(y, 2 * X + 1)
    assert shares == 1
    assert pl.jit(lambda x: apart(x * 2))(X)[1] == 0
    x = pnp.asarray(X)
    np.testing.assert_array_equal(call(x)[0], X + 1)
    np.testing.assert_array_equal(x, X)  # the argument is copied first


@pytest.mark.parametrize("order", [(1, 0), Layout((1, 0))])
def test_layouts_of_operands_and_results(library, order):
    read = ffi.ffi_call("test_InMemory", struct(3, 4), input_layouts=[order])
    np.testing.assert_array_equal(np.ravel(read(X)), np.ravel(X, order="F"))
    written = ffi.ffi_call("test_InMemory", struct(3, 4), output_layouts=order)
    np.testing.assert_array_equal(np.ravel(written(X), order="F"), np.ravel(X))


def test_layouts_of_a_batch(library):
    x = np.stack([X, X + 20])
    call = ffi.ffi_call(
        "test_InMemory", struct(3, 4), input_layouts=[(1, 0)], output_layouts=(1, 0), vmap_method="broadcast_all"
    )  # fmt: skip
    np.testing.assert_array_equal(pl.vmap(call)(x), x)
    read = ffi.ffi_call(
        "test_InMemory", struct(3, 4), input_layouts=[(1, 0)], vmap_method="broadcast_all"
    )
    np.testing.assert_array_equal(
        np.reshape(pl.vmap(read)(x), (2, 12)), [np.ravel(a, order="F") for a in x]
    )


def test_the_older_interface(library):
    call = ffi.ffi_call(
        "test_Older", struct(), custom_call_api_version=3, legacy_backend_config="abc"
    )
    assert float(pl.jit(call)(F32(1))) == 4


def test_state_of_an_instance(library):
    run = pl.jit(ffi.ffi_call("test_Run", struct(), has_side_effect=True))
    assert [int(run()), int(run()), int(run())] == [1, 2, 3]


# Effects and devices ----------------------------------------------------------------------------


def test_a_call_whose_result_nobody_uses(library):
    def f(x, has_side_effect):
        ffi.ffi_call("test_Count", (), has_side_effect=has_side_effect)(x)
        return x

    before = library.CountedCalls()
    pl.block_until_ready(pl.jit(f, static_argnums=1)(X, True))
    assert library.CountedCalls() == before + 12
    pl.block_until_ready(pl.jit(f, static_argnums=1)(X, False))
    assert library.CountedCalls() == before + 12
    assert (
        "ffi_call"
        not in str(pl.make_jaxpr(pl.jit(f, static_argnums=1), static_argnums=1)(X, False)).split(
            "in ("
        )[-1]
    )


def test_batches_over_devices_stay_where_they_are(library):
    mesh = pl.make_mesh((4,), ("a",), axis_types=(AxisType.Auto,), devices=pl.devices()[:4])
    x = pl.device_put(np.tile(X, (4, 1)), NamedSharding(mesh, P("a")))
    f = pl.jit(pl.vmap(normalize))
    y, _ = f(x)
    np.testing.assert_allclose(y, normalized(np.tile(X, (4, 1)))[0], rtol=1e-6)
    assert y.sharding.is_equivalent_to(x.sharding, 2)
    text = f.lower(x).compile().as_text()
    assert "all-gather" not in text
    assert re.search(r"f32\[3,4\].* custom-call\(", text)


def test_devices_and_side_effects(library):
    mesh = pl.make_mesh((4,), ("a",), axis_types=(AxisType.Auto,), devices=pl.devices()[:4])
    x = pl.device_put(np.tile(X, (4, 1)), NamedSharding(mesh, P("a")))

    def count(x):
        ffi.ffi_call("test_Count", (), has_side_effect=True)(x)
        return x

    with pytest.raises(PellucidError, match="side effects"):
        pl.jit(count)(x)
    before = library.CountedCalls()
    pl.jit(pl.shard_map(count, mesh=mesh, in_specs=P("a"), out_specs=P("a")))(x).block_until_ready()
    assert library.CountedCalls() == before + 48  # four calls, of a part each


def test_each_device_calls_with_its_part(library):
    mesh = pl.make_mesh((4,), ("a",), axis_types=(AxisType.Auto,), devices=pl.devices()[:4])
    x = np.tile(X, (4, 1))
    call = ffi.ffi_call("test_Sizes", struct(3, 4))
    f = pl.shard_map(
        lambda x: call(x, x), mesh=mesh, in_specs=P("a"), out_specs=P("a"), check_vma=False
    )
    np.testing.assert_array_equal(pl.jit(f)(x), np.full((12, 4), 1212))


def test_explicit_axes(library):
    mesh = pl.make_mesh((4,), ("a",), axis_types=(AxisType.Explicit,), devices=pl.devices()[:4])
    x = np.tile(X, (4, 1))
    with pl.set_mesh(mesh):
        sharded = pl.device_put(x, NamedSharding(mesh, P("a")))
        y, _ = pl.jit(pl.vmap(normalize))(sharded)
        assert pl.typeof(y).sharding.spec == P("a", None)
        np.testing.assert_allclose(y, normalized(x)[0], rtol=1e-6)
        with pytest.raises(PellucidError, match="ffi_call"):
            pl.jit(normalize)(sharded)


# What a library lowers by -----------------------------------------------------------------------


def test_a_primitive_of_a_library(library):
    from pellucid.extend.core import Primitive
    from pellucid.interpreters import mlir

    p = Primitive("test_normalize")
    p.multiple_results = True
    p.def_abstract_eval(lambda x, eps: [x, x.update(shape=x.shape[:-1])])
    mlir.register_lowering(p, ffi.ffi_lowering("test_Normalize"))
    y, _ = pl.jit(lambda x: p.bind(x, eps=F32(0)))(X)
    np.testing.assert_allclose(y, normalized(X)[0], rtol=1e-6)


# Modules ----------------------------------------------------------------------------------------


def test_results_have_the_dtypes_that_were_stated():
    """The native function writes as many bytes, whether 64-bit dtypes are on or off."""
    wide = [
        pl.ShapeDtypeStruct((3,), np.int64),
        np.zeros(2),
        pl.ShapeDtypeStruct((), np.complex128),
    ]
    call = ffi.ffi_call("t", wide, vmap_method="broadcast_all")
    assert [a.dtype for a in pl.eval_shape(call)] == [np.int64, np.float64, np.complex128]
    assert "tensor<3xi64>" in pl.jit(call).lower().as_text()


def test_attributes_stand_where_tools_read_them():
    def call(x):
        attributes = {
            "a": 1,
            "b": np.dtype(np.float32),
            "c": np.zeros(2, pl.float0),
            "d": {"e": F32(2)},
        }
        return ffi.ffi_call("t", struct())(x, **attributes)

    text = pl.jit(call).lower(X).as_text()
    config = "{a = 1 : i64, b = f32, c = dense<false> : tensor<2xi1>, d = {e = 2.000000e+00 : f32}}"
    assert f"mhlo.backend_config = {config}" in text
    assert 'backend_config = ""' in text
    assert "api_version" not in text


def test_tokens_are_results():
    lowered = pl.jit(lambda: ffi.ffi_call("t", pl.core.abstract_token)()).lower()
    assert "-> !stablehlo.token" in lowered.as_text()


def test_lapack_is_there_without_a_decomposition_before():
    """In a process of its own, which has used no decomposition."""
    program = """if True:
        import numpy as np, pellucid as pl
        a = np.float32([[4, 2], [2, 3]])
        call = pl.ffi.ffi_call(
            "lapack_spotrf_ffi", (pl.ShapeDtypeStruct((2, 2), a.dtype), pl.ShapeDtypeStruct((), np.int32)),
            input_layouts=[(1, 0)], output_layouts=[(1, 0), ()], input_output_aliases={0: 0},
        )
        result, info = call(a, uplo=np.uint8(ord("L")))
        assert int(info) == 0
        np.testing.assert_allclose(np.tril(result), np.linalg.cholesky(a), rtol=1e-6)
    """
    subprocess.run([sys.executable, "-c", program], check=True)


# Mistakes ---------------------------------------------------------------------------------------

OK = struct(3, 4)


@pytest.mark.parametrize(
    ("mistake", "error", "message"),
    [
        (lambda: ffi.ffi_call("t", OK, vmap_method="x"), ArgumentValueError, "doesn't know this vmap_method"),
        (lambda: ffi.ffi_call("t", 3), ArgumentValueError, "result 0: int"),
        (lambda: ffi.ffi_call("t", OK, legacy_backend_config="a"), ArgumentValueError, "api_version=4"),
        (lambda: ffi.ffi_call("t", OK, custom_call_api_version=2)(X, a=1), ArgumentValueError, "attributes a"),
        (lambda: ffi.ffi_call("t", OK)(X, a=object()), ArgumentTypeError, "attributes of native functions"),
        (lambda: ffi.ffi_call("t", OK, input_layouts=[])(X), ArgumentValueError, "0 layouts for 1 operands"),
        (lambda: ffi.ffi_call("t", OK, output_layouts=(0,)), ArgumentValueError, "each dimension"),
        (
            lambda: ffi.ffi_call("t", OK, input_layouts=[Layout((0, 1), ((8, 128),))])(X),
            ArgumentValueError, "no layouts with tiles",
        ),
        (lambda: ffi.ffi_call("t", OK, input_output_aliases={1: 0})(X), ArgumentValueError, "1: 0"),
        (lambda: ffi.ffi_call("t", struct(3), input_output_aliases={0: 0})(X), ArgumentValueError, "one shape"),
        (
            lambda: ffi.ffi_call("t", OK, input_layouts=[(1, 0)], input_output_aliases={0: 0})(X),
            ArgumentValueError, "one layout",
        ),
        (lambda: ffi.register_ffi_target("t", print), ArgumentTypeError, "builtin_function"),
        (lambda: ffi.register_ffi_target("t", {"run": 1}), ArgumentTypeError, "run: int"),
        (
            lambda: ffi.register_ffi_target("t", ffi.pycapsule(ctypes.CDLL(None).abs), "vax"),
            ArgumentValueError, "vax",
        ),
        (lambda: ffi.register_ffi_type("t", 3), ArgumentTypeError, "int"),
        (lambda: ffi.pycapsule(3.5), ArgumentTypeError, "float"),
        (lambda: ffi.ffi_lowering("t", extra=1), ArgumentTypeError, "extra"),
    ],
)  # fmt: skip
def test_mistakes(mistake, error, message):
    with pytest.raises(error, match=message):
        mistake()


def test_what_jax_says_of_the_same_calls():
    f = lambda x: ffi.ffi_call("t", (OK, struct(3)), vmap_method="expand_dims")(x, eps=F32(1))
    text = str(pl.make_jaxpr(pl.vmap(f))(np.zeros((2, 3, 4), F32)))
    for param in (
        "attributes=(('eps', np.float32(1.0)),)", "input_layouts=((2, 1, 0),)", "output_layouts=((2, 1, 0), (1, 0))",
        "target_name=t", "vmap_method=expand_dims",
    ):  # fmt: skip
        assert param in text

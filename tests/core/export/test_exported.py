"""Functions are exported, called and serialized."""

import collections
import re
from typing import NamedTuple

import numpy as np
import pytest

import pellucid as pl
import pellucid.numpy as jnp
from pellucid import export, lax
from pellucid._machine.base.errors import UnsupportedError
from pellucid._machine.ir.effects import Effect, OrderedIOEffect
from pellucid._machine.xla.mlir import ir, new_context
from pellucid.experimental import pallas
from pellucid.export.checks import STABLE_CUSTOM_CALLS, check_custom_calls
from pellucid.export.flatbuffers import encode
from pellucid.export.serialization import _effect, _effect_name

X = np.linspace(-1, 1, 6, dtype=np.float32).reshape(2, 3)


def f(x, y=2.0):
    return jnp.sin(x) * y


@pytest.fixture(scope="module")
def exported():
    return export.export(pl.jit(f))(X)


def test_fields(exported):
    assert exported.fun_name == "f"
    assert str(exported) == "Exported(fun_name=f, ...)"
    assert exported.in_tree == pl.tree.structure(((X,), {}))
    assert [a.text() for a in exported.out_avals] == ["f32[2,3]"]
    assert exported.nr_devices == 1
    assert exported.module_kept_var_idx == (0,)
    assert exported.platforms == (export.default_export_platform(),) == ("cpu",)
    assert not exported.uses_global_constants
    assert exported.ordered_effects == ()
    assert "stablehlo.sine" in exported.mlir_module()
    assert 'loc("x")' in exported.mlir_module()
    assert "stablehlo.sine" in str(exported.mlir_module(serialized=False))


def test_calls_take_the_types_of_the_export(exported):
    np.testing.assert_allclose(exported.call(X), f(X), rtol=1e-6)
    np.testing.assert_allclose(
        pl.jit(lambda x: exported.call(2 * x) + 1)(X), f(2 * X) + 1, rtol=1e-6
    )
    for x, message in (
        (X[0], r"args\[0\]: exported for f32\[2,3\], got f32\[3\]"),
        (X.astype(np.int32), r"got i32\[2,3\]"),
    ):
        with pytest.raises(export.ExportError, match=message):
            exported.call(x)
    with pytest.raises(export.ExportError, match="another structure"):
        exported.call(X, 3.0)
    with pytest.raises(UnsupportedError, match="vmap can't batch a call of the exported `f`"):
        pl.vmap(exported.call)(np.stack([X, X]))


def test_the_same_program_has_the_same_bytes():
    first, second = (export.export(pl.jit(lambda x: x @ x.T))(X) for _ in range(2))
    assert first.serialize() == second.serialize()


def test_derivatives(exported):
    again = export.deserialize(exported.serialize(vjp_order=1))
    for e in (exported, again):
        np.testing.assert_allclose(
            pl.grad(lambda x, e=e: e.call(x).sum())(X), 2 * np.cos(X), rtol=1e-6
        )
    with pytest.raises(export.ExportError, match="`f_vjp` has no derivative"):
        pl.grad(lambda x: pl.grad(lambda x: again.call(x).sum())(x).sum())(X)
    with pytest.raises(TypeError):
        pl.jvp(exported.call, (X,), (X,))
    with pytest.raises(export.ExportError, match="no derivative"):
        export.deserialize(exported.serialize()).serialize(vjp_order=1)


def test_integers_have_no_derivative():
    def g(x, n, flags):
        return x * n, n + 1

    n, flags = np.int32(3), np.array([True])
    e = export.deserialize(export.export(pl.jit(g))(X, n, flags).serialize(vjp_order=1))
    gradient = pl.grad(lambda x: e.call(x, n, flags)[0].sum())(X)
    np.testing.assert_array_equal(gradient, np.full_like(X, 3))
    assert [a.dtype for a in e.vjp().out_avals] == [np.float32, pl.float0, pl.float0]


def test_arguments_that_are_not_used_and_static_ones():
    e = export.export(pl.jit(lambda n, x, unused: x + n, static_argnums=0))(3, X, X)
    assert e.module_kept_var_idx == (0,)
    np.testing.assert_array_equal(e.call(X, X), X + 3)
    np.testing.assert_array_equal(pl.grad(lambda x: e.call(x, X).sum())(X), np.ones_like(X))


def test_values_that_are_closed_over_are_in_the_file():
    table = jnp.arange(6.0).reshape(2, 3)
    e = export.export(pl.jit(lambda x: x + table))(X)
    np.testing.assert_array_equal(export.deserialize(e.serialize()).call(X), X + table)


def test_loops_and_calls():
    @pl.jit
    def step(x):
        return x * 0.5 + 1

    def g(x):
        x = lax.fori_loop(0, 3, lambda _, x: step(x), x)
        x, ys = lax.scan(lambda x, y: (step(x) + y, x), x, jnp.arange(4.0))
        return lax.cond(x.sum() > 0, step, lambda x: x, x), ys

    e = export.export(pl.jit(g), platforms=["cpu", "tpu"])(X)
    for x, y in zip(pl.tree.leaves(e.call(X)), pl.tree.leaves(g(X)), strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-6)
    gradients = [pl.grad(lambda x, h=h: h(x)[1].sum())(X) for h in (e.call, g)]
    np.testing.assert_allclose(*gradients, rtol=1e-6)


def test_several_platforms():
    @pl.jit
    def inner(x):
        return lax.platform_dependent(x, cpu=jnp.sin, tpu=jnp.cos, default=jnp.tan) + 1

    e = export.export(pl.jit(lambda x: inner(inner(x)) * 2), platforms=("tpu", "cpu", "gpu"))(X)
    assert e.platforms == ("tpu", "cpu", "cuda")
    assert e.uses_global_constants
    text = e.mlir_module()
    assert text.count("stablehlo.case") == 1  # in the one function that is called twice
    assert 'jax.global_constant = "_platform_index"' in text
    np.testing.assert_allclose(e.call(X), 2 * (np.sin(np.sin(X) + 1) + 1), rtol=1e-6)
    again = export.export(pl.jit(lambda x: e.call(x) + 1), platforms=["cpu", "tpu"])(X)
    np.testing.assert_allclose(again.call(X), e.call(X) + 1, rtol=1e-6)


def test_platforms_that_are_not_here():
    e = export.export(pl.jit(f), platforms=["tpu"])(X)
    with pytest.raises(export.ExportError, match="can't run on the platform 'cpu'"):
        e.call(X)
    allowed = export.export(
        pl.jit(f), platforms=["tpu"], disabled_checks=[export.DisabledSafetyCheck.platform()]
    )(X)
    np.testing.assert_allclose(export.deserialize(allowed.serialize()).call(X), f(X), rtol=1e-6)


def test_programs_for_several_devices_need_them():
    mesh = pl.make_mesh((2,), ("x",))
    place = pl.NamedSharding(mesh, pl.P("x"))
    e = export.export(pl.jit(lambda x: x + 1, in_shardings=place))(X)
    assert e.nr_devices == 2
    with pytest.raises(
        export.ExportError, match=r"runs on 2 devices\.\n  called in a program of 1 device"
    ):
        e.call(X)
    np.testing.assert_array_equal(e.call(pl.device_put(X, place)), X + 1)


@pytest.mark.parametrize(
    "call",
    [
        lambda x: pl.debug.print("{}", x),
        lambda x: pl.pure_callback(np.sin, pl.ShapeDtypeStruct(x.shape, x.dtype), x),
    ],
    ids=["print", "pure_callback"],
)
def test_python_functions_are_refused(call):
    with pytest.raises(NotImplementedError, match="calls Python functions of this process"):
        export.export(pl.jit(lambda x: call(x)))(X)


def test_references_from_outside_are_refused():
    ref = pl.new_ref(jnp.zeros(3))

    @pl.jit
    def g(x):
        ref[...] = x
        return x

    with pytest.raises(export.UnexportableError, match="references that exist outside"):
        export.export(g)(np.ones(3, np.float32))


def test_unstable_native_code_is_refused():
    with new_context():
        module = ir.Module.parse(
            """func.func @main(%x: tensor<f32>) -> tensor<f32> {
                 %y = stablehlo.custom_call @my_kernel(%x) : (tensor<f32>) -> tensor<f32>
                 %z = stablehlo.custom_call @lapack_sgetrf_ffi(%y) : (tensor<f32>) -> tensor<f32>
                 return %z : tensor<f32> }"""
        )
    with pytest.raises(
        export.ExportError, match=r"(?s)native code.*custom call 'my_kernel'"
    ) as info:
        check_custom_calls("f", module, ())
    assert "lapack" not in str(info.value)
    check = export.DisabledSafetyCheck.custom_call("my_kernel")
    check_custom_calls("f", module, [check])
    assert len(STABLE_CUSTOM_CALLS) == 88


def test_disabled_checks_are_values_and_travel():
    check, other = (
        export.DisabledSafetyCheck.custom_call("a"),
        export.DisabledSafetyCheck.platform(),
    )
    assert check == export.DisabledSafetyCheck.custom_call("a") != other
    assert check.is_custom_call() == "a"
    assert other.is_custom_call() is None
    e = export.export(pl.jit(f), disabled_checks=[check, other])(X)
    assert set(export.deserialize(e.serialize()).disabled_safety_checks) == {check, other}


def test_functions_must_be_jitted():
    with pytest.raises(ValueError, match="export needs a jitted function"):
        export.export(f)


class State(NamedTuple):
    mean: float
    count: float


class Pair:
    def __init__(self, items, label):
        self.items, self.label = items, label


pl.tree_util.register_pytree_node(
    Pair, lambda p: (p.items, p.label), lambda label, items: Pair(items, label)
)
export.register_namedtuple_serialization(State, serialized_name="tests.State")
export.register_pytree_node_serialization(
    Pair,
    serialized_name="tests.Pair",
    serialize_auxdata=str.encode,
    deserialize_auxdata=bytes.decode,
)


@pytest.mark.parametrize(
    "tree",
    [
        State(1.0, 2.0),
        Pair([1.0, {"a": None}], "label"),
        collections.OrderedDict(b=1.0, a=2.0),
        [(), {}, None],
    ],
    ids=lambda t: type(t).__name__,
)
def test_trees(tree):
    e = export.export(pl.jit(lambda t: (t, [t])))(tree)
    again = export.deserialize(e.serialize())
    assert (again.in_tree, again.out_tree) == (e.in_tree, e.out_tree)


def test_trees_that_are_not_registered():
    class Other(NamedTuple):
        x: float

    e = export.export(pl.jit(lambda t: t))(Other(1.0))
    with pytest.raises(export.SerializationError, match="Other` can't be serialized"):
        e.serialize()
    with pytest.raises(export.SerializationError, match="key 1 of type int"):
        export.export(pl.jit(lambda t: t))({1: X}).serialize()
    with pytest.raises(ValueError, match="registered for serialization already"):
        export.register_namedtuple_serialization(State, serialized_name="x")
    with pytest.raises(ValueError, match="class of a named tuple"):
        export.register_namedtuple_serialization(dict, serialized_name="y")
    with pytest.raises(ValueError, match="that is a tree, or `from_children`"):
        export.register_pytree_node_serialization(
            set, serialized_name="z", serialize_auxdata=bytes, deserialize_auxdata=bytes
        )


@pytest.mark.parametrize("data", [b"", b"nothing", bytes(100), encode({1: "f"})])
def test_other_bytes_are_refused(data):
    with pytest.raises(export.SerializationError, match="no exported program"):
        export.deserialize(data)


class MadeAnew(Effect):
    def __eq__(self, other):
        return type(other) is type(self)

    def __hash__(self):
        return hash(type(self))


def test_effects_are_made_anew():
    assert _effect(_effect_name(MadeAnew())) == MadeAnew()
    with pytest.raises(export.SerializationError, match="must make an equal effect"):
        _effect_name(OrderedIOEffect())
    with pytest.raises(export.SerializationError, match=re.escape("<class 'a.B'>")):
        _effect("<class 'a.B'>")


def test_programs_with_guards_are_written_and_go_without_them():
    def copy(order_ref, x_ref, o_ref):
        o_ref[...] = x_ref[...]

    spec = pallas.tpu.PrefetchScalarGridSpec(
        num_scalar_prefetch=1,
        grid=(3,),
        in_specs=[pallas.BlockSpec((None, 3), lambda i, order: (order[i], 0))],
        out_specs=pallas.BlockSpec((None, 3), lambda i, order: (i, 0)),
    )
    result = pl.ShapeDtypeStruct((3, 3), np.float32)
    chosen = pl.jit(pallas.pallas_call(copy, result, grid_spec=spec))
    e = export.export(chosen)(np.zeros(3, np.int32), X)
    assert e.unordered_effects == ()
    again = export.deserialize(e.serialize())
    np.testing.assert_array_equal(again.call(np.array([1, 0, 1]), X), X[[1, 0, 1]])
    # Nothing raises in an exported program: the block that isn't there is undefined.
    np.testing.assert_array_equal(
        again.call(np.array([1, 0, 5]), X), [X[1], X[0], np.full(3, np.nan)]
    )


def test_damaged_files_raise_one_error():
    """A flipped bit in a program would end the process in the compiler."""
    data = bytes(
        pl.export.export(pl.jit(lambda x: {"y": x + 1}))(np.float32(1)).serialize(vjp_order=1)
    )
    for bit in (*range(0, 8 * len(data), 97), *range(8 * len(data) - 320, 8 * len(data), 5)):
        damaged = bytearray(data)
        damaged[bit // 8] ^= 1 << bit % 8
        with pytest.raises(export.SerializationError, match=r"damaged|no exported program"):
            pl.export.deserialize(damaged)
    for length in (*range(0, len(data), 101), len(data) - 40, len(data) - 1):
        with pytest.raises(export.SerializationError, match=r"damaged|no exported program"):
            pl.export.deserialize(data[:length])
    assert pl.export.deserialize(data).call(np.float32(1))["y"] == 2


def test_functions_close_over_keys():
    key = pl.random.key(3)
    exported = export.export(pl.jit(lambda x: x + pl.random.uniform(key, (3,))))(X[0])
    np.testing.assert_array_equal(exported.call(X[0]), X[0] + pl.random.uniform(key, (3,)))


def test_compiled_functions_of_the_library_are_exported():
    for f in (jnp.sin, jnp.exp, jnp.add):
        args = (X, X) if f is jnp.add else (X,)
        np.testing.assert_allclose(export.export(f)(*args).call(*args), f(*args))


def test_platforms_of_plugins_that_are_not_here_are_taken():
    exported = export.export(pl.jit(jnp.sin), platforms=("cpu", "other"))(X)
    assert exported.platforms == ("cpu", "other")
    np.testing.assert_allclose(exported.call(X), np.sin(X), rtol=1e-6)
    with pytest.raises(export.ExportError, match="can't run on the platform 'cpu'"):
        export.export(pl.jit(jnp.sin), platforms=("other",))(X).call(X)
    with pytest.raises(TypeError, match="sequence of platforms"):
        export.export(pl.jit(jnp.sin), platforms="cpu")


def test_greatest_elements_of_several_platforms_and_of_symbolic_numbers():
    several = export.export(
        pl.jit(lambda x: lax.approx_max_k(x, 2)), platforms=("cpu", "cuda", "tpu")
    )(X[0])
    assert [a.tolist() for a in several.call(X[0])] == [[X[0, 2], X[0, 1]], [2, 1]]
    struct = pl.ShapeDtypeStruct(export.symbolic_shape("b"), np.float32)
    for f, x, expected in (
        (lax.top_k, [2, np.nan, 3, 3, -1], [[np.nan, 3, 3, 2], [1, 2, 3, 0]]),
        (lax.approx_min_k, [2, 3, 3, -1], [[-1, 2, 3], [3, 0, 1]]),
    ):
        exported = export.export(pl.jit(lambda x, f=f: f(x, x.shape[0] - 1)))(struct)
        np.testing.assert_array_equal(np.stack(exported.call(np.float32(x))), expected)


def test_constraints_and_squeezes_of_unknown_sizes_are_refused():
    struct = pl.ShapeDtypeStruct(export.symbolic_shape("m", constraints=["m >= m1"]), np.float32)
    with pytest.raises(
        export.ExportError, match="the dimension variable m1, which no argument has"
    ):
        export.export(pl.jit(lambda x: x))(struct)
    unknown = pl.ShapeDtypeStruct(export.symbolic_shape("b, 1"), np.float32)
    with pytest.raises(pl.errors.InconclusiveDimensionOperation, match="needs `axis`"):
        export.export(pl.jit(jnp.squeeze))(unknown)
    known = pl.ShapeDtypeStruct(export.symbolic_shape("b, 1", constraints=["b >= 2"]), np.float32)
    assert len(export.export(pl.jit(jnp.squeeze))(known).out_avals[0].shape) == 1


def _over_one_device(name):
    """A function of eight numbers, exported for one device that it names by a mesh."""
    of_one = pl.sharding.Mesh(np.array(pl.devices()[:1]), ("x",))
    over = pl.sharding.NamedSharding(of_one, pl.P("x"))
    struct = pl.ShapeDtypeStruct((8,), np.float32)
    if name == "argument":
        return export.export(pl.jit(jnp.sin, in_shardings=over))(struct)
    if name == "result":
        return export.export(pl.jit(jnp.sin, out_shardings=over))(struct)
    if name == "one of two":
        both = export.export(pl.jit(lambda x, y: jnp.sin(x) * y, in_shardings=(over, None)))
        return both(struct, pl.ShapeDtypeStruct((), np.float32))
    return export.export(pl.jit(lambda x: lax.with_sharding_constraint(jnp.sin(x), over)))(struct)


@pytest.mark.parametrize("named", ["argument", "result", "one of two", "constraint"])
@pytest.mark.parametrize("spec", [None, pl.P(), pl.P("i")])
def test_programs_of_a_mesh_of_one_device_run_over_several(named, spec):
    exported = _over_one_device(named)
    x = jnp.arange(8.0)
    if spec is not None:
        x = pl.device_put(x, pl.sharding.NamedSharding(pl.make_mesh((4,), ("i",)), spec))
    rest = (jnp.float32(1),) * (named == "one of two")
    again = export.deserialize(exported.serialize(vjp_order=1))
    for each in exported, again:
        for call in each.call, pl.jit(each.call):
            result = call(x, *rest)
            assert result.devices() == x.devices()
            np.testing.assert_allclose(result, np.sin(np.arange(8.0)), rtol=1e-6)
            slope = pl.grad(lambda x, call=call: call(x, *rest).sum())(x)
            np.testing.assert_allclose(slope, np.cos(np.arange(8.0)), rtol=1e-6)


def test_captured_arrays_have_their_type_in_the_program() -> None:
    numbers, indices = np.arange(3.0), np.array([2, 0])
    assert numbers.dtype == np.float64
    assert indices.dtype == np.int64

    def function(x):
        return jnp.multiply(numbers, x), jnp.add(indices, 1)

    x = np.float32(2)
    found = export.export(pl.jit(function))(x).call(x)
    assert [result.dtype for result in found] == [np.float32, np.int32]
    np.testing.assert_array_equal(found[0], [0, 2, 4])
    np.testing.assert_array_equal(found[1], [3, 1])

"""Dimension numbers, dtypes and precision of products."""

import re

import ml_dtypes
import numpy as np
import pytest

import pellucid
import pellucid.numpy as jnp
from pellucid import lax
from pellucid._machine.base import config
from pellucid._machine.base.errors import CompilationError, DtypeError
from pellucid._machine.ir.rewriting import constants_as_inputs
from pellucid._machine.lowering.module import ModuleOptions, lower_module
from pellucid._machine.primitives.precision import product_dtype
from pellucid._machine.tracing.operands import type_of
from pellucid._machine.tracing.staging import stage
from pellucid.sharding import AxisType

MATRICES = (((1,), (0,)), ((), ()))
X = np.ones((2, 3), np.float32)
Y = np.ones((3, 4), np.float32)


def lowered(function, operands, platform="cpu") -> str:
    """The StableHLO of a function."""
    jaxpr, _ = stage(lambda *xs: [function(*xs)], [type_of(x) for x in operands])
    return str(lower_module(constants_as_inputs(jaxpr), ModuleOptions("test", (platform,))).module)


@pytest.mark.parametrize(
    ("dims", "message"),
    [
        ((((0,), (0,)), ((), ())), "contracted axes of equal size"),
        ((((1,), (0,)), ((0,), (1,))), "batch axes of equal size"),
        ((((1, 1), (0, 0)), ((), ())), "axis of lhs twice"),
        ((((1,), (0,)), ((1,), (1,))), "axis of lhs twice"),
        ((((-1,), (0,)), ((), ())), "axis that lhs lacks"),
        ((((1,), (7,)), ((), ())), "axis that rhs lacks"),
        ((((1, 0), (0,)), ((), ())), "contracted axes of equal size"),
    ],
)
def test_axes_that_do_not_fit_are_named(dims, message) -> None:
    with pytest.raises(TypeError, match=message) as caught:
        lax.dot_general(X, Y, dims)
    assert "f32[2,3]" in str(caught.value)


def test_dimension_numbers_are_pairs_of_pairs() -> None:
    with pytest.raises(ValueError, match="no dimension numbers"):
        lax.dot_general(X, Y, ((1,), (0,)))
    result = lax.dot_general(X, Y, [[[np.int64(1)], [0]], [[], []]])
    assert result.shape == (2, 4)


def test_dot_takes_vectors_and_matrices_only() -> None:
    with pytest.raises(ValueError, match="vectors or matrices"):
        lax.dot(X[None], Y)
    with pytest.raises(ValueError, match="equal rank"):
        lax.batch_matmul(X[None], Y)


# Dtypes -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("lhs", "rhs", "expected"),
    [
        ("int8", "uint8", "int8"),
        ("uint32", "int16", "uint32"),
        ("bool", "int4", "int4"),
        ("int32", "float8_e4m3fn", "float8_e4m3fn"),
        ("float16", "bfloat16", "bfloat16"),
        ("float8_e4m3fn", "float8_e5m2", "float8_e5m2"),
        ("float64", "complex64", "complex64"),
    ],
)
def test_the_wider_range_decides(lhs, rhs, expected) -> None:
    dtypes = [np.dtype(getattr(ml_dtypes, n, None) or n) for n in (lhs, rhs, expected)]
    assert product_dtype(dtypes[0], dtypes[1], None, "dot_general") == dtypes[2]
    assert product_dtype(dtypes[1], dtypes[0], None, "dot_general") == dtypes[2]


def test_dtypes_of_equal_range_are_refused() -> None:
    pair = np.dtype(ml_dtypes.float8_e5m2), np.dtype(ml_dtypes.float8_e5m2fnuz)
    with pytest.raises(TypeError, match="can't choose"):
        product_dtype(*pair, None, "dot_general")


def test_integers_are_not_narrowed() -> None:
    with pytest.raises(TypeError, match="must not be narrower"):
        lax.dot_general(
            X.astype(np.int32), Y.astype(np.int32), MATRICES, preferred_element_type=np.int8
        )
    assert lax.dot_general(X, Y, MATRICES, preferred_element_type=np.float16).dtype == np.float16


def test_a_product_of_reals_has_no_tangent_if_it_is_an_integer() -> None:
    def product(x):
        return lax.dot_general(x, Y, MATRICES, preferred_element_type=np.int32)

    _, tangent = pellucid.jvp(product, (X,), (X,))
    assert tangent.dtype == pellucid.dtypes.float0


def test_the_cotangent_of_a_complex_operand_is_complex_though_the_product_is_real() -> None:
    x, y = X * (1 + 1j), Y * (2 - 1j)

    def real_part(x):
        return lax.dot_general(x, y, MATRICES, preferred_element_type=np.float32).sum()

    expected = pellucid.grad(lambda x: lax.real(lax.dot_general(x, y, MATRICES)).sum())(x)
    # XLA's older emitters, by which most tests compile quickly, can't convert complex numbers to real ones.
    options = {"xla_cpu_use_fusion_emitters": True}
    derivative = pellucid.jit(pellucid.grad(real_part), compiler_options=options)
    np.testing.assert_allclose(derivative(x), expected)


# Precision ----------------------------------------------------------------------------------------


def test_names_of_precisions() -> None:
    highest = lax.Precision.HIGHEST
    assert lax.Precision("float32") is lax.Precision("highest") is highest
    assert (str(highest), repr(highest)) == ("HIGHEST", "Precision.HIGHEST")
    with pytest.raises(ValueError, match="foo"):
        lax.Precision("foo")


@pytest.mark.parametrize(
    "precision", ["foo", 3, ("high",), ("high", None), ("high", lax.Precision.HIGH)]
)
def test_what_is_no_precision_is_refused(precision) -> None:
    with pytest.raises(ValueError, match="no precision"):
        lax.dot_general(X, Y, MATRICES, precision=precision)


def test_the_option_is_the_default() -> None:
    def text() -> str:
        return str(pellucid.make_jaxpr(lambda x, y: lax.dot_general(x, y, MATRICES))(X, Y))

    assert "precision" not in text()
    with config.default_matmul_precision("high"):
        assert "precision=(Precision.HIGH, Precision.HIGH)" in text()
    with config.default_matmul_precision("BF16_BF16_F32"):
        assert "precision=BF16_BF16_F32" in text()


@pytest.mark.parametrize("name", sorted(lax.DotAlgorithmPreset.__members__))
@pytest.mark.parametrize("platform", ["cpu", "cuda", "tpu"])
def test_algorithms_lower_where_the_platform_has_them(name, platform) -> None:
    preset = lax.DotAlgorithmPreset[name]
    dtype = ml_dtypes.float8_e4m3fn if "F8" in name else np.float32
    operands = X.astype(dtype), Y.astype(dtype)

    def product(x, y):
        return lax.dot_general(x, y, MATRICES, precision=preset, preferred_element_type=np.float32)

    on_cpu = {"DEFAULT", "F16_F16_F16", "F32_F32_F32", "F64_F64_F64", "BF16_BF16_F32"}
    on_cpu |= {"BF16_BF16_F32_X3", "BF16_BF16_F32_X6"}
    if platform == "cpu" and name not in on_cpu:
        with pytest.raises(CompilationError, match=name):
            lowered(product, operands, platform)
        return
    text = lowered(product, operands, platform)
    assert ("algorithm" in text) == (name != "DEFAULT")
    if "X3" in name:
        assert "num_primitive_operations = 3" in text


def test_algorithms_for_float8_refuse_other_operands() -> None:
    with pytest.raises(DtypeError, match="float8"):
        lowered(
            lambda x, y: lax.dot_general(x, y, MATRICES, precision="ANY_F8_ANY_F8_F32"),
            (X, Y),
            "cuda",
        )


def test_algorithms_refuse_complex_operands() -> None:
    with pytest.raises(DtypeError, match="real operands"):
        lax.dot_general(X * 1j, Y * 1j, MATRICES, precision="F32_F32_F32")


def test_an_algorithm_in_parts_equals_its_preset() -> None:
    parts = lax.DotAlgorithm(np.float32, np.float32, np.float32)
    by_parts = lowered(lambda x, y: lax.dot_general(x, y, MATRICES, precision=parts), (X, Y))
    assert by_parts == lowered(
        lambda x, y: lax.dot_general(x, y, MATRICES, precision="F32_F32_F32"), (X, Y)
    )
    unknown = lax.DotAlgorithm(np.float16, np.float16, np.float64)
    with pytest.raises(CompilationError, match="DotAlgorithm"):
        lax.dot_general(X, Y, MATRICES, precision=unknown)


def test_supported_types_of_presets() -> None:
    presets = lax.DotAlgorithmPreset
    assert presets.F16_F16_F32.supported_output_types(np.float16, np.float16) == (
        np.float32,
        np.float16,
    )
    assert presets.F16_F16_F32.supported_output_types(np.float32, np.float16) == (np.float32,)
    assert presets.DEFAULT.supported_lhs_types is None
    assert presets.BF16_BF16_F32.supported_rhs_types == (ml_dtypes.bfloat16, np.float32)
    assert presets.F64_F64_F64.accumulation_type is np.float64


# Ragged products ----------------------------------------------------------------------------------


def numbers(ragged=(0,), group=(0,)):
    """Dimension numbers of `ragged_dot`, with something else in them."""
    return lax.RaggedDotDimensionNumbers((((1,), (1,)), ((), ())), ragged, group)


@pytest.mark.parametrize(
    ("dims", "sizes", "message"),
    [
        (numbers(ragged=(0, 1)), [1, 2], "one ragged axis"),
        (numbers(ragged=(3,)), [1, 2], "one ragged axis"),
        (numbers(group=()), [1, 2], "one group axis"),
        (numbers(group=(1,)), [1, 2], "one group axis"),
        (numbers(ragged=(1,)), [1, 2], "no group axis"),
        (numbers(), [1, 2, 3], "2 groups, group_sizes 3"),
        (numbers(), [[1, 2]], "one vector"),
        (numbers(), 3, "a vector of group sizes"),
        (numbers(), [1.0, 2.0], "integers as group sizes"),
    ],
)
def test_groups_that_do_not_fit_are_refused(dims, sizes, message) -> None:
    x, y = np.ones((6, 3), np.float32), np.ones((2, 3, 4), np.float32)
    with pytest.raises(TypeError, match=message):
        lax.ragged_dot_general(x, y, np.asarray(sizes), dims)


def test_group_offsets_are_refused() -> None:
    with pytest.raises(NotImplementedError, match="offset"):
        lax.ragged_dot(X, Y[None], np.array([2]), group_offset=np.array([0]))


def test_scales_that_do_not_fit_are_refused() -> None:
    x, y = np.ones((2, 64), np.float32), np.ones((64, 4), np.float32)
    with pytest.raises(TypeError, match="a divisor of their size"):
        lax.scaled_dot(x, y, lhs_scale=np.ones((2, 3), np.float32))
    with pytest.raises(TypeError, match="rank 2, or two of rank 3"):
        lax.scaled_dot(x[0], y)


def test_scaled_products_have_derivatives() -> None:
    x, y = np.ones((2, 4), np.float32), np.ones((4, 3), np.float32)
    scale = np.full((2, 2), 2, np.float32)

    def total(x):
        return lax.scaled_dot(x, y, lhs_scale=scale, preferred_element_type=np.float32).sum()

    np.testing.assert_allclose(pellucid.grad(total)(x), np.full((2, 4), 6.0))


NEIGHBOURS = (((0, 1), (1, 2)), ((2,), (0,)))


def test_contracted_neighbours_are_merged_on_one_cpu() -> None:
    x, y = np.ones((2, 3, 5, 7), np.float32), np.ones((5, 2, 3, 4), np.float32)

    def product(x, y):
        return lax.dot_general(x, y, NEIGHBOURS)

    on_cpu = lowered(product, (x, y))
    assert "contracting_dims = [0] x [1]" in on_cpu
    assert "batching_dims = [1] x [0]" in on_cpu
    assert "contracting_dims = [0, 1] x [1, 2]" in lowered(product, (x, y), "cuda")
    np.testing.assert_array_equal(product(x, y), np.full((5, 7, 4), 6, np.float32))


@pytest.mark.parametrize("dims", [((0, 2), (0, 2)), ((1, 0), (1, 0)), ((0, 1), (1, 0))])
def test_contracted_axes_that_are_no_neighbours_in_order_stay(dims) -> None:
    x = np.arange(8, dtype=np.float32).reshape(2, 2, 2)
    numbers = (dims, ((), ()))
    assert "stablehlo.reshape" not in lowered(lambda x: lax.dot_general(x, x, numbers), (x,))
    np.testing.assert_array_equal(lax.dot_general(x, x, numbers), np.tensordot(x, x, dims))


def test_ragged_dot_on_cpus_copies_no_operand_for_each_group():
    lhs, rhs, sizes = (
        np.ones((256, 64), np.float32),
        np.ones((32, 64, 8), np.float32),
        np.full(32, 8),
    )
    compiled = pellucid.jit(lax.ragged_dot).lower(lhs, rhs, sizes).compile()
    assert compiled.memory_analysis().temp_size_in_bytes < lhs.nbytes * 4
    back = (
        pellucid.jit(pellucid.grad(lambda *x: lax.ragged_dot(*x, sizes).sum(), (0, 1)))
        .lower(lhs, rhs)
        .compile()
    )
    assert back.memory_analysis().temp_size_in_bytes < lhs.nbytes * 16
    assert "callback" not in pellucid.jit(lax.ragged_dot).lower(lhs, rhs, sizes).as_text()


def test_ragged_dot_of_groups_that_end_behind_the_rows_or_hold_no_number():
    lhs, rhs = (
        np.ones((6, 2), np.float32),
        np.stack([np.full((2, 3), n, np.float32) for n in (1, 2, np.nan)]),
    )
    found = lax.ragged_dot(lhs, rhs, np.array([2, 3, 0]))
    np.testing.assert_array_equal(found[:, 0], [2, 2, 4, 4, 4, 0])
    found = lax.ragged_dot(lhs, rhs[:2], np.array([2, 30]))
    np.testing.assert_array_equal(found[:, 0], [2, 2, 4, 4, 4, 4])


ROWS_IN_GROUPS = lax.RaggedDotDimensionNumbers((((0,), (0,)), ((), ())), [0], [])
RAGGED = np.random.default_rng(0).integers(0, 3, size=(70, 3))
RAGGED_MATRICES = np.random.default_rng(1).integers(0, 3, size=(3, 3, 2))
RAGGED_OTHERS = np.random.default_rng(2).integers(0, 3, size=(70, 2))


def products_of_groups(sizes):
    """(each row times the matrix of its group, for each group its rows times its other rows), by NumPy."""
    rows, groups = np.zeros((70, 2), int), []
    for end, size, matrix in zip(np.cumsum(sizes), sizes, RAGGED_MATRICES, strict=True):
        own = slice(end - size, end)
        rows[own] = RAGGED[own] @ matrix
        groups.append(RAGGED[own].T @ RAGGED_OTHERS[own])
    return rows, np.stack(groups)


@pytest.mark.parametrize("dtype", [np.int8, np.uint64, np.int32])
@pytest.mark.parametrize("sizes", [[10, 127, 5], [100, 2, 3], [69, 0, 1], [0, 0, 0]])
def test_groups_that_begin_or_end_behind_the_rows_have_products_of_their_rows(sizes, dtype):
    wanted = products_of_groups(sizes)
    lhs, matrices, others = [x.astype(np.float32) for x in (RAGGED, RAGGED_MATRICES, RAGGED_OTHERS)]
    given = np.array(sizes, dtype)
    np.testing.assert_array_equal(lax.ragged_dot(lhs, matrices, given), wanted[0])
    found = lax.ragged_dot_general(lhs, others, given, ROWS_IN_GROUPS)
    np.testing.assert_array_equal(found, wanted[1])


@pytest.mark.parametrize(
    ("dtype", "preferred"),
    [
        ("float8_e4m3fn", None), ("float8_e5m2", "float32"), ("int4", None), ("bool", None), ("uint8", None),
        ("bfloat16", "float32"), ("complex64", None),
    ],
)  # fmt: skip
def test_products_of_groups_have_all_dtypes_of_products(dtype, preferred):
    dtype = np.dtype(dtype)
    lhs, matrices, others = [
        (x > 0).astype(dtype) for x in (RAGGED, RAGGED_MATRICES, RAGGED_OTHERS)
    ]
    sizes = np.array([2, 0, 3])
    result = np.dtype(preferred or dtype)
    wide = complex if dtype.kind == "c" else int
    rows, own = lhs.astype(wide), [slice(0, 2), slice(2, 2), slice(2, 5)]
    wanted = np.zeros((70, 2), wide)
    for part, matrix in zip(own, matrices.astype(wide), strict=True):
        wanted[part] = rows[part] @ matrix
    found = lax.ragged_dot(lhs, matrices, sizes, preferred_element_type=preferred)
    assert found.dtype == result
    np.testing.assert_array_equal(np.asarray(found), wanted.astype(result))
    found = lax.ragged_dot_general(
        lhs, others, sizes, ROWS_IN_GROUPS, preferred_element_type=preferred
    )
    wanted = np.stack([rows[part].T @ others.astype(wide)[part] for part in own])
    np.testing.assert_array_equal(np.asarray(found), wanted.astype(result))


def test_sums_of_groups_are_as_wide_as_the_result():
    lhs, matrices = np.full((1, 4), 2**30, np.int32), np.ones((1, 4, 1), np.int32)
    with pellucid.enable_x64():
        found = lax.ragged_dot(lhs, matrices, np.array([1]), preferred_element_type=np.int64)
    assert int(found[0, 0]) == 2**32


def test_rows_of_each_position_of_a_mesh_are_multiplied_in_groups_and_back():
    mesh = pellucid.make_mesh((2,), ("a",), (AxisType.Auto,), devices=pellucid.devices()[:2])
    lhs, matrices = RAGGED.astype(np.float32), RAGGED_MATRICES.astype(np.float32)
    sizes = np.array([[10, 0, 5], [0, 40, 3]])
    rows, whole = pellucid.P("a"), pellucid.P()
    product = pellucid.shard_map(
        lambda lhs, matrices, sizes: lax.ragged_dot(lhs, matrices, sizes[0]),
        mesh=mesh, in_specs=(rows, whole, rows), out_specs=rows,
    )  # fmt: skip

    def each(lhs, matrices, sizes):
        parts = [lax.ragged_dot(lhs[35 * i : 35 * i + 35], matrices, sizes[i]) for i in (0, 1)]
        return lax.concatenate(parts, 0)

    for mapped, plain in (
        (product, each),
        *[
            [pellucid.grad(lambda *x, f=f: (f(*x) ** 2).sum(), axis) for f in (product, each)]
            for axis in (0, 1)
        ],
    ):
        np.testing.assert_array_equal(mapped(lhs, matrices, sizes), plain(lhs, matrices, sizes))


# Over Explicit axes ------------------------------------------------------------------------------------------------

ROWS = np.random.default_rng(0).normal(size=(8, 4)).astype(np.float32)
STACK = np.random.default_rng(1).normal(size=(2, 4, 8)).astype(np.float32)
OTHERS = np.random.default_rng(2).normal(size=(8, 6)).astype(np.float32)
GROUPS = np.array([3, 4], np.int32)
P = pellucid.P


@pytest.fixture
def explicit_mesh():
    mesh = pellucid.make_mesh((2, 2), ("x", "y"), (pellucid.sharding.AxisType.Explicit,) * 2)
    with pellucid.set_mesh(mesh):
        yield mesh


def square(function):
    return lambda *xs: (function(*xs) ** 2).sum()


@pytest.mark.parametrize(
    ("of_rows", "of_matrices", "stated", "expected"),
    [
        (P(), P(), None, P(None, None)),
        (P(), P(None, None, "x"), None, P(None, "x")),
        (P(), P(None, None, ("x", "y")), P(None, "x"), P(None, "x")),
        (P(None, "x"), P(None, "x"), P(), P(None, None)),
        (P(None, "x"), P(None, "x", "y"), P("x"), P("x", None)),
        (P("x"), P(), P("x"), P("x", None)),
        (P(), P("x"), P(None, "y"), P(None, "y")),
    ],
)  # fmt: skip
def test_layouts_of_ragged_products(explicit_mesh, of_rows, of_matrices, stated, expected):
    function = lambda x, y: lax.ragged_dot(x, y, GROUPS, out_sharding=stated)
    operands = pellucid.device_put(ROWS, of_rows), pellucid.device_put(STACK, of_matrices)
    found = pellucid.jit(function)(*operands)
    assert pellucid.typeof(found).sharding.spec == expected
    plain = lambda x, y: lax.ragged_dot(x, y, GROUPS)
    slopes = pellucid.jit(pellucid.grad(square(function), (0, 1)))(*operands)
    for slope, operand in zip(slopes, operands, strict=True):
        assert pellucid.typeof(slope).sharding.spec == pellucid.typeof(operand).sharding.spec
    with pellucid.set_mesh(None):
        wanted = plain(ROWS, STACK), *pellucid.grad(square(plain), (0, 1))(ROWS, STACK)
    for x, y in zip((found, *slopes), wanted, strict=True):
        np.testing.assert_allclose(np.asarray(x), np.asarray(y), rtol=1e-5, atol=1e-5)


def test_layouts_of_products_over_groups_and_of_batches(explicit_mesh):
    dims = lax.RaggedDotDimensionNumbers((((0,), (0,)), ((), ())), [0], [])
    operands = pellucid.device_put(ROWS, P(None, "x")), pellucid.device_put(OTHERS, P(None, "y"))
    found = lax.ragged_dot_general(*operands, GROUPS, dims)
    assert pellucid.typeof(found).sharding.spec == P(None, "x", "y")
    wanted = np.stack([ROWS[:3].T @ OTHERS[:3], ROWS[3:7].T @ OTHERS[3:7]])
    np.testing.assert_allclose(np.asarray(found), wanted, rtol=1e-5, atol=1e-5)
    slopes = pellucid.grad(square(lambda x, y: lax.ragged_dot_general(x, y, GROUPS, dims)), (0, 1))(*operands)  # fmt: skip
    assert [pellucid.typeof(x).sharding.spec for x in slopes] == [P(None, "x"), P(None, "y")]
    # Axes of batches, whose groups may differ.
    batches = [np.stack([x, x[::-1]]) for x in (ROWS, STACK, GROUPS)]
    placed = [pellucid.device_put(x, P("y", *rest)) for x, rest in zip(batches, [(), (None, None, "x"), ()], strict=True)]  # fmt: skip
    found = pellucid.vmap(lax.ragged_dot)(*placed)
    assert pellucid.typeof(found).sharding.spec == P("y", None, "x")
    for i in range(2):
        np.testing.assert_allclose(np.asarray(found)[i], multiply_rows(*(x[i] for x in batches)), rtol=1e-5, atol=1e-5)  # fmt: skip


def multiply_rows(x, y, sizes):
    groups = np.repeat(np.arange(len(sizes)), sizes)
    return np.stack([*(row @ y[g] for row, g in zip(x, groups, strict=False)), *np.zeros((len(x) - len(groups), y.shape[2]))])  # fmt: skip


@pytest.mark.parametrize(
    ("of_rows", "of_matrices", "stated", "message"),
    [
        (P("x"), P(), None, "must not be sharded"),
        (P(), P("x"), None, "must not be sharded"),
        (P(None, "x"), P(None, "x"), None, "contracting dimensions are sharded"),
        (P(None, "x"), P(None, "x"), P(unreduced={"x"}), "can't take or give addends"),
        (P(reduced={"x"}), P(), None, "can't take or give addends"),
    ],
)
def test_layouts_that_ragged_products_refuse(explicit_mesh, of_rows, of_matrices, stated, message):
    operands = pellucid.device_put(ROWS, P()), pellucid.device_put(STACK, of_matrices)
    operands = pellucid.reshard(operands[0], of_rows), operands[1]
    with pytest.raises(pellucid.errors.ShardingTypeError, match=message):
        lax.ragged_dot(*operands, GROUPS, out_sharding=stated)


def test_layouts_of_scaled_products(explicit_mesh):
    x, y = (jnp.asarray(v, "bfloat16") for v in (ROWS, STACK[0]))
    scale = jnp.ones((8, 2))
    found = lax.scaled_dot(pellucid.device_put(x, P("x")), pellucid.device_put(y, P(None, "y")), lhs_scale=pellucid.device_put(scale, P("x")))  # fmt: skip
    assert pellucid.typeof(found).sharding.spec == P("x", "y")
    with pytest.raises(pellucid.errors.ShardingTypeError, match="must not be sharded"):
        lax.scaled_dot(pellucid.device_put(x, P(None, "x")), y, lhs_scale=scale)


@pytest.mark.parametrize("platform", ["cuda", "tpu"])
def test_text_of_ragged_products(platform):
    gradient = pellucid.jit(pellucid.grad(square(lambda x, y: lax.ragged_dot(x, y, GROUPS)), (0, 1)))  # fmt: skip
    text = gradient.trace(ROWS, STACK).lower(lowering_platforms=(platform,)).as_text()
    numbers = re.findall(r"chlo\.ragged_dot.*?#chlo\.ragged_dot<(.*?)>", text, re.DOTALL)
    # The product, the cotangents of the matrices and of the rows.
    assert [" ".join(n.split()) for n in numbers] == [
        "lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [1], lhs_ragged_dimensions = [0], rhs_group_dimensions = [0]",
        "lhs_contracting_dimensions = [0], rhs_contracting_dimensions = [0], lhs_ragged_dimensions = [0]",
        "lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [2], lhs_ragged_dimensions = [0], rhs_group_dimensions = [0]",
    ]  # fmt: skip

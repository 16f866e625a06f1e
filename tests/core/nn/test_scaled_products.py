"""Products of quantized operands are the reference's, with their gradients."""

import re
import warnings

import numpy as np
import pytest
from corpus import scaled_products as corpus

import pellucid as pl
import pellucid.numpy as jnp
from pellucid import lax, nn
from pellucid._machine.base.errors import DtypeError
from pellucid._machine.compilation.pipeline import compile_without_devices
from pellucid._machine.xla import plugins

NUMBERS = (((1,), (1,)), ((), ()))
MXFP8 = [nn.get_scaled_dot_general_config("mxfp8")] * 3


def test_scaled_products_are_products_of_scaled_operands() -> None:
    x = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    scales = np.array([[[1, 2]] * 3, [[3, 0.5]] * 3], np.float32)
    scaled = x * np.repeat(scales, 2, axis=-1)
    result = pl.jit(nn.scaled_matmul)(x, x, scales, scales)
    np.testing.assert_allclose(result, np.einsum("bmk,bnk->bmn", scaled, scaled), rtol=1e-6)


E4M3, E8M0, E2M1 = "float8_e4m3fn", "float8_e8m0fnu", "float4_e2m1fn"
FORMATS = {"mxfp8": (E4M3, E8M0, 32), "nvfp4": (E2M1, E4M3, 16)}


def narrow_operands(elements: str, scale: str, block: int, m: int = 6, n: int = 4):
    """Operands and scales of `scaled_matmul` that their dtypes hold exactly."""
    rng = np.random.default_rng(1)
    sides = [rng.integers(-2, 3, (2, rows, 64)) for rows in (m, n)]
    scales = [2.0 ** rng.integers(-2, 3, (2, rows, 64 // block)) for rows in (m, n)]
    return [*(jnp.asarray(x, "float32").astype(elements) for x in sides), *(jnp.asarray(s, "float32").astype(scale) for s in scales)]  # fmt: skip


@pytest.mark.parametrize("name", FORMATS)
def test_derivatives_and_batches_of_scaled_products(name: str) -> None:
    operands = [x.astype("float32") for x in narrow_operands(*FORMATS[name])]
    slopes = pl.grad(lambda *xs: jnp.sin(nn.scaled_matmul(*xs)).sum(), argnums=(0, 1, 2, 3))(
        *operands
    )

    def written_out(x, y, s, t):
        scaled = [a * jnp.repeat(b, a.shape[-1] // b.shape[-1], -1) for a, b in ((x, s), (y, t))]
        return jnp.sin(jnp.einsum("bmk,bnk->bmn", *scaled)).sum()

    expected = pl.grad(written_out, argnums=(0, 1, 2, 3))(*operands)
    for slope, wanted in zip(slopes, expected, strict=True):
        np.testing.assert_allclose(slope, wanted, rtol=1e-4, atol=1e-4)
    several = [jnp.stack([x, x[::-1]]) for x in operands]
    np.testing.assert_array_equal(
        pl.vmap(nn.scaled_matmul, in_axes=(0, None, 0, None))(several[0], operands[1], several[2], operands[3])[1],
        nn.scaled_matmul(several[0][1], operands[1], several[2][1], operands[3]),
    )  # fmt: skip


CALL = r"block_scaled_dot\(.*dequantize_type\\22:\\22(\w+)"


def text_for_gpus(function, *operands) -> str:
    """StableHLO for NVIDIA GPUs."""
    return pl.jit(function).trace(*operands).lower(lowering_platforms=("cuda",)).as_text()


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize(("dtype", "said"), [("float32", "F32"), ("bfloat16", "BF16"), ("float16", "F16")])  # fmt: skip
def test_one_operation_on_gpus(name: str, dtype: str, said: str) -> None:
    operands = narrow_operands(*FORMATS[name])
    function = lambda *xs: nn.scaled_matmul(*xs, preferred_element_type=dtype)
    assert re.findall(CALL, text_for_gpus(function, *operands)) == [said]
    wide = [x.astype("float32") for x in operands]
    np.testing.assert_array_equal(function(*operands), function(*wide))


def test_arithmetic_on_gpus_of_what_they_have_no_operation_for() -> None:
    e4m3 = narrow_operands(E4M3, E8M0, 16), narrow_operands(E4M3, "float32", 32)
    wide = [x.astype("float32") for x in narrow_operands(*FORMATS["mxfp8"])]
    for operands in (*e4m3, wide):
        assert "custom_call" not in text_for_gpus(nn.scaled_matmul, *operands)


def test_quantized_products_on_gpus_are_such_operations() -> None:
    loss = lambda x, y: nn.scaled_dot_general(x, y, NUMBERS, configs=MXFP8).sum()
    x = jnp.ones((32, 32))
    assert re.findall(CALL, text_for_gpus(loss, x, x)) == ["F32"]
    assert re.findall(CALL, text_for_gpus(pl.grad(loss, (0, 1)), x, x)) == ["F32"] * 2


@pytest.mark.parametrize("name", [*FORMATS, "one wide operand", "other blocks", "two axes"])
def test_scaled_dot_on_gpus(name: str) -> None:
    """XLA's operation where its formats are known; in all cases with the definition beside it, which other platforms take."""
    elements, scale, block = FORMATS.get(name, FORMATS["mxfp8"])
    block = 16 if name == "other blocks" else block
    lhs, rhs, *scales = narrow_operands(elements, scale, block)
    numbers = (((2,), (2,)), ((0,), (0,)))
    options = {"lhs_scale": scales[0], "rhs_scale": scales[1]}
    if name == "one wide operand":
        rhs = rhs.astype("bfloat16")
        del options["rhs_scale"]
    if name == "two axes":
        numbers = (((0, 2), (0, 2)), ((), ()))
    function = lambda x, y: pl.lax.scaled_dot(x, y, dimension_numbers=numbers, **options)
    is_known = name not in ("other blocks", "two axes")
    assert ('composite "xla.scaled_dot"' in text_for_gpus(function, lhs, rhs)) == is_known
    exact = pl.lax.scaled_dot(lhs.astype("float32"), rhs.astype("float32"), dimension_numbers=numbers, **options)  # fmt: skip
    np.testing.assert_array_equal(function(lhs, rhs), exact)


@pytest.mark.skipif(plugins.cuda_plugin() is None, reason="the CUDA plugin is not installed: the extra `gpu-aot`")  # fmt: skip
@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("devices", [1, 2])
def test_compilation_for_gpus(name: str, devices: int) -> None:
    gpu = pl.sharding.AbstractDevice("NVIDIA H100 80GB HBM3", None, "gpu")
    mesh = pl.sharding.AbstractMesh((devices,), ("x",), abstract_device=gpu)
    placed = pl.NamedSharding(mesh, pl.P("x" if devices > 1 else None))
    operands = narrow_operands(*FORMATS[name])
    args = [pl.ShapeDtypeStruct(x.shape, x.dtype, sharding=placed) for x in operands]
    for function in (
        nn.scaled_matmul,
        lambda x, y, s, t: pl.lax.scaled_dot(
            x, y, lhs_scale=s, rhs_scale=t, dimension_numbers=(((2,), (2,)), ((0,), (0,)))
        ),
    ):
        executable = compile_without_devices(pl.jit(function).lower(*args)._lowered)
        text = executable.hlo_modules()[0].to_string()
        assert "all-" not in text
        assert function is not nn.scaled_matmul or "__cublas$lt$matmul" in text


def test_products_and_gradients_are_those_of_the_reference(oracle) -> None:
    answers = oracle.call_each(corpus.products, corpus.CASES)
    for case, expected in zip(corpus.CASES, answers, strict=True):
        for ours, theirs in zip(corpus.product(pl, *case), expected, strict=True):
            # An element at the edge of two numbers of the narrow format may be rounded to either.
            difference, size = np.abs(ours - theirs), np.max(np.abs(theirs))
            assert np.max(difference) <= 2e-2 * size, case
            assert np.mean(difference) <= 2e-4 * size, case


def test_modes_may_differ() -> None:
    x = np.random.default_rng(0).standard_normal((32, 32)).astype(np.float32)
    halved = nn.get_scaled_dot_general_config("nvfp4", jnp.array([0.5]))

    def square(x, configs=None):
        return nn.scaled_dot_general(x, x, NUMBERS, configs=configs)

    configs = [MXFP8[0], halved, MXFP8[0]]
    slope, exact = (pl.grad(lambda x, c=c: square(x, c).sum())(x) for c in (configs, None))
    for ours, expected in ((square(x, configs), square(x)), (slope, exact)):
        np.testing.assert_allclose(ours, expected, atol=0.12 * np.max(np.abs(expected)))


def test_axes_may_be_in_any_order_and_batches_nest() -> None:
    rng = np.random.default_rng(0)
    lhs, rhs = rng.standard_normal((4, 2, 3, 16)), rng.standard_normal((2, 16, 5, 4))
    numbers = (((3, 0), (1, 3)), ((1,), (0,)))
    result = nn.scaled_dot_general(lhs, rhs, numbers, configs=MXFP8)
    exact = nn.scaled_dot_general(lhs, rhs, numbers)
    assert result.shape == exact.shape == (2, 3, 5)
    np.testing.assert_allclose(result, exact, atol=0.1 * np.max(np.abs(exact)))
    batched = pl.vmap(lambda x: nn.scaled_dot_general(x, x, NUMBERS, configs=MXFP8))
    x = jnp.asarray(rng.standard_normal((2, 32, 32)), "float32")
    np.testing.assert_allclose(
        batched(x)[1], nn.scaled_dot_general(x[1], x[1], NUMBERS, configs=MXFP8), 1e-6
    )


def test_blocks_of_zeros_subnormals_and_infinities() -> None:
    ones = np.ones((1, 32), np.float32)
    for size, expected in ((0.0, 0.0), (1e-38, 0.0), (1e30, 3.2e31), (np.inf, np.nan)):
        result = nn.scaled_dot_general(size * ones, ones, NUMBERS, configs=MXFP8)
        np.testing.assert_allclose(result[0, 0], expected, 0.05, 1e-35)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda x: nn.get_scaled_dot_general_config("fp8"), ValueError, "mode"),
        (lambda x: nn.scaled_dot_general(x, x, NUMBERS, configs=MXFP8), ValueError, "multiple of 32"),
        (lambda x: nn.scaled_dot_general(x, x[:, :8], NUMBERS, configs=MXFP8), ValueError, "same sizes"),
        (lambda x: nn.scaled_matmul(x[None], x[None, :, :8], x[None, :, :1], x[None, :, :1]), ValueError, r"\[B, N, K\]"),
        (lambda x: nn.scaled_dot_general(x, x, NUMBERS, "int32", MXFP8), TypeError, "only return float32"),
        (lambda x: nn.scaled_dot_general(x, x, NUMBERS, configs=MXFP8[:1]), ValueError, "configs of"),
        (
            lambda x: pl.grad(lambda y: nn.scaled_dot_general(y, y, NUMBERS, configs=MXFP8[:2]).sum())(jnp.ones((2, 32))),
            ValueError,
            "third config",
        ),
    ],
)  # fmt: skip
def test_errors(call, error, message) -> None:
    with pytest.raises(error, match=message):
        call(np.ones((2, 20), np.float32))


def ones_with_scales(dtype=np.float32):
    x = np.ones((1, 2, 4), dtype)
    return x, x, x[..., :2], x[..., :2]


def test_names_of_dtypes_with_more_bits_are_those_that_are_available():
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        result = nn.scaled_matmul(*ones_with_scales(), preferred_element_type=np.float64)
    assert result.dtype == np.float32
    assert len(found) == 1
    assert nn.scaled_matmul(*ones_with_scales(), preferred_element_type=float).dtype == np.float32
    assert (
        nn.scaled_matmul(*ones_with_scales(np.int8), preferred_element_type=int).dtype == np.int32
    )


@pytest.mark.parametrize("position", range(4))
def test_no_part_of_the_operands_numbers_is_dropped(position):
    operands = [*ones_with_scales()]
    operands[position] = operands[position] * (1 + 2j)
    with pytest.raises(DtypeError, match="of complex64"):
        nn.scaled_matmul(*operands)
    result = nn.scaled_matmul(*operands, preferred_element_type="complex64")
    assert np.array_equal(result, np.full((1, 2, 2), 4 + 8j))
    operands = [*ones_with_scales(np.int8)]
    operands[position] = operands[position] * np.float32(0.5)
    with pytest.raises(DtypeError, match="of float32"):
        nn.scaled_matmul(*operands, preferred_element_type=np.int32)
    assert np.array_equal(nn.scaled_matmul(*operands), np.full((1, 2, 2), 2))


@pytest.mark.parametrize("dtype", [None, "nope", pl.random.key(0).dtype])
def test_only_dtypes_of_numbers(dtype):
    with pytest.raises(DtypeError):
        nn.scaled_matmul(*ones_with_scales(np.int8), preferred_element_type=dtype)


def test_scaled_dot_drops_no_imaginary_parts_and_no_fractions():
    x = np.ones((2, 4), np.float32)
    for operands in ((x * 1j, x.T), (x, x.T * 1j)):
        with pytest.raises(DtypeError, match="imaginary"):
            lax.scaled_dot(*operands)
    with pytest.raises(DtypeError, match="imaginary"):
        lax.scaled_dot(x, x.T, lhs_scale=x[:, :2] * 1j)
    with pytest.raises(DtypeError, match="fractions"):
        lax.scaled_dot(x, x.T, preferred_element_type=np.int32)

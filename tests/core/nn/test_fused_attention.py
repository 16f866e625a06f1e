"""Attention by cuDNN: its plain form against the other implementation, its call in programs for GPUs, and what is refused."""

import json
import re

import numpy as np
import pytest

import pellucid as pl
import pellucid.numpy as jnp
from pellucid._machine.compilation.pipeline import compile_without_devices
from pellucid._machine.xla import plugins

B, T, S, N, K, H = 2, 12, 16, 4, 2, 8
RNG = np.random.default_rng(0)


def array(*shape):
    return jnp.asarray(RNG.normal(size=shape), "bfloat16")


QUERY, KEY, VALUE = array(B, T, N, H), array(B, S, K, H), array(B, S, K, H)
BIAS = np.asarray(array(1, N, T, S))
CASES = {
    "plain": {},
    "causal": {"is_causal": True},
    "window": {"local_window_size": (3, 0)},
    "window ahead": {"local_window_size": (2, 1)},
    "causal window": {"local_window_size": (2, 1), "is_causal": True},
    "mask": {"mask": RNG.random((B, 1, T, S)) < 0.9},
    "bias": {"bias": BIAS},
    "bias of each example": {"bias": np.asarray(array(B, 1, T, S)), "mask": RNG.random((1, N, 1, S)) < 0.9},
    "numbers of queries": {"query_seq_lengths": np.array([9, 12])},
    "numbers of keys": {"key_value_seq_lengths": np.array([5, 16]), "is_causal": True},
    "scale": {"scale": 0.1},
    "scale on a device": {"scale": jnp.float32(0.25)},
}  # fmt: skip


def attention(implementation, **options):
    return lambda q, k, v: pl.nn.dot_product_attention(
        q, k, v, implementation=implementation, **options
    )


def loss(implementation, **options):
    function = attention(implementation, **options)
    return lambda q, k, v: (function(q, k, v).astype(np.float32) ** 2).sum()


def assert_same(make, *args):
    """`make("cudnn")` gives what `make("xla")` gives, up to the rounding of bfloat16."""
    found, expected = (pl.tree.leaves(make(name)(*args)) for name in ("cudnn", "xla"))
    for x, y in zip(found, expected, strict=True):
        assert (x.shape, x.dtype) == (y.shape, y.dtype)
        np.testing.assert_allclose(np.float32(x), np.float32(y), atol=2e-2, rtol=1e-2)


@pytest.mark.parametrize("name", CASES)
def test_values_and_gradients_are_those_of_the_plain_form(name):
    options = CASES[name]
    assert_same(lambda how: attention(how, **options), QUERY, KEY, VALUE)
    assert_same(lambda how: pl.grad(loss(how, **options), argnums=(0, 1, 2)), QUERY, KEY, VALUE)


@pytest.mark.parametrize("dims", [(0, 0, 0), (0, None, None), (None, 1, None)])
@pytest.mark.parametrize("name", ["plain", "bias", "bias of each example", "numbers of keys"])
def test_batches(name, dims):
    batches = [
        x if d is None else jnp.stack([x, x * 0.5, x + 0.25], d)
        for x, d in zip((QUERY, KEY, VALUE), dims, strict=True)
    ]
    options = CASES[name]
    assert_same(lambda how: pl.vmap(attention(how, **options), dims), *batches)
    assert_same(lambda how: pl.vmap(pl.grad(loss(how, **options)), dims), *batches)


@pytest.mark.parametrize("dims", [(0, 0, 0), (0, None, None), (None, 0, None)])
def test_batches_of_single_examples(dims):
    """What all elements share has a batch axis of size 1, as a bias that all share has."""
    example, bias = (QUERY[:1], KEY[:1], VALUE[:1]), np.asarray(BIAS)
    batches = [
        x if d is None else jnp.stack([x, x * 0.5]) for x, d in zip(example, dims, strict=True)
    ]
    sum_of = lambda how: lambda q, k, v: attention(how, bias=bias)(q, k, v).astype(np.float32).sum()
    gradient = lambda how: pl.vmap(pl.grad(sum_of(how), argnums=(0, 1, 2)), dims)
    assert_same(gradient, *batches)
    [(_, _, types)] = calls_of(pl.vmap(attention("cudnn", bias=bias), dims), *batches)
    assert re.findall(r"tensor<(\d)", types) == ["2", "2", "2", "1"]


@pytest.mark.parametrize("dims", [(0, 0), (None, 0), (0, None)])
def test_gradients_by_the_bias(dims):
    bias = array(1, 1, T, S)
    batches = [
        x if d is None else jnp.stack([x, x * 0.5])
        for x, d in zip((bias, QUERY), dims, strict=True)
    ]

    def of_bias(how):
        gradient = pl.grad(lambda bias, q: loss(how, bias=bias)(q, KEY, VALUE))
        return pl.vmap(gradient, dims)

    assert_same(of_bias, *batches)


def test_residuals_and_single_examples():
    assert_same(lambda how: attention(how, return_residual=True), QUERY, KEY, VALUE)
    single = QUERY[0], KEY[0], VALUE[0]
    mask = np.tri(T, S, dtype=bool)
    assert_same(lambda how: attention(how, mask=mask, return_residual=True), *single)


def calls_of(function, *args):
    """(target, configuration, operand types) of each call of cuDNN in a program for GPUs."""
    text = pl.jit(function).trace(*args).lower(lowering_platforms=("cuda",)).as_text()
    found = re.findall(r'custom_call @__cudnn\$fmha(\w+)\(.*backend_config = "(.*?)", .*: \((.*?)\) ->', text)  # fmt: skip
    return [
        (name, json.loads(config.replace("\\22", '"'))["cudnn_fmha_backend_config"], types)
        for name, config, types in found
    ]


@pytest.mark.parametrize(
    ("name", "target", "mask_type", "window"),
    [
        ("plain", "Softmax", "NO_MASK", 0),
        ("causal", "Softmax", "CAUSAL", 0),
        ("window", "Softmax", "CAUSAL", 4),
        ("window ahead", "ScaleBiasSoftmax", "NO_MASK", 0),
        ("causal window", "Softmax", "CAUSAL", 3),
        ("mask", "ScaleBiasSoftmax", "NO_MASK", 0),
        ("bias", "ScaleBiasSoftmax", "NO_MASK", 0),
        ("numbers of queries", "Softmax", "PADDING", 0),
        ("numbers of keys", "Softmax", "PADDING_CAUSAL", 0),
    ],
)
def test_calls_in_programs_for_gpus(name, target, mask_type, window):
    gradient = pl.grad(loss("cudnn", **CASES[name]), argnums=(0, 1, 2))
    (forward, *_), (backward, *_) = calls = calls_of(gradient, QUERY, KEY, VALUE)
    assert (forward, backward) == (target, f"{target}Backward")
    for _, config, _ in calls:
        assert (config["mask_type"], config["sliding_window_length"]) == (mask_type, window)
        assert config["fmha_scale"] == pytest.approx(H**-0.5)
        shape = config["intermediate_tensor_shape"]
        assert (shape["element_type"], shape["dimensions"]) == ("BF16", [*map(str, (B, N, T, S))])


def test_operands_of_the_backward_call():
    options = CASES["bias"] | CASES["numbers of keys"]
    _, (_, config, types) = calls_of(pl.grad(loss("cudnn", **options)), QUERY, KEY, VALUE)
    q, k, sums, bias, lengths = "2x12x4x8xbf16", "2x16x2x8xbf16", "2x4x12xf32", "1x4x12x16xbf16", "2xi32"  # fmt: skip
    expected = [q, k, k, sums, q, bias, q, lengths, lengths]
    assert re.findall(r"tensor<(\w+)>", types) == expected
    assert config["bmm1_grad_gemm1_dot_dimension_numbers"] == {
        "lhs_contracting_dimensions": ["2"], "rhs_contracting_dimensions": ["1"],
        "lhs_batch_dimensions": ["0", "1"], "rhs_batch_dimensions": ["0", "2"],
    }  # fmt: skip


def test_explicit_axes():
    mesh = pl.make_mesh((2, 2), ("x", "y"), (pl.sharding.AxisType.Explicit,) * 2)
    with pl.set_mesh(mesh):
        by_heads = pl.P("x", None, "y")
        q, k = (pl.device_put(x, by_heads) for x in (QUERY, jnp.repeat(KEY, 2, 2)))
        result = attention("cudnn", is_causal=True)(q, k, k)
        assert pl.typeof(result).sharding.spec == pl.P("x", None, "y", None)
        slope = pl.grad(loss("cudnn", is_causal=True))(q, k, k)
        assert pl.typeof(slope).sharding.spec == pl.P("x", None, "y", None)
        with pytest.raises(pl.errors.ShardingTypeError, match="must not be sharded"):
            attention("cudnn")(q, pl.device_put(KEY, pl.P("x")), pl.device_put(VALUE, pl.P("x")))
    expected = attention("xla", is_causal=True)(QUERY, *[jnp.repeat(KEY, 2, 2)] * 2)
    np.testing.assert_allclose(np.float32(result), np.float32(expected), atol=2e-2)


@pytest.mark.parametrize(
    ("message", "call"),
    [
        ("all of bfloat16", lambda: attention("cudnn")(*[x.astype("float32") for x in (QUERY, KEY, VALUE)])),
        ("8 divides", lambda: attention("cudnn")(*[x[..., :5] for x in (QUERY, KEY, VALUE)])),
        ("8 divides", lambda: attention("cudnn")(*[jnp.repeat(x, 64, 3) for x in (QUERY, KEY, VALUE)])),
        ("no arrays without elements", lambda: attention("cudnn")(QUERY[:0], KEY[:0], VALUE[:0])),
        ("differentiated takes even numbers", lambda: pl.grad(loss("cudnn"))(QUERY[:, 1:], KEY, VALUE)),
        ("a mask takes even numbers", lambda: attention("cudnn", mask=np.True_)(QUERY, KEY[:, 1:], VALUE[:, 1:])),
        ("reverse mode only", lambda: pl.grad(lambda s: pl.grad(lambda s: loss("cudnn")(QUERY * s, KEY, VALUE))(s))(1.0)),
    ],
)  # fmt: skip
def test_what_cudnn_does_not_take(message, call):
    with pytest.raises(NotImplementedError, match=message):
        call()


@pytest.mark.skipif(plugins.cuda_plugin() is None, reason="the CUDA plugin is not installed: the extra `gpu-aot`")  # fmt: skip
@pytest.mark.parametrize("devices", [1, 2])
@pytest.mark.parametrize("name", CASES)
def test_compilation_for_gpus(name, devices):
    gpu = pl.sharding.AbstractDevice("NVIDIA H100 80GB HBM3", None, "gpu")
    mesh = pl.sharding.AbstractMesh((devices,), ("x",), abstract_device=gpu)
    placed = pl.NamedSharding(mesh, pl.P("x" if devices > 1 else None))
    args = [pl.ShapeDtypeStruct(x.shape, x.dtype, sharding=placed) for x in (QUERY, KEY, VALUE)]
    gradient = pl.grad(loss("cudnn", **CASES[name]), argnums=(0, 1, 2))
    executable = compile_without_devices(pl.jit(gradient).lower(*args)._lowered)
    text = executable.hlo_modules()[0].to_string()
    assert text.count('custom_call_target="__cudnn$fmha') == 2
    assert not re.search(r"all-(gather|to-all)", text)

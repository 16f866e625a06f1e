"""Attention by cuDNN in all its forms: plain forms against definitions, calls in programs for GPUs against the reference's, what is refused."""

import json
import pathlib
import re
import subprocess
import sys

import numpy as np
import pytest

import pellucid as pl
import pellucid.numpy as jnp
from pellucid._machine.compilation.pipeline import compile_without_devices
from pellucid._machine.xla import GpuFacts, plugins
from pellucid.experimental import cudnn
from pellucid.experimental.cudnn import AttentionLayout, MaskType
from pellucid.introspect.bodies import programs_within
from pellucid.nn.cudnn_support import Form, check_gpu

FOLDER = pathlib.Path(__file__).parent
sys.path.insert(0, str(FOLDER))
import calls  # noqa: E402

RNG = np.random.default_rng(0)
B, T, S, N, K, H, D = 2, 12, 16, 4, 2, 16, 24
attend = cudnn.dot_product_attention


def array(*shape, dtype="bfloat16"):
    return jnp.asarray(RNG.normal(size=shape), dtype)


QUERY, KEY, VALUE = array(B, T, N, H), array(B, S, K, H), array(B, S, K, D)


def by_definition(q, k, v, scale=1.0, allowed=None, bias=0.0, factors=1.0):
    """Attention [B, T, N, D] in float64, as its formula says; 0 where nothing is attended to."""
    q, k, v = (np.asarray(x, np.float64) for x in (q, k, v))
    k, v = (np.repeat(x, q.shape[2] // x.shape[2], 2) for x in (k, v))
    logits = np.einsum("btnh,bsnh->bnts", q, k) * scale + bias
    allowed = np.broadcast_to(True if allowed is None else allowed, logits.shape)
    powers = np.where(allowed, np.exp(logits - logits.max(-1, keepdims=True)), 0)
    weights = powers / np.maximum(powers.sum(-1, keepdims=True), 1e-300) * factors
    return np.einsum("bnts,bsnd->btnd", weights, v)


def assert_close(x, y, atol=4e-2, rtol=2e-2):
    np.testing.assert_allclose(np.float64(x), np.float64(y), atol=atol, rtol=rtol)


TRIANGLE = np.tri(T, S, dtype=bool)
WINDOW = TRIANGLE & ~np.tri(T, S, -4, dtype=bool)
MASK = RNG.random((B, 1, T, S)) < 0.8
BIAS = np.asarray(array(1, N, T, S))


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
@pytest.mark.parametrize(
    ("options", "definition"),
    [
        ({}, {}),
        ({"scale": 0.25}, {"scale": 0.25}),
        ({"mask_type": MaskType.CAUSAL}, {"allowed": TRIANGLE}),
        ({"mask_type": MaskType.CAUSAL, "sliding_window_length": 4}, {"allowed": WINDOW}),
        ({"mask": MASK}, {"allowed": MASK}),
        ({"bias": BIAS}, {"bias": np.float64(BIAS)}),
        ({"bias": BIAS, "mask": MASK}, {"bias": np.float64(BIAS), "allowed": MASK}),
        ({"q_seqlen": np.array([T, T]), "kv_seqlen": np.array([5, S]), "mask_type": MaskType.PADDING},
         {"allowed": (np.arange(S) < np.array([5, S])[:, None])[:, None, None]}),
    ],
)  # fmt: skip
def test_masks_biases_and_lengths(options, definition, dtype):
    q, k, v = (x.astype(dtype) for x in (QUERY, KEY, VALUE))
    options = {name: x.astype(dtype) if name == "bias" else x for name, x in options.items()}
    expected = by_definition(q, k, v, **definition)
    found = attend(q, k, v, **options)
    assert found.dtype == dtype
    assert_close(found, expected)
    # The heads in front of the lengths.
    turned = attend(*(jnp.swapaxes(x, 1, 2) for x in (q, k, v)), qkv_layout="BNTH", **options)
    assert_close(jnp.swapaxes(turned, 1, 2), expected)


@pytest.mark.parametrize("shape", [(1, N, T, S), (1, 1, T, S), (B, 1, T, S), (B, N, T, S)])
def test_gradients_by_the_bias(shape):
    bias = array(*shape)
    square = lambda f: lambda *xs: (f(*xs).astype(np.float32) ** 2).sum()
    found = pl.grad(square(attend), (0, 1, 2, 3))(QUERY, KEY, VALUE[..., :H], bias)
    plain = lambda q, k, v, b: pl.nn.dot_product_attention(q, k, v, b, scale=1.0)
    expected = pl.grad(square(plain), (0, 1, 2, 3))(QUERY, KEY, VALUE[..., :H], bias)
    for x, y in zip(found, expected, strict=True):
        assert x.shape == y.shape
        assert_close(x, y)


def test_dropout_leaves_out_a_part_of_the_weights():
    rate, size = 0.25, 64
    q, k = array(2, size, 2, 8), array(2, size, 2, 8)
    # Values that tell the keys from each other: the result is the weights.
    v = jnp.broadcast_to(jnp.eye(size, dtype="bfloat16")[None, :, None], (2, size, 2, size))
    weights = np.float64(attend(q, k, v, dropout_rate=rate, seed=3))
    kept = weights > 0
    assert abs(kept.mean() - (1 - rate)) < 0.02
    whole = np.float64(attend(q, k, v))
    assert_close(weights[kept], whole[kept] / (1 - rate), atol=1e-3)
    assert not np.array_equal(kept, np.float64(attend(q, k, v, dropout_rate=rate, seed=4)) > 0)
    # The way back leaves out the same.
    slope = pl.grad(lambda v: attend(q, k, v, dropout_rate=rate, seed=3).astype(np.float32).sum())
    assert_close(slope(v)[..., 0], weights.sum(1).transpose(0, 2, 1))


def test_dropout_is_the_same_for_all_cotangents():
    """Of a result that is linear in the values, whose Jacobian times these is the result."""
    q, k, v = array(1, 4, 2, 8), array(1, 6, 2, 8), array(1, 6, 2, 8)
    function = lambda v: attend(q, k, v, dropout_rate=0.5, seed=3)
    slopes = pl.jacrev(function)(v)
    assert_close(np.tensordot(np.float64(slopes), np.float64(v), 4), function(v))
    stack = lambda v: pl.vmap(function)(jnp.stack([v, -2 * v]))
    assert_close(np.tensordot(np.float64(pl.jit(pl.jacrev(stack))(v)), np.float64(v), 4), stack(v))
    inside = pl.vmap(pl.jacrev(function))(jnp.stack([v, -2 * v]))
    expected = np.float64(stack(v)) / np.array([1, -2]).reshape(2, 1, 1, 1, 1)
    assert_close(np.tensordot(np.float64(inside), np.float64(v), 4), expected)


PACKED = {
    "q_seqlen": np.array([[3, 5, -1], [12, -1, -1]]), "q_offsets": np.array([[0, 3, -1, -1], [0, -1, -1, -1]]),
    "kv_seqlen": np.array([[6, 4, -1], [16, -1, -1]]), "kv_offsets": np.array([[1, 8, -1, -1], [0, -1, -1, -1]]),
}  # fmt: skip


@pytest.mark.parametrize(
    ("mask_type", "window"),
    [(MaskType.PADDING, None), (MaskType.PADDING_CAUSAL, None), (MaskType.PADDING_CAUSAL, 2)],
)
def test_packed_sequences(mask_type, window):
    value = VALUE[..., :H]
    expected = np.zeros((B, T, N, H))
    for row, queries, keys in [(0, (0, 3), (1, 7)), (0, (3, 8), (8, 12)), (1, (0, 12), (0, 16))]:
        q, k, v = (x[row : row + 1, slice(*part)] for x, part in ((QUERY, queries), (KEY, keys), (value, keys)))  # fmt: skip
        allowed = np.tri(q.shape[1], k.shape[1], dtype=bool) if mask_type != MaskType.PADDING else None  # fmt: skip
        if window:
            allowed = allowed & ~np.tri(q.shape[1], k.shape[1], -window, dtype=bool)
        expected[row, slice(*queries)] = by_definition(q, k, v, allowed=allowed)[0]
    function = lambda q, k, v: attend(q, k, v, mask_type=mask_type, sliding_window_length=window, **PACKED)  # fmt: skip
    found = function(QUERY, KEY, value)
    assert_close(found, expected)
    assert not np.float32(found[0, 8:]).any()
    slopes = pl.grad(lambda *xs: function(*xs).astype(np.float32).sum(), (0, 1, 2))(QUERY, KEY, value)  # fmt: skip
    assert not np.float32(slopes[0][0, 8:]).any()
    assert not np.float32(slopes[2][0, 12:]).any()
    # The same with the last column of the offsets, the end of the last sequence.
    assert_close(attend(QUERY, KEY, value, mask_type=mask_type, sliding_window_length=window, **PACKED | {"q_offsets": np.array([[0, 3, 8, 12], [0, 12, 12, 12]])}), found)  # fmt: skip


POOL_K, POOL_V = array(6, 4, K, H), array(6, 4, K, D)
TABLE = np.array([5, 0, 3, 1, 4, 2], np.int32).reshape(2, 1, 3, 1)


def test_pages():
    lengths = np.array([T, T]), np.array([7, 12])
    k, v = (np.asarray(pool, np.float32)[TABLE[:, 0, :, 0]].reshape(B, 12, K, -1) for pool in (POOL_K, POOL_V))  # fmt: skip
    allowed = (np.arange(12) < lengths[1][:, None])[:, None, None]
    found = cudnn.paged_attention(QUERY, POOL_K, POOL_V, *lengths, TABLE, TABLE, mask_type=MaskType.PADDING)  # fmt: skip
    assert_close(found, by_definition(QUERY, k, v, allowed=allowed))
    # Places behind a sequence's length may name what isn't a page.
    table = TABLE.copy()
    table[0, 0, 2] = -1
    again = cudnn.paged_attention(QUERY, POOL_K, POOL_V, *lengths, table, table, mask_type=MaskType.PADDING)  # fmt: skip
    np.testing.assert_array_equal(np.float32(again), np.float32(found))


def test_operations_of_pages_are_those_of_all_places_of_a_table():
    lengths = [np.ones(2, np.int32)] * 2
    call = lambda q, k, v: cudnn.paged_attention(q, k, v, *lengths, TABLE, TABLE)
    program = pl.make_jaxpr(call)(QUERY, POOL_K, POOL_V).jaxpr
    equations = [e for each in programs_within(program) for e in each.equations]
    [equation] = [e for e in equations if e.primitive.name == "fused_attention"]
    places = POOL_K.shape[1] * TABLE.shape[2]
    avals = [a.aval for a in equation.operands]
    count = equation.primitive.traits.flops(avals, [], equation.params)
    assert count == 2 * B * N * T * places * (H + D)


@pytest.mark.parametrize("dims", [(0, 0, 0), (0, None, 0), (None, 1, None)])
def test_batches_of_pages(dims):
    lengths = np.array([T, 5]), np.array([7, 12])
    values = [jnp.stack([x, x * 0.5, x + 1], d) if d is not None else x for x, d in zip((QUERY, POOL_K, POOL_V), dims, strict=True)]  # fmt: skip
    function = lambda q, k, v: cudnn.paged_attention(q, k, v, *lengths, TABLE, TABLE)
    element = lambda i: [x if d is None else jnp.take(x, i, d) for x, d in zip(values, dims, strict=True)]  # fmt: skip
    found = pl.vmap(function, dims)(*values)
    for i in range(3):
        assert_close(found[i], function(*element(i)))


def test_batches_of_packed_sequences():
    values = [jnp.stack([x, x[::-1]]) for x in (QUERY, KEY, VALUE[..., :H])]
    function = lambda q, k, v: attend(q, k, v, **PACKED)
    found = pl.vmap(function)(*values)
    for i in range(2):
        assert_close(found[i], function(*(x[i] for x in values)))


# Numbers of 8 bits ----------------------------------------------------------------------------------------------

SIZE = 128
NARROW = [array(2, SIZE, heads, SIZE).astype("float8_e4m3fn") for heads in (4, 2, 2)]


def factors(**given):
    one = np.ones((1, 1, 1, 1), np.float32)
    return {name: np.float32(given.get(name, 1)) * one for name in calls.FACTORS}


@pytest.mark.parametrize("mask_type", [MaskType.NO_MASK, MaskType.CAUSAL])
def test_numbers_of_8_bits(mask_type):
    of = factors(descale_q=0.5, descale_k=2.0, descale_v=0.25, scale_s=256.0, descale_s=1 / 256, scale_o=64.0)  # fmt: skip
    result, largest_weight, largest = attend(*NARROW, fp8_params=of, use_fp8=True, scale=0.1, mask_type=mask_type)  # fmt: skip
    assert result.dtype == "float8_e4m3fn"
    q, k, v = (np.float64(x) * factor for x, factor in zip(NARROW, (0.5, 2.0, 0.25), strict=True))
    allowed = np.tri(SIZE, dtype=bool) if mask_type == MaskType.CAUSAL else None
    expected = by_definition(q, k, v, scale=0.1, allowed=allowed)
    assert_close(np.float64(result) / 64, expected, atol=0.02, rtol=0.07)
    assert_close(largest.item(), np.abs(expected).max(), rtol=0.05)
    assert 0 < largest_weight.item() <= 1
    if mask_type == MaskType.CAUSAL:
        assert largest_weight.item() == 1  # the first query sees one key


def test_gradients_of_numbers_of_8_bits():
    of = factors(scale_s=256.0, descale_s=1 / 256, scale_dP=512.0, descale_dP=1 / 512, scale_dQ=16.0, scale_dV=4.0)  # fmt: skip
    loss = lambda *xs: attend(*xs[:3], fp8_params=xs[3], use_fp8=True, scale=0.1)[0].astype(np.float32).sum()  # fmt: skip
    *slopes, of_factors = pl.grad(loss, (0, 1, 2, 3))(*NARROW, of)
    wide = [x.astype(np.float32) for x in NARROW]
    expected = pl.grad(lambda *xs: pl.nn.dot_product_attention(*xs, scale=0.1).sum(), (0, 1, 2))(*wide)  # fmt: skip
    for x, y, scale, name in zip(slopes, expected, (16, 1, 4), ("dQ", "dK", "dV"), strict=True):
        assert x.dtype == "float8_e4m3fn"
        error = np.abs(np.float64(x) / scale - np.float64(y))
        assert error.max() < 0.1 * np.abs(y).max() + 0.01
        assert_close(of_factors[f"amax_{name}"].item(), np.abs(y).max(), rtol=0.1)
    assert of_factors["amax_dP"].item() > 0
    assert not np.any(of_factors["descale_q"])


def test_batches_of_numbers_of_8_bits_have_largest_magnitudes_of_their_own():
    batch = [jnp.stack([x, (x.astype(np.float32) * 0.5).astype(x.dtype)]) for x in NARROW]
    function = lambda *xs: attend(*xs, fp8_params=factors(), use_fp8=True, scale=0.1)
    for found, *expected in zip(pl.vmap(function)(*batch), *(function(*(x[i] for x in batch)) for i in range(2)), strict=True):  # fmt: skip
        np.testing.assert_array_equal(np.float32(found), np.float32(jnp.stack(expected)))


# Programs for GPUs ----------------------------------------------------------------------------------------------

RECORDED = json.loads((FOLDER / "calls.json").read_text())


@pytest.mark.parametrize("case", calls.CASES)
def test_calls_are_those_of_the_reference(case):
    found = calls.texts_of_calls(calls.lowered(pl, cudnn, case, np))
    assert json.loads(json.dumps(found)) == RECORDED[case]


@pytest.mark.oracle
def test_the_reference_still_makes_these_calls():
    run = subprocess.run([sys.executable, "-W", "ignore", calls.__file__], capture_output=True, text=True, check=True)  # fmt: skip
    assert json.loads(run.stdout) == RECORDED


GPU = pl.sharding.AbstractDevice("NVIDIA H100 80GB HBM3", None, "gpu")


@pytest.mark.skipif(plugins.cuda_plugin() is None, reason="the CUDA plugin is not installed: the extra `gpu-aot`")  # fmt: skip
@pytest.mark.parametrize("devices", [1, 2])
@pytest.mark.parametrize("case", calls.CASES)
def test_compilation_for_gpus(case, devices):
    mesh = pl.sharding.AbstractMesh((devices,), ("x",), abstract_device=GPU)
    cut, whole = (pl.NamedSharding(mesh, pl.P(*names)) for names in (("x",), ()))
    is_cut = lambda x: devices > 1 and x.shape[0] == calls.B and "pages" not in case
    args = pl.tree.map(
        lambda x: pl.ShapeDtypeStruct(x.shape, x.dtype, sharding=cut if is_cut(x) else whole),
        calls.operands(np, jnp),
    )
    lowered = pl.jit(calls.function_of(pl, cudnn, case)).lower
    if case == "values of another size":
        with pytest.raises(pl.errors.CompilationError, match=r"another head size needs .* cuDNN 9\.10"):  # fmt: skip
            lowered(args)
        return
    text = compile_without_devices(lowered(args)._lowered).hlo_modules()[0].to_string()
    assert text.count('custom_call_target="__cudnn$fmha') == len(RECORDED[case])
    assert not re.search(r"all-(gather|to-all)", text)
    # What all devices have a part of is brought together: biases that they share, and largest magnitudes.
    is_shared = case in ("bias", "bias and dropout", "8 bits", "8 bits, causal")
    assert ("all-reduce" in text) == (devices > 1 and is_shared)


@pytest.mark.parametrize(
    ("form", "facts", "message"),
    [
        (Form(64, 64), GpuFacts((7, 0), (9, 8, 0)), "8.0 or newer"),
        (Form(64, 64), GpuFacts((8, 0), (8, 9, 7)), "cuDNN 9.0.0"),
        (Form(256, 256), GpuFacts((8, 0), (9, 8, 0)), "compute capability 9 alone"),
        (Form(256, 256), GpuFacts((10, 0), (9, 8, 0)), "compute capability 9 alone"),
        (Form(256, 256), GpuFacts((9, 0), (9, 1, 0)), "cuDNN 9.5.1"),
        (Form(192, 128), GpuFacts((9, 0), (9, 8, 0)), "cuDNN 9.10.0"),
        (Form(64, 64, has_window=True), GpuFacts((8, 0), (9, 1, 0)), "a window needs"),
        (Form(64, 64, is_packed=True), GpuFacts((8, 9), (9, 8, 0)), "packed sequences need"),
        (Form(64, 64, is_paged=True), GpuFacts((9, 0), (9, 4, 0)), "pages needs"),
        (Form(64, 64, is_narrow=True), GpuFacts((8, 9), (9, 8, 0)), "numbers of 8 bits need"),
    ],
)
def test_what_a_gpu_does_not_have(form, facts, message):
    with pytest.raises(pl.errors.CompilationError, match=message):
        check_gpu(form, facts)
    check_gpu(form, None)
    check_gpu(form, GpuFacts((9, 0), (9, 13, 0)))


def test_programs_for_a_gpu_are_checked_against_it():
    a100 = pl.sharding.AbstractDevice("NVIDIA A100-SXM4-80GB", None, "gpu")
    placed = [pl.NamedSharding(pl.sharding.AbstractMesh((1,), ("x",), abstract_device=d), pl.P()) for d in (a100, GPU)]  # fmt: skip
    types = [[pl.ShapeDtypeStruct((1, 8, 1, 256), "bfloat16", sharding=s)] * 3 for s in placed]
    with pytest.raises(pl.errors.CompilationError, match="head size above 128"):
        pl.jit(attend).lower(*types[0])
    pl.jit(attend).lower(*types[1])


LENGTHS = [np.array([T, 5]), np.array([7, S])]
SHARDED = {
    "dropout": lambda q, k, v: attend(q, k, v, dropout_rate=0.25),
    "lengths": lambda q, k, v: attend(q, k, v, q_seqlen=LENGTHS[0], kv_seqlen=LENGTHS[1]),
    "bias": lambda q, k, v: attend(q, k, v, BIAS),
    "packed": lambda q, k, v: attend(q, k, v, **PACKED),
}


@pytest.mark.parametrize("case", SHARDED)
@pytest.mark.parametrize("kind", [pl.sharding.AxisType.Auto, pl.sharding.AxisType.Explicit])
def test_parts_of_the_batch_on_two_devices(case, kind):
    function = SHARDED[case]
    loss = lambda *xs: (function(*xs).astype(np.float32) ** 2).sum()
    values = QUERY, KEY, VALUE[..., :H]
    with pl.set_mesh(pl.make_mesh((2,), ("x",), (kind,))):
        parts = [pl.device_put(x, pl.P("x")) for x in values]
        found = pl.jit(function)(*parts)
        slopes = pl.jit(pl.grad(loss, (0, 1, 2)))(*parts)
        for x in (found, *slopes):
            assert x.sharding.is_equivalent_to(pl.NamedSharding(pl.sharding.get_mesh(), pl.P("x")), 4)  # fmt: skip
    for x, y in zip((found, *slopes), (function(*values), *pl.grad(loss, (0, 1, 2))(*values)), strict=True):  # fmt: skip
        assert_close(x, y)


def test_biases_that_parts_of_the_batch_share():
    """Over Explicit axes the cotangent of such a bias, a sum over devices, is that of the plain form."""
    loss = lambda b, *xs: (attend(*xs, b).astype(np.float32) ** 2).sum()
    values = QUERY, KEY, VALUE[..., :H]
    with pl.set_mesh(pl.make_mesh((2,), ("x",), (pl.sharding.AxisType.Explicit,))):
        found = pl.jit(pl.grad(loss))(BIAS, *[pl.device_put(x, pl.P("x")) for x in values])
    assert_close(found, pl.grad(loss)(BIAS, *values))


def test_shared_biases_have_the_dropout_of_the_way_there():
    """On GPUs that is cuDNN's own draw: no other one, and no plain form, is in the program."""
    loss = lambda b, *xs: (attend(*xs, b, dropout_rate=0.5).astype(np.float32) ** 2).sum()
    values = QUERY, KEY, VALUE[..., :H]
    with pl.set_mesh(pl.make_mesh((2,), ("x",), (pl.sharding.AxisType.Explicit,))):
        parts = [pl.device_put(x, pl.P("x")) for x in values]
        slope = pl.jit(pl.grad(loss))
        assert_close(slope(BIAS, *parts), pl.grad(loss)(BIAS, *values))
        text = slope.trace(BIAS, *parts).lower(lowering_platforms=("cuda",)).as_text()
    assert "exponential" not in text


def test_gradients_within_shard_map():
    """What all positions share, a bias or factors, has one cotangent: the sum, of largest magnitudes the largest."""
    mesh = pl.make_mesh((2,), ("x",), (pl.sharding.AxisType.Auto,))
    cut = pl.P("x")
    values = QUERY, KEY, VALUE[..., :H]
    over = pl.shard_map(attend, mesh=mesh, in_specs=(cut, cut, cut, pl.P()), out_specs=cut)
    loss = lambda f: lambda *xs: (f(*xs).astype(np.float32) ** 2).sum()
    found, expected = (pl.jit(pl.grad(loss(f), (0, 1, 2, 3)))(*values, BIAS) for f in (over, attend))  # fmt: skip
    for x, y in zip(found, expected, strict=True):
        assert_close(x, y)

    function = lambda q, k, v, of: attend(q, k, v, fp8_params=of, use_fp8=True, scale=0.1)[0]
    over = pl.shard_map(function, mesh=mesh, in_specs=(cut, cut, cut, pl.P()), out_specs=cut)
    loss = lambda f: lambda *xs: f(*xs).astype(np.float32).sum()
    found, expected = (pl.grad(loss(f), (0, 1, 2, 3))(*NARROW, factors()) for f in (over, function))
    for x, y in zip(pl.tree.leaves(found), pl.tree.leaves(expected), strict=True):
        np.testing.assert_array_equal(np.float32(x), np.float32(y))


@pytest.mark.parametrize("kind", [pl.sharding.AxisType.Auto, pl.sharding.AxisType.Explicit])
def test_numbers_of_8_bits_on_two_devices(kind):
    function = lambda *xs: attend(*xs, fp8_params=factors(), use_fp8=True, scale=0.1)
    loss = lambda *xs: function(*xs)[0].astype(np.float32).sum()
    expected = function(*NARROW), pl.grad(loss, (0, 1, 2))(*NARROW)
    with pl.set_mesh(pl.make_mesh((2,), ("x",), (kind,))):
        parts = [pl.device_put(x, pl.P("x")) for x in NARROW]
        found = pl.jit(function)(*parts), pl.jit(pl.grad(loss, (0, 1, 2)))(*parts)
    for x, y in zip(pl.tree.leaves(found), pl.tree.leaves(expected), strict=True):
        np.testing.assert_array_equal(np.float32(x), np.float32(y))


# What is refused ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "message", "call"),
    [
        (pl.errors.UnsupportedError, "has no ALIBI", lambda: attend(QUERY, KEY, VALUE, mask_type=MaskType.ALIBI)),
        (pl.errors.ArgumentValueError, "needs q_seqlen", lambda: attend(QUERY, KEY, VALUE, mask_type=MaskType.PADDING)),
        (pl.errors.UnsupportedError, "of a causal mask", lambda: attend(QUERY, KEY, VALUE, sliding_window_length=3)),
        (pl.errors.UnsupportedError, "of a causal mask", lambda: attend(QUERY, KEY, VALUE, sliding_window_length=0, mask_type=MaskType.CAUSAL)),
        (pl.errors.ArgumentValueError, "dropout_rate", lambda: attend(QUERY, KEY, VALUE, dropout_rate=1.0)),
        (pl.errors.ArgumentValueError, "layouts BTNH and BNTH", lambda: attend(QUERY, KEY, VALUE, qkv_layout="TBNH")),
        (pl.errors.ArgumentTypeError, "a number as scale", lambda: attend(QUERY, KEY, VALUE, scale=jnp.ones(()))),
        (pl.errors.UnsupportedError, "8 divides", lambda: attend(QUERY, KEY, VALUE[..., :5])),
        (pl.errors.ShapeError, r"a bias \[batch or 1", lambda: attend(QUERY, KEY, VALUE, np.zeros((1, 1, 1, S)))),
        (pl.errors.ShapeError, "heads that divides", lambda: attend(QUERY, KEY[:, :, :1], VALUE)),
        (pl.errors.DtypeError, "of one dtype", lambda: attend(QUERY, KEY, VALUE.astype("float16"))),
        (pl.errors.ArgumentValueError, "or of neither", lambda: attend(QUERY, KEY, VALUE, q_seqlen=np.ones(2, int))),
        (pl.errors.ArgumentValueError, "beside their offsets", lambda: attend(QUERY, KEY, VALUE, q_offsets=PACKED["q_offsets"], kv_offsets=PACKED["kv_offsets"])),
        (pl.errors.ShapeError, "packed sequences lengths", lambda: attend(QUERY, KEY, VALUE, **PACKED | {"q_offsets": np.zeros((2, 3), int)})),
        (pl.errors.DtypeError, "integers as lengths", lambda: attend(QUERY, KEY, VALUE, q_seqlen=np.ones(2), kv_seqlen=np.ones(2))),
        (pl.errors.UnsupportedError, "no bias, no mask", lambda: attend(QUERY, KEY, KEY, BIAS, **PACKED)),
        (pl.errors.UnsupportedError, "one head size", lambda: attend(QUERY, KEY, VALUE, **PACKED)),
        (pl.errors.ShapeError, "as many pages", lambda: cudnn.paged_attention(QUERY, POOL_K[:4], POOL_V[:4], *[np.ones(2, int)] * 2, TABLE, TABLE)),
        (pl.errors.ShapeError, r"tables \[batch", lambda: cudnn.paged_attention(QUERY, POOL_K, POOL_V, *[np.ones(2, int)] * 2, TABLE, TABLE[:1])),
        (pl.errors.ArgumentValueError, "both lengths", lambda: cudnn.paged_attention(QUERY, POOL_K, POOL_V, None, None, TABLE, TABLE)),
        (pl.errors.UnsupportedError, "no form of 8 bits", lambda: cudnn.paged_attention(QUERY, POOL_K, POOL_V, *[np.ones(2, int)] * 2, TABLE, TABLE, use_fp8=True)),
        (pl.errors.UnsupportedError, "has no derivative", lambda: pl.grad(lambda q: cudnn.paged_attention(q, POOL_K, POOL_V, *[np.ones(2, int)] * 2, TABLE, TABLE).astype("float32").sum())(QUERY)),
        (pl.errors.ArgumentValueError, "needs fp8_params", lambda: attend(*NARROW, use_fp8=True)),
        (pl.errors.ArgumentValueError, "a causal mask, and nothing more", lambda: attend(*NARROW, use_fp8=True, fp8_params=factors(), dropout_rate=0.1)),
        (pl.errors.ArgumentValueError, "PADDING", lambda: attend(*NARROW, use_fp8=True, fp8_params=factors(), mask_type=MaskType.PADDING)),
        (pl.errors.ShapeError, "descale_q", lambda: attend(*NARROW, use_fp8=True, fp8_params=factors() | {"descale_q": np.float32(1)})),
        (pl.errors.UnsupportedError, "all of float8", lambda: attend(QUERY, KEY, VALUE, use_fp8=True, fp8_params=factors())),
        (pl.errors.UnsupportedError, "128 divides", lambda: pl.grad(lambda q: attend(q, *[x[:, :64] for x in NARROW[1:]], use_fp8=True, fp8_params=factors())[0].astype("float32").sum())(NARROW[0])),
        (pl.errors.DerivativeRuleError, "reverse mode", lambda: pl.jvp(lambda q: attend(q, KEY, VALUE, dropout_rate=0.1), (QUERY,), (QUERY,))),
    ],
)  # fmt: skip
def test_what_is_refused(error, message, call):
    with pytest.raises(error, match=message):
        call()


def test_checks_that_libraries_ask_for():
    layout = cudnn.attention._normalize_layout("BSNH")
    assert layout is AttentionLayout.BTNH
    assert cudnn.attention._normalize_layout("bnsh") is AttentionLayout.BNTH
    assert not cudnn.check_compute_capability("8.0")
    if plugins.cudnn_version() is None:
        with pytest.raises(RuntimeError, match="no cuDNN"):
            cudnn.check_cudnn_version()
    cudnn.check_layout(QUERY, KEY, VALUE, None, *[None] * 6, layout)
    cudnn.check_is_flash_attention(QUERY, KEY, VALUE, layout, 91000, False, is_training=True)
    with pytest.raises(NotImplementedError, match="even numbers"):
        cudnn.check_is_flash_attention(QUERY[:, 1:], KEY, VALUE, 0, 91000, False, is_training=True)

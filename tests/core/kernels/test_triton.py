"""Kernels in Triton's dialect: their text, what they compute by an interpreter of it, and what is refused."""

import functools

import numpy as np
import pytest
from rotation import rotating

import pellucid as pl
import pellucid.numpy as jnp
from pellucid import lax
from pellucid._machine.base.errors import UnsupportedError
from pellucid._machine.xla import plugins, ptxas
from pellucid.experimental import pallas
from pellucid.experimental.pallas import BlockSpec, pallas_call, tpu, triton
from pellucid.introspect.triton_text import triton_texts
from pellucid.kernels.kernel_call import pallas_call_p
from pellucid.kernels.lowering.launches import beginnings
from pellucid.kernels.triton.call import lowered
from tests.core.kernels import triton_interpreter

F32 = np.float32
GPU = triton.CompilerParams(num_warps=2, num_stages=2)
BLOCK = BlockSpec((4,), lambda i: (i,))


def like(shape, dtype=F32):
    return pl.ShapeDtypeStruct(shape, dtype)


def array(shape, dtype=F32, seed=0):
    rng = np.random.default_rng(seed)
    return rng.integers(-4, 5, shape).astype(dtype)


def call(kernel, out, *, grid=(), specs=None, out_spec=None, **options):
    given = {} if specs is None else {"in_specs": specs, "out_specs": out_spec or specs[0]}
    return pallas_call(kernel, out, grid=grid, compiler_params=GPU, **given, **options)


def kernel_of(function, *args):
    jaxpr = pl.make_jaxpr(function)(*args).jaxpr
    [equation] = [e for e in jaxpr.equations if e.primitive is pallas_call_p]
    return equation.params.kernel


def assert_same(function, *args, atol=0):
    """The kernel in Triton's dialect, interpreted, gives what the compiled program gives."""
    kernel = kernel_of(function, *args)
    expected = function(*args)
    leaves = [
        np.asarray(x) for x in (expected if isinstance(expected, (list, tuple)) else [expected])
    ]
    args = [np.asarray(x) for x in args]
    starts = [np.zeros(x.shape, x.dtype) for x in leaves]
    for result, i in kernel.aliases.items():
        starts[result] = args[i].copy()
    inputs = [*args, *[args[i] for i in beginnings(kernel)]]
    found = triton_interpreter.run(lowered(kernel), inputs, starts)
    for x, y in zip(found, leaves, strict=True):
        np.testing.assert_allclose(x, y, rtol=2e-6, atol=atol)


OUTSIDE = [
    -0.5,
    1.5,
    127.9,
    -129,
    255.5,
    256,
    -300,
    32768,
    -1e5,
    65536,
    1e9,
    -np.inf,
    np.inf,
    np.nan,
    3,
    -1,
]
"""Numbers that integers of 8 or 16 bits don't have."""


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int16, np.uint16])
@pytest.mark.parametrize("old", ["float32", "bfloat16"])
def test_numbers_that_narrow_integers_lack_become_the_nearest(old, dtype):
    def kernel(x_ref, o_ref):
        o_ref[...] = x_ref[...].astype(dtype)

    assert_same(call(kernel, like((16,), dtype)), np.asarray(jnp.asarray(OUTSIDE, old)))


# Text -------------------------------------------------------------------------------------------------------


def add(x_ref, y_ref, o_ref):
    o_ref[...] = x_ref[...] + y_ref[...]


ADD_TEXT = """
module {
  tt.func public @add(%arg0: !tt.ptr<f32> {tt.divisibility = 16 : i32}, %arg1: !tt.ptr<f32> {tt.divisibility = 16 : i32}, %arg2: !tt.ptr<f32> {tt.divisibility = 16 : i32}) {
    %cst = arith.constant dense<0x7FC00000> : tensor<4xf32>
    %cst_0 = arith.constant dense<7> : tensor<4xi32>
    %c4_i32 = arith.constant 4 : i32
    %0 = tt.get_program_id x : i32
    %1 = arith.muli %0, %c4_i32 : i32
    %2 = tt.make_range {end = 4 : i32, start = 0 : i32} : tensor<4xi32>
    %3 = tt.splat %1 : i32 -> tensor<4xi32>
    %4 = arith.addi %2, %3 : tensor<4xi32>
    %5 = arith.cmpi slt, %4, %cst_0 : tensor<4xi32>
    %6 = tt.addptr %arg0, %1 : !tt.ptr<f32>, i32
    %7 = tt.splat %6 : !tt.ptr<f32> -> tensor<4x!tt.ptr<f32>>
    %8 = tt.addptr %7, %2 : tensor<4x!tt.ptr<f32>>, tensor<4xi32>
    %9 = tt.load %8, %5, %cst : tensor<4x!tt.ptr<f32>>
    %10 = tt.addptr %arg1, %1 : !tt.ptr<f32>, i32
    %11 = tt.splat %10 : !tt.ptr<f32> -> tensor<4x!tt.ptr<f32>>
    %12 = tt.addptr %11, %2 : tensor<4x!tt.ptr<f32>>, tensor<4xi32>
    %13 = tt.load %12, %5, %cst : tensor<4x!tt.ptr<f32>>
    %14 = arith.addf %9, %13 : tensor<4xf32>
    %15 = tt.addptr %arg2, %1 : !tt.ptr<f32>, i32
    %16 = tt.splat %15 : !tt.ptr<f32> -> tensor<4x!tt.ptr<f32>>
    %17 = tt.addptr %16, %2 : tensor<4x!tt.ptr<f32>>, tensor<4xi32>
    tt.store %17, %14, %5 : tensor<4x!tt.ptr<f32>>
    tt.return
  }
}
"""


def test_text():
    x = array(7)
    [found] = triton_texts(pl.jit(call(add, x, grid=2, specs=[BLOCK, BLOCK])), x, x)
    assert found.text.strip() == ADD_TEXT.strip()
    assert found[2:5] == ((2, 1, 1), 2, 2)


def negated(x_ref, o_ref):
    o_ref[...] = triton.elementwise_inline_asm(
        "neg.f32 $0, $1;", args=[x_ref[...]], constraints="=f,f", pack=1, result_shape_dtypes=x_ref[...]
    )  # fmt: skip


def test_assembly_of_users():
    x = array(8)
    function = pl.jit(call(negated, x, grid=2, specs=[BLOCK]))
    [found] = triton_texts(function, x)
    assert 'tt.elementwise_inline_asm "neg.f32 $0, $1;" {constraints = "=f,f"' in found.text
    if plugins.triton_compiler() is not None:
        assert "neg.f32" in found.assembly("9.0").text
    with pytest.raises(UnsupportedError, match="instructions of GPUs"):
        function(x)


def test_programs_for_gpus_call_the_kernel():
    x = array(7)
    function = call(add, x, grid=2, specs=[BLOCK, BLOCK], input_output_aliases={1: 0})
    lowered = pl.jit(function).trace(x, x).lower(lowering_platforms=("cuda",)).as_text()
    assert "@__gpu$xla.gpu.triton(%arg0, %arg1, %arg1)" in lowered
    assert "num_warps = 2 : i32" in lowered
    assert "operand_index = 2" in lowered  # what the result begins as
    for other in (
        pl.jit(function).trace(x, x).lower().as_text(),
        pl.jit(pl.vmap(function))
        .trace(x[None], x[None])
        .lower(lowering_platforms=("cuda",))
        .as_text(),
        pl.jit(pallas_call(add, x)).trace(x, x).lower(lowering_platforms=("cuda",)).as_text(),
    ):
        assert "triton" not in other


# Results ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float32", "float16", "int32", "uint8", "bool", "int64"])
@pytest.mark.parametrize("size", [8, 7, 3])
def test_blocks_with_and_without_edges(dtype, size):
    x = array(size, dtype)
    assert_same(
        call(
            lambda x_ref, o_ref: o_ref.__setitem__(..., x_ref[...]),
            x,
            grid=-(-size // 4),
            specs=[BLOCK],
        ),
        x,
    )


def joined_in_the_middle(x, axis):
    """Eight elements as a cube, its halves along an axis in turn, the first of them cut and put together again."""
    cube = jnp.stack([x, x + 10]).reshape(2, 2, 2)
    first, second = lax.split(cube, (1, 1), axis)
    return jnp.concatenate([second, first], axis)


def counted_bits(x, dtype):
    n = x.astype(np.int32).astype(dtype) * 3
    return lax.clz(n).astype(F32) * 64 + lax.population_count(n).astype(F32)


def neighbours(x, dtype):
    """What follows each number on the way to others, as numbers that hold its bits: around zeros, infinities and NaN."""
    special = jnp.where(
        x > 3, jnp.nan, jnp.where(x > 2, jnp.inf, jnp.where(x > 1, -jnp.inf, x * 0))
    )
    bits = 0
    for start in (x, special, -special):
        for end in (0.0, 2.0, -jnp.inf, jnp.nan):
            after = lax.nextafter(start.astype(dtype), jnp.full_like(start, end, dtype))
            kind = np.int32 if dtype == F32 else np.int16
            same = jnp.where(jnp.isnan(after), 7, lax.bitcast_convert_type(after, kind))
            bits = bits * 3 + same.astype(np.int32)
    return (bits % 1000).astype(F32)


OPERATIONS = {
    "arithmetic": lambda x: x * 3 - x / 2 + abs(x) ** 2 - (-x) % 3,
    "extremes": lambda x: jnp.maximum(jnp.minimum(x, 2), -1) + jnp.clip(x, -2, 1),
    "exponentials": lambda x: jnp.exp(x) + jnp.exp2(x) + jnp.log(x * x + 1) + jnp.tanh(x) + jnp.expm1(x) + jnp.log1p(abs(x)),
    "sigmoid": pl.nn.sigmoid,
    "gelu": lambda x: pl.nn.gelu(x, approximate=False),
    "roots": lambda x: jnp.sqrt(abs(x)) + lax.rsqrt(abs(x) + 1) + jnp.cbrt(x),
    "errors": lambda x: lax.erf(x) + lax.erfc(x) + lax.erf_inv(x / 8),
    "powers": lambda x: x**3 + (abs(x) + 1.0) ** -2 + jnp.power(abs(x) + 0.5, 1.5),
    "rounding": lambda x: jnp.floor(x / 2) + jnp.ceil(x / 3) + jnp.round(x / 2) + jnp.sign(x),
    "comparison": lambda x: jnp.where((x > 1) | (x <= -2), x, -x) + (x != 0) + jnp.isfinite(x),
    "nan": lambda x: jnp.where(jnp.isnan(jnp.log(x)), 1, 2) + jnp.maximum(jnp.log(x), 0),
    "circles": lambda x: jnp.sin(x) + jnp.cos(x) + jnp.arctan2(x, x + 5),
    "integers": lambda x: (x.astype(np.int32) // 3 * 2 + (x.astype(np.int32) % 3) - (x.astype(np.int32) << 2)).astype(F32),
    "bits": lambda x: (~x.astype(np.int32) & 7 | x.astype(np.int32) >> 1).astype(F32),
    "unsigned": lambda x: (x.astype(np.int32).view(np.uint32) // 3 > 5).astype(F32),
    "narrow": lambda x: (x.astype(np.float16).astype("bfloat16") * 2).astype(F32) + x.astype(np.int8).astype(F32),
    "movement": lambda x: x.reshape(2, 2).T.reshape(4) + jnp.broadcast_to(x[None], (2, 4)).sum(0),
    "positions": lambda x: x + jnp.arange(4) + lax.broadcasted_iota(np.int32, (4, 2), 0).max(1),
    "reductions": lambda x: x - x.max() + x.min() * x.sum() + jnp.prod(x) + (x > 0).any() + (x > 0).all(),
    "places": lambda x: x + jnp.argmax(x) + jnp.argmin(x) * 10,
    "blocks joined": lambda x: jnp.concatenate([x, x * 2, x[:2], x[1:2], x[2:3], jnp.arange(4.0)])[:4] + jnp.concatenate([x[1:3], x, x[3:], x[:1]])[2:6],
    "blocks joined along any axis": lambda x: sum(joined_in_the_middle(x, axis).reshape(8)[:4] * 3**axis for axis in range(3)) + (jnp.concatenate([x > 0, x < 0])[2:6]),
    "blocks cut": lambda x: lax.split(x, (1, 2, 1))[1].sum() + jnp.concatenate([*lax.split(x, (2, 2))[::-1]]) + lax.split(x.reshape(2, 2), (1, 1), 1)[1].reshape(2).max(),
    "blocks stacked": lambda x: jnp.stack([x, x * 2, x * 3, x * 5], 1).max(0) + jnp.stack([x, x + 1])[1] + jnp.stack([x[0], x[1] * 2, x.sum(), x.max()]) + jnp.stack([x > 0], 1).reshape(4),
    "blocks unstacked": lambda x: jnp.concatenate(lax.unstack(x.reshape(2, 2), 1)) + lax.unstack(x)[2] + lax.unstack(jnp.arange(8.0))[5] + lax.unstack(x.reshape(1, 4))[0],
    "scans": lambda x: jnp.cumsum(x) + lax.cumsum(x, reverse=True) * 2 + lax.cummax(x) + lax.cummin(x.reshape(2, 2), 1).reshape(4) + jnp.cumprod(x),
    "narrow scans": lambda x: (jnp.cumsum(x.astype("bfloat16")) + lax.cummax(x.astype(np.int8)) + lax.cummax((x + 4).astype(np.uint8))).astype(F32),
    "counts of bits": lambda x: sum(counted_bits(x, f"{kind}{bits}") for kind in ("int", "uint") for bits in (8, 16, 32)),
    "neighbours": lambda x: sum(neighbours(x, dtype) for dtype in (F32, np.float16, "bfloat16")),
    "prints": lambda x: (pallas.debug_print("x = {}, {}", x, pallas.program_id(0)), x)[1],
    "choice": lambda x: lax.select_n(jnp.clip(x, 0, 2).astype(np.int32), x, x * 2, x * 3),
    "switch": lambda x: lax.switch(x.max().astype(np.int32), [lambda x: x, lambda x: x * 2, lambda x: x * 3], x),
    "loop": lambda x: lax.fori_loop(0, 3, lambda i, y: y * 2 + i, x),
    "while": lambda x: lax.while_loop(lambda c: c.max() < 100, lambda c: c * 2 + 1, abs(x)),
    "calls": lambda x: pl.jit(jnp.tanh)(x) + pl.nn.relu(x) + pl.checkpoint(jnp.sin)(x),
}  # fmt: skip


@pytest.mark.parametrize("name", OPERATIONS)
def test_operations(name):
    operation = OPERATIONS[name]
    x = array(8, seed=3)
    assert_same(call_elementwise(operation, x), x)


def call_elementwise(operation, x):
    """The kernel of two blocks that stores `operation` of each."""
    return call(lambda x_ref, o_ref: o_ref.__setitem__(..., operation(x_ref[...])), x, grid=2, specs=[BLOCK])  # fmt: skip


def test_counts_of_wide_integers():
    with pl.enable_x64(True):
        x = array(8, np.int64) << 40
        assert_same(call_elementwise(lambda x: lax.clz(x) * 100 + lax.population_count(x), x), x)


def test_what_is_printed(capsys):
    x = array(8)
    show = lambda x: (pallas.debug_print("of {1}: {0}!", x, pallas.program_id(0)), x)[1]
    found = lowered(kernel_of(call_elementwise(show, x), x))
    assert 'tt.print "of "' in found.text
    assert 'tt.print ": "' in found.text
    triton_interpreter.run(found, [x], [np.zeros_like(x)])
    assert capsys.readouterr().out.splitlines()[:2] == ["of  1", f":  {x[4:]}"]
    plain = lambda x: (pallas.debug_print("begun"), x)[1]
    assert 'tt.print "begun"' in lowered(kernel_of(call_elementwise(plain, x), x)).text


def softmax(x_ref, o_ref):
    row, inside = pallas.program_id(0), jnp.arange(8) < x_ref.shape[1]
    part = (row, pallas.ds(0, 8))
    x = triton.load(x_ref.at[part], mask=inside, other=-jnp.inf)
    e = jnp.exp(x - x.max())
    triton.store(o_ref.at[part], e / e.sum(), mask=inside)


def matmul(x_ref, y_ref, o_ref):
    def step(k, total):
        part = pallas.ds(k * 16, 16)
        return total + pallas.dot(x_ref[:, part], y_ref[part, :])

    total = lax.fori_loop(0, x_ref.shape[1] // 16, step, jnp.zeros(o_ref.shape, F32))
    o_ref[...] = total

    @pallas.when(pallas.program_id(0) == 1)
    def _():
        o_ref[...] = total * 2


def histogram(x_ref, start_ref, o_ref, old_ref):
    old_ref[...] = triton.atomic_add(o_ref, x_ref[...], 1, mask=x_ref[...] >= 0) * 0


def atomic(operation):
    """A kernel whose programs all change elements that data choose, in an order that doesn't matter."""

    def kernel(x_ref, start_ref, o_ref, old_ref):
        x = x_ref[...]
        change = getattr(triton, f"atomic_{operation}")
        old_ref[...] = (change(o_ref, x % 4, x * 3 + 1, mask=x != 2) * 0).astype(np.int32)

    return kernel


def atomic_call(operation, dtype):
    shapes = [like((4,), dtype), like((8,), np.int32)]
    specs, out_spec = [BLOCK, BlockSpec()], [BlockSpec(), BLOCK]
    kernel = call(
        atomic(operation),
        shapes,
        grid=2,
        specs=specs,
        out_spec=out_spec,
        input_output_aliases={1: 0},
    )
    x, start = np.array([0, 3, 3, 5, 1, 2, 3, 4]), np.array([9, 0, 6, 5])
    return kernel, x.astype(dtype), start.astype(dtype)  # fmt: skip


def opened_once(x_ref, start_ref, o_ref):
    """Whoever comes first puts its value in place of 0, which is the same for all; later ones leave it."""
    triton.atomic_cas(o_ref.at[0], 0, x_ref[0])


def interleaved(x_ref, o_ref):
    mine = jnp.arange(4) % 2 == pallas.program_id(0)
    triton.store(o_ref.at[pallas.ds(0, 4)], x_ref[...], mask=mine)


def in_place(x_ref, o_ref):
    o_ref[...] = o_ref[...] + x_ref[pallas.ds(1, 1)]
    o_ref[0] = o_ref[3]


def padded(x_ref, o_ref):
    o_ref[...] = jnp.where(jnp.isnan(x_ref[...]), -1, x_ref[...])


def rows_and_columns(x_ref, i_ref, o_ref):
    o_ref[...] = x_ref[i_ref[...], pallas.ds(i_ref[0] * 2, 4)] + x_ref[1, pallas.ds(2, 4)]
    o_ref[i_ref[...] + 1, 2] = jnp.arange(4.0)
    o_ref[pallas.ds(0, 2, 2), 1] = jnp.zeros(2, F32)


KERNELS = {
    "softmax": lambda: (call(softmax, like((3, 5)), grid=3), array((3, 5))),
    "matmul": lambda: (
        call(matmul, like((32, 48)), grid=(2, 3), specs=[BlockSpec((16, 64), lambda i, j: (i, 0)), BlockSpec((64, 16), lambda i, j: (0, j))], out_spec=BlockSpec((16, 16), lambda i, j: (i, j))),
        array((32, 64)), array((64, 48), seed=1),
    ),
    "histogram": lambda: (
        call(histogram, [like((4,), np.int32), like((8,), np.int32)], grid=2, specs=[BLOCK, BlockSpec()], out_spec=[BlockSpec(), BLOCK], input_output_aliases={1: 0}),
        np.array([0, 3, 3, 9, -1, 2, 3, 0], np.int32), np.array([10, 20, 30, 40], np.int32),
    ),
    **{f"atomic {name} {dtype}": functools.partial(atomic_call, name, dtype)
       for name in ("add", "max", "min", "and", "or", "xor") for dtype in ("int32", "uint32")},
    "compare and swap": lambda: (call(opened_once, like((1,), np.int32), grid=4, input_output_aliases={1: 0}), np.array([7], np.int32), np.array([0], np.int32)),
    "masks in turn": lambda: (call(interleaved, like((4,)), grid=2), array(4)),
    "aliased": lambda: (call(in_place, like((8,)), grid=2, specs=[BLOCK], input_output_aliases={0: 0}), array(8)),
    "padded": lambda: (
        call(padded, like((2, 8)), grid=2, specs=[BlockSpec((pallas.Element(8, (2, 1)),), lambda i: (0,))], out_spec=BlockSpec((None, 8), lambda i: (i, 0))),
        array(5),
    ),
    "squeezed": lambda: (
        call(lambda x_ref, o_ref: o_ref.__setitem__(..., x_ref[...] * pallas.program_id(1)), like((3, 2, 4)), grid=(3, 2), specs=[BlockSpec((None, None, 4), lambda i, j: (i, 1 - j, 0))], out_spec=BlockSpec((None, None, 4), lambda i, j: (i, j, 0))),
        array((3, 2, 4)),
    ),
    "elements": lambda: (
        call(lambda x_ref, o_ref: o_ref.__setitem__(..., x_ref[...]), like((8,)), grid=2, specs=[BlockSpec((pallas.Element(4),), lambda i: (4 - 4 * i,))], out_spec=BLOCK),
        array(8),
    ),
    "parts": lambda: (call(rows_and_columns, like((4, 4))), array((8, 8)), np.array([3, 1, -1, 9], np.int32)),
    "no grid": lambda: (call(add, like((4,))), array(4), array(4, seed=1)),
    "four axes": lambda: (
        call(lambda x_ref, o_ref: o_ref.__setitem__(..., x_ref[...] + pallas.program_id(3)), like((2, 1, 3, 2)), grid=(2, 1, 3, 2), specs=[BlockSpec((None,) * 4, lambda *ids: ids)]),
        array((2, 1, 3, 2)),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", KERNELS)
def test_kernels(name):
    assert_same(*KERNELS[name]())


def random_kernel(seed):
    """A kernel over blocks with and without edges, that reads parts of a whole array in branches and loops; its arguments."""
    rng = np.random.default_rng(seed)
    pick = lambda *choices: choices[rng.integers(len(choices))]
    grid = tuple(int(n) for n in rng.integers(1, 4, 2))
    block = tuple(int(pick(1, 2, 4)) for _ in range(2))
    shape = tuple(
        n * size - int(rng.integers(0, size)) for n, size in zip(grid, block, strict=True)
    )
    dtype = pick("float32", "int32", "float16", "int16")
    is_turned, is_aliased = rng.random() < 0.5, rng.random() < 0.3
    numbers = rng.integers(0, 4, 8).tolist()
    kinds = ("slice", "rows", "branch", "loop", "masked", "while", "sum", "moved")
    steps = [(pick(*kinds), n) for n in numbers[: int(rng.integers(1, 5))]]
    masked = rng.random() < 0.5

    def kernel(x_ref, y_ref, o_ref):
        i, j = pallas.program_id(0), pallas.program_id(1)
        value = jnp.where(x_ref[...] == x_ref[...], x_ref[...], 0).astype(F32)
        for kind, n in steps:
            if kind == "slice":
                value = value + y_ref[n, pallas.ds(i + j, 1)].astype(F32)
            elif kind == "rows":
                value = value + y_ref[(jnp.arange(4) + i) % 4, n].max().astype(F32)
            elif kind == "branch":
                value = lax.cond(j % 2 == n % 2, lambda v: v + 1, lambda v: v * 2, value)
            elif kind == "loop":
                part = lambda k: y_ref[k % 4, k % 8].astype(F32)
                value = lax.fori_loop(0, 2 + n, lambda k, v, part=part: v + part(k), value)
            elif kind == "masked":
                columns = jnp.arange(4) + n
                row = triton.load(
                    y_ref.at[i, columns], mask=columns < 5, other=jnp.asarray(n, dtype)
                )
                value = value + row.astype(F32).sum()
            elif kind == "while":
                goes_on = lambda c: (c[1] < 5) & (c[0].max() < 50)
                value, _ = lax.while_loop(goes_on, lambda c: (c[0] * 2 + 1, c[1] + 1), (value, 0))
            elif kind == "sum":
                value = value + value.sum(0, keepdims=True) - value.max(1, keepdims=True)
            else:
                value = value.T.reshape(block) + lax.broadcasted_iota(np.int32, block, 1)
        value = (value % 31).astype(dtype)
        keep = (lax.broadcasted_iota(np.int32, block, 0) + i) % 2 == 0
        if masked:
            o_ref[...] = jnp.zeros(block, dtype)
        triton.store(o_ref, value, mask=keep if masked else None)

    index = (lambda i, j: (grid[0] - 1 - i, j)) if is_turned else (lambda i, j: (i, j))
    spec = BlockSpec(block, lambda i, j: (i, j))
    function = call(
        kernel,
        like(shape, dtype),
        grid=grid,
        specs=[BlockSpec(block, index), BlockSpec()],
        out_spec=spec,
        input_output_aliases={0: 0} if is_aliased else {},
    )
    return function, array(shape, dtype, seed), array((4, 8), dtype, seed + 1)


@pytest.mark.parametrize("seed", rotating([(i,) for i in range(96)], lambda row: "random"))
def test_random_kernels(seed):
    assert_same(*random_kernel(seed))


# What is refused --------------------------------------------------------------------------------------------


def sums(x_ref, o_ref):
    o_ref[...] += x_ref[...]


def late_old(x_ref, o_ref):
    old = o_ref[...]
    o_ref[...] = old
    before = pallas.triton.load(o_ref) * 2
    triton.atomic_add(o_ref, slice(None), before)


def scoped(x_ref, o_ref):
    def body(ref):
        ref[...] = x_ref[...]
        o_ref[...] = ref[...]

    pallas.run_scoped(body, like((4,)))


def into_input(x_ref, o_ref):
    o_ref[...] = x_ref[...]
    x_ref[...] = o_ref[...] + 1


def locked(x_ref, o_ref):
    old = o_ref[0]
    o_ref[0] = jnp.where(old == 0, pallas.program_id(0), old)


def largest_float(x_ref, o_ref):
    triton.atomic_max(o_ref, 0, x_ref[0])


def swapped_bytes(x_ref, o_ref):
    triton.atomic_xchg(o_ref, 0, x_ref[0])


REFUSED = {
    "decides what it writes": lambda: (call(locked, like((1,), np.int32), grid=4, input_output_aliases={0: 0}), array(1, np.int32)),
    "no atomic max of floating numbers": lambda: (call(largest_float, like((1,))), array(1)),
    "32 and 64 bits": lambda: (call(swapped_bytes, like((1,), np.int8)), array(1, np.int8)),
    "powers of two": lambda: (call(add, like((3,))), array(3), array(3)),
    "16 rows and columns": lambda: (call(lambda x, y, o: o.__setitem__(..., pallas.dot(x[...], y[...])), like((8, 8))), array((8, 8)), array((8, 8))),
    "there is no rule for `sort`": lambda: (call(lambda x, o: o.__setitem__(..., jnp.sort(x[...])), like((8,))), array(8)),
    "several write one block": lambda: (call(sums, like((8,)), grid=2, specs=[BLOCK], out_spec=BlockSpec((4,), lambda i: (0,)), input_output_aliases={0: 0}), array(8)),
    "would write the same block": lambda: (call(lambda x, o: o.__setitem__(..., x[...]), like((4,)), grid=2, specs=[BLOCK], out_spec=BlockSpec()), array(8)),
    "it has scratch": lambda: (call(lambda x, o, s: o.__setitem__(..., x[...]), like((4,)), scratch_shapes=[tpu.VMEM((4,), F32)]), array(4)),
    "references that it makes": lambda: (call(scoped, like((4,))), array(4)),
    "writes to an input": lambda: (call(into_input, like((4,))), array(4)),
    "was read before": lambda: (call(late_old, like((4,))), array(4)),
    "no c64": lambda: (call(add, like((4,), np.complex64)), array(4, np.complex64), array(4, np.complex64)),
}  # fmt: skip


@pytest.mark.parametrize("message", REFUSED)
def test_what_is_refused(message):
    function, *args = REFUSED[message]()
    with pytest.raises(NotImplementedError, match=message):
        triton_texts(function, *args)


def test_sizes_are_those_of_launches():
    x = array(8)
    for params, message in (
        (triton.CompilerParams(num_warps=3), "1, 2, 4, 8, 16, 32"),
        (triton.CompilerParams(num_warps=64), "1, 2, 4, 8, 16, 32"),
        (triton.CompilerParams(num_stages=0), "num_stages=0"),
    ):
        function = pallas_call(add, x, compiler_params=params)
        with pytest.raises(ValueError, match=message):
            pl.jit(function).trace(x, x).lower(lowering_platforms=("cuda",))
        np.testing.assert_array_equal(function(x, x), x + x)  # other devices don't look at it
    traced = lambda n, x: pallas_call(
        add,
        x,
        grid=n,
        in_specs=[BLOCK] * 2,
        out_specs=BLOCK,
        input_output_aliases={0: 0},
        compiler_params=GPU,
    )(x, x)
    with pytest.raises(NotImplementedError, match="known only when the program runs"):
        triton_texts(traced, np.int32(2), x)


def test_the_line_of_what_is_refused_is_named():
    x = array(8)
    with pytest.raises(NotImplementedError) as caught:
        triton_texts(call(lambda x_ref, o_ref: o_ref.__setitem__(..., jnp.sort(x_ref[...])), x), x)
    assert "jnp.sort(x_ref[...])" in str(caught.value)


def test_the_spec_of_a_block_that_triton_has_not_is_named():
    x = array((12, 3))
    spec = BlockSpec((3, None), lambda i, j: (i, j))  # of three
    with pytest.raises(NotImplementedError) as caught:
        triton_texts(call(lambda x, o: o.__setitem__(..., x[...]), x, grid=(4, 3), specs=[spec], out_spec=spec), x)  # fmt: skip
    message = str(caught.value)
    assert "blocks of in_specs" in message
    assert "# of three" in message
    assert "A block of (4, None) fits" in message
    big = BlockSpec((1 << 21,), lambda i: (i,))  # too big
    y = np.zeros(1 << 21, np.float32)
    with pytest.raises(NotImplementedError, match="# too big") as caught:
        triton_texts(call(lambda x, o: o.__setitem__(..., x[...]), y, grid=1, specs=[big], out_spec=big), y)  # fmt: skip
    assert "A block of (1048576,) fits" in str(caught.value)
    both = BlockSpec((3000, None, 1500), lambda: (0, 0, 0))  # both
    z = np.zeros((3000, 1, 1500), np.float32)
    with pytest.raises(NotImplementedError, match=r"A block of \(1024, None, 1024\) fits"):
        triton_texts(call(lambda x, o: o.__setitem__(..., x[...]), z, specs=[both], out_spec=both), z)  # fmt: skip
    wide = lambda x, o: o.__setitem__(..., (x[...][:, None] + x[...]).sum(1))
    with pytest.raises(NotImplementedError, match=r"in a loop: \(1024, 1024\) fits"):
        triton_texts(call(wide, y[:4096]), y[:4096])


def test_derivatives_of_kernels_have_no_text():
    x = np.ones(12, np.float32)
    specs = [BlockSpec((8,), lambda i: i)]  # the last block reaches beyond the array
    double = call(
        lambda x_ref, o_ref: o_ref.__setitem__(..., x_ref[...] * 2), x, grid=2, specs=specs
    )
    with pytest.raises(UnsupportedError, match="derivatives and batches run as plain programs"):
        triton_texts(lambda x: pl.jvp(double, (x,), (x,)), x)


def test_constants_that_differ_in_the_sign_of_zero_are_no_number():
    signs = np.array([0.0, -0.0] * 4, np.float32)
    x = np.ones(8, np.float32)
    with pytest.raises(UnsupportedError, match="constants have one number everywhere"):
        triton_texts(call(lambda x_ref, o_ref: o_ref.__setitem__(..., x_ref[...] * signs), x), x)


# Compiled for GPUs ------------------------------------------------------------------------------------------


@pytest.mark.skipif(
    plugins.triton_compiler() is None,
    reason="no compiler of Triton is installed: the extra `gpu-aot`, of jaxlib 0.10",
)
@pytest.mark.parametrize("name", KERNELS)
def test_assembly(name):
    [found] = triton_texts(*KERNELS[name]())
    for architecture in ("8.0", "9.0"):
        code = found.assembly(architecture)
        assert f".target sm_{architecture.replace('.', '')}" in code.text
        assert (code.shared_bytes > 0) == (name == "matmul")


@pytest.mark.skipif(
    plugins.triton_compiler() is None,
    reason="no compiler of Triton is installed: the extra `gpu-aot`, of jaxlib 0.10",
)
@pytest.mark.parametrize("name", OPERATIONS)
def test_assembly_of_operations(name):
    x = array(8)
    [found] = triton_texts(call_elementwise(OPERATIONS[name], x), x)
    assert ".target sm_90" in found.assembly("9.0").text


@pytest.mark.skipif(
    plugins.triton_compiler() is None or ptxas.ptxas() is None,
    reason="no compiler of Triton or no assembler is installed: the extra `gpu-aot`, of jaxlib 0.10",
)
def test_resources():
    function, *args = KERNELS["matmul"]()
    [found] = triton_texts(function, *args)
    needed = found.resources("9.0")
    assert needed.registers > 0
    assert needed.shared_bytes == found.assembly("9.0").shared_bytes
    assert 0 < needed.occupancy <= 1
    assert needed.programs_at_once * needed.num_warps == needed.occupancy * 64


@pytest.mark.gpu
@pytest.mark.parametrize("name", KERNELS)
def test_on_a_gpu(name):
    function, *args = KERNELS[name]()
    with pl.default_device(pl.devices("cpu")[0]):
        expected = function(*args)
    found = pl.jit(function)(*[pl.device_put(x, pl.devices("gpu")[0]) for x in args])
    for x, y in zip(pl.tree.leaves(found), pl.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-5)

"""Calls of every public function of `lax`, with operands that functions tend to get wrong, as in `numpy_calls`."""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np

from corpus.numpy_calls import _DOUBLE, _NOT_FINITE, _SINGLE, BF16, Row, ordinary, values

UNARY = [
    "abs", "acos", "acosh", "asin", "asinh", "atan", "atanh", "bessel_i0e", "bessel_i1e", "bitwise_not", "cbrt", "ceil",
    "clz", "conj", "cos", "cosh", "digamma", "erf", "erf_inv", "erfc", "exp", "exp2", "expm1", "floor", "imag",
    "is_finite", "lgamma", "log", "log1p", "logistic", "neg", "optimization_barrier", "population_count", "real",
    "reciprocal", "round", "rsqrt", "sign", "sin", "sinh", "sqrt", "square", "stage", "stop_gradient", "tan", "tanh",
]  # fmt: skip
BINARY = [
    "add", "atan2", "bitwise_and", "bitwise_or", "bitwise_xor", "complex", "div", "eq", "ge", "gt", "igamma",
    "igamma_grad_a", "igammac", "le", "lt", "max", "min", "mul", "mulhi", "ne", "nextafter", "polygamma", "pow",
    "random_gamma_grad", "rem", "shift_left", "shift_right_arithmetic", "shift_right_logical", "sub", "zeta",
]  # fmt: skip
REDUCTIONS = [
    "reduce_sum",
    "reduce_prod",
    "reduce_max",
    "reduce_min",
    "reduce_and",
    "reduce_or",
    "reduce_xor",
]
CUMULATIVE = ["cumsum", "cumprod", "cummax", "cummin", "cumlogsumexp"]

ANY = [  # of x, an array [3, 4] of any dtype
    "lax.argmax(x, 0, 'int32')", "lax.argmin(x, 1, 'int8')", "lax.argmax(x, 0, 'float32')", "lax.sort(x)",
    "lax.sort(x, dimension=0, is_stable=False)", "lax.sort((x, x[::-1]), num_keys=2)", "lax.sort_key_val(x, x[::-1])",
    "lax.top_k(x, 2)", "lax.top_k(x, 5)", "lax.transpose(x, (1, 0))", "lax.transpose(x, (0, 0))", "lax.rev(x, (0,))",
    "lax.rev(x, (2,))", "lax.reshape(x, (2, 6))", "lax.reshape(x, (2, 6), (1, 0))", "lax.reshape(x, (5,))",
    "lax.squeeze(x, (0,))", "lax.squeeze(x[:1], (0,))", "lax.expand_dims(x, (0, 3))", "lax.collapse(x, 0)",
    "lax.collapse(x, 0, 1)", "lax.concatenate([x, x], 1)", "lax.concatenate([x, x[:1]], 1)", "lax.stack([x, x], 1)",
    "lax.unstack(x, 1)", "lax.split(x, (1, 3), axis=1)", "lax.split(x, (1, 1), axis=1)", "lax.tile(x, (2, 1))",
    "lax.pad(x, x[0, 0], [(1, -1, 0), (0, 1, 2)])", "lax.pad(x, 0, [(1, 0, 0), (0, 0, 0)])",
    "lax.pad(x, 0.5, [(0, 0, 0), (0, 0, 0)])", "lax.slice(x, (0, 1), (3, 4), (2, 2))", "lax.slice(x, (0, 3), (3, 5))",
    "lax.slice_in_dim(x, -3, None, 2, axis=1)", "lax.index_in_dim(x, -1, 1)", "lax.index_in_dim(x, 3, 0, False)",
    "lax.dynamic_slice(x, (2, -1), (2, 2))", "lax.dynamic_slice(x, (0, 0), (4, 1))", "lax.dynamic_slice(x, (0,), (1,))",
    "lax.dynamic_slice_in_dim(x, 7, 2)", "lax.dynamic_index_in_dim(x, -1, 1, False)",
    "lax.dynamic_update_slice(x, x[:2, :2], (2, -1))", "lax.dynamic_update_slice(x, jnp.ones((1, 1)), (0, 0))",
    "lax.dynamic_update_slice_in_dim(x, x[:1], 9, 0)", "lax.dynamic_update_index_in_dim(x, x[0], -1, 0)",
    "lax.broadcast(x, (2,))", "lax.broadcast_in_dim(x, (3, 2, 4), (0, 2))", "lax.broadcast_in_dim(x, (3, 2), (0, 1))",
    "lax.broadcast_to_rank(x, 3)", "lax.broadcast_to_rank(x, 1)", "lax.broadcast_like(x[:1], x)",
    "lax.full_like(x, 1)", "lax.full_like(x, -1)", "lax.full_like(x, 2.5)", "lax.full_like(x, 1j)",
    "lax.full_like(x, 300, 'uint8')", "lax.full_like(x, True, shape=(2,))", "lax.full_like(x, 0, lax.dtype(x))", "lax.dce_sink(x)",
    "lax.select(x > 0, x, -x)", "lax.select_n(x > 0, x, x[::-1])", "lax.select_n(x[0, 0] > 0, x, x[::-1])",
    "lax.select_n(np.int32(2), x, x, x)", "lax.clamp(x[0, 0], x, x[1, 1])", "lax.clamp(0, x, 1)",
    "lax.clamp(x[:, :2], x, x)", "lax.convert_element_type(x, 'int8')", "lax.convert_element_type(x, 'uint8')",
    "lax.convert_element_type(x, 'bool')", "lax.convert_element_type(x, 'complex64')", "lax.convert_element_type(x, float)",
    "lax.convert_element_type(x, jnp.bfloat16)", "lax.bitcast_convert_type(x, 'int8')", "lax.reduce_precision(x, 4, 3)",
    "lax.bitcast_convert_type(x, 'uint32')", "lax.bitcast_convert_type(x, 'float32')", "lax.integer_pow(x, 3)",
    "lax.integer_pow(x, 0)", "lax.integer_pow(x, -2)", "lax.reduce_precision(x, 8, 0)", "lax.cumsum(x, 0, True)",
    "lax.reduce(x, x[0, 0] * 0, lax.add, (0,))", "lax.reduce(x, 0.5, lax.max, (1,))", "lax.reduce(x, x, lax.add, (0,))",
    "lax.reduce_window(x, 0, lax.add, (2, 2), (1, 1), 'VALID')", "lax.associative_scan(lax.add, x)",
    "lax.reduce_window(x, 1, lax.mul, (2, 1), (1, 2), 'SAME')", "lax.associative_scan(lax.max, x, axis=1, reverse=True)",
    "lax.approx_max_k(x, 2)", "lax.approx_min_k(x, 2)", "lax.fft(x, 'fft', (4,))", "lax.fft(x, 'rfft', (4,))",
    "lax.fft(x, 'irfft', (6,))", "lax.dot(x, lax.transpose(x, (1, 0)))", "lax.dot(x, x)", "lax.dot(x[0], x[1])",
    "lax.dot(x, x[0], preferred_element_type='float32')", "lax.batch_matmul(x[:, :, None], x[:, None])",
    "lax.dot_general(x, x, (([1], [1]), ([0], [0])))", "lax.dot_general(x, x, (([1], [0]), ([], [])))",
    "lax.scaled_dot(x, lax.transpose(x, (1, 0)))", "lax.index_take(x, (np.int32([2, 0]),), (0,))",
    "lax.scan(lambda c, a: (c + a, c), x[0], x)", "lax.scan(lambda c, a: (c + a, a), 0, x)", "lax.map(lambda a: a[0], x)",
    "lax.scan(lambda c, a: (c, a * a), None, x, reverse=True)", "lax.map(lambda a: a + a, x, batch_size=2)",
    "lax.cond(x[0, 0] > 0, lambda a: a, lambda a: -a, x)", "lax.cond(True, lambda a: a, lambda a: a[0], x)",
    "lax.switch(7, [lambda a: a, lambda a: a + a], x)", "lax.switch(x[0, 0], [lambda a: a, lambda a: a + a], x)",
    "lax.fori_loop(0, 3, lambda i, c: c + x, x)", "lax.fori_loop(0, 3, lambda i, c: c + i, x)",
    "lax.fori_loop(2, 0, lambda i, c: c + x, x)", "lax.while_loop(lambda c: c[0] < 3, lambda c: (c[0] + 1, c[1] + x), (0, x))",
    "lax.while_loop(lambda c: (c < 5).all(), lambda c: c + 1, x)", "lax.composite(lambda a: a + a, name='my.twice')(x)",
    "lax.platform_dependent(x, cpu=lambda a: a + a, default=lambda a: a)", "lax.after_all(lax.create_token()) and x",
    "lax.with_sharding_constraint(x, jax.sharding.SingleDeviceSharding(jax.devices()[0]))",
    "lax.optimization_barrier((x, x[0]))", ("lax.scatter_apply(x, np.int32([[1]]), lambda a: a + a, "
    "lax.ScatterDimensionNumbers((0,), (0,), (0,)), update_shape=(1, 4))"),
    "lax.gather(x, np.int32([[2], [0]]), lax.GatherDimensionNumbers((1,), (0,), (0,)), (1, 4))",
    "lax.gather(x, np.int32([[7], [-1]]), lax.GatherDimensionNumbers((1,), (0,), (0,)), (1, 4), mode='fill')",
    "lax.gather(x, np.int32([[7], [-1]]), lax.GatherDimensionNumbers((1,), (0,), (0,)), (1, 4), mode='clip')",
    "lax.gather(x, np.int32([[7], [-1]]), lax.GatherDimensionNumbers((1,), (0,), (0,)), (1, 4), mode='fill', fill_value=1)",
    *(
        f"lax.{name}(x, np.int32([[2], [2], [9]]), x, lax.ScatterDimensionNumbers((1,), (0,), (0,)))"
        for name in ("scatter", "scatter_add", "scatter_mul", "scatter_min", "scatter_max", "scatter_sub")
    ),
    *(
        f"jax.vmap(lambda a: lax.{call}, axis_name='i')(x)"
        for call in (
            "psum(a, 'i')", "pmean(a, 'i')", "pmax(a, 'i')", "pmin(a, 'i')", "all_gather(a, 'i')",
            "all_gather(a, 'i', axis=1, tiled=True)", "ppermute(a, 'i', [(0, 1), (1, 2)])", "pshuffle(a, 'i', [2, 0, 1])",
            "pbroadcast(a, 'i', 1)", "all_to_all(a[:3], 'i', 0, 0)", "pswapaxes(a[:3], 'i', 0)", "psum_scatter(a[:3], 'i')",
            "axis_index('i') + a", "axis_size('i') + a", "pcast(a, 'i', to='varying')", "psum(a, 'j')",
        )
    ),
]  # fmt: skip

ONCE = [  # of x, an array [3, 4] of floats
    "lax.broadcast_shapes((2, 1), (3,))", "lax.broadcast_shapes((2,), (3,))", "lax.broadcasted_iota('int32', (2, 3), 1)",
    "lax.broadcasted_iota('bfloat16', (2, 3), 0)", "lax.iota('uint8', 5)", "lax.iota('float32', -1)", "lax.iota('bool', 2)",
    "lax.full((2,), 1)", "lax.full((2,), 1.5)", "lax.full((2,), 1, 'uint8')", "lax.full((2,), -1, 'uint8')",
    "lax.full((2,), 2.5, 'int32')", "lax.full((2,), x)", "lax.full((-1,), 1)", "lax.empty((2, 0), 'float32').shape",
    "lax.shape_as_value((2, 3))", "lax.create_token() is None", "lax.conv(x[None, None], x[None, None, :2, :2], (1, 1), 'SAME')",
    "lax.conv_with_general_padding(x[None, None], x[None, None, :2, :2], (1, 2), [(1, 0), (0, 1)], (1, 1), (1, 2))",
    "lax.conv_general_dilated(x[None, None], x[None, None, :2, :2], (1, 1), 'VALID')",
    ("lax.conv_general_dilated(x[None, ..., None], x[:2, :2, None, None], (1, 1), 'SAME', "
    "dimension_numbers=('NHWC', 'HWIO', 'NHWC'))"),
    "lax.conv_general_dilated(x[None, None], x[None, :2], (1, 1), 'VALID')",
    "lax.conv_general_dilated_local(x[None, None], jnp.ones((1, 4, 2, 3)), (1, 1), 'VALID', (2, 2))",
    "lax.conv_general_dilated_patches(x[None, None], (2, 2), (1, 1), 'VALID')",
    "lax.conv_transpose(x[None, ..., None], x[:2, :2, None, None], (2, 2), 'SAME', dimension_numbers=('NHWC', 'HWIO', 'NHWC'))",
    "lax.conv_dimension_numbers((1, 2, 3, 4), (2, 2, 1, 1), None).lhs_spec", "lax.conv_general_permutations(('NHC', 'HIO', 'NHC'))",
    "lax.conv_general_shape_tuple((1, 2, 5), (3, 2, 2), (1,), 'SAME', ('NCH', 'OIH', 'NCH'))",
    "lax.conv_shape_tuple((1, 2, 5), (3, 2, 2), (1,), [(1, 1)])", "lax.padtype_to_pads((5,), (2,), (2,), 'SAME')",
    "lax.conv_transpose_shape_tuple((1, 2, 5), (3, 2, 2), (2,), 'SAME', ('NCH', 'OIH', 'NCH'))",
    "lax.reduce_window_shape_tuple((5, 5), (2, 2), (1, 2))", "lax.padtype_to_pads((5,), (2,), (2,), 'EQUAL')",
    "lax.custom_linear_solve(lambda v: 2 * v, x, lambda f, b: b / 2, symmetric=True)",
    "lax.custom_root(lambda v: v * v - 2, 1.0, lambda f, v: 2 ** 0.5, lambda g, b: b / g(1.0))",
    "lax.ragged_dot(x, jnp.ones((2, 4, 2)), np.int32([1, 2]))", "lax.rng_uniform(0.0, 1.0, (2,)).shape",
    ("lax.ragged_dot_general(x, jnp.ones((2, 4, 2)), np.int32([1, 2]), lax.RaggedDotDimensionNumbers("
    "(([1], [1]), ([], [])), [0], [0]))"),
    "lax.rng_bit_generator(np.uint32([1, 2, 3, 4]), (2,))", ("lax.rng_bit_generator(np.uint32([1, 2]), (2,), algorithm="
    "lax.RandomAlgorithm.RNG_THREE_FRY)"),
    "lax.rng_bit_generator(np.uint32([1, 2, 3, 4]), (2,), 'uint8')", "lax.rng_bit_generator(x, (2,))",
    ("jax.shard_map(lambda a: lax.psend(a, 'i', []), mesh=jax.make_mesh((1,), ('i',)), in_specs=jax.P('i'), "
    "out_specs=jax.P())(x) and 1"),
    ("jax.shard_map(lambda a: lax.precv(lax.create_token(), a, 'i', []), mesh=jax.make_mesh((1,), ('i',)), "
    "in_specs=jax.P('i'), out_specs=jax.P('i'))(x).shape"),
    ("jax.shard_map(lambda a: lax.ragged_all_to_all(a, a, *[np.int32([v]) for v in (0, 3, 0, 3)], axis_name='i'), "
    "mesh=jax.make_mesh((1,), ('i',)), in_specs=jax.P('i'), out_specs=jax.P('i'))(x).shape"),
]  # fmt: skip


def _unary() -> Iterator[Row]:
    for name in UNARY:
        for dtype in _SINGLE:
            yield Row(f"lax.{name}(x)", (values(dtype),))
        for dtype in _DOUBLE:
            yield Row(f"lax.{name}(x)", (values(dtype),), True)
        yield Row(f"lax.{name}(x)", (np.array(_NOT_FINITE, np.complex64),))
        for number in ("True", "-3", "2.5", "1j"):
            yield Row(f"lax.{name}({number})")
        yield Row(f"lax.{name}(x)", (np.zeros((0, 2), np.float32),))
        yield Row(f"lax.{name}(2)", x64=True)


def _binary() -> Iterator[Row]:
    for name in BINARY:
        for x64, dtypes in ((False, _SINGLE), (True, _DOUBLE)):
            for dtype in dtypes:
                x = values(dtype)
                a, b = np.repeat(x, x.size).reshape(x.size, -1), np.tile(x, (x.size, 1))
                yield Row(f"lax.{name}(x, y)", (a, b), x64)
                yield Row(f"lax.{name}(x, x[0])", (x,), x64)
                yield Row(f"lax.{name}(x, 2)", (x,), x64)
        for dtype in ("float32", "uint8", BF16, "complex64"):
            for number in ("-1", "2.5", "True", "1j"):
                yield Row(f"lax.{name}(x, {number})", (values(dtype),))
                yield Row(f"lax.{name}({number}, x)", (values(dtype),))
        x = np.ones(2, np.float32)
        yield Row(f"lax.{name}(x, y)", (x, np.ones(2, np.int32)))
        yield Row(f"lax.{name}(x, y)", (x, np.ones(3, np.float32)))
        yield Row(f"lax.{name}(x, y)", (np.ones((3, 2), np.float32), x))
        yield Row(f"lax.{name}(x, y)", (np.ones((3, 1), np.float32), np.ones((1, 2), np.float32)))
        yield Row(f"lax.{name}(x, y)", (x[:0], x[:0]))
        yield Row(f"lax.{name}(3, 2)")
        yield Row(f"lax.{name}(3.5, 2)")


def _reductions() -> Iterator[Row]:
    for x64, dtypes in ((False, _SINGLE), (True, _DOUBLE)):
        for dtype in dtypes:
            x = ordinary(3, 4, dtype=dtype)
            for name in REDUCTIONS:
                yield Row(f"lax.{name}(x, (0,))", (x,), x64)
                yield Row(f"lax.{name}(x, (0,))", (values(dtype),), x64)
            for name in CUMULATIVE:
                yield Row(f"lax.{name}(x, 1)", (x,), x64)
                yield Row(f"lax.{name}(x, 0, reverse=True)", (values(dtype),), x64)
            for text in ANY:
                yield Row(text, (x,), x64)
            if np.dtype(dtype).kind == "f" or dtype is BF16:
                positive = np.array([0.0, 0.5, 1.0, 2.5, 10.0], dtype)
                yield Row("lax.betainc(x, x[::-1], x / 10)", (positive,), x64)
    for name in (*REDUCTIONS, *CUMULATIVE):
        axes = "(0, 2)" if name in REDUCTIONS else "2"
        yield Row(f"lax.{name}(x, {axes})", (ordinary(3, 4),))
        yield Row(
            f"lax.{name}(x, {axes[:2] + ',)' if axes != '2' else '0'})",
            (np.zeros((0, 2), np.float32),),
        )
    for text in ONCE:
        yield Row(text, (ordinary(3, 4),))


def all_rows() -> list[Row]:
    """Every row, once."""
    rows = [*_unary(), *_binary(), *_reductions()]
    return list({str(row): row for row in rows}.values())


def named(row: Row) -> list[str]:
    """The functions of `lax` that a row names, without `lax.`."""
    return re.findall(r"lax\.(\w+)", row.text)

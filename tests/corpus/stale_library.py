"""Functions of the library with values of an argument that are equal or alike, but mean different things."""

from typing import Any

import ml_dtypes
import numpy as np

from .stale_readers import plain

# Functions of the library -------------------------------------------------------------------------

LIBRARY: dict[str, Any] = {}


def library(name, call, *values):
    """A function of the library, and values of an argument that are equal or alike, but mean different things."""
    LIBRARY[name] = call, values


Z, T1 = (0.0, -0.0), (True, 1)
library("pad", lambda jax, x, v: jax.numpy.pad(x, 1, constant_values=v), *Z)
library(
    "pad_widths", lambda jax, x, v: jax.numpy.pad(x, v), 1, (1, 0), ((1, 0),), {0: 1}, {0: (0, 1)}
)
library("lax_pad", lambda jax, x, v: jax.lax.pad(x, np.float32(v), [(1, 1, 0)]), *Z)
library("nan_to_num", lambda jax, x, v: jax.numpy.nan_to_num(x * np.nan, nan=v), *Z)
library(
    "full",
    lambda jax, x, v: jax.numpy.full((2,), v),
    *Z,
    False,
    0,
    0j,
    np.int8(0),
    np.float16(-0.0),
)
library("full_like", lambda jax, x, v: jax.numpy.full_like(x, v), *Z)
library("lax_full", lambda jax, x, v: jax.lax.full((2,), v), *Z, 0, False, complex(-0.0, 0.0))
library(
    "asarray",
    lambda jax, x, v: jax.numpy.asarray(v),
    *Z,
    0,
    False,
    0j,
    np.float16(0),
    [0.0],
    [-0.0],
    [0],
    (False,),
)
library(
    "array_of_number",
    lambda jax, x, v: jax.numpy.array(v, dtype="float32"),
    *Z,
    0,
    False,
)
library("where", lambda jax, x, v: jax.numpy.where(x > 2, x, v), *Z, 0, False, np.float32(-0.0))
library("multiply", lambda jax, x, v: x * v, *Z, 0, False, True, 1, 1.0, np.float16(-0.0))
library("divide", lambda jax, x, v: 1 / (x * v), *Z)
library("divide_by", lambda jax, x, v: x / v, *Z, 1, True, 1.0)
library(
    "power",
    lambda jax, x, v: x**v,
    2,
    2.0,
    True,
    1,
    -1,
    -1.0,
    0.5,
    0,
    *Z,
    np.int32(2),
    np.float32(2),
)
library("power_of_zero", lambda jax, x, v: jax.numpy.power(0 * x, v), *Z, 0, False, 1, -1, -1.0)
library("power_of_integers", lambda jax, x, v: x.astype("int32") ** v, 2, 2.0, True, 1, 1.0)
library("integer_pow", lambda jax, x, v: jax.lax.integer_pow(x, v), 1, 0, 2)
library("arctan2", lambda jax, x, v: jax.numpy.arctan2(v, -x), *Z)
library("copysign", lambda jax, x, v: jax.numpy.copysign(x, v), *Z, 0, np.float32(-0.0))
library("maximum", lambda jax, x, v: jax.numpy.maximum(-x * 0, v), *Z)
library("clip", lambda jax, x, v: 1 / jax.numpy.clip(-x, v, None), *Z, 1, 1.0, True)
library("linspace", lambda jax, x, v: jax.numpy.linspace(v, 3.0, 3), *Z, 0, False, 1, True, 1j)
library("linspace_integers", lambda jax, x, v: jax.numpy.linspace(0, 3, v), 3, np.int32(3))
library(
    "linspace_endpoint",
    lambda jax, x, v: jax.numpy.linspace(0, 3, 3, endpoint=v),
    True,
    False,
    1,
    0,
)
library(
    "arange", lambda jax, x, v: jax.numpy.arange(v, 3), *Z, 0, 1, 1.0, np.float32(1), np.int8(1)
)
library("arange_stop", lambda jax, x, v: jax.numpy.arange(v), 2, 2.0, np.float16(2), np.int8(2))
library("arange_step", lambda jax, x, v: jax.numpy.arange(0, 3, v), 1, 1.0, True)
library("select", lambda jax, x, v: jax.numpy.select([x > 2], [x], v), *Z, 0)
library("interp", lambda jax, x, v: jax.numpy.interp(x, x[:2], x[:2], right=v), *Z)
library("unique", lambda jax, x, v: jax.numpy.unique(x, size=4, fill_value=v), *Z, 1)
library(
    "nonzero",
    lambda jax, x, v: jax.numpy.nonzero(x, size=4, fill_value=v)[0],
    0,
    False,
    1,
    True,
    -1,
)
library(
    "take_filled", lambda jax, x, v: jax.numpy.take(x, np.array([9]), mode="fill", fill_value=v), *Z
)
library(
    "get_filled", lambda jax, x, v: x.at[np.array([9])].get(mode="fill", fill_value=v), *Z, 1, True
)
library("gathered_mode", lambda jax, x, v: x.at[np.array([9])].get(mode=v), "fill", "clip", "wrap")
library("set", lambda jax, x, v: x.at[0].set(v), *Z, 0, False, 1, True)
library("multiply_at", lambda jax, x, v: x.at[0].multiply(v), *Z)
library(
    "element",
    lambda jax, x, v: x[v],
    0,
    False,
    1,
    True,
    np.int8(1),
    np.bool_(True),
    (0,),
    (False,),
    slice(0, 1),
    slice(False, 1),
    None,
    Ellipsis,
)
library("max_initial", lambda jax, x, v: jax.numpy.max(-x, initial=v), *Z, 1, True)
library("sum_initial", lambda jax, x, v: jax.numpy.sum(-x * 0, initial=v), *Z)
library(
    "sum_axis",
    lambda jax, x, v: jax.numpy.sum(jax.numpy.stack([x, x]), axis=v),
    0,
    1,
    (0,),
    (1,),
    (0, 1),
    None,
    -1,
    np.int8(1),
)
library("sum_keepdims", lambda jax, x, v: jax.numpy.sum(x, keepdims=v), True, False, 1, 0)
library(
    "sum_dtype",
    lambda jax, x, v: jax.numpy.sum(x, dtype=v),
    np.float32,
    np.dtype("float16"),
    "int32",
    np.int8,
    ml_dtypes.int4,
    ml_dtypes.uint4,
    ml_dtypes.bfloat16,
    bool,
    int,
    float,
)
library(
    "zeros",
    lambda jax, x, v: jax.numpy.zeros((2,), v),
    "l",
    "q",
    np.int32,
    bool,
    np.bool_,
    int,
    float,
    complex,
    ml_dtypes.int4,
    ml_dtypes.uint4,
    ml_dtypes.float8_e4m3fn,
    ml_dtypes.float8_e5m2,
)
library(
    "astype",
    lambda jax, x, v: x.astype(v),
    "l",
    np.int32,
    bool,
    int,
    ml_dtypes.int4,
    ml_dtypes.uint4,
    ml_dtypes.float8_e4m3fn,
    ml_dtypes.float8_e5m2,
)
library(
    "convert",
    lambda jax, x, v: jax.lax.convert_element_type(x, v),
    np.int32,
    bool,
    int,
    float,
    ml_dtypes.int4,
    ml_dtypes.uint4,
)
library("bitcast", lambda jax, x, v: jax.lax.bitcast_convert_type(x, v), np.int32, np.uint32)
library("var_ddof", lambda jax, x, v: jax.numpy.var(x, ddof=v), *Z, 0, 1, True, 1.0, 0.5)
library("cov_ddof", lambda jax, x, v: jax.numpy.cov(x, ddof=v), 0, 1)
library("quantile", lambda jax, x, v: jax.numpy.quantile(x, v), *Z, 1.0, 0.5)
library(
    "quantile_method",
    lambda jax, x, v: jax.numpy.quantile(x, 0.4, method=v),
    "linear",
    "lower",
    "higher",
    "nearest",
    "midpoint",
)
library("round", lambda jax, x, v: jax.numpy.round(x * 1.26, v), 0, 1, True, False, -1)
library("roll", lambda jax, x, v: jax.numpy.roll(x, v), 1, True, (1,), 0, -1, np.int8(1))
library("tri", lambda jax, x, v: jax.numpy.tri(2, 3, v), 0, 1, True, -1)
library("tril", lambda jax, x, v: jax.numpy.tril(jax.numpy.ones((2, 2)), v), 0, 1, True, -1)
library("eye", lambda jax, x, v: jax.numpy.eye(2, 3, v), 0, 1, True, -1)
library("diag", lambda jax, x, v: jax.numpy.diag(x, v), 0, 1, -1)
library("sort", lambda jax, x, v: jax.numpy.sort(x, descending=v), True, False, 1, 0)
library("cumsum", lambda jax, x, v: jax.lax.cumsum(x, reverse=v), True, False, 1, 0)
library("argmax_dtype", lambda jax, x, v: jax.lax.argmax(x, 0, v), np.int32, np.int8, np.uint8)
library("top_k", lambda jax, x, v: jax.lax.top_k(x, v), 1, 2)
library("leaky_relu", lambda jax, x, v: jax.nn.leaky_relu(-x, v), *Z, 1, 1.0, True)
library("elu", lambda jax, x, v: jax.nn.elu(-x, v), *Z, 1, 1.0)
library("celu", lambda jax, x, v: jax.nn.celu(-x, v), 1, 1.0, 2.0)
library("gelu", lambda jax, x, v: jax.nn.gelu(x, v), True, False, 1, 0)
library(
    "softmax", lambda jax, x, v: jax.nn.softmax(jax.numpy.stack([x, x]), v), 0, 1, -1, (0, 1), None
)
library(
    "softmax_where",
    lambda jax, x, v: jax.nn.softmax(x, where=np.array(v)),
    [True, False, True],
    [True, True, True],
)
library(
    "one_hot",
    lambda jax, x, v: jax.nn.one_hot(np.array([0, 1]), 3, dtype=v),
    np.float32,
    np.int32,
    bool,
    ml_dtypes.int4,
)
library(
    "norm",
    lambda jax, x, v: jax.numpy.linalg.norm(x, v),
    None,
    1,
    True,
    1.0,
    2,
    2.0,
    0,
    *Z,
    np.inf,
    -np.inf,
    -1,
)
library(
    "matrix_norm",
    lambda jax, x, v: jax.numpy.linalg.norm(jax.numpy.outer(x, x) + 1, v),
    None,
    "fro",
    "nuc",
    1,
    1.0,
    2,
    np.inf,
    -2,
)
library(
    "logsumexp_axis", lambda jax, x, v: jax.scipy.special.logsumexp(x, axis=v), 0, None, (0,), -1
)
library(
    "einsum",
    lambda jax, x, v: jax.numpy.einsum(v, x, x),
    "i,i",
    "i,i->i",
    "i,j->ij",
    "i,j->ji",
    "...,...",
    "i,j",
)
library(
    "dot_dtype",
    lambda jax, x, v: jax.numpy.dot(x, x, preferred_element_type=v),
    None,
    np.float32,
    np.float16,
    ml_dtypes.bfloat16,
)
library("reshape", lambda jax, x, v: jax.numpy.reshape(x, v), (3,), (3, 1), (1, 3), -1, (-1, 1), 3)
library(
    "reshape_order",
    lambda jax, x, v: jax.numpy.reshape(jax.numpy.stack([x, x]), (3, 2), order=v),
    "C",
    "F",
)
library("repeat", lambda jax, x, v: jax.numpy.repeat(x, v, total_repeat_length=4), 1, 2, True)
library("histogram", lambda jax, x, v: jax.numpy.histogram(x, v)[0], 2, 3)
library("gradient", lambda jax, x, v: jax.numpy.gradient(x, v), 1, 1.0, True, 2.0, -1.0)
library(
    "fft_norm", lambda jax, x, v: jax.numpy.fft.fft(x, norm=v), None, "ortho", "forward", "backward"
)
library("fft_size", lambda jax, x, v: jax.numpy.fft.rfft(x, v), None, 2, 3, 4)
library("allclose", lambda jax, x, v: jax.numpy.isclose(x, x + v, atol=0.5), 0.0, -0.0, 1, 0.4)
library(
    "isclose_nan",
    lambda jax, x, v: jax.numpy.isclose(x * np.nan, np.nan, equal_nan=v),
    True,
    False,
    1,
)
library("gamma", lambda jax, x, v: jax.scipy.special.polygamma(v, x), 1, 2, 1.0)
library("bessel", lambda jax, x, v: jax.scipy.special.bessel_jn(x, v=v), 1, 2)
library("zeta", lambda jax, x, v: jax.scipy.special.zeta(x + 1, v), 1, 1.0, 2)
library("reduce_precision", lambda jax, x, v: jax.lax.reduce_precision(x * 1.001, 5, v), 2, 10, 3)
library("broadcast", lambda jax, x, v: jax.numpy.broadcast_to(x, v), (1, 3), (2, 3), (3,))
library(
    "iota",
    lambda jax, x, v: jax.lax.iota(v, 3),
    np.int32,
    np.float32,
    np.int8,
    ml_dtypes.bfloat16,
    int,
    float,
)
library(
    "concatenate_dtype",
    lambda jax, x, v: jax.numpy.concatenate([x, x], dtype=v),
    None,
    np.int32,
    np.float16,
)
library(
    "random_normal",
    lambda jax, x, v: jax.random.normal(jax.random.key(0), (2,), v),
    np.float32,
    np.float16,
    ml_dtypes.bfloat16,
)
library(
    "random_seed",
    lambda jax, x, v: jax.random.uniform(jax.random.key(v), (2,)),
    0,
    1,
    True,
    False,
    -1,
    np.int8(1),
    2**31,
)
library(
    "random_range",
    lambda jax, x, v: jax.random.uniform(jax.random.key(0), (2,), minval=v, maxval=1.0),
    *Z,
    0.5,
)
library(
    "random_choice",
    lambda jax, x, v: jax.random.choice(jax.random.key(0), 5, (2,), replace=v),
    True,
    False,
    1,
    0,
)
library(
    "fold_in",
    lambda jax, x, v: jax.random.key_data(jax.random.fold_in(jax.random.key(0), v)),
    0,
    1,
    True,
    np.uint32(1),
)
library(
    "key_impl",
    lambda jax, x, v: jax.random.key_data(jax.random.key(0, impl=v)),
    "threefry2x32",
    "rbg",
    "unsafe_rbg",
)
library(
    "split",
    lambda jax, x, v: jax.random.key_data(jax.random.split(jax.random.key(0), v)),
    1,
    2,
    (1,),
    (2, 1),
)
library(
    "resize",
    lambda jax, x, v: jax.image.resize(x, (5,), v),
    "nearest",
    "linear",
    "cubic",
    "lanczos3",
)
library("conv_mode", lambda jax, x, v: jax.numpy.convolve(x, x, v), "full", "same", "valid")
library("polyval", lambda jax, x, v: jax.numpy.polyval(x, v), *Z, 1, True)
library("vander", lambda jax, x, v: jax.numpy.vander(x, increasing=v), True, False, 1)
library(
    "solve_lower",
    lambda jax, x, v: jax.scipy.linalg.solve_triangular(
        jax.numpy.outer(x, x) + np.eye(3, dtype="f4"), x, lower=v
    ),
    True,
    False,
    1,
)
library(
    "solve_trans",
    lambda jax, x, v: jax.scipy.linalg.solve_triangular(
        jax.numpy.outer(x, x) + np.tri(3, dtype="f4"), x, trans=v
    ),
    0,
    1,
    2,
    "N",
    "T",
    "C",
)
library("searchsorted", lambda jax, x, v: jax.numpy.searchsorted(x, v), 1, 1.0, True, 2.5, *Z)
library(
    "searchsorted_side", lambda jax, x, v: jax.numpy.searchsorted(x, 2.0, side=v), "left", "right"
)
library("heaviside", lambda jax, x, v: jax.numpy.heaviside(x * 0, v), *Z, 1)
library("nextafter", lambda jax, x, v: jax.numpy.sign(jax.numpy.nextafter(x * 0, v)), 1.0, -1.0, *Z)
library(
    "sinc_type",
    lambda jax, x, v: jax.numpy.add(x, v),
    np.float16(1),
    np.float32(1),
    1,
    1.0,
    True,
    1j,
    np.complex64(1),
    ml_dtypes.bfloat16(1),
    np.int8(1),
)
library("packed_bits", lambda jax, x, v: jax.numpy.packbits(x > 1, bitorder=v), "big", "little")
library("window", lambda jax, x, v: jax.numpy.kaiser(3, v), *Z, 1, 1.0)
library("logspace", lambda jax, x, v: jax.numpy.logspace(v, 1, 2), *Z, 0, 1)
library("geomspace", lambda jax, x, v: jax.numpy.geomspace(v, 4, 2), 1, 1.0, True)
library(
    "cross_axis",
    lambda jax, x, v: jax.numpy.moveaxis(jax.numpy.stack([x, x]), v, 0),
    0,
    1,
    False,
    True,
    -1,
)
library("expand", lambda jax, x, v: jax.numpy.expand_dims(x, v), 0, 1, (0,), (0, 2), -1)
library("stack_axis", lambda jax, x, v: jax.numpy.stack([x, x], v), 0, 1, -1)
library(
    "number_of_ints", lambda jax, x, v: jax.numpy.add(np.int8(1), v), 1, True, 1.0, np.int8(1), 100
)
library("left_shift", lambda jax, x, v: jax.numpy.left_shift(np.int8(1), v), 1, True, np.int16(1))
library(
    "dynamic_slice",
    lambda jax, x, v: jax.lax.dynamic_slice(x, (v,), (2,)),
    0,
    1,
    True,
    False,
    np.int8(1),
)
library("slice_stride", lambda jax, x, v: jax.lax.slice(x, (0,), (3,), (v,)), 1, 2)
library("squeeze", lambda jax, x, v: jax.numpy.squeeze(x[None, :, None], v), 0, 2, (0, 2), None)
library(
    "scatter_mode", lambda jax, x, v: x.at[np.array([9])].set(1.5, mode=v), "drop", "clip", None
)
library(
    "scan_reverse",
    lambda jax, x, v: jax.lax.scan(lambda c, y: (c + y, c), 0.0, x, reverse=v)[1],
    True,
    False,
    1,
    0,
)
library(
    "scan_initial", lambda jax, x, v: jax.lax.scan(lambda c, y: (c * y, c), np.float32(v), x)[0], *Z
)
library(
    "reduce_initial", lambda jax, x, v: jax.lax.reduce(-x * 0, np.float32(v), jax.lax.add, (0,)), *Z
)
library(
    "cond_constant", lambda jax, x, v: jax.lax.cond(x[0] > 0, lambda: v, lambda: v), *Z, 0, 1, True
)
library("where_argument", lambda jax, x, v: jax.numpy.sum(x, where=v), True, False, 1, 0)


def outcomes(jax, name, mode, values):
    """What a function gives for one value after the other; the name of the class of an error."""
    call, _ = LIBRARY[name]
    x = jax.numpy.arange(1.0, 4.0, dtype="float32")
    make = {
        "eager": lambda v: lambda x: call(jax, x, v),
        "jit": lambda v: jax.jit(lambda x: call(jax, x, v)),
        "one jit": lambda v: (
            lambda x: jax.jit(lambda x: [call(jax, x, w) for w in (*values, v)])(x)[-1]
        ),
    }[mode]

    def outcome(v):
        try:
            return plain(make(v)(x))
        except Exception as error:
            return type(error).__name__

    return [outcome(v) for v in values]

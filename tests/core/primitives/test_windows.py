"""Convolutions, windows and reductions: shapes, edges, errors."""

import functools
import re

import numpy as np
import pytest

import pellucid as pl
from pellucid import lax, numpy as jnp
from pellucid.sharding import AxisType

IMAGE = np.ones((2, 4, 9, 9), np.float32)
KERNEL = np.ones((6, 4, 3, 3), np.float32)
NHWC = ("NHWC", "HWIO", "NHWC")


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        (((1,), "SAME"), {}, "window_strides for each of 2"),
        (((0, 1), "VALID"), {}, "positive window_strides"),
        (((1, 1), "FOO"), {}, "no padding"),
        (((1, 1), [(0, 0)]), {}, "2 pairs of padding"),
        (((1, 1), 3), {}, "pairs"),
        (((1, 1), "SAME"), {"lhs_dilation": (2, 2)}, "no meaning where lhs is dilated"),
        (((1, 1), "SAME"), {"dimension_numbers": ("NHWC", "HWIO")}, "three strings"),
        (((1, 1), "SAME"), {"dimension_numbers": ("NHWC", "HWIX", "NHWC")}, "'O', 'I'"),
        (((1, 1), "SAME"), {"dimension_numbers": ("NHWC", "HWIO", "NHCD")}, "same spatial axes"),
        (((1, 1), "SAME"), {"dimension_numbers": ("NHC", "HIO", "NHC")}, "name 4 axes"),
        (((1, 1), "SAME"), {"feature_group_count": 3}, "does not divide the 4 input features"),
        (((1, 1), "SAME"), {"batch_group_count": 5}, "does not divide the 2 examples"),
        (((1, 1), "SAME"), {"feature_group_count": 2}, "rhs has 4 input features"),
        (((1, 1), "SAME"), {"feature_group_count": 2, "batch_group_count": 2}, "one is 1"),
        (((1, 1), "SAME"), {"preferred_element_type": np.int32}, "can't give i32"),
    ],
)
def test_convolutions_that_do_not_fit_say_why(arguments, options, message) -> None:
    with pytest.raises((TypeError, ValueError), match=message):
        lax.conv_general_dilated(IMAGE, KERNEL, *arguments, **options)


def test_operands_of_a_convolution_have_one_dtype_and_rank() -> None:
    with pytest.raises(TypeError, match="one dtype"):
        lax.conv(IMAGE, KERNEL.astype(np.float16), (1, 1), "SAME")
    with pytest.raises(TypeError, match="equal rank"):
        lax.conv(IMAGE, KERNEL[0], (1, 1), "SAME")


SHAPES = [
    ("conv_general_shape_tuple", "conv_general_dilated", (2, 2), "SAME"),
    ("conv_general_shape_tuple", "conv_general_dilated", (2, 1), "VALID"),
    ("conv_transpose_shape_tuple", "conv_transpose", (2, 2), "SAME"),
    ("conv_transpose_shape_tuple", "conv_transpose", (4, 1), "VALID"),
]


@pytest.mark.parametrize(("shape_of", "function", "strides", "padding"), SHAPES)
def test_shapes_are_those_of_the_results(shape_of, function, strides, padding) -> None:
    lhs, rhs = np.ones((2, 9, 7, 3), np.float32), np.ones((3, 2, 3, 5), np.float32)
    predicted = getattr(lax, shape_of)(lhs.shape, rhs.shape, strides, padding, NHWC)
    assert (
        getattr(lax, function)(lhs, rhs, strides, padding, dimension_numbers=NHWC).shape
        == predicted
    )
    assert lax.conv_shape_tuple((2, 3, 9), (5, 3, 2), (2,), ((1, 0),)) == (2, 5, 5)


def test_names_of_padding() -> None:
    assert lax.padtype_to_pads((9, 9), (3, 2), (2, 1), "SAME") == [(1, 1), (0, 1)]
    assert lax.padtype_to_pads((9, 9), (3, 2), (2, 1), "same_lower") == [(1, 1), (1, 0)]
    with pytest.raises(ValueError, match="no padding"):
        lax.padtype_to_pads((9,), (3,), (2,), "FULL")


def test_conv_transpose_needs_dimension_numbers_beyond_three_axes() -> None:
    with pytest.raises(ValueError, match="one to three spatial axes"):
        lax.conv_transpose(np.ones((1,) * 6), np.ones((1,) * 6), (1,) * 4, "SAME")


@pytest.mark.parametrize("in_axes", [(0, None), (None, 0), (0, 0)])
def test_a_batch_of_no_convolutions(in_axes) -> None:
    lhs = IMAGE if in_axes[0] is None else np.zeros((0, *IMAGE.shape), np.float32)
    rhs = KERNEL if in_axes[1] is None else np.zeros((0, *KERNEL.shape), np.float32)
    result = pl.vmap(lambda x, y: lax.conv(x, y, (1, 1), "SAME"), in_axes)(lhs, rhs)
    assert result.shape == (0, 2, 6, 9, 9)


# Reductions ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name", ["reduce_max", "reduce_min", "reduce_prod", "reduce_and", "cumsum", "argmax"]
)
def test_reductions_refuse_axes_that_are_not_there(name) -> None:
    x = np.ones((2, 3), bool if name == "reduce_and" else np.float32)
    more = (np.int32,) if name == "argmax" else ()
    with pytest.raises(ValueError, match="out of bounds"):
        getattr(lax, name)(x, 5 if name in ("cumsum", "argmax") else (5,), *more)


def test_reductions_refuse_kinds_of_elements() -> None:
    with pytest.raises(TypeError, match="reduce_prod does not accept bool"):
        lax.reduce_prod(np.ones(2, bool), (0,))
    with pytest.raises(TypeError, match="reduce_and does not accept f32"):
        lax.reduce_and(np.ones(2, np.float32), (0,))
    with pytest.raises(TypeError, match="cumlogsumexp does not accept i32"):
        lax.cumlogsumexp(np.ones(2, np.int32))
    with pytest.raises(TypeError, match="integer dtype"):
        lax.argmax(np.ones(2), 0, np.float32)
    with pytest.raises(ValueError, match="no elements"):
        lax.argmin(np.ones((0, 2)), 0, np.int32)


def test_extremes_of_complex_numbers_compare_real_parts_first() -> None:
    x = np.array([1 + 2j, 1 - 2j, 0 + 9j], np.complex64)
    assert lax.reduce_max(x, (0,)) == 1 + 2j
    assert lax.reduce_min(x, (0,)) == 0 + 9j
    assert lax.argmax(x, 0, np.int32) == 0


def test_an_infinite_sum_of_exponentials_has_finite_derivatives() -> None:
    """Where the reference's are NaN."""
    x = np.array([-np.inf, -np.inf, 1.0], np.float32)
    _, tangent = pl.jvp(lax.cumlogsumexp, (x,), (np.ones(3, np.float32),))
    np.testing.assert_allclose(tangent, [1.0, 0.0, 1.0])


def test_windows_with_holes_have_cotangents() -> None:
    """Which the reference has not."""
    x = np.array([1.0, 5.0, 2.0, 4.0, 3.0], np.float32)

    def total(x):
        return lax.reduce_window(x, -np.inf, lax.max, (2,), (1,), "VALID", None, (2,)).sum()

    np.testing.assert_allclose(pl.grad(total)(x), [0.0, 1.0, 1.0, 0.0, 1.0])


# Fourier transforms -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("x", "kind", "lengths", "message"),
    [
        (np.ones((2, 5), np.complex64), "FFT", (4,), r"last axes are \(4,\)"),
        (np.ones((2, 5), np.complex64), "IRFFT", (4,), r"last axes are \(3,\)"),
        (np.ones((2, 5), np.complex64), "RFFT", (5,), "real signals only"),
        (np.ones((2, 5), np.float16), "RFFT", (5,), "float32 or float64"),
        (np.ones(5, np.complex64), "FFT", (5, 5), "as many"),
        (np.ones((1, 1, 1, 5), np.complex64), "FFT", (1, 1, 1, 5), "up to 3 axes"),
        (np.ones(5, np.complex64), "DCT", (5,), "no such transform"),
        (np.ones(5, np.complex64), 0, (5,), "no such transform"),
        (np.ones(5, np.complex64), "FFT", 5, "tuple of lengths"),
    ],
)
def test_transforms_that_do_not_fit_say_why(x, kind, lengths, message) -> None:
    with pytest.raises((TypeError, ValueError), match=message):
        lax.fft(x, kind, lengths)


def residual(w, x):
    return jnp.tanh(lax.conv_general_dilated(x, w, (1, 1), "SAME")) + x


def gradient_of_layers(layer):
    return pl.grad(lambda ws, x: functools.reduce(lambda x, w: layer(w, x), ws, x).sum())


def looped(ws, x):
    return pl.grad(lambda ws: lax.scan(lambda x, w: (residual(w, x), None), x, ws)[0].sum())(ws)


@pytest.mark.parametrize("f", [gradient_of_layers(pl.jit(residual)), looped])
def test_convolutions_have_the_order_of_fast_kernels_in_calls_and_loops(f):
    ws, x = np.ones((4, 3, 3, 3, 3), np.float32), np.ones((2, 3, 8, 8), np.float32)
    text = pl.jit(f).lower(ws, x).as_text()
    orders = set(re.findall(r"dim_numbers = (.*), window", text))
    assert orders == {"[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]"}


def test_partitioned_convolutions_are_not_left_in_calls():
    mesh = pl.make_mesh((2,), ("x",), axis_types=(AxisType.Auto,), devices=pl.devices()[:2])
    ws = np.ones((4, 3, 3, 3, 3), np.float32)
    x = pl.device_put(np.ones((2, 3, 8, 8), np.float32), pl.NamedSharding(mesh, pl.P("x")))
    compiled = pl.jit(gradient_of_layers(pl.jit(residual))).lower(ws, x).compile()
    assert "dim_labels=b01f_01io->b01f" in compiled.as_text()
    assert "01bf" not in compiled.as_text()

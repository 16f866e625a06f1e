"""Rows for convolution."""

import numpy as np

from tests.laws.sample import Sample, array

CHANNELS_LAST = "dimension_numbers=('NHWC', 'HWIO', 'NHWC')"


def convolution(lhs, rhs, arguments, dtype="float32", **options):
    """A use of conv_general_dilated."""
    options = {"agrees": "close", "derivative_tolerance": 1e-5} | options
    operands = (array(lhs, dtype), array(rhs, dtype))
    return Sample(f"lax.conv_general_dilated(x, y, {arguments})", operands, **options)


def correlation(x, y):
    """A convolution of one feature along one axis, without padding."""
    return np.stack(
        [[np.correlate(row[0], kernel[0].conj(), "valid") for kernel in y] for row in x]
    )


samples = [
    # one axis, against NumPy
    convolution((2, 1, 7), (3, 1, 3), "(1,), 'VALID'", reference=correlation),
    convolution((2, 1, 7), (3, 1, 3), "(1,), 'VALID'", "int32", reference=correlation),
    convolution((2, 1, 7), (3, 1, 3), "(1,), 'VALID'", "complex64", reference=correlation),
    *(convolution((1, 2, 5), (2, 2, 2), "(1,), 'SAME'", dtype) for dtype in ("bfloat16", "float16", "float64", "uint8")),
    # strides, padding, dilation
    convolution((2, 3, 6, 5), (4, 3, 3, 2), "(2, 1), 'SAME'"),
    convolution((2, 3, 6, 5), (4, 3, 3, 2), "(1, 2), 'SAME_LOWER'"),
    convolution((2, 3, 6, 5), (4, 3, 3, 2), "(2, 1), [(1, 2), (0, 1)], (1, 2), (2, 1)"),
    convolution((2, 3, 6, 5), (4, 3, 2, 2), "(1, 2), [(-1, 2), (0, -1)]"),
    convolution((1, 1, 4), (1, 1, 3), "(3,), [(4, 5)], (2,), (2,)", "complex64"),
    # layouts
    convolution((2, 6, 5, 3), (3, 2, 3, 4), f"(1, 1), 'VALID', {CHANNELS_LAST}"),
    convolution((6, 3, 5, 2), (2, 4, 3, 3), "(1, 1), 'SAME', dimension_numbers=('HCWN', 'WOIH', 'CWNH')"),
    convolution((2, 3, 4, 3, 2), (2, 3, 2, 2, 1), "(1, 1, 1), 'VALID'"),
    convolution((2, 3), (4, 3), "(), ()"),
    # groups
    convolution((2, 4, 6), (6, 2, 3), "(1,), 'SAME', feature_group_count=2", same_text=True),
    convolution((2, 6, 4), (3, 2, 6), "(2,), 'VALID', dimension_numbers=('NHC', 'HIO', 'NHC'), feature_group_count=2"),
    convolution((4, 3, 6), (6, 3, 3), "(1,), 'SAME', batch_group_count=2"),
    convolution((4, 3, 6), (6, 3, 2), "(2,), [(1, 0)], (2,), (2,), batch_group_count=2", "complex64"),
    convolution((2, 3, 5), (3, 1, 2), "(1,), 'SAME', feature_group_count=3"),
    # size 0
    convolution((0, 3, 5), (2, 3, 2), "(1,), 'VALID'"),
    convolution((1, 3, 1), (2, 3, 2), "(1,), 'VALID'"),
    # precision and dtype of the result
    convolution((1, 2, 5), (2, 2, 2), "(1,), 'SAME', precision='highest'"),
    convolution((1, 2, 5), (2, 2, 2), "(1,), 'SAME', precision=('high', 'default')"),
    convolution((1, 2, 5), (2, 2, 2), "(1,), 'SAME', preferred_element_type=np.float32", "bfloat16", wrt=()),
    convolution((1, 2, 5), (2, 2, 2), "(1,), 'SAME', preferred_element_type=np.int32", "int8"),
    convolution((1, 2, 5), (2, 2, 2), "(1,), 'SAME', preferred_element_type=np.float32", "int8"),
    # functions
    Sample("lax.conv(x, y, (2, 1), 'SAME')", (array((1, 2, 4, 4)), array((3, 2, 2, 2))), agrees="close"),
    Sample(
        "lax.conv_with_general_padding(x, y, (1,), [(1, 2)], (2,), (1,), precision='high')",
        (array((1, 2, 4)), array((3, 2, 2))), agrees="close",
    ),
    *(
        Sample(f"lax.conv_transpose(x, y, {arguments})", (array((1, 3, 4, 2)), array((3, 2, 2, 3))), agrees="close")
        for arguments in (
            "(2, 1), 'SAME'", "(2, 2), 'VALID'", "(4, 2), 'SAME'", "(1, 2), [(1, 1), (2, 0)], (2, 1)",
            "(1, 2), [(1, 1), (2, 0)], (2, 1), use_consistent_padding=True",
        )
    ),
    Sample(
        "lax.conv_transpose(x, y, (2,), 'SAME', transpose_kernel=True)", (array((1, 4, 2)), array((3, 3, 2))),
        agrees="close",
    ),
    Sample(
        "lax.conv_general_dilated_patches(x, (3, 2), (1, 2), 'SAME')", (array((2, 2, 4, 4)),), agrees="close",
        same_text=False,
    ),
    Sample(
        "lax.conv_general_dilated_patches(x, (2,), (1,), 'VALID', dimension_numbers=('NHC', 'OIH', 'NCH'))",
        (array((2, 4, 3)),), agrees="close", same_text=False,
    ),
    Sample(
        "lax.conv_general_dilated_local(x, y, (1, 1), 'SAME', (3, 2))", (array((2, 2, 3, 4)), array((3, 12, 3, 4))),
        agrees="close", same_text=False,
    ),
    Sample(
        "lax.conv_general_dilated_local(x, y, (1,), 'VALID', (2,), dimension_numbers=('NHC', 'HIO', 'NHC'))",
        (array((2, 4, 3)), array((3, 6, 5))), agrees="close", same_text=False,
    ),
]  # fmt: skip

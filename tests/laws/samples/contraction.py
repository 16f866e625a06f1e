"""Rows for contraction: dot_general, dot, batch_matmul."""

import numpy as np

from tests.laws.sample import Sample, array, python, values

MATRICES = "(((1,), (0,)), ((), ()))"


def matrices(dtype, more="", right=None, **options):
    """A product of two matrices."""
    call = f"lax.dot_general(x, y, {MATRICES}{more})"
    operands = (array((2, 3), dtype), array((3, 4), right or dtype))
    return Sample(call, operands, **options)


samples = [
    matrices("float32", reference=np.matmul),
    *(
        matrices(dtype, reference=np.matmul)
        for dtype in ("float64", "int32", "uint8", "int64", "complex128")
    ),
    *(
        matrices(dtype, reference=np.matmul, agrees="close")
        for dtype in ("bfloat16", "float16", "complex64")
    ),
    matrices("bool", reference=lambda x, y: x @ y),
    matrices("float8_e4m3fn", wrt=()),
    # batch axes, several contracted axes, permuted axes
    Sample(
        "lax.dot_general(x, y, (((3, 1), (0, 2)), ((0,), (3,))))",
        (array((2, 3, 4, 5)), array((5, 6, 3, 2))),
        lambda x, y: np.einsum("bict,tjib->bcj", x, y),
        agrees="close",
    ),
    Sample(
        "lax.dot_general(x, y, (((1,), (2,)), ((2, 0), (0, 1))))",
        (array((2, 4, 3)), array((3, 2, 4))),
        lambda x, y: np.einsum("bka,abk->ab", x, y),
        agrees="close",
    ),
    Sample(
        "lax.dot_general(x, y, (((), ()), ((), ())))",
        (array((2,)), array((3, 1))),
        lambda x, y: np.multiply.outer(x, y),
    ),
    Sample(
        "lax.dot_general(x, y, (((), ()), ((1,), (0,))))",
        (array((2, 3), "complex64"), array((3,), "complex64")),
        lambda x, y: (x * y).T,
        agrees="close",
    ),
    # rank 0 and size 0
    Sample("lax.dot_general(x, y, (((), ()), ((), ())))", (array(()), array(()))),
    Sample("lax.dot_general(x, y, (((), ()), ((), ())))", (array((2, 3)), python(2.0))),
    Sample(f"lax.dot_general(x, y, {MATRICES})", (array((2, 0)), array((0, 4))), np.matmul),
    Sample(f"lax.dot_general(x, y, {MATRICES})", (array((0, 3), "int32"), array((3, 4), "int32"))),
    # precision
    matrices("float32", ", precision='highest'"),
    matrices("float32", ", precision=lax.Precision.HIGH"),
    matrices("float32", ", precision=('high', 'default')"),
    matrices("float32", ", precision='BF16_BF16_F32'", wrt=(), agrees="close"),
    matrices("bfloat16", ", precision=lax.DotAlgorithmPreset.F32_F32_F32", agrees="close", wrt=()),
    matrices("float64", ", precision='F64_F64_F64'"),
    # dtypes of the result
    matrices("bfloat16", ", preferred_element_type=np.float32", wrt=()),
    matrices("float32", ", preferred_element_type=np.float64", right="float64"),
    matrices("int8", ", preferred_element_type=np.int32"),
    matrices("int8", ", preferred_element_type=np.float32"),
    matrices("float32", ", preferred_element_type=np.int32", wrt=()),
    matrices("float64", ", preferred_element_type=np.complex128"),
    # operands of unlike dtypes
    matrices("int8", right="float32"),
    matrices("bfloat16", right="float32"),
    matrices("float32", right="float64"),
    matrices("float64", right="complex128"),
    matrices("uint8", right="int8"),
    # functions
    Sample("lax.dot(x, y)", (array((3,)), array((3, 4))), np.dot),
    Sample("lax.dot(x, y)", (array((2, 3)), array((3,))), np.dot),
    Sample("lax.dot(x, y)", (array((3,)), array((3,))), np.dot, agrees="close"),
    Sample(
        "lax.dot(x, y, dimension_numbers=(((0,), (1,)), ((), ())))", (array((3, 2)), array((4, 3)))
    ),
    Sample("lax.batch_matmul(x, y)", (array((5, 2, 3)), array((5, 3, 4))), np.matmul),
    Sample("lax.batch_matmul(x, y, 'high')", (array((2, 3)), array((3, 4))), np.matmul),
    Sample("lax.dot(x, y)", (values([np.inf, 1.0]), values([0.0, 1.0])), smooth=False, wrt=()),
]

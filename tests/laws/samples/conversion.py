"""Rows for conversion: other dtypes, other readings of bits, fewer bits, copies."""

import numpy as np

from tests.laws.sample import Sample, array, python, rows, values

KINDS = ("float32", "bfloat16", "int32", "uint8", "bool", "complex64")
SPECIAL = values([0.0, -0.0, 1.5, -1.5, np.inf, -np.inf, np.nan, 1e-40, 300.0, -1e30])


def conversions() -> list[Sample]:
    """From each kind of dtype to each."""
    found = []
    for source in KINDS:
        for target in KINDS:
            call = f"lax.convert_element_type(x, {target!r})"
            # bfloat16 has too few digits for differences in double precision to mean anything.
            differentiable = source in ("float32", "complex64") and target in (
                "float32",
                "complex64",
            )
            floating = source in ("float32", "bfloat16", "complex64")
            found.append(
                Sample(call, (array((2, 3), source, 0.0, 3.0),), smooth=differentiable,
                       wrt=None if floating else (), derivative_tolerance=1e-2, adjoint_tolerance=2e-2),
            )  # fmt: skip
    return found


samples = [
    *[
        s
        for s in conversions()
        if "bfloat16" not in s.call or s.operands[0].dtype.name != "bfloat16"
    ],
    Sample(
        "lax.convert_element_type(x, 'int32')",
        (values([1.7, -1.7, 2.5, -0.5]),),
        np.trunc,
        smooth=False,
    ),
    Sample("lax.convert_element_type(x, 'bool')", (SPECIAL,), smooth=False),
    Sample("lax.convert_element_type(x, 'float64')", (array((3,), "int64"),)),
    Sample(
        "lax.convert_element_type(x, 'float16')",
        (array((3,), "float64"),),
        smooth=False,
        adjoint_tolerance=1e-2,
    ),
    Sample("lax.convert_element_type(x, float)", (array((3,), "int32"),)),
    Sample(
        "lax.convert_element_type(x, 'float32')",
        (python(1.0),),
        smooth=False,
        adjoint_tolerance=1e-6,
    ),
    Sample("lax.convert_element_type(x, int)", (python(1.0),), smooth=False),
    Sample(
        "lax.convert_element_type(x, 'float8_e5m2')",
        (array((3,)),),
        smooth=False,
        adjoint_tolerance=0.3,
    ),
    Sample("lax.convert_element_type(x, 'int4')", (array((3,), "int32"),)),
    # Bits
    Sample("lax.bitcast_convert_type(x, 'int32')", (array((2, 3)),), wrt=()),
    Sample("lax.bitcast_convert_type(x, 'float32')", (array((2, 3), "uint32"),)),
    Sample("lax.bitcast_convert_type(x, 'uint8')", (array((2, 3)),), wrt=()),
    Sample("lax.bitcast_convert_type(x, 'uint16')", (array((), "uint32", 0, 1e9),)),
    Sample("lax.bitcast_convert_type(x, 'int32')", (array((3, 4), "uint8", 0, 255),)),
    Sample("lax.bitcast_convert_type(x, 'bfloat16')", (array((3, 4), "int16", 0, 255),)),
    Sample("lax.bitcast_convert_type(x, 'uint64')", (array((3, 8), "uint8", 0, 255),), x64=True),
    Sample("lax.bitcast_convert_type(x, 'float32')", (array((3,)),), wrt=()),
    Sample("lax.bitcast_convert_type(x, 'int32')", (python(1.0),), wrt=()),
    *rows(
        "lax.reduce_precision(x, 5, 3)",
        ("float32", "bfloat16", "float16"),
        smooth=False,
        adjoint_tolerance=0.1,
    ),
    Sample(
        "lax.reduce_precision(x, exponent_bits=8, mantissa_bits=7)",
        (SPECIAL,),
        smooth=False,
        adjoint_tolerance=0.1,
    ),
    Sample("lax.reduce_precision(x, 11, 52)", (array((3,), "float64"),), lambda x: x),
    # Copies
    Sample("lax.copy(x)", (array((2, 3)),), lambda x: x, jax_call="lax.copy_p.bind(x)"),
    Sample("lax.copy(x)", (array((2, 3), "bool"),), lambda x: x, jax_call="lax.copy_p.bind(x)"),
    *rows(
        "lax.stop_gradient(x)", ("float32", "complex64", "int32", "bool"), lambda x: x, smooth=False
    ),
    Sample("lax.stop_gradient((x, y))", (array((2, 3)), python(1.0)), smooth=False),
]

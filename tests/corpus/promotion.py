"""Tables of the reference's dtype promotion, as plain data."""

import itertools
import random

DTYPES = [
    "bool",
    "int1",
    "int2",
    "int4",
    "int8",
    "int16",
    "int32",
    "int64",
    "uint1",
    "uint2",
    "uint4",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "float4_e2m1fn",
    "float6_e2m3fn",
    "float6_e3m2fn",
    "float8_e3m4",
    "float8_e4m3",
    "float8_e8m0fnu",
    "float8_e4m3b11fnuz",
    "float8_e4m3fn",
    "float8_e4m3fnuz",
    "float8_e5m2",
    "float8_e5m2fnuz",
    "bfloat16",
    "float16",
    "float32",
    "float64",
    "complex64",
    "complex128",
]
WIDE = {"int64", "uint64", "float64", "complex128"}
SAMPLED_TRIPLES = 20_000


class _Operand:
    """Stands for an array of a dtype and weak type, among them those that arrays seldom have."""

    def __init__(self, jax, dtype, weak_type):
        self.dtype = dtype
        self.aval = jax.core.ShapedArray((), dtype, weak_type=weak_type)


def operand_types(x64, names=DTYPES):
    """(dtype name, weak type) of every kind of operand."""
    names = [name for name in names if x64 or name not in WIDE]
    return list(itertools.product(names, (False, True)))


def sampled_triples(x64):
    """Some triples of kinds of operands, the same at each call."""
    types = operand_types(x64)
    source = random.Random(0)
    return [tuple(source.choice(types) for _ in range(3)) for _ in range(SAMPLED_TRIPLES)]


def lattice_results(jax, combinations, mode):
    """(dtype name, weak type), or "error", of each combination of kinds of operands."""
    from jax._src import dtypes

    operands = {}

    def operand(name, weak_type):
        if (name, weak_type) not in operands:
            operands[name, weak_type] = _Operand(jax, jax.numpy.dtype(name), weak_type)
        return operands[name, weak_type]

    def result(combination):
        try:
            dtype, weak_type = dtypes.lattice_result_type(*(operand(*kind) for kind in combination))
        except jax.dtypes.TypePromotionError:
            return "error"
        return dtype.name, weak_type

    with jax.numpy_dtype_promotion(mode):
        return [result(combination) for combination in combinations]


PYTHON_TYPES = {"bool": bool, "int": int, "float": float, "complex": complex}
NAMES_TO_PROMOTE = [*DTYPES, *(f"python {name}" for name in PYTHON_TYPES)]


def named(name):
    """The Python type or the dtype's name that stands in `NAMES_TO_PROMOTE`."""
    return PYTHON_TYPES[name.removeprefix("python ")] if name.startswith("python ") else name


def promoted_types(jax, mode):
    """`promote_types` of all pairs of dtypes and Python types."""

    def result(a, b):
        try:
            return jax.numpy.promote_types(named(a), named(b)).name
        except jax.dtypes.TypePromotionError:
            return "error"

    with jax.numpy_dtype_promotion(mode):
        return {
            (a, b): result(a, b) for a, b in itertools.product(NAMES_TO_PROMOTE, NAMES_TO_PROMOTE)
        }

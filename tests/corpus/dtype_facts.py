"""What the reference says about single dtypes and values."""

import warnings

import ml_dtypes
import numpy as np

from corpus.promotion import DTYPES

CATEGORIES = {
    name: getattr(np, name)
    for name in [
        "generic",
        "number",
        "integer",
        "signedinteger",
        "unsignedinteger",
        "inexact",
        "floating",
        "complexfloating",
        "bool_",
        "int8",
        "float32",
        "float64",
        "void",
        "object_",
        "str_",
    ]
}


def facts(jax):
    """By dtype: short name, bits, and the dtypes of each kind nearest to it."""
    from jax._src import dtypes

    return {
        name: {
            "short": dtypes.short_dtype_name(np.dtype(name)),
            "bits": jax.dtypes.itemsize_bits(name),
            "canonical": jax.dtypes.canonicalize_dtype(name).name,
            "complex": dtypes.to_complex_dtype(name).name,
            "numeric": dtypes.to_numeric_dtype(name).name,
            "python": jax.dtypes.scalar_type_of(np.dtype(name).type(0)).__name__,
        }
        for name in DTYPES
    }


def floating_dtypes(jax):
    """Nearest inexact and floating dtypes, but for the integers that the reference leaves out."""
    from jax._src import dtypes

    return {
        name: (dtypes.to_inexact_dtype(name).name, dtypes.to_floating_dtype(name).name)
        for name in DTYPES
        if name not in ("int1", "int2", "uint1", "uint2")
    }


def subtypes(jax, issubdtype):
    """`issubdtype` of every dtype, category and Python type with every other one."""
    from_names = {name: np.dtype(name) for name in DTYPES}
    things = {**from_names, **CATEGORIES, "int": int, "float": float, "str": "f4", "None": None}
    things["scalar type"] = jax.numpy.float32
    things["key"], things["extended"] = jax.dtypes.prng_key, jax.dtypes.extended
    things["float0"] = jax.dtypes.float0
    return {
        (a, b): issubdtype(things[a], things[b]) for a in things for b in things if b != "object_"
    }


def reference_subtypes(jax):
    return subtypes(jax, jax.dtypes.issubdtype)


KINDS = (
    "bool",
    "signed integer",
    "unsigned integer",
    "integral",
    "real floating",
    "complex floating",
    "numeric",
    ("bool", "integral"),
    "int8",
    (np.float32, "bool"),
)


def kinds(jax, isdtype):
    """`isdtype` of every dtype with every kind."""
    return [isdtype(np.dtype(name), kind) for name in DTYPES for kind in KINDS]


def reference_kinds(jax):
    return kinds(jax, jax.numpy.isdtype)


def values():
    """Values and names that have a dtype, and some that have none."""
    return [
        *(1, 1.0, True, 1j, 2**40, -1, float("nan")),
        *(np.float64(1), np.int64(1), np.uint8(1), np.bool_(True), ml_dtypes.bfloat16(1)),
        *(np.ones(2), np.ones(2, "f4"), np.ones((), "c16"), np.zeros(3, ml_dtypes.int4)),
        *(int, float, bool, complex, np.int8, np.float64, np.dtype("f8"), "f8", "int4", "bfloat16"),
        *(None, "nonsense", [1, 2], (1,), {}, b"bytes", range(3), object(), str, object),
        *(np.datetime64("2020"), np.array("text"), np.ones(2, ">f4"), np.longdouble(1), ">f4"),
        *("float", "U3", "O", 3.5, np.floating, np.integer),
    ]


def described(call, *args):
    """Result of the call as plain data: a dtype's name, a tuple, or the built-in error class."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            result = call(*args)
        except (TypeError, ValueError):
            return "error"
    if isinstance(result, tuple):
        return tuple(str(item) for item in result)
    return result.__name__ if isinstance(result, type) else str(result)


def value_dtypes(jax):
    """What each of `values` is as an operand."""
    from jax._src import dtypes

    return [
        (
            described(dtypes.dtype, value),
            described(dtypes.is_weakly_typed, value),
            described(dtypes.lattice_result_type, value),
            described(dtypes.scalar_type_of, value),
        )
        for value in values()
    ]


def user_dtypes(jax):
    """What each of `values` is as a dtype given by the user."""
    from jax._src import dtypes

    return [
        described(dtypes.check_and_canonicalize_user_dtype, value, "zeros") for value in values()
    ]


def result_types(jax, operands):
    return [described(jax.numpy.result_type, *some) for some in operands]


def public_names(jax):
    """Public names of the modules of dtypes and trees."""
    import jax.tree_util

    return {
        module.__name__.removeprefix("jax."): sorted(
            name for name in dir(module) if not name.startswith("_")
        )
        for module in (jax.dtypes, jax.tree, jax.tree_util)
    }

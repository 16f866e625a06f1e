"""Docstrings of the functions that `elementwise` makes from primitives: types of results, errors, examples."""

EXAMPLES = {
    "exp": ("0.5", "Array(1.6487212, dtype=float32, weak_type=True)"),
    "exp2": ("3.0", "Array(8., dtype=float32, weak_type=True)"),
    "expm1": ("0.5", "Array(0.6487213, dtype=float32, weak_type=True)"),
    "log": ("2.0", "Array(0.6931472, dtype=float32, weak_type=True)"),
    "log1p": ("0.5", "Array(0.4054651, dtype=float32, weak_type=True)"),
    "sin": ("0.5", "Array(0.47942555, dtype=float32, weak_type=True)"),
    "cos": ("0.5", "Array(0.87758255, dtype=float32, weak_type=True)"),
    "tan": ("0.5", "Array(0.5463025, dtype=float32, weak_type=True)"),
    "arcsin": ("0.5", "Array(0.5235988, dtype=float32, weak_type=True)"),
    "arccos": ("0.5", "Array(1.0471976, dtype=float32, weak_type=True)"),
    "arctan": ("0.5", "Array(0.4636476, dtype=float32, weak_type=True)"),
    "sinh": ("0.5", "Array(0.52109534, dtype=float32, weak_type=True)"),
    "cosh": ("0.5", "Array(1.127626, dtype=float32, weak_type=True)"),
    "tanh": ("0.5", "Array(0.46211717, dtype=float32, weak_type=True)"),
    "arcsinh": ("0.5", "Array(0.48121184, dtype=float32, weak_type=True)"),
    "arccosh": ("1.5", "Array(0.9624236, dtype=float32, weak_type=True)"),
    "arctanh": ("0.5", "Array(0.54930615, dtype=float32, weak_type=True)"),
    "sqrt": ("4.0", "Array(2., dtype=float32, weak_type=True)"),
    "cbrt": ("27.0", "Array(3., dtype=float32, weak_type=True)"),
    "log2": ("8.0", "Array(3., dtype=float32)"),
    "log10": ("1000.0", "Array(3., dtype=float32)"),
    "deg2rad": ("180.0", "Array(3.1415927, dtype=float32, weak_type=True)"),
    "rad2deg": ("3.1415927", "Array(180., dtype=float32, weak_type=True)"),
    "negative": ("2", "Array(-2, dtype=int32, weak_type=True)"),
    "sign": ("-2.5", "Array(-1., dtype=float32, weak_type=True)"),
    "floor": ("-1.5", "Array(-2., dtype=float32, weak_type=True)"),
    "ceil": ("-1.5", "Array(-1., dtype=float32, weak_type=True)"),
    "square": ("3", "Array(9, dtype=int32, weak_type=True)"),
    "reciprocal": ("4.0", "Array(0.25, dtype=float32, weak_type=True)"),
    "logical_not": ("jnp.array([0, 2])", "Array([ True, False], dtype=bool)"),
    "invert": ("5", "Array(-6, dtype=int32, weak_type=True)"),
    "bitwise_count": ("7", "Array(3, dtype=uint8)"),
    "arctan2": ("1.0, -1.0", "Array(2.3561945, dtype=float32, weak_type=True)"),
    "add": ("7, 2", "Array(9, dtype=int32, weak_type=True)"),
    "multiply": ("7, 2", "Array(14, dtype=int32, weak_type=True)"),
    "subtract": ("7, 2", "Array(5, dtype=int32, weak_type=True)"),
    "divide": ("7, 2", "Array(3.5, dtype=float32, weak_type=True)"),
    "maximum": ("jnp.array([1, 5]), 3", "Array([3, 5], dtype=int32)"),
    "minimum": ("jnp.array([1, 5]), 3", "Array([1, 3], dtype=int32)"),
    "nextafter": ("1.0, 2.0", "Array(1.0000001, dtype=float32, weak_type=True)"),
    "float_power": ("2, 3", "Array(8., dtype=float32, weak_type=True)"),
    "equal": ("jnp.array([1, 3]), 3", "Array([False,  True], dtype=bool)"),
    "not_equal": ("jnp.array([1, 3]), 3", "Array([ True, False], dtype=bool)"),
    "less": ("jnp.array([1, 3]), 3", "Array([ True, False], dtype=bool)"),
    "less_equal": ("jnp.array([1, 3]), 3", "Array([ True,  True], dtype=bool)"),
    "greater": ("jnp.array([3, 5]), 3", "Array([False,  True], dtype=bool)"),
    "greater_equal": ("jnp.array([1, 3]), 3", "Array([False,  True], dtype=bool)"),
    "logical_and": ("jnp.array([0, 1]), jnp.array([2, 2])", "Array([False,  True], dtype=bool)"),
    "logical_or": ("jnp.array([0, 1]), jnp.array([0, 2])", "Array([False,  True], dtype=bool)"),
    "logical_xor": ("jnp.array([0, 1]), jnp.array([2, 2])", "Array([ True, False], dtype=bool)"),
    "bitwise_and": ("6, 3", "Array(2, dtype=int32, weak_type=True)"),
    "bitwise_or": ("6, 3", "Array(7, dtype=int32, weak_type=True)"),
    "bitwise_xor": ("6, 3", "Array(5, dtype=int32, weak_type=True)"),
    "left_shift": ("1, 3", "Array(8, dtype=int32, weak_type=True)"),
    "right_shift": ("8, 2", "Array(2, dtype=int32, weak_type=True)"),
}
"""Maps function name to (arguments, printed result) of the example in its docstring, which runs as a test."""

_WIDENED = {
    "inexact": "Integers and bools become float32 (64-bit ones float64)",
    "numeric": "Bools become int32",
}
"""Maps a word of a promotion's name to the sentence about the dtypes that integers and bools get."""


def docstring(
    name: str, summary: str, promotion: str, is_binary: bool, dtype: str | None, refused: str
) -> str:
    """Docstring of the elementwise function `name`, whose operands are converted by the function named `promotion`.

    `dtype` is that of the result where it isn't that of the promoted operands; `refused` are operands for which
    DtypeError is raised.
    """
    shape, mismatch, result = "shape of `x`", "", "of `x`"
    if is_binary:
        shape = "shape that `x` and `y` broadcast to"
        mismatch = "ShapeError for shapes that don't broadcast, "
        result = "that they promote to"
    result = dtype or result
    for word in promotion.split("_") if dtype is None else ():
        if word in _WIDENED:
            result += (".\n" if is_binary else ". ") + _WIDENED[word]
    arguments, shown = EXAMPLES.get(name, ("", ""))
    example = f"\n\n>>> jnp.{name}({arguments})\n{shown}" if shown else ""
    return (
        f"{summary}\n\nResult: {shape}; dtype {result}.\n"
        f"Raises: ArgumentTypeError for lists and other values that are no arrays, DtypeError for {refused},\n"
        f"{mismatch}UnsupportedError for `out` and `where`.{example}"
    )

"""Operands of NumPy-style functions brought to one dtype and to shapes that fit."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pellucid._machine.base import (
    NEUTRAL,
    ArgumentTypeError,
    ArrayLike,
    DtypeError,
    Shape,
    ShapeError,
    UnsupportedError,
    dtypes,
    expecting,
    fits,
    promotion,
    warn_user,
)
from pellucid._machine.ir import Operands, ShapedArray
from pellucid._machine.primitives.conversion import convert_element_type, convert_quietly
from pellucid._machine.primitives.families import scalar
from pellucid._machine.primitives.movement import broadcast_in_dim, broadcast_shapes, expand_dims
from pellucid._machine.runtime.transfer import out_of_range
from pellucid._machine.tracing import is_array_like, operand_lines, type_of

_PYTHON_SCALARS = (bool, int, float, complex)


def as_tuple(sizes: Any) -> tuple[Any, ...]:
    """Sizes or axes, one or several, as a tuple."""
    return (sizes,) if np.ndim(sizes) == 0 else tuple(sizes)


def full_name(name: str) -> str:
    """The name of a function in messages: with the module for nn and scipy, else with `jnp.`."""
    return name if name.startswith(("nn.", "scipy.")) else f"jnp.{name}"


def check_arrays(name: str, *operands: Any) -> None:
    """Raise ArgumentTypeError unless all `operands` are arrays or numbers (lists are not)."""
    for i, x in enumerate(operands):
        if not is_array_like(x):
            raise ArgumentTypeError(
                f"{full_name(name)} needs arrays or numbers.",
                got=f"argument {i}: {type(x).__name__}",
                do="Convert with `jnp.asarray` first."
                if isinstance(x, (list, tuple))
                else "Pass an array.",
            )


def aval_of(name: str, x: Any, position: int = 0) -> ShapedArray:
    """Type of an argument; raises ArgumentTypeError that names function and argument."""
    try:
        return type_of(x)
    except ArgumentTypeError:
        check_arrays(name, *[0] * position, x)
        raise


def convert(x: Any, aval: ShapedArray, dtype: Any, weak_type: bool = False) -> Any:
    """`x`, of type `aval`, as `dtype`; a Python number becomes a NumPy scalar, hence a literal.

    Raises: IntegerRangeError for a Python integer that the default integer dtype can't hold.
    """
    kind = type(x)
    if kind in _PYTHON_SCALARS:
        if kind is int and not (_RANGES[aval.dtype][0] <= x <= _RANGES[aval.dtype][1]):
            raise out_of_range(x, aval.dtype)
        if aval.dtype == dtype and aval.weak_type == weak_type:
            return x
        if not weak_type and _is_exactly_defined(x, dtype):
            return scalar(np.asarray(x).astype(dtype), dtype)
    if aval.dtype == dtype and aval.weak_type == weak_type:
        return x
    if aval.dtype.kind == "c" and dtype not in dtypes.KINDS["complex floating"]:
        return convert_element_type(x, dtype, weak_type)  # it warns
    return convert_quietly(x, dtype, weak_type)


_RANGES = {
    np.dtype(name): (int(np.iinfo(name).min), int(np.iinfo(name).max))
    for name in ("int32", "int64")
}


def able_to_hold(number: int, x: ArrayLike) -> Any:
    """`x`, an array of integers, converted to the default integer dtype if its own can't hold `number`."""
    aval: Any = type_of(x)
    if fits(number, int(dtypes.iinfo(aval.dtype).max)):
        return x
    return convert(x, aval, dtypes.default_int_dtype())


def _is_exactly_defined(x: Any, dtype: np.dtype) -> bool:
    """Whether NumPy and devices convert the Python number `x` to `dtype` alike: integers wrap, the rest must fit."""
    kind = type(x)
    if kind is float and dtype in dtypes.KINDS["integral"]:
        limits = dtypes.iinfo(dtype)
        return limits.min <= x <= limits.max
    return kind is not complex or dtype in dtypes.KINDS["complex floating"]


def number_type(name: str, x: Any, position: int = 0) -> ShapedArray:
    """Type of an argument of numbers or bools; raises as `aval_of`, and DtypeError for random keys."""
    aval = aval_of(name, x, position)
    if isinstance(aval.dtype, dtypes.ExtendedDType):
        raise DtypeError(
            f"{full_name(name)} needs numbers or bools.",
            got=f"argument {position}: {aval.text()}",
            do="For random keys, use `random.key_data`.",
        )
    return aval


def canonical(name: str, x: ArrayLike) -> tuple[Any, ShapedArray]:
    """(`x`, its type); 64-bit numbers are converted to 32 bits while 64-bit dtypes are off."""
    aval = number_type(name, x)
    dtype = dtypes.canonicalize_explicit(aval.dtype)
    return (x, aval) if dtype == aval.dtype else (convert(x, aval, dtype), aval.update(dtype=dtype))


def _promote(
    name: str, operands: tuple[ArrayLike, ...], to: Callable[[Any], Any] | None = None
) -> list[Any]:
    """`operands` converted to the dtype they promote to, mapped by `to` if given."""
    avals = [aval_of(name, x, i) for i, x in enumerate(operands)]
    try:
        dtype, weak_type = dtypes.promote(tuple([(a.dtype, a.weak_type) for a in avals]))
        dtype = dtype if to is None else to(dtype)
    except TypeError:
        for i, x in enumerate(operands):
            number_type(name, x, i)
        raise
    return [convert(x, a, dtype, weak_type) for x, a in zip(operands, avals, strict=True)]


def promote_dtypes(name: str, *operands: ArrayLike) -> list[Any]:
    """`operands` converted to the one dtype that they promote to; random keys promote to their own dtype."""
    return _promote(name, operands)


def promote_dtypes_inexact(name: str, *operands: ArrayLike) -> list[Any]:
    """`operands` converted to the floating or complex dtype that they promote to."""
    return _promote(name, operands, dtypes.to_inexact_dtype)


def promote_dtypes_numeric(name: str, *operands: ArrayLike) -> list[Any]:
    """`operands` converted to the dtype that they promote to; bools become integers."""
    return _promote(name, operands, dtypes.to_numeric_dtype)


def promote_shapes(name: str, *operands: ArrayLike) -> list[Any]:
    """`operands` with new leading axes of size 1, so that all have one rank; scalars stay.

    Elementwise primitives stretch dimensions of size 1 themselves. Raises ShapeError for shapes that don't fit.
    """
    shapes = [type_of(x).shape for x in operands]
    if len({s for s in shapes if s}) <= 1:
        return list(operands)
    _check_ranks(name, shapes)
    rank = len(_common_shape(name, operands, shapes))
    return [
        x if not s or len(s) == rank else expand_dims(x, range(rank - len(s)))
        for x, s in zip(operands, shapes, strict=True)
    ]


def refuse_out(name: str, out: Any, where: ArrayLike | None = None) -> None:
    """Raise UnsupportedError for an array to write into, or a mask of elements to write: arrays don't change."""
    if out is not None:
        raise UnsupportedError(
            f"{full_name(name)} can't write into `out`: arrays don't change.", do="Use the result."
        )
    if where is not None:
        raise UnsupportedError(
            f"{full_name(name)} can't leave elements of a result unwritten, as `where` demands.",
            do=f"Use `jnp.where(mask, {full_name(name)}(…), other)`.",
        )


def known_int(name: str, what: str, x: Any, convert: Callable[[Any], Any] = operator.index) -> int:
    """`x`, the argument `what` of the function `name`, as a Python int; raises ArgumentTypeError for what is none."""
    with expecting(f"{full_name(name)} needs `{what}` to be an int that is known when tracing", x):
        return convert(x)


def check_promotion(name: str, *operands: ArrayLike) -> None:
    """Raise, or warn, where options forbid to promote `operands`, a user's, to one dtype and rank."""
    if promotion() == NEUTRAL:
        return
    avals = [aval_of(name, x, i) for i, x in enumerate(operands)]
    dtypes.promote(tuple([(a.dtype, a.weak_type) for a in avals]))
    _check_ranks(name, [a.shape for a in avals])


def _check_ranks(name: str, shapes: Sequence[Shape]) -> None:
    if len({len(s) for s in shapes if s}) > 1:
        note_rank_promotion(name, shapes)


def note_rank_promotion(name: str, shapes: Sequence[tuple[int, ...]]) -> None:
    """Warns about operands of different ranks, or raises ShapeError, as the option `numpy_rank_promotion` demands."""
    mode = promotion()[0]
    if mode == "allow":
        return
    text = f"{full_name(name)} promotes ranks: operands of shapes {', '.join(map(str, shapes))}."
    if mode == "raise":
        raise ShapeError(text, do="Add axes explicitly, or set `numpy_rank_promotion` to 'allow'.")
    warn_user(text, UserWarning)


def promote_arguments(name: str, *operands: ArrayLike) -> list[Any]:
    """`operands` promoted to one dtype, and to shapes that elementwise primitives accept."""
    aval = getattr(operands[0], "aval", None)
    if aval is not None and all(getattr(x, "aval", None) is aval for x in operands):
        return list(operands)  # types are interned: one type, nothing to promote
    return promote_shapes(name, *promote_dtypes(name, *operands))


def promote_arguments_inexact(name: str, *operands: ArrayLike) -> list[Any]:
    """Like `promote_arguments`, to a floating or complex dtype."""
    return promote_shapes(name, *promote_dtypes_inexact(name, *operands))


def promote_arguments_numeric(name: str, *operands: ArrayLike) -> list[Any]:
    """Like `promote_arguments`, bools becoming integers."""
    return promote_shapes(name, *promote_dtypes_numeric(name, *operands))


def _common_shape(name: str, operands: Operands, shapes: list[Shape]) -> Shape:
    """The shape that operands of `shapes` broadcast to."""
    try:
        return broadcast_shapes(*shapes)
    except ShapeError as error:
        raise ShapeError(
            f"{full_name(name)} got shapes that can't be broadcast together.",
            got=operand_lines(operands),
            do=error.do,
        ) from None


def broadcast_arrays(name: str, *operands: ArrayLike) -> list[Any]:
    """`operands` repeated to their common shape."""
    shapes = [aval_of(name, x, i).shape for i, x in enumerate(operands)]
    shape = _common_shape(name, operands, shapes)
    return [
        x
        if s == shape
        else broadcast_in_dim(x, shape, tuple(range(len(shape) - len(s), len(shape))))
        for x, s in zip(operands, shapes, strict=True)
    ]

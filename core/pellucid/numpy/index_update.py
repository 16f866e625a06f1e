"""Updates `x.at[index]`: copies of `x` with other elements at an index."""

from __future__ import annotations

import warnings
import weakref
from collections.abc import Callable
from typing import Any, NamedTuple

from pellucid._machine.base import ArgumentTypeError, ArrayLike, ShapeError, Unary, cached, dtypes
from pellucid._machine.higher_order.scalar_functions import scatter_apply
from pellucid._machine.ir import AbstractRef
from pellucid._machine.primitives.creation import ones
from pellucid._machine.primitives.gather import fill_param
from pellucid._machine.primitives.index_dims import GatherScatterMode, ScatterDimensionNumbers
from pellucid._machine.primitives.movement import broadcast_to, rev, squeeze
from pellucid._machine.primitives.reshard import with_out_sharding
from pellucid._machine.primitives.scatter import (
    scatter,
    scatter_add,
    scatter_max,
    scatter_min,
    scatter_mul,
    scatter_sub,
)
from pellucid._machine.refs.access import set as write_reference
from pellucid._machine.tracing import (
    compares_by_identity,
    context,
    is_array_like,
    is_reference,
    name_operands,
    type_of,
)
from pellucid._machine.xla.arrays import Array

from . import elementwise
from .annotations import OutSharding
from .compiled import numpy_function
from .creation import asarray
from .index_entries import Index, NewAxis, Scalar, parse_entries
from .indexing import (
    IndexWindows,
    Lookup,
    Structure,
    arrangement,
    check_not_empty,
    index_windows,
    take_apart,
    take_at,
    with_flags,
)
from .promotion import convert


class Update(NamedTuple):
    """The operation and the mode of an update of `x.at[index]`.

    `operation` is a scatter, or with `is_function` the function that `apply` is given. With `then`, it works on
    ones in place of the array, and the result is `then(array, that)`.
    """

    operation: Any
    then: Callable[[Any, Any], Any] | None = None
    is_function: bool = False
    indices_are_sorted: bool = False
    unique_indices: bool = False
    mode: GatherScatterMode = GatherScatterMode.FILL_OR_DROP
    wrap_negative_indices: bool = True


def update_at(x: Array, index: Any, values: Any, update: Update) -> Any:
    """`x` updated at `index` by one compiled call, or by equations under a trace."""
    aval = type_of(x)
    entries = parse_entries(index, aval.shape)
    if values is not None:
        values = values if is_array_like(values) else asarray(values)
        _check_cast(aval, type_of(values))
    if not context.trace.is_eager:
        return scatter_at(x, entries, values, update)
    structure, operands = take_apart(entries)
    return _update_program(structure, update)(x, values, *operands)


def _check_cast(array: Array, values: Any) -> None:
    """Raises for values that the array can't hold; warns about values that conversion may change."""
    if array.dtype == values.dtype:
        return
    if any(isinstance(a.dtype, dtypes.ExtendedDType) for a in (array, values)):
        raise ArgumentTypeError(
            "keys can only be replaced by keys of the same kind.",
            got=[f"array: {array!r}", f"values: {values!r}"],
        )
    if not dtypes.safe_to_cast(values, array):
        warnings.warn(
            f"x.at[...]: values of {values.dtype} are converted to {array.dtype}, which may change them; "
            "convert them yourself.",
            FutureWarning,
            stacklevel=4,
        )


def _update_program(structure: Structure, update: Update) -> Any:
    """The compiled form of an update; that with a user's function is cached while the function lives, if it compares by
    identity.
    """
    if not update.is_function:
        return _compiled_update(structure, update)
    if compares_by_identity(update.operation):
        return _compiled_apply(update.operation, structure, update._replace(operation=None))
    return numpy_function(
        lambda x, values, *ops: scatter_at(x, structure.index(ops), values, update)
    )


@cached(4096, weakly=True)
def _compiled_apply(function: Unary, structure: Structure, update: Update) -> Any:
    held = weakref.ref(function)  # the caller keeps the function alive

    def apply_at(x: Array, values: ArrayLike, *operands: ArrayLike) -> Any:
        whole = update._replace(operation=held())
        return scatter_at(x, structure.index(operands), values, whole)

    return numpy_function(apply_at)


@cached(4096)
def _compiled_update(structure: Structure, update: Update) -> Any:
    def update_at(x: Array, values: ArrayLike, *operands: ArrayLike) -> Any:
        return scatter_at(x, structure.index(operands), values, update)

    return numpy_function(update_at)


def scatter_at(x: Array, index: Index, values: Any, update: Update) -> Any:
    """`x` updated at `index`, by a scatter primitive."""
    if update.then is not None:
        factors = scatter_at(ones(type_of(x)), index, values, update._replace(then=None))
        return update.then(x, factors)
    original: Any = type_of(x)
    arranged = arrangement(index.entries)
    flagged = with_flags(x, index)
    places = index_windows(arranged, type_of(flagged).shape, update.wrap_negative_indices)
    flagged, values = _promote_to_one_dtype(flagged, values)
    if values is not None:
        values = _arrange_values(values, places, arranged.new_axes)
    if 0 in places.shape:
        return x
    shape = type_of(flagged).shape
    # All positions are out of bounds: array indices are dropped, a scalar index is an error.
    if 0 in shape:
        for axis, entry in enumerate(e for e in arranged.entries if type(e) is not NewAxis):
            if type(entry) is Scalar:
                check_not_empty(shape[axis], axis, shape)
        return x
    promises = {
        "indices_are_sorted": update.indices_are_sorted or not arranged.vectors,
        "unique_indices": update.unique_indices or not arranged.vectors,
        "mode": update.mode,
    }
    numbers = ScatterDimensionNumbers(*places.numbers)
    if update.is_function:
        result = scatter_apply(
            flagged,
            places.indices,
            update.operation,
            numbers,
            update_shape=places.shape,
            **promises,
        )
    else:
        result = update.operation(flagged, places.indices, values, numbers, **promises)
    result = convert(result, type_of(result), original.dtype, original.weak_type)
    return squeeze(result, index.flags) if index.flags else result


def _promote_to_one_dtype(x: Array, values: Any) -> tuple[Any, Any]:
    """`x` and `values` of the dtype that they promote to."""
    if values is None:
        return x, values
    avals: list[Any] = [type_of(x), type_of(values)]
    if avals[0].dtype == avals[1].dtype and not avals[1].weak_type:
        return x, values
    dtype, weak_type = dtypes.promote(tuple([(a.dtype, a.weak_type) for a in avals]))
    x, values = (convert(v, a, dtype, weak_type) for v, a in zip((x, values), avals, strict=True))
    return x, values


def _arrange_values(values: ArrayLike, places: IndexWindows, new_axes: list[int]) -> Any:
    """`values` broadcast to the shape of the elements they replace, with its elements in the order of the array's."""
    shape = list(places.shape)
    for axis in new_axes:
        shape.insert(axis, 1)
    aval = type_of(values)
    trailing = shape[len(shape) - aval.ndim :] if aval.ndim <= len(shape) else None
    if trailing is None or any(a not in (1, b) for a, b in zip(aval.shape, trailing, strict=True)):
        error = ShapeError(
            f"x.at[...]: values of shape {aval.shape} don't fit into the indexed shape {tuple(shape)}.",
            got=f"values: {aval.text()}",
            do="They must have this shape or be broadcast to it.",
        )
        raise name_operands(error, (values,))
    values = broadcast_to(values, tuple(shape))
    values = squeeze(values, new_axes) if new_axes else values
    return rev(values, places.reversed) if places.reversed else values


def setitem(x: Array, index: Any, values: ArrayLike) -> None:
    """Write to a traced reference; refuse `x[index] = values` for arrays."""
    if type(x.aval) is AbstractRef:
        write_reference(x, index, values)
        return
    raise ArgumentTypeError(
        f"arrays can't be changed: `x[{index!r:.40}] = ...` is not possible.",
        got=f"got {type_of(x).text()}",
        do="Make a changed copy: `x = x.at[index].set(values)`.",
    )


# What users see -----------------------------------------------------------------------------------


class IndexUpdateHelper:
    """The property `at` of arrays: `x.at[index]` can be updated functionally.

    >>> jnp.asarray([1, 2, 3]).at[0].set(5)
    Array([5, 2, 3], dtype=int32)
    """

    __slots__ = ("array",)

    def __init__(self, array: Array) -> None:
        self.array = array

    def __getitem__(self, index: Any) -> IndexUpdateRef:
        return IndexUpdateRef(self.array, index)

    def __repr__(self) -> str:
        return f"IndexUpdateHelper({self.array!r})"


def indexer(x: Array) -> Any:
    """The property `at`: for arrays their functional updates, for traced references views of parts."""
    if is_reference(x):
        return x.aval.methods["at"](x)
    return IndexUpdateHelper(x)


def _method(
    name: str,
    operation: Callable[..., Any],
    doc: str,
    then: Callable[[Any, Any], Any] | None = None,
) -> Any:
    """A method of `IndexUpdateRef` that takes values."""

    def method(
        self: IndexUpdateRef,
        values: ArrayLike,
        *,
        indices_are_sorted: bool = False,
        unique_indices: bool = False,
        mode: str | GatherScatterMode | None = None,
        out_sharding: OutSharding = None,
        wrap_negative_indices: bool = True,
    ) -> Any:
        kind = GatherScatterMode.from_any(mode)
        update = Update(
            operation, then, False, bool(indices_are_sorted), bool(unique_indices), kind,
            bool(wrap_negative_indices),
        )  # fmt: skip

        def result(array: Any, index: Any, values: ArrayLike) -> Any:
            return update_at(array, index, values, update)

        return with_out_sharding(out_sharding, result, self.array, self.index, values)

    method.__name__ = name
    method.__qualname__ = f"IndexUpdateRef.{name}"
    method.__doc__ = doc
    return method


class IndexUpdateRef:
    """`x.at[index]`: methods that return the elements at `index`, or a copy of `x` with others there.

    All take `indices_are_sorted` and `unique_indices`, which are promises, and `mode`, which says what happens at
    indices out of bounds: "drop" (updates) and "promise_in_bounds" (`get`) by default, "clip", "fill". Negative
    indices count from the end unless `wrap_negative_indices` is False. Where an index names an element several
    times, `set` keeps one of the values, the other methods apply all.
    """

    __slots__ = ("array", "index")

    def __init__(self, array: Array, index: Any) -> None:
        self.array = array
        self.index = index

    def __repr__(self) -> str:
        return f"IndexUpdateRef({self.array!r}, {self.index!r})"

    def get(
        self,
        *,
        indices_are_sorted: bool = False,
        unique_indices: bool = False,
        mode: str | GatherScatterMode | None = None,
        fill_value: ArrayLike | None = None,
        out_sharding: OutSharding = None,
        wrap_negative_indices: bool = True,
    ) -> Any:
        """`x[index]`; in mode "fill", elements out of bounds are `fill_value` (default: NaN, or an extreme integer).

        >>> jnp.asarray([1, 2, 3]).at[7].get(mode="fill", fill_value=0)
        Array(0, dtype=int32)
        """
        kind = (
            GatherScatterMode.PROMISE_IN_BOUNDS
            if mode is None
            else GatherScatterMode.from_any(mode)
        )
        filled = kind is GatherScatterMode.FILL_OR_DROP
        fill = fill_param(type_of(self.array).dtype, fill_value) if filled else None
        lookup = Lookup(
            bool(indices_are_sorted), bool(unique_indices), kind, fill, bool(wrap_negative_indices)
        )

        def result(array: ArrayLike, index: Any) -> Any:
            return take_at(array, index, lookup)

        return with_out_sharding(out_sharding, result, self.array, self.index)

    def apply(
        self,
        func: Callable[[Any], Any],
        *,
        indices_are_sorted: bool = False,
        unique_indices: bool = False,
        mode: str | GatherScatterMode | None = None,
        wrap_negative_indices: bool = True,
    ) -> Any:
        """`x` with `func`, a function of scalars, applied to the elements at `index`.

        >>> jnp.asarray([1, 2, 3]).at[1:].apply(lambda e: -e)
        Array([ 1, -2, -3], dtype=int32)
        """
        update = Update(
            func, None, True, bool(indices_are_sorted), bool(unique_indices),
            GatherScatterMode.from_any(mode), bool(wrap_negative_indices),
        )  # fmt: skip
        return update_at(self.array, self.index, None, update)

    set = _method(
        "set", scatter,
        """`x` with the elements at `index` replaced by `values`.

        >>> jnp.asarray([1, 2, 3]).at[1].set(9)
        Array([1, 9, 3], dtype=int32)
        """,
    )  # fmt: skip
    add = _method(
        "add", scatter_add,
        """`x` with `values` added at `index`.

        >>> jnp.asarray([1, 2, 3]).at[jnp.asarray([0, 0])].add(1)
        Array([3, 2, 3], dtype=int32)
        """,
    )  # fmt: skip
    subtract = _method("subtract", scatter_sub, """`x` with `values` subtracted at `index`.""")
    multiply = _method(
        "multiply", scatter_mul, """`x` with the elements at `index` multiplied by `values`."""
    )
    mul = multiply
    divide = _method(
        "divide",
        scatter_mul,
        """`x` with the elements at `index` divided by `values`.""",
        elementwise.divide.python,
    )
    power = _method(
        "power",
        scatter_mul,
        """`x` with the elements at `index` raised to the powers `values`.""",
        elementwise.power,
    )
    min = _method(
        "min", scatter_min, """`x` with the lesser of the elements at `index` and `values`."""
    )
    max = _method(
        "max", scatter_max, """`x` with the greater of the elements at `index` and `values`."""
    )

"""`pad` in all modes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from pellucid._machine.base import (
    ArgumentTypeError,
    ArgumentValueError,
    ArrayLike,
    Ints,
    Size,
    Symbol,
    UnsupportedError,
    canonical_size,
    dtypes,
    is_static,
    larger,
    public_functions,
    replace_axis_size,
    smaller,
)
from pellucid._machine.primitives.assembly import pad as lax_pad
from pellucid._machine.primitives.families import scalar
from pellucid._machine.tracing import type_of
from pellucid._machine.xla.arrays import Array

from .axes import apply_along_axis
from .compiled import numpy_function
from .creation import arange, asarray, linspace
from .elementwise import clip, minimum, round
from .joining import concatenate
from .manipulation import broadcast_to
from .promotion import aval_of
from .quantiles import median
from .reductions import max, min
from .selection import take
from .statistics import mean

Widths = tuple[tuple[Size, Size], ...]

_STATISTICS = {"maximum": max, "mean": mean, "median": median, "minimum": min}
_OPTIONS = {
    "constant": {"constant_values"}, "linear_ramp": {"end_values"}, "reflect": {"reflect_type"},
    "symmetric": {"reflect_type"}, "edge": set(), "wrap": set(), "empty": set(),
    **{mode: {"stat_length"} for mode in _STATISTICS},
}  # fmt: skip
"""Maps mode to the options it accepts."""


def pad(
    array: ArrayLike,
    pad_width: ArrayLike | Ints | Sequence[Any],
    mode: str | Callable[..., Any] = "constant",
    **kwargs: Any | Ints,
) -> Array:
    """`array` with more elements before and after along each axis.

    `pad_width`: a number, a pair (before, after) for all axes, or a pair for each axis. `mode`: "constant" (with
    `constant_values`, 0), "edge", "linear_ramp" (to `end_values`, 0), "maximum", "mean", "median", "minimum" (of the
    `stat_length` elements at the edge), "reflect" and "symmetric" (with `reflect_type` "even" or "odd"), "wrap",
    "empty" (zeros), or a function `(vector, pair, axis, options) -> vector` of vectors padded with zeros.
    Raises: ArgumentTypeError for widths that aren't integers, ArgumentValueError for negative ones and for options
    that the mode doesn't have.

    >>> pad(jnp.array([1, 2, 3]), (1, 2))
    Array([0, 1, 2, 3, 0, 0], dtype=int32)
    """
    aval = aval_of("pad", array)
    widths = _pairs("pad_width", pad_width, aval.ndim)
    if callable(mode):
        padded = _pad(asarray(array), None, widths, "constant", "even", None)
        return _pad_with_function(padded, widths, mode, kwargs)
    if mode not in _OPTIONS:
        raise UnsupportedError(
            "jnp.pad has no such mode.",
            got=f"got {mode!r}",
            do=f"Use one of {', '.join(_OPTIONS)}.",
        )
    if unknown := set(kwargs) - _OPTIONS[mode]:
        raise ArgumentValueError(
            f"jnp.pad has no such option in mode {mode!r}.", got=f"got {', '.join(sorted(unknown))}"
        )
    reflect_type = kwargs.get("reflect_type", "even")
    if not isinstance(reflect_type, str) or reflect_type not in ("even", "odd"):
        raise ArgumentValueError(
            'jnp.pad has the reflect types "even" and "odd".', got=f"got {reflect_type!r}"
        )
    lengths = kwargs.get("stat_length")
    stat_length = None if lengths is None else _pairs("stat_length", lengths, aval.ndim)
    values = kwargs.get("constant_values", kwargs.get("end_values"))
    values = None if values is None else asarray(values)
    return _pad(array, values, widths, mode, reflect_type, stat_length)


def _places(n: Size, before: Size, after: Size, mode: str) -> Any:
    """For each element along a padded axis, the position of the element (of `n`) that it repeats."""
    if is_static((n, before, after)):
        return np.pad(np.arange(n), (before, after), mode=mode).astype(np.int32)  # type: ignore[call-overload]
    places = arange(-before, n + after)
    if mode == "edge":
        return clip(places, 0, n - 1)
    if mode == "wrap":
        return places % n
    period = larger(2 * n - 2, 1) if mode == "reflect" else 2 * n
    places = places % period
    return minimum(places, period - places if mode == "reflect" else period - 1 - places)


def _pairs(name: str, value: Any, ndim: int) -> Widths:
    """`value` as a pair of sizes for each axis."""
    numbers = np.asarray(value) if not isinstance(value, dict) else np.asarray(None)
    has_symbols = all(isinstance(n, (int, np.integer, Symbol)) for n in numbers.flat)
    if numbers.dtype.kind not in "iu" and not (numbers.dtype == object and has_symbols):
        raise ArgumentTypeError(f"jnp.pad needs integers as `{name}`.", got=f"got {value!r}")
    if any(n < 0 for n in numbers.flat):
        raise ArgumentValueError(
            f"jnp.pad needs a `{name}` that isn't negative.", got=f"got {value!r}"
        )
    try:
        pairs = np.broadcast_to(numbers, (ndim, 2))
    except ValueError:
        raise ArgumentValueError(
            f"jnp.pad needs a number, a pair, or a pair for each axis as `{name}`.",
            got=f"got {value!r} for {ndim} axes",
        ) from None
    return tuple((canonical_size(before), canonical_size(after)) for before, after in pairs)


@numpy_function(static=("widths", "mode", "reflect_type", "stat_length"))
def _pad(
    array: ArrayLike,
    values: ArrayLike | None,
    widths: Widths,
    mode: str,
    reflect_type: str,
    stat_length: Widths | None,
) -> Any:
    x = asarray(array)
    if mode in ("constant", "empty"):
        return _with_constants(x, None if mode == "empty" else values, widths)
    if mode == "linear_ramp":
        ends = scalar(0, x.dtype) if values is None else asarray(values, x.dtype)
        values = broadcast_to(ends, (x.ndim, 2))
    for axis, (before, after) in enumerate(widths):
        n = x.shape[axis]
        if (before, after) == (0, 0):
            continue
        if n == 0:
            raise ArgumentValueError(
                f"jnp.pad can't pad an axis without elements in mode {mode!r}.",
                got=f"axis {axis} of {type_of(x).text()}",
            )
        if mode in ("edge", "wrap") or (
            mode in ("reflect", "symmetric") and reflect_type == "even"
        ):
            x = take(x, _places(n, before, after, mode), axis, mode="clip")
        elif mode in ("reflect", "symmetric"):
            x = _reflect_oddly(x, axis, before, after, is_shared=mode == "reflect")
        else:
            lengths = (n, n) if stat_length is None else stat_length[axis]
            sides = [
                _side(x, axis, width, i, mode, values, smaller(lengths[i], n))
                for i, width in enumerate((before, after))
            ]
            x = concatenate([sides[0], x, sides[1]], axis)
    return x


def _with_constants(x: Array, values: Any, widths: Widths) -> Any:
    """`x` padded with `values` (default 0): one, or one for each (axis, side)."""
    if values is None or not type_of(values).ndim:
        value = scalar(0, x.dtype) if values is None else values.astype(x.dtype)
        return lax_pad(x, value, [(before, after, 0) for before, after in widths])
    values = broadcast_to(values, (x.ndim, 2)).astype(x.dtype)
    for axis, (before, after) in enumerate(widths):
        rest = [(0, 0, 0)] * x.ndim
        x = lax_pad(x, values[axis, 0], replace_axis_size(rest, axis, (before, 0, 0)))
        x = lax_pad(x, values[axis, 1], replace_axis_size(rest, axis, (0, after, 0)))
    return x


def _side(x: Array, axis: int, width: Size, side: int, mode: str, values: Any, length: Size) -> Any:
    """The elements that pad `x` before (`side` 0) or after (1) it along `axis`."""
    shape = replace_axis_size(x.shape, axis, width)
    lead = (slice(None),) * axis
    if mode == "linear_ramp":
        edge = x[(*lead, -1 if side else 0)]
        ramp = linspace(values[axis, side], edge, width, endpoint=False, dtype=x.dtype, axis=axis)
        return ramp[(*lead, slice(None, None, -1))] if side else ramp
    n = x.shape[axis]
    part = x if length == n else x[(*lead, slice(n - length, n) if side else slice(0, length))]
    value = _STATISTICS[mode](part, axis=axis, keepdims=True)
    if x.dtype in dtypes.KINDS["integral"] and mode in ("mean", "median"):
        value = round(value)
    return broadcast_to(value.astype(x.dtype), shape)


class _Odd(NamedTuple):
    """An element beyond the edges as `first * x[0] + last * x[-1] + sign * x[place]`."""

    first: int
    last: int
    sign: int
    place: int


def _odd(position: int, n: int, is_shared: bool) -> _Odd:
    """The element at `position` of `n` elements continued by odd reflection; edges are `is_shared` or repeated."""
    first = last = 0
    sign, gap = 1, 0 if is_shared else 1
    if n == 1 and is_shared:
        return _Odd(0, 0, 1, 0)
    while not 0 <= position < n:
        if position < 0:
            first, position = first + 2 * sign, -position - gap
        else:
            last, position = last + 2 * sign, 2 * (n - 1) - position + gap
        sign = -sign
    return _Odd(first, last, sign, position)


def _reflect_oddly(x: Array, axis: int, before: int, after: int, is_shared: bool) -> Any:
    n = x.shape[axis]
    terms = [_odd(i, n, is_shared) for i in range(-before, n + after)]
    along = tuple(-1 if i == axis else 1 for i in range(x.ndim))
    columns = [np.asarray(column) for column in zip(*terms, strict=True)]
    first, last, sign = (column.astype(x.dtype).reshape(along) for column in columns[:3])
    lead = (slice(None),) * axis
    inner = take(x, columns[3].astype(np.int32), axis, mode="clip")
    return x[(*lead, slice(0, 1))] * first + x[(*lead, slice(n - 1, n))] * last + inner * sign


def _pad_with_function(
    x: ArrayLike, widths: Widths, function: Callable[..., Any], options: dict[str, Any]
) -> Any:
    for axis, pair in enumerate(widths):
        x = apply_along_axis(lambda v, a=axis, p=pair: function(v, p, a, options), axis, x)
    return x


__all__ = ["pad"]

public_functions(__all__, globals())

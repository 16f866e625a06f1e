"""`associative_scan`: all prefixes of a sequence, combined in logarithmic depth."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from pellucid.base.dims import Symbol
from pellucid.base.errors import ArgumentTypeError, ArgumentValueError, UnsupportedError
from pellucid.base.functional import resized, strict_zip
from pellucid.base.tree import keystr
from pellucid.higher_order.bodies import stand_in
from pellucid.ir.rules import Values
from pellucid.primitives.concatenation import concatenate, stack
from pellucid.primitives.movement import canonical_axis, reshape, rev
from pellucid.primitives.slicing import slice_in_dim
from pellucid.tracing.function import name_of
from pellucid.tracing.trace import type_of, types_of
from pellucid.transforms.arguments import check_callable, flat_arguments
from pellucid.xla.pytree import flatten, flatten_with_path

_ASSOCIATIVE_SCAN = stand_in("associative_scan", "elems")


def associative_scan(
    fn: Callable[[Any, Any], Any], elems: Any, reverse: bool = False, axis: int = 0
) -> Any:
    """For each position along `axis` of the arrays in `elems`, all elements up to it combined by `fn`.

    `fn` is associative and works on whole arrays, position by position: it gives a tree like its two arguments.
    `reverse` combines from the end. Takes about 2 log2(n) calls of `fn` on ever shorter arrays.
    Source: R. Ladner and M. Fischer, Parallel prefix computation, 1980.

    Raises: ArgumentValueError for arrays of different sizes along `axis`.

    >>> associative_scan(lambda a, b: a + b, np.arange(5))
    Array([ 0,  1,  3,  6, 10], dtype=int32)
    """
    check_callable(fn, "associative_scan")
    leaves, tree = flat_arguments(elems, "associative_scan", _ASSOCIATIVE_SCAN, (elems,))
    if not leaves:
        raise ArgumentValueError("associative_scan needs at least one array.")
    avals = types_of(leaves)
    axis = canonical_axis(operator.index(axis), avals[0].ndim)
    if any(a.ndim <= axis or a.shape[axis] != avals[0].shape[axis] for a in avals):
        paths = ["elems" + keystr(path) for path, _ in flatten_with_path(elems)[0]]
        raise ArgumentValueError(
            f"associative_scan needs arrays of one size along axis {axis}.",
            got=[f"{path}: {a.text()}" for path, a in strict_zip(paths, avals)][:8],
        )

    def combined(a, b):
        results, out_tree = flatten(fn(tree.unflatten(a), tree.unflatten(b)))
        if out_tree != tree:
            raise ArgumentTypeError(
                f"associative_scan: `{name_of(fn)}` must return the structure that it takes.",
                got=[f"taken {tree}", f"returned {out_tree}"],
            )
        return results

    if reverse:
        leaves = [rev(x, (axis,)) for x in leaves]
    prefixes = _prefixes(combined, leaves, axis)
    return tree.unflatten([rev(x, (axis,)) for x in prefixes] if reverse else prefixes)


def _prefixes(combined: Callable[[Values, Values], Values], elems: Values, axis: int) -> list[Any]:
    size = type_of(elems[0]).shape[axis]
    if isinstance(size, Symbol):
        raise UnsupportedError(
            "associative_scan can't run along a symbolic dimension: its size decides how many steps there are.",
            got=f"size {size}",
            do="Use `lax.scan`, or a cumulative function such as `jnp.cumsum`.",
        )
    if size < 2:
        return elems

    def every_other(xs: Values, start: int, end: int | None = None) -> Values:
        return [slice_in_dim(x, start, end, stride=2, axis=axis) for x in xs]

    pairs = combined(every_other(elems, 0, -1), every_other(elems, 1))
    odd = _prefixes(combined, pairs, axis)
    before = [slice_in_dim(x, 0, -1, axis=axis) for x in odd] if size % 2 == 0 else odd
    later = every_other(elems, 2)
    even = combined(before, later) if size > 2 else later
    first = [slice_in_dim(x, 0, 1, axis=axis) for x in elems]
    even = [concatenate([a, b], axis) for a, b in strict_zip(first, even)]
    return [_interleaved(a, b, axis) for a, b in strict_zip(even, odd)]


def _interleaved(even, odd, axis: int):
    """The elements of `even` and `odd` in turn; `even` may have one more."""
    aval: Any = type_of(odd)
    n = aval.shape[axis]
    longer = type_of(even).shape[axis] > n
    pairs = stack([slice_in_dim(even, 0, n, axis=axis) if longer else even, odd], axis + 1)
    flat = reshape(pairs, resized(aval.shape, axis, 2 * n))
    return concatenate([flat, slice_in_dim(even, n, None, axis=axis)], axis) if longer else flat

"""`associative_scan`: all prefixes of an associative operation, by a tree of combinations."""

from __future__ import annotations

from typing import Any

from pellucid._machine.base import (
    ArgumentTypeError,
    ArgumentValueError,
    Binary,
    Symbol,
    UnsupportedError,
    keystr,
    strict_zip,
)
from pellucid._machine.primitives import (
    canonical_axis,
    prefixes,
    rev,
)
from pellucid._machine.tracing import (
    name_of,
    types_of,
)
from pellucid._machine.transforms import (
    check_callable,
    flat_arguments,
)
from pellucid._machine.xla import flatten, flatten_with_path

from .bodies import stand_in

_ASSOCIATIVE_SCAN = stand_in("associative_scan", "elems")


def associative_scan(fn: Binary, elems: Any, reverse: bool = False, axis: int = 0) -> Any:
    """For each position along `axis` of the arrays in `elems`, all elements up to it combined by `fn`.

    `fn` must be associative and work on whole arrays, position by position along `axis`; it returns a tree like its two
    arguments. `reverse` combines from the end. Makes about 2 log2(n) calls of `fn` on ever shorter arrays.
    Source: R. Ladner and M. Fischer, Parallel prefix computation, 1980.

    Raises: ArgumentValueError for arrays of different sizes along `axis`.

    The result has the structure, shapes and dtypes of `elems`.

    >>> associative_scan(lambda a, b: a + b, np.arange(5))
    Array([ 0,  1,  3,  6, 10], dtype=int32)
    """
    check_callable(fn, "associative_scan")
    leaves, tree = flat_arguments(elems, "associative_scan", _ASSOCIATIVE_SCAN, (elems,))
    if not leaves:
        raise ArgumentValueError("associative_scan needs at least one array.")
    avals = types_of(leaves)
    axis = canonical_axis(axis, avals[0].ndim)
    if any(a.ndim <= axis or a.shape[axis] != avals[0].shape[axis] for a in avals):
        paths = ["elems" + keystr(path) for path, _ in flatten_with_path(elems)[0]]
        raise ArgumentValueError(
            f"associative_scan needs arrays of one size along axis {axis}.",
            got=[f"{path}: {a.text()}" for path, a in strict_zip(paths, avals)][:8],
        )

    if isinstance(size := avals[0].shape[axis], Symbol):
        raise UnsupportedError(
            "associative_scan can't run along a symbolic dimension: its size decides how many steps there are.",
            got=f"size {size}",
            do="Use `lax.scan`, or a cumulative function such as `jnp.cumsum`.",
        )

    def combine(a, b):
        results, out_tree = flatten(fn(tree.unflatten(a), tree.unflatten(b)))
        if out_tree != tree:
            raise ArgumentTypeError(
                f"associative_scan: `{name_of(fn)}` must return the structure that it takes.",
                got=[f"taken {tree}", f"returned {out_tree}"],
            )
        return results

    if reverse:
        leaves = [rev(x, (axis,)) for x in leaves]
    results = prefixes(combine, leaves, axis)
    return tree.unflatten([rev(x, (axis,)) for x in results] if reverse else results)

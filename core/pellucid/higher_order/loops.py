"""Loops as users call them: `scan`, `map`, `while_loop`, `fori_loop`."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from pellucid.base import config
from pellucid.base.errors import ArgumentTypeError, ArgumentValueError
from pellucid.base.tree import keystr, tree_map
from pellucid.higher_order.bodies import check_carry, strengthened, traced, types_of
from pellucid.higher_order.scan import ScanParams, scan_p, unstacked
from pellucid.tracing.function import name_of
from pellucid.tracing.trace import bind
from pellucid.tracing.tracer import Tracer
from pellucid.tracing.values import type_of
from pellucid.transforms.arguments import check_callable, checked_leaves
from pellucid.xla.pytree import flatten, flatten_with_path, treedef_tuple


def scan(
    f: Callable[[Any, Any], tuple[Any, Any]],
    init: Any,
    xs: Any = None,
    length: int | None = None,
    reverse: bool = False,
    unroll: int | bool = 1,
    _split_transpose: bool = False,
) -> tuple[Any, Any]:
    """`(carry, ys)` after `carry, y = f(carry, x)` for each `x` along the leading axes of the arrays in `xs`.

    `carry` begins as `init` and keeps its structure, shapes and dtypes; `ys` are the outputs `y`, stacked along new
    leading axes. `length` is needed only where `xs` has no arrays. `reverse` begins at the end. `unroll` steps
    become one step of the compiled loop (True or 0: no loop at all). `f` is traced once.

    Raises: ArgumentTypeError for a carry that changes its type (with its path and both types), ArgumentValueError
    for leading axes of different sizes.

    >>> scan(lambda total, x: (total + x, total), 0, np.arange(4))
    (Array(6, dtype=int32), Array([0, 0, 1, 3], dtype=int32))
    """
    check_callable(f, "scan")
    init_leaves, init_tree = flatten(init)
    xs_leaves, xs_tree = flatten(xs)
    leaves = checked_leaves([*init_leaves, *xs_leaves], "scan", _scanned, (init, xs), {})
    init_leaves, xs_leaves = leaves[: len(init_leaves)], leaves[len(init_leaves) :]
    xs_avals = types_of(xs_leaves)
    length = _scan_length(xs, xs_avals, length)
    unroll = _unroll(unroll, length)
    if config.disable_jit.value:
        return _scanned_by_python(f, init, xs, length, reverse)
    in_tree = treedef_tuple([init_tree, xs_tree])
    x_avals = [unstacked(a) for a in xs_avals]
    body = traced(f, in_tree, [*types_of(init_leaves), *x_avals], "scan")
    carry_tree, ys_tree = _pair(body.out_tree, f)
    if carry_tree == init_tree:
        stronger = strengthened(init_leaves, types_of(init_leaves), body.out_avals[: len(init_leaves)])
        if any(a is not b for a, b in zip(stronger, init_leaves, strict=True)):
            init_leaves = stronger
            body = traced(f, in_tree, [*types_of(init_leaves), *x_avals], "scan")
            carry_tree, ys_tree = _pair(body.out_tree, f)
    n = carry_tree.num_leaves
    check_carry("scan", f, init_tree, types_of(init_leaves), carry_tree, body.out_avals[:n])
    params = ScanParams(body.program, length, n, len(body.consts), bool(reverse), unroll)
    results = bind(scan_p, *body.consts, *init_leaves, *xs_leaves, params=params)
    return carry_tree.unflatten(results[:n]), ys_tree.unflatten(results[n:])


def _scanned(init: Any, xs: Any) -> None:
    """Stands for the arguments of `scan` in messages."""


def _pair(tree: Any, f: Callable[..., Any]) -> tuple[Any, Any]:
    children = tree.children()
    if tree.node_data() is None or tree.node_data()[0] not in (tuple, list) or len(children) != 2:
        raise ArgumentTypeError(
            f"scan: `{name_of(f)}` must return a pair (carry, y).", got=f"it returned {tree}",
            do="Return (carry, None) if there is nothing to stack.",
        )  # fmt: skip
    return children[0], children[1]


def _scan_length(xs: Any, avals: list[Any], length: Any) -> int:
    if length is not None:
        try:
            length = operator.index(length)
        except TypeError:
            raise ArgumentTypeError("scan needs a length that is known now, an int.", got=f"got {length!r}",
                                    do="Use `fori_loop` or `while_loop` for a number of steps that is computed.") from None  # fmt: skip
    scalars = [i for i, a in enumerate(avals) if not a.shape]
    sizes = {a.shape[0] for a in avals if a.shape}
    if scalars or len(sizes) > 1 or (length is not None and sizes - {length}) or (length is None and not sizes):
        paths = ["xs" + keystr(path) for path, _ in flatten_with_path(xs)[0]]
        if scalars:
            raise ArgumentValueError(
                "scan needs arrays with a leading axis.", got=[f"{paths[i]}: {avals[i].text()}" for i in scalars[:4]],
                do="Scalars that all steps share can be captured by the function.",
            )  # fmt: skip
        if not sizes:
            raise ArgumentValueError("scan doesn't know its number of steps: xs holds no arrays.", do="Give length.")
        lines = [f"length: {length}"] if length is not None else []
        raise ArgumentValueError(
            "scan got arrays whose leading axes differ.",
            got=[*lines, *(f"{path}: {a.text()}" for path, a in zip(paths, avals, strict=True))][:8],
        )
    return next(iter(sizes)) if length is None else length


def _unroll(unroll: Any, length: int) -> int:
    if isinstance(unroll, bool):
        return max(length, 1) if unroll else 1
    try:
        unroll = operator.index(unroll)
    except TypeError:
        raise ArgumentTypeError("unroll must be an int or a bool.", got=f"got {unroll!r}") from None
    if unroll < 0:
        raise ArgumentValueError("unroll can't be negative.", got=f"got {unroll}")
    return unroll


def _scanned_by_python(f: Callable[..., Any], carry: Any, xs: Any, length: int, reverse: bool) -> tuple[Any, Any]:
    if length == 0:
        raise ArgumentValueError("a scan of no steps can't run while disable_jit is on: the type of its result is unknown.")
    ys = []
    for i in reversed(range(length)) if reverse else range(length):
        carry, y = f(carry, tree_map(lambda x, i=i: index_in_dim(x, i, 0, False), xs))  # type: ignore[misc]
        ys.append(y)
    return carry, tree_map(lambda *parts: stack(parts, 0), *(reversed(ys) if reverse else ys))

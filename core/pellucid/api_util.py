"""Functions of trees as functions of flat values, under the names of `jax.api_util`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from pellucid._machine.base.errors import ArgumentValueError
from pellucid._machine.base.functional import copy_with_name, strict_zip
from pellucid._machine.base.tree import broadcast_prefix_to, is_none, tree_unflatten
from pellucid._machine.base.typing import Function
from pellucid._machine.ir.jaxpr import DebugInfo
from pellucid._machine.tracing.function import FunctionSpec, indices, name_of, source_of
from pellucid._machine.tracing.operands import type_of
from pellucid._machine.xla.pytree import flatten
from pellucid.extend.linear_util import (
    Store,
    WrappedFun,
    transformation2,
    transformation_with_aux2,
)

shaped_abstractify = copy_with_name(type_of, "shaped_abstractify", __name__)


@transformation_with_aux2
def flatten_fun(f: Function, store: Store, in_tree: Any, *args_flat: Any) -> list[Any]:
    """A function of the leaves of (args, kwargs), whose structure is `in_tree`; its result is a list of leaves.

    >>> from pellucid.extend.linear_util import wrap_init
    >>> leaves, tree = pl.tree.flatten((({"a": 1, "b": 2},), {}))
    >>> flat, out_tree = flatten_fun(wrap_init(lambda x: (x["a"] + x["b"],)), tree)
    >>> flat.call_wrapped(*leaves), out_tree()
    ([3], PyTreeDef((*,)))
    """
    args, kwargs = tree_unflatten(in_tree, args_flat)
    leaves, out_tree = flatten(f(*args, **kwargs))
    store.store(out_tree)
    return leaves


@transformation_with_aux2
def flatten_fun_nokwargs(f: Function, store: Store, in_tree: Any, *args_flat: Any) -> list[Any]:
    """Like `flatten_fun`, where `in_tree` is the structure of the tuple of arguments.

    >>> from pellucid.extend.linear_util import wrap_init
    >>> flat, out_tree = flatten_fun_nokwargs(wrap_init(divmod), pl.tree.structure((7, 2)))
    >>> flat.call_wrapped(7, 2), out_tree()
    ([3, 1], PyTreeDef((*, *)))
    """
    leaves, out_tree = flatten(f(*tree_unflatten(in_tree, args_flat)))
    store.store(out_tree)
    return leaves


def debug_info(
    traced_for: str,
    fun: Function,
    args: Sequence[Any],
    kwargs: dict[str, Any],
    *,
    static_argnums: Sequence[int] = (),
    static_argnames: Sequence[str] = (),
    **_: Any,
) -> DebugInfo:
    """Names for messages about a call of `fun` that is traced for the purpose `traced_for`.

    >>> debug_info("jit", max, (1, 2), {}).name
    'max'
    """
    spec = FunctionSpec(fun, name_of(fun), tuple(static_argnums), tuple(static_argnames))
    names = lambda: spec.argument_paths(tuple(args), kwargs)
    return DebugInfo(traced_for, source_of(fun), names)


def safe_map(f: Function, *args: Iterable[Any]) -> list[Any]:
    """`f` of the items of sequences of one length, as a list.

    Raises: ValueError where the lengths differ.

    >>> safe_map(max, [1, 5], [4, 2])
    [4, 5]
    """
    return [f(*items) for items in strict_zip(*map(list, args))]


@transformation2
def _insert_fixed(
    f: Function, positions: tuple[int, ...], fixed: tuple[Any, ...], *dynamic: Any, **kwargs: Any
) -> Any:
    """`f` of the arguments `fixed`, with `dynamic` ones inserted at `positions`."""
    args = list(fixed)
    for position, value in strict_zip(positions, dynamic):
        args.insert(position, value)
    return f(*args, **kwargs)


def argnums_partial(
    f: WrappedFun,
    dyn_argnums: int | Sequence[int],
    args: Sequence[Any],
    require_static_args_hashable: bool = True,
) -> tuple[WrappedFun, tuple[Any, ...]]:
    """`f` with all arguments but those at `dyn_argnums` fixed, and the values of these.

    Raises: ArgumentValueError for positions that `args` lacks, and for fixed arguments that can't be hashed unless
    `require_static_args_hashable` is False.

    >>> from pellucid.extend.linear_util import wrap_init
    >>> power, dynamic = argnums_partial(wrap_init(pow), 0, (3, 2))
    >>> power.call_wrapped(*dynamic)
    9
    """
    count = len(args)
    argnums = indices(dyn_argnums, "dyn_argnums")
    if not all(-count <= n < count for n in argnums):
        raise ArgumentValueError(
            "dyn_argnums must be positions of arguments.", got=f"{argnums} of {count} arguments"
        )
    positions = tuple(sorted({n % count for n in argnums}))
    fixed = [(i, x) for i, x in enumerate(args) if i not in positions]
    if require_static_args_hashable:
        for i, x in fixed:
            try:
                hash(x)
            except TypeError:
                raise ArgumentValueError(
                    f"`{f.__name__}`: the static argument at position {i} can't be hashed.",
                    got=f"got {type(x).__name__}",
                    do="Pass a hashable value (a tuple, a frozen dataclass), or don't make the argument static.",
                ) from None
    partial = _insert_fixed(f, positions, tuple([x for _, x in fixed]))
    return partial, tuple([args[i] for i in positions])


def donation_vector(
    donate_argnums: Iterable[int],
    donate_argnames: Iterable[str],
    in_tree: Any,
    kws: bool = True,
) -> tuple[bool, ...]:
    """Whether each leaf of the arguments is donated; `in_tree` is the structure of (args, kwargs), or of args.

    >>> donation_vector((1,), ("k",), pl.tree.structure(((1, (2, 3)), {"k": 4})))
    (False, True, True, True)
    """
    args, kwargs = in_tree.children() if kws else (in_tree, None)
    positions, names = set(donate_argnums), set(donate_argnames)
    flags: list[bool] = []
    for i, child in enumerate(args.children()):
        flags += [i in positions] * child.num_leaves
    if kwargs is not None:
        for key, child in strict_zip(kwargs.node_data()[1], kwargs.children()):
            flags += [key in names] * child.num_leaves
    return tuple(flags)


def flatten_axes(
    name: str, treedef: Any, axis_tree: Any, *, kws: bool = False, tupled_args: bool = False
) -> list[Any]:
    """The axis of each leaf of `treedef` by a tree of axes that is a prefix of it, where None is an axis, too.

    `name` and what the flags say of the tree are for the message.

    Raises: TreeStructureError, a ValueError, where it is no prefix.

    >>> flatten_axes("in_axes", pl.tree.structure(({"a": 1, "b": 2}, 3)), (0, None))
    [0, 0, None]
    """
    return broadcast_prefix_to(axis_tree, treedef, is_none, caller=name, name="argument")


def rebase_donate_argnums(
    donate_argnums: Iterable[int], static_argnums: Iterable[int]
) -> tuple[int, ...]:
    """The positions of donated arguments among those that aren't static, sorted.

    Raises: ArgumentValueError for an argument that is both.

    >>> rebase_donate_argnums((3, 4), (0, 1))
    (1, 2)
    """
    donated, static = sorted(set(donate_argnums)), set(static_argnums)
    if both := static.intersection(donated):
        raise ArgumentValueError(
            "an argument can't be both static and donated.", got=f"both: positions {sorted(both)}"
        )
    return tuple([n - sum(s < n for s in static) for n in donated])


__all__ = [
    "argnums_partial",
    "debug_info",
    "donation_vector",
    "flatten_axes",
    "flatten_fun",
    "flatten_fun_nokwargs",
    "rebase_donate_argnums",
    "safe_map",
    "shaped_abstractify",
]

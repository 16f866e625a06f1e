"""Functions of trees as functions of flat values, under the names of `jax.api_util`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from pellucid.base.functional import strict_zip
from pellucid.base.tree import tree_unflatten
from pellucid.base.typing import Function
from pellucid.extend.linear_util import Store, transformation_with_aux2
from pellucid.ir.jaxpr import DebugInfo
from pellucid.tracing.function import FunctionSpec, name_of
from pellucid.xla.pytree import flatten


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
    """As `flatten_fun`, where `in_tree` is the structure of the tuple of arguments.

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
    return DebugInfo(spec.name, lambda: spec.argument_paths(tuple(args), kwargs))


def safe_map(f: Function, *args: Iterable[Any]) -> list[Any]:
    """`f` of the items of sequences of one length, as a list.

    Raises: ValueError where the lengths differ.

    >>> safe_map(max, [1, 5], [4, 2])
    [4, 5]
    """
    return [f(*items) for items in strict_zip(*map(list, args))]


__all__ = [
    "debug_info",
    "flatten_fun",
    "flatten_fun_nokwargs",
    "safe_map",
]

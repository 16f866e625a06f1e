"""`Partial`: a function with some arguments, as a tree whose leaves those arguments are."""

import functools
from collections.abc import Callable
from typing import Any, Self

from .registry import register_pytree_node


class Partial(functools.partial):
    """`functools.partial` as a node of trees: the arguments are children, the function is static.

    So it may be passed to, and returned from, transformed functions. The function is compared
    by `==`. One that is itself a `functools.partial` or a `Partial` stays whole: its arguments
    belong to the function, not to the children.

    >>> tree_leaves(Partial(max, 1, 2))
    [1, 2]
    >>> tree_map(lambda x: x + 10, Partial(pow, 2))(2)
    144
    """

    def __new__(cls, func: Callable[..., Any], /, *args: Any, **kw: Any) -> Self:
        # functools.partial would take the arguments of an inner partial as its own.
        if isinstance(func, functools.partial):
            func = _Whole(func)
        return super().__new__(cls, func, *args, **kw)


class _Whole:
    """A partial function that isn't merged into the one around it."""

    def __init__(self, function: functools.partial[Any]) -> None:
        self.function = function
        functools.update_wrapper(self, function)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.function(*args, **kwargs)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Whole) and self.function == other.function

    def __hash__(self) -> int:
        return hash(self.function)

    def __repr__(self) -> str:
        return repr(self.function)


def _unflatten(func, children) -> Partial:
    args, keywords = children
    return Partial(func, *args, **keywords)


register_pytree_node(
    Partial, lambda partial: ((partial.args, partial.keywords), partial.func), _unflatten
)

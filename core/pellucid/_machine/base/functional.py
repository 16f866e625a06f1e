"""Iteration that checks lengths, tuples of values by position, functions under other names, and numbers of bytes in words."""

from __future__ import annotations

import functools
import operator
import re
from collections.abc import Callable, Hashable, Iterable, Sequence
from types import FunctionType, MethodType
from typing import TYPE_CHECKING, Any, TypeVar

from .errors import expecting

if TYPE_CHECKING:
    from builtins import zip as strict_zip
else:
    strict_zip = functools.partial(zip, strict=True)
    """`zip` of iterables of one length: raises ValueError where one ends before the others."""


def ints(values: Iterable[Any]) -> tuple[int, ...]:
    """`values`, axes or other indices, as a tuple of Python ints; raises ArgumentTypeError for others.

    >>> ints([np.int32(1), 0])
    (1, 0)
    """
    try:
        return tuple(map(operator.index, values))
    except TypeError:
        with expecting("axes and other indices are sequences of integers", values):
            raise


F = TypeVar("F", bound=Callable[..., Any])


def renamed(function: F, name: str, module: str | None = None) -> F:
    """A copy of a Python function that is called `name`, in its docstring too, and belongs to `module` if that is given.

    >>> renamed(ints, "axes")([1]), renamed(ints, "axes").__name__
    ((1,), 'axes')
    """
    original: Any = function
    copy: Any = FunctionType(
        original.__code__, original.__globals__, name, original.__defaults__, original.__closure__
    )
    functools.update_wrapper(copy, original)
    copy.__wrapped__ = getattr(original, "__wrapped__", None)  # whose parameters it shows
    if copy.__wrapped__ is None:
        del copy.__wrapped__
    copy.__kwdefaults__ = original.__kwdefaults__
    copy.__name__ = copy.__qualname__ = name
    copy.__module__ = module or original.__module__
    copy.__doc__ = re.sub(rf"\b{original.__name__}\b", name, original.__doc__ or "")
    return copy


_TYPES = {"__name__": str, "__qualname__": str, "__annotations__": dict, "__type_params__": tuple}
"""What Python takes for these attributes of a function."""


def wrapping(function: Any, *, updated: Sequence[str] = ("__dict__",)) -> Callable[[F], F]:
    """`functools.wraps(function)` without what a function can't have: objects that are called may have names that are no strings.

    >>> class Scaling:
    ...     __name__ = None
    ...     def __call__(self, x):
    ...         return 2 * x
    >>> wrapping(Scaling())(lambda x: x).__name__
    '<lambda>'
    """
    assigned = [
        name
        for name in functools.WRAPPER_ASSIGNMENTS
        if name not in _TYPES or isinstance(getattr(function, name, None), _TYPES[name])
    ]
    return functools.wraps(function, assigned, updated)  # pyright: ignore[reportReturnType]


def inserted(values: Sequence[Any], position: Any, *new: Any) -> tuple[Any, ...]:
    """`values` with `new` ones at `position`.

    >>> inserted((2, 3), 1, 5)
    (2, 5, 3)
    """
    return (*values[:position], *new, *values[position:])


def resized(shape: Sequence[Any], axis: int, *sizes: Any) -> tuple[Any, ...]:
    """`shape`, or other values by position, with `sizes` in place of the one at `axis`.

    >>> resized((2, 6, 3), 1, 2, 3), resized((2, 6, 3), 1)
    ((2, 2, 3, 3), (2, 3))
    """
    return (*shape[:axis], *sizes, *shape[axis + 1 :])


def filled(mask: Iterable[bool], values: Iterable[Any], others: Iterable[Any]) -> list[Any]:
    """`others` with the next of `values` where `mask` says so.

    >>> filled([True, False, True], "ab", [0, 1, 2])
    ['a', 1, 'b']
    """
    rest = iter(values)
    return [next(rest) if is_next else x for is_next, x in strict_zip(mask, others)]


_COMPARED_BY_VALUE = frozenset((bool, int, float, complex, str, bytes))


def identity(x: Any) -> Hashable:
    """A value equal for the same object, for equal numbers or texts of one type, and for one method of one object.

    It means something as long as `x` is alive. Classes of users may say that objects are equal which differ.

    >>> identity(2.0) == identity(2.0), identity(2.0) == identity(2), identity(0.0) == identity(-0.0)
    (True, False, False)
    """
    kind = type(x)  # pyright: ignore[reportUnknownVariableType]  # of any value
    if kind is MethodType:
        return id(x.__self__), id(x.__func__)
    return (kind, repr(x)) if kind in _COMPARED_BY_VALUE else id(x)


def identity_of_structure(tree: Any) -> Hashable:
    """A value equal for structures of the same nodes, whose keys and static data have one `identity`.

    Structures are equal where static data of users' nodes says that it is, which may differ in what functions read.

    >>> one, other = ({key: 2.0} for key in (1, True))
    >>> tree_structure(one) == tree_structure(other)
    True
    >>> identity_of_structure(tree_structure(one)) == identity_of_structure(tree_structure(other))
    False
    """
    node = tree.node_data()
    if node is None:
        return tree.num_leaves
    kind, static = node
    return kind, _identity_of_items(static), *map(identity_of_structure, tree.children())


def _identity_of_items(x: Any) -> Hashable:
    """The `identity` of `x`, of a tuple or list that of its items: such as flattening makes anew each time."""
    kind = type(x)  # pyright: ignore[reportUnknownVariableType]  # of any value
    return (kind, *map(_identity_of_items, x)) if kind in (tuple, list) else identity(x)


def bytes_text(n_bytes: float) -> str:
    """A number of bytes with three digits and its unit.

    >>> bytes_text(36), bytes_text(123456789)
    ('36 B', '118 MiB')
    """
    if n_bytes < 1024:
        return f"{n_bytes:.0f} B"
    for unit in ("KiB", "MiB", "GiB", "TiB"):
        n_bytes /= 1024
        if n_bytes < 1024 or unit == "TiB":
            break
    return f"{n_bytes:.3g} {unit}" if n_bytes < 1000 else f"{n_bytes:.0f} {unit}"

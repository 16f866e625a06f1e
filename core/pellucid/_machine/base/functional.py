"""Helpers for zipping, tuples, function names, identities of objects, and texts for byte counts."""

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
    """`zip` that raises ValueError unless all iterables have the same length."""


def ints(values: Iterable[Any]) -> tuple[int, ...]:
    """`values` (axes or other indices) as a tuple of Python ints; raises ArgumentTypeError for other types.

    >>> ints([np.int32(1), 0])
    (1, 0)
    """
    try:
        return tuple(map(operator.index, values))
    except TypeError:
        with expecting("axes and other indices must be sequences of integers", values):
            raise


F = TypeVar("F", bound=Callable[..., Any])


def copy_with_name(function: F, name: str, module: str | None = None) -> F:
    """A copy of a Python function with another name, also in its docstring, and optionally with another `module`.

    >>> copy_with_name(ints, "axes")([1]), copy_with_name(ints, "axes").__name__
    ((1,), 'axes')
    """
    original: Any = function
    copy: Any = FunctionType(
        original.__code__, original.__globals__, name, original.__defaults__, original.__closure__
    )
    functools.update_wrapper(copy, original)
    # The function whose signature it shows.
    copy.__wrapped__ = getattr(original, "__wrapped__", None)
    if copy.__wrapped__ is None:
        del copy.__wrapped__
    copy.__kwdefaults__ = original.__kwdefaults__
    copy.__name__ = copy.__qualname__ = name
    copy.__module__ = module or original.__module__
    copy.__doc__ = re.sub(rf"\b{original.__name__}\b", name, original.__doc__ or "")
    return copy


_TYPES = {"__name__": str, "__qualname__": str, "__annotations__": dict, "__type_params__": tuple}
"""The types that Python requires for these attributes of a function."""


def name_of(function: Callable[..., Any]) -> str:
    """Name of `function` in messages and compiled modules: of a partial that of its function, of other objects their class.

    >>> name_of(functools.partial(ints, [1])), name_of(operator.itemgetter(0))
    ('ints', 'itemgetter')
    """
    name = getattr(function, "__name__", None)
    if name is None and isinstance(function, functools.partial):
        return name_of(function.func)
    return name if name and isinstance(name, str) else type(function).__name__


def wrapping(function: Any, *, updated: Sequence[str] = ("__dict__",)) -> Callable[[F], F]:
    """Like `functools.wraps(function)`, without attributes of unsuitable types; callable objects may have any.

    What has no name, as a partial or a callable object, is called as `name_of` calls it.

    >>> class Scaling:
    ...     __name__ = None
    ...     def __call__(self, x):
    ...         return 2 * x
    >>> wrapping(Scaling())(lambda x: x).__name__
    'Scaling'
    """
    assigned = [
        name
        for name in functools.WRAPPER_ASSIGNMENTS
        if name not in _TYPES or isinstance(getattr(function, name, None), _TYPES[name])
    ]
    wraps = functools.wraps(function, assigned, updated)
    if "__name__" in assigned:
        return wraps  # pyright: ignore[reportReturnType]

    def named(wrapper: Any) -> Any:
        wraps(wrapper)  # first: it takes over the object's attributes
        wrapper.__name__ = wrapper.__qualname__ = name_of(function)
        return wrapper

    return named


def insert_at(values: Sequence[Any], position: Any, *new: Any) -> tuple[Any, ...]:
    """`values` with `new` ones at `position`.

    >>> insert_at((2, 3), 1, 5)
    (2, 5, 3)
    """
    return (*values[:position], *new, *values[position:])


def replace_axis_size(shape: Sequence[Any], axis: int, *sizes: Any) -> tuple[Any, ...]:
    """`shape`, or another sequence, with `sizes` in place of the entry at `axis`.

    >>> replace_axis_size((2, 6, 3), 1, 2, 3), replace_axis_size((2, 6, 3), 1)
    ((2, 2, 3, 3), (2, 3))
    """
    return (*shape[:axis], *sizes, *shape[axis + 1 :])


def merge_by_mask(mask: Iterable[bool], values: Iterable[Any], others: Iterable[Any]) -> list[Any]:
    """`others`, with the next of `values` in place of each element where `mask` is true.

    >>> merge_by_mask([True, False, True], "ab", [0, 1, 2])
    ['a', 1, 'b']
    """
    rest = iter(values)
    return [next(rest) if is_next else x for is_next, x in strict_zip(mask, others)]


_COMPARED_BY_VALUE = frozenset((bool, int, float, complex, str, bytes))


def identity(x: Any) -> Hashable:
    """A key that is equal for the same object, for equal numbers or texts of one type, and for the same bound method.

    Valid while `x` is alive. Unlike `==`, it doesn't consult users' classes, which may call different objects equal.

    >>> identity(2.0) == identity(2.0), identity(2.0) == identity(2), identity(0.0) == identity(-0.0)
    (True, False, False)
    """
    kind = type(x)  # pyright: ignore[reportUnknownVariableType]  # of any value
    if kind is MethodType:
        return id(x.__self__), id(x.__func__)
    return (kind, repr(x)) if kind in _COMPARED_BY_VALUE else id(x)


def identity_of_structure(tree: Any) -> Hashable:
    """A key that is equal for tree structures with the same nodes, and with keys and static data of the same
    `identity`.

    Structures themselves compare equal according to users' `==` of static data, which may ignore what functions read.

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
    """The `identity` of `x`, or those of its items if it is a tuple or list, which flattening creates anew each time."""
    kind = type(x)  # pyright: ignore[reportUnknownVariableType]  # of any value
    return (kind, *map(_identity_of_items, x)) if kind in (tuple, list) else identity(x)


def bytes_text(n_bytes: float) -> str:
    """A number of bytes with three significant digits and a unit.

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

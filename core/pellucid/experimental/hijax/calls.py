"""Calls with arguments that change in place: the function gets copies, and their final states come back with its results."""

from __future__ import annotations

import dataclasses
import functools
import weakref
from collections.abc import Callable
from typing import Any

from pellucid._machine.base.tree import register_pytree_node, tree_map
from pellucid._machine.base.typing import Function, Keywords
from pellucid._machine.higher_order.jitted import Jitted, callable_of
from pellucid._machine.higher_order.stages import eval_shape
from pellucid._machine.ir import Operands
from pellucid._machine.xla.pytree import library_types

from . import mutable
from .types import raise_value


class Carried:
    """A library's value as argument or result of a program: its type, its state and its arrays."""

    __slots__ = ("hi_type", "state", "arrays")

    def __init__(self, hi_type: Any, state: Any, arrays: list[Any]) -> None:
        self.hi_type, self.state, self.arrays = hi_type, state, arrays

    def value(self) -> Any:
        """A new value of the current trace."""
        if not mutable.is_mutable_type(self.hi_type):
            return raise_value(self.hi_type, self.arrays)
        value = self.hi_type.new_from_loval(self.state, *self.arrays)
        mutable.hold(value)
        return value


@dataclasses.dataclass(frozen=True)
class Repeated:
    """Placeholder for a value that is number `position` of the library's values among the arguments."""

    position: int


def _rebuild_carried(static: Any, arrays: Any) -> Carried:
    return Carried(static[0], static[1], [*arrays])


def _repeat_input(position: Any, _: Any) -> Repeated:
    return Repeated(position)


register_pytree_node(
    Carried,
    lambda c: (tuple(c.arrays), (c.hi_type, c.state)),
    _rebuild_carried,
)
register_pytree_node(Repeated, lambda r: ((), r.position), _repeat_input)


def _is_apart(node: Any) -> bool:
    return isinstance(node, (Carried, Repeated))


def carry_value(value: Any) -> Carried:
    """`value` in the form in which it enters a program, under the current trace."""
    hi_type = library_types[type(value)](value)
    if mutable.is_mutable_type(hi_type):
        return Carried(hi_type, *mutable.read(value))
    return Carried(hi_type, None, hi_type.lower_val(value))


def _without_library_values(args: Any, kwargs: Any, static: Any) -> tuple[Any, Any, list[Any]]:
    """Arguments with `Carried` or `Repeated` in place of the library's values, and the list of these values."""
    values: list[Any] = []

    def apart(x: Any) -> Any:
        if type(x) not in library_types:
            return x
        for i, other in enumerate(values):
            if other is x:
                return Repeated(i)
        values.append(x)
        return carry_value(x)

    positions, names = static
    args = tuple([x if i in positions else tree_map(apart, x) for i, x in enumerate(args)])
    kwargs = {k: x if k in names else tree_map(apart, x) for k, x in sorted(kwargs.items())}
    return args, kwargs, values


def _on_copies(function: Function, static: Any) -> Callable[..., Any]:
    """`function` of arguments that were taken apart; it returns the result and, for each value among them, its final
    state if it changes in place, else None.
    """

    @functools.wraps(function, updated=())
    def on_copies(*args: Any, **kwargs: Any) -> Any:
        values: list[Any] = []

        def together(x: Any) -> Any:
            if isinstance(x, Repeated):
                return values[x.position]
            if not isinstance(x, Carried):
                return x
            values.append(x.value())
            return values[-1]

        def join(x: Any) -> Any:
            return tree_map(together, x, is_leaf=_is_apart)

        positions, names = static
        args = tuple([x if i in positions else join(x) for i, x in enumerate(args)])
        kwargs = {k: x if k in names else join(x) for k, x in sorted(kwargs.items())}
        result = function(*args, **kwargs)

        def leaving(x: Any) -> Any:
            if type(x) not in library_types:
                return x
            for i, value in enumerate(values):
                if value is x:
                    return Repeated(i)
            return carry_value(x)

        return tree_map(leaving, result), [
            carry_value(v) if mutable.is_mutable(v) else None for v in values
        ]

    return on_copies


_transformed: weakref.WeakKeyDictionary[Jitted, Any] = weakref.WeakKeyDictionary()
"""Maps each jitted function to the one that takes arguments that were taken apart."""


def call(jitted: Jitted, args: Operands, kwargs: Keywords) -> Any:
    """Result of a jitted function on arguments of which some change in place, and do."""
    spec = jitted.spec
    static = spec.static_nums, spec.static_names
    function = _transformed.get(jitted)
    if function is None:
        on_copies = _on_copies(spec.function, static)
        options = dataclasses.replace(jitted.options, spec=spec._replace(function=on_copies))
        function = _transformed[jitted] = callable_of(Jitted(options), on_copies)
    args, kwargs, values = _without_library_values(args, kwargs, static)
    result, states = function(*args, **kwargs)
    for value, after in zip(values, states, strict=True):
        if after is not None:
            mutable.write(value, after.state, after.arrays)

    def result_value(x: Any) -> Any:
        if isinstance(x, Repeated):
            return values[x.position]
        return x.value() if isinstance(x, Carried) else x

    return tree_map(result_value, result, is_leaf=_is_apart)


def shapes(function: Function, args: Operands, kwargs: Keywords) -> Any:
    """Shapes and dtypes of the result of a function of values that change in place, which stay as they are."""
    args, kwargs, _ = _without_library_values(args, kwargs, ((), ()))
    return eval_shape(_on_copies(function, ((), ())), *args, **kwargs)[0]

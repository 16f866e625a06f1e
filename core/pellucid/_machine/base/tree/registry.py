"""The registry of pytree nodes: built-in containers, classes that users register, and `Partial`."""

import dataclasses
import functools
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any, Self, TypeVar

from pellucid._machine.base.functional import strict_zip
from pellucid._machine.base.typing import Function
from pellucid._machine.xla import DictKey, pytree

from .errors import TreeArgumentError, TreeError

T = TypeVar("T")
Class = TypeVar("Class", bound=type)
Flattened = tuple[Iterable[Any], Hashable]
"""(children, static data) of a node."""
FlattenedWithKeys = tuple[Iterable[tuple[Any, Any]], Hashable]
"""((key, child) pairs, static data) of a node."""


def register_pytree_node(
    nodetype: type[T],
    flatten_func: Callable[[T], Flattened],
    unflatten_func: Callable[[Hashable, Sequence[Any]], T],
    flatten_with_keys_func: Callable[[T], FlattenedWithKeys] | None = None,
) -> None:
    """Make the instances of `nodetype` pytree nodes.

    `flatten_func(node)` returns the children and the static data, which must be hashable and comparable.
    `unflatten_func(static_data, children)` rebuilds the node, and must accept any object as a child.
    `flatten_with_keys_func(node)` returns (key, child) pairs instead of children. Subclasses of `nodetype` aren't
    registered with it.

    Raises: TreeError if the class is registered already, TreeArgumentError if it isn't a class.

    >>> class Interval:
    ...     def __init__(self, low, high):
    ...         self.low, self.high = low, high
    >>> register_pytree_node(Interval, lambda i: ((i.low, i.high), None), lambda _, c: Interval(*c))
    >>> tree_leaves({"x": Interval(1, 2)})
    [1, 2]
    """
    _register(
        "register_pytree_node",
        pytree.register_node,
        nodetype,
        flatten_func,
        unflatten_func,
        flatten_with_keys_func,
    )


def register_pytree_with_keys(
    nodetype: type[T],
    flatten_with_keys: Callable[[T], FlattenedWithKeys],
    unflatten_func: Callable[[Hashable, Sequence[Any]], T],
    flatten_func: Callable[[T], Flattened] | None = None,
) -> None:
    """Make the instances of `nodetype` nodes whose children have names.

    `flatten_with_keys(node)` returns (key, child) pairs and the static data. `flatten_func` returns the children
    without keys; it is only faster.

    >>> class Point:
    ...     def __init__(self, x, y):
    ...         self.x, self.y = x, y
    >>> def flatten_point(point):
    ...     return ((GetAttrKey("x"), point.x), (GetAttrKey("y"), point.y)), None
    >>> register_pytree_with_keys(Point, flatten_point, lambda _, children: Point(*children))
    >>> keystr(tree_leaves_with_path([Point(1, 2)])[1][0])
    '[0].y'
    """

    def flatten_without_keys(node: T) -> Flattened:
        children, static_data = flatten_with_keys(node)
        return [child for _, child in children], static_data

    register_pytree_node(
        nodetype, flatten_func or flatten_without_keys, unflatten_func, flatten_with_keys
    )


def register_pytree_node_class(cls: Class) -> Class:
    """Class decorator: register a class by its methods `tree_flatten` and `tree_unflatten`.

    `tree_flatten(self)` returns the children and the static data; the class method
    `tree_unflatten(static_data, children)` rebuilds the node.

    >>> @register_pytree_node_class
    ... class Pair:
    ...     def __init__(self, *items):
    ...         self.items = items
    ...     def tree_flatten(self):
    ...         return self.items, None
    ...     @classmethod
    ...     def tree_unflatten(cls, static_data, children):
    ...         return cls(*children)
    >>> tree_leaves(Pair(1, 2))
    [1, 2]
    """
    register_pytree_node(cls, cls.tree_flatten, cls.tree_unflatten)  # pyright: ignore[reportUnknownMemberType, reportUnknownArgumentType]  # users' methods
    return cls


def register_pytree_with_keys_class(cls: Class) -> Class:
    """Class decorator: register a class by `tree_flatten_with_keys` and `tree_unflatten`.

    `tree_flatten_with_keys(self)` returns (key, child) pairs and the static data; an optional method `tree_flatten`
    returns the children without keys.

    >>> @register_pytree_with_keys_class
    ... class Named:
    ...     def __init__(self, value):
    ...         self.value = value
    ...     def tree_flatten_with_keys(self):
    ...         return [(GetAttrKey("value"), self.value)], None
    ...     @classmethod
    ...     def tree_unflatten(cls, static_data, children):
    ...         return cls(*children)
    >>> keystr(tree_leaves_with_path(Named(1))[0][0])
    '.value'
    """
    register_pytree_with_keys(
        cls,
        cls.tree_flatten_with_keys,  # pyright: ignore[reportUnknownMemberType, reportUnknownArgumentType]  # users' methods
        cls.tree_unflatten,  # pyright: ignore[reportUnknownMemberType, reportUnknownArgumentType]
        getattr(cls, "tree_flatten", None),
    )
    return cls


def register_static(cls: Class) -> Class:
    """Class decorator: the instances of `cls` are static data, that is, nodes without leaves.

    They belong to the structure, so `cls` must be hashable and comparable.

    >>> @register_static
    ... class Name(str):
    ...     pass
    >>> tree_leaves((Name("relu"), 3))
    [3]
    """
    register_pytree_node(
        cls, lambda instance: ((), instance), lambda instance, _: instance, lambda i: ((), i)
    )
    return cls


def register_dataclass(
    nodetype: Class,
    data_fields: Sequence[str] | None = None,
    meta_fields: Sequence[str] | None = None,
    drop_fields: Sequence[str] = (),
) -> Class:
    """Make the instances of a dataclass nodes with the children `data_fields`.

    `meta_fields` are the static data. Without both, all fields are children except those declared with `static`.
    `drop_fields` are neither, so they must have defaults. A class that isn't a dataclass needs both lists, and a
    constructor that accepts the fields by keyword.

    Raises: TreeArgumentError for one list without the other; TreeError for fields that are missing, unknown or in both
    lists, and for a class that is registered already.

    >>> @register_dataclass
    ... @dataclasses.dataclass
    ... class Layer:
    ...     weight: float
    ...     activation: str = static(default="relu")
    >>> tree_flatten(Layer(2.0))
    ([2.0], PyTreeDef(CustomNode(Layer[('relu',)], [*])))
    """
    if (data_fields is None) != (meta_fields is None):
        raise TreeArgumentError(
            "register_dataclass: one of data_fields and meta_fields is missing.",
            got=f"data_fields={data_fields}, meta_fields={meta_fields}",
            do="Give both, or neither and mark the static fields with `jax.tree.static`.",
        )
    is_dataclass = dataclasses.is_dataclass(nodetype)
    if data_fields is None or meta_fields is None:
        if not is_dataclass:
            raise TreeArgumentError(
                f"register_dataclass: {nodetype.__qualname__} isn't a dataclass.",  # pyright: ignore[reportUnknownMemberType]  # of any parameters
                do="Decorate it with `dataclasses.dataclass`, or give its data_fields and"
                " meta_fields.",
            )
        fields = [f for f in dataclasses.fields(nodetype) if f.name not in drop_fields]
        data_fields = [f.name for f in fields if not f.metadata.get("static", False)]
        meta_fields = [f.name for f in fields if f.metadata.get("static", False)]
    if is_dataclass:
        _require_all_fields(nodetype, {*data_fields}, {*meta_fields}, {*drop_fields})
    elif both := sorted({*data_fields} & {*meta_fields}):
        raise _wrong_fields(nodetype, [f"in data_fields and in meta_fields: {', '.join(both)}"])  # pyright: ignore[reportUnknownArgumentType]  # of any parameters
    _register(
        "register_dataclass",
        pytree.register_dataclass_node,
        nodetype,
        list(data_fields),
        list(meta_fields),
    )
    return nodetype


def static(**kwargs: Any) -> Any:
    """A dataclass field that `register_dataclass` treats as static data.

    The arguments are those of `dataclasses.field`.

    >>> static(default=3).metadata["static"]
    True
    """
    metadata: dict[Any, Any] = {"static": True, **(kwargs.pop("metadata", None) or {})}
    return dataclasses.field(metadata=metadata, **kwargs)


def is_tree_node(typ: type) -> bool:
    """Whether instances of the class `typ` are nodes, not leaves. Named tuples are.

    >>> is_tree_node(dict), is_tree_node(int)
    (True, False)
    """
    return pytree.is_registered(typ)


def flatten_one_level(tree: Any) -> tuple[Iterable[Any], Any]:
    """Children and static data of the root of `tree`.

    Raises: TreeError if it is a leaf.

    >>> flatten_one_level({"a": 1, "b": [2]})
    ((1, [2]), ('a', 'b'))
    """
    return _node("flatten_one_level", pytree.flatten_one_level(tree), tree)


def flatten_one_level_with_keys(tree: Any) -> tuple[Iterable[tuple[Any, Any]], Any]:
    """(key, child) pairs and static data of the root of `tree`.

    Raises: TreeError if it is a leaf.

    >>> list(flatten_one_level_with_keys([1])[0])
    [(SequenceKey(idx=0), 1)]
    """
    return _node("flatten_one_level_with_keys", pytree.flatten_one_level_with_keys(tree), tree)


def _node(caller: str, node: tuple[Any, Any] | None, tree: object) -> tuple[Any, Any]:
    if node is None:
        raise TreeError(
            f"{caller}: can't take a leaf apart.",
            got=type(tree).__qualname__,
            do="If it should be a node, register its class with `register_pytree_node`.",
        )
    return node


def _register(caller: str, register: Function, nodetype: object, *parts: Any) -> None:
    if not isinstance(nodetype, type):
        raise TreeArgumentError(
            f"{caller}: the node type must be a class.", got=type(nodetype).__qualname__
        )
    try:
        register(nodetype, *parts)
    except ValueError as error:
        raise TreeError(
            f"{caller}: {nodetype.__module__}.{nodetype.__qualname__} is registered already.",
            do="Register each class once.",
        ) from error


def _require_all_fields(nodetype: type, data: set[str], meta: set[str], dropped: set[str]) -> None:
    arguments = {f.name for f in dataclasses.fields(nodetype) if f.init}
    problems = {
        "in data_fields and in meta_fields": data & meta,
        "in none of data_fields, meta_fields and drop_fields": arguments - data - meta - dropped,
        "not an argument of the constructor": (data | meta) - arguments,
    }
    lines = [f"{what}: {', '.join(sorted(names))}" for what, names in problems.items() if names]
    if lines:
        raise _wrong_fields(nodetype, lines)


def _wrong_fields(nodetype: type, lines: list[str]) -> TreeError:
    return TreeError(
        f"register_dataclass: the fields of {nodetype.__qualname__} don't add up.",
        got=lines,
        do="Name each field of the constructor once.",
    )


def _flatten_defaultdict(
    node: defaultdict[Any, Any],
) -> tuple[list[Any], tuple[Callable[[], Any] | None, tuple[Any, ...]]]:
    keys = tuple(sorted(node))
    return [node[key] for key in keys], (node.default_factory, keys)


pytree.register_node(
    defaultdict,
    _flatten_defaultdict,
    lambda data, values: defaultdict(data[0], strict_zip(data[1], values)),
    lambda node: (
        [(DictKey(key), node[key]) for key in sorted(node)],
        _flatten_defaultdict(node)[1],
    ),
)
pytree.register_node(
    OrderedDict,
    lambda node: (list(node.values()), tuple(node)),
    lambda keys, values: OrderedDict(strict_zip(keys, values)),
    lambda node: ([(DictKey(key), value) for key, value in node.items()], tuple(node)),
)


class Partial(functools.partial[Any]):
    """`functools.partial` as a node of trees: the arguments are children, the function is static.

    So it may be passed to, and returned from, transformed functions. Functions are compared with `==`. A function that
    is a `functools.partial` or a `Partial` itself stays whole: its arguments belong to the function, not to the
    children.

    >>> tree_leaves(Partial(max, 1, 2))
    [1, 2]
    >>> tree_map(lambda x: x + 10, Partial(pow, 2))(2)
    144
    """

    def __new__(cls, func: Function, /, *args: Any, **kw: Any) -> Self:
        # functools.partial would merge the arguments of an inner partial.
        if isinstance(func, functools.partial):
            func = _Whole(func)  # pyright: ignore[reportUnknownArgumentType]  # of any result
        return super().__new__(cls, func, *args, **kw)


@dataclasses.dataclass(repr=False, unsafe_hash=True)
class _Whole:
    """Wraps a partial function so that it isn't merged into the one around it."""

    function: functools.partial[Any]

    def __post_init__(self) -> None:
        functools.update_wrapper(self, self.function)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.function(*args, **kwargs)

    def __repr__(self) -> str:
        return repr(self.function)


register_pytree_node(
    Partial,
    lambda partial: ((partial.args, partial.keywords), partial.func),
    lambda func, children: Partial(func, *children[0], **children[1]),  # pyright: ignore[reportArgumentType]
)

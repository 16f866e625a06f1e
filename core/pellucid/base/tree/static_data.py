"""Static data of nodes: they are compared whenever two structures are."""

from pellucid.xla.pytree import PyTreeDef

from .differences import child_keys
from .errors import StaticDataError
from .paths import KeyPath, shown_path


def require_comparable(treedef: PyTreeDef, *, caller: str, name: str = "tree") -> None:
    """Raise StaticDataError if the static data of some node of `treedef` has no usable `==`.

    Such a structure can't be the key of a cache. `caller` and `name` are what the error calls
    the function and the tree.

    >>> require_comparable(tree_structure({"a": 1}), caller="jit")
    """
    _visit(treedef, (), caller, name)


def _visit(treedef: PyTreeDef, path: KeyPath, caller: str, name: str) -> None:
    node = treedef.node_data()
    if node is None:
        return
    kind, data = node
    try:
        _compare(data)
    except Exception as error:  # `==` of the user's class
        raise StaticDataError(
            f"{caller}: the static data of a {kind.__qualname__} can't be compared.",
            got=f"{shown_path(name, path)}: static data of type {_type_text(data)}",
            do="Make arrays children of the node; static data are part of the program.",
        ) from error
    children = treedef.children()
    if children:
        for key, child in zip(child_keys(treedef), children, strict=True):
            _visit(child, (*path, key), caller, name)


def _compare(data) -> None:
    """Compare `data` as another object with the same content would be compared with it."""
    if isinstance(data, dict):
        data = list(data.values())
    if isinstance(data, (tuple, list)):  # which take an item for equal to itself unasked
        for item in data:
            _compare(item)
    else:
        bool(data == data)  # noqa: PLR0124


def _type_text(data) -> str:
    if isinstance(data, tuple):
        return f"tuple of {', '.join(_type_text(item) for item in data)}"
    return type(data).__qualname__

"""`in_shardings` and `out_shardings` of jit, resolved to one sharding per array."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from pellucid._machine.base import ArgumentValueError, broadcast_prefix_to, is_none, strict_zip
from pellucid._machine.ir import Avals, ClosedJaxpr, Jaxpr, Operands, Results, Values, aval_at
from pellucid._machine.primitives.reshard import reshard
from pellucid._machine.primitives.sharding_constraint import constrain_leaf
from pellucid._machine.sharding import PartitionSpec, mesh_context
from pellucid._machine.sharding.errors import PartitionSpecError
from pellucid._machine.sharding.layout import AutoLayout, Layout
from pellucid._machine.sharding.partition_spec import UNCONSTRAINED
from pellucid._machine.sharding.stated import check_fits, stated_layout, stated_sharding
from pellucid._machine.tracing import replay, stage_with_constants
from pellucid._machine.xla import flatten

Placements = tuple[Any, ...] | None
"""For each array a sharding, or None if unspecified; None if all are unspecified."""


Layouts = tuple[Layout | AutoLayout | None, ...] | None
"""For each array a layout, or None for the default; None if all are default."""


class WholeOverEnteredMesh:
    """Placement of an array replicated over the mesh of `with mesh:`; unspecified without one."""

    def __repr__(self) -> str:
        return "None"


WHOLE_OVER_ENTERED_MESH = WholeOverEnteredMesh()


class Stated(NamedTuple):
    """A tree of placements given by the user, in hashable form."""

    leaves: Operands
    tree: Any


def hashable_placements(placements: Any) -> Stated | None:
    """The placements given by the user in hashable form; None for None."""
    if placements is None:
        return None
    leaves, tree = flatten(placements, is_none)
    return Stated(tuple(leaves), tree)


def for_arguments(what: Stated | None, function: str, call: Any, names: Any) -> Placements:
    """The placement of each traced argument of a call; `names()` returns their names for messages.

    Raises: ArgumentValueError for keyword arguments, of which `in_shardings` say nothing; TreeStructureError
    where they are no prefix of the positional arguments; ShardingError where one does not fit its argument.
    """
    if what is None or _says_nothing(what):
        return None
    positional, keywords = call.tree.children()
    if keywords.num_leaves:
        raise ArgumentValueError(
            f"`{function}`: in_shardings place positional arguments only, but it got keyword arguments.",
            got=f"keywords: {', '.join(map(str, keywords.node_data()[1]))}",
            do="Pass them by position.",
        )
    return _placements(what, positional, "in_shardings", function, call.avals, names)


def for_results(what: Stated | None, function: str, tree: Any, avals: Avals) -> Placements:
    """The placement of each result of a function.

    Raises: TreeStructureError where `out_shardings` are no prefix of the results; ShardingError where one does
    not fit its result.
    """
    if what is None:
        return None

    def names() -> Sequence[str]:
        return [f"result {i}" if len(avals) > 1 else "the result" for i in range(len(avals))]

    return _placements(what, tree, "out_shardings", function, avals, names)


def layouts(what: Stated | None, tree: Any, avals: Avals) -> Layouts:
    """The memory layouts requested by the user for the arrays of a tree with types `avals`.

    Raises: LayoutError for an order of another number of dimensions.
    """
    if what is None or not any(stated_layout(leaf) is not None for leaf in what.leaves):
        return None
    leaves = broadcast_prefix_to(
        what.tree.unflatten(what.leaves), tree, is_none, caller="jit", name="values"
    )
    array_layouts = tuple(map(stated_layout, leaves))
    for layout, aval in strict_zip(array_layouts, avals):
        if isinstance(layout, Layout):
            layout.check_compatible_aval(aval.shape)
    return array_layouts


def _says_nothing(what: Stated) -> bool:
    return mesh_context.entered.value is None and all(
        leaf is None or leaf is WHOLE_OVER_ENTERED_MESH for leaf in what.leaves
    )


def _placements(
    what: Stated, tree, argument: str, function: str, avals: Avals, names
) -> Placements:
    caller = f"`{function}`: {argument}"
    prefix = what.tree.unflatten(what.leaves)
    name = "arguments" if argument == "in_shardings" else "results"
    leaves = broadcast_prefix_to(prefix, tree, is_none, caller=caller, name=name)
    shardings: dict[Any, Any] = {}
    for leaf in leaves:
        if id(leaf) not in shardings:
            place = leaf
            if leaf is WHOLE_OVER_ENTERED_MESH:
                place = None if mesh_context.entered.value is None else PartitionSpec()
            shardings[id(leaf)] = stated_sharding(caller, place, with_layout=True)
    placements = tuple(shardings[id(leaf)] for leaf in leaves)
    for i, (sharding, aval) in enumerate(strict_zip(placements, avals)):
        if sharding is None:
            continue
        if UNCONSTRAINED in getattr(getattr(sharding, "spec", None), "partitions", ()):
            raise PartitionSpecError(
                f"{caller} can't leave single dimensions to the compiler.",
                got=f"{names()[i]}: {sharding.spec!r}",
                do="Write None for the whole array, or use `with_sharding_constraint` inside.",
            )
        check_fits(caller, names()[i], sharding, aval.shape)
    return placements if any(s is not None for s in placements) else None


def placed_types(placements: Placements, avals: Avals) -> Results:
    """Types of arguments of types `avals` after placing them, which show Explicit mesh axes."""
    if placements is None:
        return avals
    return [a if s is None else _type_at(a, s) for a, s in strict_zip(avals, placements)]


def _type_at(aval, sharding):
    placed = aval_at(aval, sharding)
    if getattr(getattr(sharding, "mesh", None), "explicit_axes", ()):
        return placed
    # The placement doesn't affect the type: the argument keeps the sharding in its type.
    return placed.update(shown_sharding=aval.shown_sharding)


def with_constraints(
    jaxpr: Jaxpr, avals: Avals, arguments: Placements, results: Placements
) -> ClosedJaxpr:
    """The program for calls within other programs, with arguments of types `avals`: placements become constraints."""

    def body(*operands):
        return _each(results, replay(jaxpr, (), *_each(arguments, operands)))

    return stage_with_constants(body, avals, jaxpr.debug)


def _each(placements: Placements, values: Operands) -> Values:
    if placements is None:
        return list(values)
    return [x if s is None else _place(x, s) for x, s in strict_zip(values, placements)]


def _place(x, sharding):
    """`x` placed by `sharding`: its type changes over Explicit mesh axes; over others it is constrained."""
    if getattr(sharding, "mesh", None) is not None and sharding.mesh.are_all_axes_explicit:
        return reshard(x, sharding)
    return constrain_leaf(x, sharding)

"""Constraints on the order of elements in memory: `with_layout_constraint`."""

from __future__ import annotations

from typing import Any, NamedTuple

from pellucid._machine.base import (
    ArgumentTypeError,
    tree_map,
)
from pellucid._machine.ir import (
    Runs,
    element_shape,
)
from pellucid._machine.sharding.layout import Format, Layout
from pellucid._machine.tracing import bind, bind1, bottom, type_of
from pellucid._machine.xla import ArrayImpl

from .movement import Identity
from .placement import device_put


class LayoutConstraintParams(NamedTuple):
    layout: Layout


class LayoutConstraint(Runs, Identity[LayoutConstraintParams]):
    """Returns its operand, stored in the stated memory layout."""

    name = "layout_constraint"

    def abstract_eval(self, avals, params):
        params.layout.check_compatible_aval(avals[0].shape)
        return avals

    def run(self, operands, params):
        self.abstract_eval(tuple(map(type_of, operands)), params)
        [x] = operands
        array = x if isinstance(x, ArrayImpl) else bottom().from_host(x)
        return [device_put(array, Format(params.layout, array.sharding))]

    def batch(self, axis, operands, dims, params):
        [dim] = dims
        if dim is None:
            return bind(self, *operands, params=params), dims
        # Batch elements are stored one after the other, each in the stated layout.
        order = [d + (d >= dim) for d in params.layout.major_to_minor]
        layout = params.layout.update(major_to_minor=(dim, *order))
        return bind(self, *operands, params=LayoutConstraintParams(layout)), dims

    def lower(self, ctx, operands, params):
        [aval] = ctx.avals_in
        words = range(aval.ndim, aval.ndim + len(element_shape(aval)))
        order = [*params.layout.major_to_minor, *words][::-1]
        layouts = ctx.attribute(f"[dense<{order}> : tensor<{len(order)}xindex>]")
        attributes = {
            "call_target_name": "LayoutConstraint",
            "api_version": ctx.integer(1, 32),
            "operand_layouts": layouts,
            "result_layouts": layouts,
        }
        return [ctx.op1("stablehlo.custom_call", aval, operands, attributes)]


layout_constraint_p = LayoutConstraint()


def with_layout_constraint(x: Any, layouts: Any) -> Any:
    """`x`, a tree of arrays, with the memory layouts `layouts`, a tree of `Layout`.

    In a program the compiler brings a value into this order at this point; outside of one it is moved at once.

    Raises: LayoutError for a layout of another rank; ArgumentTypeError for what is no `Layout`.

    >>> x = with_layout_constraint(np.ones((2, 3), np.float32), Layout((1, 0)))
    >>> x.format.layout.major_to_minor
    (1, 0)
    """

    def constrain(leaf, layout):
        if not isinstance(layout, Layout):
            raise ArgumentTypeError(
                "with_layout_constraint needs a `Layout` for each array.",
                got=f"{type(layout).__name__} ({layout!r:.60})",
                do="Write `Layout(major_to_minor)`; of a `Format`, pass its `layout`.",
            )
        return bind1(layout_constraint_p, leaf, params=LayoutConstraintParams(layout))

    return tree_map(constrain, x, layouts)

"""Batching rules under the names of `jax.interpreters.batching`.

A rule is `rule(operands, dims, **params)` and returns (result, dim), or with `multiple_results` lists of both. A dim is
the position of the batch axis, or None where a value has none.
"""

from __future__ import annotations

from typing import Any

from pellucid._machine.base.errors import ArgumentTypeError, UnsupportedError
from pellucid._machine.base.functional import strict_zip
from pellucid._machine.base.typing import Function
from pellucid._machine.ir.primitive import Primitive, params_of
from pellucid._machine.ir.rules import BatchAxis, BatchDim
from pellucid._machine.primitives.movement import aligned_for_batch, brought_to
from pellucid._machine.tracing.operands import type_of
from pellucid._machine.transforms import vmappable
from pellucid.interpreters.tables import RuleTable, checked_list
from pellucid.interpreters.user_primitive import as_list, from_list


def _adapt_rule(primitive: Primitive[Any], rule: Function) -> Function:
    def batch(axis: BatchAxis, operands: Any, dims: Any, params: Any) -> Any:
        both = rule(axis, operands, dims, **params._asdict())
        result, dim = checked_list(primitive, "batch", both, 2)
        results = as_list(primitive, result, "batch rule")
        out_dims = checked_list(
            primitive, "batch", as_list(primitive, dim, "batch rule"), len(results)
        )
        for x, out_dim in strict_zip(results, out_dims):
            if out_dim is not None and (
                not isinstance(out_dim, int) or not 0 <= out_dim < type_of(x).ndim
                or type_of(x).shape[out_dim] != axis.size
            ):  # fmt: skip
                raise ArgumentTypeError(
                    f"the batch rule of `{primitive.name}` returned a dim that is no batch axis of its result.",
                    got=f"dim {out_dim!r} of {type_of(x).text()}, for a batch of {axis.size}",
                )
        return results, out_dims

    return batch


def _rule_with_axis(primitive: Primitive[Any], batch: Function) -> Function:
    def rule(axis: BatchAxis, operands: Any, dims: Any, **params: Any) -> Any:
        results, out_dims = batch(axis, tuple(operands), tuple(dims), params_of(primitive, params))
        return from_list(primitive, results), from_list(primitive, out_dims)

    return rule


def _axis_of(operands: Any, dims: Any) -> BatchAxis:
    return BatchAxis(
        next(type_of(x).shape[d] for x, d in strict_zip(operands, dims) if d is not None)
    )


def _adapted_without_axis(primitive: Primitive[Any], rule: Function) -> Function:
    return _adapt_rule(
        primitive, lambda axis, operands, dims, **params: rule(operands, dims, **params)
    )


def _stated_without_axis(primitive: Primitive[Any], batch: Function) -> Function:
    rule = _rule_with_axis(primitive, batch)
    return lambda operands, dims, **params: rule(_axis_of(operands, dims), operands, dims, **params)


fancy_primitive_batchers = RuleTable("batch", _adapt_rule, _rule_with_axis)
"""Rules that take the axis, too: `rule(axis, operands, dims, **params)`; it has `size`, `name` and `spmd_name`."""
primitive_batchers = RuleTable("batch", _adapted_without_axis, _stated_without_axis)
"""The batching rules of all primitives."""


class AxisRules:
    """Registers rules in the older form `rule(size, name, None, operands, dims, **params)`; nothing can be read."""

    def __setitem__(self, primitive: Primitive[Any], rule: Function) -> None:
        fancy_primitive_batchers[primitive] = lambda axis, operands, dims, **params: rule(
            axis.size, axis.name, None, operands, dims, **params
        )


axis_primitive_batchers = AxisRules()
"""Rules that take the size and the name of the axis."""


def _repeat_dims(primitive: Primitive[Any], dim: int, results: Any) -> Any:
    return results, [dim] * len(results) if primitive.multiple_results else dim


def defvectorized(prim: Primitive[Any]) -> None:
    """State that `prim` applied to a batch, along one axis of all operands, computes all of its elements.

    Operands without the axis, or with it elsewhere, are repeated or turned so that it is in front.

    >>> from pellucid.extend.core import Primitive
    >>> p = Primitive("doubled")
    >>> _ = p.def_impl(lambda x: 2 * x)
    >>> defvectorized(p)
    >>> pl.vmap(p.bind)(np.arange(3))
    array([0, 2, 4], dtype=int32)
    """

    def rule(axis: BatchAxis, operands: Any, dims: Any, **params: Any) -> Any:
        dim = dims[0] if len(set(dims)) == 1 else 0
        operands = [brought_to(axis, x, d, dim) for x, d in strict_zip(operands, dims)]
        return _repeat_dims(prim, dim, prim.bind(*operands, **params))

    fancy_primitive_batchers[prim] = rule


def defreducer(prim: Primitive[Any]) -> None:
    """State that `prim` takes one operand and removes its dimensions `axes`, a param, so that a batch is one more dimension.

    >>> from pellucid.extend.core import Primitive
    >>> p = Primitive("total")
    >>> _ = p.def_impl(lambda x, axes: np.sum(x, axes))
    >>> defreducer(p)
    >>> pl.vmap(lambda x: p.bind(x, axes=(0,)), in_axes=1)(np.ones((2, 3)))
    array([2., 2., 2.], dtype=float32)
    """

    def rule(axis: BatchAxis, operands: Any, dims: Any, *, axes: Any, **params: Any) -> Any:
        (x,), (dim,) = operands, dims
        if dim is None:
            return prim.bind(x, axes=axes, **params), None
        moved = tuple([a + (a >= dim) for a in axes])
        out_dim = dim - sum(a < dim for a in moved)
        if "input_shape" in params:
            params["input_shape"] = type_of(x).shape
        if params.get("out_sharding") is not None:
            raise UnsupportedError(
                f"`{prim.name}` can't be batched by defreducer with an `out_sharding`.",
                do=f"Register a rule: `batching.fancy_primitive_batchers[{prim.name}_p] = rule`.",
            )
        return prim.bind(x, axes=moved, **params), out_dim

    fancy_primitive_batchers[prim] = rule


def register_vmappable(
    data_type: type,
    spec_type: type,
    axis_size_type: type,
    to_elt: Function,
    from_elt: Function,
    make_iota: Function | None,
) -> None:
    """Let `vmap` take containers of class `data_type` apart by functions; axes in `in_axes` may be a `spec_type` for them.

    `to_elt(element_of, index, container, spec)` returns one element of the batch from arrays by `element_of(array, axis)`
    and from its position, `index()`. `from_elt(stacked, axis_size, element, spec)` returns a container from a result of
    this class, by `stacked(axis_size, array, axis)`. A container has no size of its own: `axis_size` or another
    argument has it; `make_iota(axis_size)` are the positions where a size is an `axis_size_type`.

    Raises: ArgumentTypeError for classes that are none, and for what isn't callable.

    >>> from typing import Any, NamedTuple
    >>> class Rows(NamedTuple):
    ...     table: Any
    >>> class Along:
    ...     def __init__(self, axis):
    ...         self.axis = axis
    >>> register_vmappable(
    ...     Rows, Along, int,
    ...     lambda element_of, index, rows, along: element_of(rows.table, along.axis),
    ...     lambda stacked, axis_size, row, along: stacked(axis_size, row, along.axis),
    ...     None,
    ... )
    >>> pl.vmap(lambda row: row.sum(), in_axes=Along(0), axis_size=2)(Rows(np.ones((2, 3))))
    Array([3., 3.], dtype=float32)
    >>> unregister_vmappable(Rows)
    """
    classes = {"data_type": data_type, "spec_type": spec_type, "axis_size_type": axis_size_type}
    for name, value in classes.items():
        if not isinstance(value, type):
            raise ArgumentTypeError(
                f"register_vmappable: {name} must be a class.", got=f"got {value!r:.80}"
            )
    for function in (to_elt, from_elt, make_iota):
        if function is not None and not callable(function):
            raise ArgumentTypeError(
                "register_vmappable needs functions that take a container apart and put it together.",
                got=f"got {function!r:.80}",
            )
    vmappable.registered[data_type] = vmappable.Vmappable(to_elt, from_elt)
    vmappable.spec_types.add(spec_type)
    if make_iota is not None:
        vmappable.iotas[axis_size_type] = make_iota


def unregister_vmappable(data_type: type) -> None:
    """Remove the registration of `data_type` by `register_vmappable`, if there is one.

    >>> unregister_vmappable(dict)
    """
    vmappable.registered.pop(data_type, None)


def defbroadcasting(prim: Primitive[Any]) -> None:
    """State that `prim` works elementwise, and broadcasts dimensions of size 1.

    Operands with a batch axis get it in front, the others one of size 1, unless they are scalars.

    >>> from pellucid.extend.core import Primitive
    >>> p = Primitive("summed")
    >>> _ = p.def_impl(lambda x, y: x + y)
    >>> defbroadcasting(p)
    >>> pl.vmap(p.bind, (0, None))(np.arange(3), 10)
    array([10, 11, 12], dtype=int32)
    """

    def rule(axis: BatchAxis, operands: Any, dims: Any, **params: Any) -> Any:
        aligned, dim = aligned_for_batch(axis, operands, dims)
        return _repeat_dims(prim, dim, prim.bind(*aligned, **params))

    fancy_primitive_batchers[prim] = rule


def bdim_at_front(x: Any, bdim: BatchDim, size: int) -> Any:
    """`x` with its batch axis in front; repeated `size` times if it has none.

    >>> bdim_at_front(np.ones((3, 2)), 1, 2).shape, bdim_at_front(np.ones(3), None, 2).shape
    ((2, 3), (2, 3))
    """
    return brought_to(BatchAxis(size), x, bdim, 0)


def broadcast(x: Any, sz: int, axis: int) -> Any:
    """`x` repeated `sz` times along a new `axis`.

    >>> broadcast(np.ones(3), 2, 1).shape
    (3, 2)
    """
    return brought_to(BatchAxis(sz), x, None, axis)


__all__ = [
    "axis_primitive_batchers", "bdim_at_front", "broadcast", "defbroadcasting", "defreducer",
    "defvectorized", "fancy_primitive_batchers", "primitive_batchers", "register_vmappable", "unregister_vmappable",
]  # fmt: skip

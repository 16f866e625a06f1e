"""Batching: runs a function once for a whole axis of inputs."""

# Tracers and their traces share attributes with private names.
# pyright: reportPrivateUsage=false

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pellucid._machine.base import (
    ArgumentTypeError,
    ArgumentValueError,
    Function,
    Keywords,
    broadcast_prefix,
    broadcast_prefix_to,
    config,
    is_none,
    leaf_paths,
    shown_path,
    strict_zip,
    tree_leaves,
    tree_map,
)
from pellucid._machine.base.narrowing import is_list, is_tuple
from pellucid._machine.ir import (
    BatchAxis,
    BatchDim,
    Dims,
    HigherOrderPrimitive,
    Jaxpr,
    Mask,
    Operands,
    Primitive,
    Values,
    accum_effect,
    axis_names,
    is_always_transformed,
)
from pellucid._machine.primitives import (
    ReshardParams,
    aligned_at,
    brought_to,
    iota,
    reduce_sum,
    reshard_p,
)
from pellucid._machine.sharding import NamedSharding, PartitionSpec
from pellucid._machine.tracing import (
    StagingTracer,
    Trace,
    Tracer,
    bind1,
    bound_axes,
    check_distinct,
    check_no_leaks,
    context,
    is_reference,
    name_of,
    named_call,
    plumbing,
    replay,
    type_of,
    types_of,
    use_trace,
    use_transformation,
)
from pellucid._machine.xla import PyTreeDef, flatten

from . import vmappable
from .arguments import argument_paths, check_callable, checked_leaves, result_leaves, wraps
from .derived import Derived, derivation, flag_list, stage_open
from .jvp import JVPTracer
from .vmappable import Whole


def batch_flat(
    function: Callable[..., Sequence[Any]],
    axis: BatchAxis,
    operands: Operands,
    dims: Dims,
    tag: object = None,
    users: Function | None = None,
    lanes: Lanes | None = None,
) -> tuple[Values, list[BatchDim]]:
    """(results of a function of flat values on a batch of inputs, their batch axes).

    With `tag`, the tag of another BatchTrace, the function may capture batched values of that trace. `users` is the
    user's function called by `function`, if it may keep its batched values. `lanes` records the batch dimensions.
    """
    trace = BatchTrace(context.trace, axis, tag, lanes)
    arguments = trace.joined(operands, dims)
    # With the name bound, collectives in the function find the batch axis and its size.
    names = {} if axis.name is None else {axis.name: axis.size}
    try:
        with use_trace(trace), bound_axes(names):
            results = function(*arguments)
    finally:
        trace.alive = False
    split = [trace.split(x) for x in results]
    if users is not None and config.check_tracer_leaks.value:
        # Drop our own references to tracers, which would count as leaks.
        del arguments, results
        check_no_leaks(trace, name_of(users))
    return [x for x, _ in split], [d for _, d in split]


class Lanes:
    """The batch dimensions of values batched by a `vmap`, by variable of the program staged meanwhile."""

    __slots__ = ("axis", "dims", "unbatched")

    def __init__(self, axis: BatchAxis, unbatched: Jaxpr | None = None) -> None:
        self.axis = axis
        self.dims: dict[Any, int] = {}
        """Counted without the dimensions of outer batches."""
        self.unbatched = unbatched
        """The program of one element, if a program is batched."""

    # Equal if the axes are: instances are in name stacks, and repeated layers are found by equal name stacks.
    def __eq__(self, other: object) -> bool:
        return type(other) is Lanes and other.axis == self.axis

    def __hash__(self) -> int:
        return hash(self.axis)

    def note(self, values: Operands, dims: Dims) -> None:
        """Records the batch dimensions of values computed by the program, unless already recorded."""
        noted = self.dims
        for x, dim in strict_zip(values, dims):
            if dim is not None:
                # Tracers of vmap and jvp wrap the value that the program computes.
                if type(x) is not StagingTracer:
                    x = _innermost(x)
                if x is not None and x.variable not in noted:
                    noted[x.variable] = dim


def _innermost(x: Any) -> StagingTracer | None:
    """The value of the staged program inside tracers of transformations; None for a known value."""
    while type(x) is BatchTracer or type(x) is JVPTracer:
        x = x.value if type(x) is BatchTracer else x.primal
    return x if type(x) is StagingTracer else None


class Container:
    """Base class of pytree nodes whose static data contain batch dimensions of their leaves, such as sparse arrays.

    `vmap` calls `element` on arguments and `stack` on results. `dims` is the node with batch axes as leaves: ints as
    given by the user, or None. The leaves have lost their batch axis when `element` is called, and have it when `stack` is.
    """

    def element(self, dims: Any) -> Any:
        """The node with the static data of one element of the batch."""
        raise NotImplementedError(type(self))

    def stack(self, dims: Any, size: int) -> Any:
        """The node with the static data of the batch of `size` elements."""
        raise NotImplementedError(type(self))


def _with_containers(
    method: Callable[[Container, Any], Any], tree: PyTreeDef, values: Operands, dims: Dims
) -> Any:
    """`tree` of `values`, with `method` applied to each container in it."""
    nodes = tree.unflatten(values)
    if not Container.__subclasses__():
        return nodes

    def change(node: Any, dims: Any) -> Any:
        return method(node, dims) if isinstance(node, Container) else node

    return tree_map(
        change,
        nodes,
        tree.unflatten(dims),
        is_leaf=lambda x: isinstance(x, Container) or x is None,
    )


def vmap(
    fun: Function,
    in_axes: Any = 0,
    out_axes: Any = 0,
    axis_name: Any = None,
    axis_size: int | None = None,
    spmd_axis_name: Any = None,
    sum_match: bool = False,
) -> Function:
    """Returns a function that applies `fun` to all elements of a batch at once.

    `in_axes` gives the batch axis of each argument: an int for all, or a tuple with one entry per positional argument,
    each an int, None (not batched) or a tree of these that is a prefix of the argument. An argument with None may be
    any object. Keyword arguments are batched along axis 0. `out_axes` gives the batch axis of each result in the same
    way; None is for results that are equal for the whole batch or, with `sum_match`, are to be summed over it.
    `axis_name` names the axis for collectives; `axis_size` is needed if no argument has a batch axis; `spmd_axis_name`
    are mesh axes over which the batch is sharded.

    Raises: ArgumentValueError for axes that don't fit the arguments or whose sizes differ (it names each).

    >>> vmap(lambda x, y: x + y, in_axes=(0, None))(np.arange(3), 10)
    Array([10, 11, 12], dtype=int32)
    """
    check_callable(fun, "vmap")
    in_axes = tuple(in_axes) if is_list(in_axes) else in_axes
    _check_axes("in_axes", in_axes)
    _check_axes("out_axes", out_axes)
    if spmd_axis_name is not None and not isinstance(spmd_axis_name, tuple):
        spmd_axis_name = (spmd_axis_name,)

    @wraps(fun, "Batched form")
    def batched_function(*args: Any, **kwargs: Any) -> Any:
        if vmappable.registered:
            args, kwargs = vmappable.with_leaves((args, kwargs))
        leaves, tree = flatten((args, kwargs))
        # One entry per leaf of (args, kwargs) in both lists: the axis as given by the user, None if not batched.
        specs = input_dims("vmap", fun, in_axes, args, kwargs, tree)
        # A container that `vmap` unpacks (`Whole`) has no axis itself: its leaves have.
        in_dims = [None if type(x) is Whole else d for x, d in strict_zip(leaves, specs)]
        leaves = checked_leaves(leaves, "vmap", fun, args, kwargs, [d is None for d in in_dims])
        if any(map(is_reference, leaves)):
            check_distinct("vmap", argument_paths(fun, args), leaves)
        # `dims` are `in_dims` counted from the front.
        size, dims = batch_size("vmap", fun, args, kwargs, leaves, in_dims, axis_size)
        axis = BatchAxis(size, axis_name, spmd_axis_name, _shown_sharding(leaves, dims))
        out_tree: Any = None

        def dims_of_results() -> list[Any]:
            if type(out_axes) is int:
                return [out_axes] * out_tree.num_leaves
            return broadcast_prefix_to(
                out_axes, out_tree, is_none, caller="vmap out_axes", name="result"
            )

        def place(x: Any, dim: BatchDim, out_axis: int | None, i: int) -> Any:
            return _move_batch_axis(fun, axis, x, dim, out_axis, out_tree, i, sum_match)

        def flat(*xs: Any) -> Values:
            nonlocal out_tree
            values: Operands = xs
            if vmappable.registered:
                # Before: containers of the whole batch. After: containers of one element.
                values = _elements(context.trace, xs, specs)
            inner_args, inner_kwargs = _with_containers(
                lambda node, dims: node.element(dims), tree, values, in_dims
            )
            result = named_call(fun, inner_args, inner_kwargs)
            if not vmappable.registered:
                results, out_tree = result_leaves(result, "vmap", fun)
                return results
            results, out_tree = flatten(vmappable.with_leaves(result))
            result_leaves([x for x in results if type(x) is not Whole], "vmap", fun)
            return _stack_containers(context.trace, results, dims_of_results(), place)

        lanes = Lanes(axis)
        with use_transformation("vmap", lanes):
            results, result_dims = batch_flat(flat, axis, leaves, dims, users=fun, lanes=lanes)
        # `result_dims`: current batch axes of the results; `out_dims`: those requested by the user.
        out_dims = dims_of_results()
        with plumbing("vmap"), use_transformation("vmap"):
            placed = [
                x.value if type(x) is Whole else place(x, d, w, i)
                for i, (x, d, w) in enumerate(strict_zip(results, result_dims, out_dims))
            ]
        return _with_containers(
            lambda node, dims: node.stack(dims, size), out_tree, placed, out_dims
        )

    return batched_function


def _elements(trace: Any, leaves: Operands, specs: Sequence[Any]) -> Values:
    """`leaves` with each container that `vmap` unpacks replaced by one element of the batch."""
    # At most one value: the index of each element, created for the first container that needs it.
    positions: list[BatchTracer] = []

    def index() -> Any:
        if not positions:
            size = trace.axis.size
            make = vmappable.iotas.get(type(size))  # pyright: ignore[reportUnknownArgumentType]  # of any size
            values = iota(np.int32, size) if make is None else make(size)
            positions.append(BatchTracer(trace, values, 0))
        return positions[0]

    def element_of(x: Any, spec: Any) -> Any:
        if vmappable.is_registered(x):
            return vmappable.registered[type(x)].to_elt(element_of, index, x, spec)
        ndim = type_of(x).ndim
        if spec is None:
            return x
        if not isinstance(spec, int) or not -ndim <= spec < ndim:
            raise ArgumentValueError(
                "to_elt of a container asked for an element along what is no axis.",
                got=f"axis {spec!r} of {type_of(x).text()}",
            )
        return BatchTracer(trace, x, spec % ndim)

    return [element_of(x.value, s) if type(x) is Whole else x for x, s in strict_zip(leaves, specs)]


def _stack_containers(trace: Any, results: Values, specs: Sequence[Any], place: Function) -> Values:
    """`results` with containers of one element replaced by those of the whole batch."""

    def container(element: Any, spec: Any, i: int) -> Whole:
        def stack_element(axis_size: Any, x: Any, spec: Any) -> Any:
            if vmappable.is_registered(x):
                return vmappable.registered[type(x)].from_elt(stack_element, axis_size, x, spec)
            return place(*trace.split(x), spec, i)

        return Whole(stack_element(trace.axis.size, element, spec))

    return [
        container(x.value, s, i) if type(x) is Whole else x
        for i, (x, s) in enumerate(strict_zip(results, specs))
    ]


def _shown_sharding(leaves: Operands, dims: Dims) -> NamedSharding | None:
    """The sharding of the batch axis, if it is the same in the types of all batched arguments."""
    # Distinct shardings of the batch axis among the batched arguments; None for an unsharded one.
    cuts: set[NamedSharding | None] = set()
    for x, dim in strict_zip(leaves, dims):
        if dim is not None:
            shown = getattr(type_of(x), "shown_sharding", None)
            axes = shown and shown.spec.axes_per_dim[dim]
            cuts.add(shown.with_spec(PartitionSpec(axes)) if shown and axes else None)
    return cuts.pop() if len(cuts) == 1 else None


def _check_axes(what: str, axes: Any) -> None:
    kinds = (int, tuple, *vmappable.spec_types)
    if not (axes is None or isinstance(axes, kinds) or what == "out_axes") or isinstance(
        axes, bool
    ):
        raise ArgumentTypeError(
            f"vmap {what} must be an int, None, or a tuple with one entry for each positional argument.",
            got=f"got {axes!r}",
        )
    bad = [
        x for x in tree_leaves(axes) if type(x) is not int and type(x) not in vmappable.spec_types
    ]
    if bad:
        raise ArgumentTypeError(
            f"vmap {what} must be ints or None, or trees of them.",
            got=f"got {bad[0]!r} in {axes!r}",
        )


def input_dims(
    caller: str, fun: Any, in_axes: Any, args: Operands, kwargs: Keywords, tree: Any
) -> list[BatchDim]:
    """For each leaf of the arguments, its batch axis as given by the user."""
    if is_tuple(in_axes) and len(in_axes) != len(args):
        raise ArgumentValueError(
            f"{caller} in_axes needs one entry for each positional argument.",
            got=f"{len(in_axes)} entries, but `{name_of(fun)}` was called with {len(args)} positional arguments",
            do="Arguments by keyword have no entry: they are always mapped along axis 0. Pass them by position."
            if kwargs
            else None,
        )
    dims = (
        # One axis per leaf of `args`, the first child of `tree`; the leaves of `kwargs` follow with axis 0.
        [in_axes] * tree.children()[0].num_leaves
        if type(in_axes) is int
        else broadcast_prefix(in_axes, args, is_none, caller=f"{caller} in_axes", name="args")
    )
    return dims + [0] * (tree.num_leaves - len(dims))


def batch_size(
    caller: str,
    fun: Any,
    args: Operands,
    kwargs: Keywords,
    leaves: Values,
    dims: list[BatchDim],
    axis_size: int | None,
) -> tuple[int, list[BatchDim]]:
    """(size of the batch, batch axes counted from the front)."""
    distinct: set[Any] = set() if axis_size is None else {axis_size}
    # `distinct`: sizes along the batch axes; `canonical`: axes counted from the front.
    canonical = list(dims)
    for i, (x, dim) in enumerate(strict_zip(leaves, dims)):
        if dim is None:
            continue
        aval = type_of(x)
        if not -aval.ndim <= dim < aval.ndim:
            raise ArgumentValueError(
                f"{caller} was asked to batch along axis {dim} of an argument that has {aval.ndim} dimensions.",
                got=f"{argument_paths(fun, args, kwargs)[i]}: {aval.text()}",
                do="Choose another axis in in_axes, or None for an argument that is the same for the whole batch.",
            )
        canonical[i] = dim % aval.ndim
        distinct.add(aval.shape[dim])
    if len(distinct) == 1:
        return distinct.pop(), canonical
    if not distinct:
        raise ArgumentValueError(
            f"{caller} doesn't know how long the batch is: no argument is batched.",
            got=f"`{name_of(fun)}` was called with {len(leaves)} arrays",
            do="Batch an argument (in_axes), or give axis_size.",
        )
    paths = argument_paths(fun, args, kwargs)
    lines = [f"axis_size: {axis_size}"] if axis_size is not None else []
    lines += [
        f"{path}: {type_of(x).text()} has size {type_of(x).shape[dim]} along axis {dim}"
        for path, x, dim in strict_zip(paths, leaves, dims)
        if dim is not None
    ]
    raise ArgumentValueError(
        f"{caller} got axes of different sizes to batch along.", got=lines[:12],
        do="All batched axes must have one size; give None in in_axes to what is the same for the whole batch.",
    )  # fmt: skip


def _move_batch_axis(
    fun: Function,
    axis: BatchAxis,
    x: Any,
    dim: BatchDim,
    out_axis: int | None,
    out_tree: PyTreeDef,
    index: int,
    sum_match: bool,
) -> Any:
    """A result with its batch axis moved to where `out_axes` specifies."""
    # Rank including the batch axis, which an unbatched result only gets now.
    ndim = type_of(x).ndim + (dim is None)
    if out_axis is None:
        if dim is None:
            return x
        if sum_match:
            return reduce_sum(x, (dim,))
        problem, do = "is batched, but out_axes says None", "Give the axis where it shall be."
    elif not -ndim <= out_axis < ndim:
        problem = f"has {ndim} dimensions with its batch axis, but out_axes says {out_axis}"
        do = f"Choose an axis from {-ndim} to {ndim - 1}."
    else:
        if dim is None:
            # Not batched: broadcast along a new axis 0, which is then moved to its place.
            x, dim = cut_alike(axis, brought_to(axis, x, None, 0), type_of(x)), 0
        return brought_to(axis, x, dim, out_axis % ndim)
    raise ArgumentValueError(
        f"vmap out_axes don't fit the result of `{name_of(fun)}`.",
        got=f"{shown_path('result', leaf_paths(out_tree)[index])} {problem}",
        do=do,
    )


class BatchTracer(Tracer):
    """One element of a batch; `value` contains all elements along axis `dim`."""

    __slots__ = ("dim", "value")
    _trace: BatchTrace

    def __init__(self, trace: BatchTrace, value: Any, dim: int) -> None:
        self._trace = trace
        # The function sees the type of one element.
        self.aval = type_of(value).without_dim(dim)
        self.value = value
        self.dim = dim

    def details(self) -> str:
        return f", batched={type_of(self.value)}"

    def transformed(self) -> Any:
        return self.value

    def batches(self) -> tuple[int, ...]:
        return (type_of(self.value).shape[self.dim], *super().batches())


class BatchTrace(Trace):
    """Applies batching rules. Traces with equal tags batch over the same axis, and accept each other's tracers."""

    __slots__ = ("alive", "axis", "lanes", "parent", "tag")

    def __init__(
        self, parent: Trace, axis: BatchAxis, tag: object = None, lanes: Lanes | None = None
    ) -> None:
        self.parent = parent
        self.axis = axis
        self.lanes = lanes
        self.tag = object() if tag is None else tag
        self.alive = True

    def as_tangent(self, value: Any) -> Any:
        return self.parent.as_tangent(value)

    def split(self, x: Any) -> tuple[Any, BatchDim]:
        """(value, batch dim) of `x`."""
        # Values of other traces are equal for all elements of this batch.
        if type(x) is BatchTracer and (x._trace is self or x._trace.tag is self.tag):
            return x.value, x.dim
        return x, None

    def joined(self, values: Operands, dims: Dims) -> Values:
        """Tracers of values with a batch axis; plain values without one."""
        if self.lanes is not None:
            self.lanes.note(values, dims)
        return [v if d is None else BatchTracer(self, v, d) for v, d in strict_zip(values, dims)]

    def interpret(self, primitive: Primitive, operands: Operands, params: Any) -> Values:
        values, dims = strict_zip(*map(self.split, operands)) if operands else ((), ())
        with use_trace(self.parent):
            # `values` contain all elements of the batch along `dims`; None for values shared by all elements.
            is_batched = any(d is not None for d in dims) or is_always_transformed(primitive)
            is_batched = is_batched or _adds(primitive, values, params)
            name = self.axis.name
            # Without a batched operand one evaluation serves all elements, unless a collective uses the batch axis.
            if not is_batched and (name is None or name not in axis_names(primitive, params)):
                return self.parent.interpret(primitive, values, params)
            results, out_dims = primitive.batch(self.axis, values, dims, params)
        return self.joined(results, out_dims)

    def custom_call(self, call: Any, operands: Operands) -> Values:
        values, dims = strict_zip(*map(self.split, operands)) if operands else ((), ())
        # `out_dims` is empty until the call runs.
        batched, out_dims = call.call_on_batches(self.axis, dims, self.tag)
        with use_trace(self.parent):
            results = self.parent.custom_call(batched, values)
        return self.joined(results, out_dims)


def _adds(primitive: Primitive, operands: Operands, params: Any) -> bool:
    """Whether programs of an equation add to a reference, which would happen for each element of the batch."""
    if not isinstance(primitive, HigherOrderPrimitive):
        return False
    return accum_effect in primitive.effects(types_of(operands), params)


@derivation("batch")
def batch_jaxpr(
    jaxpr: Jaxpr,
    axis: BatchAxis,
    dims: Dims,
    batched_results: bool | Mask = False,
    varying: frozenset[Any] = frozenset(),
) -> Derived:
    """`jaxpr`, which has no constants, on batches; parts of the batch vary over the mesh axes `varying`.

    `mask` has the batch axis of each result: 0, or None if it has none and is not marked in `batched_results`.
    """
    want = flag_list(batched_results, len(jaxpr.outvars))
    # Set while `run` is staged: 0 for each result that is batched or marked by `want`, None for the others.
    out_dims: list[BatchDim] = []
    lanes = Lanes(axis, jaxpr)

    def run(*operands: Any) -> Values:

        def one(*xs: Any) -> Values:
            return replay(jaxpr, (), *xs)

        results, found_dims = batch_flat(one, axis, operands, dims, lanes=lanes)
        out_dims[:] = [0 if w or d is not None else None for w, d in strict_zip(want, found_dims)]
        # Before: batch axes as the rules left them (`found_dims`). After: all at axis 0 (`out_dims`).
        results = aligned_at(axis, results, found_dims, out_dims)
        # Over Explicit mesh axes, each result gets the sharding of the batch and of its element.
        if axis.explicit is None:
            return results
        return [
            x if o is None else cut_alike(axis, x, v.aval)
            for x, o, v in strict_zip(results, out_dims, jaxpr.outvars)
        ]

    # Types of whole batches, with the batch axis at `d`; unchanged if `d` is None.
    avals = [batched_aval(v.aval, axis, d) for v, d in strict_zip(jaxpr.invars, dims)]
    if varying:
        avals = [
            a if d is None else a.update(varying=a.varying | varying)
            for a, d in strict_zip(avals, dims)
        ]
    n = len(jaxpr.invars)
    debug = jaxpr.debug and jaxpr.debug.rearranged(n, range(n))
    program, consts = stage_open(run, avals, debug)
    program.jaxpr.memo["lanes"] = lanes
    return Derived(program, consts, tuple(out_dims))


def cut_alike(axis: BatchAxis, x: Any, element: Any) -> Any:
    """`x`, a batch along axis 0 of values of type `element`, sharded over Explicit mesh axes like the whole batch."""
    shown = getattr(axis.add_to(element, 0), "shown_sharding", None)
    if shown is None or type_of(x).shown_sharding is shown:
        return x
    return bind1(reshard_p, x, params=ReshardParams(shown))


def batched_aval(aval: Any, axis: BatchAxis, dim: BatchDim) -> Any:
    """Type of a batch of values of type `aval`."""
    return aval if dim is None else axis.add_to(aval, dim)

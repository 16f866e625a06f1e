"""Batching: one run of a function for a whole axis of inputs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from pellucid.ir.avals import ShapedArray
from pellucid.ir.jaxpr import ClosedJaxpr, Jaxpr
from pellucid.ir.primitive import Primitive
from pellucid.ir.rules import BatchAxis, BatchDim
from pellucid.primitives.broadcasting import broadcast
from pellucid.primitives.movement import move_axis
from pellucid.tracing.context import bound_axes, context, use_trace
from pellucid.tracing.replay import replay
from pellucid.tracing.staging import stage
from pellucid.tracing.trace import Trace
from pellucid.tracing.tracer import Tracer
from pellucid.tracing.values import type_of


def batch_flat(
    function: Callable[..., Sequence[Any]], axis: BatchAxis, operands: Sequence[Any], dims: Sequence[BatchDim]
) -> tuple[list[Any], list[BatchDim]]:
    """Results of a function of flat values on a batch of inputs, and where their batch axes are."""
    trace = BatchTrace(context.trace, axis)
    arguments = [
        x if dim is None else BatchTracer(trace, x, dim) for x, dim in zip(operands, dims, strict=True)
    ]
    names = {} if axis.name is None else {axis.name: axis.size}
    with use_trace(trace), bound_axes(names):
        results = function(*arguments)
    split = [trace.split(x) for x in results]
    return [x for x, _ in split], [d for _, d in split]


class BatchTracer(Tracer):
    """One element of a batch; `value` holds all of them along axis `dim`."""

    __slots__ = ("dim", "value")

    def __init__(self, trace: BatchTrace, value: Any, dim: int) -> None:
        aval: Any = type_of(value)
        shape = aval.shape
        self.trace = trace
        self.aval = unbatched_aval(aval, shape, dim)
        self.value = value
        self.dim = dim

    def origin(self) -> str | None:
        return self.value.origin() if isinstance(self.value, Tracer) else None


def unbatched_aval(aval: ShapedArray, shape: tuple[int, ...], dim: int) -> ShapedArray:
    """Type of one element of a batch of type `aval`."""
    if aval.sharding is not None:
        return aval.update(shape=(*shape[:dim], *shape[dim + 1 :]), sharding=aval.sharding.without_dim(dim))
    return aval.update(shape=(*shape[:dim], *shape[dim + 1 :]))


class BatchTrace(Trace):
    """Applies batching rules."""

    __slots__ = ("axis", "parent")

    def __init__(self, parent: Trace, axis: BatchAxis) -> None:
        self.parent = parent
        self.axis = axis

    def split(self, x: Any) -> tuple[Any, BatchDim]:
        """(value, batch dim) of `x`."""
        if type(x) is BatchTracer and x.trace is self:
            return x.value, x.dim
        return x, None

    def joined(self, values: Sequence[Any], dims: Sequence[BatchDim]) -> list[Any]:
        """Tracers of values with a batch axis; plain values where there is none."""
        return [v if d is None else BatchTracer(self, v, d) for v, d in zip(values, dims, strict=True)]

    def interpret(self, primitive: Primitive[Any], operands: tuple[Any, ...], params: Any) -> Any:
        values, dims = zip(*map(self.split, operands), strict=True) if operands else ((), ())
        with use_trace(self.parent):
            if all(d is None for d in dims) and not uses_axis(primitive, params, self.axis):
                return self.parent.interpret(primitive, values, params)
            results, out_dims = primitive.batch(self.axis, values, dims, params)
        return self.joined(results, out_dims)

    def custom_jvp_call(self, function: Any, jvp: Any, operands: tuple[Any, ...], params: Any) -> Any:
        values, dims = zip(*map(self.split, operands), strict=True) if operands else ((), ())
        if all(d is None for d in dims):
            with use_trace(self.parent):
                return self.parent.custom_jvp_call(function, jvp, values, params)
        out_dims: list[BatchDim] = []
        batched = batched_function(function, self.axis, dims, out_dims)
        batched_jvp = batched_jvp_function(jvp, self.axis, dims, out_dims)
        with use_trace(self.parent):
            results = self.parent.custom_jvp_call(batched, batched_jvp, values, params)
        return self.joined(results, out_dims)

    def custom_vjp_call(
        self, function: Any, forward: Any, backward: Any, operands: tuple[Any, ...], params: Any
    ) -> Any:
        values, dims = zip(*map(self.split, operands), strict=True) if operands else ((), ())
        if all(d is None for d in dims):
            with use_trace(self.parent):
                return self.parent.custom_vjp_call(function, forward, backward, values, params)
        results, out_dims = params.batched_call(self, function, forward, backward, values, dims)
        return self.joined(results, out_dims)


def uses_axis(primitive: Primitive[Any], params: Any, axis: BatchAxis) -> bool:
    """Whether an equation refers to the batch axis by its name, so that it must see it."""
    return axis.name is not None and axis.name in getattr(primitive, "axis_names", _no_names)(params)


def _no_names(params: Any) -> tuple[Any, ...]:
    return ()


def batched_function(
    function: Callable[..., Sequence[Any]], axis: BatchAxis, dims: Sequence[BatchDim], out_dims: list[BatchDim]
) -> Callable[..., list[Any]]:
    """`function` on whole batches; each call notes where its results' batch axes are in `out_dims`."""

    def batched(*operands: Any) -> list[Any]:
        results, found = batch_flat(function, axis, operands, dims)
        out_dims[:] = found
        return results

    return batched


def batched_jvp_function(jvp: Any, axis: BatchAxis, dims: Sequence[BatchDim], out_dims: list[BatchDim]) -> Any:
    """A flat jvp rule on whole batches; results and tangents get equal batch axes."""

    def batched(primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[list[Any], list[Any]]:
        live = [t for t in tangents if hasattr(t, "shape")]
        live_dims = [d for t, d in zip(tangents, dims, strict=True) if hasattr(t, "shape")]
        n_results: list[int] = []

        def run(*values: Any) -> list[Any]:
            given = iter(values[len(primals) :])
            rebuilt = [next(given) if hasattr(t, "shape") else t for t in tangents]
            results, out_tangents = jvp(values[: len(primals)], rebuilt)
            n_results[:] = [len(results)]
            return [*results, *out_tangents]

        values, found = batch_flat(run, axis, [*primals, *live], [*dims, *live_dims])
        [n] = n_results
        aligned = []
        for i in range(n):
            dim = found[i] if found[i] is not None else found[n + i]
            aligned.append(dim)
        out_dims[:] = aligned
        brought = [brought_to(axis, v, d, aligned[i % n]) for i, (v, d) in enumerate(zip(values, found, strict=True))]
        return brought[:n], brought[n:]

    return batched


def brought_to(axis: BatchAxis, x: Any, dim: BatchDim, target: BatchDim) -> Any:
    """`x` with its batch axis at `target`; a value without one is repeated."""
    if dim == target or not hasattr(x, "shape") or target is None:
        return x
    if dim is None:
        return move_axis(broadcast(x, (axis.size,)), 0, target)
    return move_axis(x, dim, target)


def batch_jaxpr(
    jaxpr: Jaxpr, axis: BatchAxis, dims: Sequence[BatchDim], batched_results: bool | Sequence[bool] = False
) -> tuple[ClosedJaxpr, list[BatchDim]]:
    """The program on batches, remembered by what is asked; its results' batch axes are at 0, or absent.

    Results marked in `batched_results` get a batch axis in any case. `jaxpr` has no constants.
    """
    want = [batched_results] * len(jaxpr.outvars) if isinstance(batched_results, bool) else list(batched_results)
    key = ("batch", axis, tuple(dims), tuple(want))
    found = jaxpr.memo.get(key)
    if found is None:
        out_dims: list[BatchDim] = []

        def run(*operands: Any) -> list[Any]:
            results, found_dims = batch_flat(lambda *xs: replay(jaxpr, (), *xs), axis, operands, dims)
            out_dims[:] = [0 if w or d is not None else None for w, d in zip(want, found_dims, strict=True)]
            return [
                brought_to(axis, x, d, o) for x, d, o in zip(results, found_dims, out_dims, strict=True)
            ]

        avals = [batched_aval(v.aval, axis, d) for v, d in zip(jaxpr.invars, dims, strict=True)]
        found = jaxpr.memo[key] = (ClosedJaxpr(*stage(run, avals, jaxpr.debug)), out_dims)
    return found


def batched_aval(aval: Any, axis: BatchAxis, dim: BatchDim) -> Any:
    """Type of a batch of values of type `aval`."""
    if dim is None:
        return aval
    shape = (*aval.shape[:dim], axis.size, *aval.shape[dim:])
    if aval.sharding is not None:
        return aval.update(shape=shape, sharding=aval.sharding.with_dim(dim, axis.spmd_name))
    return aval.update(shape=shape)

"""`pure_callback`: calls of Python functions without side effects."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from pellucid._machine.base import (
    ArgumentTypeError,
    DerivativeRuleError,
    Function,
    Keywords,
    UnsupportedError,
)
from pellucid._machine.higher_order.custom_vmap import batched_call, check_vmap_method
from pellucid._machine.ir import (
    HOST,
    Operands,
    P,
    Placed,
    Primitive,
    Runs,
    ShapedArray,
    Shown,
    Values,
    derived_types,
)
from pellucid._machine.lowering.custom_calls import host_call
from pellucid._machine.refs.access import get
from pellucid._machine.runtime.transfer import from_host
from pellucid._machine.sharding import SingleDeviceSharding, get_abstract_mesh
from pellucid._machine.tracing import bind, is_reference, name_of, type_of
from pellucid._machine.transforms import check_callable, checked_leaves
from pellucid._machine.xla.pytree import flatten
from pellucid._machine.xla.shardings import Device

from .host import FlatCallback, result_types


class PureCallbackParams(NamedTuple):
    """`result_avals` are the types of the flat results."""

    callback: FlatCallback
    result_avals: tuple[ShapedArray, ...]
    sharding: Any
    vmap_method: str | None


class HostCall(Runs, Shown, Primitive[P]):
    """Base class of primitives that call a Python function."""

    traits = HOST
    types = derived_types  # not cached, because the cache would keep the callback alive
    # The function receives whole operands, and every device whole results.
    types_are_laid_out = True

    calls_python = True


class CallWithResults(Placed, HostCall[P]):
    """A call with the params `callback`, `result_avals` and `sharding`."""

    def abstract_eval(self, avals, params: Any):
        return params.result_avals

    def placements(self, params: Any) -> Sequence[Any]:
        device = device_of(params.sharding)
        return () if device is None else (device,)

    def run(self, operands, params: Any):
        """Results outside of a trace: calls the function without compiling anything."""
        results = params.callback.call(operands, params.result_avals)
        return [from_host(x, sharding=params.sharding) for x in results]

    def printed_params(self, equation):
        shown = equation.params._asdict()
        types = [
            f"ShapedArray({a.dtype.name}[{','.join(map(str, a.shape))}])"
            for a in shown["result_avals"]
        ]
        return shown | {"result_avals": f"({', '.join(types)}{',' * (len(types) == 1)})"}


class CalledForBatches:
    """A call of a Python function that has no derivative and is batched according to `vmap_method`."""

    name: str

    def jvp(self, primals, tangents, params):
        raise not_differentiable(self.name)

    def transpose(self, cotangents, operands, params):
        raise not_differentiable(self.name)

    def batch(self: Any, axis, operands, dims, params):
        avals = tuple(a.update(shape=(axis.size, *a.shape)) for a in params.result_avals)
        return batched_call(
            self, axis, operands, dims, params,
            lambda _: params._replace(result_avals=avals),
            f"`{name_of(params.callback.function)}`",
        )  # fmt: skip


class PureCallback(CalledForBatches, CallWithResults[PureCallbackParams]):
    """A call of a function whose results depend only on its arguments; it may be called any number of times, or not at
    all.
    """

    name = "pure_callback"

    def lower(self, ctx, operands, params):
        function = params.callback.for_program(ctx, params.result_avals)
        return host_call(
            ctx, function, operands, has_side_effect=False, device=device_of(params.sharding)
        )


pure_callback_p = PureCallback()


def not_differentiable(caller: str) -> DerivativeRuleError:
    """The error for differentiating a call of a Python function."""
    return DerivativeRuleError(
        f"{caller} has no derivative: what its Python function computes is not known.",
        do="Give the function that contains it a derivative with `custom_jvp` or `custom_vjp`, or apply "
        "`lax.stop_gradient` to its arguments.",
    )


def values_of(leaves: Operands) -> Values:
    """`leaves`, with references replaced by their content."""
    return [get(x) if is_reference(x) else x for x in leaves]


def flat_arguments(
    caller: str, function: Function, args: Operands, kwargs: Keywords
) -> tuple[Values, Any]:
    """(leaves, structure) of a callback's arguments.

    Raises: ArgumentTypeError for leaves that aren't numeric arrays.
    """
    check_callable(function, caller)
    leaves, tree = flatten((args, kwargs))
    leaves = values_of(checked_leaves(leaves, caller, function, args, kwargs))
    for x in leaves:
        aval = type_of(x)
        if type(aval) is not ShapedArray:
            raise ArgumentTypeError(
                f"{caller} needs arrays of numbers.",
                got=f"got {aval.text()}",
                do="Pass arrays.",
            )
    return leaves, tree


def device_of(sharding: SingleDeviceSharding | None) -> Device | None:
    """The device that a user specified for calling a function; None if unspecified."""
    return None if sharding is None else sharding._device


def check_sharding(caller: str, sharding: Any) -> None:
    """Raise UnsupportedError for a `sharding` that isn't a SingleDeviceSharding, and for any within `shard_map`."""
    if sharding is None:
        return
    if type(sharding) is not SingleDeviceSharding:
        raise UnsupportedError(
            f"{caller} needs a SingleDeviceSharding as `sharding`: its results lie on one device.",
            got=f"sharding: {sharding!r:.80}",
            do="Leave `sharding` out, and `device_put` the results.",
        )
    if get_abstract_mesh().manual_axes:
        raise UnsupportedError(
            f"{caller} takes no sharding within shard_map: each device calls the function for its part.",
            got=f"sharding: {sharding!r:.80}",
            do="Leave `sharding` out.",
        )


def pure_callback(
    callback: Function,
    result_shape_dtypes: Any,
    *args: Any,
    sharding: Any = None,
    vmap_method: str | None = None,
    **kwargs: Any,
) -> Any:
    """`callback(*args, **kwargs)`, a Python function without side effects, called when the program runs.

    It gets arrays, and returns arrays (or NumPy arrays, or numbers) of the structure, shapes and dtypes of
    `result_shape_dtypes`. A program may call it more or less often than it is written down. `vmap_method` chooses how
    `vmap` calls it: "sequential" calls it for each element; "expand_dims", "broadcast_all" and "legacy_vectorized"
    call it once with a leading batch axis, where what is the same for the whole batch has an axis of size 1, the
    whole axis, or none. It has no derivative. `sharding` is the device that calls it, and of results outside of compiled
    programs; a program over several devices gives them to all. Committed arguments elsewhere outweigh it.

    Raises: CallbackError where the function raises an exception (which is its cause), or returns something else;
    UnsupportedError for a `sharding` over several devices, or within `shard_map`.

    >>> import numpy as np
    >>> from pellucid import ShapeDtypeStruct, jit
    >>> jit(lambda x: pure_callback(np.sinc, ShapeDtypeStruct((2,), np.float32), x))(np.zeros(2, np.float32))
    Array([1., 1.], dtype=float32)
    """
    check_vmap_method("pure_callback", vmap_method)
    check_sharding("pure_callback", sharding)
    leaves, in_tree = flat_arguments("pure_callback", callback, args, kwargs)
    avals, out_tree = result_types("pure_callback", result_shape_dtypes)
    flat = FlatCallback("pure_callback", callback, in_tree, out_tree)
    params = PureCallbackParams(flat, avals, sharding, vmap_method)
    return out_tree.unflatten(bind(pure_callback_p, *leaves, params=params))

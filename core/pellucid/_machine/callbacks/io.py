"""`io_callback`: calls of Python functions with side effects."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from pellucid._machine.base import EffectsError
from pellucid._machine.higher_order.custom_vmap import each_element
from pellucid._machine.ir import ShapedArray, io_effect, ordered_io_effect
from pellucid._machine.lowering.custom_calls import host_call
from pellucid._machine.runtime.tokens import tokens
from pellucid._machine.tracing import bind

from .host import FlatCallback, result_types
from .pure import CallWithResults, check_sharding, device_of, flat_arguments, not_differentiable


class IoCallbackParams(NamedTuple):
    """`result_avals` are the types of the flat results."""

    callback: FlatCallback
    ordered: bool
    result_avals: tuple[ShapedArray, ...]
    sharding: Any


_ORDERED = frozenset({ordered_io_effect})
_UNORDERED = frozenset({io_effect})


class IoCallback(CallWithResults[IoCallbackParams]):
    """A call of a Python function with side effects, made exactly once per run of the equation."""

    name = "io_callback"

    def effects(self, avals, params):
        return _ORDERED if params.ordered else _UNORDERED

    def run(self, operands, params):
        if params.ordered:  # wait for running programs first
            tokens.block_until_ready()
        return super().run(operands, params)

    def jvp(self, primals, tangents, params):
        raise not_differentiable("io_callback")

    def batch(self, axis, operands, dims, params):
        if params.ordered:
            raise EffectsError(
                "vmap can't keep the order of io_callback(..., ordered=True): elements of a batch have none.",
                do="Use ordered=False, or `lax.map` instead of `vmap`.",
            )
        results = each_element(self, axis, operands, dims, params, unrolled=False)
        return results, [0] * len(results)

    def lower(self, ctx, operands, params):
        function = params.callback.for_program(ctx, params.result_avals)
        effect = ordered_io_effect if params.ordered else None
        return host_call(
            ctx, function, operands, has_side_effect=True, effect=effect,
            device=device_of(params.sharding),
        )  # fmt: skip


io_callback_p = IoCallback()


def io_callback(
    callback: Callable[..., Any],
    result_shape_dtypes: Any,
    *args: Any,
    sharding: Any = None,
    ordered: bool = False,
    **kwargs: Any,
) -> Any:
    """`callback(*args, **kwargs)`, a Python function that may do anything, called when the program runs.

    It is called exactly as often as the program gets there, also if nobody uses its results, which have the
    structure, shapes and dtypes of `result_shape_dtypes` (None for none). Those that are `ordered` are called in
    program order, within a program and from one program to the next. `effects_barrier` waits for all. Under `vmap`
    it is called for each element, if it is not ordered. It has no derivative. `sharding` is as for `pure_callback`.

    Raises: CallbackError where the function raises an exception (which is its cause), or returns something else;
    UnsupportedError for a `sharding` over several devices, or within `shard_map`.

    >>> seen = []
    >>> io_callback(lambda x: seen.append(int(x)), None, 3)
    >>> seen
    [3]
    """
    check_sharding("io_callback", sharding)
    leaves, in_tree = flat_arguments("io_callback", callback, args, kwargs)
    avals, out_tree = result_types("io_callback", result_shape_dtypes)
    flat = FlatCallback("io_callback", callback, in_tree, out_tree)
    params = IoCallbackParams(flat, bool(ordered), avals, sharding)
    return out_tree.unflatten(bind(io_callback_p, *leaves, params=params))

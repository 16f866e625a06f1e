"""Inspection of shardings: callbacks that receive the sharding of a value inside a compiled program."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from pellucid._machine.base import BatchingRuleError, CallbackError, tree_leaves
from pellucid._machine.compilation.shardy import sharding_inside
from pellucid._machine.ir import Runs, debug_effect
from pellucid._machine.primitives.staging import WithoutResults
from pellucid._machine.runtime.failures import mark_error
from pellucid._machine.runtime.transfer import from_host
from pellucid._machine.tracing import bind, type_of
from pellucid._machine.transforms import check_callable, checked_leaves
from pellucid._machine.xla.arrays import ArrayImpl
from pellucid._machine.xla.hlo import encode_inspection

from .drawing import check_can_be_drawn, visualize_sharding
from .host import callback_error
from .pure import values_of

_CALLER = "debug.inspect_array_sharding"


class InspectShardingParams(NamedTuple):
    """`callback` receives the sharding."""

    callback: Callable[[Any], Any]

    def call(self, sharding: Any) -> None:
        """Calls the callback; raises CallbackError if it fails."""
        try:
            self.callback(sharding)
        except Exception as error:
            raise callback_error(_CALLER, self.callback, error) from error


class InspectSharding(Runs, WithoutResults[InspectShardingParams]):
    """Calls a function with the operand's sharding when the program is partitioned. It has no results."""

    name = "inspect_sharding"
    calls_python = True

    def effects(self, avals, params):
        return frozenset({debug_effect})

    def run(self, operands, params):
        [x] = operands
        params.call((x if isinstance(x, ArrayImpl) else from_host(x)).sharding)
        return []

    def batch(self, axis, operands, dims, params):
        raise BatchingRuleError(
            f"vmap of {_CALLER} is impossible: single elements of a batch have no sharding.",
            do="Inspect the batched array outside of `vmap`.",
        )

    def lower(self, ctx, operands, params):
        [aval], replicated = ctx.avals_in, ctx.options.replicated
        if ctx.sharding_attributes is None:
            params.call(replicated)
            return ()

        def on_partitioned(tiles: Any) -> None:
            try:
                params.call(sharding_inside(tiles, aval, replicated))
            except CallbackError as error:
                mark = mark_error(error)
            else:
                return
            raise RuntimeError(mark)

        ctx.keep_alive.append(on_partitioned)
        attributes = {
            "call_target_name": "InspectSharding",
            "api_version": ctx.integer(1, 32),
            "has_side_effect": True,
            "backend_config": encode_inspection(on_partitioned),
        }
        ctx.op("stablehlo.custom_call", ctx.types([aval]), operands, attributes)
        return ()


inspect_sharding_p = InspectSharding()


def inspect_array_sharding(value: Any, *, callback: Callable[[Any], Any]) -> None:
    """Call `callback` with the sharding of each array in `value`, also of arrays in a program that is compiled.

    There it is called when the program is partitioned, once for each compilation, with the compiler's choice, on
    which it has no influence.

    Raises: CallbackError where the function raises an exception; BatchingRuleError under `vmap`.

    >>> mesh = pl.sharding.Mesh(np.array(pl.devices()).reshape(-1), ("x",))
    >>> x = pl.device_put(np.arange(8), pl.NamedSharding(mesh, pl.P("x")))
    >>> inspect_array_sharding(x, callback=lambda sharding: print(sharding.spec))
    P('x',)
    """
    check_callable(callback, _CALLER)
    leaves = values_of(tree_leaves(value))
    for x in checked_leaves(leaves, _CALLER, callback, leaves):
        bind(inspect_sharding_p, x, params=InspectShardingParams(callback))


def visualize_array_sharding(arr: Any, **kwargs: Any) -> None:
    """Print which devices hold which part of `arr`, as `visualize_sharding` does, also in a program that is compiled.

    Raises: ShardingArgumentError unless `arr` has one or two dimensions.

    >>> visualize_array_sharding(pl.device_put(np.ones(4), pl.devices()[0]), scale=0.4)
    ┌──────────┐
    │  CPU 0   │
    └──────────┘
    """
    shape = type_of(arr).shape
    check_can_be_drawn("visualize_array_sharding", shape)
    inspect_array_sharding(
        arr, callback=lambda sharding: visualize_sharding(shape, sharding, **kwargs)
    )

"""`custom_partitioning`: functions with user-defined partitioning over devices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from pellucid._machine.base import (
    ArgumentTypeError,
    Function,
    Ints,
    MissingRule,
    Names,
    UnsupportedError,
    broadcast_prefix_to,
    config,
    strict_zip,
)
from pellucid._machine.compilation.shardy import ShardyAttributes
from pellucid._machine.higher_order.bodies import TracedBody, body_of_trace
from pellucid._machine.higher_order.custom_rules import ForwardsDefinitions, Signature
from pellucid._machine.higher_order.shape_dtype_struct import ShapeDtypeStruct
from pellucid._machine.ir import (
    CONTROL,
    Avals,
    ClosedJaxpr,
    DebugInfo,
    OneJaxprPrimitive,
    Operands,
    Results,
    Values,
    derived_types,
    shaped_array,
)
from pellucid._machine.lowering.collectives import ManualRegion
from pellucid._machine.lowering.module import ModuleOptions, lower_module
from pellucid._machine.sharding import Mesh, NamedSharding, Sharding
from pellucid._machine.sharding.errors import ShardingArgumentError
from pellucid._machine.sharding.named_sharding import sharding_of_tiles
from pellucid._machine.sharding.placement import GSPMDSharding
from pellucid._machine.sharding.sharding_rule import SdyShardingRule, parse_rule
from pellucid._machine.tracing import (
    FunctionSpec,
    Tracer,
    bind,
    name_of,
    resolve_arguments,
    source_of,
    stage_with_constants,
)
from pellucid._machine.transforms import check_callable, checked_leaves, result_leaves, wraps
from pellucid._machine.xla import HloSharding, mlir
from pellucid._machine.xla.partitioner import TARGET, PartitionedValue, key_of

from .manual import bind_manual_axes


class CustomPartitioningParams(NamedTuple):
    """`call` is the whole function; `partition` defines its partitioned form, `sharding_rule` which dimensions may be
    sharded.
    """

    call: ClosedJaxpr
    decode_shardings: bool
    in_tree: Any
    out_tree: Any
    partition: Function
    sharding_rule: Any
    static_args: tuple[Any, ...]


class CustomPartitioning(OneJaxprPrimitive[CustomPartitioningParams]):
    """A call of a program with user-defined partitioning."""

    name = "custom_partitioning"
    traits = CONTROL
    program_field = "call"
    varies_jointly = True
    types = derived_types

    def missing(self, rule):
        return MissingRule(
            f"`custom_partitioning` has no {rule} rule: it knows how values are made in parts, not their "
            f"{'batches' if rule == 'batch' else 'derivatives'}.",
            do="Wrap the function in `custom_vmap`." if rule == "batch" else "Wrap the function in `custom_vjp`.",
        )  # fmt: skip

    def lower(self, ctx, operands, params):
        attributes = ctx.sharding_attributes
        if attributes is None or attributes.mesh.size == 1 or ctx.manual is not None:
            return ctx.inline_closed(params.call, operands)
        mesh = attributes.mesh
        partition = CallPartition(
            params, mesh, ctx.platform, is_exact=ctx.is_exact, gpu=ctx.options.gpu
        )
        ctx.keep_alive.append(partition)
        stated = {
            "call_target_name": TARGET,
            "has_side_effect": False,
            "api_version": ctx.integer(2, 32),
            "backend_config": key_of(partition),
        }
        rule = _rule_for(params, mesh, ctx.avals_in, ctx.avals_out)
        if rule is not None:
            text = rule.attribute_text(
                [a.shape for a in ctx.avals_in], [a.shape for a in ctx.avals_out]
            )
            stated["sdy.sharding_rule"] = ctx.attribute(text)
        return list(
            ctx.op("stablehlo.custom_call", ctx.types(ctx.avals_out), operands, stated).results
        )


custom_partitioning_p = CustomPartitioning()


def _rule_for(
    params: CustomPartitioningParams, mesh, operands: Operands, results: Results
) -> SdyShardingRule | None:
    rule: Any = params.sharding_rule
    options: dict[str, Any] = {}
    if callable(rule):
        types = [
            [ShapeDtypeStruct(a.shape, a.dtype) for a in avals] for avals in (operands, results)
        ]
        rule = rule(*params.static_args, mesh, *types)
        if isinstance(rule, (tuple, list)):
            rule, options = rule
    return parse_rule(rule, **options) if isinstance(rule, str) else rule


class CallPartition:
    """The partitioning of one call, which the partitioner requests after it has chosen shardings."""

    def __init__(
        self,
        params: CustomPartitioningParams,
        mesh: Any,
        platform: str,
        *,
        is_exact: bool,
        gpu: Any = None,
    ) -> None:
        self.params = params
        self.mesh = mesh
        self.platform = platform
        self.is_exact = is_exact
        self.gpu = gpu
        self.x64 = config.enable_x64.value
        """The partitioner calls back in another thread, in which the caller's options aren't set."""
        self.failure: Exception | None = None
        """The exception of the user's functions, of which the compiler only reports the text."""

    def __call__(
        self, operands: Sequence[PartitionedValue], results: Sequence[PartitionedValue]
    ) -> tuple[bytes, list[HloSharding], list[HloSharding]]:
        try:
            with config.enable_x64(self.x64):
                return self._parts(operands, results)
        except Exception as error:
            self.failure = error
            raise

    def _parts(
        self, operands: Sequence[PartitionedValue], results: Sequence[PartitionedValue]
    ) -> tuple[bytes, list[HloSharding], list[HloSharding]]:
        params = self.params
        mesh, of_part, result_shardings, operand_shardings = params.partition(
            *params.static_args,
            self.mesh,
            params.in_tree.unflatten([self._type_with_sharding(value) for value in operands]),
            params.out_tree.unflatten([self._type_with_sharding(value) for value in results]),
        )
        operand_parts = _with_chosen_shardings(
            "arg_shardings", operand_shardings, params.in_tree, operands
        )
        result_parts = _with_chosen_shardings(
            "result_shardings", result_shardings, params.out_tree, results
        )
        return (
            self._program(of_part, mesh, operand_parts, result_parts),
            [v.sharding for v in operand_parts],
            [v.sharding for v in result_parts],
        )

    def _type_with_sharding(self, value: PartitionedValue) -> ShapeDtypeStruct:
        """The type of a whole value with its sharding, a NamedSharding if requested and possible."""
        ndim, devices = len(value.shape), self.mesh._internal_device_list
        # On an abstract mesh, a sharding without axes has no devices to refer to.
        if self.params.decode_shardings or devices is None:
            sharding: Any = sharding_of_tiles(value.sharding, self.mesh, ndim)
        else:
            sharding = GSPMDSharding(devices, value.sharding)
        if isinstance(sharding, NamedSharding):
            sharding = sharding.with_spec(sharding.spec.padded(ndim))
        described = ShapeDtypeStruct(value.shape, value.dtype)
        described.sharding = sharding
        return described

    def _program(
        self,
        of_part: Function,
        mesh: Mesh,
        operand_parts: Sequence[PartitionedValue],
        result_parts: Sequence[PartitionedValue],
    ) -> bytes:
        """MLIR bytecode of the function on one device's parts."""

        def flat(*parts: Any) -> Values:
            return result_leaves(
                of_part(*self.params.in_tree.unflatten(parts)), "custom_partitioning", of_part
            )[0]

        avals = [shaped_array(value.part(), value.dtype) for value in operand_parts]
        axes = frozenset(mesh.axis_names)
        with bind_manual_axes(mesh, axes, check_vma=False):
            debug = DebugInfo("custom_partitioning", source_of(of_part))
            program = stage_with_constants(flat, avals, debug)
        expected = [(value.part(), value.dtype) for value in result_parts]
        out_avals: Avals = program.out_avals
        if [(a.shape, a.dtype) for a in out_avals] != expected:
            raise ArgumentTypeError(
                f"custom_partitioning: `{name_of(of_part)}` must give parts of the results.",
                got=[
                    f"gives {', '.join(a.text() for a in out_avals)}",
                    f"parts are {', '.join(shaped_array(*p).text() for p in expected)}",
                ],
            )
        options = ModuleOptions(
            name_of(of_part), (self.platform,), n_partitions=mesh.size, manual=ManualRegion(mesh, axes),
            constants=tuple(program.consts), is_exact=self.is_exact, gpu=self.gpu,
        )  # fmt: skip
        attributes = ShardyAttributes(mesh._internal_device_list, mesh.size, mesh)
        lowered = lower_module(program.jaxpr, options, attributes)
        if lowered.keep_alive or lowered.host_callbacks or lowered.ordered_effects:
            raise UnsupportedError(
                f"custom_partitioning: `{name_of(of_part)}` can't call the host or have effects."
            )
        return mlir.bytecode(lowered.module)


def _with_chosen_shardings(
    what: str, shardings, tree, values: Sequence[PartitionedValue]
) -> list[PartitionedValue]:
    """`values` with the shardings that the user chose."""
    leaves = broadcast_prefix_to(
        shardings, tree, caller=f"custom_partitioning: {what}", name="values"
    )
    for leaf in leaves:
        if not isinstance(leaf, Sharding):
            raise ArgumentTypeError(
                f"custom_partitioning: `partition` must return {what} that are shardings.",
                got=f"got {type(leaf).__name__}",
            )
    return [
        value._replace(sharding=leaf._to_xla_hlo_sharding(len(value.shape)))
        for value, leaf in strict_zip(values, leaves)
    ]


class custom_partitioning(ForwardsDefinitions):
    """A function whose partitioning over devices `def_partition` defines.

    On one device, and inside `shard_map`, it is the function itself. That GPUs compute it in parts is tested of programs
    that are compiled for them, not of any that has run on several. `static_argnums` are positions of arguments that
    aren't arrays; they come first in calls of the user's functions.

    Raises: ArgumentValueError for a call before `def_partition`; UnsupportedError for functions that use traced values
    besides their arguments. Derivatives and batches need rules: `custom_vjp`, `custom_vmap`.

    >>> square = custom_partitioning(lambda x: x * x)
    >>> _ = square.def_partition(
    ...     infer_sharding_from_operands=lambda mesh, arguments, result: arguments[0].sharding,
    ...     partition=lambda mesh, arguments, result: (mesh, jnp.square, result.sharding, (arguments[0].sharding,)),
    ...     sharding_rule="i -> i",
    ... )
    >>> sharding = pl.NamedSharding(pl.make_mesh((2,), ("i",), pl.sharding.AxisType.Auto), pl.P("i"))
    >>> print(pl.jit(square)(pl.device_put(np.arange(4.0), sharding)))
    [0. 1. 4. 9.]
    """

    def __init__(self, fun: Function, static_argnums: Ints = ()) -> None:
        super().__init__(fun)
        wraps(fun, "Form in parts")(self)
        self.signature = Signature(fun)
        self.static_argnums = resolve_arguments(fun, static_argnums, None, "static")[0]
        self._partition: Function | None = None
        self._sharding_rule: Any = None

    def def_partition(
        self,
        partition: Function,
        infer_sharding_from_operands: Function | None = None,
        propagate_user_sharding: Function | None = None,
        decode_shardings: bool = True,
        sharding_rule: Any = None,
        *,
        reduction_factors: Names = (),
        need_replication_factors: Names = (),
        permutation_factors: Names = (),
        **factor_sizes: int,
    ) -> Function:
        """Defines how the function is partitioned over devices; returns `partition`.

        `partition(*static_args, mesh, arg_shapes, result_shape)` gets trees of ShapeDtypeStructs with shardings, and
        gives `(mesh, function of parts, result shardings, argument shardings)`: values are brought to these, and the
        function may use collectives over the axes of the mesh. With `decode_shardings` False it gets tile
        assignments instead of NamedShardings.

        `sharding_rule` says which dimensions may be cut alike: a text like "i k, k j -> i j" with the options of
        SdyShardingRule, such a rule, or a function `(*static_args, mesh, operands, results)` that gives one. Without a
        rule no operand is cut. The compiler asks nobody else about shardings: `infer_sharding_from_operands` and
        `propagate_user_sharding` are there for programs that have them, and need a rule beside them.

        Raises: ShardingArgumentError for a text that is no rule, or where there must be one.
        """
        options = factor_sizes | {
            "reduction_factors": reduction_factors,
            "need_replication_factors": need_replication_factors,
            "permutation_factors": permutation_factors,
        }
        if isinstance(sharding_rule, str):
            sharding_rule = parse_rule(sharding_rule, **options)
        elif any(options.values()):
            raise ShardingArgumentError(
                "custom_partitioning: options about factors need a `sharding_rule` that is a string.",
                got=f"{', '.join(name for name, value in options.items() if value)}",
            )
        if sharding_rule is None and (infer_sharding_from_operands or propagate_user_sharding):
            raise ShardingArgumentError(
                "custom_partitioning: the compiler propagates shardings by `sharding_rule`, not by functions.",
                do='Add a rule beside them, for example sharding_rule="... i -> ... i".',
            )
        check_callable(partition, "custom_partitioning: def_partition")
        self._partition = partition
        self._sharding_rule = sharding_rule
        self._decode_shardings = decode_shardings
        return partition

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        fun = self.fun
        if self._partition is None:
            raise UnsupportedError(
                f"custom_partitioning: `{name_of(fun)}` has no partitioning yet.",
                do=f"Call `{name_of(fun)}.def_partition(partition, sharding_rule=...)` first.",
            )
        args = self.signature.positional(args, kwargs)
        spec = FunctionSpec(fun, name_of(fun), self.static_argnums)
        call = spec.call(args, {})
        leaves = checked_leaves(call.leaves, "custom_partitioning", fun, args, {})
        in_tree = call.tree.children()[0]

        def trace_call() -> TracedBody:
            structure: list[Any] = []

            def flat(*xs: Any) -> Values:
                results, tree = result_leaves(spec.run(call, xs), "custom_partitioning", fun)
                structure.append(tree)
                return results

            debug = DebugInfo("custom_partitioning", source_of(fun))
            program = stage_with_constants(flat, call.avals, debug)
            if any(isinstance(c, Tracer) for c in program.consts):
                raise UnsupportedError(
                    f"custom_partitioning: `{name_of(fun)}` uses traced values besides its arguments.",
                    do="Pass them as arguments.",
                )
            return TracedBody(program, [], structure[0])

        body = body_of_trace(trace_call)
        static = tuple([value for _, _, value in call.static.positions])
        params = CustomPartitioningParams(
            body.program, self._decode_shardings, in_tree, body.out_tree, self._partition,
            self._sharding_rule, static,
        )  # fmt: skip
        return body.out_tree.unflatten(bind(custom_partitioning_p, *leaves, params=params))

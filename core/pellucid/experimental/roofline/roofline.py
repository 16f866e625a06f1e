"""Costs of a function on one device, from its program: operations, bytes moved, bytes sent."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from pellucid._machine.base.errors import ArgumentTypeError, ArgumentValueError, UnsupportedError
from pellucid._machine.base.tree import tree_map
from pellucid._machine.base.typing import Function
from pellucid._machine.higher_order.shape_dtype_struct import ShapeDtypeStruct
from pellucid._machine.higher_order.stages import eval_shape, make_jaxpr
from pellucid._machine.ir import Equation, Jaxpr, Literal, Primitive, ShapedArray
from pellucid._machine.parallel.shard_map import shard_map
from pellucid._machine.transforms.gradient import vjp
from pellucid.analysis.costs import equation_cost
from pellucid.analysis.exchanges import sent_bytes
from pellucid.introspect.bodies import EquationBody, bodies_of

ValidRooflineDtype = np.dtype[Any] | type
ShapeDtypeStructTree = Any
Specs = Any


@dataclass(frozen=True, kw_only=True)
class RooflineShape:
    """Shape and dtype of an operand or a result.

    >>> RooflineShape.from_aval(pl.typeof(np.ones((2, 3), np.float32))).bytes
    24
    """

    shape: tuple[int, ...]
    dtype: Any

    @classmethod
    def from_aval(cls, aval: Any) -> RooflineShape:
        """The shape of a value of type `aval`. Raises: ArgumentTypeError if it is none of an array."""
        if not isinstance(aval, ShapedArray):
            raise ArgumentTypeError(
                "RooflineShape.from_aval needs the type of an array.", got=f"got {aval}"
            )
        return cls(shape=aval.shape, dtype=aval.dtype)

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @property
    def bytes(self) -> int:
        """Bytes of all elements."""
        return self.size * self.dtype.itemsize

    @classmethod
    def total_bytes(cls, avals: Iterable[Any]) -> int:
        """Bytes of values of types `avals`, of which those that aren't arrays have none."""
        return sum(cls.from_aval(a).bytes for a in avals if isinstance(a, ShapedArray))


@dataclass(frozen=True, kw_only=True)
class RooflineRuleContext:
    """Context of a rule: the primitive, types and mesh of an equation, and the options of the call."""

    name_stack: Any
    primitive: Any
    avals_in: list[Any]
    avals_out: list[Any]
    jaxpr_eqn_ctx: Any
    mesh: Any
    pin_lhs_in_vmem: bool
    pin_rhs_in_vmem: bool


@dataclass(frozen=True, kw_only=True)
class RooflineResult:
    """Costs of a program on one device. Results are added, and multiplied by numbers of runs.

    `flops` and `hbm_bytes`, operations and bytes read or written, are those of contractions and other operations that
    compilers don't fuse with their neighbours; `unfused_flops` and `unfused_hbm_bytes` those of all, as if each read its
    operands from memory. `ici_bytes` and `ici_latency` have for each mesh axis the bytes that are sent along it, and the
    number of steps to neighbours. `peak_hbm_bytes` are the most bytes that values take at once.

    >>> two = 2 * RooflineResult(flops=3, ici_bytes={"x": 4})
    >>> (two + RooflineResult(flops=1)).flops, two.ici_bytes
    (7, {'x': 8})
    """

    flops: int = 0
    unfused_flops: int = 0
    ici_bytes: dict[str, int] = field(default_factory=dict)
    ici_latency: dict[str, int] = field(default_factory=dict)
    hbm_bytes: int = 0
    peak_hbm_bytes: int = 0
    unfused_hbm_bytes: int = 0

    @classmethod
    def zeros(cls) -> RooflineResult:
        """The costs of nothing."""
        return cls()

    def __add__(self, other: RooflineResult) -> RooflineResult:
        """Costs of two programs, one after the other; the peak is the higher one."""
        return RooflineResult(
            flops=self.flops + other.flops,
            unfused_flops=self.unfused_flops + other.unfused_flops,
            ici_bytes=_by_axis(self.ici_bytes, other.ici_bytes),
            ici_latency=_by_axis(self.ici_latency, other.ici_latency),
            hbm_bytes=self.hbm_bytes + other.hbm_bytes,
            peak_hbm_bytes=max(self.peak_hbm_bytes, other.peak_hbm_bytes),
            unfused_hbm_bytes=self.unfused_hbm_bytes + other.unfused_hbm_bytes,
        )

    def __mul__(self, constant: int) -> RooflineResult:
        """All costs, the peak among them, multiplied by `constant`."""
        return RooflineResult(
            flops=self.flops * constant,
            unfused_flops=self.unfused_flops * constant,
            ici_bytes={axis: n * constant for axis, n in self.ici_bytes.items()},
            ici_latency={axis: n * constant for axis, n in self.ici_latency.items()},
            hbm_bytes=self.hbm_bytes * constant,
            peak_hbm_bytes=self.peak_hbm_bytes * constant,
            unfused_hbm_bytes=self.unfused_hbm_bytes * constant,
        )

    __rmul__ = __mul__


def _by_axis(a: Mapping[str, int], b: Mapping[str, int]) -> dict[str, int]:
    return {axis: a.get(axis, 0) + b.get(axis, 0) for axis in [*a, *(k for k in b if k not in a)]}


# Rules ----------------------------------------------------------------------------------------------------

Rule = Callable[..., RooflineResult]
_rules: dict[Any, Rule] = {}


def register_roofline(prim: Primitive[Any]) -> Callable[[Rule], Rule]:
    """A decorator that registers a rule for `prim`: `rule(context, *shapes, **params)` gives the costs of one run.

    `shapes` are the RooflineShapes of the operands. Without a rule, costs follow from the primitive's types and traits.

    >>> from pellucid.extend.core import Primitive
    >>> kernel_p = Primitive("kernel")
    >>> _ = kernel_p.def_abstract_eval(lambda x: x)
    >>> @register_roofline(kernel_p)
    ... def kernel_costs(context, x):
    ...     return RooflineResult(flops=10 * x.size)
    >>> roofline(kernel_p.bind)(np.ones(3, np.float32))[1].flops
    30
    """

    def register(rule: Rule) -> Rule:
        _rules[prim] = rule
        return rule

    return register


def register_standard_roofline(prim: Primitive[Any]) -> None:
    """Register for `prim` the rule of operations that are fused with their neighbours: they cost one operation an element.

    >>> from pellucid.extend.core import Primitive
    >>> scale_p = Primitive("scale")
    >>> _ = scale_p.def_abstract_eval(lambda x: x)
    >>> register_standard_roofline(scale_p)
    >>> roofline(scale_p.bind)(np.ones(3, np.float32))[1].unfused_hbm_bytes
    24
    """
    _rules[prim] = _of_elements


def _of_elements(
    context: RooflineRuleContext, *shapes: RooflineShape, **params: Any
) -> RooflineResult:
    results = [RooflineShape.from_aval(a) for a in context.avals_out]
    return RooflineResult(
        unfused_flops=sum(r.size for r in results),
        unfused_hbm_bytes=sum(s.bytes for s in (*shapes, *results)),
    )


# Programs -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Options:
    mesh: Any
    pin_lhs_in_vmem: bool
    pin_rhs_in_vmem: bool


def _of_program(jaxpr: Jaxpr, options: _Options) -> RooflineResult:
    """Costs of one run of a program."""
    last_use: dict[Any, int] = {}
    for row, equation in enumerate(jaxpr.equations):
        last_use |= {a: row for a in equation.operands if type(a) is not Literal}
    last_use |= {a: len(jaxpr.equations) for a in jaxpr.outvars if type(a) is not Literal}
    alive = sum(_bytes(v.aval) for v in (*jaxpr.constvars, *jaxpr.invars))
    total = RooflineResult(peak_hbm_bytes=alive)
    for row, equation in enumerate(jaxpr.equations):
        operands = {a for a in equation.operands if type(a) is not Literal}
        inner = _of_equation(equation, options)
        # `inner` counts the equation's operands, too: they leave what is alive beside it.
        beside = alive - sum(_bytes(v.aval) for v in operands)
        alive -= sum(_bytes(v.aval) for v in operands if last_use[v] == row)
        alive += sum(_bytes(v.aval) for v in equation.results)
        peak = max(alive, beside + inner.peak_hbm_bytes)
        alive -= sum(_bytes(v.aval) for v in equation.results if v not in last_use)
        total += replace(inner, peak_hbm_bytes=peak)
    return total


def _bytes(aval: Any) -> int:
    return RooflineShape.total_bytes([aval])


def _of_equation(equation: Equation, options: _Options) -> RooflineResult:
    """Costs of one run of an equation, and the peak of the programs within it."""
    primitive, params = equation.primitive, equation.params
    operands = [a.aval for a in equation.operands]
    results = [v.aval for v in equation.results]
    rule = _rules.get(primitive)
    if rule is not None:
        context = RooflineRuleContext(
            name_stack=equation.scope,
            primitive=primitive,
            avals_in=operands,
            avals_out=results,
            jaxpr_eqn_ctx=None,
            mesh=options.mesh,
            pin_lhs_in_vmem=options.pin_lhs_in_vmem,
            pin_rhs_in_vmem=options.pin_rhs_in_vmem,
        )
        return rule(context, *map(RooflineShape.from_aval, operands), **params._asdict())
    if primitive.name in _CALLBACKS:
        is_read = primitive.name != "debug_print"
        return RooflineResult(unfused_hbm_bytes=is_read * sum(map(_bytes, (*operands, *results))))
    bodies = bodies_of(equation)
    if bodies and primitive.traits.flops is None:
        return _of_bodies(equation, bodies, options)
    # A reduction's `bodies[0]` combines two elements; it runs as often as the equation's own flops say.
    combined = _of_program(bodies[0].jaxpr, options) if bodies else None
    if primitive.traits.kind == "collective":
        return _of_collective(equation, options)
    cost = equation_cost(equation)
    if cost.flops is None or cost.transcendentals is None or cost.bytes is None:
        raise UnsupportedError(
            f"the costs of `{primitive.name}` aren't known.",
            do=f"Register a rule for them: `register_roofline({primitive.name}_p)`.",
        )
    each = 1 if combined is None else combined.unfused_flops
    flops, n_bytes = int(cost.flops * each + cost.transcendentals), int(cost.bytes)
    if primitive.traits.kind != "contraction":
        return RooflineResult(unfused_flops=flops, unfused_hbm_bytes=n_bytes)
    pinned = (options.pin_lhs_in_vmem, options.pin_rhs_in_vmem)
    pinned_bytes = sum(
        _bytes(aval) for aval, is_pinned in zip(operands, pinned, strict=False) if is_pinned
    )
    return RooflineResult(
        flops=flops,
        unfused_flops=flops,
        hbm_bytes=n_bytes - pinned_bytes,
        unfused_hbm_bytes=n_bytes,
    )


def _of_bodies(equation: Equation, bodies: list[EquationBody], options: _Options) -> RooflineResult:
    mesh = getattr(equation.params, "mesh", None)
    within = options if mesh is None else replace(options, mesh=mesh)
    if any(body.trips is None and not body.is_branch for body in bodies):
        raise UnsupportedError(
            f"how often `{equation.primitive.name}` runs isn't known, so that its costs aren't either.",
            do="Use `lax.scan` or `fori_loop` with static bounds.",
        )
    costs = [(_of_program(body.jaxpr, within), body) for body in bodies]
    if bodies[0].is_branch:
        return _most([cost for cost, _ in costs])
    total = RooflineResult.zeros()
    for cost, body in costs:
        runs = cost * (body.trips or 0)
        total += replace(runs, peak_hbm_bytes=cost.peak_hbm_bytes)
    return total


def _most(branches: Sequence[RooflineResult]) -> RooflineResult:
    """The most that any of several branches costs, of each quantity by itself, as in `analysis.costs.CostTable`."""

    def along(sent: Sequence[dict[str, int]]) -> dict[str, int]:
        axes = dict.fromkeys(axis for each in sent for axis in each)
        return {axis: max(each.get(axis, 0) for each in sent) for axis in axes}

    return RooflineResult(
        flops=max(each.flops for each in branches),
        unfused_flops=max(each.unfused_flops for each in branches),
        ici_bytes=along([each.ici_bytes for each in branches]),
        ici_latency=along([each.ici_latency for each in branches]),
        hbm_bytes=max(each.hbm_bytes for each in branches),
        peak_hbm_bytes=max(each.peak_hbm_bytes for each in branches),
        unfused_hbm_bytes=max(each.unfused_hbm_bytes for each in branches),
    )


_CALLBACKS = ("pure_callback", "io_callback", "debug_callback", "debug_print")
"""Primitives that call Python, which compute nothing on the device; printing counts nothing at all."""
_EXCHANGES = {
    **dict.fromkeys(("psum", "psum_invariant", "pmax", "pmin", "unreduced_psum"), "all-reduce"),
    **dict.fromkeys(("all_gather", "all_gather_invariant", "all_gather_reduced"), "all-gather"),
    **dict.fromkeys(("reduce_scatter", "unreduced_reduce_scatter"), "reduce-scatter"),
    **dict.fromkeys(("all_to_all", "ragged_all_to_all"), "all-to-all"),
    **dict.fromkeys(("ppermute", "psend", "precv"), "collective-permute"),
    "pbroadcast": "collective-broadcast",
}
"""Maps a primitive to its exchange between devices; other primitives change types only, or leave exchanges to the
compiler.
"""


def _of_collective(equation: Equation, options: _Options) -> RooflineResult:
    """Costs over rings of the devices along each axis. Source: Chan et al., Collective communication (2007), table of rings."""
    params = equation.params
    name = getattr(params, "axes", None) or getattr(params, "axis_name", ())
    axes = [name] if isinstance(name, str) else [a for a in name if isinstance(a, str)]
    sizes = {} if options.mesh is None else dict(options.mesh.shape)
    axes = [axis for axis in axes if sizes.get(axis, 1) > 1]
    n = math.prod([sizes[axis] for axis in axes])
    operation = _EXCHANGES.get(equation.primitive.name)
    if n == 1 or operation is None:
        return RooflineResult.zeros()
    operand_bytes = sum(_bytes(a.aval) for a in equation.operands)
    result_bytes = sum(_bytes(v.aval) for v in equation.results)
    if operation == "collective-permute":
        loads, longest = _along_torus(params.perm, [sizes[axis] for axis in axes])
        return RooflineResult(
            ici_bytes={axis: load * operand_bytes for axis, load in zip(axes, loads, strict=True)},
            ici_latency={
                axis: longest * (load > 0) for axis, load in zip(axes, loads, strict=True)
            },
        )
    steps = {
        "all-reduce": 2 * n, "all-gather": n, "reduce-scatter": n, "all-to-all": n / 2, "collective-broadcast": n - 1,
    }[operation]  # fmt: skip
    if operation == "all-to-all":  # on the way a block passes a quarter of the ring on average
        sent = result_bytes * n / 4
    else:
        sent = sent_bytes(operation, operand_bytes or result_bytes, n)
    return RooflineResult(
        ici_bytes={axis: round(sent / len(axes)) for axis in axes},
        ici_latency={axis: round(steps) for axis in axes},
    )


def _along_torus(perm: Sequence[tuple[int, int]], sizes: Sequence[int]) -> tuple[list[int], int]:
    """(for each axis the most ways that go through one of its links in one direction, steps of the longest way).

    A way goes along one axis after the other, first along the major one, and around each ring in the shorter direction.
    """
    loads = [Counter[tuple[tuple[int, ...], int]]() for _ in sizes]
    longest = 0
    for source, target in perm:
        at = [*map(int, np.unravel_index(source, sizes))]
        steps = 0
        for axis, (size, end) in enumerate(
            zip(sizes, np.unravel_index(target, sizes), strict=True)
        ):
            forward = (int(end) - at[axis]) % size
            n_steps, step = (forward, 1) if 2 * forward <= size else (size - forward, -1)
            for _ in range(n_steps):
                loads[axis][tuple(at), step] += 1
                at[axis] = (at[axis] + step) % size
            steps += n_steps
        longest = max(longest, steps)
    return [max(each.values(), default=0) for each in loads], longest


# Functions ------------------------------------------------------------------------------------------------


def roofline(
    f: Function,
    mesh: Any = None,
    in_specs: Any = None,
    out_specs: Any = None,
    *,
    pin_lhs_in_vmem: bool = False,
    pin_rhs_in_vmem: bool = False,
    vjp: bool = False,
    print_jaxpr: bool = False,
) -> Callable[..., tuple[Any, RooflineResult]]:
    """A function that gives the shapes of the results of `f`, and what `f` costs one device, without running it.

    With `in_specs` and `out_specs` it is `shard_map(f, mesh, in_specs, out_specs)` that is looked at: costs are those of
    one device of `mesh`. With `vjp` they are those of its cotangents, of which the residuals are known. Pinned are
    operands of contractions that lie in fast memory.

    Raises: ArgumentValueError for specs without a mesh; UnsupportedError where costs can't be known, as of a `while` loop.

    >>> x = ShapeDtypeStruct((8, 16), np.float32)
    >>> shape, result = roofline(lambda x: x @ x.T)(x)
    >>> shape, result.flops
    (ShapeDtypeStruct(shape=(8, 8), dtype=float32), 2048)
    """
    if (in_specs is None) != (out_specs is None) or (in_specs is not None and mesh is None):
        raise ArgumentValueError("roofline takes `mesh`, `in_specs` and `out_specs` together.")
    function = f
    if in_specs is not None:
        function = shard_map(f, mesh=mesh, in_specs=in_specs, out_specs=out_specs)
    options = _Options(mesh, pin_lhs_in_vmem, pin_rhs_in_vmem)

    def costs_of(*args: Any) -> tuple[Any, RooflineResult]:
        called = function
        if vjp:
            called, args = _backward(function, args)
        program, shapes = make_jaxpr(called, return_shape=True)(*args)
        if print_jaxpr:
            print(program)  # noqa: T201  (the user asked for it)
        result = _of_program(program.jaxpr, options)
        if in_specs is None:
            return shapes, result
        # Outside of shard_map, values are global.
        parts = [e for e in program.jaxpr.equations if e.primitive.name == "shard_map"]
        peak = max([_of_equation(e, options).peak_hbm_bytes for e in parts], default=0)
        return shapes, replace(result, peak_hbm_bytes=peak)

    return costs_of


_vjp = vjp


def _backward(function: Function, args: tuple[Any, ...]) -> tuple[Function, tuple[Any, ...]]:
    """(function from residuals and cotangents to the cotangents of `args`, its arguments)."""
    results, pullback = eval_shape(lambda *args: _vjp(function, *args), *args)
    cotangents = tree_map(lambda x: ShapeDtypeStruct(x.shape, x.dtype), results)
    return lambda pullback, cotangents: pullback(cotangents), (pullback, cotangents)


def roofline_and_grad(
    f: Function,
    mesh: Any,
    in_specs: Any,
    out_specs: Any,
    *,
    pin_lhs_in_vmem: bool = False,
    pin_rhs_in_vmem: bool = False,
    print_jaxpr: bool = False,
) -> Callable[..., tuple[Any, RooflineResult, RooflineResult]]:
    """A function that gives the shapes of the results of `f`, and the costs of `f` and of its cotangents on one device.

    The arguments are as those of `roofline`, with None for what isn't placed.

    >>> shape, forward, backward = roofline_and_grad(lambda x: (x @ x.T).sum(), None, None, None)(
    ...     np.ones((8, 16), np.float32)
    ... )
    >>> forward.flops, backward.flops
    (2048, 4096)
    """
    options = {
        "pin_lhs_in_vmem": pin_lhs_in_vmem,
        "pin_rhs_in_vmem": pin_rhs_in_vmem,
        "print_jaxpr": print_jaxpr,
    }

    def costs_of(*args: Any) -> tuple[Any, RooflineResult, RooflineResult]:
        shapes, forward = roofline(f, mesh, in_specs, out_specs, **options)(*args)
        _, backward = roofline(f, mesh, in_specs, out_specs, vjp=True, **options)(*args)
        return shapes, forward, backward

    return costs_of

"""`custom_jvp`: a function whose forward derivative the user defines.

A call meets each trace through `Trace.custom_jvp_call`. Evaluated at once, the Python function runs; when it is
differentiated, the user's rule runs instead; only a staging trace makes an equation of it, which keeps the rule.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from itertools import compress
from typing import Any, NamedTuple

from pellucid.base import dtypes
from pellucid.base.errors import ArgumentTypeError, DerivativeRuleError
from pellucid.base.tree import shown_path, structure_differences, tree_map
from pellucid.ir.avals import Described
from pellucid.ir.effects import Effects
from pellucid.ir.facets import OnReferences, Shown
from pellucid.ir.jaxpr import ClosedJaxpr, DebugInfo, Equation, Jaxpr
from pellucid.ir.primitive import P, Programs
from pellucid.ir.rewriting import remove_dead_equations
from pellucid.ir.rules import Avals, BatchAxis, BatchDim, Dims, Operands, Results, Zero
from pellucid.ir.slots import Slots, call_slots
from pellucid.ir.traits import CONTROL
from pellucid.primitives.broadcasting import brought_to
from pellucid.primitives.conversion import stop_gradient
from pellucid.tracing.context import context
from pellucid.tracing.discharge import inline_on_cells
from pellucid.tracing.function import indices, name_of, names, resolve_arguments
from pellucid.tracing.replay import replay
from pellucid.tracing.tracer import Tracer
from pellucid.tracing.values import type_of
from pellucid.transforms.arguments import check_callable, checked_leaves, described, result_leaves
from pellucid.transforms.derived import stage_open
from pellucid.transforms.vmap import batch_flat
from pellucid.transforms.zeros import add_tangents, instantiate, zeros
from pellucid.xla.pytree import flatten, flatten_with_path

# A call of flat values ----------------------------------------------------------------------------------


class CustomJvpCall(NamedTuple):
    """A function of flat values and its derivative: `rule(primals, tangents)` gives (results, tangents).

    Tangents may be `Zero` on both sides.
    """

    name: str
    function: Callable[..., Sequence[Any]]
    rule: Callable[[Sequence[Any], Sequence[Any]], tuple[list[Any], list[Any]]]
    rule_name: str
    symbolic_zeros: bool
    debug: Callable[[], DebugInfo]

    def staged(self, trace: Any, operands: tuple[Any, ...]) -> list[Any]:
        """Results of an equation of `trace` that calls this."""
        program, consts = stage_open(self.function, [type_of(x) for x in operands], self.debug())
        params = CustomJvpParams(
            program, self.rule, self.rule_name, self.name, len(consts), self.symbolic_zeros
        )
        return trace.interpret(custom_jvp_call_p, (*consts, *operands), params)

    def batched(
        self, axis: BatchAxis, dims: Dims, tag: object = None
    ) -> tuple[CustomJvpCall, list[BatchDim]]:
        """The call on whole batches; the list gets the batch axes of its results when it has run.

        `tag` is that of the BatchTrace whose values the function and its rule may capture.
        """
        places = ResultPlaces(self.name, axis, dims)

        def function(*operands: Any) -> list[Any]:
            return places.place(*batch_flat(self.function, axis, operands, dims, tag))

        def rule(primals: Operands, tangents: Operands) -> tuple[list[Any], list[Any]]:
            nonzero = [type(t) is not Zero for t in tangents]
            n_results = 0
            kept: list[Any] = []

            def run(*values: Any) -> list[Any]:
                nonlocal n_results, kept
                given = iter(values[len(primals) :])
                inner = [
                    next(given) if nz else Zero(unbatched(t.aval, d))
                    for t, d, nz in zip(tangents, dims, nonzero, strict=True)
                ]
                results, kept = self.rule(values[: len(primals)], inner)
                n_results = len(results)
                return [*results, *(t for t in kept if type(t) is not Zero)]

            live = [t for t, nz in zip(tangents, nonzero, strict=True) if nz]
            live_dims = [d for d, nz in zip(dims, nonzero, strict=True) if nz]
            values, found = batch_flat(run, axis, [*primals, *live], [*dims, *live_dims], tag)
            rest = iter(found[n_results:])
            tangent_dims = [None if type(t) is Zero else next(rest) for t in kept]
            results = places.place(values[:n_results], found[:n_results], tangent_dims)
            rest = iter(zip(values[n_results:], found[n_results:], strict=True))
            out_tangents: list[Any] = []
            for y, t, place in zip(results, kept, places.dims, strict=True):
                if type(t) is Zero:
                    out_tangents.append(Zero(type_of(y).tangent()))
                else:
                    out_tangents.append(moved_to(axis, *next(rest), place))
            return results, out_tangents

        return self._replace(function=function, rule=rule), places.dims


class ResultPlaces:
    """Where the results of a batched call have their batch axes: decided when it first runs, kept from then on.

    Results have none only if no operand has one and neither does what the first run captured.
    """

    def __init__(self, name: str, axis: BatchAxis, dims: Dims) -> None:
        self.name = name
        self.axis = axis
        self.always = axis.name is not None or any(d is not None for d in dims)
        self.dims: list[BatchDim] = []

    def place(
        self,
        results: Results,
        found: Sequence[BatchDim],
        tangent_dims: Dims = (),
    ) -> list[Any]:
        """`results`, whose batch axes are at `found`, with their batch axes where they belong.

        `tangent_dims` are the batch axes of their tangents, where a rule gave these too.
        """
        if not self.dims:
            always = self.always or any(d is not None for d in (*found, *tangent_dims))
            self.dims[:] = [0 if d is None and always else d for d in found]
        elif None in self.dims and any(d is not None for d in (*found, *tangent_dims)):
            raise captured_by_rule(self.name)
        return [
            moved_to(self.axis, x, d, p) for x, d, p in zip(results, found, self.dims, strict=True)
        ]


def captured_by_rule(name: str) -> DerivativeRuleError:
    """The error for a derivative that is batched where the result of the function `name` isn't."""
    return DerivativeRuleError(
        f"the derivative of `{name}` is batched, but its result isn't.",
        got="a rule that captures a value over which vmap maps; the function doesn't use it",
        do="Pass the value to the function as an argument.",
    )


def moved_to(axis: BatchAxis, x: Any, found: BatchDim, dim: BatchDim) -> Any:
    """`x` with its batch axis at `dim` instead of `found`; `dim` is None only where `found` is."""
    return x if dim is None else brought_to(axis, x, found, dim)


def unbatched(aval: Any, dim: BatchDim) -> Any:
    """Type of one element of a batch of type `aval`."""
    return aval if dim is None else aval.without_dim(dim)


# The primitive ------------------------------------------------------------------------------------------


class CustomJvpParams(NamedTuple):
    """`call_jaxpr` has no constants: its first `num_consts` inputs are what the function closes over."""

    call_jaxpr: ClosedJaxpr
    jvp: Callable[..., Any]
    jvp_name: str
    name: str
    num_consts: int
    symbolic_zeros: bool


class CustomCall(OnReferences, Programs[P]):
    """A staged call of a function with its own derivative; `params.call_jaxpr` is the function."""

    traits = CONTROL

    def abstract_eval(self, avals, params: Any):
        return params.call_jaxpr.out_avals

    def effects(self, avals, params: Any):
        return params.call_jaxpr.effects

    def slots(self, params: Any):
        return call_slots(params.call_jaxpr)

    def call_of(self, params: Any) -> Any:
        """The call that was staged, with the constants as first operands."""
        raise NotImplementedError(type(self))

    def jvp(self, primals, tangents, params: Any):
        return self.call_of(params).rule(primals, tangents)

    def discharge(self, operands, params: Any):
        # Only compilation comes after this, so the derivative is no longer wanted.
        return inline_on_cells(params.call_jaxpr.jaxpr, operands)

    def lower(self, ctx, operands, params: Any):
        return ctx.inline(params.call_jaxpr.jaxpr, (), operands)

    def dead_code(self, used, equation):
        n = len(equation.operands)
        if not any(used) and not equation.effects:
            return [False] * n, None
        jaxpr = equation.params.call_jaxpr.jaxpr
        key = ("used results", tuple(used))
        if key not in jaxpr.memo:
            pruned, _ = remove_dead_equations(jaxpr, used, keep_inputs=True)
            is_changed = pruned.equations != jaxpr.equations or not all(used)
            jaxpr.memo[key] = ClosedJaxpr(pruned) if is_changed else None
        program = jaxpr.memo[key]
        if program is None:
            return [True] * n, equation
        params = equation.params if all(used) else self.giving(equation.params, used)
        results = list(compress(equation.results, used))
        return [True] * n, equation.replace(
            results=results, params=params._replace(call_jaxpr=program)
        )

    giving: Any
    """`giving(params, used)` gives params with rules that give only the `used` results."""


class CustomJvpCallPrimitive(Shown, CustomCall[CustomJvpParams]):
    """A staged call of a `custom_jvp` function."""

    name = "custom_jvp_call"

    def call_of(self, params) -> CustomJvpCall:
        n, jaxpr = params.num_consts, params.call_jaxpr.jaxpr

        def rule(primals: Operands, tangents: Operands) -> Any:
            refuse_closed_over(params.name, tangents[:n])
            return params.jvp(primals[n:], tangents[n:])

        return CustomJvpCall(
            params.name,
            calling(jaxpr),
            rule,
            params.jvp_name,
            params.symbolic_zeros,
            debug_of(jaxpr),
        )

    def giving(self, params: CustomJvpParams, used: Sequence[bool]) -> CustomJvpParams:
        def rule(primals: Operands, tangents: Operands) -> Any:
            results, out_tangents = params.jvp(primals, tangents)
            return list(compress(results, used)), list(compress(out_tangents, used))

        return params._replace(jvp=rule)

    def batch(self, axis, operands, dims, params):
        call, out_dims = self.call_of(params).batched(axis, dims)
        return context.trace.custom_jvp_call(call, operands), out_dims

    def printed_params(self, equation):
        params = equation.params
        return {
            "name": params.name, "call_jaxpr": params.call_jaxpr, "jvp": params.jvp_name,
            **({"num_consts": params.num_consts} if params.num_consts else {}),
            "symbolic_zeros": params.symbolic_zeros,
        }  # fmt: skip


custom_jvp_call_p = CustomJvpCallPrimitive()


def calling(jaxpr: Jaxpr) -> Callable[..., list[Any]]:
    """The program `jaxpr` as a function."""
    return lambda *operands: replay(jaxpr, (), *operands)


def debug_of(jaxpr: Jaxpr) -> Callable[[], DebugInfo]:
    """The names that `jaxpr` has for messages, as a function that gives them."""
    return lambda: jaxpr.debug or DebugInfo("custom")


def refuse_closed_over(name: str, tangents: Operands) -> None:
    """Raise DerivativeRuleError if a value from outside, about which a rule can say nothing, has a tangent."""
    found = [t for t in tangents if type(t) is not Zero]
    if found:
        raise DerivativeRuleError(
            f"`{name}` has its own derivative, but uses a value from outside by which it is differentiated.",
            got=f"captured: {type_of(found[0]).text()}",
            do="Pass the value as an argument: the derivative rule only speaks of arguments.",
        )


# Symbolic zeros -----------------------------------------------------------------------------------------


class SymbolicZero(Described):
    """A tangent or cotangent known to be zero, as rules with `symbolic_zeros=True` get it; it is no array."""

    __slots__ = ("aval",)

    def __init__(self, aval: Any) -> None:
        self.aval = aval

    @staticmethod
    def from_primal_value(val: Any) -> SymbolicZero:
        """The zero tangent of `val`."""
        return SymbolicZero(type_of(val).tangent())

    def __repr__(self) -> str:
        return f"SymbolicZero({self.aval.text()})"


def zero_from_primal(val: Any, symbolic_zeros: bool = False) -> Any:
    """A zero tangent of `val`: an array, or a SymbolicZero."""
    return SymbolicZero.from_primal_value(val) if symbolic_zeros else zeros(type_of(val).tangent())


def as_rule_sees(tangent: Any, symbolic_zeros: bool) -> Any:
    """A tangent as the user's rule gets it."""
    if type(tangent) is not Zero:
        return tangent
    return SymbolicZero(tangent.aval) if symbolic_zeros else instantiate(tangent)


# The class users see -------------------------------------------------------------------------------------


class Signature:
    """How calls of a function with a derivative of its own turn into positional arguments."""

    def __init__(
        self, function: Callable[..., Any], nondiff_argnums: Any, nondiff_argnames: Any
    ) -> None:
        self.function = function
        self.name = name_of(function)
        try:
            self.signature: inspect.Signature | None = inspect.signature(function)
        except (ValueError, TypeError):
            self.signature = None
        parameters = [] if self.signature is None else list(self.signature.parameters.values())
        self.is_plain = all(
            p.default is p.empty for p in parameters if p.kind is not p.KEYWORD_ONLY
        )
        self.nondiff: tuple[int, ...] = tuple(
            sorted({*indices(nondiff_argnums, "nondiff_argnums")})
        )
        if names(nondiff_argnames, "nondiff_argnames"):
            chosen, _ = resolve_arguments(function, None, nondiff_argnames, "nondiff")
            self.nondiff = tuple(sorted({*self.nondiff, *chosen}))

    def positional(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
        """All arguments by position, defaults included."""
        if self.signature is None or (not kwargs and self.is_plain):
            if kwargs:
                raise ArgumentTypeError(
                    f"`{self.name}` takes positional arguments only: its signature is unknown."
                )
            return args
        try:
            bound = self.signature.bind(*args, **kwargs)
        except TypeError as error:
            raise ArgumentTypeError(
                f"`{self.name}` was called with arguments that don't fit.", got=str(error)
            ) from None
        bound.apply_defaults()
        if any(name in kwargs for name in bound.kwargs):
            raise ArgumentTypeError(
                f"`{self.name}` has its own derivative, so all its arguments must have positions.",
                got=f"only by keyword: {', '.join(name for name in bound.kwargs if name in kwargs)}",
                do="Bind them with functools.partial, or make them positional.",
            )
        return bound.args

    def split(self, args: tuple[Any, ...]) -> tuple[list[Any], list[Any]]:
        """(arguments that are differentiated, the others)."""
        if not self.nondiff:
            return list(args), []
        if self.nondiff[-1] >= len(args):
            raise ArgumentTypeError(
                f"nondiff_argnums names argument {self.nondiff[-1]} of `{self.name}`, which was not given.",
                got=f"got {len(args)} positional arguments",
            )
        return [x for i, x in enumerate(args) if i not in self.nondiff], [
            args[i] for i in self.nondiff
        ]

    def joined(self, differentiated: Sequence[Any], others: Sequence[Any]) -> list[Any]:
        """All arguments in their order: the inverse of `split`."""
        args = list(differentiated)
        for i, x in zip(self.nondiff, others, strict=True):
            args.insert(i, x)
        return args


class ForwardsDefinitions:
    """A decorated function `fun` whose decorator has definitions of its own (`def…`); those it lacks are `fun`'s.

    So decorators can be stacked: `custom_vjp(custom_vmap(f)).def_vmap` defines the batching rule.
    """

    fun: Callable[..., Any]

    def __getattr__(self, name: str) -> Any:
        if name.startswith("def") and "fun" in self.__dict__:
            return getattr(self.fun, name)
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")


class CustomFunction(ForwardsDefinitions):
    """A function with its own derivative, as users call it."""

    def __init__(
        self, fun: Callable[..., Any], nondiff_argnums: Any, nondiff_argnames: Any
    ) -> None:
        check_callable(fun, type(self).__name__)
        self.__wrapped__ = fun
        for attribute in ("__module__", "__name__", "__qualname__", "__doc__"):
            if hasattr(fun, attribute):
                setattr(self, attribute, getattr(fun, attribute))
        self.fun = fun
        self.signature = Signature(fun, nondiff_argnums, nondiff_argnames)
        self.nondiff_argnums = self.signature.nondiff

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError(type(self))

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else lambda *args, **kwargs: self(instance, *args, **kwargs)


class custom_jvp(CustomFunction):
    """Decorator for a function whose forward derivative you define with `defjvp` or `defjvps`.

    The rule gets tuples of primals and tangents and gives (result, tangent of the result). Arguments at
    `nondiff_argnums` (or `nondiff_argnames`) are not differentiated: the rule gets them first, as they are.

    >>> from pellucid import jvp
    >>> @custom_jvp
    ... def f(x):
    ...     return x * x
    >>> @f.defjvp
    ... def f_jvp(primals, tangents):
    ...     return f(*primals), 10.0 * tangents[0]
    >>> jvp(f, (3.0,), (1.0,))
    (9.0, 10.0)
    """

    def __init__(
        self,
        fun: Callable[..., Any],
        nondiff_argnums: Sequence[int] = (),
        nondiff_argnames: Sequence[str] = (),
    ) -> None:
        super().__init__(fun, nondiff_argnums, nondiff_argnames)
        self.jvp: Callable[..., Any] | None = None
        self.symbolic_zeros = False

    def defjvp(self, jvp: Callable[..., Any], symbolic_zeros: bool = False) -> Callable[..., Any]:
        """Define the derivative: `jvp(primals, tangents)` gives (result, tangent).

        With `symbolic_zeros`, tangents known to be zero are `SymbolicZero`s instead of arrays.
        """
        check_callable(jvp, "defjvp")
        self.jvp = jvp
        self.symbolic_zeros = symbolic_zeros
        return jvp

    def defjvps(self, *jvps: Callable[..., Any] | None) -> None:
        """Define the derivative one argument at a time: `jvps[i](tangent, result, *primals)`, or None for zero."""
        if self.nondiff_argnums:
            raise ArgumentTypeError("defjvps can't be used with nondiff_argnums.", do="Use defjvp.")

        def rule(primals: Operands, tangents: Operands) -> Any:
            result = self(*primals)
            leaves, tree = flatten(result)
            total: list[Any] = [Zero(type_of(x).tangent()) for x in leaves]
            for t, jvp in zip(tangents, jvps, strict=True):
                if jvp is not None:
                    terms = tree.flatten_up_to(jvp(t, result, *primals))
                    total = [add_tangents(a, b) for a, b in zip(total, terms, strict=True)]
            return result, tree.unflatten([instantiate(t) for t in total])

        self.defjvp(rule)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self.jvp is None:
            raise DerivativeRuleError(f"`{self.signature.name}` is a custom_jvp, but no derivative was given to it.",
                                      do="Define it with defjvp or defjvps.")  # fmt: skip
        args = self.signature.positional(args, kwargs)
        differentiated, others = self.signature.split(args)
        others = [
            tree_map(lambda x: stop_gradient(x) if isinstance(x, Tracer) else x, x) for x in others
        ]
        leaves, tree = flatten(differentiated)
        leaves = checked_leaves(leaves, "custom_jvp", self.fun, args, {})
        run = _Run(self, tree, others)
        debug = lambda: DebugInfo(self.signature.name)
        call = CustomJvpCall(
            self.signature.name,
            run.function,
            run.rule,
            name_of(self.jvp),
            self.symbolic_zeros,
            debug,
        )
        results = context.trace.custom_jvp_call(call, tuple(leaves))
        return run.out_tree.unflatten(results)


class _Run:
    """One call of a custom_jvp function: the user's functions as functions of flat values."""

    def __init__(self, custom: custom_jvp, in_tree: Any, others: list[Any]) -> None:
        self.custom = custom
        self.in_tree = in_tree
        self.others = others
        self.out_tree: Any = None
        self.out_avals: list[Any] | None = None

    def function(self, *leaves: Any) -> list[Any]:
        custom = self.custom
        args = custom.signature.joined(self.in_tree.unflatten(leaves), self.others)
        results, self.out_tree = result_leaves(custom.fun(*args), "custom_jvp", custom.fun)
        self.out_avals = [type_of(x) for x in results]
        return results

    def rule(self, primals: Operands, tangents: Operands) -> tuple[list[Any], list[Any]]:
        custom = self.custom
        seen = [as_rule_sees(t, custom.symbolic_zeros) for t in tangents]
        given = tuple(self.in_tree.unflatten(primals)), tuple(self.in_tree.unflatten(seen))
        pair = custom.jvp(*self.others, *given)  # type: ignore[misc]
        rule = f"the jvp rule `{name_of(custom.jvp)}` of `{custom.signature.name}`"  # type: ignore[arg-type]
        if not isinstance(pair, (tuple, list)) or len(pair) != 2:
            raise DerivativeRuleError(
                f"{rule} must return a pair (result, tangent).",
                got=f"it returned {described(pair)}",
            )
        results, tree = result_leaves(pair[0], "custom_jvp", custom.fun)
        avals = [type_of(x) for x in results]
        check_same_result(rule, tree, avals, self.out_tree, self.out_avals)
        self.out_tree = tree
        return results, checked_tangents(rule, pair[1], tree, avals)


def check_same_result(
    rule: str, tree: Any, avals: Avals, out_tree: Any, out_avals: Avals | None
) -> None:
    """Raise DerivativeRuleError unless a rule's result has the type of the function's, where that is known."""
    if out_avals is None:
        return
    same = tree == out_tree and all(
        a.shape == b.shape and a.dtype == b.dtype for a, b in zip(avals, out_avals, strict=True)
    )
    if not same:
        raise DerivativeRuleError(
            f"{rule} returned a result of another type than the function.",
            got=[
                f"rule: {typed_tree(tree, avals)}",
                f"function: {typed_tree(out_tree, out_avals)}",
            ],
        )


def typed_tree(tree: Any, avals: Avals) -> str:
    """A structure with types at its leaves."""
    return str(tree.unflatten(list(avals)))


def checked_tangents(rule: str, tangent: Any, tree: Any, avals: Avals) -> list[Any]:
    """Leaves of a tangent that a rule returned; raises DerivativeRuleError where it doesn't fit the result."""
    pairs, tangent_tree = flatten_with_path(tangent, lambda path, x: isinstance(x, SymbolicZero))
    if tangent_tree != tree:
        raise DerivativeRuleError(
            f"{rule} returned a tangent of another structure than the result.",
            got=[d.text("tangent") for d in structure_differences(tree, tangent_tree)[:3]],
        )
    checked: list[Any] = []
    for (path, t), aval in zip(pairs, avals, strict=True):
        expected = aval.tangent()
        found = type_of(t)
        if found.shape != expected.shape or found.dtype != expected.dtype:
            raise DerivativeRuleError(
                f"{rule} returned a tangent of another type than the result.",
                got=f"{shown_path('tangent', path)}: got {found.text()}, expected {expected.text()}",
            )
        is_zero = isinstance(t, SymbolicZero) or expected.dtype == dtypes.float0
        checked.append(Zero(expected) if is_zero else t)
    return checked

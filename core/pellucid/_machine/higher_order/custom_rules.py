"""Common parts of `custom_jvp`, `custom_vjp`, `custom_vmap` and `linear_call`.

Each of them calls a user function with user-defined derivative or batching. This module has the decorated function and
its signature, a call of it as functions of flat values, its batched form, and the primitive of a staged call.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import compress
from typing import Any, NamedTuple

import numpy as np

from pellucid._machine.base import (
    ArgumentTypeError,
    DerivativeRuleError,
    Function,
    Keywords,
    PellucidError,
    identity,
    is_user_file,
    strict_zip,
    tree_map,
    wrapping,
)
from pellucid._machine.base.late import late
from pellucid._machine.ir import (
    Avals,
    BatchAxis,
    BatchDim,
    ClosedJaxpr,
    Described,
    Dims,
    HigherOrderPrimitive,
    Jaxpr,
    Mask,
    OneJaxprPrimitive,
    Operands,
    P,
    Results,
    Shown,
    Values,
    Zero,
    remove_dead_equations,
)
from pellucid._machine.primitives import brought_to, instantiate, zeros
from pellucid._machine.tracing import (
    Captured,
    as_rule_operands,
    bind,
    bottom,
    check_distinct,
    context,
    indices,
    inline_on_cells,
    is_reference,
    name_of,
    replay,
    resolve_arguments,
    signature_of,
    traced_values_in,
    type_of,
    types_of,
    use_own_source,
)
from pellucid._machine.transforms import (
    batch_flat,
    by_program,
    check_callable,
    describe_value,
    flat_arguments,
    nonzero,
    nonzero_mask,
    result_leaves,
    stage_open,
)
from pellucid._machine.xla import name_in_pickles

from .structured import Structured

# Symbolic zeros -----------------------------------------------------------------------------------------


class SymbolicZero(Described):
    """A tangent or cotangent known to be zero, as passed to rules with `symbolic_zeros=True`; not an array.

    >>> @pl.custom_jvp
    ... def scaled(x, y):
    ...     return x * y
    >>> def rule(primals, tangents):
    ...     print(tangents[1])
    ...     return scaled(*primals), tangents[0] * primals[1]
    >>> _ = scaled.defjvp(rule, symbolic_zeros=True)
    >>> pl.grad(scaled)(2.0, 3.0)
    SymbolicZero(f32[])
    Array(3., dtype=float32, weak_type=True)
    """

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
    """A zero tangent for each array in the tree `val`: an array of its shape, or a SymbolicZero.

    >>> zero_from_primal({"w": np.float32(3)})
    {'w': Array(0., dtype=float32)}
    """
    if symbolic_zeros:
        return tree_map(SymbolicZero.from_primal_value, val)
    return tree_map(lambda x: zeros(type_of(x).tangent()), val)


def as_rule_argument(tangent: Any, symbolic_zeros: bool) -> Any:
    """Converts a tangent or cotangent to the form that the user's rule expects."""
    if type(tangent) is not Zero:
        return tangent
    if symbolic_zeros:
        return SymbolicZero(tangent.aval)
    value = instantiate(tangent)
    # A scalar zero of a program is a Python number, without an array's attributes.
    return (
        bottom().scalar(value, tangent.aval)
        if isinstance(value, (float, complex, np.generic))
        else value
    )


# The decorated function ---------------------------------------------------------------------------------


class Signature:
    """Signature of a function with custom rules: binds arguments of a call to positions."""

    def __init__(
        self, function: Function, nondiff_argnums: Any = (), nondiff_argnames: Any = ()
    ) -> None:
        self.name = name_of(function)
        self.signature = signature_of(function)
        parameters = [] if self.signature is None else list(self.signature.parameters.values())
        self.is_plain = all(
            p.default is p.empty for p in parameters if p.kind is not p.KEYWORD_ONLY
        )
        from_names, _ = resolve_arguments(function, None, nondiff_argnames or None, "nondiff")
        self.nondiff = tuple(sorted({*indices(nondiff_argnums, "nondiff_argnums"), *from_names}))

    def positional(self, args: tuple[Any, ...], kwargs: Keywords) -> tuple[Any, ...]:
        """All arguments by position, including defaults."""
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
        keywords = [name for name in bound.kwargs if name in kwargs]
        if keywords:
            raise ArgumentTypeError(
                f"`{self.name}` has rules of its own, so it takes all arguments by position.",
                got=f"only by keyword: {', '.join(keywords)}",
                do="Bind them with functools.partial, or make them positional.",
            )
        return bound.args

    def split(self, args: Operands) -> tuple[Values, Values]:
        """Splits arguments into (differentiated ones, others)."""
        if self.nondiff and self.nondiff[-1] >= len(args):
            raise ArgumentTypeError(
                f"nondiff_argnums names argument {self.nondiff[-1]} of `{self.name}`, which was not given.",
                got=f"got {len(args)} positional arguments",
            )
        differentiated = [x for i, x in enumerate(args) if i not in self.nondiff]
        return differentiated, [args[i] for i in self.nondiff]

    def join_arguments(self, differentiated: Operands, others: Operands) -> Values:
        """All arguments in order: the inverse of `split`."""
        args = list(differentiated)
        for i, x in strict_zip(self.nondiff, others):
            args.insert(i, x)
        return args


class ForwardsDefinitions:
    """A decorated function `fun` with methods that define rules (`def…`); missing ones are forwarded to `fun`.

    So decorators can be stacked: `custom_vjp(custom_vmap(f)).def_vmap` defines the batching rule.
    """

    def __init__(self, fun: Function) -> None:
        check_callable(fun, type(self).__name__)
        wrapping(fun, updated=())(self)  # pyright: ignore[reportArgumentType]  # subclasses are called
        self.fun = fun

    def __reduce_ex__(self, protocol: Any) -> Any:
        return name_in_pickles(self) or super().__reduce_ex__(protocol)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("def") and "fun" in self.__dict__:
            return getattr(self.fun, name)
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")


class CustomFunction(ForwardsDefinitions):
    """A function with a custom derivative, as called by users."""

    symbolic_zeros = False
    is_defined = False
    definitions = ""
    """Names of the methods that define the derivative, for messages."""

    def __init__(
        self,
        fun: Function,
        nondiff_argnums: Sequence[int] = (),
        nondiff_argnames: Sequence[str] = (),
    ) -> None:
        super().__init__(fun)
        self.signature = Signature(fun, nondiff_argnums, nondiff_argnames)
        self.nondiff_argnums = self.signature.nondiff

    keeps_references_apart = False
    """Whether its rules must not get the same reference twice."""

    def _bound_call(self, call: FlatCall) -> Any:
        """The call on flat values for traces, with the user's rules."""
        raise NotImplementedError(type(self))

    def _rules(self) -> tuple[Function | None, ...]:
        """The user's rules."""
        raise NotImplementedError(type(self))

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if not self.is_defined:
            raise DerivativeRuleError(
                f"`{self.signature.name}` is a {type(self).__name__}, but no derivative was given to it.",
                do=f"Define it with {self.definitions}.",
            )
        args = self.signature.positional(args, kwargs)
        differentiated, others = self.signature.split(args)
        leaves, tree = flat_arguments(tuple(differentiated), type(self).__name__, self.fun, args)
        if self.keeps_references_apart and any(map(is_reference, leaves)):
            check_distinct(f"`{self.signature.name}`", (), leaves)
        leaves = tuple(map(late("typed number"), leaves))
        call = FlatCall(self, tree, others, types_of(leaves))
        bound = self._bound_call(call)
        captured = () if context.trace.is_eager else traced_values_in(*self._rules(), call.others)
        if captured:
            bound = bound.with_captured_values(Captured(self, captured))
        results = context.trace.custom_call(bound, (*captured, *leaves))
        return call.out_tree.unflatten(results)

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else lambda *args, **kwargs: self(instance, *args, **kwargs)


class UserRule(NamedTuple):
    """A rule of a call: `function(subject, *arguments)`. Equal for equal subjects, so that repeated layers are
    detected.
    """

    function: Function
    subject: Any

    def __call__(self, *arguments: Any) -> Any:
        return self.function(self.subject, *arguments)


def call_rule(rule: Function, *arguments: Any) -> Any:
    """Calls a rule, or the function that has it. If it is the user's, the equations that it makes have its own lines.

    Those of the library have the line of the call of which they are the derivative.
    """
    code = getattr(inspect.unwrap(rule), "__code__", None)
    if context.source is None or code is None or not is_user_file(code.co_filename):
        return rule(*arguments)
    with use_own_source():
        return rule(*arguments)


@dataclass(eq=False)
class FlatCall:
    """A call of a function with custom rules, as a function of flat values.

    `others` are the arguments that are not differentiated; `in_tree` is the structure of the tuple of differentiated
    ones. Equal for calls of the same object with the same other arguments and arguments of the same types.
    """

    custom: CustomFunction
    in_tree: Any
    others: Values
    in_avals: Avals
    out_tree: Any = None
    out_avals: Avals | None = None

    def __post_init__(self) -> None:
        self.caller = type(self.custom).__name__
        self.name = self.custom.signature.name

    def __eq__(self, other: object) -> bool:
        return (
            type(other) is FlatCall
            and self.custom is other.custom
            and (self.in_tree, *self.in_avals) == (other.in_tree, *other.in_avals)
            and [*map(identity, self.others)] == [*map(identity, other.others)]
        )

    def __hash__(self) -> int:
        return hash((id(self.custom), *self.in_avals))

    def arguments(self, differentiated: Operands) -> Values:
        """The arguments of the user's function, from the differentiated ones."""
        return self.custom.signature.join_arguments(differentiated, self.others)

    def function(self, *leaves: Any) -> Values:
        """Flat results of the user's function."""
        fun, arguments = self.custom.fun, self.arguments(self.in_tree.unflatten(leaves))
        result = call_rule(fun, *arguments)
        results, self.out_tree = result_leaves(result, self.caller, fun)
        self.out_avals = types_of(results)
        return results

    def rule_name(self, kind: str, rule: Any) -> str:
        """Name of the user's rule in messages."""
        return f"the {kind} rule `{name_of(rule)}` of `{self.name}`"

    def rule_results(self, rule: str, value: Any) -> Values:
        """Flat results of a rule; raises DerivativeRuleError if their types differ from the function's."""
        results, tree = result_leaves(value, self.caller, self.custom.fun)
        avals = types_of(results)
        if self.out_avals is not None:
            types = [(a.shape, a.dtype) for a in avals]
            if tree != self.out_tree or types != [(a.shape, a.dtype) for a in self.out_avals]:
                raise DerivativeRuleError(
                    f"{rule} returned a result of another type than the function.",
                    got=[
                        f"rule: {tree.unflatten(avals)}",
                        f"function: {self.out_tree.unflatten(self.out_avals)}",
                    ],
                )
        self.out_tree = tree
        return results


def refuse_tangents(
    captured: Captured, function: Function, operands: Operands, differentiated: Mask
) -> None:
    """Raises DerivativeRuleError if `function` depends on a captured value that is `differentiated`.

    `operands` are those of the function, which is traced to find its dependencies, if it wasn't run before.
    """
    if any(differentiated):
        if captured.used is None:
            stage_open(function, types_of(operands), None)
        values, _ = captured.split(operands)
        used = [x for i, x in enumerate(values) if differentiated[i] and i in captured.used]  # pyright: ignore[reportOperatorIssue]
        refuse_captured_tangents(name_of(captured.owner), used)  # pyright: ignore[reportArgumentType]


def as_pair(
    value: Any, rule: str, contents: str, error: type[PellucidError] = DerivativeRuleError
) -> tuple[Any, Any]:
    """`value` returned by a rule; raises `error` unless it is a pair of `contents`."""
    if not isinstance(value, (tuple, list)) or len(value) != 2:
        raise error(
            f"{rule} must return a pair ({contents}).", got=f"it returned {describe_value(value)}"
        )
    return value[0], value[1]


# Batches ------------------------------------------------------------------------------------------------


def batch_with_zeros(
    function: Callable[..., Results],
    axis: BatchAxis,
    operands: Operands,
    dims: Dims,
    tag: object = None,
) -> tuple[Values, list[BatchDim]]:
    """`batch_flat` for operands and results that may be `Zero`.

    A `Zero` operand has the type of a batch; a `Zero` result has the type of an element, and no batch axis.
    """
    mask = nonzero_mask(operands)
    elements: Values = []

    # `values` are the nonzero operands; `inputs` all of them, `elements` all results, of which the nonzero ones are returned.
    def run(*values):
        rest = iter(values)
        inputs = [
            next(rest) if nz else Zero(x.aval if d is None else x.aval.without_dim(d))
            for x, d, nz in strict_zip(operands, dims, mask)
        ]
        elements[:] = function(*inputs)
        return nonzero(elements)

    results, result_dims = batch_flat(
        run, axis, list(compress(operands, mask)), list(compress(dims, mask)), tag
    )
    # All results again: a `Zero`, or the next of the nonzero ones.
    pairs = iter(strict_zip(results, result_dims))
    merged = [(x, None) if type(x) is Zero else next(pairs) for x in elements]
    return [x for x, _ in merged], [d for _, d in merged]


class ResultPlaces:
    """Batch axes of the results of a batched call: determined by the first run, and kept.

    Results have none only if no operand is batched and the first run captured no batched value. `tag` is that of the
    BatchTrace whose values the call's functions may capture.
    """

    def __init__(self, name: str, axis: BatchAxis, dims: Dims, tag: object) -> None:
        self.name = name
        self.tag = tag
        self.axis = axis
        self.always = axis.name is not None or any(d is not None for d in dims)
        self.dims: list[BatchDim] = []

    def __eq__(self, other: object) -> bool:
        return type(other) is ResultPlaces and self._key() == other._key()

    def __hash__(self) -> int:
        return hash((self.name, self.axis, self.always))

    def _key(self) -> tuple[Any, ...]:
        return self.name, self.axis, self.always, self.dims

    def place(self, results: Results, dims: Dims, tangent_dims: Dims = ()) -> Values:
        """`results` with batch axes at `dims`, moved to the axes determined by the first run.

        `tangent_dims` are the batch axes of their tangents, if a rule computed these, too.
        """
        if not self.dims:
            always = self.always or any(d is not None for d in (*dims, *tangent_dims))
            self.dims[:] = [0 if d is None and always else d for d in dims]
        elif None in self.dims:
            self.check_no_batch_axis((*dims, *tangent_dims))
        return self.move_batch_axes(results, dims)

    def move_batch_axes(self, values: Operands, dims: Dims) -> Values:
        """`values`, one for each result, with their batch axes moved from `dims` to those of the results."""
        return [
            x if place is None or type(x) is Zero else brought_to(self.axis, x, d, place)
            for x, d, place in strict_zip(values, dims, self.dims)
        ]

    def check_no_batch_axis(self, dims: Dims) -> None:
        """Raises DerivativeRuleError for a derivative with a batch axis if the results have none."""
        if any(d is not None for d in dims):
            raise DerivativeRuleError(
                f"the derivative of `{self.name}` is batched, but its result isn't.",
                got="a rule that captures a value over which vmap maps; the function doesn't use it",
                do="Pass the value to the function as an argument.",
            )


# The primitives -----------------------------------------------------------------------------------------


class CustomCall(OneJaxprPrimitive[P], Structured[P]):
    """A staged call of a function with user-defined derivative or batching.

    Its program is the field `program_field` of the params; the first `num_consts` inputs are values that the function
    closes over.
    """

    program_field = "call_jaxpr"

    def with_slots(self, params: Any, slots):
        added = slots.operands[0].size - len(self.program(params).in_avals)
        changes = {self.program_field: slots.programs[0].program}
        return params._replace(**changes, num_consts=params.num_consts + added)

    def masked(self, operands, lives, params):
        # The user's rules stay with the call; its program says which elements of its results are live.
        results = bind(self, *operands, params=params)
        return by_program(self.program(params).jaxpr, operands, lives, results)

    def discharge(self, operands, params):
        # Only compilation follows, which doesn't need the user's rules.
        return inline_on_cells(self.program(params).jaxpr, operands)

    dead_code = HigherOrderPrimitive.dead_code


class DerivativeCall(Shown, CustomCall[P]):
    """A staged call of a function with a custom derivative."""

    def call_of(self, params: Any) -> Any:
        """The call that was staged, with the constants as leading operands."""
        raise NotImplementedError(type(self))

    def call_of_functions(self, *functions: Any, **params: Any) -> Any:
        """The call of functions of flat values, for traces of libraries."""
        raise NotImplementedError(type(self))

    def bind(self, *operands: Any, **params: Any) -> Any:
        """Results under the current trace, from an equation's params or, for traces of libraries, from `subfuns`."""
        if "subfuns" not in params:
            return super().bind(*operands, **params)
        call = self.call_of_functions(*params.pop("subfuns"), **params)
        return list(context.trace.custom_call(call, operands))

    def restrict(self, params: Any, used: Mask) -> Any:
        """Params with rules that only return the `used` results."""
        raise NotImplementedError(type(self))

    def jvp(self, primals, tangents, params):
        return self.call_of(params).rule(as_rule_operands(primals), tangents)

    def batch(self, axis, operands, dims, params):
        call, out_dims = self.call_of(params).call_on_batches(axis, dims)
        return context.trace.custom_call(call, operands), out_dims

    def dead_code(self, used, equation):
        used_operands = [True] * len(equation.operands)
        jaxpr = equation.params.call_jaxpr.jaxpr
        program = jaxpr.remembered(
            ("used results", tuple(used)),
            lambda: ClosedJaxpr(remove_dead_equations(jaxpr, used, keep_inputs=True)[0]),
        )
        if all(used) and program.jaxpr.equations == jaxpr.equations:
            return used_operands, equation
        params = equation.params if all(used) else self.restrict(equation.params, used)
        results = list(compress(equation.results, used))
        return used_operands, equation.replace(
            results=results, params=params._replace(call_jaxpr=program)
        )

    def printed_params(self, equation):
        fields = equation.params._asdict()
        shown = {"name": fields.pop("name")}
        for field, value in fields.items():
            if not field.endswith("_name") and (not field.startswith("num_") or value):
                shown[field] = fields.get(f"{field}_name", value)
        return shown


def calling(jaxpr: Jaxpr) -> Callable[..., Values]:
    """A function that runs the program `jaxpr`."""
    return lambda *operands: replay(jaxpr, (), *operands)


def refuse_captured_tangents(name: str, values: Operands) -> None:
    """Raises DerivativeRuleError if `values` captured by the function `name` have tangents, for which it has no rule."""
    if values:
        raise DerivativeRuleError(
            f"`{name}` has its own derivative, but uses a value from outside by which it is differentiated.",
            got=f"captured: {type_of(values[0]).text()}",
            do="Pass the value as an argument: the derivative rule is one by arguments.",
        )

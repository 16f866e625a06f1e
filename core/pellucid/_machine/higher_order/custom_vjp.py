"""`custom_vjp`: functions with user-defined reverse derivatives.

Traces interpret a call as one of `custom_jvp`. When the function is differentiated, the user's forward function runs,
and the tangents are results of an equation `custom_lin`, which only has a transpose rule: the user's backward function.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import compress
from typing import Any, NamedTuple

from pellucid._machine.base import (
    DerivativeRuleError,
    EffectsError,
    Function,
    UnexpectedTracerError,
    UnsupportedError,
    config,
    dtypes,
    is_none,
    leaf_paths,
    shown_path,
    strict_zip,
)
from pellucid._machine.base.late import late
from pellucid._machine.ir import (
    CONTROL,
    Avals,
    BatchAxis,
    BatchDim,
    ClosedJaxpr,
    DebugInfo,
    Dims,
    HigherOrderPrimitive,
    Mask,
    OnReferences,
    Operands,
    Results,
    Runs,
    Shown,
    TransposedByUser,
    Values,
    Zero,
    derived_types,
)
from pellucid._machine.primitives import brought_to, convert_element_type, reduce_sum, vary, zero_of
from pellucid._machine.tracing import (
    Captured,
    Tracer,
    bind,
    is_reference,
    name_of,
    type_of,
    types_of,
)
from pellucid._machine.transforms import (
    batch_flat,
    batched_aval,
    check_callable,
    describe_value,
    nonzero,
    nonzero_mask,
    result_leaves,
    spread,
    stage_open,
    structure_lines,
)
from pellucid._machine.xla import (
    flatten,
    flatten_tangents,
    unflatten_apart,
    unflatten_pairs,
    unflatten_tangents,
)

from .custom_rules import (
    CustomFunction,
    DerivativeCall,
    FlatCall,
    ResultPlaces,
    SymbolicZero,
    UserRule,
    as_pair,
    as_rule_argument,
    batch_with_zeros,
    call_rule,
    calling,
    refuse_captured_tangents,
    refuse_tangents,
)
from .remat_opt import optimized_results

# A call of flat values ----------------------------------------------------------------------------------


class Forward(NamedTuple):
    """Results and residuals of a forward function; `form` is passed to the backward function."""

    results: Values
    residuals: Values
    form: Any


class CustomVjpCall(NamedTuple):
    """A function of flat values with its reverse derivative.

    `forward(operands, perturbed)` returns a `Forward`; `backward(form, residuals, cotangents)` returns a cotangent, or
    `Zero`, for each operand. Cotangents may be `Zero`.
    """

    name: str
    function: Callable[..., Results]
    forward: Callable[[Operands, Mask], Forward]
    backward: Callable[[Any, Operands, Operands], Values]
    forward_name: str
    backward_name: str
    symbolic_zeros: bool
    has_forward_mode: bool = False
    num_captured: int = 0
    """Number of leading operands for values captured by the rules; they have no cotangents."""

    def with_captured_values(self, captured: Captured) -> CustomVjpCall:
        """The call with the values captured by the rules as additional leading operands and residuals.

        The rules have no derivatives for these: results must not depend on them, unless the function uses them, too.
        """
        function = captured.in_function(self.function)

        def forward(operands: Operands, perturbed: Mask) -> Forward:
            # Both lists have an entry per captured value, then one per operand of the user's function.
            (values, rest), (of_captured, own) = map(captured.split, (operands, perturbed))
            refuse_tangents(captured, function, operands, of_captured)
            results, residuals, form = captured.run(self.forward, values, rest, own)
            # Residuals are the captured values, then those of the rule, as `backward` splits them.
            return Forward(results, [*values, *residuals], form)

        def backward(form, residuals, cotangents):
            values, rest = captured.split(residuals)
            # Cotangents: zero for each captured value, then those of the rule.
            own = captured.run(self.backward, values, form, rest, cotangents)
            return [*map(zero_of, values), *own]

        return self._replace(
            function=function, forward=forward, backward=backward, num_captured=len(captured.tracers)
        )  # fmt: skip

    def rule(self, primals: Operands, tangents: Operands) -> tuple[Values, Values]:
        """Results, and tangents that only reverse mode can compute; for references, the tangents of their contents."""
        tangents = [_tangent_value(x, t) for x, t in strict_zip(primals, tangents)]
        # First with captured operands, for which `forward` checks that they aren't differentiated; then without.
        perturbed = tuple(nonzero_mask(tangents))
        results, residuals, form = self.forward(primals, perturbed)
        captured = map(zero_of, primals[: self.num_captured])
        tangents = [*captured, *tangents[self.num_captured :]]
        if not any(nonzero_mask(tangents)):
            return results, [*map(zero_of, results)]
        perturbed = tuple(nonzero_mask(tangents))
        avals = types_of(results)
        tangent_avals = [a.tangent() for a in avals]
        # One flag per result. Integer results have no tangent, so the equation returns none for them.
        differentiable = [a.dtype != dtypes.float0 for a in tangent_avals]
        out_avals = tuple(compress(tangent_avals, differentiable))
        if not out_avals:
            return results, [*map(Zero, tangent_avals)]
        backward = _Backward(self, form, tuple(avals), perturbed)
        # Operands of the equation: residuals, then the tangents of perturbed operands.
        params = CustomLinParams(
            backward, perturbed, len(residuals), out_avals, self.symbolic_zeros
        )
        out_tangents = bind(custom_lin_p, *residuals, *nonzero(tangents), params=params)
        # One tangent per result again, `Zero` for the integers.
        return results, spread(out_tangents, differentiable, avals)

    def stage(self, trace: Any, operands: Operands) -> Values:
        """Stages an equation that calls this into `trace`, and returns its results."""
        debug = DebugInfo("custom_vjp fun", self.name)
        program, consts = stage_open(self.function, types_of(operands), debug)
        params = CustomVjpParams(
            self.backward, self.backward_name, program, self.forward, self.forward_name, self.name, len(consts),
            self.symbolic_zeros, self.num_captured,
        )  # fmt: skip
        return trace.interpret(custom_vjp_call_p, (*consts, *operands), params)

    def call_on_batches(
        self, axis: BatchAxis, dims: Dims, tag: object = None
    ) -> tuple[CustomVjpCall, list[BatchDim]]:
        """(the call on whole batches, list that receives the batch axes of its results when it runs).

        `tag` is that of the BatchTrace whose values the three functions may capture.
        """
        places = ResultPlaces(self.name, axis, dims, tag)

        def function(*operands):
            return places.place(*batch_flat(self.function, axis, operands, dims, tag))

        rules = _BatchedVjp(self.forward, self.backward, axis, tuple(dims), places)
        forward, backward = (
            UserRule(_BatchedVjp.run, rules),
            UserRule(_BatchedVjp.cotangents, rules),
        )
        return self._replace(function=function, forward=forward, backward=backward), places.dims


def _tangent_value(primal: Any, tangent: Any) -> Any:
    """The tangent of an operand; for a reference, the content of its tangent."""
    if is_reference(primal) and type(tangent) is not Zero:
        return tangent.aval.methods["get"](tangent)
    return tangent


class _BatchedVjp(NamedTuple):
    """The rules of a call on whole batches, from those of the call on one element."""

    forward: Callable[[Operands, Mask], Forward]
    backward: Callable[[Any, Operands, Operands], Values]
    axis: BatchAxis
    dims: Dims
    places: ResultPlaces

    def run(self, operands: Operands, perturbed: Mask) -> Forward:
        """Results and residuals; the form is that of one element, with the batch axes of the residuals."""
        inner: list[Forward] = []

        def run(*values):
            # Results, then residuals; the form isn't an array, so it is kept separately.
            inner.append(self.forward(values, perturbed))
            return [*inner[0].results, *inner[0].residuals]

        values, value_dims = batch_flat(run, self.axis, operands, self.dims, self.places.tag)
        n = len(inner[0].results)
        results = self.places.place(values[:n], value_dims[:n])
        # Residuals keep their batch axes, which are stored in the form.
        return Forward(results, values[n:], (inner[0].form, value_dims[n:]))

    def cotangents(self, form: Any, residuals: Operands, cotangents: Operands) -> Values:
        """Cotangents of the operands, summed over the batch for those without a batch axis."""
        places, (inner_form, residual_dims) = self.places, form
        # `values` are residuals, then cotangents with the batch axes of the results.
        n = len(residuals)
        cts, ct_dims = batch_with_zeros(
            lambda *values: self.backward(inner_form, values[:n], values[n:]),
            self.axis, (*residuals, *cotangents), (*residual_dims, *places.dims), places.tag,
        )  # fmt: skip
        if None in places.dims:  # neither results nor operands are batched
            places.check_no_batch_axis(ct_dims)
            return cts
        return _operand_cotangents(self.axis, cts, ct_dims, self.dims)


def _operand_cotangents(axis: BatchAxis, cotangents: Operands, ct_dims: Dims, dims: Dims) -> Values:
    """Cotangents of operands with batch axes at `dims`, summed over the batch for operands without one."""
    cts: Values = []
    # One cotangent per operand: moved to the operand's batch axis, or summed if all elements share the operand.
    for ct, ct_dim, dim in strict_zip(cotangents, ct_dims, dims):
        if type(ct) is Zero:
            cts.append(Zero(batched_aval(ct.aval, axis, dim)))
        elif dim is not None:
            cts.append(brought_to(axis, ct, ct_dim, dim))
        else:
            # An unbatched cotangent applies to each element, so it is repeated before it is summed.
            batch = ct_dim or 0
            cts.append(reduce_sum(brought_to(axis, ct, ct_dim, batch), (batch,)))
    return cts


# The primitives -----------------------------------------------------------------------------------------


class CustomVjpParams(NamedTuple):
    """`call_jaxpr` has no constants: its first `num_consts` inputs are values that the function closes over."""

    bwd: Function
    bwd_name: str
    call_jaxpr: ClosedJaxpr
    fwd: Function
    fwd_name: str
    name: str
    num_consts: int
    symbolic_zeros: bool
    num_captured: int = 0
    """Number of operands, after the constants, for values captured by the rules."""


class CustomVjpCallPrimitive(DerivativeCall[CustomVjpParams]):
    """A staged call of a `custom_vjp` function."""

    name = "custom_vjp_call"
    rule_params = ("fwd", "bwd")

    def call_of(self, params: CustomVjpParams) -> CustomVjpCall:
        n, name, jaxpr = params.num_consts, params.name, params.call_jaxpr.jaxpr
        fwd, bwd, captured_avals = params.fwd, params.bwd, jaxpr.in_avals[:n]

        def forward(operands: Operands, perturbed: Mask) -> Forward:
            # The first `n` operands are closed over: the rules only handle the others.
            refuse_captured_tangents(name, list(compress(operands[:n], perturbed)))
            return fwd(operands[n:], perturbed[n:])

        def backward(form, residuals, cotangents):
            # One cotangent per operand: zeros for closed-over values, then those of the rule.
            captured = [Zero(a.tangent()) for a in captured_avals]
            return [*captured, *bwd(form, residuals, cotangents)]

        return CustomVjpCall(
            name, calling(jaxpr), forward if n else fwd, backward if n else bwd, params.fwd_name, params.bwd_name,
            params.symbolic_zeros, num_captured=0 if n else params.num_captured,
        )  # fmt: skip

    def call_of_functions(self, fun, fwd, bwd, **params: Any) -> CustomVjpCall:
        call = getattr(fwd, "call", None)
        if call is None or call is not getattr(bwd, "call", None):
            raise UnsupportedError(
                "custom_vjp_call: other rules than those that a trace was given can't be bound.",
                do="Pass `fwd` and `bwd` on as they are, or define a function with `custom_vjp` and call it.",
            )
        return call._replace(function=fun.call_wrapped)

    def restrict(self, params: CustomVjpParams, used) -> CustomVjpParams:
        avals = params.call_jaxpr.out_avals

        def forward(operands: Operands, perturbed: Mask) -> Forward:
            # Before: all results. After: the `used` ones, whose cotangents `backward` gets; the others' are zero.
            results, residuals, form = params.fwd(operands, perturbed)
            return Forward(list(compress(results, used)), residuals, form)

        def backward(form, residuals, cotangents):
            return params.bwd(form, residuals, spread(cotangents, used, avals))

        return params._replace(fwd=forward, bwd=backward)


custom_vjp_call_p = CustomVjpCallPrimitive()


class _Backward(NamedTuple):
    """The backward function of a call, for results of types `out_avals` and the operands marked `perturbed`."""

    call: CustomVjpCall
    form: Any
    out_avals: Avals
    perturbed: Mask

    def __call__(self, residuals: Operands, cotangents: Operands) -> Values:
        """Cotangents of the perturbed operands, from those of the differentiable results."""
        # Cotangents are given for non-integer results; the user's function gets one per result.
        differentiable = [a.tangent().dtype != dtypes.float0 for a in self.out_avals]
        full = spread(cotangents, differentiable, self.out_avals)
        # The rule gives a cotangent for each operand; only perturbed ones are operands of the equation.
        return list(compress(self.call.backward(self.form, residuals, full), self.perturbed))


class CustomLinParams(NamedTuple):
    """`perturbed` marks operands of the function with tangents; `out_avals` are types of the results' tangents."""

    bwd: _Backward
    perturbed: Mask
    num_res: int
    out_avals: Avals
    symbolic_zeros: bool


class CustomLin(TransposedByUser, OnReferences, Runs, Shown, HigherOrderPrimitive[CustomLinParams]):
    """The derivative of a `custom_vjp` function: linear in the tangents, known only by its transpose."""

    name = "custom_lin"
    traits = CONTROL.replace(makes_nan=True)
    types = derived_types

    def abstract_eval(self, avals, params):
        return params.out_avals

    def jvp(self, primals, tangents, params):
        n = params.num_res
        if nonzero(tangents[:n]):
            raise self.not_forward(params)
        results = bind(self, *primals, params=params)
        # Operands are `n` residuals, then the tangents of perturbed operands; `mask` marks nonzero ones.
        mask = iter(nonzero_mask(tangents[n:]))
        perturbed = tuple([p and next(mask) for p in params.perturbed])
        backward = params.bwd._replace(perturbed=perturbed)
        inner = params._replace(bwd=backward, perturbed=perturbed)
        return results, bind(self, *primals[:n], *nonzero(tangents[n:]), params=inner)

    def transpose(self, cotangents, operands, params):
        n = params.num_res
        # Residuals are not linear operands, so they have no cotangents.
        return [*[None] * n, *params.bwd(operands[:n], cotangents)]

    def batch(self, axis, operands, dims, params):
        n = params.num_res
        # Results and their cotangents have the batch at axis 0.
        places = [0] * len(params.out_avals)
        out_avals = tuple([batched_aval(a, axis, 0) for a in params.out_avals])

        def backward(form, residuals, cotangents):
            cts, ct_dims = batch_with_zeros(
                lambda *values: params.bwd(values[:n], values[n:]),
                axis, (*residuals, *cotangents), (*dims[:n], *places),
            )  # fmt: skip
            return _operand_cotangents(axis, cts, ct_dims, dims[n:])

        # `backward` only returns cotangents of the perturbed operands, all that are left.
        perturbed = (True,) * (len(operands) - n)
        call = params.bwd.call._replace(backward=backward)
        batched = params._replace(
            bwd=_Backward(call, None, out_avals, perturbed),
            perturbed=perturbed,
            out_avals=out_avals,
        )
        return bind(self, *operands, params=batched), places

    def discharge(self, operands, params):
        raise self.not_forward(params)

    def lower(self, ctx, operands, params):
        raise self.not_forward(params)

    def run(self, operands, params):
        raise self.not_forward(params)

    def not_forward(self, params: CustomLinParams) -> DerivativeRuleError:
        """The error for forward mode."""
        return DerivativeRuleError(
            f"can't apply forward-mode autodiff (jvp) to `{params.bwd.call.name}`, which is a custom_vjp.",
            got=f"it only has a reverse derivative: `{params.bwd.call.backward_name}`",
            do="Use reverse mode (vjp, grad, jacrev), or define the derivative with custom_jvp.",
        )

    def printed_params(self, equation):
        params = equation.params
        return {
            "bwd": params.bwd.call.backward_name, "in_zeros": [not p for p in params.perturbed],
            "num_res": params.num_res, "symbolic_zeros": params.symbolic_zeros,
        }  # fmt: skip


custom_lin_p = CustomLin()

# The class users see -------------------------------------------------------------------------------------


@dataclass(slots=True)
class CustomVJPPrimal:
    """An argument of a forward function with `symbolic_zeros=True`: its `value`, and whether it is `perturbed`.

    >>> @pl.custom_vjp
    ... def scaled(x, y):
    ...     return x * y
    >>> def forward(x, y):
    ...     print(x.perturbed, y.perturbed)
    ...     return x.value * y.value, (x.value, y.value)
    >>> scaled.defvjp(forward, lambda xy, ct: (ct * xy[1], ct * xy[0]), symbolic_zeros=True)
    >>> pl.grad(scaled)(2.0, 3.0)
    True False
    Array(3., dtype=float32, weak_type=True)
    """

    value: Any
    perturbed: bool


def custom_vjp_primal_tree_values(tree: Any) -> Any:
    """The tree of the values in a tree of `CustomVJPPrimal`s.

    Raises: DerivativeRuleError for other leaves.

    >>> custom_vjp_primal_tree_values({"w": CustomVJPPrimal(2.0, True)})
    {'w': 2.0}
    """
    leaves, structure = flatten(tree)
    for leaf in leaves:
        if type(leaf) is not CustomVJPPrimal:
            raise DerivativeRuleError(
                "custom_vjp_primal_tree_values needs a tree of CustomVJPPrimal.",
                got=f"{type(leaf).__name__}",
            )
    return structure.unflatten([leaf.value for leaf in leaves])


class custom_vjp(CustomFunction):
    """Decorator for a function whose reverse derivative is defined with `defvjp(fwd, bwd)`.

    `fwd` takes the function's arguments and returns (result, residuals). `bwd` takes the residuals and a cotangent of
    the result, and returns a tuple of cotangents, one for each argument (None for zero). Arguments at `nondiff_argnums`
    (or `nondiff_argnames`) are not differentiated, and are the first arguments of `bwd`.

    Raises: DerivativeRuleError for a call without rules, for results of `fwd` and cotangents of another structure, shape
    or dtype than the function's results and arguments, and for forward mode.

    >>> from pellucid import grad
    >>> @custom_vjp
    ... def f(x):
    ...     return x * x
    >>> f.defvjp(lambda x: (f(x), x), lambda x, ct: (10.0 * ct,))
    >>> grad(f)(3.0)
    Array(10., dtype=float32, weak_type=True)
    """

    definitions = "defvjp"
    fwd: Function | None = None
    bwd: Function | None = None
    optimize_remat = False
    keeps_references_apart = True

    def defvjp(
        self,
        fwd: Function,
        bwd: Function,
        symbolic_zeros: bool = False,
        optimize_remat: bool = False,
    ) -> None:
        """Defines the derivative by a forward and a backward function.

        With `symbolic_zeros`, the leaves of `fwd`'s arguments are `CustomVJPPrimal`s, and cotangents known to be zero
        are `SymbolicZero`s. With `optimize_remat`, a program that runs `fwd` but doesn't need its residuals runs the
        function instead.
        """
        check_callable(fwd, "defvjp")
        check_callable(bwd, "defvjp")
        if symbolic_zeros and optimize_remat:
            raise DerivativeRuleError(
                "defvjp: optimize_remat can't be combined with symbolic_zeros."
            )
        self.fwd, self.bwd, self.is_defined = fwd, bwd, True
        self.symbolic_zeros = symbolic_zeros
        self.optimize_remat = optimize_remat

    def _rules(self):
        return self.fwd, self.bwd

    def _bound_call(self, call):
        for x in flatten(call.others)[0] if call.others else ():
            if isinstance(x, Tracer):
                raise UnexpectedTracerError(
                    f"`{call.name}` got a traced value as an argument that is not differentiated (nondiff_argnums).",
                    got=repr(x),
                    do="nondiff_argnums is for functions and settings; make array arguments differentiable.",
                )
        rules = _Rules(self, call, self.fwd, self.bwd)  # pyright: ignore[reportArgumentType]
        return CustomVjpCall(
            call.name, call.function,
            UserRule(_Rules.optimized_forward if self.optimize_remat else _Rules.forward, rules),
            UserRule(_Rules.backward, rules), name_of(rules.fwd), name_of(rules.bwd), self.symbolic_zeros,
        )  # fmt: skip


class _Rules(NamedTuple):
    """The rules of a call of a custom_vjp function, as functions of flat values."""

    custom: custom_vjp
    call: FlatCall
    fwd: Function
    bwd: Function

    def optimized_forward(self, operands: Operands, perturbed: Mask) -> Forward:
        """`forward` as one equation, which only runs the function if no residuals are needed."""
        parts: list[Forward] = []

        def flat(*leaves):
            # Results, then residuals, as one list of values.
            parts.append(self.forward(leaves, perturbed))
            return [*parts[0].results, *parts[0].residuals]

        values = optimized_results(flat, self.call.function, operands, self.call.name)
        n = len(parts[0].results)
        return Forward(values[:n], values[n:], parts[0].form)

    def forward(self, operands: Operands, perturbed: Mask) -> Forward:
        """Results and residuals of the user's forward function; the form contains their structures."""
        call = self.call
        if self.custom.symbolic_zeros:
            differentiated = unflatten_pairs(call.in_tree, operands, perturbed, CustomVJPPrimal)
        else:
            differentiated = call.in_tree.unflatten(operands)
        rule = call.rule_name("fwd", self.fwd)
        pair = as_pair(
            call_rule(self.fwd, *call.arguments(differentiated)), rule, "result, residuals"
        )
        results = call.rule_results(rule, pair[0])
        residuals, tree = result_leaves(pair[1], "custom_vjp", self.fwd, may_be_references=True)
        taken = {*map(id, operands)}
        new = [x for x in residuals if is_reference(x) and id(x) not in taken]
        if new:
            raise EffectsError(
                f"{rule} may give no references but its arguments as residuals.",
                got=f"a residual of type {type_of(new[0]).text()}",
                do="Give what it holds, `ref[...]`.",
            )
        return Forward(results, residuals, (call.out_tree, tree))

    def backward(self, form: Any, residuals: Operands, cotangents: Operands) -> Values:
        """Flat cotangents of the user's backward function, after checking them; `Zero` for None."""
        out_tree, residual_tree = form
        arguments = [as_rule_argument(ct, self.custom.symbolic_zeros) for ct in cotangents]
        saved = residual_tree.unflatten(map(late("typed number"), residuals))
        given = unflatten_tangents(out_tree, arguments)
        result = call_rule(self.bwd, *self.call.others, saved, given)
        return _checked_cotangents(self.call, self.call.rule_name("bwd", self.bwd), result)


def _checked_cotangents(call: FlatCall, rule: str, result) -> Values:
    """Leaves of the result of a backward function; raises DerivativeRuleError if they don't match the arguments."""
    children = call.in_tree.children()
    result = tuple(result) if isinstance(result, list) else result
    if not isinstance(result, tuple) or len(result) != len(children):
        shown = f"tuple of {len(result)}" if isinstance(result, tuple) else describe_value(result)
        raise DerivativeRuleError(
            f"{rule} must return a tuple, one cotangent for each argument.",
            got=f"got {shown}, expected tuple of {len(children)}",
            do="Use None for arguments whose cotangent is zero; a single cotangent is written `(ct,)`.",
        )
    cotangents: Values = []
    for position, (part, child) in enumerate(strict_zip(result, children)):
        # One cotangent per leaf of all arguments, None for zero.
        cotangents += _leaves_like(rule, position, part, child)
    checked: Values = []
    for i, (ct, aval) in enumerate(strict_zip(cotangents, call.in_avals)):
        expected = aval.tangent()
        is_zero = ct is None or isinstance(ct, (Zero, SymbolicZero))
        if is_zero or expected.dtype == dtypes.float0:
            checked.append(Zero(expected))
            continue
        if config.disable_bwd_checks.value:
            checked.append(ct)
            continue
        ct_aval = type_of(ct)
        if ct_aval.dtype != expected.dtype and _is_rounded(ct_aval.dtype, expected.dtype):
            # Mixed-precision rules may return another floating dtype.
            ct = convert_element_type(ct, expected.dtype)  # pyright: ignore[reportArgumentType]  # no zero: these were taken above
            ct_aval = type_of(ct)
        differs = not ct_aval.varying <= expected.varying
        if ct_aval.shape != expected.shape or ct_aval.dtype != expected.dtype or differs:
            path = leaf_paths(call.in_tree)[i]
            raise DerivativeRuleError(
                f"{rule} returned a cotangent of another type than its argument.",
                got=f"{shown_path('cotangents', path)}: got {ct_aval.text()}, expected {expected.text()}",
                do="Sum it with `psum`: the argument is the same along that mesh axis."
                if differs
                else None,
            )
        checked.append(vary(ct, expected.varying))
    return checked


def _is_rounded(dtype: Any, expected: Any) -> bool:
    """Whether values of `dtype` only differ in precision from `expected`: both real, or both complex."""
    return any({dtype, expected} <= {*kind} for kind in (dtypes.FLOATS, dtypes.COMPLEXES))


def _leaves_like(rule: str, position: int, part, tree) -> Values:
    """The cotangents in `part`, one for each leaf of `tree`, the structure of the argument.

    In `part`, None may replace a whole subtree, and an array a subtree of one leaf.
    """
    leaves, part_tree = flatten_tangents(tree, part, is_none)
    if part_tree == tree:
        return leaves
    try:
        parts = part_tree.flatten_up_to(unflatten_apart(tree, [0] * tree.num_leaves))
    except (TypeError, ValueError):
        parts = None
    subtrees = [] if parts is None else [flatten(p)[1] for p in parts]
    if parts is None or any(
        x is not None and subtree.num_leaves != 1 for x, subtree in strict_zip(leaves, subtrees)
    ):
        raise DerivativeRuleError(
            f"{rule} returned a cotangent of another structure than its argument.",
            got=structure_lines(f"cotangents[{position}]", tree, part_tree, leaves),
        )
    # None is repeated for each leaf of the subtree that it replaces.
    return [x for x, t in strict_zip(leaves, subtrees) for _ in range(t.num_leaves)]

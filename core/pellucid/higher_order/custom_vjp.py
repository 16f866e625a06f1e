"""`custom_vjp`: a function whose reverse derivative the user defines.

When it is differentiated, the user's forward function runs, and an equation `custom_lin` stands for the derivative,
which is not known: only its transpose is, the user's backward function.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import compress
from typing import Any, NamedTuple

from pellucid.base import dtypes
from pellucid.base.errors import DerivativeRuleError, UnexpectedTracerError
from pellucid.base.tree import (
    register_pytree_node,
    shown_path,
    structure_differences,
    tree_flatten,
)
from pellucid.higher_order.custom_jvp import (
    CustomCall,
    CustomFunction,
    ResultPlaces,
    SymbolicZero,
    as_rule_sees,
    calling,
    captured_by_rule,
    check_same_result,
    debug_of,
    refuse_closed_over,
    unbatched,
)
from pellucid.higher_order.remat_opt import optimized
from pellucid.ir.facets import OnReferences, Shown
from pellucid.ir.jaxpr import ClosedJaxpr, DebugInfo, Equation
from pellucid.ir.primitive import Programs, derived_types
from pellucid.ir.rules import BatchAxis, BatchDim, Dims, Operands, Zero
from pellucid.ir.traits import CONTROL
from pellucid.primitives.broadcasting import brought_to, reduce_sum
from pellucid.primitives.varying import vary
from pellucid.tracing.context import context
from pellucid.tracing.discharge import is_reference
from pellucid.tracing.function import name_of
from pellucid.tracing.trace import bind
from pellucid.tracing.tracer import Tracer
from pellucid.tracing.values import type_of
from pellucid.transforms.arguments import (
    check_callable,
    checked_leaves,
    described,
    result_leaves,
    with_aux,
)
from pellucid.transforms.derived import stage_open
from pellucid.transforms.vmap import batch_flat
from pellucid.transforms.zeros import spread
from pellucid.xla.pytree import flatten, flatten_with_path

# A call of flat values ----------------------------------------------------------------------------------


class Forward(NamedTuple):
    """What the forward function gives: results, residuals, and whatever the backward function wants to know."""

    results: list[Any]
    residuals: list[Any]
    form: Any


class CustomVjpCall(NamedTuple):
    """A function of flat values and its reverse derivative.

    `forward(operands, perturbed)` gives a `Forward`; `backward(form, residuals, cotangents)` gives a cotangent, or
    `Zero`, for each operand. Cotangents may be `Zero`.
    """

    name: str
    function: Callable[..., Sequence[Any]]
    forward: Callable[[Sequence[Any], Sequence[bool]], Forward]
    backward: Callable[[Any, Sequence[Any], Sequence[Any]], list[Any]]
    forward_name: str
    backward_name: str
    symbolic_zeros: bool
    debug: Callable[[], DebugInfo]

    def rule(self, primals: Operands, tangents: Operands) -> tuple[list[Any], list[Any]]:
        """Results, and tangents that only reverse mode can compute; references are passed without theirs."""
        tangents = [
            Zero(t.aval) if is_reference(x) else t for x, t in zip(primals, tangents, strict=True)
        ]
        perturbed = tuple([type(t) is not Zero for t in tangents])
        forward = self.forward(primals, perturbed)
        avals = tuple([type_of(x) for x in forward.results])
        differentiable = [a.tangent().dtype != dtypes.float0 for a in avals]
        out_avals = tuple([a.tangent() for a, d in zip(avals, differentiable, strict=True) if d])
        if not out_avals:
            return forward.results, [Zero(a.tangent()) for a in avals]
        params = CustomLinParams(
            _Backward(self, forward.form, avals, perturbed),
            perturbed,
            len(forward.residuals),
            out_avals,
            self.symbolic_zeros,
        )
        live = [t for t in tangents if type(t) is not Zero]
        found = bind(custom_lin_p, *forward.residuals, *live, params=params)
        return forward.results, spread(found, differentiable, avals)

    def staged(self, trace: Any, operands: tuple[Any, ...]) -> list[Any]:
        """Results of an equation of `trace` that calls this."""
        program, consts = stage_open(self.function, [type_of(x) for x in operands], self.debug())
        params = CustomVjpParams(
            self.backward, self.backward_name, program, self.forward, self.forward_name, self.name, len(consts),
            self.symbolic_zeros,
        )  # fmt: skip
        return trace.interpret(custom_vjp_call_p, (*consts, *operands), params)

    def batched(
        self, axis: BatchAxis, dims: Dims, tag: object = None
    ) -> tuple[CustomVjpCall, list[BatchDim]]:
        """The call on whole batches; the list gets the batch axes of its results when it has run.

        `tag` is that of the BatchTrace whose values the three functions may capture.
        """
        places = ResultPlaces(self.name, axis, dims)

        def function(*operands: Any) -> list[Any]:
            return places.place(*batch_flat(self.function, axis, operands, dims, tag))

        def forward(operands: Operands, perturbed: Sequence[bool]) -> Forward:
            inner: list[Forward] = []

            def run(*values: Any) -> list[Any]:
                inner.append(self.forward(values, perturbed))
                return [*inner[0].results, *inner[0].residuals]

            values, found = batch_flat(run, axis, operands, dims, tag)
            n = len(inner[0].results)
            results = places.place(values[:n], found[:n])
            return Forward(results, values[n:], (inner[0].form, tuple(found[n:])))

        def backward(form: Any, residuals: Operands, cotangents: Operands) -> list[Any]:
            inner_form, residual_dims = form
            live = [ct for ct in cotangents if type(ct) is not Zero]
            live_dims = [
                d for ct, d in zip(cotangents, places.dims, strict=True) if type(ct) is not Zero
            ]
            kept: list[Any] = []

            def run(*values: Any) -> list[Any]:
                given = iter(values[len(residuals) :])
                inner = [
                    Zero(unbatched(ct.aval, d)) if type(ct) is Zero else next(given)
                    for ct, d in zip(cotangents, places.dims, strict=True)
                ]
                kept[:] = self.backward(inner_form, values[: len(residuals)], inner)
                return [ct for ct in kept if type(ct) is not Zero]

            values, found = batch_flat(
                run, axis, [*residuals, *live], [*residual_dims, *live_dims], tag
            )
            if None in places.dims:  # neither a result nor an operand is batched
                if any(d is not None for d in found):
                    raise captured_by_rule(self.name)
                rest = iter(values)
                return [ct if type(ct) is Zero else next(rest) for ct in kept]
            rest = iter(zip(values, found, strict=True))
            return [
                _batched_zero(ct, axis, dim)
                if type(ct) is Zero
                else _as_operand(axis, *next(rest), dim)
                for ct, dim in zip(kept, dims, strict=True)
            ]

        return self._replace(function=function, forward=forward, backward=backward), places.dims


def _batched_zero(zero: Zero, axis: BatchAxis, dim: BatchDim) -> Zero:
    if dim is None:
        return zero
    return Zero(axis.added_to(zero.aval, dim))


def _as_operand(axis: BatchAxis, cotangent: Any, found: BatchDim, dim: BatchDim) -> Any:
    """A cotangent for an operand with batch axis `dim`; the sum over the batch if the operand has none."""
    if dim is not None:
        return brought_to(axis, cotangent, found, dim)
    return (
        reduce_sum(brought_to(axis, cotangent, found, 0), (0,))
        if found is None
        else reduce_sum(cotangent, (found,))
    )


# The primitives -----------------------------------------------------------------------------------------


class CustomVjpParams(NamedTuple):
    """`call_jaxpr` has no constants: its first `num_consts` inputs are what the function closes over."""

    bwd: Callable[..., Any]
    bwd_name: str
    call_jaxpr: ClosedJaxpr
    fwd: Callable[..., Any]
    fwd_name: str
    name: str
    num_consts: int
    symbolic_zeros: bool


class CustomVjpCallPrimitive(Shown, CustomCall[CustomVjpParams]):
    """A staged call of a `custom_vjp` function."""

    name = "custom_vjp_call"

    def call_of(self, params) -> CustomVjpCall:
        n, jaxpr = params.num_consts, params.call_jaxpr.jaxpr

        def forward(operands: Operands, perturbed: Sequence[bool]) -> Forward:
            refuse_closed_over(
                params.name, [x for x, p in zip(operands[:n], perturbed, strict=False) if p]
            )
            return params.fwd(operands[n:], perturbed[n:])

        def backward(form: Any, residuals: Operands, cotangents: Operands) -> list[Any]:
            outside = [Zero(a.tangent()) for a in jaxpr.in_avals[:n]]
            return [*outside, *params.bwd(form, residuals, cotangents)]

        return CustomVjpCall(
            params.name, calling(jaxpr), forward, backward, params.fwd_name, params.bwd_name,
            params.symbolic_zeros, debug_of(jaxpr),
        )  # fmt: skip

    def giving(self, params: CustomVjpParams, used: Sequence[bool]) -> CustomVjpParams:
        avals = params.call_jaxpr.out_avals

        def forward(operands: Operands, perturbed: Sequence[bool]) -> Forward:
            results, residuals, form = params.fwd(operands, perturbed)
            return Forward(list(compress(results, used)), residuals, form)

        def backward(form: Any, residuals: Operands, cotangents: Operands) -> list[Any]:
            return params.bwd(form, residuals, spread(cotangents, used, avals))

        return params._replace(fwd=forward, bwd=backward)

    def batch(self, axis, operands, dims, params):
        call, out_dims = self.call_of(params).batched(axis, dims)
        return context.trace.custom_vjp_call(call, operands), out_dims

    def printed_params(self, equation):
        params = equation.params
        return {
            "name": params.name, "bwd": params.bwd_name, "call_jaxpr": params.call_jaxpr, "fwd": params.fwd_name,
            **({"num_consts": params.num_consts} if params.num_consts else {}),
            "symbolic_zeros": params.symbolic_zeros,
        }  # fmt: skip


custom_vjp_call_p = CustomVjpCallPrimitive()


class _Backward:
    """The backward function of one call, with what it must know."""

    def __init__(
        self,
        call: CustomVjpCall,
        form: Any,
        out_avals: tuple[Any, ...],
        perturbed: tuple[bool, ...],
    ) -> None:
        self.call = call
        self.form = form
        self.out_avals = out_avals
        self.perturbed = perturbed

    def __call__(self, residuals: Operands, cotangents: Operands) -> list[Any]:
        """Cotangents of the perturbed operands, from those of the differentiable results."""
        given = iter(cotangents)
        full = [
            Zero(a.tangent()) if a.tangent().dtype == dtypes.float0 else next(given)
            for a in self.out_avals
        ]
        found = self.call.backward(self.form, residuals, full)
        return [ct for ct, p in zip(found, self.perturbed, strict=True) if p]


class CustomLinParams(NamedTuple):
    """`perturbed` says which operands of the function have tangents here, `out_avals` are those of the results."""

    bwd: _Backward
    perturbed: tuple[bool, ...]
    num_res: int
    out_avals: tuple[Any, ...]
    symbolic_zeros: bool


class CustomLin(OnReferences, Shown, Programs[CustomLinParams]):
    """The derivative of a `custom_vjp` function: linear in the tangents, known only by its transpose."""

    name = "custom_lin"
    traits = CONTROL.replace(makes_nan=True)
    types = derived_types

    def abstract_eval(self, avals, params):
        return params.out_avals

    def jvp(self, primals, tangents, params):
        n = params.num_res
        if any(type(t) is not Zero for t in tangents[:n]):
            raise self.not_forward(params)
        results = bind(self, *primals, params=params)
        nonzero = iter([type(t) is not Zero for t in tangents[n:]])
        still = tuple([p and next(nonzero) for p in params.perturbed])
        backward = _Backward(params.bwd.call, params.bwd.form, params.bwd.out_avals, still)
        live = [t for t in tangents[n:] if type(t) is not Zero]
        out = bind(self, *primals[:n], *live, params=params._replace(bwd=backward, perturbed=still))
        return results, out

    def transpose(self, cotangents, operands, params):
        n = params.num_res
        found = params.bwd(operands[:n], cotangents)
        return [*[None] * n, *found]

    def batch(self, axis, operands, dims, params):
        n = params.num_res
        places = [0] * len(params.out_avals)
        results = [axis.added_to(a, 0) for a in params.out_avals]

        def backward(form: Any, residuals: Operands, cotangents: Operands) -> list[Any]:
            live = [ct for ct in cotangents if type(ct) is not Zero]
            kept: list[Any] = []

            def run(*values: Any) -> list[Any]:
                given = iter(values[n:])
                inner = [
                    Zero(a) if type(ct) is Zero else next(given)
                    for ct, a in zip(cotangents, params.out_avals, strict=True)
                ]
                kept[:] = params.bwd(values[:n], inner)
                return [ct for ct in kept if type(ct) is not Zero]

            values, found = batch_flat(
                run, axis, [*residuals, *live], [*dims[:n], *places[: len(live)]]
            )
            rest = iter(zip(values, found, strict=True))
            return [
                _batched_zero(ct, axis, dim)
                if type(ct) is Zero
                else _as_operand(axis, *next(rest), dim)
                for ct, dim in zip(kept, dims[n:], strict=True)
            ]

        call = params.bwd.call._replace(backward=backward)
        perturbed = (True,) * (len(operands) - n)
        batched = params._replace(
            bwd=_Backward(call, None, tuple(results), perturbed),
            perturbed=perturbed,
            out_avals=tuple(results),
        )
        return bind(self, *operands, params=batched), places

    def discharge(self, operands, params):
        raise self.not_forward(params)

    def lower(self, ctx, operands, params):
        raise self.not_forward(params)

    def not_forward(self, params: CustomLinParams) -> DerivativeRuleError:
        """Forward mode was asked for."""
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


class CustomVJPPrimal:
    """An argument as a forward function with `symbolic_zeros=True` gets it: its `value`, and whether it is `perturbed`."""

    __slots__ = ("value", "perturbed")
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, value: Any, perturbed: bool) -> None:
        self.value = value
        self.perturbed = perturbed

    def __eq__(self, other: object) -> bool:
        return isinstance(other, CustomVJPPrimal) and (self.value, self.perturbed) == (
            other.value,
            other.perturbed,
        )

    def __repr__(self) -> str:
        return f"CustomVJPPrimal(value={self.value!r}, perturbed={self.perturbed})"


def custom_vjp_primal_tree_values(tree: Any) -> Any:
    """The tree of the values of `CustomVJPPrimal`s."""
    leaves, structure = flatten(tree)
    for leaf in leaves:
        if type(leaf) is not CustomVJPPrimal:
            raise DerivativeRuleError(
                "custom_vjp_primal_tree_values takes a tree of CustomVJPPrimal.",
                got=f"got {type(leaf).__name__}",
            )
    return structure.unflatten([leaf.value for leaf in leaves])


class custom_vjp(CustomFunction):
    """Decorator for a function whose reverse derivative you define with `defvjp(fwd, bwd)`.

    `fwd` takes the function's arguments and gives (result, residuals); `bwd` takes the residuals and a cotangent of
    the result and gives a tuple of cotangents, one for each argument (None for zero). Arguments at `nondiff_argnums`
    (or `nondiff_argnames`) are not differentiated: `bwd` gets them first, as they are.

    >>> from pellucid import grad
    >>> @custom_vjp
    ... def f(x):
    ...     return x * x
    >>> f.defvjp(lambda x: (f(x), x), lambda x, ct: (10.0 * ct,))
    >>> grad(f)(3.0)
    Array(10., dtype=float32, weak_type=True)
    """

    def __init__(
        self,
        fun: Callable[..., Any],
        nondiff_argnums: Sequence[int] = (),
        nondiff_argnames: Sequence[str] = (),
    ) -> None:
        super().__init__(fun, nondiff_argnums, nondiff_argnames)
        self.fwd: Callable[..., Any] | None = None
        self.bwd: Callable[..., Any] | None = None
        self.symbolic_zeros = False
        self.optimize_remat = False

    def defvjp(
        self,
        fwd: Callable[..., Any],
        bwd: Callable[..., Any],
        symbolic_zeros: bool = False,
        optimize_remat: bool = False,
    ) -> None:
        """Define the derivative by a forward and a backward function.

        With `symbolic_zeros`, the leaves of `fwd`'s arguments are `CustomVJPPrimal`s and cotangents known to be zero
        are `SymbolicZero`s. With `optimize_remat`, a program that runs `fwd` but needs no residuals runs the
        function instead.
        """
        check_callable(fwd, "defvjp")
        check_callable(bwd, "defvjp")
        if symbolic_zeros and optimize_remat:
            raise DerivativeRuleError(
                "defvjp: optimize_remat can't be combined with symbolic_zeros."
            )
        self.fwd = fwd
        self.bwd = bwd
        self.symbolic_zeros = symbolic_zeros
        self.optimize_remat = optimize_remat

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        name = self.signature.name
        if self.fwd is None or self.bwd is None:
            raise DerivativeRuleError(
                f"`{name}` is a custom_vjp, but no derivative was given to it.",
                do="Define it with defvjp.",
            )
        args = self.signature.positional(args, kwargs)
        differentiated, others = self.signature.split(args)
        for x in flatten(others)[0] if others else ():
            if isinstance(x, Tracer):
                raise UnexpectedTracerError(
                    f"`{name}` got a traced value as an argument that is not differentiated (nondiff_argnums).",
                    got=repr(x),
                    do="nondiff_argnums is for functions and settings; make array arguments differentiable.",
                )
        leaves, tree = flatten(tuple(differentiated))
        leaves = checked_leaves(leaves, "custom_vjp", self.fun, args, {})
        run = _Run(self, tree, others, [type_of(x) for x in leaves])
        call = CustomVjpCall(
            name, run.function, run.forward, run.backward, name_of(self.fwd), name_of(self.bwd),
            self.symbolic_zeros, lambda: DebugInfo(name),
        )  # fmt: skip
        results = context.trace.custom_vjp_call(call, tuple(leaves))
        return run.out_tree.unflatten(results)


class _Run:
    """One call of a custom_vjp function: the user's functions as functions of flat values."""

    def __init__(
        self, custom: custom_vjp, in_tree: Any, others: list[Any], in_avals: list[Any]
    ) -> None:
        self.custom = custom
        self.in_tree = in_tree
        self.others = others
        self.in_avals = in_avals
        self.out_tree: Any = None
        self.out_avals: list[Any] | None = None

    def function(self, *leaves: Any) -> list[Any]:
        custom = self.custom
        args = custom.signature.joined(self.in_tree.unflatten(leaves), self.others)
        results, self.out_tree = result_leaves(custom.fun(*args), "custom_vjp", custom.fun)
        self.out_avals = [type_of(x) for x in results]
        return results

    def forward(self, operands: Operands, perturbed: Sequence[bool]) -> Forward:
        """Results and residuals of the user's forward function, with `optimize_remat` by one equation."""
        if not self.custom.optimize_remat:
            return self.forward_at_once(operands, perturbed)
        forms: list[tuple[int, Any]] = []

        def flat(*leaves: Any) -> list[Any]:
            found = self.forward_at_once(leaves, perturbed)
            forms.append((len(found.results), found.form))
            return [*found.results, *found.residuals]

        values = optimized(flat, self.function, operands, self.custom.signature.name)
        [(n, form)] = forms
        return Forward(values[:n], values[n:], form)

    def forward_at_once(self, operands: Operands, perturbed: Sequence[bool]) -> Forward:
        """Results and residuals of the user's forward function."""
        custom = self.custom
        leaves = operands
        if custom.symbolic_zeros:
            leaves = [CustomVJPPrimal(x, p) for x, p in zip(operands, perturbed, strict=True)]
        args = custom.signature.joined(self.in_tree.unflatten(leaves), self.others)
        pair = custom.fwd(*args)  # type: ignore[misc]
        rule = f"the fwd rule `{name_of(custom.fwd)}` of `{custom.signature.name}`"  # type: ignore[arg-type]
        if not isinstance(pair, (tuple, list)) or len(pair) != 2:
            raise DerivativeRuleError(
                f"{rule} must return a pair (result, residuals).",
                got=f"it returned {described(pair)}",
            )
        results, tree = result_leaves(pair[0], "custom_vjp", custom.fun)
        check_same_result(rule, tree, [type_of(x) for x in results], self.out_tree, self.out_avals)
        self.out_tree = tree
        residuals, residual_tree = result_leaves(
            pair[1],
            "custom_vjp",
            custom.fwd,  # type: ignore[arg-type]
            may_be_references=True,
        )
        return Forward(results, residuals, (tree, residual_tree))

    def backward(self, form: Any, residuals: Operands, cotangents: Operands) -> list[Any]:
        custom = self.custom
        out_tree, residual_tree = form
        seen = [as_rule_sees(ct, custom.symbolic_zeros) for ct in cotangents]
        found = custom.bwd(
            *self.others, residual_tree.unflatten(residuals), out_tree.unflatten(seen)
        )  # type: ignore[misc]
        return self.checked(found)

    def checked(self, found: Any) -> list[Any]:
        """Leaves of what the backward function returned; None stands for zeros."""
        custom, in_tree = self.custom, self.in_tree
        rule = f"the bwd rule `{name_of(custom.bwd)}` of `{custom.signature.name}`"  # type: ignore[arg-type]
        children = in_tree.children()
        found = tuple(found) if isinstance(found, list) else found
        if not isinstance(found, tuple) or len(found) != len(children):
            shown = f"tuple of {len(found)}" if isinstance(found, tuple) else described(found)
            raise DerivativeRuleError(
                f"{rule} must return a tuple, one cotangent for each argument.",
                got=f"got {shown}, expected tuple of {len(children)}",
                do="Use None for arguments whose cotangent is zero; a single cotangent is written `(ct,)`.",
            )
        cotangents: list[Any] = []
        for position, (part, child) in enumerate(zip(found, children, strict=True)):
            cotangents += self._part(rule, position, part, child)
        checked = []
        for i, (ct, aval) in enumerate(zip(cotangents, self.in_avals, strict=True)):
            expected = aval.tangent()
            if (
                ct is None
                or isinstance(ct, (Zero, SymbolicZero))
                or expected.dtype == dtypes.float0
            ):
                checked.append(Zero(expected))
                continue
            got = type_of(ct)
            differs = not got.varying <= expected.varying
            if got.shape != expected.shape or got.dtype != expected.dtype or differs:
                path = flatten_with_path(in_tree.unflatten(range(in_tree.num_leaves)))[0][i][0]
                raise DerivativeRuleError(
                    f"{rule} returned a cotangent of another type than its argument.",
                    got=f"{shown_path('cotangents', path)}: got {got.text()}, expected {expected.text()}",
                    do="Sum it with `psum`: the argument is the same along that mesh axis."
                    if differs
                    else None,
                )
            checked.append(vary(ct, expected.varying))
        return checked

    def _part(self, rule: str, position: int, part: Any, child: Any) -> list[Any]:
        """For each leaf of one argument, its cotangent or None."""
        leaves, tree = tree_flatten(part, lambda x: x is None)
        if tree == child:
            return leaves
        try:
            parts = tree.flatten_up_to(child.unflatten([0] * child.num_leaves))
        except (TypeError, ValueError):
            parts = None
        if parts is None or any(
            x is not None for x, p in zip(leaves, parts, strict=True) if flatten(p)[1].num_nodes > 1
        ):
            raise DerivativeRuleError(
                f"{rule} returned a cotangent of another structure than its argument.",
                got=[
                    d.text(f"cotangents[{position}]")
                    for d in structure_differences(child, tree, leaves=leaves)[:3]
                ],
            )
        return [
            x for x, p in zip(leaves, parts, strict=True) for _ in range(flatten(p)[1].num_leaves)
        ]


# Built on it ----------------------------------------------------------------------------------------------


def custom_gradient(fun: Callable[..., Any]) -> Callable[..., Any]:
    """A function with its own reverse derivative: `fun` gives (result, function from cotangent to cotangents).

    >>> from pellucid import grad
    >>> f = custom_gradient(lambda x: (x * x, lambda ct: 10.0 * ct))
    >>> grad(f)(3.0)
    Array(10., dtype=float32, weak_type=True)
    """
    check_callable(fun, "custom_gradient")

    @custom_vjp
    def wrapped_fun(*args: Any, **kwargs: Any) -> Any:
        return with_aux(fun(*args, **kwargs), fun, "custom_gradient")[0]

    def fwd(*args: Any, **kwargs: Any) -> Any:
        result, rule = with_aux(fun(*args, **kwargs), fun, "custom_gradient")
        leaves, out_tree = flatten(result)
        trees: list[Any] = []

        def flat(*cotangents: Any) -> list[Any]:
            found, tree = flatten(rule(out_tree.unflatten(cotangents)))
            trees.append(tree)
            return found

        program, consts = stage_open(
            flat, [type_of(x).tangent() for x in leaves], DebugInfo(name_of(fun))
        )
        return result, Captured(consts, (program, trees[0]))

    def bwd(captured: Captured, cotangent: Any) -> Any:
        program, tree = captured.data
        found = tree.unflatten(calling(program.jaxpr)(*captured.consts, *flatten(cotangent)[0]))
        return found if isinstance(found, (tuple, list)) else (found,)

    wrapped_fun.defvjp(fwd, bwd)
    return wrapped_fun


class Captured:
    """A tree whose leaves are the values that a program captured."""

    def __init__(self, consts: list[Any], data: Any) -> None:
        self.consts = consts
        self.data = data


register_pytree_node(
    Captured, lambda x: (x.consts, x.data), lambda data, consts: Captured(list(consts), data)
)


def closure_convert(
    fun: Callable[..., Any], *example_args: Any
) -> tuple[Callable[..., Any], list[Any]]:
    """`(converted, values)`: `fun` with the values it captured that may be differentiated as further arguments.

    `converted(*args, *values)` is `fun(*args)` for arguments of the types of `example_args`.

    >>> converted, values = closure_convert(lambda x: x * x, 2.0)
    >>> converted(3.0, *values)
    Array(9., dtype=float32, weak_type=True)
    """
    check_callable(fun, "closure_convert")
    leaves, in_tree = flatten(example_args)
    leaves = checked_leaves(leaves, "closure_convert", fun, example_args, {})
    trees: list[Any] = []

    def flat(*xs: Any) -> list[Any]:
        results, tree = result_leaves(fun(*in_tree.unflatten(xs)), "closure_convert", fun)
        trees.append(tree)
        return results

    program, consts = stage_open(flat, [type_of(x) for x in leaves], DebugInfo(name_of(fun)))
    hoisted = [
        isinstance(c, Tracer) and type_of(c).tangent().dtype != dtypes.float0 for c in consts
    ]
    n = sum(hoisted)

    def converted(*args_and_values: Any) -> Any:
        split = len(args_and_values) - n
        args, values = args_and_values[:split], iter(args_and_values[split:])
        given, tree = flatten(tuple(args))
        if tree != in_tree:
            raise DerivativeRuleError(
                "a closure-converted function got arguments of another structure than the example's.",
                got=[
                    d.text("args") for d in structure_differences(in_tree, tree, leaves=given)[:3]
                ],
            )
        captured = [next(values) if h else c for c, h in zip(consts, hoisted, strict=True)]
        return trees[0].unflatten(calling(program.jaxpr)(*captured, *given))

    return converted, [c for c, h in zip(consts, hoisted, strict=True) if h]

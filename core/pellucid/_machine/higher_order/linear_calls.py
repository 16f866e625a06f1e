"""Linear functions with user-defined transposes, and solvers differentiated through the equation they solve."""

from __future__ import annotations

from itertools import chain
from typing import Any, NamedTuple

from pellucid._machine.base import (
    ArgumentTypeError,
    Binary,
    DerivativeRuleError,
    Function,
    Unary,
    strict_zip,
)
from pellucid._machine.ir import (
    CONTROL,
    Avals,
    ClosedJaxpr,
    DebugInfo,
    HigherOrderPrimitive,
    Masked,
    Operands,
    Results,
    Values,
    Zero,
    consecutive,
    is_linear,
)
from pellucid._machine.primitives import add_tangents, aligned_at, instantiate, neg, zero_of
from pellucid._machine.tracing import (
    bind,
    bottom,
    context,
    name_of,
    replay,
    source_of,
    type_of,
    types_of,
)
from pellucid._machine.transforms import (
    batch_jaxpr,
    check_callable,
    checked_leaves,
    cotangents_of,
    flat_arguments,
    is_cotangent,
    jvp_flat,
    lives_of,
    nonzero_mask,
    result_leaves,
    unknown,
    with_aux,
    zero_dead,
)
from pellucid._machine.transforms.gradient import linear_transpose
from pellucid._machine.transforms.linearize import linearize
from pellucid._machine.xla import flatten, treedef_tuple

from .bodies import TracedBody, body_of, body_of_flat, differing_types, type_lines
from .calls import ClosedCallParams, closed_call_p
from .custom_jvp import CustomJvpCall
from .custom_rules import CustomCall
from .structured import with_common_consts, with_common_inputs

# linear_call ---------------------------------------------------------------------------------------


class LinearCallParams(NamedTuple):
    """`callee` maps (residuals, linear operands) to results, `transpose` (residuals, cotangents) to cotangents.

    Neither has constants; values that the functions close over are the first of the `num_res` residuals.
    """

    callee: ClosedJaxpr
    transpose: ClosedJaxpr
    num_res: int


class LinearCall(CustomCall[LinearCallParams]):
    """A call that is linear in the operands after the residuals."""

    name = "linear_call"
    program_field = "callee"

    def with_slots(self, params, slots):
        added = slots.operands[0].size - len(params.callee.in_avals)
        callee = slots.programs[0].program
        transpose = with_common_inputs(params.transpose, (), callee.in_avals[:added])
        return LinearCallParams(callee, transpose, params.num_res + added)

    def jvp(self, primals, tangents, params):
        # Operands, and their tangents: residuals, then those in which the call is linear.
        n = params.num_res
        residual_tangents, linear_tangents = tangents[:n], tangents[n:]
        out: Results = [Zero(a.tangent()) for a in params.callee.out_avals]
        if any(nonzero_mask(linear_tangents)):
            out = bind(self, *primals[:n], *map(instantiate, linear_tangents), params=params)
        if not any(nonzero_mask(residual_tangents)):
            return bind(self, *primals, params=params), out
        constant = [Zero(t.aval if type(t) is Zero else type_of(t)) for t in linear_tangents]
        # Tangents by the residuals alone; those by the linear operands are `out`.
        results, by_residuals = closed_call_p.jvp(
            primals, (*residual_tangents, *constant), ClosedCallParams(params.callee)
        )
        return results, [add_tangents(a, b) for a, b in strict_zip(out, by_residuals)]

    def transpose(self, cotangents, operands, params):
        n = params.num_res
        linear = [x.aval.text() for x in operands[:n] if is_linear(x)]
        if linear:
            raise DerivativeRuleError(
                "linear_call is linear in its linear arguments only, not in its residuals.",
                got=", ".join(linear),
            )
        # The transposed call takes residuals, then cotangents of all results, and gives one for each linear operand.
        transposed = LinearCallParams(params.transpose, params.callee, n)
        cts = bind(self, *operands[:n], *map(instantiate, cotangents), params=transposed)
        linear_cts = [ct for x, ct in strict_zip(operands[n:], cts) if is_linear(x)]
        return cotangents_of(operands, linear_cts, [True] * len(linear_cts))

    def batch(self, axis, operands, dims, params):
        n, n_results = params.num_res, len(params.callee.out_avals)
        # Linear operands and all results have the batch at axis 0, so that the transpose maps between the same types.
        linear = aligned_at(axis, operands[n:], dims[n:])
        derived = [
            batch_jaxpr(program.jaxpr, axis, [*dims[:n], *[0] * size], True)
            for program, size in ((params.callee, len(linear)), (params.transpose, n_results))
        ]
        # Both programs take the constants of both, in front of the residuals.
        (callee, transpose), consts = with_common_consts(derived)
        batched = LinearCallParams(callee, transpose, len(consts) + n)
        return bind(self, *consts, *operands[:n], *linear, params=batched), [0] * n_results


linear_call_p = LinearCall()


def linear_call(
    fun: Binary,
    fun_transpose: Binary,
    residual_args: Any,
    linear_args: Any,
) -> Any:
    """`fun(residual_args, linear_args)`, linear in `linear_args`, with a user-defined transpose.

    `fun_transpose(residual_args, cotangent)` maps a cotangent of the result to a cotangent of `linear_args`, with their
    structure and types. Derivatives with respect to the residuals are those of `fun`.

    Raises: DerivativeRuleError unless the transpose gives the structure and types of `linear_args`.

    >>> from pellucid import grad
    >>> scaled = lambda r, x: x * r
    >>> grad(lambda x: linear_call(scaled, lambda r, ct: 10.0 * ct * r, 3.0, x))(1.0)
    Array(30., dtype=float32, weak_type=True)
    """
    check_callable(fun, "linear_call")
    check_callable(fun_transpose, "linear_call")
    residuals, residual_tree = flatten(residual_args)
    operands, linear_tree = flatten(linear_args)
    leaves = checked_leaves(
        [*residuals, *operands], "linear_call", fun, (residual_args, linear_args)
    )
    avals = types_of(leaves)
    # Leaves: `n` residuals, then linear arguments. `callee` takes these, `transpose` residuals and cotangents of results.
    n = len(residuals)
    callee = body_of(fun, treedef_tuple([residual_tree, linear_tree]), avals, "linear_call")
    out_tree, cotangent_avals = callee.out_tree, [a.tangent() for a in callee.out_avals]
    transpose = body_of(
        fun_transpose,
        treedef_tuple([residual_tree, out_tree]),
        [*avals[:n], *cotangent_avals],
        "linear_call",
    )
    linear_avals, ct_avals = avals[n:], transpose.out_avals
    if transpose.out_tree != linear_tree or differing_types(linear_avals, ct_avals):
        raise DerivativeRuleError(
            f"linear_call: `{name_of(fun_transpose)}` must return cotangents of the linear arguments.",
            got=[
                f"linear_args: {linear_tree.unflatten([a.text() for a in linear_avals])}",
                f"returned: {transpose.out_tree.unflatten([a.text() for a in ct_avals])}",
            ],
        )
    (program, transposed), consts = with_common_consts([callee, transpose])
    params = LinearCallParams(program, transposed, len(consts) + n)
    return out_tree.unflatten(bind(linear_call_p, *consts, *leaves, params=params))


# Solutions -----------------------------------------------------------------------------------------


class LinearSolveTuple(NamedTuple):
    """One item for each function of a linear solve; `vecmat` and `transpose_solve` belong to the transposed system."""

    matvec: Any
    vecmat: Any
    solve: Any
    transpose_solve: Any

    def transpose(self) -> LinearSolveTuple:
        """This tuple with the functions of the transposed system."""
        return LinearSolveTuple(self.vecmat, self.matvec, self.transpose_solve, self.solve)


class LinearSolveParams(NamedTuple):
    """Operands are the constants of each program, then the right-hand side; results are the solution, then aux."""

    const_lengths: LinearSolveTuple
    jaxprs: LinearSolveTuple

    def split(self, values: Operands) -> tuple[LinearSolveTuple, Values]:
        """Splits `values`, one for each operand, into (those for constants, those for the right-hand side)."""
        *consts, b = consecutive(self.const_lengths, values)
        return LinearSolveTuple(*consts), b

    def transpose(self) -> LinearSolveParams:
        """Params of the transposed system."""
        return LinearSolveParams(self.const_lengths.transpose(), self.jaxprs.transpose())


class LinearSolve(Masked, HigherOrderPrimitive[LinearSolveParams]):
    """Solves A x = b for x. The tangent solves A dx = db - dA x, the transpose the transposed system."""

    name = "custom_linear_solve"
    traits = CONTROL.replace(makes_nan=True)
    running_program = "jaxprs[solve]"

    def abstract_eval(self, avals, params):
        return params.jaxprs.solve.out_avals

    def effects(self, avals, params):
        return params.jaxprs.solve.effects

    def jvp(self, primals, tangents, params):
        results = bind(self, *primals, params=params)
        consts, b = params.split(primals)
        const_tangents, right = params.split(tangents)
        # Results: the solution, as many arrays as `b`, then aux, whose tangents are zero.
        n, matvec = len(b), params.jaxprs.matvec.jaxpr
        aux_tangents = [*map(zero_of, results[n:])]
        if any(nonzero_mask(const_tangents.matvec)):
            of_consts = lambda *xs: (replay(matvec, (), *xs, *results[:n]), ())
            _, slopes, _ = jvp_flat(of_consts, consts.matvec, const_tangents.matvec)
            terms = [t if type(t) is Zero else neg(t) for t in slopes]
            right = [*map(add_tangents, right, terms)]
        if not any(nonzero_mask(right)):
            return results, [*right, *aux_tangents]
        # The same constants, with the tangents' right-hand side in place of `b`.
        operands = [*primals[: len(primals) - n], *map(instantiate, right)]
        return results, [*bind(self, *operands, params=params)[:n], *aux_tangents]

    def transpose(self, cotangents, operands, params):
        consts, b = params.split(operands)
        if params.jaxprs.transpose_solve is None:
            raise DerivativeRuleError(
                "reverse mode through custom_linear_solve needs to solve the transposed system.",
                do="Give transpose_solve, or symmetric=True if the operator is symmetric.",
            )
        if not all(map(is_linear, b)):
            raise DerivativeRuleError(
                "custom_linear_solve is linear in all of its right-hand side at once."
            )
        # Constants change places with those of the transposed system; cotangents of aux are left out.
        n, transposed = len(b), params.transpose()
        cts = bind(
            self, *chain(*consts.transpose()), *map(instantiate, cotangents[:n]), params=transposed
        )  # fmt: skip
        return cotangents_of(operands, cts[:n], [True] * n)

    def masked(self, operands, lives, params):
        results = bind(self, *operands, params=params)
        const_lives, b_lives = params.split(lives)
        if any(map(is_cotangent, chain(*const_lives))):
            return unknown(results)
        # The solver's program says on which elements the solution depends.
        consts, b = params.split(operands)
        operands, lives = [*consts.solve, *b], [*const_lives.solve, *b_lives]
        out = lives_of(params.jaxprs.solve.jaxpr, operands, lives)
        return [zero_dead(live, x) for live, x in strict_zip(out, results)], out

    def batch(self, axis, operands, dims, params):
        consts, b = params.split(operands)
        const_dims, b_dims = params.split(dims)
        # Each program takes its constants, batched as they are, then `b` with the batch at axis 0; solutions have it there.
        n = len(b)
        derived = LinearSolveTuple(
            *[
                jaxpr
                and batch_jaxpr(
                    jaxpr.jaxpr, axis, [*jaxpr_dims, *[0] * n],
                    [i < n for i in range(len(jaxpr.out_avals))],
                )
                for jaxpr, jaxpr_dims in strict_zip(params.jaxprs, const_dims)
            ]
        )  # fmt: skip
        # Constants of each batched program: those of batching, then its own.
        new_consts = [
            [] if d is None else [*d.consts, *values] for d, values in strict_zip(derived, consts)
        ]
        new = LinearSolveParams(
            LinearSolveTuple(*map(len, new_consts)),
            LinearSolveTuple(*[d and d.program for d in derived]),
        )
        b = aligned_at(axis, b, b_dims)
        return bind(self, *chain(*new_consts), *b, params=new), derived.solve.mask

    def lower(self, ctx, operands, params):
        consts, b = params.split(operands)
        return ctx.inline(params.jaxprs.solve.jaxpr, (), [*consts.solve, *b])


linear_solve_p = LinearSolve()


# Programs of the user's functions ---------------------------------------------------------------------------


def _program(
    caller: str,
    what: str,
    function: Function,
    call: Function,
    tree,
    avals: Avals,
    more_avals: Avals = (),
    *,
    has_aux: bool = False,
) -> TracedBody:
    """The program of `call`, which takes one or two trees of structure `tree` and returns one of types `avals`.

    The leaves of the second tree have types `more_avals`. With `has_aux`, it returns (that tree, auxiliary data), and
    `out_tree` is the structure of the latter.
    """
    in_tree = treedef_tuple([tree, tree] if more_avals else [tree])

    def flat(*leaves):
        result, aux = call(*in_tree.unflatten(leaves)), None
        if has_aux:
            result, aux = with_aux(result, function, caller)
        aux_leaves, aux_tree = flatten(aux)
        results, out_tree = result_leaves(result, caller, function)
        check_same_type(caller, what, tree, avals, out_tree, types_of(results))
        return [*results, *aux_leaves], aux_tree

    return body_of_flat(flat, [*avals, *more_avals], DebugInfo(caller, source_of(function)))


def check_same_type(
    caller: str, what: str, tree: Any, avals: Avals, out_tree: Any, out_avals: Avals
) -> None:
    """Raises ArgumentTypeError unless a result has structure `tree` and types `avals`."""
    if tree != out_tree:
        raise ArgumentTypeError(
            f"{caller}: {what} must return the structure that it takes.",
            got=[f"taken {tree}", f"returned {out_tree}"],
        )
    lines = type_lines("value", tree, avals, out_avals, ("taken", "returned"))
    if lines:
        raise ArgumentTypeError(f"{caller}: {what} must return the types that it takes.", got=lines)


def _solution(tree, results: Results, solver: TracedBody, has_aux: bool):
    """The solution with structure `tree`, or (solution, aux), from flat results."""
    n = tree.num_leaves
    solution = tree.unflatten(results[:n])
    return (solution, solver.out_tree.unflatten(results[n:])) if has_aux else solution


# custom_linear_solve --------------------------------------------------------------------------------------


def custom_linear_solve(
    matvec: Unary,
    b: Any,
    solve: Binary,
    transpose_solve: Binary | None = None,
    symmetric: bool = False,
    has_aux: bool = False,
) -> Any:
    """`solve(matvec, b)`, the solution x of `matvec(x) = b`, differentiated through this equation, not the solver's
    steps.

    `matvec` must be linear; `b`, x and `matvec(x)` are trees of the same structure and types. Reverse mode needs
    `transpose_solve(vecmat, b)` for the transposed system, or `symmetric=True`. With `has_aux`, the solvers return (x,
    aux), and aux is not differentiated.

    Raises: ArgumentTypeError where structures or types don't agree.

    The result has the structure, the shapes and the dtypes of `b`.

    >>> custom_linear_solve(lambda x: 2.0 * x, 3.0, lambda matvec, b: b / 2.0, symmetric=True)
    Array(1.5, dtype=float32, weak_type=True)
    """
    caller = "custom_linear_solve"
    for function in (matvec, solve, *([transpose_solve] if transpose_solve is not None else [])):
        check_callable(function, caller)
    leaves, tree = flat_arguments(b, caller, solve, (None, b))
    avals = types_of(leaves)

    def solver_of(what: str, solver: Function, operator: Unary) -> TracedBody:
        call = lambda y: solver(operator, y)
        return _program(caller, what, solver, call, tree, avals, has_aux=has_aux)

    forward = _program(caller, "matvec", matvec, matvec, tree, avals)
    solver = solver_of("solve", solve, matvec)
    backward = transpose_solver = None
    if symmetric:
        backward, transpose_solver, vecmat = forward, solver, matvec
    elif transpose_solve is not None:
        vecmat = lambda y: linear_transpose(matvec, tree.unflatten(leaves))(y)[0]
        backward = _program(caller, "vecmat", matvec, vecmat, tree, avals)
    if transpose_solve is not None:
        transpose_solver = solver_of("transpose_solve", transpose_solve, vecmat)  # pyright: ignore[reportPossiblyUnbound]
    programs = (forward, backward, solver, transpose_solver)
    params = LinearSolveParams(
        LinearSolveTuple(*(0 if p is None else len(p.consts) for p in programs)),
        LinearSolveTuple(*(None if p is None else p.program for p in programs)),
    )
    consts = [c for p in programs if p is not None for c in p.consts]
    results = bind(linear_solve_p, *consts, *leaves, params=params)
    return _solution(tree, results, solver, has_aux)


# custom_root ----------------------------------------------------------------------------------------------


def custom_root(
    f: Unary,
    initial_guess: Any,
    solve: Binary,
    tangent_solve: Binary,
    has_aux: bool = False,
) -> Any:
    """`solve(f, initial_guess)`, a root of `f`, differentiated by the implicit function theorem.

    `tangent_solve(g, y)` solves `g(x) = y` for a linear g, the derivative of `f` at the root. The derivative is with
    respect to values captured by `f`; `initial_guess` counts as a constant. With `has_aux`, `solve` returns (root,
    aux).

    Raises: ArgumentTypeError where `f`, `solve` or `tangent_solve` return another structure or types than they take.

    The result has the structure, the shapes and the dtypes of `initial_guess`.

    >>> newton = lambda f, x: x - f(x) / 2.0
    >>> custom_root(lambda x: 2.0 * x - 3.0, 0.0, newton, lambda g, y: y / g(1.0))
    Array(1.5, dtype=float32, weak_type=True)
    """
    caller = "custom_root"
    for function in (f, solve, tangent_solve):  # pyright: ignore[reportAssignmentType]
        check_callable(function, caller)
    leaves, tree = flat_arguments(initial_guess, caller, solve, (None, initial_guess))
    avals = types_of(leaves)
    tangent_avals = [a.tangent() for a in avals]
    parts = (
        _program(caller, f"`{name_of(f)}`", f, f, tree, avals),
        _program(caller, "solve", solve, lambda x: solve(f, x), tree, avals, has_aux=has_aux),
        _program(
            caller, "tangent_solve", tangent_solve,
            lambda root, right: tangent_solve(linearize(f, root)[1], right), tree, avals, tangent_avals,
        ),
    )  # fmt: skip
    of_f, solver, of_tangents = (part.program.jaxpr for part in parts)
    # Operands of the call: the constants of f, of solve, of tangent_solve, then the initial guess of `n` leaves.
    sizes, n = [len(part.consts) for part in parts], len(avals)

    def function(*operands):
        _, consts, _, guess = consecutive(sizes, operands)
        return replay(solver, (), *consts, *guess)

    def rule(primals: Operands, tangents: Operands) -> tuple[Values, Values]:
        results = context.trace.custom_call(call, tuple(primals))
        # Results: the root, then aux.
        root = results[:n]
        f_consts, _, tangent_consts, _ = consecutive(sizes, primals)
        _, right, _ = jvp_flat(
            lambda *consts: (replay(of_f, (), *consts, *root), ()),
            f_consts,
            tangents[: len(f_consts)],
        )
        out_tangents: Values = [*map(zero_of, results)]
        if any(nonzero_mask(right)):
            solution = replay(of_tangents, (), *tangent_consts, *root, *map(instantiate, right))
            out_tangents[:n] = map(neg, solution)
        return results, out_tangents

    call = CustomJvpCall(caller, function, rule, "implicit derivative", False)
    operands = (*(c for part in parts for c in part.consts), *leaves)
    results = context.trace.custom_call(call, operands)
    # `solve` may return constants as host numbers.
    results = [x if hasattr(x, "aval") else bottom().number(x, type_of(x)) for x in results]
    return _solution(tree, results, parts[1], has_aux)

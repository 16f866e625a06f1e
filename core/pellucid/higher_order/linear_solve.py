"""Solutions differentiated by the equation they solve: `custom_linear_solve`, `custom_root`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from pellucid.base.errors import ArgumentTypeError, DerivativeRuleError
from pellucid.base.tree import keystr
from pellucid.higher_order.bodies import differing_types, types_of
from pellucid.higher_order.custom_jvp import CustomJvpCall
from pellucid.ir.effects import Effects
from pellucid.ir.jaxpr import ClosedJaxpr, DebugInfo, Equation
from pellucid.ir.primitive import Programs
from pellucid.ir.rules import Avals, BatchAxis, BatchDim, LinearOperand, Operands, Zero
from pellucid.ir.traits import CONTROL
from pellucid.primitives.arithmetic import neg
from pellucid.primitives.broadcasting import brought_to
from pellucid.tracing.context import context
from pellucid.tracing.function import name_of
from pellucid.tracing.replay import replay
from pellucid.tracing.trace import bind
from pellucid.tracing.values import type_of
from pellucid.transforms.arguments import check_callable, checked_leaves, result_leaves, with_aux
from pellucid.transforms.derived import stage_open
from pellucid.transforms.gradient import linear_transpose
from pellucid.transforms.jvp import jvp_flat, jvp_jaxpr
from pellucid.transforms.linearize import linearize
from pellucid.transforms.vmap import batch_jaxpr
from pellucid.transforms.zeros import add_tangents, instantiate
from pellucid.xla.pytree import flatten, flatten_with_path

# The primitive ------------------------------------------------------------------------------------------


class LinearSolveTuple(NamedTuple):
    """One thing for each of the functions that make a linear solve; the last but two are for the transpose."""

    matvec: Any
    vecmat: Any
    solve: Any
    transpose_solve: Any

    def transposed(self) -> LinearSolveTuple:
        """The same for the transposed system."""
        return LinearSolveTuple(self.vecmat, self.matvec, self.transpose_solve, self.solve)


class LinearSolveParams(NamedTuple):
    """Operands are the constants of each program, then the right-hand side; results the solution, then aux."""

    const_lengths: LinearSolveTuple
    jaxprs: LinearSolveTuple

    def split(self, values: Operands) -> tuple[LinearSolveTuple, Sequence[Any]]:
        """(things given for the constants, things given for the right-hand side)."""
        parts, start = [], 0
        for n in self.const_lengths:
            parts.append(values[start : start + n])
            start += n
        return LinearSolveTuple(*parts), values[start:]

    def transposed(self) -> LinearSolveParams:
        """Params of the transposed system."""
        return LinearSolveParams(self.const_lengths.transposed(), self.jaxprs.transposed())


class LinearSolve(Programs[LinearSolveParams]):
    """x with A x = b: its tangent solves A dx = db - dA x, its transpose the transposed system."""

    name = "custom_linear_solve"
    traits = CONTROL.replace(makes_nan=True)

    def abstract_eval(self, avals, params):
        return params.jaxprs.solve.out_avals

    def effects(self, avals, params):
        return params.jaxprs.solve.effects

    def jvp(self, primals, tangents, params):
        results = bind(self, *primals, params=params)
        consts, b = params.split(primals)
        const_tangents, b_tangents = params.split(tangents)
        n = len(b)
        right = list(b_tangents)
        nonzero = [type(t) is not Zero for t in const_tangents.matvec]
        if any(nonzero):
            program, more, mask = jvp_jaxpr(
                params.jaxprs.matvec.jaxpr, [*nonzero, *[False] * n], False
            )
            live = [t for t in const_tangents.matvec if type(t) is not Zero]
            found = iter(replay(program.jaxpr, (), *more, *consts.matvec, *results[:n], *live)[n:])
            right = [
                add_tangents(t, neg(next(found))) if m else t
                for t, m in zip(right, mask, strict=True)
            ]
        aux_tangents = [Zero(type_of(x).tangent()) for x in results[n:]]
        if all(type(t) is Zero for t in right):
            return results, [*right, *aux_tangents]
        operands = [*primals[: len(primals) - n], *map(instantiate, right)]
        return results, [*bind(self, *operands, params=params)[:n], *aux_tangents]

    def transpose(self, cotangents, operands, params):
        consts, b = params.split(operands)
        if params.jaxprs.transpose_solve is None:
            raise DerivativeRuleError(
                "reverse mode through custom_linear_solve needs to solve the transposed system.",
                do="Give transpose_solve, or symmetric=True if the operator is symmetric.",
            )
        if not all(type(x) is LinearOperand for x in b):
            raise DerivativeRuleError(
                "custom_linear_solve is linear in all of its right-hand side at once."
            )
        cts = [instantiate(ct) for ct in cotangents[: len(b)]]
        moved = consts.transposed()
        found = bind(self, *(x for part in moved for x in part), *cts, params=params.transposed())
        return [*[None] * (len(operands) - len(b)), *found[: len(b)]]

    def batch(self, axis, operands, dims, params):
        consts, b = params.split(operands)
        const_dims, b_dims = params.split(dims)
        n = len(b)
        programs, new_consts, out_dims = [], [], []
        for jaxpr, values, value_dims in zip(params.jaxprs, consts, const_dims, strict=True):
            if jaxpr is None:
                programs.append(None)
                new_consts.append([])
                continue
            want = [i < n for i in range(len(jaxpr.out_avals))]
            program, more, found = batch_jaxpr(jaxpr.jaxpr, axis, [*value_dims, *[0] * n], want)
            programs.append(program)
            new_consts.append([*more, *values])
            out_dims.append(found)
        b = [brought_to(axis, x, d, 0) for x, d in zip(b, b_dims, strict=True)]
        new = LinearSolveParams(
            LinearSolveTuple(*map(len, new_consts)), LinearSolveTuple(*programs)
        )
        results = bind(self, *(x for part in new_consts for x in part), *b, params=new)
        solve_dims = batch_dims_of_solve(params, out_dims)
        return results, solve_dims

    def lower(self, ctx, operands, params):
        consts, b = params.split(operands)
        return ctx.inline(params.jaxprs.solve.jaxpr, (), [*consts.solve, *b])

    def dead_code(self, used, equation):
        remaining = equation if any(used) or equation.effects else None
        return [remaining is not None] * len(equation.operands), remaining


linear_solve_p = LinearSolve()


def batch_dims_of_solve(
    params: LinearSolveParams, out_dims: Sequence[Sequence[BatchDim]]
) -> list[BatchDim]:
    """Where the results of the batched solve have their batch axes."""
    position = sum(jaxpr is not None for jaxpr in params.jaxprs[:2])
    return list(out_dims[position])


# custom_linear_solve --------------------------------------------------------------------------------------


def custom_linear_solve(
    matvec: Callable[[Any], Any],
    b: Any,
    solve: Callable[[Callable[[Any], Any], Any], Any],
    transpose_solve: Callable[[Callable[[Any], Any], Any], Any] | None = None,
    symmetric: bool = False,
    has_aux: bool = False,
) -> Any:
    """`solve(matvec, b)`, the solution x of `matvec(x) = b`, differentiated by that equation and not by its steps.

    `matvec` is linear; `b`, x and `matvec(x)` are trees of one structure and types. Reverse mode needs
    `transpose_solve(vecmat, b)` for the transposed system, or `symmetric=True`. With `has_aux`, the solvers give
    (x, aux), whose aux is not differentiated.

    Raises: ArgumentTypeError where structures or types don't agree.

    >>> custom_linear_solve(lambda x: 2.0 * x, 3.0, lambda matvec, b: b / 2.0, symmetric=True)
    Array(1.5, dtype=float32, weak_type=True)
    """
    for function in (matvec, solve, *([transpose_solve] if transpose_solve is not None else [])):
        check_callable(function, "custom_linear_solve")
    leaves, tree = flatten(b)
    leaves = (
        checked_leaves(leaves, "custom_linear_solve", solve, (None, b), {}) if leaves else leaves
    )
    avals = types_of(leaves)
    forward = _program(matvec, matvec, tree, avals, "matvec")
    solver = _program(solve, lambda y: solve(matvec, y), tree, avals, "solve", has_aux=has_aux)
    backward: _Program | None = None
    transpose_solver: _Program | None = None
    if symmetric:
        backward, transpose_solver = forward, solver
        if transpose_solve is not None:
            given = transpose_solve
            transpose_solver = _program(
                given, lambda y: given(matvec, y), tree, avals, "transpose_solve", has_aux=has_aux
            )
    elif transpose_solve is not None:
        given = transpose_solve
        vecmat = lambda y: linear_transpose(matvec, tree.unflatten(avals))(y)[0]
        backward = _program(matvec, vecmat, tree, avals, "vecmat")
        transpose_solver = _program(
            given, lambda y: given(vecmat, y), tree, avals, "transpose_solve", has_aux=has_aux
        )
    programs = (forward, backward, solver, transpose_solver)
    params = LinearSolveParams(
        LinearSolveTuple(*(0 if p is None else len(p.consts) for p in programs)),
        LinearSolveTuple(*(None if p is None else p.program for p in programs)),
    )
    consts = [c for p in programs if p is not None for c in p.consts]
    results = bind(linear_solve_p, *consts, *leaves, params=params)
    n = len(leaves)
    solution = tree.unflatten(results[:n])
    return (solution, solver.aux_tree.unflatten(results[n:])) if has_aux else solution


class _Program(NamedTuple):
    program: ClosedJaxpr
    consts: list[Any]
    aux_tree: Any


def _program(
    function: Callable[..., Any],
    call: Callable[[Any], Any],
    tree: Any,
    avals: Avals,
    what: str,
    *,
    has_aux: bool = False,
) -> _Program:
    """The program of `call`, which must give a tree of the structure and types that it takes."""
    aux_trees: list[Any] = []

    def flat(*leaves: Any) -> list[Any]:
        result = call(tree.unflatten(leaves))
        aux: list[Any] = []
        if has_aux:
            result, auxiliary = with_aux(result, function, "custom_linear_solve")
            aux, aux_tree = flatten(auxiliary)
            aux_trees.append(aux_tree)
        results, out_tree = result_leaves(result, "custom_linear_solve", function)
        check_same_type("custom_linear_solve", what, tree, avals, out_tree, types_of(results))
        return [*results, *aux]

    program, consts = stage_open(flat, avals, DebugInfo(name_of(function)))
    return _Program(program, consts, aux_trees[0] if aux_trees else None)


def check_same_type(
    caller: str, what: str, tree: Any, avals: Avals, out_tree: Any, out_avals: Avals
) -> None:
    """Raise ArgumentTypeError unless a result has the structure and types `tree` and `avals`."""
    if tree != out_tree:
        raise ArgumentTypeError(
            f"{caller}: {what} must return the structure that it takes.",
            got=[f"taken {tree}", f"returned {out_tree}"],
        )
    different = differing_types(avals, out_avals)
    if different:
        paths = [path for path, _ in flatten_with_path(tree.unflatten(range(tree.num_leaves)))[0]]
        raise ArgumentTypeError(
            f"{caller}: {what} must return the types that it takes.",
            got=[
                f"value{keystr(paths[i])}: taken {avals[i].text()}, returned {out_avals[i].text()}"
                for i in different[:4]
            ],
        )


# custom_root ----------------------------------------------------------------------------------------------


def custom_root(
    f: Callable[[Any], Any],
    initial_guess: Any,
    solve: Callable[[Callable[[Any], Any], Any], Any],
    tangent_solve: Callable[[Callable[[Any], Any], Any], Any],
    has_aux: bool = False,
) -> Any:
    """`solve(f, initial_guess)`, a root of `f`, differentiated by the implicit function theorem.

    `tangent_solve(g, y)` solves `g(x) = y` for a linear g, the derivative of `f` at the root. The derivative is by the
    values that `f` captures; `initial_guess` counts as a constant. With `has_aux`, `solve` gives (root, aux).

    >>> newton = lambda f, x: x - f(x) / 2.0
    >>> custom_root(lambda x: 2.0 * x - 3.0, 0.0, newton, lambda g, y: y / g(1.0))
    Array(1.5, dtype=float32, weak_type=True)
    """
    for function in (f, solve, tangent_solve):  # pyright: ignore[reportAssignmentType]
        check_callable(function, "custom_root")
    leaves, tree = flatten(initial_guess)
    leaves = (
        checked_leaves(leaves, "custom_root", solve, (None, initial_guess), {})
        if leaves
        else leaves
    )
    avals = types_of(leaves)
    aux_trees: list[Any] = []

    def flat_f(*xs: Any) -> list[Any]:
        results, out_tree = result_leaves(f(tree.unflatten(xs)), "custom_root", f)
        check_same_type("custom_root", f"`{name_of(f)}`", tree, avals, out_tree, types_of(results))
        return results

    def flat_solve(*xs: Any) -> list[Any]:
        result = solve(f, tree.unflatten(xs))
        aux: list[Any] = []
        if has_aux:
            result, auxiliary = with_aux(result, solve, "custom_root")
            aux, aux_tree = flatten(auxiliary)
            aux_trees.append(aux_tree)
        results, out_tree = result_leaves(result, "custom_root", solve)
        check_same_type("custom_root", "solve", tree, avals, out_tree, types_of(results))
        return [*results, *aux]

    def linearize_and_solve(*values: Any) -> list[Any]:
        n = len(avals)
        _, derivative = linearize(f, tree.unflatten(values[:n]))
        results, out_tree = result_leaves(
            tangent_solve(derivative, tree.unflatten(values[n:])), "custom_root", tangent_solve
        )
        check_same_type("custom_root", "tangent_solve", tree, avals, out_tree, types_of(results))
        return results

    f_program, f_consts = stage_open(flat_f, avals, DebugInfo(name_of(f)))
    solve_program, solve_consts = stage_open(flat_solve, avals, DebugInfo(name_of(solve)))
    tangent_avals = [*avals, *(a.tangent() for a in avals)]
    tangent_program, tangent_consts = stage_open(
        linearize_and_solve, tangent_avals, DebugInfo(name_of(tangent_solve))
    )
    n, n_f, n_solve, n_tangent = len(avals), len(f_consts), len(solve_consts), len(tangent_consts)

    def function(*operands: Any) -> list[Any]:
        return replay(
            solve_program.jaxpr,
            (),
            *operands[n_f : n_f + n_solve],
            *operands[n_f + n_solve + n_tangent :],
        )

    def rule(primals: Operands, tangents: Operands) -> tuple[list[Any], list[Any]]:
        results = context.trace.custom_jvp_call(call, tuple(primals))
        root = results[:n]
        _, right, _ = jvp_flat(
            lambda *consts: (replay(f_program.jaxpr, (), *consts, *root), ()),
            primals[:n_f],
            tangents[:n_f],
        )
        aux_tangents = [Zero(type_of(x).tangent()) for x in results[n:]]
        if all(type(t) is Zero for t in right):
            return results, [*(Zero(type_of(x).tangent()) for x in root), *aux_tangents]
        consts = primals[n_f + n_solve : n_f + n_solve + n_tangent]
        given = [instantiate(t) for t in right]
        found = replay(tangent_program.jaxpr, (), *consts, *root, *given)
        return results, [*map(neg, found), *aux_tangents]

    call = CustomJvpCall(
        "custom_root",
        function,
        rule,
        "implicit derivative",
        False,
        lambda: DebugInfo("custom_root"),
    )
    operands = (*f_consts, *solve_consts, *tangent_consts, *leaves)
    results = context.trace.custom_jvp_call(call, operands)
    solution = tree.unflatten(results[:n])
    return (solution, aux_trees[0].unflatten(results[n:])) if has_aux else solution

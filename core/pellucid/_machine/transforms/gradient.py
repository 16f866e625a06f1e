"""Public reverse mode: vjp, grad, value_and_grad, linear_transpose."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from pellucid._machine.base import (
    ArgumentTypeError,
    ArgumentValueError,
    Function,
    Keywords,
    MissingRule,
    Partial,
    ShapeError,
    dtypes,
    is_none,
    keystr,
    leaf_paths,
    register_pytree_node,
    strict_zip,
)
from pellucid._machine.ir import Avals, DebugInfo, Jaxpr, Operands, ShapedArray, Values, Zero
from pellucid._machine.primitives import full_like, instantiate, layout_of, marks_of, ones
from pellucid._machine.sharding import AxisType
from pellucid._machine.tracing import (
    context,
    indices,
    is_reference,
    name_of,
    plumbing,
    source_of,
    stage,
    type_of,
    types_of,
    use_transformation,
)
from pellucid._machine.xla import (
    flatten,
    flatten_tangents,
    leaves_outside,
    unflatten_apart,
    unflatten_bare,
    unflatten_tangents,
)

from .arguments import (
    FlatFunction,
    argument_paths,
    as_results,
    check_callable,
    check_real_output,
    flat_arguments,
    input_check,
    is_differentiable,
    refuse_reduce_axes,
    result_leaves,
    shaped_leaves,
    structure_lines,
    wraps,
)
from .linearize import Derivative, linearize_flat, linearized_call
from .masks import mask_if_enabled
from .transpose import backward_pass
from .zeros import spread

Argnums = int | Sequence[int]

# Which arguments --------------------------------------------------------------------------------------


class ChosenArguments:
    """The positional arguments with respect to which a function is differentiated, given by `argnums` (int or ints)."""

    def __init__(self, argnums: Any) -> None:
        self.positions = indices(argnums, "argnums")
        self.is_one = hasattr(argnums, "__index__")

    def of(self, function: Function, args: Operands) -> tuple[Any, ...]:
        """The selected arguments among `args`; raises ArgumentTypeError if one is missing."""
        if any(not -len(args) <= n < len(args) for n in self.positions):
            raise ArgumentTypeError(
                f"argnums={self.unwrap(self.positions)} chooses an argument that `{name_of(function)}` was not given.",
                got=f"it was called with {len(args)} positional argument{'s' * (len(args) != 1)}",
                do="Pass the arguments to differentiate by as positional arguments.",
            )
        return tuple([args[n] for n in self.positions])

    def put(self, args: Operands, chosen: Operands) -> Values:
        """`args` with the selected arguments replaced by `chosen`."""
        replaced = list(args)
        for n, x in strict_zip(self.positions, chosen):
            replaced[n] = x
        return replaced

    def unwrap(self, chosen: tuple[Any, ...]) -> Any:
        """`chosen` in the form that users get: a single value for an int `argnums`, else a tuple."""
        return chosen[0] if self.is_one else chosen

    def path_of_leaf(self, function: Function, args: Operands, index: int) -> str:
        """Path of leaf number `index` of the selected arguments."""
        paths = iter(argument_paths(function, args))
        by_argument = [[*islice(paths, flatten(x)[1].num_leaves)] for x in args]
        return [path for n in self.positions for path in by_argument[n]][index]

    def flat_call(
        self, flat: FlatFunction, args: Operands, check: Callable[..., None]
    ) -> tuple[Values, Avals, Any]:
        """(leaves, types, structure) of the selected arguments; turns `flat` into the function of these leaves.

        `check(aval, path)` raises for types that can't be differentiated; `path()` is the leaf's path.
        """
        fun = flat.fun
        leaves, tree = flat_arguments(self.of(fun, args), flat.caller, fun, args, flat.kwargs)

        def arguments_of(xs: Values) -> Any:
            return self.put(args, tree.unflatten(xs))

        flat.arguments_of = arguments_of
        avals = types_of(leaves)
        for i in leaves_outside(tree):
            check(avals[i], lambda i=i: self.path_of_leaf(fun, args, i))
        return leaves, avals, tree


# grad ---------------------------------------------------------------------------------------------------


def value_and_grad(
    fun: Function,
    argnums: Argnums = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
    allow_int: bool = False,
    reduce_axes: Sequence[Any] = (),
) -> Function:
    """Returns a function that computes the value of `fun`, a real scalar, and its gradient with respect to some
    arguments.

    The gradient has the structure, shapes and dtypes of the arguments at `argnums` (a tuple of them if `argnums` is a
    sequence); integers have gradients of dtype `float0`. With `has_aux`, `fun` returns `(value, aux)`, and the result
    is `((value, aux), gradient)`. `holomorphic` promises that `fun` is complex-differentiable, with complex arguments
    and result. Otherwise the gradient with respect to a complex argument z = x + iy is df/dx - i df/dy.

    Raises: DtypeError for arguments or results that can't be differentiated, ShapeError unless the result is
    a scalar.

    >>> value_and_grad(lambda x: x * x)(3.0)
    (Array(9., dtype=float32, weak_type=True), Array(6., dtype=float32, weak_type=True))
    """
    differentiated = _gradient_function(
        fun, "value_and_grad", argnums, has_aux, holomorphic, allow_int, reduce_axes
    )

    @wraps(fun, "Value and gradient")
    def value_and_gradient(*args: Any, **kwargs: Any) -> Any:
        value, gradient, *aux = differentiated(args, kwargs)
        return ((value, *aux), gradient) if has_aux else (value, gradient)

    return value_and_gradient


def grad(
    fun: Function,
    argnums: Argnums = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
    allow_int: bool = False,
    reduce_axes: Sequence[Any] = (),
) -> Function:
    """Returns a function that computes the gradient of `fun`, a real scalar, with respect to some arguments.

    Options are those of `value_and_grad`; with `has_aux` the result is `(gradient, aux)`.

    >>> grad(lambda x: x * x)(3.0)
    Array(6., dtype=float32, weak_type=True)
    """
    differentiated = _gradient_function(
        fun, "grad", argnums, has_aux, holomorphic, allow_int, reduce_axes
    )

    @wraps(fun, "Gradient")
    def gradient_of(*args: Any, **kwargs: Any) -> Any:
        _, gradient, *aux = differentiated(args, kwargs)
        return (gradient, *aux) if has_aux else gradient

    return gradient_of


def _gradient_function(
    fun: Function,
    caller: str,
    argnums: Argnums,
    has_aux: bool,
    holomorphic: bool,
    allow_int: bool,
    reduce_axes: Sequence[Any],
) -> Function:
    """A function of (args, kwargs) that returns the value of `fun`, its gradient, and its auxiliary data if any."""
    check_callable(fun, caller)
    chosen = ChosenArguments(argnums)
    refuse_reduce_axes(caller, reduce_axes)
    check = input_check(caller, holomorphic, allow_int)

    def differentiate(args: Operands, kwargs: Keywords) -> tuple[Any, ...]:
        flat = _ScalarFunction(fun, caller, has_aux, kwargs=kwargs)
        leaves, avals, tree = chosen.flat_call(flat, args, check)
        nonzero = [is_differentiable(aval) for aval in avals]
        [value], program, aux = linearize_flat(flat, leaves, nonzero)
        [out_aval] = program.out_avals
        check_real_output(out_aval, caller, holomorphic)
        _check_addends(out_aval, (), "the result", name_of(fun))
        with plumbing("grad"), use_transformation("transpose"):
            cotangents = program.pulled_back([_one_like(value, out_aval)])
            gradient = unflatten_tangents(
                tree, _instantiate(spread(cotangents, nonzero, avals), avals)
            )
        [value] = as_results([value])
        return flat.with_aux((value, chosen.unwrap(gradient)), aux)

    return differentiate


def _one_like(value: Any, aval: Any) -> Any:
    """The cotangent 1 for the result `value` of type `aval`, placed like it if the user has placed it."""
    if context.trace.is_eager and layout_of(value, ()) is not None:
        return full_like(value, 1)
    return ones(aval)


class _ScalarFunction(FlatFunction):
    """A function whose result must be one scalar."""

    def leaves_of(self, result: Any) -> Values:
        return [scalar_result(result, self.caller, self.fun)]


def scalar_result(result: Any, caller: str, function: Function) -> Any:
    """`result` if it is a scalar array; otherwise raises an error that states why it has no gradient."""
    try:
        shape = type_of(result).shape
    except ArgumentTypeError:
        leaves, tree = flatten(result)
        shown = type(result).__name__ + (
            f" with {len(leaves)} leaves" if tree.num_nodes > 1 else f" ({result!r:.60})"
        )
        raise ArgumentTypeError(
            f"{caller} needs a function whose result is one scalar.",
            got=f"`{name_of(function)}` returned {shown}",
            do="Return a scalar, or set has_aux=True and return (scalar, the rest); `vjp` and `jacrev` take any result.",
        ) from None
    if shape != ():
        raise ShapeError(
            f"{caller} needs a function whose result is one scalar.",
            got=f"`{name_of(function)}` returned {type_of(result).text()}",
            do="Reduce it, for example with `.sum()`, or use `vjp` or `jacrev`.",
        )
    return result


def _instantiate(cotangents: Operands, avals: Avals) -> Values:
    """Cotangents of values of types `avals` as arrays; those of reduced values become unreduced, even zeros."""
    return [
        instantiate(
            Zero(aval.cotangent()) if type(ct) is Zero and type(aval) is ShapedArray else ct
        )
        for ct, aval in strict_zip(cotangents, avals)
    ]


# vjp ----------------------------------------------------------------------------------------------------


class NotNeeded:
    """Placeholder in `VJP.args_res` for an argument that the backward pass doesn't need."""

    def __repr__(self) -> str:
        return "NotNeeded()"


register_pytree_node(NotNeeded, lambda x: ((), None), lambda aux, children: NotNeeded())


@dataclass(eq=False, repr=False)
class VJP:
    """The backward pass of a function at a point: call it with a cotangent of the result.

    It is a pytree whose leaves are the residuals. `args_res` lists, for each argument of the function, the residuals
    that are leaves of the argument, in nested tuples like it; `opaque_residuals` are the others. So it can be returned
    from `jit` and passed to it. An argument can be removed from `args_res` and set again, as a tree of the argument's
    structure.
    """

    derivative: Derivative
    sources: tuple[int | None, ...]
    """For each residual, the index of the argument leaf that it is; None for an opaque one."""
    args_res: list[Any]
    opaque_residuals: Values

    @property
    def jaxpr(self) -> Jaxpr:
        """The linear program to transpose; its constants are the residuals."""
        return self.derivative.program.jaxpr

    @property
    def in_tree(self) -> Any:
        """Pytree structure of the function's arguments."""
        return self.derivative.in_tree

    @property
    def out_tree(self) -> Any:
        """Pytree structure of the function's result."""
        return self.derivative.out_tree

    def __call__(self, out_ct: Any, *more: Any) -> Any:
        """Cotangents of the arguments, as a tuple."""
        name, program, in_avals, in_tree, out_tree = self.derivative
        if more:
            raise ArgumentTypeError(
                f"the backward pass of `{name}` takes one argument, the cotangent of its result.",
                got=f"got {len(more) + 1} arguments",
                do="If the result is a tuple, pass a tuple of cotangents.",
            )
        cotangents = checked_cotangents(out_ct, out_tree, program.out_avals, name)
        residuals = self._residuals()
        with plumbing("vjp"), use_transformation("transpose"):
            in_cotangents = program._replace(residuals=residuals).pulled_back(cotangents)
            gradient = spread(in_cotangents, program.nonzero_in, in_avals)
            return unflatten_tangents(in_tree, as_results(_instantiate(gradient, in_avals)))

    def _residuals(self) -> Values:
        leaves = flatten(self.args_res, lambda x: isinstance(x, NotNeeded))[0]
        needed = sorted({i for i in self.sources if i is not None})
        missing = [i for i in needed if i >= len(leaves) or isinstance(leaves[i], NotNeeded)]
        if missing or len(leaves) != self.in_tree.num_leaves:
            paths = leaf_paths(self.in_tree)
            raise ArgumentValueError(
                f"args_res of the backward pass of `{self.derivative.name}` lacks arguments that it needs.",
                got=f"{len(leaves)} leaves, arguments of {len(paths)}",
                do="Fill in "
                + ", ".join(f"args_res{keystr(paths[i])}" for i in (missing or needed)[:4])
                + ", each argument nested as the function takes it.",
            )
        # `sources`: for each residual the leaf of the arguments that it is, or None for the next opaque one.
        opaque = iter(self.opaque_residuals)
        return [next(opaque) if i is None else leaves[i] for i in self.sources]

    def with_refs(self, *refs: Any) -> Callable[[Any], Any]:
        """The backward pass with cotangents accumulated into references instead of returned.

        `refs` has one entry for each argument: a tree of its structure whose leaves are references, to which the
        cotangent is added; None for cotangents that aren't needed; or any other object to have the cotangent returned.
        For the first two, None is returned.

        >>> from pellucid import new_ref
        >>> total = new_ref(0.0)
        >>> _, backward = vjp(lambda x: x * x, 3.0)
        >>> backward.with_refs(total)(1.0), backward.with_refs(total)(1.0)
        ((None,), (None,))
        >>> total
        Ref(12., dtype=float32)
        """
        leaves, tree = flatten(refs, is_none)
        if tree != self.in_tree:
            raise ArgumentTypeError(
                f"with_refs of the backward pass of `{self.derivative.name}` needs an entry for each argument.",
                got=structure_lines("refs", self.in_tree, tree),
            )

        def backward(out_ct: Any) -> Any:
            cotangents = flatten(self(out_ct))[0]
            for ref, cotangent in strict_zip(leaves, cotangents):
                if is_reference(ref):
                    ref.addupdate(cotangent)
            return self.in_tree.unflatten(
                [
                    None if ref is None or is_reference(ref) else cotangent
                    for ref, cotangent in strict_zip(leaves, cotangents)
                ]
            )

        return backward

    def __repr__(self) -> str:
        return f"VJP({self.derivative.name}, {len(self.jaxpr.constvars)} residuals)"


register_pytree_node(
    VJP,
    lambda vjp: ((vjp.args_res, vjp.opaque_residuals), (vjp.derivative, vjp.sources)),
    lambda data, children: VJP(*data, *children),  # pyright: ignore[reportGeneralTypeIssues, reportUnknownArgumentType]
)


def vjp(
    fun: Function, *primals: Any, has_aux: bool = False, reduce_axes: Sequence[Any] = ()
) -> Any:
    """`(fun(*primals), backward)`, where `backward` maps a cotangent of the result to cotangents of the primals.

    The cotangent must have the structure, shapes and dtypes of the result (`float0` for integers); `backward` returns a
    tuple with one entry for each primal. With `has_aux`, `fun` returns `(result, aux)`, and `aux` is the third result.

    >>> y, backward = vjp(lambda x: x * x, 3.0)
    >>> backward(1.0)
    (Array(6., dtype=float32, weak_type=True),)
    """
    refuse_reduce_axes("vjp", reduce_axes)

    def backward(derivative: Derivative, leaves: Values, residuals: Values) -> VJP:
        positions = {id(x): i for i, x in enumerate(leaves)}
        sources = tuple([positions.get(id(residual)) for residual in residuals])
        opaque = [r for r, i in strict_zip(residuals, sources) if i is None]
        used = {*sources}
        arguments = [x if i in used else NotNeeded() for i, x in enumerate(leaves)]
        args_res = [*unflatten_bare(derivative.in_tree, arguments)]
        return VJP(derivative, sources, args_res, opaque)

    return linearized_call(fun, "vjp", primals, has_aux, backward)


def checked_cotangents(cotangent: Any, out_tree: Any, out_avals: Avals, name: str) -> Values:
    """Leaves of a cotangent of a result; raises if its structure, shapes or dtypes differ from the result's."""
    leaves, tree = flatten_tangents(out_tree, cotangent, lambda x: type(x) is Zero)
    if tree != out_tree:
        raise ArgumentValueError(
            f"the cotangent doesn't have the structure of the result of `{name}`.",
            got=structure_lines("cotangent", out_tree, tree, leaves),
            do="Pass one cotangent for each array of the result, nested as the result is.",
        )
    for i, (ct, out_aval) in enumerate(strict_zip(leaves, out_avals)):
        expected = out_aval.tangent()
        aval = ct.aval if type(ct) is Zero else type_of(ct)
        if aval.shape != expected.shape or expected.dtype not in (aval.dtype, dtypes.float0):  # pyright: ignore[reportAttributeAccessIssue]
            path = argument_paths(_as_result, (unflatten_apart(out_tree, leaves),))[i]
            raise ArgumentValueError(
                f"a cotangent doesn't have the type of the result of `{name}`.",
                got=f"{path}: got {aval.text()}, expected {expected.text()}, the result is {out_aval.text()}",
                do="Convert it; cotangents of integers have dtype float0.",
            )
        if type(ct) is not Zero:
            _check_addends(out_aval, marks_of(aval).unreduced, f"result[{i}]", name)
    return leaves


def _as_result(result: Any) -> Any:
    return result


def _check_addends(aval: Any, unreduced: Iterable[Any], path: str, name: str) -> None:
    """Raises ArgumentValueError if a cotangent of type `aval`, unreduced over some axes, would count once per position.

    In `shard_map`, each position has its own cotangent of a reduced value, and their sum is the cotangent.
    """
    shown = aval.shown_sharding
    missing = [
        axis
        for axis in marks_of(aval).reduced.difference(unreduced)
        if shown.mesh.axis_type_by_name[axis] is AxisType.Manual
    ]
    if missing:
        raise ArgumentValueError(
            f"the cotangent of a value that is reduced over mesh axis {missing[0]!r} must be unreduced over it.",
            got=f"{path} of `{name}`: {aval.text()}",
            do=f'Cast the result, `lax.pcast(x, {missing[0]!r}, to="varying")`, and sum it as you mean it.',
        )


# linear_transpose -----------------------------------------------------------------------------------------


def linear_transpose(fun: Function, *primals: Any, reduce_axes: Sequence[Any] = ()) -> Function:
    """The transpose of `fun`, which must be linear: a function from cotangents of its result to cotangents of
    `primals`.

    Only shapes and dtypes of the primals are used, which may be `ShapeDtypeStruct`s. All must be floating or complex,
    or all integers. Raises MissingRule if `fun` is not linear.

    >>> transposed = linear_transpose(lambda x: x + x, 1.0)
    >>> transposed(3.0)
    (Array(6., dtype=float32, weak_type=True),)
    """
    check_callable(fun, "linear_transpose")
    refuse_reduce_axes("linear_transpose", reduce_axes)
    leaves, in_tree = flatten(primals)
    avals = shaped_leaves(leaves, "linear_transpose", fun, primals)
    trees: list[Any] = []

    def flat(*xs: Any) -> Values:
        results, out_tree = result_leaves(fun(*in_tree.unflatten(xs)), "linear_transpose", fun)
        trees.append(out_tree)
        return results

    name = name_of(fun)
    debug = DebugInfo("linear_transpose", source_of(fun), argument_paths(fun, primals))
    jaxpr, consts = stage(flat, avals, debug)
    [out_tree] = trees
    kinds = {is_differentiable(a) for a in (*avals, *jaxpr.out_avals)}
    if len(kinds) > 1:
        raise ArgumentTypeError(
            "linear_transpose needs floating or complex inputs and results, or integer inputs and results.",
            got=f"from {', '.join(a.text() for a in avals)} to {', '.join(a.text() for a in jaxpr.out_avals)}",
        )

    def transpose_flat(consts: Values, cotangent: Any) -> Any:
        leaves, tree = flatten(cotangent)
        if tree != out_tree or any(
            type_of(ct).strip_weak_type() is not aval.strip_weak_type()  # type: ignore[attr-defined]
            for ct, aval in strict_zip(leaves, jaxpr.out_avals)
        ):
            raise ArgumentTypeError(
                f"the cotangent doesn't have the type of the result of `{name}`.",
                got=[f"got {', '.join(type_of(x).text() for x in leaves)}",
                     f"expected {', '.join(a.text() for a in jaxpr.out_avals)}"],
            )  # fmt: skip
        try:
            with plumbing("linear_transpose"), use_transformation("transpose"):
                pulled = mask_if_enabled(lambda cts: backward_pass(jaxpr, consts, cts), leaves)
                cotangents = [*map(instantiate, pulled)]
        except MissingRule as error:
            raise MissingRule(
                f"linear_transpose: `{name}` is not linear, or its transpose is not known.",
                got=[error.what, *filter(None, [error.do])],
                do="Use `vjp` for the derivative of a function that is not linear.",
            ) from error
        return in_tree.unflatten(as_results(cotangents))

    return Partial(transpose_flat, consts)

"""`custom_gradient` and `closure_convert`, built on `custom_vjp`."""

from __future__ import annotations

from itertools import compress
from typing import Any

from pellucid._machine.base import (
    DerivativeRuleError,
    Function,
    Partial,
    dtypes,
    merge_by_mask,
    strict_zip,
)
from pellucid._machine.ir import Values
from pellucid._machine.tracing import Tracer, type_of, types_of
from pellucid._machine.transforms import check_callable, flat_arguments, structure_lines, with_aux
from pellucid._machine.xla import flatten, treedef_tuple

from .bodies import body_of
from .calls import run_program
from .custom_rules import calling
from .custom_vjp import custom_vjp


def custom_gradient(fun: Function) -> Function:
    """A function with a custom reverse derivative: `fun` returns (result, function from cotangent to cotangents).

    Raises: ArgumentTypeError where `fun` returns no pair; DerivativeRuleError for cotangents that don't fit the arguments.

    >>> from pellucid import grad
    >>> f = custom_gradient(lambda x: (x * x, lambda ct: 10.0 * ct))
    >>> grad(f)(3.0)
    Array(10., dtype=float32, weak_type=True)
    """
    check_callable(fun, "custom_gradient")

    @custom_vjp
    def wrapped_fun(*args: Any, **kwargs: Any) -> Any:
        return with_aux(fun(*args, **kwargs), fun, "custom_gradient")[0]

    def fwd(*args, **kwargs):
        result, rule = with_aux(fun(*args, **kwargs), fun, "custom_gradient")
        leaves, out_tree = flatten(result)
        avals = [type_of(x).tangent() for x in leaves]
        body = body_of(rule, treedef_tuple([out_tree]), avals, "custom_gradient")
        run = lambda *xs: body.out_tree.unflatten(calling(body.program.jaxpr)(*xs))
        return result, Partial(run, *body.consts)

    def bwd(rule: Function, cotangent: Any) -> Any:
        cotangents = rule(*flatten(cotangent)[0])
        return cotangents if isinstance(cotangents, (tuple, list)) else (cotangents,)

    wrapped_fun.defvjp(fwd, bwd)
    return wrapped_fun


def closure_convert(fun: Function, *example_args: Any) -> tuple[Function, Values]:
    """`(converted, values)`: `fun` with captured values that may be differentiated as additional arguments.

    `converted(*args, *values)` equals `fun(*args)` for arguments of the types of `example_args`.

    Raises: DerivativeRuleError where `converted_function` gets arguments of another structure.

    >>> converted, values = closure_convert(lambda x: x * x, 2.0)
    >>> converted(3.0, *values)
    Array(9., dtype=float32, weak_type=True)
    """
    check_callable(fun, "closure_convert")
    leaves, in_tree = flat_arguments(example_args, "closure_convert", fun, example_args)
    program, consts, out_tree = body_of(fun, in_tree, types_of(leaves), "closure_convert")
    # One flag per constant of the program: those that may be differentiated become arguments.
    hoisted = [
        isinstance(c, Tracer) and type_of(c).tangent().dtype != dtypes.float0 for c in consts
    ]
    n = sum(hoisted)
    # Programs keep `converted_function` alive, so it must not contain traced values of the outer trace.
    others = [None if h else c for c, h in strict_zip(consts, hoisted)]

    def converted_function(*args_and_values: Any) -> Any:
        split = len(args_and_values) - n
        args, values = args_and_values[:split], args_and_values[split:]
        inputs, tree = flatten(tuple(args))
        if tree != in_tree:
            raise DerivativeRuleError(
                "a closure-converted function got arguments of another structure than the example's.",
                got=structure_lines("args", in_tree, tree, inputs),
            )
        # All constants in their old order: arguments in their places, others unchanged.
        captured = merge_by_mask(hoisted, values, others)
        return out_tree.unflatten(run_program(program.jaxpr, *captured, *inputs))

    return converted_function, list(compress(consts, hoisted))

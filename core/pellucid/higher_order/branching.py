"""Branches as users call them: `cond`, `switch`, `platform_dependent`.

Devices inside `shard_map` may choose differently. What such a branch computes with varies as the choice does, and is made
to vary before it: the transpose of that cast sums over devices, which they can do only where all of them arrive.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pellucid.base import (
    ArgumentTypeError,
    ArgumentValueError,
    Function,
    config,
    keystr,
    strict_zip,
    structure_differences,
)
from pellucid.ir import Avals, Jaxpr, Literal, Operands, Values, called, without_forwarded
from pellucid.primitives.conversion import convert_element_type
from pellucid.primitives.logical import clamp
from pellucid.primitives.staging import stage
from pellucid.primitives.varying import pvary_p, vary
from pellucid.tracing import (
    Tracer,
    bind,
    bind1,
    check_distinct,
    context,
    is_array_like,
    name_of,
    name_operands,
    replay,
    type_of,
    types_of,
)
from pellucid.transforms.arguments import check_callable, flat_arguments
from pellucid.transforms.derived import stage_open

from .bodies import Body, differing_types, layout_advice, traced, type_lines
from .cond import CondParams, PlatformIndexParams, cond_p, platform_index_p
from .structured import with_common_consts

_NO_OPERAND = object()


def cond(
    pred: Any, true_fun: Any, false_fun: Any, *operands: Any, operand: Any = _NO_OPERAND
) -> Any:
    """`true_fun(*operands)` if the scalar `pred` is true, else `false_fun(*operands)`; only one of them runs.

    Both give results of one structure and types. Under `vmap` with different `pred`s both run, and results are
    selected. The older form `cond(pred, true_operand, true_fun, false_operand, false_fun)` is understood, too.

    Raises: ArgumentTypeError for branches of different types (with the path and both types).

    >>> cond(True, lambda x: x + 1, lambda x: x - 1, 10)
    Array(11, dtype=int32, weak_type=True)
    """
    if (
        len(operands) == 2
        and callable(operands[1])
        and callable(false_fun)
        and not callable(true_fun)
    ):
        return _cond_of_two_operands(pred, true_fun, false_fun, *operands)
    if operand is not _NO_OPERAND:
        operands = (*operands, operand)
    check_callable(true_fun, "cond")
    check_callable(false_fun, "cond")
    _check_scalar("cond", "pred", pred)
    if config.disable_jit.value and not isinstance(pred, Tracer):
        return true_fun(*operands) if pred else false_fun(*operands)
    index = _index_of_predicate(pred)
    return _branch("cond", index, (false_fun, true_fun), ("false_fun", "true_fun"), operands)


def _cond_of_two_operands(pred, true_operand, true_fun, false_operand, false_fun):
    return cond(
        pred,
        lambda pair: true_fun(pair[0]),
        lambda pair: false_fun(pair[1]),
        (true_operand, false_operand),
    )


def _check_scalar(caller: str, name: str, x) -> None:
    if not is_array_like(x):
        raise ArgumentTypeError(f"{caller} needs a scalar {name}.", got=f"got {type(x).__name__}")
    aval: Any = type_of(x)
    if aval.shape != ():
        error = ArgumentTypeError(
            f"{caller} needs a scalar {name}.", got=f"{name}: {aval.text()}",
            do="Reduce it, for example with `.any()` or `.all()`, or use `jnp.where` or `vmap` to choose elementwise.",
        )  # fmt: skip
        raise name_operands(error, (x,))
    if aval.dtype.kind not in "biuf":
        error = ArgumentTypeError(
            f"{caller} needs a {name} that is a number or a boolean.", got=f"{name}: {aval.text()}"
        )
        raise name_operands(error, (x,))


def _index_of_predicate(pred):
    if isinstance(pred, (bool, np.bool_)):
        return np.int32(pred)
    if type_of(pred).dtype != np.bool_:
        pred = convert_element_type(pred, np.bool_)
    return convert_element_type(pred, np.int32)


def switch(
    index: Any, branches: Sequence[Function], *operands: Any, operand: Any = _NO_OPERAND
) -> Any:
    """`branches[index](*operands)`; an index that is out of range is moved into it. Only one branch runs.

    All branches give results of one structure and types.

    Raises: ArgumentTypeError for branches of different types and for an index that is no integer; ArgumentValueError
    without branches.

    >>> switch(1, [lambda x: x + 1, lambda x: x * 2], 10)
    Array(20, dtype=int32, weak_type=True)
    """
    if operand is not _NO_OPERAND:
        operands = (*operands, operand)
    branches = tuple(branches)
    if not branches:
        raise ArgumentValueError("switch needs at least one branch.")
    for branch in branches:
        check_callable(branch, "switch")
    _check_scalar("switch", "index", index)
    aval: Any = type_of(index)
    if aval.dtype.kind not in "iu":
        raise ArgumentTypeError("switch needs an integer index.", got=f"got {aval.text()}",
                                do="For a boolean use `cond`; else convert with `.astype(int)`.")  # fmt: skip
    last = len(branches) - 1
    if last == 0:
        return branches[0](*operands)
    if config.disable_jit.value and not isinstance(index, Tracer):
        return branches[min(max(int(index), 0), last)](*operands)
    bounded = clamp(np.int32(0), convert_element_type(index, np.int32), np.int32(last))
    names = [f"branches[{i}]" for i in range(len(branches))]
    return _branch("switch", bounded, branches, names, operands)


def _branch(
    caller: str, index, functions: Sequence[Function], names: Sequence[str], operands: tuple[Any, ...],
    platforms = None,
):  # fmt: skip
    """Results of the function number `index`."""
    leaves, tree = flat_arguments(operands, caller, functions[0], operands)
    # Where devices choose different branches, all that a branch computes with varies as the choice does.
    axes = type_of(index).varying
    leaves = [vary(x, axes) for x in leaves]
    bodies = varying_alike([traced(f, tree, types_of(leaves), caller) for f in functions], axes)
    check_branches(caller, functions, names, bodies)
    programs, consts = with_common_consts([b.program for b in bodies], [b.consts for b in bodies])
    inputs = [*consts, *leaves]
    check_distinct(
        caller,
        (*("used from outside" for _ in consts), *("an operand" for _ in leaves)),
        inputs,
    )
    programs, forwarded = without_forwarded(programs)
    computed = iter(bind(cond_p, index, *inputs, params=CondParams(programs, platforms)))
    results = [next(computed) if i is None else inputs[i] for i in forwarded]
    return bodies[0].out_tree.unflatten([x if hasattr(x, "aval") else stage(x) for x in results])


def check_branches(
    caller: str,
    functions: Sequence[Function],
    names: Sequence[str],
    bodies: Sequence[Body],
) -> None:
    """Raise ArgumentTypeError unless all branches give results of one type."""
    first = bodies[0]
    for function, name, body in strict_zip(functions[1:], names[1:], bodies[1:]):
        what = f"{caller}: {names[0]} (`{name_of(functions[0])}`) and {name} (`{name_of(function)}`) must return results"
        if body.out_tree != first.out_tree:
            differences = structure_differences(first.out_tree, body.out_tree)
            raise ArgumentTypeError(
                f"{what} of one structure.",
                got=[
                    f"result{keystr(d.path)}: {names[0]} gives {d.expected}, {name} gives {d.got}"
                    for d in differences[:4]
                ],
            )
        different = differing_types(first.out_avals, body.out_avals)
        if different:
            sides = (f"{names[0]} gives", f"{name} gives")
            raise ArgumentTypeError(
                f"{what} of one type.",
                got=type_lines("result", first.out_tree, first.out_avals, body.out_avals, sides),
                do=layout_advice(first.out_avals[different[0]], body.out_avals[different[0]])
                or "Convert one of them, for example with `.astype`.",
            )


def platform_dependent(
    *args: Any, default: Function | None = None, **per_platform: Function
) -> Any:
    """The result of the function for the platform that the program is compiled for: `cpu=`, `tpu=`, `cuda=`, `rocm=`.

    `default` is for the platforms that are not named. All functions give results of one structure and types.

    Raises: ArgumentValueError without any function; ArgumentTypeError for functions with results of different types.

    >>> platform_dependent(1.0, cpu=lambda x: x + 1, default=lambda x: x)
    Array(2., dtype=float32, weak_type=True)
    """
    names = {"gpu": ("cuda", "rocm")}
    functions = list(per_platform.values())
    platforms: list[Any] = [names.get(p, (p,)) for p in per_platform]
    labels = list(per_platform)
    if default is not None:
        functions.append(default)
        platforms.append(None)
        labels.append("default")
    if not functions:
        raise ArgumentValueError(
            "platform_dependent needs a function for some platform, or a default."
        )
    for function in functions:
        check_callable(function, "platform_dependent")
    if len(functions) == 1 and default is not None:
        return default(*args)
    index = bind1(platform_index_p, params=PlatformIndexParams(tuple(platforms)))
    return _branch("platform_dependent", index, functions, labels, args, tuple(platforms))


# Branches among which devices choose differently ---------------------------------------------------


def varying_alike(bodies: list[Body], axes: frozenset[Any]) -> list[Body]:
    """The bodies made to take constants that vary over `axes`, and to give results that vary alike."""
    if not context.checked_axes:
        return bodies
    if axes:
        # A value that several branches use is made to vary once, so that its cotangents are summed once.
        used = {id(x): x for body in bodies for x in body.consts}
        varying = {i: vary(x, axes) for i, x in used.items()}
        bodies = [_with_constants(body, [varying[id(x)] for x in body.consts]) for body in bodies]
    if len({len(body.out_avals) for body in bodies}) > 1:
        return bodies
    columns: Any = strict_zip(*(body.out_avals for body in bodies))
    result_axes = [axes.union(*(aval.varying for aval in column)) for column in columns]
    return [_with_varying_results(body, result_axes) for body in bodies]


def _with_constants(body: Body, consts: Values) -> Body:
    """`body` with its constants exchanged for others, which may vary over more axes."""
    if all(a is b for a, b in strict_zip(consts, body.consts)):
        return body
    jaxpr = body.program.jaxpr
    avals = [*types_of(consts), *jaxpr.in_avals[len(consts) :]]
    return body._replace(
        program=stage_open(lambda *xs: _replayed(jaxpr, xs), avals, jaxpr.debug)[0], consts=consts
    )


def _replayed(jaxpr: Jaxpr, operands: Operands) -> Values:
    """Results of a program on operands that vary over more axes than those it was traced with."""
    values: dict[Any, Any] = dict(strict_zip(jaxpr.invars, operands))

    def read(atom):
        return atom.val if type(atom) is Literal else values[atom]

    for equation in jaxpr.equations:
        inputs = [read(a) for a in equation.operands]
        body = called(equation.primitive, equation.params)
        if equation.primitive is pvary_p:
            results = [vary(inputs[0], equation.params.axes)]
        elif body is not None:
            results = _replayed(body, inputs)
        else:
            results = bind(equation.primitive, *inputs, params=equation.params)
        values.update(strict_zip(equation.results, results))
    return [read(a) for a in jaxpr.outvars]


def _with_varying_results(body: Body, result_axes: Sequence[frozenset[Any]]) -> Body:
    avals: Avals = list(body.out_avals)
    if all(aval.varying == axes for aval, axes in strict_zip(avals, result_axes)):
        return body
    jaxpr = body.program.jaxpr

    def run(*operands):
        results = replay(jaxpr, (), *operands)
        return [vary(x, axes) for x, axes in strict_zip(results, result_axes)]

    return body._replace(program=stage_open(run, jaxpr.in_avals, jaxpr.debug)[0])

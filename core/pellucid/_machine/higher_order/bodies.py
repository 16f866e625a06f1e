"""Bodies of control flow: programs of the user's functions, traced once per function and types."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np

from pellucid._machine.base import (
    ArgumentTypeError,
    EffectsError,
    Function,
    cached,
    dtypes,
    keystr,
    leaf_paths,
    strict_zip,
    structure_differences,
)
from pellucid._machine.compilation import interception
from pellucid._machine.ir import (
    Avals,
    ClosedJaxpr,
    DebugInfo,
    Effects,
    GuardEffect,
    ShapedArray,
    Values,
)
from pellucid._machine.primitives import convert_element_type, vary
from pellucid._machine.sharding import PartitionSpec
from pellucid._machine.tracing import (
    Tracer,
    bottom,
    code_of,
    compares_by_identity,
    context,
    name_of,
    paths_of_results,
    source_of,
    type_of,
    types_of,
)
from pellucid._machine.transforms import result_leaves, stage_open
from pellucid._machine.xla import trace_context


class TracedBody(NamedTuple):
    """A traced function. Its program takes (`consts`, the values it closes over; its arguments)."""

    program: ClosedJaxpr
    consts: Values
    out_tree: Any

    @property
    def out_avals(self) -> Avals:
        return self.program.out_avals


class Adapted(NamedTuple):
    """Calls a loop's function with rearranged arguments: `call(function, *arguments of the loop)`."""

    call: Function
    places: tuple[tuple[int, ...], ...]
    """For each parameter of the function, the index path of its argument among the loop's arguments."""

    def __call__(self, *args: Any) -> Any:
        return self.call(*args)


@cached(4096, weakly=True)
def _traced_bodies(function: Function, *key) -> list[TracedBody]:
    """The list that contains the body of `function` for `key`, once it is traced."""
    return []


def trace_program(
    function: Function,
    in_tree: Any,
    avals: Avals,
    caller: str,
    call: Function | None = None,
    *,
    is_remembered: bool = False,
) -> TracedBody:
    """The program of `function(*args)`, where `args` has structure `in_tree` and leaves of types `avals`.

    With `is_remembered`, it is cached as long as the function lives, unless it captured traced values. With `call`, a
    module-level function or an `Adapted`, it is the program of `call(function, *args)`.
    """

    def trace() -> TracedBody:
        body = body_of(function, in_tree, avals, caller, call)
        forbidden = [e for e in body.program.effects if not e.control_flow_allowed]
        if forbidden:
            raise EffectsError(
                f"{caller}: `{name_of(function)}` has side effects that can't happen there.",
                got=", ".join(map(repr, forbidden)),
            )
        return body

    if is_remembered:
        return known_body(function, (caller, call, in_tree, tuple(avals)), trace)
    return body_of_trace(trace)


def body_of_trace(trace: Callable[[], TracedBody]) -> TracedBody:
    """Runs `trace`, which traces a user function, and returns its body."""
    with interception.tracing():
        return trace()


def known_body(
    function: Function, key: tuple[Any, ...], trace: Callable[[], TracedBody]
) -> TracedBody:
    """The body returned by `trace`, cached for the function and `key` under the current options.

    As in JAX, bodies of loops, branches and remat are cached; other functions are traced at each call, and so are
    those whose key has static arguments that can't be hashed.
    """
    bodies: list[TracedBody] = []
    if compares_by_identity(function):
        with suppress(TypeError):
            bodies = _traced_bodies(function, *key, code_of(function), trace_context())
    if bodies:
        return bodies[0]
    body = body_of_trace(trace)
    if not any(isinstance(c, Tracer) for c in body.consts):
        bodies.append(body)
    return body


def body_of(
    function: Function,
    in_tree: Any,
    avals: Avals,
    caller: str,
    call: Function | None = None,
) -> TracedBody:
    """Like `trace_program`, but traced at each call, and allowing any effects."""
    trees: list[Any] = []

    def flat(*leaves):
        args = in_tree.unflatten(leaves)
        result = function(*args) if call is None else call(function, *args)
        values, tree = result_leaves(result, caller, function)
        trees[:] = [tree]
        return values, tree

    places = getattr(call, "places", None)
    code = getattr(function, "__code__", None) if call is None or places else None
    debug = DebugInfo(
        caller,
        source_of(function),
        lambda: argument_names(code, in_tree, places),
        paths_of_results(function, trees) if call is None else (),
    )
    return body_of_flat(flat, avals, debug)


def body_of_flat(
    function: Callable[..., tuple[Values, Any]], avals: Avals, debug: DebugInfo
) -> TracedBody:
    """Like `trace_program`, for a function of flat values that returns (flat results, value for `out_tree`)."""
    trees: list[Any] = []

    def run(*values: Any) -> Values:
        results, tree = function(*values)
        trees.append(tree)
        return results

    program, consts = stage_open(run, avals, debug)
    return TracedBody(program, consts, trees[0])


def argument_names(
    code: Any, in_tree: Any, places: Sequence[tuple[int, ...]] | None = None
) -> list[str]:
    """Names of the argument leaves, from the parameters in a function's code object. A body doesn't keep its function
    alive.

    `places`: for each parameter, the index path of its argument (default: its position). Other arguments have empty
    names.
    """
    if code is None:
        return []
    parameters = code.co_varnames[: code.co_argcount]
    if places is None:
        places = [(i,) for i in range(len(in_tree.children()))]
    if len(places) > len(parameters):
        return []
    names: list[str] = []
    for path in leaf_paths(in_tree):
        matching = [
            parameter + keystr(path[len(place) :])
            for parameter, place in zip(parameters, places, strict=False)
            if [getattr(key, "idx", None) for key in path[: len(place)]] == [*place]
        ]
        names += matching or [""]
    return names


def check_batched_effects(caller: str, effects: Effects) -> None:
    """Raises EffectsError for side effects in branches that `vmap` must run for elements that don't select them."""
    forbidden = [e for e in effects if not e.batched_control_flow_allowed]
    if forbidden:
        raise EffectsError(
            f"vmap of a {caller} with side effects needs a condition that is the same for the whole batch.",
            got=", ".join(map(repr, forbidden)),
            do="Use `lax.map` instead of `vmap`, or move the effects out of the branch or loop.",
        )


def has_guards(effects: Effects) -> bool:
    """Whether `effects` include conditions that raise if they fail."""
    return any(isinstance(e, GuardEffect) for e in effects)


def differing_types(avals: Avals, others: Sequence[Any]) -> list[int]:
    """Indices at which types differ, ignoring weak types."""
    return [
        i
        for i, (a, b) in enumerate(strict_zip(avals, others))
        if a is not b and _bare(a) != _bare(b)
    ]


def type_lines(
    name: str, tree: Any, avals: Avals, others: Avals, sides: tuple[str, str]
) -> list[str]:
    """One message line for each of the first leaves of `tree`, called `name`, whose types differ."""
    paths = leaf_paths(tree)
    return [
        f"{name}{keystr(paths[i])}: {sides[0]} {avals[i].text()}, {sides[1]} {others[i].text()}"
        for i in differing_types(avals, others)[:4]
    ]


def _bare(aval):
    return aval.strip_weak_type() if hasattr(aval, "strip_weak_type") else aval


def check_carry(
    caller: str,
    function: Function,
    in_tree: Any,
    in_avals: Avals,
    out_tree: Any,
    out_avals: Avals,
) -> None:
    """Raises ArgumentTypeError unless a loop's body returns a carry of the type that it takes."""
    where = f"{caller}: `{name_of(function)}` must return a carry of the type that it takes."
    if in_tree != out_tree:
        differences = structure_differences(in_tree, out_tree)
        raise ArgumentTypeError(
            where,
            got=[
                f"carry{keystr(d.path)}: returned {d.got}, taken {d.expected}"
                for d in differences[:4]
            ],
            do="Return the carry with the structure of the initial value.",
        )
    different = differing_types(in_avals, out_avals)
    if different:
        raise ArgumentTypeError(
            where,
            got=type_lines("carry", in_tree, in_avals, out_avals, ("taken", "returned")),
            do=_advice(in_avals[different[0]], out_avals[different[0]]),
        )


def layout_advice(aval: Any, other: Any) -> str | None:
    """Advice for results of types `aval` and `other` that only differ in their sharding."""
    if isinstance(aval, ShapedArray) and isinstance(other, ShapedArray):
        shown = aval.shown_sharding
        if _bare(aval) == _bare(other.update(shown_sharding=shown)):
            spec = PartitionSpec() if shown is None else shown.spec
            return f"They differ in sharding only: `reshard(…, {spec!r})` the other one, or both to another spec."
    return None


def _advice(expected, returned) -> str:
    if advice := layout_advice(expected, returned):
        return advice
    if getattr(expected, "varying", None) != getattr(returned, "varying", None):
        axes = tuple(sorted(expected.varying - returned.varying, key=str))
        return f'Return `lax.pcast(…, {axes}, to="varying")`: the initial value varies over these mesh axes.'
    if getattr(expected, "shape", None) == getattr(returned, "shape", None):
        return f"Convert it: begin with an initial value of dtype {returned.dtype}, or return `.astype({str(expected.dtype)!r})`."
    return "Shapes of a carry can't change: begin with the final shape, or return another one."


def settle_carry(
    values: Values, trace: Callable[[Values], tuple[TracedBody, Any]], tree: Any
) -> tuple[Values, TracedBody, Any]:
    """(initial values of a carry, loop body for them, structure of the carry it returns).

    `trace` returns the last two for given carry types. Weak types are strengthened until the body preserves the types.
    """
    while True:
        avals = types_of(values)
        body, out_tree = trace(avals)
        if out_tree != tree:
            return values, body, out_tree
        stronger = [*map(_strengthen, values, avals, body.out_avals)]
        if all(a is b for a, b in strict_zip(stronger, values)):
            return values, body, out_tree
        values = stronger


def _strengthen(x, aval, out):
    """An initial carry value with the type that the body returns: wider dtype if weakly typed, varying over more axes."""
    if (
        getattr(aval, "weak_type", False)
        and aval.shape == out.shape
        and widens(aval.dtype, out.dtype)
    ):
        x = convert_element_type(x, out.dtype)
    return vary(x, out.varying) if isinstance(out, ShapedArray) else x


def unchanged_carries(program: ClosedJaxpr, n_consts: int, n_carry: int) -> list[int]:
    """Indices of the carries that a loop body, with `n_consts` constants, returns unchanged."""
    jaxpr = program.jaxpr
    carry = jaxpr.invars[n_consts : n_consts + n_carry]
    return [i for i, var in enumerate(carry) if jaxpr.outvars[i] is var]


def as_result(x: Any) -> Any:
    """`x`, an operand that is also a result, as an array even outside of traces."""
    if hasattr(x, "aval") or not context.trace.is_eager:
        return x
    return bottom().from_host(x, weak_type=type_of(x).weak_type)


def widens(weak: Any, dtype: Any) -> bool:
    """Whether a Python number of dtype `weak` is promoted to `dtype` by an array of that dtype."""
    if weak == dtype or not dtypes.issubdtype(dtype, np.number):
        return False
    if weak.kind == "c":
        return dtype.kind == "c"
    return weak.kind in "iu" or dtypes.is_inexact(dtype)


def stand_in(name: str, *parameters: str) -> Function:
    """A placeholder function with a name and parameters, after which messages name arguments of control flow."""

    def function(*args: Any) -> None:
        raise TypeError(f"{name} was called")

    function.__name__ = name
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    function.__signature__ = inspect.Signature([inspect.Parameter(p, kind) for p in parameters])
    return function

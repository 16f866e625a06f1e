"""Argument checks, auxiliary results and wrapping of the public transformations."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from pellucid._machine.base import (
    ArgumentTypeError,
    DtypeError,
    Function,
    Keywords,
    Names,
    RemovedError,
    dtypes,
    shown_path,
    strict_zip,
    structure_differences,
    wrapping,
)
from pellucid._machine.base.narrowing import is_list_or_tuple
from pellucid._machine.ir import Mask, Operands, ShapedArray, Values, narrow_type
from pellucid._machine.tracing import (
    FunctionSpec,
    as_array,
    check_results_are_values,
    is_array_like,
    name_of,
    named_call,
    type_of,
    use_transformation,
)
from pellucid._machine.xla import ARRAY_TYPES, flatten, flatten_with_path


def check_callable(function: Any, caller: str) -> None:
    """Raises ArgumentTypeError unless `function` is callable."""
    if not callable(function):
        raise ArgumentTypeError(f"{caller} needs a function.", got=f"got {type(function).__name__}")


def check_by_argument(caller: str, **values: Any) -> None:
    """Raises ArgumentTypeError unless all `values`, given by name, are tuples or lists."""
    if not all(isinstance(value, (tuple, list)) for value in values.values()):
        raise ArgumentTypeError(
            f"{caller} needs {' and '.join(values)} as tuples or lists, one item for each argument.",
            got=f"got {' and '.join(type(value).__name__ for value in values.values())}",
        )


def wraps(function: Function, what: str) -> Callable[[Function], Any]:
    """Decorator that gives a transformed function the name and signature of `function`."""

    def decorate(transformed: Any) -> Any:
        # The methods of a jitted function are left out.
        wrapping(function, updated=())(transformed)
        documentation = getattr(function, "__doc__", None)
        transformed.__doc__ = f"{what} of `{name_of(function)}`." + (
            f"\n\n{documentation}" if documentation else ""
        )
        return transformed

    return decorate


def argument_paths(function: Function, args: Operands, kwargs: Keywords | None = None) -> Names:
    """Paths of the leaves of the arguments, such as `params["w"]`."""
    return FunctionSpec(function, name_of(function)).argument_paths(args, kwargs or {})


def flat_arguments(
    tree: Any, caller: str, function: Function, args: Operands, kwargs: Keywords | None = None
) -> tuple[Values, Any]:
    """(leaves of `tree`, see `checked_leaves`; structure of `tree`)."""
    leaves, structure = flatten(tree)
    return checked_leaves(leaves, caller, function, args, kwargs), structure


def checked_leaves(
    leaves: Operands,
    caller: str,
    function: Function,
    args: Operands,
    kwargs: Keywords | None = None,
    are_any_objects: Mask = (),
) -> Values:
    """The leaves as operands: 64-bit NumPy values are narrowed if 64-bit types are disabled.

    `are_any_objects` marks leaves that may be other objects and stay unchanged. Raises ArgumentTypeError for all other
    leaves that are not arrays, with their paths in the arguments of `function`.
    """
    checked: Values = []
    are_any_objects = are_any_objects or [False] * len(leaves)
    for x, may_be_any in strict_zip(leaves, are_any_objects):
        if type(x) not in ARRAY_TYPES:
            try:
                dtype = type_of(x).dtype
            except ArgumentTypeError:
                if not may_be_any:
                    must_be = [x for x, any_ in zip(leaves, are_any_objects) if not any_]
                    raise _not_arrays(must_be, caller, function, args, kwargs) from None
            else:
                if getattr(x, "dtype", dtype) != dtype and hasattr(x, "astype"):
                    x = x.astype(dtype)
        checked.append(x)
    return checked


def shaped_leaves(leaves: Operands, caller: str, function: Function, args: Operands) -> list[Any]:
    """Types of leaves that are arrays or have a shape and dtype."""
    avals = [type_of(x) if is_array_like(x) else type_of_attributes(x) for x in leaves]
    if None in avals:
        raise _not_arrays(leaves, caller, function, args)
    return avals


def type_of_attributes(x: Any) -> ShapedArray | None:
    """The type of an array with the shape and dtype of `x`, which isn't an array itself; None without these attributes."""
    if not (hasattr(x, "shape") and hasattr(x, "dtype")):
        return None
    return narrow_type(ShapedArray(x.shape, x.dtype, bool(getattr(x, "weak_type", False))))


def _not_arrays(
    leaves: Operands,
    caller: str,
    function: Function,
    args: Operands,
    kwargs: Keywords | None = None,
) -> ArgumentTypeError:
    ids = {id(x) for x in leaves if not is_array_like(x)}
    what = f"{caller}: an argument of `{name_of(function)}` is not an array."
    do = "Pass arrays or numbers; bind other values with functools.partial or a lambda."
    spec = FunctionSpec(function, name_of(function))
    return spec.not_arrays(what, do, args, kwargs or {}, lambda x: id(x) in ids)


def structure_lines(
    name: str, expected: Any, got: Any, leaves: Operands | None = None
) -> list[str]:
    """One message line for each of the first places where the structure `got` of `name` differs from `expected`.

    `leaves` are those of the tree with structure `got`.
    """
    return [d.text(name) for d in structure_differences(expected, got, leaves=leaves)[:3]]


def describe_value(x: Any) -> str:
    """Describes a value in a message: its type, and the shape of an array."""
    return type_of(x).text() if is_array_like(x) else type(x).__name__


def with_aux(result: Any, function: Function, caller: str) -> tuple[Any, Any]:
    """Splits the result of a function that returns (result, auxiliary data)."""
    if not is_list_or_tuple(result) or len(result) != 2:
        length = f" of length {len(result)}" if is_list_or_tuple(result) else ""
        raise ArgumentTypeError(
            f"{caller} with has_aux=True needs a function that returns a pair (result, aux).",
            got=f"`{name_of(function)}` returned {type(result).__name__}{length}",
        )
    return result[0], result[1]


def result_leaves(
    tree_result: Any,
    caller: str,
    function: Function,
    *,
    may_be_references: bool = False,
) -> tuple[Values, Any]:
    """Leaves and structure of a function's result.

    Raises: ArgumentTypeError for leaves that aren't arrays; EffectsError for references, unless `may_be_references`.
    """
    # Flattened without paths, like arguments: a pytree class may return other static data when paths are requested.
    leaves, tree = flatten(tree_result)
    for i, x in enumerate(leaves):
        if not is_array_like(x):
            path = flatten_with_path(tree_result)[0][i][0]
            raise ArgumentTypeError(
                f"{caller}: `{name_of(function)}` returned something that is not an array.",
                got=f"{shown_path('result', path)}: {type(x).__name__} ({x!r:.60})",
                do="Return it as auxiliary data (has_aux=True), or don't return it.",
            )
    if not may_be_references:
        check_results_are_values(f"{caller}: `{name_of(function)}`", leaves)
    return leaves, tree


def as_results(values: Iterable[Any]) -> Values:
    """Results of a derivative: arrays, also where the function gave numbers or NumPy arrays back."""
    return [as_array(x) for x in values]


class FlatFunction:
    """A differentiated function on flat values; returns (leaves of the result, leaves of auxiliary data).

    `arguments_of(values)` rebuilds the arguments. Each run sets `out_tree` and `aux_tree`.
    """

    def __init__(
        self, fun: Function, caller: str, has_aux: bool, arguments_of: Any = None, kwargs: Keywords | None = None
    ) -> None:  # fmt: skip
        self.fun, self.caller, self.has_aux = fun, caller, has_aux
        self.arguments_of, self.kwargs = arguments_of, kwargs or {}
        self.out_tree: Any = None
        self.aux_tree: Any = None

    def __call__(self, *leaves: Any) -> tuple[Values, Values]:
        with use_transformation("jvp"):
            result = named_call(self.fun, self.arguments_of(leaves), self.kwargs)
        aux: Values = []
        if self.has_aux:
            result, auxiliary = with_aux(result, self.fun, self.caller)
            aux, self.aux_tree = flatten(auxiliary)
        return self.leaves_of(result), aux

    def leaves_of(self, result: Any) -> Values:
        """The leaves of a result."""
        leaves, self.out_tree = result_leaves(result, self.caller, self.fun)
        return leaves

    def with_aux(self, results: tuple[Any, ...], aux: Values) -> tuple[Any, ...]:
        """`results` followed by the auxiliary data with leaves `aux`, if the function returns any."""
        return (*results, self.aux_tree.unflatten(aux)) if self.has_aux else results


# Dtypes that can be differentiated ------------------------------------------------------------------


def is_differentiable(aval: Any) -> bool:
    """Whether values of type `aval` have tangents other than float0."""
    return type(aval) is ShapedArray and dtypes.is_inexact(aval.dtype)


def input_check(
    caller: str, holomorphic: bool, allow_int: bool, forward: bool = False
) -> Callable[[Any, Callable[[], str]], None]:
    """A function (type, path) that raises DtypeError for inputs that this transformation can't differentiate."""

    def check(aval: Any, path: Callable[[], str]) -> None:
        is_complex = aval.dtype.kind == "c"
        if holomorphic and not is_complex:
            what = f"{caller} with holomorphic=True needs complex inputs."
            do = "Convert it to a complex dtype, or leave holomorphic=False."
        elif forward and not holomorphic and (is_complex or not is_differentiable(aval)):
            what = f"{caller} needs real floating inputs."
            do = "Convert integers to floats; set holomorphic=True for a holomorphic function, or use `jvp`."
        elif not allow_int and not is_differentiable(aval):
            what = f"{caller} needs real or complex inputs to differentiate by."
            do = "Convert it to a float, choose other argnums, or set allow_int=True (its gradient is float0)."
        else:
            return
        raise DtypeError(what, got=f"{path()}: {aval.text()}", do=do)

    return check


def check_real_output(aval: Any, caller: str, holomorphic: bool) -> None:
    """Raises DtypeError for an output that reverse mode can't differentiate."""
    is_complex = aval.dtype.kind == "c"
    if holomorphic and not is_complex:
        what = f"{caller} with holomorphic=True needs complex outputs."
        do = "Leave holomorphic=False for functions with real outputs."
    elif is_complex and not holomorphic:
        what = f"{caller} needs real outputs."
        do = "Set holomorphic=True if the function is holomorphic; else use `vjp` with a cotangent of your choice."
    elif not is_differentiable(aval):
        what = f"{caller} needs floating outputs; integers have no derivative."
        do = "Convert the output to a float, or use `vjp`."
    else:
        return
    raise DtypeError(what, got=f"result: {aval.text()}", do=do)


def refuse_reduce_axes(caller: str, reduce_axes: Any) -> None:
    """Raises RemovedError if the removed argument `reduce_axes` is used."""
    if tuple(reduce_axes):
        raise RemovedError(
            f"{caller}: reduce_axes is no longer supported.",
            got=f"got {reduce_axes!r}",
            do="Sum the gradients with `lax.psum` over these axes.",
        )

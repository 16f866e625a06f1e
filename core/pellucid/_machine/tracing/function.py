"""User functions: static and donated arguments, names of arguments and results."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Sequence
from types import CellType, CodeType, FunctionType
from typing import Any, NamedTuple

from pellucid._machine.base import (
    ArgumentTypeError,
    ArgumentValueError,
    Function,
    KeyPath,
    Keywords,
    ints,
    is_user_file,
    keystr,
    leaf_paths,
    name_of,
    strict_zip,
)
from pellucid._machine.ir import DebugInfo, Mask, Operands, Values
from pellucid._machine.xla import (
    LibraryValues,
    PyTreeDef,
    flatten,
    flatten_with_path,
    library_types,
)

from .current import context
from .operands import type_of, types_of


def source_of(function: Function, name: str | None = None) -> str:
    """The name of `function` (by default its own) and where it begins, such as `loss at train.py:12`; without Python
    code the name alone. What wraps a function begins where that does.
    """
    name = name or name_of(function)
    code = code_of(_innermost(function))
    if not isinstance(code, CodeType):
        return name
    return f"{name} at {code.co_filename}:{code.co_firstlineno}"


def _innermost(function: Any) -> Any:
    """The function within partials and wrappers; an object whose `__wrapped__` doesn't end is taken as it is."""
    while isinstance(function, functools.partial):
        function = function.func
    try:
        inner = inspect.unwrap(function)
    except ValueError:
        return function
    return _innermost(inner) if isinstance(inner, functools.partial) else inner


def compares_by_identity(function: object) -> bool:
    """Whether `function` is only equal to itself and weakly referenceable, so that it can be a key of a weak table."""
    kind = type(function)
    return kind.__eq__ is object.__eq__ and kind.__weakrefoffset__ != 0


def code_of(function: Function) -> Any:
    """The code object of a Python function, which users may replace; None for other callables."""
    return getattr(function, "__code__", None)


def signature_of(function: Function) -> inspect.Signature | None:
    """The signature of `function`; None if it can't be determined."""
    try:
        return inspect.signature(function)
    except (ValueError, TypeError):
        return None


def _without_captured_values(function: Function) -> Function:
    """A function with the same signature that keeps neither `function` nor its captured values and defaults alive."""
    if type(function) is not FunctionType or hasattr(function, "__signature__"):
        signature = signature_of(function)
        return function if signature is None else _with_parameters(signature)
    wrapped = getattr(function, "__wrapped__", None)
    if wrapped is not None:
        return _without_captured_values(wrapped)
    cells = tuple([CellType() for _ in function.__closure__ or ()])
    return FunctionType(function.__code__, {}, closure=cells)


def _with_parameters(signature: inspect.Signature) -> Function:
    """A function with the parameters of `signature`, without defaults."""

    def function(*args: Any, **kwargs: Any) -> None:
        raise TypeError("a function with parameters alone was called")

    parameters = signature.parameters.values()
    empty = inspect.Parameter.empty
    bare = [p.replace(default=empty, annotation=empty) for p in parameters]
    function.__signature__ = inspect.Signature(bare)
    return function


def indices(value: int | Iterable[int] | None, what: str) -> tuple[int, ...]:
    """`argnums`-like values as a tuple of ints."""
    if value is None:
        return ()
    try:
        return ints([value] if hasattr(value, "__index__") else value)  # type: ignore[arg-type]
    except TypeError:
        raise ArgumentTypeError(
            f"{what} must be an int or a sequence of ints.", got=f"got {value!r}"
        ) from None


def names(value: str | Iterable[str] | None, what: str) -> tuple[str, ...]:
    """`argnames`-like values as a tuple of strings."""
    if value is None:
        return ()
    if isinstance(value, str):
        return (value,)
    strings = tuple(value)
    if not all(isinstance(v, str) for v in strings):  # pyright: ignore[reportUnnecessaryIsInstance]  # users' values
        raise ArgumentTypeError(
            f"{what} must be a string or a sequence of strings.", got=f"got {value!r}"
        )
    return strings


_NOT_BY_NAME = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.VAR_POSITIONAL)
_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


def resolve_arguments(
    function: Function, argnums: Any, argnames: Any, kind: str
) -> tuple[tuple[int, ...], tuple[str, ...]]:
    """Positions and names of the arguments given by either; each is completed from the signature.

    Raises: ArgumentValueError for positions and names that the signature lacks.
    """
    if argnums is None and argnames is None:
        return (), ()  # skip inspecting the signature, which takes as long as many a call
    nums = indices(argnums, f"{kind}_argnums")
    chosen = names(argnames, f"{kind}_argnames")
    signature = signature_of(function)
    if signature is None:
        return nums, chosen
    parameters = list(signature.parameters.values())
    positional = [p.name for p in parameters if p.kind in _POSITIONAL]
    has_star = any(p.kind is p.VAR_POSITIONAL for p in parameters)
    has_kwargs = any(p.kind is p.VAR_KEYWORD for p in parameters)
    for n in nums:
        if not has_star and not -len(positional) <= n < len(positional):
            raise ArgumentValueError(
                f"{kind}_argnums contains {n}, but `{name_of(function)}` takes {len(positional)} positional arguments.",
                got=f"signature: {name_of(function)}{signature}",
            )
    nums = tuple(n % len(positional) if n < 0 and positional else n for n in nums)
    for name in chosen:
        parameter = signature.parameters.get(name)
        only_by_position = parameter is not None and parameter.kind in _NOT_BY_NAME
        if only_by_position or (parameter is None and not has_kwargs):
            why = "takes by position only" if only_by_position else "does not take"
            raise ArgumentValueError(
                f"{kind}_argnames contains {name!r}, which `{name_of(function)}` {why}.",
                got=f"signature: {name_of(function)}{signature}",
            )
    if argnames is None:
        chosen = tuple(
            positional[n]
            for n in nums
            if n < len(positional) and parameters[n].kind is not inspect.Parameter.POSITIONAL_ONLY
        )
    elif argnums is None:
        nums = tuple(i for i, name in enumerate(positional) if name in chosen)
    return tuple(sorted(set(nums))), chosen


class Static(NamedTuple):
    """The static arguments of one call, as part of a cache key; values compare with == and by type."""

    positions: tuple[tuple[int, type, Any], ...]
    keywords: tuple[tuple[str, type, Any], ...]


NO_STATIC = Static((), ())


class FunctionCall(NamedTuple):
    """A call of a function, split into traced leaves and static arguments."""

    leaves: Values
    tree: Any
    avals: tuple[Any, ...]
    static: Static


class _Parameters(NamedTuple):
    """Parameter names of a function: positional ones, all except `**kwargs`, and those of `*args` and `**kwargs`."""

    positional: list[str]
    explicit: set[str]
    star: str
    keywords: str | None

    def of_position(self, i: int) -> str:
        """The name of the argument at position `i`, as `x` or `rest[0]`."""
        n = len(self.positional)
        return self.positional[i] if i < n else f"{self.star}[{i - n}]"

    def of_keyword(self, name: str) -> str:
        """The name of the argument with the keyword `name`, as `x` or `options['x']`."""
        is_explicit = name in self.explicit or self.keywords is None
        return name if is_explicit else f"{self.keywords}[{name!r}]"


class FunctionSpec(NamedTuple):
    """A user's function with its static and donated arguments."""

    function: Function
    name: str
    static_nums: tuple[int, ...] = ()
    static_names: tuple[str, ...] = ()
    donated_nums: tuple[int, ...] = ()
    donated_names: tuple[str, ...] = ()

    def call(self, args: Operands, kwargs: Keywords, hashes: bool = True) -> FunctionCall:
        """Splits the call `function(*args, **kwargs)`. With `hashes`, raises if static arguments can't be hashed."""
        static, args, kwargs = self._without_static(args, kwargs, hashes)
        return self.call_of_dynamic(args, kwargs, static)

    def call_of_dynamic(
        self, args: Operands, kwargs: Keywords, static: Static = NO_STATIC
    ) -> FunctionCall:
        """A call with static arguments `static`; `args` and `kwargs` contain only the other arguments."""
        args = tuple(args)
        try:
            leaves, tree = flatten((args, kwargs))
        except SystemError as error:
            # C++ raises at the recursion limit; its cause is the RecursionError.
            raise error.__cause__ or error from None
        if library_types and not library_types.keys().isdisjoint(map(type, leaves)):
            raise LibraryValues
        try:
            avals = tuple(types_of(leaves))
        except ArgumentTypeError:
            what = f"`{self.name}` got an argument that is not an array."
            do = "Make it static with static_argnums or static_argnames, or pass an array."
            raise self.not_arrays(what, do, args, kwargs, lambda x: not _has_type(x)) from None
        return FunctionCall(leaves, tree, avals, static)

    def _without_static(
        self, args: Operands, kwargs: Keywords, hashes: bool
    ) -> tuple[Static, Any, dict[str, Any]]:
        if not self.static_nums and not self.static_names:
            return NO_STATIC, args, kwargs
        positions: list[tuple[int, type, Any]] = [
            (n, type(args[n]), args[n]) for n in self.static_nums if n < len(args)
        ]
        keywords: list[tuple[str, type, Any]] = [
            (k, type(v), v) for k, v in sorted(kwargs.items()) if k in self.static_names
        ]
        for where, _, value in (*positions, *keywords) if hashes else ():
            try:
                hash(value)
            except TypeError:
                shown = self._argument_name(where)
                raise ArgumentValueError(
                    f"`{self.name}`: the static argument {shown!r} can't be hashed.",
                    got=f"{shown}: {type(value).__name__}",
                    do="Pass a hashable value (a tuple, a frozen dataclass), or don't make the argument static.",
                ) from None
        dynamic = tuple([x for i, x in enumerate(args) if i not in self.static_nums])
        rest = {k: v for k, v in kwargs.items() if k not in self.static_names}
        return Static(tuple(positions), tuple(keywords)), dynamic, rest

    def names_of(self, static: Static) -> tuple[str, ...]:
        """Names of static arguments."""
        return tuple(
            self._argument_name(where) for where, *_ in (*static.positions, *static.keywords)
        )

    def _argument_name(self, where: int | str) -> str:
        return where if isinstance(where, str) else self._parameters().of_position(where)

    def _parameters(self) -> _Parameters:
        signature = signature_of(self.function)
        parameters = [] if signature is None else list(signature.parameters.values())
        stars = {p.kind: p.name for p in parameters}
        return _Parameters(
            [p.name for p in parameters if p.kind in _POSITIONAL],
            {p.name for p in parameters if p.kind is not p.VAR_KEYWORD},
            stars.get(inspect.Parameter.VAR_POSITIONAL, "args"),
            stars.get(inspect.Parameter.VAR_KEYWORD),
        )

    def _dynamic(self, n_args: int) -> list[int]:
        """Positions of the `n_args` arguments that are not static."""
        positions = range(n_args + len(self.static_nums))
        return [i for i in positions if i not in self.static_nums]

    def not_arrays(
        self, what: str, do: str, args: Operands, kwargs: Keywords, is_bad: Callable[[Any], bool]
    ) -> ArgumentTypeError:
        """An error that lists the argument leaves for which `is_bad`."""
        paths = self.argument_paths(args, kwargs)
        leaves, _ = flatten((tuple(args), kwargs))
        bad = [(path, x) for path, x in zip(paths, leaves, strict=False) if is_bad(x)]
        got = [f"{path}: {_kind_of(x)} ({x!r:.60})" for path, x in bad[:3]]
        return ArgumentTypeError(what, got=got, do=do)

    def argument_paths(self, args: Operands, kwargs: Keywords) -> tuple[str, ...]:
        """Paths of the traced leaves, such as `params['w']`."""
        with_paths, _ = flatten_with_path((tuple(args), kwargs))
        return self.names_of_leaves([path for path, _ in with_paths], len(args))

    def names_of_leaves(self, paths: Sequence[KeyPath], n_args: int) -> tuple[str, ...]:
        """Names for paths into (positional arguments without static ones, keyword arguments)."""
        parameters = self._parameters()
        dynamic = self._dynamic(n_args)
        names: list[str] = []
        for where, which, *rest in paths:
            name = (
                parameters.of_keyword(str(which.key))
                if where.idx
                else parameters.of_position(dynamic[int(which.idx)])
            )
            names.append(name + keystr(tuple(rest)))
        return tuple(names)

    def run(self, call: FunctionCall, leaves: Operands) -> Any:
        """The function's result on `leaves` and the static arguments of `call`."""
        args, kwargs = call.tree.unflatten(leaves)
        args = list(args)
        for position, _, value in call.static.positions:
            args.insert(position, value)
        for key, _, value in call.static.keywords:
            kwargs[key] = value
        return self.function(*args, **kwargs)

    def debug_info(
        self, call: FunctionCall, out_trees: Sequence[Any] = (), traced_for: str = "jit"
    ) -> DebugInfo:
        """Names for messages about this call. `out_trees` receives the result's structure when the function has run."""
        # Programs keep this object, so it must not refer to arguments or to values captured by the function.
        tree, avals = call.tree, call.avals
        spec = self._replace(function=_without_captured_values(self.function))

        def names() -> tuple[str, ...]:
            return spec.names_of_leaves(leaf_paths(tree, avals), len(tree.children()[0].children()))

        source = source_of(self.function, self.name)
        return DebugInfo(traced_for, source, names, paths_of_results(self.function, out_trees))

    def donated_leaves(self, call: FunctionCall) -> Mask:
        """For each leaf, whether its argument is donated."""
        if not self.donated_nums and not self.donated_names:
            return ()
        args, kwargs = [tree.children() for tree in call.tree.children()]
        _, keys = call.tree.children()[1].node_data()
        flags = [n in self.donated_nums for n in self._dynamic(len(args))[: len(args)]]
        flags += [key in self.donated_names for key in keys]
        children = strict_zip(flags, (*args, *kwargs))
        return tuple([flag for flag, child in children for _ in range(child.num_leaves)])


class NamedCall(NamedTuple):
    """A call of a user function, which lets error messages name its arguments."""

    function: Function
    args: Operands
    kwargs: Keywords

    def name_of(self, x: Any) -> str | None:
        """The path of the argument `x`, such as `params['w']`; None if no argument or several are `x`."""
        leaves, _ = flatten((tuple(self.args), self.kwargs))
        positions = [i for i, leaf in enumerate(leaves) if leaf is x]
        if len(positions) != 1:
            return None
        spec = FunctionSpec(self.function, name_of(self.function))
        return spec.argument_paths(self.args, self.kwargs)[positions[0]]


def named_call(function: Function, args: Operands, kwargs: Keywords) -> Any:
    """`function(*args, **kwargs)` under the current trace, with its arguments known to error messages."""
    trace = context.trace
    previous = getattr(trace, "call", None)
    trace.call = NamedCall(function, args, kwargs)
    try:
        return function(*args, **kwargs)
    finally:
        trace.call = previous  # the call refers to the trace


def paths_of_results(
    function: Function, out_trees: Sequence[Any]
) -> Callable[[], Sequence[str]] | Sequence[str]:
    """Names of the results of `function`, such as `result['w']`, available once `out_trees` contains their structure.

    Empty for library functions, whose results the user doesn't see directly.
    """
    code = getattr(function, "__code__", None)
    if code is not None and not is_user_file(code.co_filename):
        return ()
    return lambda: [path for tree in out_trees for path in result_paths(tree)]


def result_paths(tree: PyTreeDef) -> list[str]:
    """A path for each result, such as `result['w']`."""
    return [f"result{keystr(path)}" for path in leaf_paths(tree)]


def _has_type(x: object) -> bool:
    try:
        type_of(x)
    except ArgumentTypeError:
        return False
    return True


def _kind_of(x: object) -> str:
    dtype = getattr(x, "dtype", None)
    return type(x).__name__ if dtype is None else f"{type(x).__name__} of dtype {dtype}"

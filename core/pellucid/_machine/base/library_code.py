"""Runs functions of the library with default options; users' options apply to users' operands and functions.

A public function checks the operands it receives with the caller's `numpy_rank_promotion` and `numpy_dtype_promotion`.
Its own computations run as if these options weren't set, so public functions that it calls check nothing. Functions
that it receives as arguments run with the options of their own caller again.

The options are actually reset, so that caches find the programs traced meanwhile under the default options.

A function that runs eagerly in several steps is checked as if it were compiled as one: `debug_nans` and `debug_infs`
check its result. If it was called with arrays, a transfer guard checks host values among its arguments, but not the
constants that it creates.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Iterator, MutableMapping, Sequence
from typing import Any, TypeVar

import numpy as np

from pellucid._machine.xla import ARRAY_TYPES, flags

from .config import (
    debug_infs,
    debug_nans,
    numpy_dtype_promotion,
    numpy_rank_promotion,
    transfer_guard_host_to_device,
)
from .functional import wrapping
from .late import late
from .narrowing import is_host_array

F = TypeVar("F", bound=Callable[..., Any])
Options = tuple[str, str]

_rank, _dtype = numpy_rank_promotion.state, numpy_dtype_promotion.state
NEUTRAL: Options = numpy_rank_promotion.default, numpy_dtype_promotion.default
_nans, _infs = debug_nans.state, debug_infs.state
_guard = transfer_guard_host_to_device.state
_tracing_now = flags.tracing_now

_callers = flags.flag("pellucid_callers_options", None)
"""Options of the user's code that called the library, while library code runs with others."""
_given = flags.flag("pellucid_given_values", None)
"""While a transfer guard is set and library code runs on arrays: the host values among its arguments, by id."""
_checked = flags.RareFlag("pellucid_checked_promotion", None, in_trace_key=True)
"""Like `_callers`, but set only while the function that the user called runs itself: its operands are the user's."""


def promotion() -> Options:
    """(`numpy_rank_promotion`, `numpy_dtype_promotion`) for the operands of the current function."""
    return _checked.value or (_rank.value, _dtype.value)


def library_code(function: F) -> F:
    """Wraps a public function: it runs with library options, except that its own operands are checked with the user's.

    >>> with pl.numpy_rank_promotion("raise"):
    ...     library_code(lambda x: x + jnp.ones((2, 1)))(jnp.ones(2)).shape
    (2, 2)
    """
    if hasattr(function, "is_library_code"):  # an alias, which is wrapped already
        return function

    @functools.wraps(function)
    def call_library(*args: Any, **kwargs: Any) -> Any:
        rank, dtype = options = _rank.value, _dtype.value
        watches = _tracing_now.value is None and (
            _nans.value or _infs.value or (_guard.value != "allow" and _given.value is None)
        )
        if rank == "allow" and dtype == "standard" and not watches:
            if _checked.value is None:
                return function(*args, **kwargs)
            with flags.overridden(_checked, None):
                return function(*args, **kwargs)
        looks_for = _nans.value, _infs.value
        given = _given.value
        if watches and given is None and _guard.value != "allow":
            given = _given_beside_arrays((args, kwargs))
        callers = *options, *looks_for, None
        arguments = [_user_arguments(x) for x in args]
        checked = None if options == NEUTRAL else options
        inner = (False, False) if watches else looks_for
        with _options((*NEUTRAL, *inner, given), callers=callers, checked=checked):
            result = function(
                *arguments, **{name: _user_arguments(x) for name, x in kwargs.items()}
            )
        if watches and True in looks_for:
            late("check library result")(function.__name__, result)
        return result

    call_library.is_library_code = True  # pyright: ignore[reportAttributeAccessIssue]
    return call_library  # pyright: ignore[reportReturnType]


def _leaves(arguments: Any) -> Iterator[Any]:
    """The leaves of arguments, within tuples, lists and dictionaries."""
    kind = type(arguments)  # pyright: ignore[reportUnknownVariableType]  # of any value
    if kind in (tuple, list, dict):
        for x in arguments.values() if kind is dict else arguments:
            yield from _leaves(x)
    else:
        yield arguments


def _given_beside_arrays(arguments: Any) -> dict[int, Any] | None:
    """Host values among the arguments, by id, without small integers, which are shared objects in Python.

    None if no argument is an array: creating an array from host values alone is an explicit transfer of these.
    """
    values = [*_leaves(arguments)]
    if not any(type(x) in ARRAY_TYPES for x in values):
        return None
    return {
        id(x): x
        for x in values
        if (isinstance(x, (int, float, complex)) or is_host_array(x))
        and not (type(x) is bool or (type(x) is int and -6 < x < 257))
    }


def is_own_constant(x: Any) -> bool:
    """Whether library code created the host value `x` itself; known only while a transfer guard is set.

    NumPy values are its own only if it received none; otherwise they may be derived from the received ones.
    """
    given = _given.value
    if given is None or id(x) in given:
        return False
    return type(x) in (bool, int, float, complex) or not any(
        isinstance(value, (np.ndarray, np.generic)) for value in given.values()
    )


def public_functions(names: Iterable[str], module: MutableMapping[str, Any]) -> None:
    """Wrap as library code the functions called `names`, and the methods of classes called so, in the namespace
    `module`.
    """
    wrapped: dict[Any, Any] = {}  # a function may have several names
    for name in names:
        value = module[name]
        if inspect.isfunction(value) and value.__module__ == module["__name__"]:
            module[name] = wrapped.setdefault(value, library_code(value))
        elif inspect.isclass(value) and value.__module__ == module["__name__"]:
            for key, method in vars(value).copy().items():
                if inspect.isfunction(method) and (not key.startswith("_") or key in _OPERATIONS):
                    setattr(value, key, library_code(method))
            setattr(value, "is_library_code", True)


_OPERATIONS = frozenset(("__init__", "__call__", "__mul__", "__matmul__", "__getitem__"))


class _UsersFunction:
    """Wraps a function that library code received: it runs with the options of the code that called the library."""

    def __init__(self, function: Callable[..., Any]) -> None:
        wrapping(function)(self)
        self.function = function

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        options = _callers.value
        if options is None:
            return self.function(*args, **kwargs)
        with _options(options, callers=None, checked=None):
            return self.function(*args, **kwargs)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _UsersFunction) and self.function == other.function

    def __hash__(self) -> int:
        return hash(self.function)


def users_function(function: Callable[..., Any]) -> Callable[..., Any]:
    """A user's `function`, wrapped so that it runs with the user's options when library code calls it.

    Functions among the arguments of a public function are wrapped automatically; those stored for later need this call.
    """
    return function if isinstance(function, _UsersFunction) else _UsersFunction(function)


def _user_arguments(x: Any) -> Any:
    kind = type(x)  # pyright: ignore[reportUnknownVariableType]  # of any value
    if kind in (list, tuple):
        return kind(map(_user_arguments, x))  # pyright: ignore[reportUnknownVariableType]  # of a list or a tuple
    if (
        not callable(x)
        or isinstance(x, type)
        or hasattr(x, "dtype")
        or hasattr(x, "is_library_code")
    ):
        return x
    return users_function(x)


class _options:
    """Sets options, and records whose they are, until the block ends."""

    __slots__ = ("previous", "values")

    def __init__(
        self, options: Sequence[Any], *, callers: Sequence[Any] | None, checked: Options | None
    ) -> None:
        self.values = *options, callers, checked

    def __enter__(self) -> None:
        self.previous = [
            state.swap_local(value) for state, value in zip(_STATES, self.values, strict=True)
        ]

    def __exit__(self, *error: object) -> None:
        for state, value in zip(_STATES, self.previous, strict=True):
            state.set_local(value)


_STATES = _rank, _dtype, _nans, _infs, _given, _callers, _checked

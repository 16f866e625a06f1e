"""The C++ call path: a callable that parses arguments, finds the executable and runs it."""

from __future__ import annotations

import copyreg
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from jaxlib import _jax

from .pickling import name_in_pickles
from .pytree import default_registry

CallCache = _jax.PjitFunctionCache
PjitFunction = _jax.PjitFunction


def _reduce_function(function: Any) -> Any:
    """Pickles a function by its global name if it has one, else by value."""
    name = name_in_pickles(function)
    if name is None and hasattr(function, "made_by"):
        return function.made_by()
    return name or function.__qualname__  # pickle then raises because that name is another object


# Like Python functions, they are copied as themselves and pickled by name; those without a name by value.
copyreg.pickle(PjitFunction, _reduce_function)

COPIED_BY_PYTHON = object()
"""Used as an argument's layout: pass the argument to `shard_argument` if it isn't an array."""


class FastPath(NamedTuple):
    """Data with which C++ runs an executable without Python; the names are jaxlib's, except the last."""

    xla_executable: Any
    out_pytree_def: Any
    in_shardings: Sequence[Any]
    out_shardings: Sequence[Any]
    out_avals: Sequence[Any]
    out_committed: Sequence[bool]
    kept_var_bitvec: Sequence[bool]
    in_device_local_layouts: Sequence[Any]
    const_args: Sequence[Any]
    has_run: bool
    """Whether the program has finished when a call with ready arguments returns."""


def make_call(
    name: str,
    function: Callable[..., Any] | None,
    cache_miss: Callable[..., Any],
    static_argnums: Sequence[int],
    static_argnames: Sequence[str],
    key: Any,
    shard_argument: Callable[..., Any],
    cache: Any = None,
) -> Any:
    """A C++ callable; `cache_miss(*args, **kwargs)` returns (results, FastPath or None).

    If jit is disabled, `function` runs instead; without `function`, `cache_miss` runs each time.
    """
    python = function  # pyright: ignore[reportAssignmentType]
    if python is None:

        def python(*args: Any, **kwargs: Any) -> Any:
            return cache_miss(*args, **kwargs)[0]

    call = _jax.pjit(
        name, python, cache_miss, list(static_argnums), list(static_argnames), key,
        default_registry, shard_argument, cache or CallCache(4096),
    )  # fmt: skip
    call.python_side = python  # C++ only holds a weak reference to it
    return call


UNHASHABLE = "Non-hashable static arguments"
"""Prefix of C++'s error message about an unhashable static argument."""

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


def _reduced(function: Any) -> Any:
    """The name of a function that is found under it, else how it was made."""
    name = name_in_pickles(function)
    if name is None and hasattr(function, "made_by"):
        return function.made_by()
    return name or function.__qualname__  # which pickle then says is another object


# As Python's functions, they are copied as themselves and pickled by name; those that have no name, by value.
copyreg.pickle(PjitFunction, _reduced)

COPIED_BY_PYTHON = object()
"""In place of an argument's layout: hand the argument to `shard_argument` if it is no array."""


class FastPath(NamedTuple):
    """The record by which C++ runs an executable without Python; the names are jaxlib's, but for the last."""

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
    """Whether the program has run when a call returns of which all arguments were ready."""


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
    """A C++ callable; `cache_miss(*args, **kwargs)` gives (results, FastPath or None).

    Where jit is disabled, `function` runs; without one, `cache_miss` does, each time.
    """
    python = function  # pyright: ignore[reportAssignmentType]
    if python is None:

        def python(*args: Any, **kwargs: Any) -> Any:
            return cache_miss(*args, **kwargs)[0]

    call = _jax.pjit(
        name, python, cache_miss, list(static_argnums), list(static_argnames), key,
        default_registry, shard_argument, cache or CallCache(4096),
    )  # fmt: skip
    call.python_side = python  # C++ refers to it weakly
    return call


UNHASHABLE = "Non-hashable static arguments"
"""How C++ begins its complaint about a static argument."""

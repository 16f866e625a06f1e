"""What a function is, by content: so that the same function, defined again, finds its old programs.

A fingerprint covers everything that tracing could read: code, defaults, closure values, the globals and
helper functions that the code names, recursively. Where a value could change without the fingerprint noticing
(an object of an unknown class, a large or mutable container), there is no fingerprint, and nothing is shared.
"""

from __future__ import annotations

import builtins
import functools
import sys
import sysconfig
import types
from collections.abc import Callable
from typing import Any

import numpy as np

from pellucid.xla.arrays import ArrayImpl

_LARGEST = 4096
"""Containers and NumPy arrays with more items than this are not looked into."""
_SCALARS = (int, float, complex, str, bytes, bool, type(None), type(Ellipsis), range, slice)
_FIXED_PATHS = tuple(
    {sysconfig.get_paths()[k] for k in ("stdlib", "platstdlib", "purelib", "platlib")}
)


class _Unknown(Exception):
    """Some value can't be fingerprinted."""


def fingerprint(function: Callable[..., Any]) -> Any:
    """A hashable value equal for functions that trace alike; None if that can't be told."""
    try:
        return _Walk().of(function)
    except _Unknown:
        return None
    except RecursionError:
        return None


class _Walk:
    """One fingerprint; functions met twice (recursion) are referred to by number."""

    def __init__(self) -> None:
        self.seen: dict[int, int] = {}
        self.kept: list[Any] = []

    def of(self, value: Any) -> Any:
        """The fingerprint of a value."""
        kind = type(value)
        if kind in _SCALARS:
            return (kind.__name__, repr(value) if kind in (slice, float, complex) else value)
        if kind is types.FunctionType:
            return self.function(value)
        if kind in (types.BuiltinFunctionType, np.ufunc, type, types.GenericAlias) or isinstance(
            value, np.dtype
        ):
            return self.fixed(value)
        if kind is types.ModuleType:
            return (
                ("module", value.__name__, id(value))
                if _is_fixed_module(value)
                else self.unknown(value)
            )
        if isinstance(value, type):
            return self.fixed(value)
        if kind is types.MethodType:
            return ("method", self.function(value.__func__), self.of(value.__self__))
        if kind is functools.partial:
            return ("partial", self.of(value.func), self.of(value.args), self.of(value.keywords))
        if kind is ArrayImpl:
            # Immutable: the same object means the same values. The fingerprint keeps it alive.
            return ("array", _Same(value))
        if isinstance(value, (np.ndarray, np.generic)):
            array = np.asarray(value)
            if array.size > _LARGEST or array.dtype.hasobject:
                return self.unknown(value)
            return ("numpy", array.shape, array.dtype.str, array.tobytes())
        return self.container(value)

    def container(self, value: Any) -> Any:
        kind = type(value)
        if kind in (tuple, list, set, frozenset, dict) and len(value) > _LARGEST:
            return self.unknown(value)
        if kind in (tuple, list) or (isinstance(value, tuple) and hasattr(value, "_fields")):
            return (
                kind.__name__,
                kind if kind not in (tuple, list) else None,
                tuple(map(self.of, value)),
            )
        if kind in (set, frozenset):
            return (kind.__name__, frozenset(map(self.of, value)))
        if kind is dict:
            return ("dict", tuple((self.of(k), self.of(v)) for k, v in value.items()))
        jitted = getattr(value, "jitted", None)
        if jitted is not None and hasattr(jitted, "spec"):
            return ("jit", self.of(jitted.spec.function), jitted.options_key())
        wrapped = getattr(value, "__wrapped__", None)
        if kind is types.FunctionType and wrapped is not None:
            return self.function(value)
        module = getattr(kind, "__module__", "")
        if module.partition(".")[0] in ("pellucid", "jaxlib") and _hashable(value):
            return ("value", kind, value)
        return self.unknown(value)

    def function(self, function: types.FunctionType) -> Any:
        number = self.seen.get(id(function))
        if number is not None:
            return ("again", number)
        self.seen[id(function)] = len(self.seen)
        self.kept.append(function)
        module = sys.modules.get(function.__module__ or "")
        if module is not None and _is_fixed_module(module):
            return ("library function", _Same(function), self.closure(function))
        code = function.__code__
        names = tuple((name, self.global_value(function, name)) for name in _all_names(code))
        return (
            "function", function.__qualname__, _code_key(code), self.of(function.__defaults__),
            self.of(function.__kwdefaults__), self.closure(function), names,
        )  # fmt: skip

    def closure(self, function: types.FunctionType) -> Any:
        values = []
        for cell in function.__closure__ or ():
            try:
                values.append(self.of(cell.cell_contents))
            except ValueError:
                values.append(("empty cell",))
        return tuple(values)

    def global_value(self, function: types.FunctionType, name: str) -> Any:
        """The fingerprint of a global that the code names; attribute names are harmless extra work."""
        scope = function.__globals__
        if name in scope:
            return self.of(scope[name])
        if hasattr(builtins, name):
            return ("builtin", name)
        return None

    def fixed(self, value: Any) -> Any:
        """A value of a library that does not change while the process runs."""
        module = sys.modules.get(getattr(value, "__module__", None) or "")
        if module is not None and not _is_fixed_module(module):
            return self.unknown(value)
        return ("fixed", _Same(value))

    def unknown(self, value: Any) -> Any:
        raise _Unknown(type(value).__name__)


class _Same:
    """Equal only for the very same object, which it keeps alive."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and self.value is other.value

    def __hash__(self) -> int:
        return id(self.value)


def _hashable(value: Any) -> bool:
    try:
        hash(value)
    except TypeError:
        return False
    return True


@functools.lru_cache(maxsize=1024)
def _fixed_file(file: str) -> bool:
    return file.startswith(_FIXED_PATHS) or "site-packages" in file


def _is_fixed_module(module: types.ModuleType) -> bool:
    """Whether a module belongs to the standard library, an installed package, or pellucid itself."""
    name = module.__name__
    if name.partition(".")[0] in ("pellucid", "numpy", "builtins", "jaxlib"):
        return True
    if name == "__main__":
        return False
    file = getattr(module, "__file__", None)
    return file is None or _fixed_file(file)


def _all_names(code: types.CodeType) -> tuple[str, ...]:
    """Names of globals that `code` and the functions nested in it may read, in a fixed order."""
    names = dict.fromkeys(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            names.update(dict.fromkeys(_all_names(constant)))
    return tuple(names)


def _code_key(code: types.CodeType) -> Any:
    """What decides the behaviour of `code`, and the lines that its equations will point at."""
    constants = tuple(
        _code_key(c) if isinstance(c, types.CodeType) else (type(c).__name__, repr(c))
        for c in code.co_consts
    )
    return (
        code.co_code, constants, code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars,
        code.co_argcount, code.co_kwonlyargcount, code.co_posonlyargcount, code.co_flags,
    )  # fmt: skip

"""What a function is, by content: so that the same function, defined again, finds its old programs.

A fingerprint covers everything that tracing could read: code, defaults, closure values, the globals and
helper functions that the code names, recursively. Where a value could change without the fingerprint noticing
(an object of an unknown class, a large or mutable container), there is no fingerprint, and nothing is shared.
"""

from __future__ import annotations

import builtins
import dis
import functools
import sys
import sysconfig
import types
import weakref
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


_IMPURE = frozenset({"numpy.random", "random", "time", "os", "datetime", "secrets", "uuid"})
"""Modules whose functions give another result each time, which tracing would keep."""
_READS_ANYTHING = frozenset(
    {"eval", "exec", "globals", "locals", "vars", "__import__", "open", "input"}
)
"""Builtins through which code reads what its text doesn't name."""
_VALUE_MODULES = (
    "pellucid.base", "pellucid.sharding", "pellucid.ir", "pellucid.xla", "pellucid.numpy",
    "pellucid.higher_order.stages", "pellucid.higher_order.shape_dtype_struct", "jaxlib",
)  # fmt: skip
"""Where classes are defined whose instances don't change."""


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
        self.names: list[tuple[str, ...]] = []
        """For each function that is being looked at, the names that its code reads."""

    def of(self, value: Any) -> Any:
        """The fingerprint of a value."""
        kind = type(value)
        if kind is types.ModuleType:  # first: attributes that a module lacks may be slow to miss
            return self.module(value)
        jitted = getattr(value, "jitted", None)
        # functools.wraps copies the attribute to functions around the jitted one, which are others.
        if hasattr(jitted, "spec") and jitted.callable() is value:  # pyright: ignore[reportOptionalMemberAccess]
            return ("jit", self.of(jitted.spec.function), jitted.options_key())  # pyright: ignore[reportOptionalMemberAccess]
        if kind in _SCALARS:
            return (kind.__name__, repr(value) if kind in (slice, float, complex) else value)
        if kind is types.FunctionType:
            return self.function(value)
        if kind is types.BuiltinFunctionType and not isinstance(value.__self__, types.ModuleType):
            return ("method", value.__name__, self.of(value.__self__))
        if kind in (types.BuiltinFunctionType, np.ufunc, type, types.GenericAlias) or isinstance(
            value, np.dtype
        ):
            return self.fixed(value)
        if isinstance(value, type):
            return self.fixed(value)
        if kind is types.MethodType:
            return ("method", self.function(value.__func__), self.of(value.__self__))
        if kind is functools.partial:
            return ("partial", self.of(value.func), self.of(value.args), self.of(value.keywords))
        if kind is ArrayImpl:
            return ("array", _SameWhileAlive(value))
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
            return ("dict", tuple((self.of(k), self.of(v)) for k, v in value.items()))  # pyright: ignore[reportAttributeAccessIssue]
        if getattr(kind, "__module__", "").startswith(_VALUE_MODULES) and _hashable(value):
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
        names = _all_names(code)
        if not _READS_ANYTHING.isdisjoint(names):
            return self.unknown(function)
        self.names.append(names)
        found = tuple((name, self.global_value(function, name)) for name in names)
        imported = tuple(self.imported(name) for name in _imports(code))
        self.names.pop()
        return (
            "function", function.__qualname__, _code_key(code), self.of(function.__defaults__),
            self.of(function.__kwdefaults__), self.closure(function), found, imported,
            self.of(function.__dict__),
        )  # fmt: skip

    def imported(self, name: str) -> Any:
        """A module that the code imports itself."""
        module = sys.modules.get(name)
        return self.unknown(name) if module is None else self.module(module)

    def module(self, module: types.ModuleType) -> Any:
        """A library, with those of its attributes that the code at hand may read: users replace some."""
        if not _is_fixed_module(module) or module.__name__ in _IMPURE:
            return self.unknown(module)
        if (
            module.__name__.partition(".")[0] == "pellucid"
        ):  # its attributes load when they are first used
            return ("module", module.__name__)
        names, attributes = self.names[-1] if self.names else (), vars(module)
        if any(f"{module.__name__}.{name}" in _IMPURE for name in names):
            return self.unknown(module)
        read = [(name, attributes[name]) for name in names if name in attributes]
        return ("module", module.__name__, tuple((name, _Same(value)) for name, value in read))

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
            return ("builtin", _Same(getattr(builtins, name)))
        return None

    def fixed(self, value: Any) -> Any:
        """A value of a library that does not change while the process runs."""
        module = sys.modules.get(getattr(value, "__module__", None) or "")
        known = (
            isinstance(value, (np.ufunc, np.dtype)) if module is None else _is_fixed_module(module)
        )
        return ("fixed", _Same(value)) if known else self.unknown(value)

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


class _SameWhileAlive:
    """Equal for the very same immutable object, which it doesn't keep alive."""

    __slots__ = ("number", "reference")

    def __init__(self, value: Any) -> None:
        self.number = id(value)
        self.reference = weakref.ref(value)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, _SameWhileAlive):
            return False
        value = self.reference()
        return value is not None and value is other.reference()

    def __hash__(self) -> int:
        return self.number


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
    return name in sys.builtin_module_names if file is None else _fixed_file(file)


def _all_names(code: types.CodeType) -> tuple[str, ...]:
    """Names of globals that `code` and the functions nested in it may read, in a fixed order."""
    names = dict.fromkeys(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            names.update(dict.fromkeys(_all_names(constant)))
    return tuple(names)


@functools.lru_cache(maxsize=4096)
def _imports(code: types.CodeType) -> tuple[str, ...]:
    """Modules that `code` and the functions nested in it import."""
    found = [i.argval for i in dis.get_instructions(code) if i.opname == "IMPORT_NAME"]
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            found += _imports(constant)
    return tuple(found)


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

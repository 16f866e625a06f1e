"""Fingerprints of functions by content: the same function, defined again, finds its old programs.

A fingerprint covers everything that tracing could read: code, defaults, closure values, the globals and helper
functions that the code names, recursively, in libraries too. Trusted are the functions of a few modules, which give
equal results for equal arguments. Where a value could change without the fingerprint noticing (C code of other
modules, an object of an unknown class, a large container), there is no fingerprint, and nothing is shared.
"""

from __future__ import annotations

import builtins
import dis
import functools
import importlib.util
import sys
import sysconfig
import threading
import types
import weakref
from collections.abc import Callable, Iterator
from typing import Any, Self

import numpy as np

from pellucid.base import cached
from pellucid.ir import AbstractValue
from pellucid.xla import ARRAY_TYPES

_LARGEST = 4096
"""Containers and NumPy arrays with more items than this are not looked into."""
_SCALARS = frozenset(
    (int, float, complex, str, bytes, bool, type(None), type(Ellipsis), range, slice)
)
_FIXED_PATHS = tuple(
    {sysconfig.get_paths()[k] for k in ("stdlib", "platstdlib", "purelib", "platlib")}
)


_FUNCTIONS_WALKED = 256
"""A function that reaches more functions than this has no fingerprint."""
_PURE = frozenset(
    {
        "builtins", "math", "cmath", "operator", "_operator", "functools", "_functools", "itertools", "collections",
        "ml_dtypes", "numpy", "numpy.linalg", "numpy.fft",
    }
)  # fmt: skip
"""Modules whose functions are trusted, besides pellucid's."""
_READS_ANYTHING = frozenset(
    {
        "eval", "exec", "globals", "locals", "vars", "__dict__", "__import__", "open", "input",
        "fromfile", "load", "loadtxt", "genfromtxt", "memmap", "geterr", "get_printoptions",
    }
)  # fmt: skip
"""Their functions through which code reads what its text doesn't name."""
_DISPATCHER = type(np.mean)
"""NumPy's class of functions that other arrays may take over."""


class _Unknown(Exception):
    """Some value can't be fingerprinted."""


def fingerprint(function: Any) -> Any:
    """A hashable value equal for functions, or values, that trace alike; None if that can't be told."""
    return _of(_Walk(), function)


def fingerprint_of_object(function: Callable[..., Any]) -> Any:
    """A hashable value equal as long as the function object `function` traces alike; None if that can't be told.

    Beyond `fingerprint`, it covers modules of users, and classes and objects that Python code defines.
    """
    return fingerprint_of_value(function) if type(function) is types.FunctionType else None


def fingerprint_of_value(value: Any) -> Any:
    """The same for any callable, and for other values."""
    return _of(_ObjectWalk(), value)


def _of(walk: _Walk, function: Any) -> Any:
    try:
        return walk.of(function)
    except (_Unknown, RecursionError):
        return None


class _Walk:
    """One fingerprint; functions met twice (recursion) are referred to by number."""

    def __init__(self) -> None:
        self.seen: dict[Any, int] = {}
        self.kept: list[Any] = []
        self.names: list[tuple[str, ...]] = []
        """For each function that is being looked at, the names that its code reads."""

    def of(self, value: Any) -> Any:
        """The fingerprint of a value."""
        kind = type(value)
        if kind in _SCALARS:
            return (kind, repr(value) if kind in (slice, float, complex) else value)
        if kind in (tuple, list, dict):
            return self.container(value)
        # Before attributes are read, as those that a module lacks may be slow to miss.
        if issubclass(kind, types.ModuleType):
            return self.module(value)
        jitted = getattr(value, "jitted", None)
        # functools.wraps copies the attribute to functions around the jitted one, which are others.
        if hasattr(jitted, "spec") and jitted.callable() is value:  # pyright: ignore[reportOptionalMemberAccess]
            return ("jit", self.of(jitted.spec.function), jitted.options_key())  # pyright: ignore[reportOptionalMemberAccess]
        if kind is types.FunctionType:
            return self.function(value)
        if kind is types.BuiltinFunctionType and not isinstance(value.__self__, types.ModuleType):
            return ("method", value.__name__, self.of(value.__self__))
        if kind in (np.ufunc, types.GenericAlias) or isinstance(value, np.dtype):
            return ("fixed", _Same(value))
        if kind in (types.BuiltinFunctionType, _DISPATCHER) or isinstance(value, type):
            return ("fixed", _Same(value)) if _is_pure(value.__module__) else self.unknown(value)
        if kind is types.MethodType:
            return ("method", self.of(value.__self__), self.of(value.__func__))
        if kind is functools.partial:
            return ("partial", self.of(value.func), self.of(value.args), self.of(value.keywords))
        if kind in ARRAY_TYPES:
            return ("array", _Same(value, weakly=True))
        if isinstance(value, (np.ndarray, np.generic)):
            array = np.asarray(value)
            if array.size > _LARGEST or array.dtype.hasobject:
                return self.unknown(value)
            return ("numpy", array.shape, array.dtype.str, array.tobytes())
        parts = getattr(kind, "traced_parts", None)
        if parts is not None:
            return self.again(value) or (kind, self.of([getattr(value, n, None) for n in parts]))
        return self.container(value)

    def container(self, value: Any) -> Any:
        kind = type(value)
        if kind in (tuple, list, set, frozenset, dict) and len(value) > _LARGEST:
            return self.unknown(value)
        if kind in (tuple, list) or (isinstance(value, tuple) and hasattr(value, "_fields")):
            return (kind, tuple(map(self.of, value)))
        if kind in (set, frozenset):
            return (kind, frozenset(map(self.of, value)))
        if kind is dict:
            return (kind, tuple((self.of(k), self.of(v)) for k, v in value.items()))  # pyright: ignore[reportAttributeAccessIssue]
        return ("value", kind, value) if _is_value(value) else self.unknown(value)

    def function(self, function: types.FunctionType) -> Any:
        if again := self.again(function):
            return again
        if _is_pure(function.__globals__.get("__name__")):  # `functools.wraps` copies `__module__`
            return self.library_function(function)
        if len(self.seen) > _FUNCTIONS_WALKED:
            return self.unknown(function)
        names, modules, key = _facts(function.__code__)
        if not _READS_ANYTHING.isdisjoint(names):
            return self.unknown(function)
        self.names.append(names)
        global_values = tuple([(name, self.global_value(function, name)) for name in names])
        imported = tuple(map(self.imported, modules))
        closure = self.closure(function)
        self.names.pop()
        return (
            "function", function.__qualname__, key, self.of(function.__defaults__),
            self.of(function.__kwdefaults__), closure, global_values, imported,
            self.of(function.__dict__ or None),
        )  # fmt: skip

    def library_function(self, function: types.FunctionType) -> Any:
        """The fingerprint of a function that isn't looked into; one that a call defines is defined again by the next call."""
        is_whole = function.__closure__ is None or function.__defaults__ or function.__kwdefaults__
        same = _Same(function if is_whole else function.__code__, weakly=True)
        return ("library function", same, self.closure(function))

    def again(self, value: Any, *aspect: Any) -> Any:
        """A reference to `value`, or to an aspect of it, if it was met before; else None."""
        key = id(value), *aspect
        if key in self.seen:
            return ("again", self.seen[key])
        self.seen[key] = len(self.seen)
        self.kept.append(value)
        return None

    def imported(self, name: str) -> Any:
        """A module that the code imports itself."""
        module = sys.modules.get(name)
        return self.unknown(name) if module is None else self.module(module)

    def module(self, module: types.ModuleType) -> Any:
        """A library, with those of its attributes that the code at hand may read: users replace some."""
        names = self.names[-1] if self.names else ()
        if not _is_fixed_module(module):
            return self.unknown(module)
        if _is_ours(module.__name__):  # its attributes load when they are first used
            return ("module", module.__name__)
        if again := self.again(module, names):
            return again
        attributes = vars(module)
        read = [(name, self.of(attributes[name])) for name in names if name in attributes]
        # NumPy loads some of its modules when they are first used.
        if attributes.keys() >= {"__getattr__", "__path__"}:
            late = [n for n in names if n not in attributes and _is_module(module.__name__, n)]
            read += [(name, self.imported(f"{module.__name__}.{name}")) for name in late]
        return ("module", module.__name__, tuple(read))

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
        # Not what every module has, as `__setattr__`: it is made anew when it is read.
        if name in vars(builtins):
            return ("builtin", _Same(vars(builtins)[name]))
        return None

    def unknown(self, value: Any) -> Any:
        raise _Unknown(type(value).__name__)


class _Plain:
    """A class whose objects have attributes and nothing else."""


_IMMUTABLE_TYPE = 1 << 8
"""The flag of classes whose attributes can't be set, as `Py_TPFLAGS_IMMUTABLETYPE` of Python's headers."""
_PLAIN_BYTES = max(_Plain.__basicsize__, tuple.__basicsize__)


class _ObjectWalk(_Walk):
    """One fingerprint of a function object: modules, classes and objects of users count by identity and attributes."""

    def function(self, function: types.FunctionType) -> Any:
        if _fixed_file(function.__code__.co_filename):
            return self.library_function(function)
        return super().function(function)

    def unknown(self, value: Any) -> Any:
        is_class, is_module = isinstance(value, type), isinstance(value, types.ModuleType)
        if is_class and value.__flags__ & _IMMUTABLE_TYPE:
            return ("fixed", _Same(value))
        names = self.names[-1] if self.names and is_module else ()
        if again := self.again(value, names):
            return again
        kind = value if is_class else type(value)
        is_plain = is_class or (hasattr(value, "__dict__") and kind.__basicsize__ <= _PLAIN_BYTES)
        if len(self.seen) > _FUNCTIONS_WALKED or not (is_module or is_plain):
            return super().unknown(value)
        attributes = dict(vars(value))
        if is_module:
            attributes = {n: attributes[n] for n in names if n in attributes}
        elif is_class:
            functions = {
                n: getattr(v, "__func__", getattr(v, "fget", v)) for n, v in attributes.items()
            }
            attributes = {
                n: v for n, v in functions.items() if isinstance(v, (types.FunctionType, *_SCALARS))
            }
        made_of = self.of(kind.__bases__ if is_class else kind)
        is_weak = type(value).__weakrefoffset__ != 0  # not of `types.SimpleNamespace`
        return ("object", _Same(value, weakly=is_weak), made_of, self.of(attributes))


class _Same:
    """Equal only for the very same object, which it keeps alive unless `weakly`."""

    __slots__ = ("number", "value")

    def __init__(self, value: Any, weakly: bool = False) -> None:
        self.number = id(value)
        self.value: Callable[[], Any] = weakref.ref(value) if weakly else lambda: value

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, _Same):
            return False
        value = self.value()
        return value is not None and value is other.value()

    def __hash__(self) -> int:
        return self.number


def _is_ours(module: str) -> bool:
    return module.partition(".")[0] in ("pellucid", "jaxlib")


def _is_pure(module) -> bool:
    return module in _PURE or (isinstance(module, str) and _is_ours(module))


def _is_value(x) -> bool:
    """Whether `x` can't change: a type of a program, or an object of a class of ours that hashes its content."""
    kind = type(x)
    if isinstance(x, AbstractValue):
        return True
    if not _is_ours(kind.__module__) or kind.__hash__ in (None, object.__hash__):
        return False
    try:
        hash(x)
    except TypeError:
        return False
    return True


@cached(1024)
def _fixed_file(file: str) -> bool:
    return file.startswith(_FIXED_PATHS) or "site-packages" in file


@cached(4096)
def _is_module(package: str, name: str) -> bool:
    return importlib.util.find_spec(f"{package}.{name}") is not None


def _is_fixed_module(module: types.ModuleType) -> bool:
    """Whether a module belongs to the standard library, an installed package, or pellucid itself."""
    name = module.__name__
    if _is_ours(name):
        return True
    if name == "__main__":
        return False
    file = getattr(module, "__file__", None)
    return name in sys.builtin_module_names if file is None else _fixed_file(file)


def _codes(code: types.CodeType) -> Iterator[types.CodeType]:
    """`code` and that of the functions nested in it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _codes(constant)


@cached(4096)
def _facts(code: types.CodeType) -> tuple[tuple[str, ...], tuple[str, ...], Any]:
    """Of `code` and the functions nested in it: names of globals that they may read, modules that they import, its key."""
    codes = [*_codes(code)]
    instructions = [i for c in codes for i in dis.get_instructions(c)]
    names = tuple(dict.fromkeys(name for c in codes for name in c.co_names))
    modules = tuple([i.argval for i in instructions if i.opname == "IMPORT_NAME"])
    return names, modules, _code_key(code)


def _code_key(code: types.CodeType):
    """Key of the behaviour of `code`, and of the lines that its equations will point at."""
    constants = tuple(
        _code_key(c) if isinstance(c, types.CodeType) else (type(c).__name__, repr(c))
        for c in code.co_consts
    )
    return (
        code.co_code, constants, code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars,
        code.co_argcount, code.co_kwonlyargcount, code.co_posonlyargcount, code.co_flags,
    )  # fmt: skip


# Programs that called functions reuse -------------------------------------------------------------

# A function keeps its program when a global that it reads changes. What calls it is then of new content with an old
# program inside, and must not be shared with other functions of that content.

_local = threading.local()
"""`reuses`: by function, the fingerprints of its reused programs, while a function is traced; else missing or None."""


def note_reuse(function: Callable[..., Any], content: Any) -> None:
    """Note that a program of `function` was reused that was traced when its fingerprint was `content`."""
    reuses = getattr(_local, "reuses", None)
    if reuses is not None:
        reuses[id(function), content] = function


class Reuses:
    """The programs that functions reuse while the `with` block traces one; those of an outer block include them."""

    def __enter__(self) -> Self:
        self._outer = getattr(_local, "reuses", None)
        self._contents: dict[tuple[int, Any], Callable[..., Any]] = {}
        _local.reuses = self._contents
        return self

    def __exit__(self, *_: object) -> None:
        _local.reuses = self._outer
        if self._outer is not None:
            self._outer.update(self._contents)

    def are_current(self) -> bool:
        """Whether all these programs are those of their functions as these are now."""
        return all(fingerprint(f) == content for (_, content), f in self._contents.items())

"""Operators and methods of arrays and tracers, loaded with the NumPy API on first use."""

from __future__ import annotations

from typing import Any

from pellucid._machine.base import Function, is_loaded
from pellucid._machine.base.late import late

_BINARY = [
    "add",
    "sub",
    "mul",
    "truediv",
    "floordiv",
    "mod",
    "divmod",
    "pow",
    "and",
    "or",
    "xor",
    "lshift",
    "rshift",
    "matmul",
]
_OTHERS = [
    "eq",
    "ne",
    "lt",
    "le",
    "gt",
    "ge",
    "neg",
    "pos",
    "abs",
    "invert",
    "getitem",
    "setitem",
    "iter",
    "contains",
    "round",
]
OPERATORS = [*_BINARY, *[f"r{name}" for name in _BINARY], *_OTHERS]
"""Python's operators, without underscores. Python looks them up in the class, so they must be defined in advance."""


def add_late_methods(cls: type) -> None:
    """Gives `cls` placeholder operators. On first use they load the NumPy API, which replaces them."""
    for name in OPERATORS:
        method = f"__{name}__"
        if method not in vars(cls):
            setattr(cls, method, _late_operator(method))


def _late_operator(name: str) -> Function:
    def operator(x: object, *operands: Any) -> Any:
        late("array methods")
        method = getattr(type(x), name)
        return NotImplemented if method is operator else method(x, *operands)

    operator.__name__ = name
    return operator


def late_attribute(x: Any, name: str) -> Any:
    """The attribute that the NumPy API defines for `x`; loads the API.

    Raises: AttributeError if there is none, or if the API was already loaded.
    """
    if name.startswith("_") or is_loaded("array methods"):
        raise AttributeError(f"{type(x).__name__!r} object has no attribute {name!r}")
    late("array methods")
    return getattr(x, name)

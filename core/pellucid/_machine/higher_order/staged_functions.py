"""Stages of library functions: `trace`, `lower`, `eval_shape`, `clear_cache` for functions that run as plain Python
calls.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Mapping
from types import FunctionType
from typing import Any

import numpy as np

from pellucid._machine.base import Function
from pellucid._machine.xla import flatten

from .jitted import jit

STAGES = ("trace", "lower", "eval_shape", "clear_cache")
_KNOWN = ("Ints", "StaticScalar", "str", "slice")
"""Annotations, besides arrays, of arguments that may be known while tracing."""
_PLAIN = ("bool", "int", "str", "None", "Shape", "tuple[int, ...]", "DType", "ufunc")
"""Annotations of results of functions without stages."""


def give_stages(names: Mapping[str, Any]) -> None:
    """Gives each public Python function on arrays among `names`, a module's globals, the stages of its jitted form.

    Arguments annotated as arrays or `Any` are traced, all others are static. Arguments such as `ArrayLike | Ints`,
    which may also be known while tracing, are static unless they contain arrays. Functions are only jitted when a stage
    is used.

    >>> def scaled(x: "Any", factor: int) -> "Array":
    ...     return x * factor
    >>> give_stages({"scaled": scaled})
    >>> scaled.eval_shape(np.ones(2, np.float32), 3)
    ShapeDtypeStruct(shape=(2,), dtype=float32)
    """
    for name, function in names.items():
        if name[0] == "_" or not isinstance(function, FunctionType):
            continue
        annotations = function.__annotations__
        result = annotations.get("return")
        is_plain = getattr(result, "__name__", result) in _PLAIN
        if not is_plain and any(map(_is_array, annotations.values())):
            for stage in STAGES:
                setattr(function, stage, functools.partial(_run_stage, function, stage))


def _run_stage(function: Function, stage: str, *args: Any, **kwargs: Any) -> Any:
    forms = _forms(function)
    if stage == "clear_cache":
        for jitted in forms.values():
            jitted.clear_cache()
        return None
    positional, by_name, var_keyword = _parameters(function)
    # Arguments beyond the parameters belong to the last one, `*args`.
    places = [
        positional[min(i, len(positional) - 1)] for i in range(len(args) if positional else 0)
    ]
    numbers = tuple([i for i, p in enumerate(places) if _is_static(p, args[i])])
    static_names = tuple(
        [name for name, x in kwargs.items() if _is_static(by_name.get(name, var_keyword), x)]
    )
    args = tuple([_hashable(x) if i in numbers else x for i, x in enumerate(args)])
    kwargs = {name: _hashable(x) if name in static_names else x for name, x in kwargs.items()}
    form = numbers, static_names
    if form not in forms:
        forms[form] = jit(function, static_argnums=numbers, static_argnames=static_names)
    return getattr(forms[form], stage)(*args, **kwargs)


@functools.cache
def _forms(function: Function) -> dict[tuple[tuple[int, ...], tuple[str, ...]], Any]:
    """The jitted forms of `function`, by (positions, names) of static arguments."""
    return {}


Parameter = inspect.Parameter


@functools.cache
def _parameters(
    function: Function,
) -> tuple[list[Parameter], dict[str, Parameter], Parameter | None]:
    """(positional parameters, keyword parameters, the `**kwargs` parameter)."""
    parameters = inspect.signature(function).parameters.values()
    positional = [p for p in parameters if p.kind not in (p.KEYWORD_ONLY, p.VAR_KEYWORD)]
    by_name = {p.name: p for p in parameters if p.kind in (p.KEYWORD_ONLY, p.POSITIONAL_OR_KEYWORD)}
    return positional, by_name, next((p for p in parameters if p.kind is p.VAR_KEYWORD), None)


def _is_static(parameter: Parameter | None, value: Any) -> bool:
    annotation = Parameter.empty if parameter is None else parameter.annotation
    if annotation is Parameter.empty:
        return False
    if not _is_array(annotation):
        return True
    may_be_known = any(word in str(annotation) for word in _KNOWN)
    return may_be_known and not any(map(_is_of_arrays, flatten(value)[0]))


def _is_of_arrays(leaf: Any) -> bool:
    """Whether `leaf` is an array or represents one; NumPy integer arrays count as sizes and indices."""
    if isinstance(leaf, np.ndarray):
        return leaf.dtype.kind not in "iu"
    return hasattr(leaf, "shape") and hasattr(leaf, "dtype") and not isinstance(leaf, np.generic)


def _hashable(value: Any) -> Any:
    """A static argument in hashable form: tuples instead of lists and NumPy integer arrays."""
    if isinstance(value, np.ndarray):
        return _hashable(value.tolist())
    return tuple([_hashable(x) for x in value]) if isinstance(value, (list, tuple)) else value


def _is_array(annotation: Any) -> bool:
    text = str(annotation)
    return "Callable" not in text and any(word in text for word in ("Array", "Any"))

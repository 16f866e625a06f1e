"""Stages of library functions: `trace`, `lower`, `eval_shape` and `clear_cache` on functions that run as Python calls."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Mapping
from types import FunctionType
from typing import Any

from pellucid._machine.base import Function

from .jitted import jit

STAGES = ("trace", "lower", "eval_shape", "clear_cache")


def give_stages(names: Mapping[str, Any]) -> None:
    """Give each public Python function of arrays among `names`, the globals of a module, the stages of its jitted form.

    Arguments that are annotated as arrays, or as anything, are traced, all others are static. Nothing is jitted before a
    stage is called.

    >>> def scaled(x: "Any", factor: int):
    ...     return x * factor
    >>> give_stages({"scaled": scaled})
    >>> scaled.eval_shape(np.ones(2, np.float32), 3)
    ShapeDtypeStruct(shape=(2,), dtype=float32)
    """
    for name, function in names.items():
        if name[0] == "_" or not isinstance(function, FunctionType):
            continue
        if any(map(_is_array, function.__annotations__.values())):
            for stage in STAGES:
                setattr(function, stage, functools.partial(_run_stage, function, stage))


def _run_stage(function: Function, stage: str, *args: Any, **kwargs: Any) -> Any:
    return getattr(_jitted(function), stage)(*args, **kwargs)


@functools.cache
def _jitted(function: Function) -> Any:
    parameters = inspect.signature(function).parameters.values()
    static = [
        p.name for p in parameters if p.annotation is not p.empty and not _is_array(p.annotation)
    ]
    return jit(function, static_argnames=static)


def _is_array(annotation: Any) -> bool:
    text = str(annotation)
    return "Callable" not in text and any(word in text for word in ("Array", "Any"))

"""Calls of the library through the stages of its functions, which take what the calls take."""

from __future__ import annotations

import collections
import importlib
import inspect
import types
from collections.abc import Sequence
from typing import Any

MODULES = (
    "numpy", "numpy.linalg", "nn", "lax", "lax.linalg", "scipy.linalg", "scipy.special", "scipy.stats", "scipy.integrate",
    "scipy.stats.truncnorm", "scipy.stats.poisson", "scipy.stats.betabinom", "experimental.rnn", "extend.random",
)  # fmt: skip


MAX_CALLS = 6
"""How many calls of one function are made by its stages."""


def has_stages(function: Any) -> bool:
    return callable(function) and not isinstance(function, type) and hasattr(function, "eval_shape")


def public_functions(jax: Any) -> dict[str, Any]:
    """Public functions that have stages, by "module.name"."""
    found: dict[str, Any] = {}
    for path in MODULES:
        module = importlib.import_module(f"{jax.__name__}.{path}")
        names = [name for name in dir(module) if name[0] != "_"]
        found |= {
            f"{path}.{n}": getattr(module, n) for n in names if has_stages(getattr(module, n))
        }
    return found


def static_names(jax: Any) -> dict[str, list[str]]:
    """The names of the static arguments of each function that has stages; jax is the reference."""
    functions = public_functions(jax)
    return {name: sorted(f._jit_info.static_argnames) for name, f in functions.items()}


class Staged:
    """The names of a module; calls of functions that have stages are made by these, too.

    `failed` gets the functions of which `eval_shape` gives other types than the call, or fails; `inputs` how many arrays
    the programs of all calls take, and how many arrays of the arguments are not among the arguments called `static`.
    """

    def __init__(
        self,
        module: Any,
        jax: Any,
        static: dict[str, Sequence[str]],
        failed: dict[str, str],
        inputs: dict[str, list[tuple[int, int]]],
    ) -> None:
        self._parts = module, jax, static, failed, inputs, collections.Counter()

    def __getattr__(self, name: str) -> Any:
        module, jax, static, failed, inputs, tries = self._parts
        value = getattr(module, name)
        if isinstance(value, types.ModuleType):
            return Staged(value, jax, static, failed, inputs)
        if not has_stages(value):
            return value
        label = f"{module.__name__.partition('.')[2]}.{name}"

        def called(*args: Any, **kwargs: Any) -> Any:
            result = value(*args, **kwargs)
            tries[label] += 1
            if tries[label] > MAX_CALLS:
                return result
            args, kwargs = _types(jax, (args, kwargs))
            try:
                shapes = value.eval_shape(*args, **kwargs)
            except Exception as error:  # its own, whatever it is
                failed[label] = f"{type(error).__name__}: {error}"
                return result
            expected, got = (
                [(x.shape, x.dtype) for x in jax.tree.leaves(tree) if hasattr(x, "dtype")]
                for tree in (result, shapes)
            )
            if got != expected:
                failed[label] = f"{got} for {expected}"
            if label in static:
                bound = inspect.signature(value).bind(*args, **kwargs).arguments
                dynamic = [x for name, x in bound.items() if name not in static[label]]
                program = value.trace(*args, **kwargs).jaxpr
                inputs.setdefault(label, []).append(
                    (len(program.in_avals), len(jax.tree.leaves(dynamic)))
                )
            return result

        return called


def _types(jax: Any, values: Any) -> Any:
    return jax.tree.map(
        lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype) if isinstance(x, jax.Array) else x, values
    )

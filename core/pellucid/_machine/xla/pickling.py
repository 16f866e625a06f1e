"""Pickling of singletons as references to globals of pellucid.

Functions returned by transformations are pickled by value, with the globals that they use.
"""

from __future__ import annotations

import copyreg
import importlib
import pickle
import sys
from types import FrameType
from typing import Any

from jaxlib import _jax


def global_of(module: str, name: str) -> Any:
    """The global `name` of a module."""
    return getattr(importlib.import_module(module), name)


def by_name(value: Any) -> tuple[Any, tuple[str, str]]:
    """Reduces a global of pellucid to a reference for pickle.

    Raises: PicklingError if `value` is not a global.
    """
    for module_name, module in list(sys.modules.items()):
        if module_name.startswith("pellucid."):
            for name, each in list(vars(module).items()):
                if each is value:
                    return global_of, (module_name, name)
    raise pickle.PicklingError(f"Can't pickle {value!r}: it is no global of pellucid")


def name_in_pickles(value: Any) -> str | None:
    """The name under which a function is pickled within its module; None to pickle it by value.

    Called by a reducer. Picklers such as cloudpickle pickle definitions of `__main__` by value.
    """
    module, name = getattr(value, "__module__", None), getattr(value, "__qualname__", "")
    found: Any = sys.modules.get(module or "")
    for part in name.split("."):
        found = getattr(found, part, None)
    if found is not value or (module == "__main__" and _pickles_by_value(sys._getframe(2))):
        return None
    return name


def _pickles_by_value(caller: FrameType) -> bool:
    pickler = caller.f_locals.get("self")
    return isinstance(pickler, pickle.Pickler) and hasattr(pickler, "reducer_override")


def _bound_method(method: Any) -> tuple[Any, ...]:
    return getattr, (method.__self__, method.__name__)


copyreg.pickle(_jax.config.Config, by_name)
copyreg.pickle(type(_jax.pytree.PyTreeRegistry().flatten), _bound_method)

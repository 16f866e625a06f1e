"""Set-up before and right after jaxlib is imported.

jaxlib's C++ side is global to the process: it looks up modules of `jax` by name, has one table of array operators, and
reads its environment when the first client starts. So pellucid and `jax` can't be used in one process; this module
raises an error in either order of imports.
"""

from __future__ import annotations

import importlib.util
import os
import sys
import types
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

_CONFLICT = (
    "pellucid and jax can't share one process: both install themselves into jaxlib's array class.\n"
    "  Start a fresh interpreter (or notebook kernel) and import only one of the two."
)


class SharedProcessError(ImportError):
    """pellucid and jax were both imported in one process."""


def _refuse_if_jax_is_loaded() -> None:
    module = sys.modules.get("jax")
    if module is not None and getattr(module, "__pellucid__", None) is None:
        raise SharedProcessError(_CONFLICT)


_refuse_if_jax_is_loaded()
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "1")  # otherwise C++ logs INFO lines to stderr

# `set_typed_ndarray_type` dereferences a type that is only registered by this module.
from jaxlib import (  # noqa: E402
    _jax,
    weakref_lru_cache as _weakref_lru_cache,  # noqa: F401
)


class _JaxRefuser:
    """Makes `import jax` raise a clear error, and answers jaxlib's own look-ups quickly.

    Without it, jaxlib would import an installed `jax` unnoticed, and let it replace the operators of our arrays. Code
    that only checks whether `jax` is installed gets the usual answer.
    """

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: types.ModuleType | None = None
    ) -> None:
        if name != "jax" or _is_a_question(sys._getframe(2)):
            return
        raise SharedProcessError(_CONFLICT)


def _is_a_question(caller: types.FrameType) -> bool:
    """Whether the module finders are called by `importlib.util.find_spec`, and not by an import."""
    return caller.f_code is importlib.util.find_spec.__code__


def install_refuser() -> None:
    """Makes `import jax` raise from now on, unless pellucid is set up to answer it."""
    if not any(hasattr(finder, "answers_for_jax_later") for finder in sys.meta_path):
        sys.meta_path.insert(0, _JaxRefuser())


def with_stand_in_modules(names: dict[str, dict[str, Any]], trigger: Callable[[], None]) -> None:
    """Runs `trigger` while stand-in modules `names` exist, so that C++ caches what it looks up in them.

    `names` maps a module name to its attributes. The stand-ins are removed afterwards: a lasting fake `jax` would
    confuse libraries that test for it.
    """
    saved = {name: sys.modules.get(name) for name in names}
    for name, attributes in names.items():
        stand_in = types.ModuleType(name)
        stand_in.__path__ = []  # a package, so that submodules resolve
        vars(stand_in).update(attributes)
        sys.modules[name] = stand_in
    for name in names:
        parent, _, child = name.rpartition(".")
        if parent:
            setattr(sys.modules[parent], child, sys.modules[name])
    try:
        trigger()
    finally:
        for name, module in saved.items():
            if module is None:
                del sys.modules[name]
            else:
                sys.modules[name] = module


install_refuser()

if TYPE_CHECKING:

    class Flag:
        """A state with a global value, which a thread-local value overrides."""

        name: str
        value: Any

        def __init__(
            self,
            name: str,
            value: Any,
            *,
            include_in_jit_key: bool = False,
            include_in_trace_context: bool = False,
        ) -> None: ...
        def get_global(self) -> Any: ...
        def set_global(self, value: Any) -> None: ...
        def get_local(self) -> Any: ...
        def set_local(self, value: Any) -> None: ...
        def swap_local(self, value: Any) -> Any: ...

else:
    Flag = _jax.config.Config

# The C++ call path reads these three states, which must exist before the first call.
enable_x64_state = Flag("enable_x64", False, include_in_jit_key=True, include_in_trace_context=True)
disable_jit_state = Flag("disable_jit", False)
post_hook_state = Flag("post_hook", None)
_jax.jax_jit.set_enable_x64_state(enable_x64_state)
_jax.jax_jit.set_disable_jit_state(disable_jit_state)
_jax.jax_jit.set_post_hook_state(post_hook_state)

"""Modules that `import jax` must provide and few programs use: their code runs when one of their names is first asked."""

from __future__ import annotations

import importlib
import importlib.util
import sys
import threading
from collections.abc import Callable
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

After = Callable[[ModuleType], Any]


class DeferredModule(ModuleType):
    """A module whose code hasn't run yet. It has what the import system sets, and runs when another name is asked, set or deleted."""

    def __getattribute__(self, name: str) -> Any:
        # The import system has set both, but not as the code does.
        if name in ("__dict__", "__doc__"):
            run(self)
        return ModuleType.__getattribute__(self, name)

    def __getattr__(self, name: str) -> Any:
        if not _is_of_imports(name):
            run(self)
            if not isinstance(self, DeferredModule):
                return getattr(self, name)
        raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")

    def __setattr__(self, name: str, value: Any) -> None:
        # The import system sets the modules within a package.
        spec, _ = _waiting.get(self, (None, None))
        is_part = spec is not None and value is sys.modules.get(f"{spec.name}.{name}")
        if not _is_of_imports(name) and not is_part:
            run(self)
        ModuleType.__setattr__(self, name, value)

    def __delattr__(self, name: str) -> None:
        if not _is_of_imports(name):
            run(self)
        ModuleType.__delattr__(self, name)

    def __reduce__(self) -> Any:
        return importlib.import_module, (self.__name__,)

    def __dir__(self) -> list[str]:
        run(self)
        return sorted(vars(self)) if isinstance(self, DeferredModule) else dir(self)


def _is_of_imports(name: str) -> bool:
    """Whether a name is one that the import system asks and sets."""
    return name.startswith("__") and name != "__all__"


_waiting: dict[ModuleType, tuple[ModuleSpec, After]] = {}
"""For each module whose code hasn't begun to run, how it is loaded, and what is done afterwards."""
_lock = threading.RLock()


def defer(name: str, after: After) -> None:
    """Make the module `name` importable without running its code, unless it is loaded or isn't installed.

    When its code has run, it is an ordinary module, and `after` is called with it.
    """
    if name in sys.modules:
        return
    spec = importlib.util.find_spec(name)
    if spec is None:
        return
    module = importlib.util.module_from_spec(spec)
    module.__class__ = DeferredModule
    _waiting[module] = spec, after
    sys.modules[name] = module


def run(module: ModuleType) -> None:
    """Run a deferred module's code. Other threads wait until it has run; calls from within that code do nothing."""
    with _lock:
        spec, after = _waiting.pop(module, (None, None))
        if spec is None or after is None:
            return
        assert spec.loader is not None
        shown, module.__name__ = module.__name__, spec.name  # which loaders compare with their own
        try:
            spec.loader.exec_module(module)
        except BaseException:
            _waiting[module] = spec, after
            raise
        finally:
            module.__name__ = shown
        module.__class__ = ModuleType
        after(module)

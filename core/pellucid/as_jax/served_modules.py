"""Modules of pellucid that are served below `jax`: their names, specs and loaders."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from importlib.machinery import ModuleSpec, SourceFileLoader
from types import ModuleType
from typing import Any

from pellucid._machine.xla.arrays import ArrayImpl
from pellucid.as_jax import private
from pellucid.as_jax.deferred import DeferredModule
from pellucid.as_jax.identity import as_jax, is_public, relabel, show_members


class ServedModule(ModuleType):
    """Class of modules served under the reference's names: it provides the names in `ADDED`, and records attributes
    that are missing.
    """

    def __getattr__(self, name: str) -> Any:
        value = private.find_added(self.__name__, name)
        if value is not None:
            return value
        if not name.startswith("__"):
            here = own_spec(self).name
            private.asked_in_vain[f"{self.__name__}.{name}"] = f"{here}.{name}"
        raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")

    def __reduce__(self) -> Any:
        return importlib.import_module, (self.__name__,)


class ServingLoader:
    """Loader of a module that exists already, and never runs again: other names import the same object."""

    def __init__(self, module: ModuleType, after: Callable[[], None] | None = None) -> None:
        self.module = module
        self.own_spec = own_spec(module)
        self.kept: Any = module.__spec__
        self.after = after

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return self.module

    def exec_module(self, module: ModuleType) -> None:
        module.__spec__ = self.kept  # the import system replaced it
        if self.after is not None:
            self.after()

    def get_code(self, name: str) -> Any:
        """The module's code, which `python -m` runs; None if it has none."""
        get: Any = getattr(self.own_spec.loader, "get_code", None)
        return get and get(self.own_spec.name)

    def get_resource_reader(self, name: str) -> Any:
        """The reader of the files beside the module."""
        get: Any = getattr(self.own_spec.loader, "get_resource_reader", None)
        return get and get(self.own_spec.name)


def own_spec(module: ModuleType) -> ModuleSpec:
    """The spec by which a module was loaded, whatever it is served as."""
    spec: Any = module.__spec__
    return spec.loader.own_spec if isinstance(spec.loader, ServingLoader) else spec


def serve(name: str, served: str, after: Callable[[], None] | None = None) -> ModuleSpec:
    """The spec of the module `served` under `name`, which becomes its own name if it is public and below `jax`.

    `after` is called when `name` has been imported.
    """
    module = importlib.import_module(served)
    if is_public(name):
        return show(module, name, after)
    if type(module) is ModuleType:
        module.__class__ = ServedModule
    return _spec(module, name, ServingLoader(module, after))


def show(module: ModuleType, name: str, after: Callable[[], None] | None = None) -> ModuleSpec:
    """Makes a module, which is called `name`, and the names that it shows, those of `jax`; gives its spec."""
    if not isinstance(module, DeferredModule):  # whose names are given when it runs
        relabel(module, name)
    return _call(module, name, after)


def _call(module: ModuleType, name: str, after: Callable[[], None] | None = None) -> ModuleSpec:
    """Makes a module the one of `jax` that is called `name`; gives its spec."""
    loader = ServingLoader(module, after)
    module.__name__ = name
    module.__spec__ = loader.kept = spec = _spec(module, name, loader)
    module.__package__ = spec.parent
    if type(module) is ModuleType:
        module.__class__ = ServedModule
    return spec


def _spec(module: ModuleType, name: str, loader: Any) -> ModuleSpec:
    spec = ModuleSpec(name, loader, origin=getattr(module, "__file__", None))
    spec.has_location = spec.origin is not None
    folders = getattr(module, "__path__", None)
    spec.submodule_search_locations = None if folders is None else list(folders)
    return spec


class RelabellingLoader(SourceFileLoader):
    """The usual loader, after which the module's definitions report modules of `jax`."""

    def exec_module(self, module: ModuleType) -> None:
        super().exec_module(module)
        identify(module)


def identify(module: ModuleType) -> None:
    """Relabels a module of pellucid and its definitions.

    A private module is registered under the name that they report. A public one shows what it has as its own when it is imported by that;
    the package itself keeps its name, since `jax` is another module.
    """
    relabel(module)
    shown = as_jax(module.__name__)
    if shown.startswith("jax._src."):
        sys.modules.setdefault(shown, module)
    elif is_public(shown) and shown != "jax":
        _call(module, shown)


def identify_modules() -> None:
    """Identifies all modules of pellucid that are loaded, and what they added to jaxlib's array class."""
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] == "pellucid" and isinstance(module, ModuleType):
            identify(module)
    show_members(ArrayImpl)

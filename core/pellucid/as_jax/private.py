"""Modules below `jax._src`: each is a view of the table of private names."""

from __future__ import annotations

import importlib
import importlib.machinery
import sys
from types import ModuleType
from typing import Any

from pellucid.as_jax.identity import MACHINE, PUBLIC
from pellucid.as_jax.private_names import (
    ADDED,
    EVERYWHERE,
    FAMILIES,
    OBJECTS,
    READ_ANEW,
    REFUSED,
    SOURCES,
)

_ROOT = "jax._src"
_MODULES = {"", *SOURCES}
"""Private modules below `jax._src`; the first is that package itself."""

asked_in_vain: dict[str, str] = {}
"""Names below `jax` that were requested and don't exist, with the names that they would have here."""


class PrivateModule(ModuleType):
    """A private module of the reference, as far as the table has its names."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        full = _below(self, name)
        if full in READ_ANEW:
            text = READ_ANEW[full]
            value = resolve(text.removesuffix("()"))
            return value() if text.endswith("()") else value
        value = _find_served(_below(self), name)
        vars(self)[name] = value
        return value

    def __setattr__(self, name: str, value: Any) -> None:
        target = READ_ANEW.get(_below(self, name))
        if target is None:
            super().__setattr__(name, value)
        else:
            owner, _, attribute = target.rpartition(".")
            setattr(resolve(owner), attribute, value)

    def __reduce__(self) -> Any:
        return importlib.import_module, (self.__name__,)


class _Loader:
    """Creates a private module, which is empty until a name is requested."""

    def create_module(self, spec: Any) -> ModuleType:
        return PrivateModule(spec.name, f"Private names as `{spec.name}`.")

    def exec_module(self, module: ModuleType) -> None:
        return

    def get_code(self, name: str) -> None:
        """None: `python -m` finds nothing to run."""


def spec_of(name: str) -> importlib.machinery.ModuleSpec | None:
    """The spec of `name`, below `jax._src`; None for a module that the table doesn't have."""
    below = name.removeprefix(_ROOT).removeprefix(".")
    if below not in _MODULES:
        return None
    loader: Any = _Loader()
    # As packages all of them: for those alone Python asks a finder for the names that `from` imports, and the module lacks.
    return importlib.machinery.ModuleSpec(name, loader, is_package=True)


def refuse(name: str) -> None:
    """Raise a ModuleNotFoundError if `name` is below a module of the table, and no name of it: it says what to use."""
    module, _, attribute = name.rpartition(".")
    if module == _ROOT or not isinstance(sys.modules.get(module), PrivateModule):
        return
    try:
        getattr(sys.modules[module], attribute)
    except AttributeError as error:
        text = f"cannot import name {attribute!r} from {module!r}: {error}"
        # Python drops one that names the module itself, and then its own says nothing.
        raise ModuleNotFoundError(text, name=module) from None


def is_private_module(name: str) -> bool:
    """Whether the table has the module `name`.

    >>> is_private_module("jax._src.core"), is_private_module("jax._src.nothing")
    (True, False)
    """
    return name.removeprefix(_ROOT).removeprefix(".") in _MODULES


def resolve(target: str) -> Any:
    """The object of a dotted name: a module, or an attribute of the longest module that there is.

    >>> resolve("pellucid._machine.base.config.config.update").__name__
    'update'
    """
    try:
        return importlib.import_module(target)
    except ModuleNotFoundError as error:
        owner, _, attribute = target.rpartition(".")
        if not owner or error.name not in (target, owner):
            raise
        return getattr(resolve(owner), attribute)


def find_added(module: str, name: str) -> Any:
    """The object that the reference has as `name` of a public module and pellucid's module lacks; None if there is
    none.
    """
    target = ADDED.get(f"{module.removeprefix('jax.')}.{name}")
    return None if target is None else resolve(target)


def _below(module: ModuleType, name: str = "") -> str:
    below = module.__name__.removeprefix(_ROOT).removeprefix(".")
    return f"{below}.{name}".strip(".")


def _find_served(below: str, name: str) -> Any:
    """The object that `name` of the private module `below` is here.

    Raises: AttributeError, with what to use instead, if there is none.
    """
    full = f"{below}.{name}".strip(".")
    if full in _MODULES:
        return importlib.import_module(f"{_ROOT}.{full}")
    if full in OBJECTS:
        return resolve(OBJECTS[full])
    if full not in REFUSED and below not in REFUSED:
        for source in SOURCES.get(below, ()):
            module = importlib.import_module(f"jax.{source}".strip("."))
            if _shows(module, name):
                return getattr(module, name)
        if name in EVERYWHERE:
            return resolve(EVERYWHERE[name])
        further = resolve(FAMILIES[below])(name) if below in FAMILIES else _own(below, name)
        if further is not None:
            return further
    asked_in_vain[f"{_ROOT}.{full}"] = f"{_ROOT}.{full}"
    raise AttributeError(
        f"`{_ROOT}.{full}` is private to jax; pellucid, which stands in for jax here, has no equivalent.\n"
        f"  {REFUSED.get(full) or REFUSED.get(below) or _advice(name)}"
    )


def _own(below: str, name: str) -> Any:
    """The definition that pickles request from a module of pellucid by the name of a private one; None if there is
    none.
    """
    for package in (MACHINE, "pellucid"):
        try:
            module = importlib.import_module(f"{package}.{below}")
        except ModuleNotFoundError:
            continue
        value = vars(module).get(name)
        if getattr(value, "__module__", None) == f"{_ROOT}.{below}":
            return value
    return None


def _shows(module: ModuleType, name: str) -> bool:
    """Whether a public module has `name`, which may be loaded on access only."""
    if name not in dir(module) and name not in getattr(module, "__all__", ()):
        return False
    return not isinstance(getattr(module, name), ModuleType) or name in PUBLIC


def _advice(name: str) -> str:
    """Advice where to find a public object of that name."""
    for public in sorted(PUBLIC):
        module = sys.modules.get(f"jax.{public}".strip("."))
        if module is not None and _shows(module, name):
            return f"Use `{module.__name__}.{name}`."
    return "Use public names; docs/libraries.md says which private ones are served."

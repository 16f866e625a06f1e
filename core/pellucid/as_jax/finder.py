"""The import hook that answers for `jax` and its submodules, and for the installed version of `jax`."""

from __future__ import annotations

import importlib
import importlib.machinery
import importlib.metadata
import importlib.util
import sys
from collections.abc import Iterator
from types import ModuleType
from typing import Any

from pellucid.version import reference_version
from pellucid.xla.bootstrap import SharedProcessError

_ADAPTERS = "pellucid.as_jax.modules"
_BELOW_PUBLIC = "pellucid.as_jax.public"
"""Adapters below packages that are pellucid's own; its folders are no packages."""

_asked_in_vain: dict[str, str] = {}
"""Names below `jax`, with what they would be called here."""


class _Recorded(ModuleType):
    """Class of modules that are served as the reference's: records the attributes that they lack."""

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("__"):
            _asked_in_vain[f"{_as_jax(self.__name__)}.{name}"] = f"{self.__name__}.{name}"
        raise AttributeError(f"module {_as_jax(self.__name__)!r} has no attribute {name!r}")


def _as_jax(name: str) -> str:
    for package in (_ADAPTERS, _BELOW_PUBLIC, "pellucid"):
        if name == package or name.startswith(f"{package}."):
            return f"jax{name.removeprefix(package)}"
    return name


class _Served:
    """Loader of a module that exists under another name: it is the same object under both."""

    def __init__(self, module: ModuleType) -> None:
        self.module = module
        self.spec = module.__spec__

    def create_module(self, spec: Any) -> ModuleType:
        return self.module

    def exec_module(self, module: ModuleType) -> None:
        module.__spec__ = self.spec  # which the import system replaced


class _Distribution(importlib.metadata.Distribution):
    """The installed distribution `jax`, as far as its version goes."""

    def read_text(self, filename: str) -> str | None:
        if filename != "METADATA":
            return None
        return f"Metadata-Version: 2.1\nName: jax\nVersion: {reference_version}\n"

    def locate_file(self, path: Any) -> Any:
        raise FileNotFoundError(f"jax is answered by pellucid, and has no file {path}")


class Finder:
    """Answers `import jax` and all below it: an adapter where there is one, else pellucid's module of that name."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        top, _, rest = name.partition(".")
        if top == "pellucid":  # as `from jax.extend import …` asks, whose modules keep their names
            adapter = f"{_BELOW_PUBLIC}.{rest}"
            is_ours = rest.startswith("as_jax") or not _exists(adapter)
            return None if is_ours else _spec(name, adapter)
        if top != "jax":
            return None
        names = [f"{_ADAPTERS}.{rest}"] if rest else [_ADAPTERS]
        if rest and rest.split(".")[0] not in ("_src", "as_jax"):
            names += [f"{_BELOW_PUBLIC}.{rest}", f"pellucid.{rest}"]
        for candidate in names:
            if _exists(candidate):
                return _spec(name, candidate)
        _asked_in_vain[name] = name
        raise ModuleNotFoundError(f"No module named {name!r} in pellucid", name=name)

    def find_distributions(self, context: Any = None) -> Iterator[importlib.metadata.Distribution]:
        """The distribution `jax`, if that is what is asked for."""
        if context is not None and context.name == "jax":
            yield _Distribution()

    def invalidate_caches(self) -> None:
        """Forget nothing: modules are found anew each time."""


def _spec(name: str, served: str) -> importlib.machinery.ModuleSpec:
    """The module `served` under the name `name`."""
    module = importlib.import_module(served)
    if type(module) is ModuleType:
        module.__class__ = _Recorded
    loader: Any = _Served(module)
    return importlib.machinery.ModuleSpec(name, loader, is_package=hasattr(module, "__path__"))


def _exists(name: str) -> bool:
    """Whether there is a module of that name; folders of adapters below a public package are none."""
    try:
        spec = importlib.util.find_spec(name)
    except ModuleNotFoundError:  # a parent is missing, or is no package
        return False
    return spec is not None and spec.has_location


_finder = Finder()


def install() -> None:
    """Answer `import jax` by pellucid in this process from now on; a second call changes nothing.

    An installed jax stays unused. Modules of pellucid are served themselves, so `jax.numpy is pellucid.numpy`.

    Raises: SharedProcessError if jax was imported before.

    >>> import subprocess, sys
    >>> program = "import pellucid.as_jax; pellucid.as_jax.install(); import jax; print(jax.__version__)"
    >>> subprocess.run([sys.executable, "-c", program], capture_output=True, text=True).stdout.strip()
    '0.10.2'
    """
    module = sys.modules.get("jax")
    if _finder in sys.meta_path:
        return
    if module is not None and getattr(module, "__pellucid__", None) is None:
        raise SharedProcessError(
            "pellucid can't answer for jax: the real one was already imported in this process.\n"
            "  Start a fresh interpreter (or notebook kernel) and call `pellucid.as_jax.install()` first."
        )
    for name in [n for n in sys.modules if n == "jax" or n.startswith("jax.")]:
        del sys.modules[name]
    sys.meta_path.insert(0, _finder)


def missing() -> list[str]:
    """Names below `jax` that were asked for and that pellucid doesn't have, in the order in which they were.

    Some are only asked whether they exist.

    >>> isinstance(missing(), list)
    True
    """
    # A submodule is asked for as an attribute before it is imported.
    return [name for name, here in _asked_in_vain.items() if here not in sys.modules]

"""The import hook that answers for `jax` and its submodules, and for the installed version of `jax`."""

from __future__ import annotations

import functools
import importlib
import importlib.machinery
import importlib.metadata
import importlib.util
import os
import sys
from collections.abc import Iterator
from typing import Any

from pellucid._machine.xla.bootstrap import SharedProcessError
from pellucid.as_jax import deferred, kernels, pickles, private, versions
from pellucid.as_jax.identity import ADAPTERS, BELOW_PUBLIC, MACHINE
from pellucid.as_jax.served_modules import (
    RelabellingLoader,
    identify_modules,
    serve,
    show,
)

_LOADED_WITH_JAX = [
    "dtypes",
    "lax",
    "numpy",
    "nn",
    "random",
    "tree",
    "tree_util",
    "sharding",
    "errors",
    "core",
    "api_util",
    "custom_batching",
    "custom_derivatives",
    "debug",
    "distributed",
    "dlpack",
    "experimental",
    "experimental.compilation_cache.compilation_cache",
    "export",
    "ffi",
    "image",
    "interpreters.ad",
    "interpreters.batching",
    "interpreters.mlir",
    "interpreters.partial_eval",
    "interpreters.pxla",
    "interpreters.xla",
    "lax.linalg",
    "lib",
    "memory",
    "monitoring",
    "nn.initializers",
    "numpy.fft",
    "numpy.linalg",
    "ops",
    "profiler",
    "ref",
    "scipy",
    "stages",
    "typing",
    "version",
]
"""Modules that `import jax` loads, as that of the reference does. Of tools, those that are installed, whose code runs when it is used."""


def _load_with_jax() -> None:
    for tool in importlib.metadata.entry_points(group="pellucid.tools"):
        if tool.name in _LOADED_WITH_JAX:
            name = f"jax.{tool.name}"
            deferred.defer(tool.module, functools.partial(show, name=name))
    for name in _LOADED_WITH_JAX:
        try:
            importlib.import_module(f"jax.{name}")
        except ModuleNotFoundError:  # a tool that isn't installed
            if _exists(f"pellucid.{name}"):
                raise


class _Distribution(importlib.metadata.Distribution):
    """The installed distribution `jax`, of which only the version is known."""

    def read_text(self, filename: str) -> str | None:
        if filename != "METADATA":
            return None
        return f"Metadata-Version: 2.1\nName: jax\nVersion: {versions.reported_version()}\n"

    def locate_file(self, path: Any) -> Any:
        raise FileNotFoundError(f"jax is answered by pellucid, and has no file {path}")


class Finder:
    """Finder for `import jax` and its submodules: returns an adapter if there is one, else pellucid's module of that
    name.

    Modules of pellucid are found as usual, and say from then on that they are of `jax`.
    """

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        top, _, rest = name.partition(".")
        if top == "pellucid":
            return _relabelling(name, path, target)
        if top != "jax":
            return None
        if rest.split(".")[0] == "_src":
            spec = private.spec_of(name)
            below = rest.removeprefix("_src.")
            candidates = [f"{MACHINE}.{below}", f"pellucid.{below}"] if spec is None else []
        else:
            spec = kernels.spec_of(name)
            candidates = [f"{ADAPTERS}.{rest}" if rest else ADAPTERS] if spec is None else []
            if candidates and rest and not rest.startswith("as_jax"):
                candidates += [f"{BELOW_PUBLIC}.{rest}", f"pellucid.{rest}"]
        for candidate in candidates:
            if _exists(candidate):
                return serve(name, candidate, _load_with_jax if name == "jax" else None)
        if spec is None:
            private.asked_in_vain[name] = name
            private.refuse(name)
        return spec

    def find_distributions(self, context: Any = None) -> Iterator[importlib.metadata.Distribution]:
        """Yields the distribution `jax` if that is requested."""
        if context is not None and context.name == "jax":
            yield _Distribution()

    def invalidate_caches(self) -> None:
        """Does nothing: each spec is computed again."""


def _relabelling(name: str, path: Any, target: Any) -> Any:
    """The spec of a module of pellucid from the other finders, with a loader that relabels the module's definitions."""
    adapter = f"{BELOW_PUBLIC}{name.removeprefix('pellucid')}"
    if not name.startswith("pellucid.as_jax") and _exists(adapter):
        return serve(name, adapter)  # a part of the reference's module of this name
    for finder in sys.meta_path:
        spec = None if finder is _finder else finder.find_spec(name, path, target)
        if spec is not None:
            loader = spec.loader
            if type(loader) is importlib.machinery.SourceFileLoader:
                spec.loader = RelabellingLoader(loader.name, loader.path)
            return spec
    return None


def _exists(name: str) -> bool:
    """Whether there is a module of that name; folders of adapters below a public package are none."""
    try:
        spec = importlib.util.find_spec(name)
    except ModuleNotFoundError:  # a parent is missing, or is no package
        return False
    return spec is not None and (spec.has_location or hasattr(spec.loader, "tool"))


_finder = Finder()


def install(version: str | None = None) -> None:
    """Answer `import jax` by pellucid in this process from now on; a second call changes the version at most.

    Processes that this one starts do the same: the environment's PELLUCID_AS_JAX is 1 from then on. An installed jax stays
    unused. Modules of pellucid are served themselves, so `jax.numpy is pellucid.numpy`; they, their
    functions and classes say that they are of `jax`. `version` is what `jax.__version__` and the installed
    version are, by default what the environment's PELLUCID_AS_JAX_VERSION says, else the installed jaxlib's.

    Raises: SharedProcessError if jax was imported before; ArgumentValueError for a version that pellucid doesn't support.

    >>> import subprocess, sys
    >>> program = "import pellucid.as_jax; pellucid.as_jax.install('0.10.2'); import jax; print(jax.__version__)"
    >>> subprocess.run([sys.executable, "-c", program], capture_output=True, text=True).stdout.strip()
    '0.10.2'
    """
    version = version or os.environ.get("PELLUCID_AS_JAX_VERSION") or None
    if version is not None:
        versions.answer(version)
    if _finder not in sys.meta_path:
        _answer()
    # Read by `pellucid_start` in the processes that this one starts.
    os.environ["PELLUCID_AS_JAX"] = "1"
    if version is not None:
        os.environ["PELLUCID_AS_JAX_VERSION"] = version


def _answer() -> None:
    module = sys.modules.get("jax")
    if module is not None and getattr(module, "__pellucid__", None) is None:
        raise SharedProcessError(
            "pellucid can't answer for jax: the real one was already imported in this process.\n"
            "  Start a fresh interpreter (or notebook kernel) and call `pellucid.as_jax.install()` first."
        )
    for name in [n for n in sys.modules if n == "jax" or n.startswith("jax.")]:
        del sys.modules[name]
    sys.meta_path[:] = [f for f in sys.meta_path if not hasattr(f, "answers_for_jax_later")]
    sys.meta_path.insert(0, _finder)
    identify_modules()
    pickles.use_names_of_reference()


def missing() -> list[str]:
    """Names below `jax` that were requested and that pellucid doesn't have, in the order of the requests.

    Some are only asked whether they exist.

    >>> isinstance(missing(), list)
    True
    """
    # A submodule is requested as an attribute before it is imported.
    return [name for name, here in private.asked_in_vain.items() if here not in sys.modules]

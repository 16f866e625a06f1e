"""Modules of hand-written kernels, `jax.experimental.pallas` and those below it: their names are imported, and refuse use.

Libraries import kernels where they define them, and choose them for some devices only: what calls none runs.
"""

from __future__ import annotations

import importlib.machinery
from types import ModuleType
from typing import Any, NoReturn

from pellucid._machine.base.errors import UnsupportedError
from pellucid.as_jax.kernel_names import NAMES
from pellucid.as_jax.own import ceil_of_ratio

_PACKAGE = "jax.experimental"
_PACKAGES = {name.rpartition(".")[0] for name in NAMES}
_OWN = {"pallas.cdiv": ceil_of_ratio}
"""Names that are of use outside of kernels."""


class KernelError(UnsupportedError, AttributeError):
    """Hand-written kernels, which pellucid doesn't have."""


class _Refusing(type):
    """Class of what stands for a function or class of the reference: calls and attributes of it raise KernelError."""

    def __call__(cls, *args: Any, **kwargs: Any) -> NoReturn:
        raise cls._error("call")

    def __getattr__(cls, name: str) -> NoReturn:
        if name.startswith("__"):
            raise AttributeError(name)
        raise cls._error(f"attribute {name!r}")

    def _error(cls, use: str) -> KernelError:
        return KernelError(
            f"`{cls.__module__}.{cls.__name__}`: pellucid has no hand-written kernels.",
            got=use,
            do="Write the computation with jax.numpy and jax.lax, or leave the choice of a kernel to `jax.nn`.",
        )


def refusing(module: str, name: str) -> type:
    """What stands for `name` of a module of kernels.

    >>> refusing("jax.experimental.pallas", "pallas_call")(print)
    Traceback (most recent call last):
        ...
    pellucid.as_jax.kernels.KernelError: `jax.experimental.pallas.pallas_call`: pellucid has no hand-written kernels.
    ...
    """
    doc = "A name of the reference that pellucid has no meaning for."
    return _Refusing(name, (), {"__module__": module, "__doc__": doc})


class _Loader:
    """Makes a module of kernels."""

    def create_module(self, spec: Any) -> ModuleType:
        return ModuleType(spec.name, "Names of kernels, which refuse use.")

    def exec_module(self, module: ModuleType) -> None:
        below = module.__name__.removeprefix(f"{_PACKAGE}.")
        for name in NAMES[below]:
            own = _OWN.get(f"{below}.{name}")
            vars(module)[name] = refusing(module.__name__, name) if own is None else own

    def get_code(self, name: str) -> None:
        """None: `python -m` finds nothing to run."""


def spec_of(name: str) -> importlib.machinery.ModuleSpec | None:
    """The spec of a module of kernels; None for other names."""
    below = name.removeprefix(f"{_PACKAGE}.")
    if below not in NAMES or below == name:
        return None
    loader: Any = _Loader()
    return importlib.machinery.ModuleSpec(name, loader, is_package=below in _PACKAGES)

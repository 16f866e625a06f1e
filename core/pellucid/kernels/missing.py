"""Placeholders for functions and classes of hand-written kernels that pellucid lacks: importable, but using them
raises.
"""

from __future__ import annotations

from typing import Any, NoReturn

from pellucid._machine.base.errors import UnsupportedError


class KernelError(UnsupportedError, AttributeError):
    """A part of hand-written kernels that pellucid doesn't have."""


class _Refusing(type):
    """Class of placeholders for functions and classes of the reference: calls and attributes of them raise KernelError."""

    _do: str

    def __call__(cls, *args: Any, **kwargs: Any) -> NoReturn:
        raise cls._error("call")

    def __getattr__(cls, name: str) -> NoReturn:
        if name.startswith("__"):
            raise AttributeError(name)
        raise cls._error(f"attribute {name!r}")

    def _error(cls, use: str) -> KernelError:
        return KernelError(
            f"`{cls.__module__}.{cls.__name__}`: pellucid has no such part of hand-written kernels.",
            got=use,
            do=cls._do,
        )


_DO = "docs/kernels.md says what kernels may use; else write the computation with the functions of `numpy`."


def refusing(module: str, name: str, do: str = _DO) -> type:
    """The placeholder for `name` of a module of kernels; `do` is what its errors advise.

    >>> refusing("pellucid.experimental.pallas", "ops")(print)
    Traceback (most recent call last):
        ...
    pellucid.kernels.missing.KernelError: `pellucid.experimental.pallas.ops`: pellucid has no such part of hand-written kernels.
    ...
    """
    doc = "A name of the reference that pellucid has no meaning for."
    return _Refusing(name, (), {"__module__": module, "__doc__": doc, "_do": do})

"""Facts about the namespace that the array API standard requires: which version it is, and its dtypes, devices and capabilities.

Source: Python array API standard 2024.12, "Inspection API".
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from pellucid._machine.base import ArgumentValueError, dtypes
from pellucid._machine.runtime import platforms

from .annotations import DeviceLike

__array_api_version__ = "2024.12"

_STANDARD = frozenset(
    ("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
     "float32", "float64", "complex64", "complex128")
)  # fmt: skip


def namespace_for(api_version: str | None) -> Any:
    """`pellucid.numpy`; raises ArgumentValueError for a version of the standard that it does not follow."""
    if api_version not in (None, __array_api_version__):
        raise ArgumentValueError(
            "arrays follow one version of the array API standard.",
            got=f"api_version: {api_version!r}",
            do=f"Ask for {__array_api_version__!r}, or for none.",
        )
    return sys.modules["pellucid.numpy"]


class ArrayNamespaceInfo:
    """Dtypes, devices and capabilities of `pellucid.numpy`.

    >>> __array_namespace_info__().capabilities()["boolean indexing"]
    False
    """

    def capabilities(self) -> dict[str, Any]:
        """Capabilities that don't depend on dtype and device; False for those that traced programs lack."""
        return {"boolean indexing": False, "data-dependent shapes": False, "max dimensions": 64}

    def default_device(self) -> None:
        """None: arrays without a stated placement go where they are used."""
        return

    def devices(self) -> list[Any]:
        """Every device, and None for arrays without a stated placement."""
        return [None, *platforms.devices()]

    def default_dtypes(self, *, device: DeviceLike = None) -> dict[str, Any]:
        """Default dtypes by kind, for numbers without a stated dtype; the same on every `device`."""
        del device
        integer = dtypes.default_int_dtype()
        return {
            "real floating": dtypes.default_float_dtype(),
            "complex floating": dtypes.default_complex_dtype(),
            "integral": integer,
            "indexing": integer,
        }

    def dtypes(
        self, *, device: DeviceLike = None, kind: str | Sequence[str] | None = None
    ) -> dict[str, Any]:
        """The dtypes of the standard by their names, all or those of one or several kinds.

        Raises: ArgumentValueError for a kind that the standard doesn't have.
        """
        del device
        kinds = ("bool", "numeric") if kind is None else (kind,) if isinstance(kind, str) else kind
        unknown = [k for k in kinds if k not in dtypes.KINDS]
        if unknown:
            raise ArgumentValueError(
                "the array API standard has no such kind of dtypes.",
                got=f"kind: {', '.join(unknown)}",
                do=f"Use one of {', '.join(dtypes.KINDS)}.",
            )
        by_name = {dtype.name: dtype for k in kinds for dtype in dtypes.KINDS[k]}
        return {
            name: dtype
            for name, dtype in sorted(by_name.items())
            if name in _STANDARD and dtypes.canonicalize(dtype) == dtype
        }


def __array_namespace_info__() -> ArrayNamespaceInfo:
    """Facts about this namespace, as the array API standard requires."""
    return ArrayNamespaceInfo()

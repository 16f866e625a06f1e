"""Parsers of array shapes in the texts of HLO and MLIR."""

from __future__ import annotations

import math
import re
from typing import NamedTuple

from pellucid._machine.base import cached


class Shape(NamedTuple):
    """Dimensions of an array, and bits per element (0 if unknown)."""

    dims: tuple[int, ...]
    bits: float
    is_complex: bool = False

    @property
    def size(self) -> int:
        return math.prod(self.dims)

    @property
    def bytes(self) -> float:
        return math.ceil(self.size * self.bits / 8)


def bits_of(dtype: str) -> int | None:
    """Bits per element, from the name of the dtype: the first number in it."""
    complex_part = re.match(r"complex<(.*)>", dtype)
    if complex_part:
        bits = bits_of(complex_part.group(1))
        return None if bits is None else 2 * bits
    if dtype == "pred":
        return 8
    digits = re.search(r"\d+", dtype)
    if digits is None:
        return None
    return 8 if dtype == "i1" else int(digits.group())


_COMPLEX = ("c64", "c128")


@cached(4096)
def hlo_shapes(type_text: str) -> tuple[Shape, ...]:
    """The shapes of the arrays in an HLO type, several for a tuple.

    >>> hlo_shapes("(f32[2,3]{1,0}, pred[])")
    (Shape(dims=(2, 3), bits=32, is_complex=False), Shape(dims=(), bits=8, is_complex=False))
    """
    return tuple(
        [
            Shape(
                tuple([int(size) for size in dims.split(",") if size]),
                bits_of(dtype) or 0,
                dtype in _COMPLEX,
            )
            for dtype, dims in re.findall(r"(\w+)\[([\d,]*)\]", type_text)
        ]
    )


_TENSOR = re.compile(r"^tensor<((?:[\d?]+x)*)(.+?)(?:, .*)?>$")


def tensor_type(text: str) -> tuple[list[int] | None, str, int | None]:
    """(dimensions, dtype, bits per element) of an MLIR type; the dimensions are None unless it is a static array."""
    match = _TENSOR.match(text)
    if match is None or "?" in match.group(1):
        return None, "", None
    dims = [int(d) for d in match.group(1).split("x")[:-1]]
    return dims, match.group(2), bits_of(match.group(2))

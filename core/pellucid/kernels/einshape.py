"""Arrays in another shape and order, by names of their dimensions."""

from __future__ import annotations

import math
import re
from typing import Any

from pellucid._machine.base import ArgumentValueError, ShapeError, UnsupportedError
from pellucid._machine.tracing import type_of
from pellucid.numpy import reshape, transpose

_TILE = (8, 128)


def einshape(equation: str, x: Any, assert_is_tile_preserving: bool = False, **sizes: int) -> Any:
    """`x` with its dimensions split, ordered and joined as an equation says: "ab(cd)->cabd".

    Letters name dimensions; in parentheses, those that one dimension is made of, the last one fastest. Of these one may be left to be found;
    `sizes` has the others. With `assert_is_tile_preserving` the last two dimensions must stay as they are, or be split and joined in whole
    tiles of 8 x 128. Raises: ArgumentValueError for an equation that says something else, ShapeError for sizes that don't fit.

    >>> einshape("a(bc)->bac", np.arange(12).reshape(2, 6), c=3).shape
    (2, 2, 3)
    """
    sides = [_side(equation, text) for text in equation.replace(" ", "").split("->")]
    if len(sides) != 2 or sorted(_names(sides[0])) != sorted(_names(sides[1])):
        raise ArgumentValueError("einshape: both sides of an equation name the same dimensions.", got=equation)  # fmt: skip
    before, behind = sides
    shape = type_of(x).shape
    if len(before) != len(shape):
        raise ShapeError(f"einshape: {equation} names {len(before)} dimensions.", got=type_of(x).text())  # fmt: skip
    known = dict(sizes)
    for group, size in zip(before, shape, strict=True):
        unknown = [name for name in group if name not in known]
        rest = math.prod(known[name] for name in group if name in known)
        if len(unknown) > 1:
            raise ArgumentValueError(
                f"einshape: the sizes of {', '.join(unknown)} must be given, but for one.",
                got=f"{equation}, {type_of(x).text()}",
            )
        if unknown and rest and size % rest == 0:
            known[unknown[0]] = size // rest
        if math.prod(known.get(name, 0) for name in group) != size:
            raise ShapeError(
                f"einshape: a dimension of size {size} isn't ({''.join(group)}).",
                got=f"{equation}, {type_of(x).text()}, {sizes}",
            )
    if assert_is_tile_preserving and not _keeps_tiles(before, behind, known):
        raise UnsupportedError(
            "einshape: it moves parts of tiles of 8 x 128 elements.", got=f"{equation}, {type_of(x).text()}"
        )  # fmt: skip
    names = _names(before)
    split = reshape(x, tuple(known[name] for name in names))
    ordered = transpose(split, tuple(names.index(name) for name in _names(behind)))
    return reshape(ordered, tuple(math.prod(known[name] for name in group) for group in behind))


def _side(equation: str, text: str) -> list[list[str]]:
    """The names that each dimension is made of."""
    if not re.fullmatch(r"([a-zA-Z]|\([a-zA-Z]*\))*", text):
        raise ArgumentValueError(
            'einshape takes an equation such as "ab(cd)->cabd".', got=f"{equation!r}"
        )
    groups = [[*part.strip("()")] for part in re.findall(r"[a-zA-Z]|\([a-zA-Z]*\)", text)]
    names = _names(groups)
    if len(set(names)) < len(names):
        raise ArgumentValueError("einshape: a name stands for one dimension.", got=equation)
    return groups


def _names(groups: list[list[str]]) -> list[str]:
    return [name for group in groups for name in group]


def _keeps_tiles(
    before: list[list[str]], behind: list[list[str]], sizes: dict[str, int]
) -> bool:  # fmt: skip
    """Whether the fastest parts of the last two dimensions stay there, and are whole tiles where something else is beside them."""
    for i, whole in ((1, _TILE[1]), (2, _TILE[0])):
        if min(len(before), len(behind)) < i:
            return before == behind
        old, new = ([name for name in side[-i] if sizes[name] != 1] for side in (before, behind))
        if old == new:
            continue
        fastest = next((name for name in reversed(old) if name in new), None)
        if fastest is None or new[-1] != fastest or old[-1] != fastest or sizes[fastest] % whole:
            return False
    return True

"""Operations of kernels that devices know by name: composites, whose decomposition is what they are everywhere else."""

from __future__ import annotations

from typing import Any

from pellucid._machine.base import Function
from pellucid._machine.higher_order.composite import composite

from .grid import current_position

MULTIPLE_OF = "pellucid.multiple_of"
ROLL, BITCAST, PACK, UNPACK = [
    f"pellucid.tpu_{name}" for name in ("roll", "bitcast", "pack", "unpack")
]
LAYOUT_CAST = "pellucid.layout_cast"


def named(name: str, definition: Function, *operands: Any, **attributes: Any) -> Any:
    """`definition(*operands)`, which in a kernel is an operation of this name with `attributes`, None left out."""
    if current_position() is None:
        return definition(*operands)
    given = {key: x for key, x in attributes.items() if x is not None}
    return composite(lambda *args, **_: definition(*args), name)(*operands, **given)


def attributes_of(params: Any) -> dict[str, Any]:
    """The attributes of a composite, by name."""
    return {name: tree.unflatten(list(leaves)) for name, leaves, tree in params.attributes}

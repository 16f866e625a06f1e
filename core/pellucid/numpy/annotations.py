"""Types of the arguments that many functions of this folder take: axes, shapes, placements."""

from __future__ import annotations

from typing import TypeAlias

from pellucid._machine.base import Ints
from pellucid._machine.sharding import PartitionSpec, Sharding
from pellucid._machine.xla.shardings import Device

Axis: TypeAlias = int | Ints | None
"""One dimension or several, counted from the front or, if negative, from the end; None for all of them."""
ShapeLike: TypeAlias = int | Ints
"""A shape: the size of each dimension, or one int for a vector."""
DeviceLike: TypeAlias = Device | Sharding | PartitionSpec | None
"""Where a result is placed; None leaves that to the operands and to the compiler."""
OutSharding: TypeAlias = Sharding | PartitionSpec | None
"""How a result is laid out over a mesh's axes; None leaves that to the operands and to the compiler."""

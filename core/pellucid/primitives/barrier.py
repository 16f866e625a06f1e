"""A barrier that the compiler may not move computations across."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pellucid.base import tree
from pellucid.ir.avals import ShapedArray
from pellucid.ir.primitive import Primitive
from pellucid.ir.rules import BatchAxis, BatchDim, Zero, is_linear
from pellucid.tracing.trace import bind


"""Values that change places along named axes: permutations, broadcasts, transpositions with an array's own axis."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from pellucid.base.errors import CollectiveError
from pellucid.base.tree import tree_map
from pellucid.ir.avals import ShapedArray, shaped_array
from pellucid.ir.primitive import Primitive
from pellucid.ir.rules import BatchAxis, BatchDim
from pellucid.lowering.collectives import Groups, device_groups, group_attributes
from pellucid.parallel.axes import (
    AxisNames,
    axis_index,
    checked_groups,
    listed_axes,
    size_along,
)
from pellucid.parallel.gathering import all_gather_p, GatherAxesParams, folded, split
from pellucid.parallel.reductions import psum
from pellucid.primitives.broadcasting import broadcast, expand_dims
from pellucid.primitives.creation import full_like
from pellucid.primitives.gather import take
from pellucid.primitives.logical import eq, select
from pellucid.primitives.movement import Movement, canonical_axis, move_axis, squeeze
from pellucid.primitives.varying import refuse_groups, vary
from pellucid.tracing.context import context
from pellucid.tracing.trace import bind, bind1
from pellucid.tracing.values import type_of

Pairs = tuple[tuple[int, int], ...]

"""First-order primitives: their params hold no programs. What other rooms use is shown here."""

from .arithmetic import add, mul, neg
from .assembly import concatenate, slice, split, stack
from .conversion import bitcast_convert_type, convert_element_type, real, stop_gradient
from .creation import broadcasted_iota, empty, full, instantiate, iota, ones, zeros
from .families import INTEGER, REAL, add_tangents, constant_like, kind_of, zero_of
from .gather_scatter import gather, scatter, scatter_add
from .index_dims import GatherDimensionNumbers, GatherScatterMode, ScatterDimensionNumbers
from .logical import clamp, eq, lt, select_n
from .movement import (
    IdentityOfValues,
    aligned_at,
    broadcast,
    broadcast_in_dim,
    broadcast_shapes,
    broadcast_to,
    brought_to,
    canonical_axis,
    inferred_sizes,
    inverse_permutation,
    move_axis,
    reduce_sum,
    reshape,
    rev,
    transpose,
)
from .placement import ReshardParams, device_put, reshard_p
from .reduction import prefixes, reduce_or
from .slicing import Slice, dynamic_slice, dynamic_update_slice, index_in_dim, slice_in_dim, wrapped
from .staging import stage
from .varying import marks_of, pvary_p, recast, vary

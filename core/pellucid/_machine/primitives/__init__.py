"""First-order primitives: their params contain no programs. Lists the names that other rooms import."""

from .arithmetic import add, div, mul, neg, sub
from .assembly import concatenate, pad, slice, split, stack
from .conversion import bitcast_convert_type, convert_element_type, real, stop_gradient
from .creation import (
    broadcasted_iota,
    empty,
    full,
    full_like,
    full_of_type,
    instantiate,
    iota,
    layout_of,
    ones,
    zeros,
)
from .cumulative import prefixes
from .dslice import Slice
from .families import INTEGER, REAL, add_tangents, constant_like, full_as, kind_of, zero_of
from .gather import gather
from .index_dims import (
    GatherDimensionNumbers,
    GatherScatterMode,
    ScatterDimensionNumbers,
    with_int_fields,
)
from .logical import (
    bitwise_and,
    bitwise_not,
    bitwise_or,
    clamp,
    eq,
    ge,
    gt,
    lt,
    ne,
    select,
    select_n,
)
from .monoids import MONOIDS, monoid_of, reduce_through_integers
from .movement import (
    IdentityOfValues,
    Movement,
    aligned_at,
    broadcast,
    broadcast_in_dim,
    broadcast_shapes,
    broadcast_to,
    brought_to,
    canonical_axis,
    expand_dims,
    inferred_sizes,
    inverse_permutation,
    move_axis,
    reduce_sum,
    reduced_shape,
    reshape,
    rev,
    squeeze,
    transpose,
    with_batch_dim,
)
from .placement import device_put
from .reduction import (
    reduce_and,
    reduce_by_halves,
    reduce_max,
    reduce_min,
    reduce_or,
    reduce_prod,
    reduce_xor,
)
from .reshard import ReshardParams, reshard_p
from .scatter import scatter, scatter_add
from .slicing import (
    dynamic_index_in_dim,
    dynamic_slice,
    dynamic_slice_in_dim,
    dynamic_update_slice,
    index_in_dim,
    index_take,
    slice_in_dim,
    wrap_negative,
)
from .staging import stage
from .varying import (
    CollectiveParams,
    Marks,
    marks_of,
    pvary_p,
    recast,
    sum_along,
    unify_axes,
    vary,
    with_marks,
)

"""Operations under the names of `jax.lax`: primitives, their functions, control flow."""

from types import ModuleType as _Module

from pellucid.higher_order.branching import (
    cond as cond,
    platform_dependent as platform_dependent,
    switch as switch,
)
from pellucid.higher_order.composite import *
from pellucid.higher_order.cond import cond_p as cond_p
from pellucid.higher_order.linear_calls import (
    custom_linear_solve as custom_linear_solve,
    custom_root as custom_root,
    linear_solve_p as linear_solve_p,
)
from pellucid.higher_order.loops import (
    associative_scan as associative_scan,
    fori_loop as fori_loop,
    map as map,
    scan as scan,
    while_loop as while_loop,
)
from pellucid.higher_order.reduce import (
    reduce as reduce,
    reduce_p as reduce_p,
    reduce_window as reduce_window,
    reduce_window_p as reduce_window_p,
)
from pellucid.higher_order.scan import scan_p as scan_p
from pellucid.higher_order.scatter_apply import *
from pellucid.higher_order.while_loop import while_p as while_p
from pellucid.lax import linalg as linalg
from pellucid.parallel.axes import (
    axis_index as axis_index,
    axis_index_p as axis_index_p,
    axis_size as axis_size,
    pcast as pcast,
)
from pellucid.parallel.exchange import (
    all_to_all as all_to_all,
    all_to_all_p as all_to_all_p,
    pbroadcast as pbroadcast,
    ppermute as ppermute,
    ppermute_p as ppermute_p,
    pshuffle as pshuffle,
    pswapaxes as pswapaxes,
    ragged_all_to_all as ragged_all_to_all,
    ragged_all_to_all_p as ragged_all_to_all_p,
)
from pellucid.parallel.gathering import (
    all_gather as all_gather,
    all_gather_p as all_gather_p,
    psum_scatter as psum_scatter,
)
from pellucid.parallel.point_to_point import *
from pellucid.parallel.reductions import (
    pmax as pmax,
    pmax_p as pmax_p,
    pmean as pmean,
    pmin as pmin,
    pmin_p as pmin_p,
    psum as psum,
    psum_p as psum_p,
)
from pellucid.primitives.accuracy import *
from pellucid.primitives.arithmetic import *
from pellucid.primitives.broadcasting import *
from pellucid.primitives.complex_parts import *
from pellucid.primitives.concatenation import *
from pellucid.primitives.contraction import *
from pellucid.primitives.conversion import *
from pellucid.primitives.convolution import *
from pellucid.primitives.creation import *
from pellucid.primitives.cumulative import *
from pellucid.primitives.fourier import *
from pellucid.primitives.gamma import *
from pellucid.primitives.gather import *
from pellucid.primitives.index_dims import (
    GatherDimensionNumbers as GatherDimensionNumbers,
    GatherScatterMode as GatherScatterMode,
    ScatterDimensionNumbers as ScatterDimensionNumbers,
)
from pellucid.primitives.logical import *
from pellucid.primitives.movement import (
    reshape as reshape,
    reshape_p as reshape_p,
    rev as rev,
    rev_p as rev_p,
    transpose as transpose,
    transpose_p as transpose_p,
)
from pellucid.primitives.padding import *
from pellucid.primitives.placement import *
from pellucid.primitives.precision import *
from pellucid.primitives.ragged import *
from pellucid.primitives.random_bits import *
from pellucid.primitives.reduction import *
from pellucid.primitives.scaled import *
from pellucid.primitives.scatter import *
from pellucid.primitives.sharding_constraint import *
from pellucid.primitives.slicing import *
from pellucid.primitives.sorting import *
from pellucid.primitives.special import *
from pellucid.primitives.staging import *
from pellucid.primitives.transcendental import *
from pellucid.primitives.window_shapes import *
from pellucid.primitives.windows import *

_DENIED = """
AccuracyParams ArrayCopySemantics accuracy_attributes accuracy_params aligned_for_batch and_
broadcast_to brought_to canonical_precision checked_shape complex_dtype component_bits
composite_p converted copy device_put empty_p is_float8
no_derivative nonzero not_ or_ plan_algorithm precision_attribute precv_p preferred_dtype
product_dtype psend_p ragged_dot_general_p random_gamma_grad_p real_dtype reduce_window_by
reduced_shape scaled_dot_p unbroadcast with_accuracy xor
"""
"""Names that other modules of the core share, and others under which the reference has something else."""

for _name in _DENIED.split():
    del globals()[_name]

__all__ = [  # pyright: ignore[reportUnsupportedDunderAll]
    name for name, value in globals().items() if name[0] != "_" and not isinstance(value, _Module)
]

"""Transformations of programs: differentiation and vectorization."""

# Imported for other folders.
# pyright: reportUnusedImport=false

from .arguments import (
    argument_paths,
    check_callable,
    checked_leaves,
    describe_value,
    flat_arguments,
    result_leaves,
    structure_lines,
    type_of_attributes,
    with_aux,
    wraps,
)
from .derived import D, Derived, cache_on_program, stage_open, without_names
from .jvp import concrete_value, jvp_flat, jvp_jaxpr
from .linearize import LinearizedJaxpr, Source, linearize_flat, linearize_jaxpr
from .liveness import (
    DEAD,
    LIVE,
    ZERO,
    Elements,
    Liveness,
    array_of,
    is_cotangent,
    is_dead,
    known_array,
    zero_dead,
)
from .mask_rules import is_maskable, unknown
from .masks import (
    ARRAY,
    Fixed,
    Kind,
    as_mask,
    by_program,
    kind_of_live,
    live_of_kind,
    lives_of,
    masked_jaxpr,
    masked_pass,
)
from .recomputation import WORTH_AN_EQUATION, Worth
from .transpose import backward_pass, transpose_jaxpr
from .vmap import batch_flat, batch_jaxpr, batch_size, batched_aval, input_dims
from .zeros import cotangents_of, linear_parts, nonzero, nonzero_mask, split_tangents, spread

"""The intermediate representation: avals, primitives and jaxprs, with printer, type checker and rewriting."""

# Imported for other folders.
# pyright: reportUnusedImport=false

from .avals import (
    AbstractRef,
    AbstractToken,
    AbstractValue,
    Described,
    ShapedArray,
    abstract_ref,
    abstract_token,
    aval_at,
    element_shape,
    narrow_type,
    physical,
    shaped_array,
)
from .checking import check_jaxpr
from .effects import (
    Effect,
    Effects,
    GuardEffect,
    StateEffect,
    accum_effect,
    allocation_effect,
    debug_effect,
    guard_effect,
    io_effect,
    no_dce_effect,
    no_effects,
    ordered_debug_effect,
    ordered_io_effect,
    read_effect,
    write_effect,
)
from .facets import (
    Collective,
    Folds,
    LaidOut,
    Linearized,
    Masked,
    OnReferences,
    Placed,
    Runs,
    Shown,
    TransposedByUser,
    statement_of,
)
from .factors import (
    Words,
    alike,
    batched_factors,
    pointwise,
    regrouping,
    with_mark,
    without_dims,
    words,
)
from .jaxpr import (
    Atom,
    ClosedJaxpr,
    DebugInfo,
    DropVar,
    Equation,
    Jaxpr,
    Lineage,
    Literal,
    Var,
    axis_names,
    axis_names_of,
    next_id,
    programs_of,
    subjaxprs,
    uses_references,
    values_of,
)
from .primitive import (
    NO_PARAMS,
    HigherOrderPrimitive,
    NoParams,
    OneJaxprPrimitive,
    P,
    Primitive,
    called_program,
    derived_types,
    is_always_transformed,
    registry,
)
from .printing import Listing, listing, literal_text, param_text, printed_params
from .rewriting import (
    constants_as_inputs,
    drop_forwarded_results,
    forget_sources,
    inline_programs,
    rearrange_program,
    remove_dead_equations,
    with_programs,
    with_variables_as_inputs,
)
from .rules import (
    Avals,
    BatchAxis,
    BatchDim,
    Dims,
    LinearOperand,
    Mask,
    Operands,
    Results,
    Values,
    Zero,
    is_linear,
)
from .slots import (
    Role,
    Slot,
    SlotGroup,
    Slots,
    consecutive,
)
from .traits import (
    ARITHMETIC,
    CHEAP_ARITHMETIC,
    COLLECTIVE,
    CONTROL,
    HOST,
    INDEXING,
    MOVEMENT,
    TRANSCENDENTAL,
    CountRule,
    Linear,
    Traits,
    real_operations,
    size_of,
)

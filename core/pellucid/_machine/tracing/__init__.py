"""Tracing turns a Python call into a program: traces, tracers, staging, replay."""

# Imported for other folders.
# pyright: reportUnusedImport=false

from .array_methods import add_late_methods, late_attribute
from .captured import Captured, traced_values_in
from .current import (
    attribute_text,
    bottom,
    bound_axes,
    computes_known,
    context,
    keeps_calls,
    keeps_layers,
    named_scope,
    plumbing,
    unbound_axes,
    unchecked_axes,
    use_facts,
    use_lineage,
    use_no_facts,
    use_own_source,
    use_source,
    use_trace,
    use_transformation,
    xla_metadata,
)
from .discharge import (
    DischargedJaxpr,
    ReferenceCell,
    check_carry_is_values,
    check_distinct,
    check_results_are_values,
    discharge_program,
    inline_on_cells,
    is_reference,
    on_values,
    read_cells,
    without_references,
)
from .execution_plan import ExecutionPlan, execution_plan
from .function import (
    FunctionCall,
    FunctionSpec,
    code_of,
    compares_by_identity,
    indices,
    name_of,
    named_call,
    paths_of_results,
    resolve_arguments,
    result_paths,
    signature_of,
    source_of,
)
from .leaks import check_no_leaks
from .operand_texts import name_operands, operand_lines
from .operands import (
    as_array,
    as_operand,
    as_type,
    is_array_like,
    refuse_masked_array,
    type_of,
    type_of_numpy,
    types_of,
    value_of_literal,
    value_types,
    without_mask,
)
from .staging import (
    Draft,
    StagingTrace,
    StagingTracer,
    as_rule_operands,
    check_alive,
    note_scalar,
    replay,
    run_equations,
    stage,
    stage_with_constants,
    steps,
    values_of_constants,
)
from .trace import Trace, bind, bind1
from .tracer import Tracer, traced_lines

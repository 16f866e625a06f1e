"""Attention of sequences of several lengths, whose queries lie one after another, over keys in pages."""

from pellucid.experimental.pallas.ops.tpu.ragged_paged_attention.kernel import (
    dynamic_validate_inputs as dynamic_validate_inputs,
    ragged_paged_attention as ragged_paged_attention,
    ref_ragged_paged_attention as ref_ragged_paged_attention,
    static_validate_inputs as static_validate_inputs,
)

__all__ = [
    "dynamic_validate_inputs", "ragged_paged_attention", "ref_ragged_paged_attention", "static_validate_inputs",
]  # fmt: skip

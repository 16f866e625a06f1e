"""Attention of one query for each sequence over keys in pages."""

from pellucid.experimental.pallas.ops.tpu.paged_attention.paged_attention_kernel import (
    paged_attention as paged_attention,
)

__all__ = ["paged_attention"]

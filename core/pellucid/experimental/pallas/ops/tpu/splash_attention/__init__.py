"""Attention with masks that are known before a program runs; blocks that nobody sees are skipped."""

from .splash_attention_kernel import (
    BlockSizes as BlockSizes,
    QKVLayout as QKVLayout,
    SegmentIds as SegmentIds,
    make_masked_mha_reference as make_masked_mha_reference,
    make_masked_mqa_reference as make_masked_mqa_reference,
    make_splash_mha as make_splash_mha,
    make_splash_mha_single_device as make_splash_mha_single_device,
    make_splash_mqa as make_splash_mqa,
    make_splash_mqa_single_device as make_splash_mqa_single_device,
)
from .splash_attention_mask import (
    CausalMask as CausalMask,
    FullMask as FullMask,
    LocalMask as LocalMask,
    Mask as Mask,
    MultiHeadMask as MultiHeadMask,
    NumpyMask as NumpyMask,
    make_causal_mask as make_causal_mask,
    make_local_attention_mask as make_local_attention_mask,
    make_random_mask as make_random_mask,
)

__all__ = [
    "BlockSizes", "CausalMask", "FullMask", "LocalMask", "Mask", "MultiHeadMask", "NumpyMask", "QKVLayout", "SegmentIds",
    "make_causal_mask", "make_local_attention_mask", "make_masked_mha_reference", "make_masked_mqa_reference", "make_random_mask",
    "make_splash_mha", "make_splash_mha_single_device", "make_splash_mqa", "make_splash_mqa_single_device",
]  # fmt: skip

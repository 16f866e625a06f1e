"""What cuDNN has for NVIDIA GPUs, with plain forms for other platforms: attention in all its forms, and functions as one kernel."""

from pellucid.experimental.cudnn.attention import (
    AttentionLayout as AttentionLayout,
    FP8Params as FP8Params,
    MaskType as MaskType,
    check_compute_capability as check_compute_capability,
    check_cudnn_version as check_cudnn_version,
    check_is_flash_attention as check_is_flash_attention,
    check_layout as check_layout,
    dot_product_attention as dot_product_attention,
    paged_attention as paged_attention,
)
from pellucid.experimental.cudnn.fusion import (
    cudnn_fusion as cudnn_fusion,
    cudnn_fusion_p as cudnn_fusion_p,
)

__all__ = [
    "AttentionLayout", "FP8Params", "MaskType", "check_compute_capability", "check_cudnn_version", "check_is_flash_attention",
    "check_layout", "cudnn_fusion", "cudnn_fusion_p", "dot_product_attention", "paged_attention",
]  # fmt: skip

"""Native functions (C, C++, CUDA) in programs, by XLA's foreign function interface.

A library's handler is registered by name, and called by that name as part of a program.
"""

from pellucid.ffi.call import ffi_call
from pellucid.ffi.lowering import build_ffi_lowering_function, ffi_lowering
from pellucid.ffi.targets import (
    include_dir,
    pycapsule,
    register_ffi_target,
    register_ffi_target_as_batch_partitionable,
    register_ffi_type,
    register_ffi_type_id,
)

__all__ = [
    "build_ffi_lowering_function", "ffi_call", "ffi_lowering", "include_dir", "pycapsule", "register_ffi_target",
    "register_ffi_target_as_batch_partitionable", "register_ffi_type", "register_ffi_type_id",
]  # fmt: skip
